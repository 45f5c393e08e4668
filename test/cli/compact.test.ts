/** `ledger compact`: the file of a ledger shrinks. */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, it } from 'vitest'
import { folder } from '../_folder.ts'
import { open, openPaid, settlement, USAGE } from '../state/sqlite/_engine.ts'
import * as cli from '../_cli.ts'

const DAY_MS = 86_400_000

it('folds what is old, shrinks the file, and changes no sum', async () => {
  const cwd = await folder({ 'gateway.config.yaml': 'state: { driver: file }\n' })
  const path = join(cwd, 'data')
  let now = Date.now() - 40 * DAY_MS
  const first = await openPaid(path, () => now)
  for (; now < Date.now() - DAY_MS / 2; now += DAY_MS) {
    const day = new Date(now).toJSON().slice(0, 10).replaceAll('-', '')
    const calls = Array.from({ length: 100 }, (_, i) => settlement(`req_${now}_${i}`, 3n, day))
    const usage = { ...USAGE, at: now }
    await Promise.all(calls.map((call) => first.ledger.settle({ ...call, usage })))
  }
  await first.ledger.close()
  const size = statSync(join(path, 'ledger.db')).size
  const before = new Date(Date.now() - 7 * DAY_MS).toJSON().slice(0, 10)
  const wrong = await cli.call(['ledger', 'compact', '--before', '1 May'], { cwd })
  expect([wrong.code, wrong.err]).toEqual([
    1,
    '--before 1 May: expected a day such as 2026-11-28.\n',
  ])
  const compact = ['ledger', 'compact', '--before', before]
  const unasked = await cli.call(compact, { cwd })
  expect([unasked.code, unasked.err]).toEqual([2, expect.stringContaining('needs --yes')])
  const { code, out, err } = await cli.call([...compact, '--yes'], { cwd })
  expect([code, err]).toEqual([0, ''])
  expect(out).toMatch(
    /^Folded 3[12]00 rows\. The ledger takes [\d.]+ MiB before, [\d.]+ MiB now\.\n$/,
  )
  expect(statSync(join(path, 'ledger.db')).size).toBeLessThan(size * 0.6)
  expect(statSync(join(path, 'archive')).isDirectory()).toBe(true)
  const db = new DatabaseSync(join(path, 'ledger.db'))
  const { windows } = db.prepare(`SELECT count(DISTINCT window) AS windows FROM spend`).get()!
  db.close()
  // The lifetime, four days and up to three months.
  expect(Number(windows)).toBeLessThanOrEqual(8)
  const { ledger } = await open(path, () => Date.now())
  expect(await ledger.key('acct', 'key')).toMatchObject({ lifetime: 12_000n })
  expect(await ledger.verify()).toEqual([])
})
