/** Adds ended calls to the tables of circumstances: statuses, refusals, times. They may miss calls. */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { transact } from '../../state/sqlite/file.ts'
import { timeOf } from '../../state/ids.ts'
import type { KnownCall } from '../record.ts'
import { Rollups } from './rollups.ts'
import {
  BOUNDS,
  CALLED,
  CALLED_OVERALL,
  CALLED_SUMS,
  FIRST_BUCKETS,
  TOTAL_BUCKETS,
  unitOf,
} from './tables.ts'

/** Groups of the tables, and their values in a call. */
const GROUPS: Readonly<Record<string, (call: KnownCall) => string | undefined>> = {
  account: ({ account_id }) => account_id,
  key: ({ key_id }) => key_id,
  model: ({ model }) => model,
  endpoint: ({ endpoint }) => endpoint,
  code: ({ code }) => code,
  limited_by: ({ limited_by }) => limited_by,
}

export class CalledTables {
  readonly #db: DatabaseSync
  readonly #rollups: readonly { readonly groups: readonly string[]; readonly to: Rollups }[]
  readonly #decide: StatementSync
  readonly #fail: StatementSync

  constructor(db: DatabaseSync) {
    this.#db = db
    const added = (name: string) => `${name} = ${name} + excluded.${name}`
    const options = { values: CALLED_SUMS, added }
    this.#rollups = [CALLED, CALLED_OVERALL].map((tables) => ({
      groups: tables.groups,
      to: new Rollups(db, tables, options),
    }))
    this.#decide = db.prepare(
      `INSERT INTO decided (day, account, key, rule, mode, side, outcome, calls)
       VALUES (?, ?, ?, ?, ?, ?, ?, 1) ON CONFLICT DO UPDATE SET calls = calls + 1`,
    )
    this.#fail = db.prepare(
      `INSERT INTO failed (unit, model, deployment, class, attempts)
       VALUES (?, ?, ?, ?, 1) ON CONFLICT DO UPDATE SET attempts = attempts + 1`,
    )
  }

  /** @param calls those without a valid key are left out @param mark a write that is stored together with them */
  add(calls: readonly KnownCall[], mark?: () => void): void {
    const charged = calls.filter(({ key_id }) => key_id !== undefined)
    if (charged.length === 0 && !mark) return
    transact(this.#db, () => {
      this.#addSums(charged)
      this.#addDecided(charged)
      this.#addFailed(charged)
      mark?.()
    })
  }

  /** Moment of the first call, ms since epoch; undefined without one. */
  since(): number | undefined {
    const { unit } = this.#db.prepare('SELECT min(unit) AS unit FROM called_hour').get()!
    return unit === null ? undefined : Number(unit) * 3_600_000
  }

  #addSums(calls: readonly KnownCall[]): void {
    for (const { groups, to } of this.#rollups) {
      const groupOf = (call: KnownCall) => groups.map((name) => GROUPS[name]!(call) ?? '')
      const nameOf = (call: KnownCall) =>
        [unitOf('hour', momentOf(call)), ...groupOf(call)].join('\t')
      for (const ofGroup of Map.groupBy(calls, nameOf).values()) {
        const [first] = ofGroup
        to.add(momentOf(first!), groupOf(first!), sumsOf(ofGroup))
      }
    }
  }

  #addDecided(calls: readonly KnownCall[]): void {
    for (const call of calls) {
      const { account_id: account = '', key_id: key = '', decided = [] } = call
      for (const { rule, mode, side, outcome } of decided) {
        const day = unitOf('day', momentOf(call))
        this.#decide.run(day, account, key, rule, mode, side, outcome)
      }
    }
  }

  #addFailed(calls: readonly KnownCall[]): void {
    for (const call of calls) {
      for (const { deployment, result } of call.attempts ?? []) {
        if (result === 'ok') continue
        const hour = unitOf('hour', momentOf(call))
        this.#fail.run(hour, call.model ?? '', deployment, result)
      }
    }
  }
}

function momentOf({ id }: KnownCall): number {
  return timeOf(id.slice(4))
}

/** Sums in the order of {@link CALLED_SUMS}. */
function sumsOf(calls: readonly KnownCall[]): number[] {
  const sums = new Map(CALLED_SUMS.map((name) => [name, 0]))
  const count = (name: string) => sums.set(name, sums.get(name)! + 1)
  for (const { limited_by, outcome, guard, status, times } of calls) {
    count('calls')
    if (limited_by !== undefined) count('refused')
    else if (outcome === 'failed') count('errors')
    if (guard?.outcome === 'blocked') count('blocked')
    // Times of calls that were refused at once would hide those of the others.
    if (status !== 200 || !times) continue
    count(TOTAL_BUCKETS[bucketOf(times.total_ms)]!)
    if (times.first_ms !== undefined) count(FIRST_BUCKETS[bucketOf(times.first_ms)]!)
  }
  return [...sums.values()]
}

function bucketOf(ms: number): number {
  const bucket = BOUNDS.findIndex((bound) => ms <= bound)
  return bucket < 0 ? BOUNDS.length : bucket
}
