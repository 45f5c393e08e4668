/** Adds sums of groups by hour, day and month, in one set of tables. */
import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite'
import { unitOf, type Rollup, type TableSet } from './tables.ts'

interface RollupOptions {
  readonly values: readonly string[]
  /** SQL that sets a column to its sum with `excluded`. */
  readonly added: (column: string) => string
}

/** Writes one set of tables. Every method is called inside of a transaction. */
export class Rollups {
  readonly #find: StatementSync
  readonly #create: StatementSync
  readonly #add: readonly (readonly [Rollup, StatementSync])[]

  constructor(
    db: DatabaseSync,
    { table, rollups, groups }: TableSet,
    { values, added }: RollupOptions,
  ) {
    const where = groups.map((name) => `${name} = ?`).join(' AND ')
    this.#find = db.prepare(`SELECT id FROM ${table}_group WHERE ${where}`)
    this.#create = db.prepare(
      `INSERT INTO ${table}_group (${groups.join(', ')}) VALUES (${marks(groups)})`,
    )
    const names = ['unit', 'group_id', ...values]
    this.#add = rollups.map((rollup) => [
      rollup,
      db.prepare(
        `INSERT INTO ${table}_${rollup} (${names.join(', ')}) VALUES (${marks(names)})
         ON CONFLICT DO UPDATE SET ${values.map(added).join(', ')}`,
      ),
    ])
  }

  /** Adds sums of an hour, also to its day and month. @param at a moment in that hour, ms since epoch */
  add(at: number, group: readonly string[], values: readonly SQLInputValue[]): void {
    const row = this.#find.get(...group)
    const id = Number(row ? row.id : this.#create.run(...group).lastInsertRowid)
    for (const [rollup, add] of this.#add) add.run(unitOf(rollup, at), id, ...values)
  }
}

function marks(names: readonly string[]): string {
  return names.map(() => '?').join(', ')
}
