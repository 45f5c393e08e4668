/** Chains of rows: what was noted in a seal or by an index proves that no row before it was changed. */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { beginChain, chained, rootOf, type NotedPoint } from '../../../src/state/ledger/chain.ts'
import type { ChainPoint, Ledger, LedgerItem } from '../../../src/state/ledger/ledger.ts'
import { Seals } from '../../../src/observe/usage/seals.ts'
import { folder } from '../../_folder.ts'
import { runs } from '../../_runs.ts'
import { hasRedis } from '../../state/redis/_redis.ts'
import * as redis from '../../state/redis/_engine.ts'
import { NOON, open, openInMemory, USAGE } from '../../state/sqlite/_engine.ts'
import { bookedBy, openIndex, settle } from './_index.ts'

const sourceOf = (path: string) => ({ driver: 'file', file: join(path, 'ledger.db') }) as const

/** Twelve rows of one account: bookings of both kinds, and calls. */
async function fill(ledger: Ledger): Promise<void> {
  const account = 'acct'
  await ledger.book({
    kind: 'top-up',
    account,
    amount: 5n,
    reference: 'a',
    note: 'first',
    actor: 'token:tok_1',
  })
  for (let i = 0; i < 9; i++) await settle(ledger, BigInt(i), { tag: `tag${i}` })
  await ledger.book({
    kind: 'adjust',
    account,
    amount: -7n,
    reference: 'b',
    note: 'wrong',
    actor: 'gateway',
  })
  await ledger.book({ kind: 'top-up', account: 'other', amount: 1n, reference: 'c' })
}

async function itemsOf(ledger: Ledger): Promise<LedgerItem[]> {
  const items: LedgerItem[] = []
  for await (const item of ledger.export()) items.push(item)
  return items
}

/** Chains by account, as an export gives them. */
function chainsOf(items: readonly LedgerItem[]): ReadonlyMap<string, ChainPoint> {
  const chains = new Map<string, ChainPoint>()
  for (const item of items) {
    if (item.kind !== 'base' && !('request' in item)) continue
    const at = chains.get(item.account) ?? beginChain(item.account)
    chains.set(item.account, item.kind === 'base' ? item : chained(at, item))
  }
  return chains
}

function plain(points: Iterable<readonly [string, ChainPoint]>) {
  return Object.fromEntries([...points].map(([account, { n, chain }]) => [account, { n, chain }]))
}

