/**
 * Calls of all gateways of one state, for the tables of circumstances: each gateway publishes its calls about once a second,
 * and adds up all published calls, its own included. Calls may be missing, because only the newest messages are kept: those of
 * some minutes. None is added twice.
 */
import type { DatabaseSync } from 'node:sqlite'
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import type { Announcements } from '../../state/announcements.ts'
import { randomId } from '../../state/ids.ts'
import { callOfLine } from '../log/earlier.ts'
import { keptLine, type KnownCall } from '../record.ts'
import type { CalledTables } from './called.ts'

interface Told {
  readonly sender: string
  /** Ascending by sender: a message that was sent twice has the same number. */
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

  /** Queues ended calls of this gateway. @param lines of the calls */
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
