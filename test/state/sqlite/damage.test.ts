/** Random bytes of a ledger's file are flipped while no gateway runs. */
import { statSync } from 'node:fs'
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import { ConfigError } from '../../../src/errors/errors.ts'
import { checkPages } from '../../../src/state/sqlite/worker-client.ts'
import { folder } from '../../_folder.ts'
import { runs } from '../../_runs.ts'
import { KEY, LIMITS, open, openPaid, settlement } from './_engine.ts'
import { SEED } from '../../_seed.ts'

const ROUNDS = runs(3)
const ACCOUNTS = Array.from({ length: 5 }, (_, i) => `acct${i}`)
const { signal } = new AbortController()

/** https://en.wikipedia.org/wiki/Linear_congruential_generator, with the constants of Numerical Recipes */
function randomFrom(seed: number): (below: number) => number {
  let state = seed >>> 0
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

/** The file of a ledger with a few hundred rows, and its balances. */
async function ledgerFile(): Promise<{ file: string; balances: Map<string, bigint> }> {
  const { ledger, path } = await open()
  const balances = new Map<string, bigint>()
  for (const account of ACCOUNTS) {
    await ledger.book({ kind: 'top-up', account, amount: 10n ** 12n, reference: 'first' })
    const costs = Array.from({ length: 80 }, (_, i) => BigInt(i * 7 + 1))
    await Promise.all(
      costs.map((cost, i) =>
        ledger.settle({ ...settlement(`req_${account}_${i}`, cost), account }),
      ),
    )
    balances.set(account, (await ledger.account(account)).balance)
  }
  await ledger.close()
  return { file: join(path, 'ledger.db'), balances }
}

it('a value of another type is damage, and is told so at the start', async () => {
  const { file } = await ledgerFile()
  const db = new DatabaseSync(file)
  db.enableDefensive(false)
  db.exec(`PRAGMA writable_schema = ON;
    UPDATE sqlite_schema SET sql = replace(replace(sql, 'STRICT,', ''), 'INTEGER', 'ANY') WHERE name = 'account'`)
  db.close()
  const wrong = new DatabaseSync(file)
  wrong.exec("UPDATE account SET usd = 'x'")
  wrong.close()
  const opened = await open(dirname(file)).catch((error: unknown) => error)
  expect(opened).toBeInstanceOf(ConfigError)
  expect((opened as ConfigError).issues[0]!.message).toContain(`${file} is damaged`)
})

it('a sum with a part that cannot be keeps no account from its calls, and is a discrepancy', async () => {
  const { file, balances } = await ledgerFile()
  const db = new DatabaseSync(file)
  db.exec(`PRAGMA ignore_check_constraints = ON;
    UPDATE spend SET usd = 0, pico = -1864 WHERE account = 'acct0' AND window = 'lifetime'`)
  db.close()
  const { ledger } = await open(dirname(file))
  expect((await ledger.account('acct0')).balance).toBe(balances.get('acct0'))
  expect((await ledger.verify()).map(({ account }) => account)).toContain('acct0')
})

it('limits that cannot be read keep no account from its calls, and are given again', async () => {
  const { path, ledger: first } = await openPaid()
  await first.close()
  const file = new DatabaseSync(join(path, 'ledger.db'))
  file.exec("UPDATE limits SET list = 'cap.day,x' WHERE key = 'key'")
  file.close()
  const { ledger } = await open(path)
  expect((await ledger.account('acct')).balance).toBe(10n ** 13n)
  // What the first call of a key does in each process.
  const limits = { ...LIMITS, rpm: 1 }
  await ledger.limits('acct', 'key', limits, 1)
  const entry = { ...KEY, revision: 1, freeTier: { rpm: 1, concurrency: 1 } }
  expect(ledger.enter({ ...entry, request: 'req_1' })).toMatchObject({ ok: true, paid: true })
  expect(ledger.enter({ ...entry, request: 'req_2' })).toMatchObject({ ok: false, why: 'rpm' })
  await ledger.close()
  const again = await open(path)
  expect(again.ledger.enter({ ...entry, request: 'req_3' })).toMatchObject({ rate: { limit: 1 } })
})

describe.each([1, 16, 256])('%i flipped bytes', (count) => {
  it('never leave a wrong balance without an alarm', async () => {
    const { file, balances } = await ledgerFile()
    const random = randomFrom(SEED + count)
    const seen = { refused: 0, damaged: 0, discrepancies: 0, unseen: 0, wrong: 0 }
    const parent = await folder({})
    for (let round = 0; round < ROUNDS; round++) {
      const path = join(parent, String(round))
      await mkdir(path)
      const target = join(path, 'ledger.db')
      await copyFile(file, target)
      const bytes = await readFile(target)
      for (let i = 0; i < count; i++) bytes[random(bytes.length)]! ^= 1 + random(255)
      await writeFile(target, bytes)
      const opened = await open(path).catch((error: unknown) => error)
      if (opened instanceof Error) {
        // A sentence that names the file, and no gateway.
        expect(opened).toBeInstanceOf(ConfigError)
        expect((opened as ConfigError).issues[0]!.message).toContain(target)
        seen.refused++
        continue
      }
      const { ledger } = opened as Awaited<ReturnType<typeof open>>
      const served = await Promise.all(
        ACCOUNTS.map(async (account) => (await ledger.account(account)).balance),
      )
      const wrong = served.some((balance, i) => balance !== balances.get(ACCOUNTS[i]!))
      // What the maintenance of every start does.
      const damage = await checkPages(target, statSync(target).ino, signal)
      const found = damage === undefined ? await ledger.verify().catch(() => undefined) : undefined
      const alarm = damage !== undefined || found === undefined || found.length > 0
      if (wrong) seen.wrong++
      if (damage !== undefined || found === undefined) seen.damaged++
      else if (found.length > 0) seen.discrepancies++
      else seen.unseen++
      expect([SEED, round, wrong && !alarm]).toEqual([SEED, round, false])
      await ledger.close().catch(() => {})
    }
    if (process.env.RUNS_TIMES) process.stdout.write(`${count}: ${JSON.stringify(seen)}\n`)
  })
})
