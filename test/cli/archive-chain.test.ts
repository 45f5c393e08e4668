/** `ledger verify --chain --archive`: rows that were folded since are proved by their archive. */
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { zstdCompressSync } from 'node:zlib'
import { expect, it } from 'vitest'
import { checkArchive } from '../../src/cli/archive/chain.ts'
import { Archive, readArchive } from '../../src/state/ledger/archive.ts'
import { beginChain, chained } from '../../src/state/ledger/chain.ts'
import type { Ledger } from '../../src/state/ledger/ledger.ts'
import { foldInto } from '../../src/state/ledger/maintenance.ts'
import { folder } from '../_folder.ts'
import { hasRedis } from '../state/redis/_redis.ts'
import * as redis from '../state/redis/_engine.ts'
import { collect, NOON, openPaid, settlement, USAGE } from '../state/sqlite/_engine.ts'

const DAY_MS = 86_400_000
const NO_LOG = { info() {} } as never

/** Calls of three months, whose order is not that of their days at the boundaries of months. */
async function fill(ledger: Ledger): Promise<void> {
  for (let i = 0; i < 60; i++) {
    const at = NOON - (110 - i - (i % 7)) * DAY_MS
    const day = new Date(at).toJSON().slice(0, 10).replaceAll('-', '')
    await ledger.settle({ ...settlement(`req_${i}`, BigInt(i), day), usage: { ...USAGE, at } })
    if (i % 20 === 5)
      await ledger.book({ kind: 'top-up', account: 'acct', amount: 9n, reference: `more ${i}` })
  }
}

/** A folded ledger with its archive, the seals of the time before, and where its folded rows end. */
async function folded(ledger: Ledger) {
  await fill(ledger)
  const points = [beginChain('acct') as { n: number; chain: string }]
  for (const item of await collect(ledger.export())) {
    if ('request' in item) points.push(chained(points.at(-1)!, item))
  }
  const path = join(await folder({}), 'archive')
  const settings = { folder: path, keepDays: 4000, sizeBytes: 2 ** 30, release: '1', log: NO_LOG }
  expect(await foldInto(new Archive(settings), ledger, new Date(NOON))).toBe(60)
  const items = await collect(ledger.export())
  const bases = items.flatMap((item) =>
    item.kind === 'base' ? [{ account_id: item.account, n: item.n, chain: item.chain }] : [],
  )
  const sealAt = (month: string, n: number) => ({ account_id: 'acct', month, ...points[n]! })
  return { path, bases, seals: [sealAt('2026-02', 20), sealAt('2026-03', 50)] }
}

/** Writes the files of an archive anew, with other lines. */
async function rewrite(path: string, change: (line: string) => readonly string[]): Promise<void> {
  const names = (await readdir(path)).sort()
  const files = await collect(readArchive(path))
  for (const [i, lines] of files.entries()) {
    const frame = zstdCompressSync(`${lines.flatMap(change).join('\n')}\n`)
    const mark = (await readFile(join(path, names[i]!))).subarray(0, 12)
    mark.writeUInt32LE(frame.length, 8)
    await writeFile(join(path, names[i]!), Buffer.concat([mark, frame]))
  }
}

/** A ledger that was paid into before its calls. */
async function openPaidEarly() {
  let now = NOON - 130 * DAY_MS
  const opened = await openPaid(undefined, () => now)
  now = NOON
  return opened
}

const engines = ['file', ...(hasRedis() ? ['redis'] : [])]

it.each(engines)('names account, interval and number of rows, with state %s', async (engine) => {
  const opened =
    engine === 'file' ? await openPaidEarly() : await redis.open((await redis.sharedServer()).url)
  const { path, bases, seals } = await folded(opened.ledger)
  const check = () => checkArchive(path, seals, bases)
  const { n } = bases[0]!
  const whole = { rows: n, unproven: 0, faults: [] }
  expect(await check()).toEqual(whole)
  // A kill between the archive and the fold leaves rows twice.
  await rewrite(path, (line) => (line.includes('req_9"') ? [line, line] : [line]))
  expect(await check()).toEqual(whole)

  await rewrite(path, (line) => [
    line.replace(/"request":"req_30"(.*)"completed"/, '"request":"req_30"$1"failed"'),
  ])
  const place = (at: string, rows: number) => ({ at, rows })
  expect((await check()).faults).toEqual([
    { account_id: 'acct', after: place('2026-02', 20), before: place('2026-03', 50), rows: 30 },
  ])
  await rewrite(path, (line) => (line.includes('req_3"') ? [] : [line]))
  expect((await check()).faults).toMatchObject([
    { after: place('begin', 0), before: place('2026-02', 20) },
  ])
})

it('begins with a seal where the oldest file is gone', async () => {
  const { ledger } = await openPaidEarly()
  const { path, bases, seals } = await folded(ledger)
  const [oldest] = (await readdir(path)).sort()
  await rm(join(path, oldest!))
  const { rows, unproven, faults } = await checkArchive(path, seals, bases)
  expect(faults).toEqual([])
  expect([20, 50]).toContain(unproven)
  expect(rows + unproven).toBe(bases[0]!.n)
})

it('refuses rows without a number', async () => {
  const { ledger } = await openPaidEarly()
  const { path, bases, seals } = await folded(ledger)
  await rewrite(path, (line) => [line.replace(/,"n":\d+,"optional":\["n"\]/, '')])
  await expect(checkArchive(path, seals, bases)).rejects.toThrow('its rows have no numbers')
})
