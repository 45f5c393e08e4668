/** The index of usage beside ledgers: what was read is counted once, whatever happens to the ledger or the index. */
import { QUANTITIES } from '../../../src/server/admin/resources/usage.ts'
import { copyFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import { openTables } from '../../../src/observe/usage/work.ts'
import { folder } from '../../_folder.ts'
import { LIMITS, NOON, open } from '../../state/sqlite/_engine.ts'
import { bookedBy, DAY_MS, openIndex, settle, type UsageQuery } from './_index.ts'

/** The index of a ledger's folder. */
function indexOf(ledgerFolder: string, tables: string) {
  const file = join(ledgerFolder, 'ledger.db')
  return openIndex({ driver: 'file', file, inode: statSync(file).ino }, tables)
}

async function paid() {
  const opened = await open()
  await opened.ledger.book({
    kind: 'top-up',
    account: 'acct',
    amount: 10n ** 13n,
    reference: 'first',
  })
  await opened.ledger.limits('acct', 'key', LIMITS, 1)
  return opened
}

describe('the index of usage', () => {
  it('counts every row once in each grouping, and equals the ledger', async () => {
    const { path, ledger } = await paid()
    const { check, usage, told } = await indexOf(path, await folder({}))
    let sum = 0n
    for (let i = 1; i <= 20; i++) {
      const cost = BigInt(i) * 1_000_000_000_000_007n
      sum += cost
      const at = NOON - (i % 3) * DAY_MS
      await settle(ledger, cost, { key: `key${i % 4}`, at, ...(i % 2 && { tag: 'batch' }) })
    }
    await ledger.book({
      kind: 'adjust',
      account: 'acct',
      amount: -5n,
      reference: 'a',
      note: 'test',
    })
    expect(await check()).toMatchObject({ agrees: true, indexed: 1, differences: [] })
    const groups: UsageQuery['group'][] = [
      [],
      ['key'],
      ['model', 'key'],
      ['outcome'],
      ['tag'],
      ['user'],
    ]
    for (const group of groups) {
      for (const rollup of ['hour', 'day', 'month'] as const) {
        if (rollup === 'hour' && (group.includes('tag') || group.includes('user'))) continue
        const { totals, cells } = usage(group, rollup)
        expect(totals).toMatchObject({ calls: 20, cost: sum })
        expect(cells.reduce((total, { cost }) => total + cost, 0n)).toBe(sum)
      }
    }
    const ofTags = usage(['tag', 'key']).cells.map(({ group }) => group[1])
    expect(new Set(ofTags)).toEqual(new Set(['key0', 'key1', 'key2', 'key3']))
    const { quantities } = usage(['key']).totals
    expect(quantities[QUANTITIES.indexOf('prompt_tokens')]).toBe(60)
    expect(quantities[QUANTITIES.indexOf('images')] ?? null).toBe(null)
    expect(told).toEqual([])
  })

  it('goes on where it was, also after a kill, and finds what was settled meanwhile', async () => {
    const { path, ledger } = await paid()
    const tables = await folder({})
    for (let i = 0; i < 8; i++) await settle(ledger, 10n)
    const first = await indexOf(path, tables)
    await first.check()
    // A copy of the files as a kill leaves them.
    const killed = await folder({})
    for (const part of ['usage.db', 'usage.db-wal'])
      copyFileSync(join(tables, part), join(killed, part))
    await first.close()
    for (let i = 0; i < 8; i++) await settle(ledger, 100n)
    const second = await indexOf(path, killed)
    expect(await second.check()).toMatchObject({ agrees: true })
    expect(second.usage().totals).toMatchObject({ calls: 16, cost: 880n })
    expect(second.told).toEqual([])
  })

  it('does not read rows that charges bring, and reads those that are missing', async () => {
    const { path, ledger } = await paid()
    const taken = bookedBy(ledger)
    await settle(ledger, 1n)
    const { index, check, usage, reads, told } = await indexOf(path, await folder({}))
    expect(await check()).toMatchObject({ agrees: true })
    taken()
    reads.length = 0
    for (let i = 0; i < 3; i++) {
      await settle(ledger, 10n, { key: `key${i}`, tag: 'batch' })
      await settle(ledger, 20n)
      index.book(taken())
    }
    expect(usage().totals).toMatchObject({ calls: 7, cost: 91n })
    expect(usage(['tag']).totals).toMatchObject({ calls: 7, cost: 91n })
    expect(await check()).toMatchObject({ agrees: true, indexed: 1 })
    expect(reads).toEqual([])
    // One is lost on its way, and a row that is no charge is between two others.
    await settle(ledger, 100n)
    taken()
    await settle(ledger, 200n)
    index.book(taken())
    await settle(ledger, 300n)
    await ledger.book({ kind: 'top-up', account: 'acct', amount: 5n, reference: 'second' })
    await settle(ledger, 400n)
    index.book(taken())
    expect(await check()).toMatchObject({ agrees: true, indexed: 1 })
    expect(usage().totals).toMatchObject({ calls: 11, cost: 1091n })
    expect(reads.length).toBeGreaterThan(0)
    expect(told).toEqual([])
  })

  it('counts a charge once that comes while its account is read', async () => {
    const { path, ledger } = await paid()
    const taken = bookedBy(ledger)
    const { index, check, usage, told } = await indexOf(path, await folder({}))
    for (let i = 0; i < 40; i++) {
      await settle(ledger, 7n, { account: `acct${i % 3}` })
      if (i % 2 === 0) index.note([`acct${i % 3}`])
      index.book(taken())
      if (i % 5 === 0) void check()
    }
    expect(await check()).toMatchObject({ agrees: true })
    expect(usage().totals).toMatchObject({ calls: 40, cost: 280n })
    expect(told).toEqual([])
  })

  it('reads an account again whose ledger was put back to an older copy', async () => {
    const { path, ledger } = await paid()
    for (let i = 0; i < 4; i++) await settle(ledger, 10n)
    await ledger.close()
    const copy = await folder({})
    copyFileSync(join(path, 'ledger.db'), join(copy, 'ledger.db'))
    const { ledger: later } = await open(path)
    for (let i = 0; i < 4; i++) await settle(later, 100n)
    const tables = await folder({})
    const first = await indexOf(path, tables)
    expect(await first.check()).toMatchObject({ agrees: true })
    await first.close()
    const { ledger: restored } = await open(copy)
    for (let i = 0; i < 5; i++) await settle(restored, 1000n)
    const second = await indexOf(copy, tables)
    expect(await second.check()).toMatchObject({ agrees: true, indexed: 1 })
    expect(second.usage().totals).toMatchObject({ calls: 9, cost: 5040n })
  })

  it('keeps the detail of what it read before it was folded, and has the rest as a sum', async () => {
    const { path, ledger } = await paid()
    const at = NOON - 5 * DAY_MS
    for (let i = 0; i < 6; i++) await settle(ledger, 10n, { at })
    await settle(ledger, 1n)
    const tables = await folder({})
    const first = await indexOf(path, tables)
    await first.check()
    expect(await ledger.fold(new Date(NOON - 3 * DAY_MS))).toBe(6)
    expect(await first.check()).toMatchObject({ agrees: true })
    expect(first.usage(['model']).cells.map(({ group }) => group)).toEqual([
      ['vendor/model'],
      ['vendor/model'],
    ])
    const fresh = await indexOf(path, await folder({}))
    expect(await fresh.check()).toMatchObject({ agrees: true })
    const cells = fresh
      .usage(['model'])
      .cells.map(({ group, calls, cost }) => [group[0], calls, cost])
    expect(cells).toEqual([
      ['(folded)', 6, 60n],
      ['vendor/model', 1, 1n],
    ])
    expect(fresh.usage(['tag']).totals.cost).toBe(61n)
  })

  it('reads what is settled after the newest rows were folded, also with a new process', async () => {
    const { path, ledger } = await paid()
    const at = NOON - 5 * DAY_MS
    for (let i = 0; i < 6; i++) await settle(ledger, 10n, { at })
    const { check, usage, told } = await indexOf(path, await folder({}))
    await check()
    expect(await ledger.fold(new Date(NOON))).toBe(6)
    await settle(ledger, 100n, { at })
    await check()
    expect(await ledger.fold(new Date(NOON))).toBe(1)
    await ledger.close()
    const { ledger: later } = await open(path)
    expect(later.health().ok).toBe(true)
    await settle(later, 1000n)
    expect(await check()).toMatchObject({ agrees: true })
    expect(usage().totals).toMatchObject({ calls: 8, cost: 1160n })
    expect(told).toEqual([])
  })

  it('tells a difference, and repairs it', async () => {
    const { path, ledger } = await paid()
    for (let i = 0; i < 4; i++) await settle(ledger, 10n)
    await settle(ledger, 3n, { account: 'other' })
    const tables = await folder({})
    const first = await indexOf(path, tables)
    await first.check()
    await first.close()
    const db = new DatabaseSync(join(tables, 'usage.db'))
    db.exec('UPDATE settled_day SET rest = rest + 7 WHERE rest = 40')
    db.close()
    const second = await indexOf(path, tables)
    expect(await second.check()).toMatchObject({ agrees: true })
    expect(second.told).toMatchObject([
      { account: 'acct', key: 'key', indexed: 47n, ledger: 40n },
      { account: 'acct' },
    ])
    for (const group of [[], ['model'], ['key']] as const) {
      expect(second.usage(group).totals).toMatchObject({ calls: 5, cost: 43n })
    }
  })

  it('says what differs where the ledger itself does', async () => {
    const { path, ledger } = await paid()
    await settle(ledger, 10n)
    await ledger.close()
    const db = new DatabaseSync(join(path, 'ledger.db'))
    db.exec(`UPDATE spend SET pico = pico + 3 WHERE window = 'lifetime'`)
    db.close()
    const { check } = await indexOf(path, await folder({}))
    expect(await check()).toMatchObject({
      agrees: false,
      differences: [{ account: 'acct', key: 'key', indexed: 10n, ledger: 13n }],
    })
  })

  it('gives each gateway of a folder a file of its own', async () => {
    const tables = await folder({})
    const one = openTables(tables)
    const other = openTables(tables)
    other.close()
    one.close()
    expect(statSync(join(tables, 'usage-2.db')).mode & 0o777).toBe(0o600)
    rmSync(join(tables, 'usage.db'))
    openTables(tables).close()
  })
})
