/** Adds ended calls to the tables of circumstances: statuses, refusals, times. They may miss calls. */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { transact } from '../../state/sqlite/file.ts'
import { timeOf } from '../../state/ids.ts'
import { FIELDS, readAttempts, readDecided } from '../record.ts'
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

/** Where a field is in a line of the request log. */
const PLACES = new Map(FIELDS.map(({ name }, i) => [name, i]))

/** Writes the tables of circumstances. */
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

  /**
   * @param lines of the request log, separated by line feeds; those without a known key are left out
   * @param mark a write that is stored together with them
   */
  add(lines: string, mark?: () => void): void {
    const calls = lines.split('\n').map((line) => line.split('\t'))
    const known = calls.filter((call) => fieldOf(call, 'key') !== '')
    if (known.length === 0 && !mark) return
    transact(this.#db, () => {
      this.#addSums(known)
      this.#addDecided(known)
      this.#addFailed(known)
      mark?.()
    })
  }

  /** When the first call was added, ms since epoch; undefined without one. */
  since(): number | undefined {
    const { unit } = this.#db.prepare('SELECT min(unit) AS unit FROM called_hour').get()!
    return unit === null ? undefined : Number(unit) * 3_600_000
  }

  #addSums(calls: readonly (readonly string[])[]): void {
    for (const { groups, to } of this.#rollups) {
      const groupOf = (call: readonly string[]) => groups.map((name) => fieldOf(call, name))
      const nameOf = (call: readonly string[]) =>
        [unitOf('hour', momentOf(call)), ...groupOf(call)].join('\t')
      for (const ofGroup of Map.groupBy(calls, nameOf).values()) {
        const [first] = ofGroup
        to.add(momentOf(first!), groupOf(first!), sumsOf(ofGroup))
      }
    }
  }

  #addDecided(calls: readonly (readonly string[])[]): void {
    for (const call of calls) {
      for (const { rule, mode, side, outcome } of readDecided(fieldOf(call, 'decided'))) {
        const [account, key] = [fieldOf(call, 'account'), fieldOf(call, 'key')]
        const day = unitOf('day', momentOf(call))
        this.#decide.run(day, account, key, rule, mode, side, outcome)
      }
    }
  }

  #addFailed(calls: readonly (readonly string[])[]): void {
    for (const call of calls) {
      for (const { deployment, result } of readAttempts(fieldOf(call, 'attempts'))) {
        if (result === 'ok') continue
        const hour = unitOf('hour', momentOf(call))
        this.#fail.run(hour, fieldOf(call, 'model'), deployment, result)
      }
    }
  }
}

function fieldOf(call: readonly string[], name: string): string {
  return call[PLACES.get(name)!] ?? ''
}

/** When a call came, ms since epoch. */
function momentOf(call: readonly string[]): number {
  return timeOf(fieldOf(call, 'id'))
}

/** In the order of {@link CALLED_SUMS}. */
function sumsOf(calls: readonly (readonly string[])[]): number[] {
  const sums = new Map(CALLED_SUMS.map((name) => [name, 0]))
  const count = (name: string) => sums.set(name, sums.get(name)! + 1)
  for (const call of calls) {
    count('calls')
    if (fieldOf(call, 'limited_by') !== '') count('refused')
    else if (fieldOf(call, 'outcome') === 'failed') count('errors')
    if (fieldOf(call, 'guard') === 'blocked') count('blocked')
    // Times of calls that were refused at once would hide those of the others.
    if (fieldOf(call, 'status') !== '200') continue
    count(TOTAL_BUCKETS[bucketOf(Number(fieldOf(call, 'ms_total')))]!)
    const first = fieldOf(call, 'ms_first')
    if (first !== '') count(FIRST_BUCKETS[bucketOf(Number(first))]!)
  }
  return [...sums.values()]
}

function bucketOf(ms: number): number {
  const bucket = BOUNDS.findIndex((bound) => ms <= bound)
  return bucket < 0 ? BOUNDS.length : bucket
}
