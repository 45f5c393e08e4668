/** Answers that keep few of many groups apart are those of all groups. */
import { QUANTITIES } from '../../../src/server/admin/resources/usage.ts'
import type { DatabaseSync } from 'node:sqlite'
import { expect, it, onTestFinished } from 'vitest'
import { CalledTables } from '../../../src/observe/usage/called.ts'
import {
  answerUsage,
  type UsageAnswer,
  ranked,
  type UsageQuery,
} from '../../../src/observe/usage/query.ts'
import { SettledTables } from '../../../src/observe/usage/settled.ts'
import type { Metric, UsageCell } from '../../../src/observe/usage/sums.ts'
import { EARNED_SUMS } from '../../../src/observe/usage/tables.ts'
import { openTables } from '../../../src/observe/usage/work.ts'
import { folder } from '../../_folder.ts'
import { NOON, USAGE } from '../../state/sqlite/_engine.ts'
import { callAt } from '../_calls.ts'
import { DAY_MS } from './_index.ts'

const KEYS = 60

/** Tables of calls of many keys in six weeks, some of which were refused. */
function tablesOfMany(path?: string) {
  const { db, close } = openTables(path)
  const [settled, called] = [new SettledTables(db), new CalledTables(db)]
  for (let i = 0; i < 900; i++) {
    const at = NOON - (i % 42) * DAY_MS
    const key = `key${(i * 7) % KEYS}`
    const model = `vendor/model-${i % 3}`
    const isRefused = i % 11 === 0
    called.add([
      callAt(at, {
        key_id: key,
        model,
        account_id: 'acct',
        times: { total_ms: i },
        ...(isRefused && { status: 429, code: 'rate_limited', limited_by: 'key.rpm' }),
      }),
    ])
    if (isRefused) continue
    const day = new Date(at).toISOString().slice(0, 10).replaceAll('-', '')
    const cost = BigInt(i * i) * 1_000_000_007n
    const usage = { ...USAGE, model, at, ...(i % 2 && { lines: [] }) }
    settled.add('acct', [{ seq: i, kind: 'usage', request: `req_${i}`, key, day, at, cost, usage }])
  }
  return { db, close }
}

/** Sums of what was never reported may end early. */
function filled(cell: UsageCell): UsageCell {
  return { ...cell, quantities: QUANTITIES.map((_, i) => cell.quantities[i] ?? null) }
}

it('keeps few of many groups apart as if it had read all of them', () => {
  const { db, close } = tablesOfMany()
  onTestFinished(close)
  const ask = (query: Partial<UsageQuery>) =>
    answerUsage(
      db,
      {
        from: NOON - 40 * DAY_MS,
        to: NOON + DAY_MS,
        rollup: 'day',
        group: ['key'],
        filters: {},
        metric: 'cost_usd',
        top: 1000,
        ...query,
      },
      NOON,
    ) as UsageAnswer
  const before = { from: NOON - 90 * DAY_MS, to: NOON - 60 * DAY_MS }
  expect(ask({ ...before, top: 5 })).toMatchObject({ cells: [], other: [], totals: { calls: 0 } })
  for (const rollup of ['hour', 'day', 'month'] as const) {
    expect(ask({ rollup, top: Infinity })).toEqual(ask({ rollup }))
    for (const group of [['key'], ['key', 'model'], ['model', 'key']] as const) {
      for (const filters of [{}, { model: ['vendor/model-1'] }, { key: ['key7', 'key14'] }]) {
        const all = ask({ rollup, group, filters })
        for (const metric of ['cost_usd', 'calls', 'prompt_tokens', 'refused'] as Metric[]) {
          const few = ask({ rollup, group, filters, metric, top: 5 })
          expect(few.totals).toEqual(all.totals)
          // Of equal groups either is kept apart; no two costs are equal.
          if (metric !== 'cost_usd') continue
          const expected = ranked(all.cells, { metric, top: 5 })
          expect(few.cells).toEqual(expected.cells)
          expect(few.other.map(filled)).toEqual(expected.other.map(filled))
        }
      }
    }
  }
})

it('adds the sums of all accounts up in a file of version 1, which has none', async () => {
  const path = await folder({})
  const first = tablesOfMany(path)
  const ask = (db: DatabaseSync, group: UsageQuery['group']) => {
    const from = NOON - 50 * DAY_MS
    const of = group[0] === 'tag' || group[0] === 'user' ? 'month' : 'day'
    const range = { from, to: NOON + DAY_MS, rollup: of } as const
    return answerUsage(db, { ...range, group, filters: {}, metric: 'cost_usd', top: 9 }, NOON)
  }
  const groups = [
    [],
    ['model'],
    ['limit'],
    ['endpoint', 'outcome'],
    ['account'],
    ['account', 'model'],
    ['key'],
    ['tag'],
    ['user', 'key'],
  ] as const
  const expected = groups.map((group) => ask(first.db, group))
  for (const name of ['settled', 'called']) {
    for (const table of ['hour', 'day', 'group'])
      first.db.exec(`DROP TABLE ${name}_overall_${table}`)
  }
  for (const name of ['settled_account', 'settled_account_model', 'settled_key', 'called_key']) {
    for (const table of ['day', 'month', 'group']) first.db.exec(`DROP TABLE ${name}_${table}`)
  }
  first.db.exec('DROP TABLE tagged_month')
  for (const table of ['settled_hour', 'settled_day', 'settled_month', 'tagged']) {
    first.db.exec(`UPDATE ${table} SET rest = billions * 1000000000 + rest;
      ALTER TABLE ${table} DROP COLUMN billions; ALTER TABLE ${table} RENAME COLUMN rest TO cost`)
  }
  for (const name of ['cached_tokens', 'cache_write_tokens', 'reasoning_tokens']) {
    first.db.exec(`ALTER TABLE tagged DROP COLUMN ${name}`)
  }
  const sets = ['settled_hour', 'settled_day', 'settled_month', 'tagged']
  for (const table of sets) {
    for (const column of EARNED_SUMS) first.db.exec(`ALTER TABLE ${table} DROP COLUMN ${column}`)
  }
  for (const column of ['n', 'chain', 'after', 'month', 'blocks'])
    first.db.exec(`ALTER TABLE progress DROP COLUMN ${column}`)
  first.db.exec(`ALTER TABLE booking DROP COLUMN actor; ALTER TABLE booking DROP COLUMN expires;
    ALTER TABLE booking DROP COLUMN details; ALTER TABLE booking DROP COLUMN promotional;
    ALTER TABLE booking DROP COLUMN balance;
    DROP TABLE noted;
    PRAGMA user_version = 1`)
  first.close()
  const { db, close } = openTables(path)
  onTestFinished(close)
  expect(groups.map((group) => ask(db, group))).toEqual(expected)
})