describe('the chain of an account', () => {
  it('is the same whether rows are brought or read, and continues after a restart', async () => {
    const { path, ledger } = await open()
    const source = { ...sourceOf(path), inode: inodeOf(path) }
    const [first, second] = [await folder({}), await folder({})]
    const bringing = await openIndex(source, first)
    const taken = bookedBy(ledger)
    await fill(ledger)
    bringing.index.book(taken())
    await bringing.check()
    const reading = await openIndex(source, second)
    await reading.check()
    const expected = plain(chainsOf(await itemsOf(ledger)))
    expect(expected.acct?.n).toBe(11)
    expect(plain(bringing.proof.chains(0))).toEqual(expected)
    expect(plain(reading.proof.chains(0))).toEqual(expected)
    await reading.close()
    await settle(ledger, 3n)
    const again = await openIndex(source, second)
    await again.check()
    expect(plain(again.proof.chains(0))).toEqual(plain(chainsOf(await itemsOf(ledger))))
  })

  it('names account, interval and number of rows where a column was changed, or a row is gone, new or moved', async () => {
    const { path, ledger } = await open()
    const source = { ...sourceOf(path), inode: inodeOf(path) }
    const { proof, check } = await openIndex(source, await folder({}))
    await fill(ledger)
    await check()
    const items = (await itemsOf(ledger)).filter(
      (item) => item.account === 'acct' && 'request' in item,
    )
    const at = (n: number) => chainsOf(items.slice(0, n)).get('acct')!
    const seals = new Map<string, readonly NotedPoint[]>([
      [
        'acct',
        [
          { where: '202604', ...at(4) },
          { where: '202605', ...at(8) },
        ],
      ],
    ])
    expect(await proof.checkChains(seals)).toEqual({ accounts: 2, rows: 12, faults: [] })
    const db = new DatabaseSync(join(path, 'ledger.db'))
    const rows = db.prepare(`SELECT * FROM usage WHERE account = 'acct' ORDER BY seq`).all()
    const columns = ['kind', 'request', 'key', 'day', 'at', 'cost', 'actor', 'body']
    const faultAfter = async (change: () => void) => {
      change()
      const { faults } = await proof.checkChains(seals)
      db.exec('BEGIN; DELETE FROM usage')
      for (const row of all) put(row)
      db.exec('COMMIT')
      return faults
    }
    const all = db.prepare('SELECT * FROM usage').all()
    const put = (row: Record<string, SQLInputValue>) => {
      const names = Object.keys(row)
      const marks = names.map(() => '?').join(', ')
      db.prepare(`INSERT INTO usage (${names.join(', ')}) VALUES (${marks})`).run(
        ...Object.values(row),
      )
    }
    const intervalOf = (i: number) =>
      i < 4 ? ['begin', '202604'] : i < 8 ? ['202604', '202605'] : ['202605', 'index']
    for (const [i, row] of rows.entries()) {
      for (const column of columns) {
        const value = row[column]
        const other =
          column === 'body'
            ? String(value).replace(/first|wrong|tag\d/, 'x')
            : typeof value === 'number'
              ? value + 1
              : `${value ?? ''}x`
        const faults = await faultAfter(() =>
          db.prepare(`UPDATE usage SET ${column} = ? WHERE seq = ?`).run(other, row.seq!),
        )
        const [after, before] = intervalOf(i)
        expect(faults, `${column} of row ${i}`).toMatchObject([
          {
            account: 'acct',
            after: { where: after },
            before: { where: before },
            rows: i < 8 ? 4 : 3,
          },
        ])
      }
      const gone = await faultAfter(() =>
        db.prepare('DELETE FROM usage WHERE seq = ?').run(row.seq!),
      )
      expect(gone, `row ${i} gone`).toMatchObject([{ after: { where: intervalOf(i)[0] } }])
    }
    const [fifth, sixth] = [rows[4]!, rows[5]!]
    const moved = await faultAfter(() => {
      db.prepare('DELETE FROM usage WHERE seq IN (?, ?)').run(fifth.seq!, sixth.seq!)
      put({ ...fifth, seq: sixth.seq! })
      put({ ...sixth, seq: fifth.seq! })
    })
    expect(moved).toMatchObject([{ after: { where: '202604' }, rows: 4 }])
    const added = await faultAfter(() => put({ ...sixth, request: 'req_new', seq: 1000 }))
    // It is after all that was noted.
    expect(added).toEqual([])
    db.close()
  })

  it('is the same in both engines, and after export and import', async () => {
    const operations = fc.array(
      fc.record({
        what: fc.constantFrom('call', 'credit', 'adjust'),
        account: fc.constantFrom('a', 'b'),
        amount: fc.bigInt(1n, 4n * 10n ** 18n),
        text: fc.string({ minLength: 1 }),
        actor: fc.option(fc.constantFrom('token:tok_1', 'payments:stripe', 'gateway'), {
          nil: undefined,
        }),
      }),
      { maxLength: 12 },
    )
    const [first, second] = [openInMemory().ledger, openInMemory().ledger]
    const targets: Ledger[] = [second]
    if (hasRedis()) targets.push((await redis.open((await redis.sharedServer()).url)).ledger)
    let run = 0
    await fc.assert(
      fc.asyncProperty(operations, async (all) => {
        run++
        const ofRun = async (ledger: Ledger) =>
          (await itemsOf(ledger)).filter(({ account }) => account.endsWith(`_${run}`))
        for (const [i, { what, account: name, amount, text, actor }] of all.entries()) {
          const account = `${name}_${run}`
          const booking = { account, amount, reference: `${i}`, ...(actor && { actor }) }
          if (what === 'credit') await first.book({ kind: 'top-up', ...booking, note: text })
          if (what === 'adjust') await first.book({ kind: 'adjust', ...booking, note: text })
          if (what !== 'call') continue
          const usage = { ...USAGE, tag: text, reported: { west: { [text]: [1.5, text] } } }
          const call = { request: `req_${run}_${i}`, account, key: 'k', day: '20260515' }
          await first.settle({ ...call, cost: amount, usage })
        }
        const items = await ofRun(first)
        const expected = plain(chainsOf(items))
        for (const target of targets) {
          expect(await target.import(items)).toMatchObject({ stored: items.length })
          expect(plain(chainsOf(await ofRun(target)))).toEqual(expected)
        }
      }),
      { numRuns: runs(15) },
    )
  })

  it('is noted as a seal once a month, with a root over all accounts', async () => {
    const { path, ledger, records, audit } = await open()
    await fill(ledger)
    const source = { ...sourceOf(path), inode: inodeOf(path) }
    const { proof, check } = await openIndex(source, await folder({}))
    await check()
    const ask = (async (_: 'chains', month: number) =>
      proof.chains(new Date(month).getUTCFullYear() * 12 + new Date(month).getUTCMonth())) as never
    const told: string[] = []
    const seals = (now: number) =>
      new Seals({
        records,
        audit,
        usage: () => ({ ask }),
        gateway: 'gw_1',
        sealed: (message) => void told.push(message),
        failed: (error) => {
          throw error
        },
        now: () => now,
      })
    // In the month of the rows itself, and too late in the next one.
    await seals(NOON).seal()
    await seals(Date.UTC(2026, 5, 9)).seal()
    expect(told).toEqual([])
    const first = Date.UTC(2026, 5, 1, 1)
    await Promise.all([seals(first).seal(), seals(first).seal()])
    await seals(first + 3_600_000).seal()
    const root = rootOf(proof.chains(0))
    expect(told).toEqual([`the ledger of 2026-05 is sealed: ${root}`])
    expect(await records.get('seal:acct:202605')).toEqual(
      chainsOf(await itemsOf(ledger)).get('acct'),
    )
    expect(await audit.list({ action: 'ledger.seal' }, undefined, 9)).toMatchObject([
      { actor: 'gateway', object: 'month:202605', changes: { root: { after: root } } },
    ])
  })
})

function inodeOf(path: string): number {
  return statSync(join(path, 'ledger.db')).ino
}
