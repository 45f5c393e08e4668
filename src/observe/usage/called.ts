/** Adds ended calls to the tables of circumstances: statuses, refusals, times. They may miss calls. */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import { transact } from '../../state/sqlite/file.ts'
import { timeOf, randomId } from '../../state/ids.ts'
import { type KnownCall, keptLine } from '../record.ts'
import {
  BOUNDS,
  CALLED,
  CALLED_BY_KEY,
  CALLED_OVERALL,
  CALLED_SUMS,
  FIRST_BUCKETS,
  TOTAL_BUCKETS,
  unitOf,
  Rollups,
} from './tables.ts'
import type { Announcements } from '../../state/announcements.ts'
import { callOfLine } from '../log/earlier.ts'

/** Groups of the tables, and their values in a call. */
const GROUPS: Readonly<Record<string, (call: KnownCall) => string | undefined>> = {
  account: ({ account_id }) => account_id,
  team: ({ team_id }) => team_id,
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
    this.#rollups = [CALLED, CALLED_BY_KEY, CALLED_OVERALL].map((tables) => ({
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
        [unitOf('hour', momentOf(call)), call.day, ...groupOf(call)].join('\t')
      for (const ofGroup of Map.groupBy(calls, nameOf).values()) {
        const [first] = ofGroup
        const at = momentOf(first!)
        to.add({ at, day: dayOf(first!) }, groupOf(first!), sumsOf(ofGroup))
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
      for (const attempt of call.attempts ?? []) {
        if ('skipped' in attempt) continue
        const { deployment, result } = attempt
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

/** A moment of the local date of its arrival, by which days and months count it. */
function dayOf(call: KnownCall): number {
  return call.day === undefined ? momentOf(call) : Date.parse(call.day)
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

// Calls of all gateways of one state, for the tables of circumstances: each gateway publishes its calls about once a second,
// and adds up all published calls, its own included. Calls may be missing, because only the newest messages are kept: those of
// some minutes. None is added twice.

interface Told {
  readonly sender: string
  /** The number ascends by sender: a message that was sent twice has the same number. */
  readonly number: number
  /** Lines of calls, compressed. Gateways of an earlier release use another form. */
  readonly calls: string
}

const TOPIC = 'called'
/** Most characters of calls that wait while the others cannot be reached. */
const MOST_WAITING = 4 * 1024 * 1024
/** Name of the row that says which messages are in the tables. */
const CURSOR = 'heard'

/** The owner calls {@link exchange} about once a second, and before an answer. */
export class SharedCalls {
  readonly #announcements: Announcements
  readonly #db: DatabaseSync
  readonly #tables: CalledTables
  readonly #sender = randomId('usage_')
  #number = 0
  #lines: string[] = []
  #unpublished: Told[] = []
  #waiting = 0
  #exchanging: Promise<void> | undefined
  #newest: ReadonlyMap<string, number> = new Map()

  constructor(announcements: Announcements, db: DatabaseSync, tables: CalledTables) {
    this.#announcements = announcements
    this.#db = db
    this.#tables = tables
  }

  /** Queues ended calls of this gateway. @param lines the lines of the calls */
  add(lines: string): void {
    if (this.#waiting + lines.length > MOST_WAITING) return
    this.#waiting += lines.length
    this.#lines.push(lines)
  }

  /** Publishes queued calls, and adds published ones to the tables. @throws Unavailable while the state cannot be reached */
  exchange(): Promise<void> {
    this.#exchanging ??= this.#publish()
      .then(() => this.#read())
      .finally(() => (this.#exchanging = undefined))
    return this.#exchanging
  }

  async #publish(): Promise<void> {
    // Read before the first message of this gateway, or its own calls would be missed.
    if (this.#cursor === undefined) await this.#read()
    if (this.#lines.length > 0) {
      const calls = deflateRawSync(linesOf(this.#lines)).toString('base64')
      this.#unpublished.push({ sender: this.#sender, number: ++this.#number, calls })
      this.#lines = []
    }
    for (;;) {
      const [next] = this.#unpublished
      if (!next) break
      await this.#announcements.tell(TOPIC, JSON.stringify(next))
      this.#unpublished.shift()
    }
    this.#waiting = 0
  }

  async #read(): Promise<void> {
    for (;;) {
      const { messages, cursor } = await this.#announcements.hear(TOPIC, this.#cursor)
      if (cursor === this.#cursor) return
      const newest = new Map(this.#newest)
      const calls = messages.flatMap((message) => freshIn(message, newest))
      this.#tables.add(calls, () => this.#keep(cursor))
      this.#newest = newest
    }
  }

  get #cursor(): string | undefined {
    const row = this.#db.prepare('SELECT value FROM meta WHERE name = ?').get(CURSOR)
    return row && String(row.value)
  }

  #keep(cursor: string): void {
    this.#db.prepare('INSERT OR REPLACE INTO meta VALUES (?, ?)').run(CURSOR, cursor)
  }
}

/** The calls of a message, unless it was read before. @param heard the newest message of each sender; updated */
function freshIn(message: string, heard: Map<string, number>): KnownCall[] {
  const { sender, number, calls } = JSON.parse(message) as Told
  if (number <= (heard.get(sender) ?? 0)) return []
  heard.set(sender, number)
  const lines = inflateRawSync(Buffer.from(calls, 'base64')).toString()
  return lines.split('\n').map(callOfLine)
}

function linesOf(batches: readonly string[]): string {
  const lines = batches.join('\n').split('\n')
  return lines.map((line) => keptLine(line)).join('\n')
}
