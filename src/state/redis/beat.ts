/**
 * Whether the ledger in Redis is the one that this gateway has used, and has its schema. A beat writes the store's time under the name of
 * this gateway's memory, and compares the time of the beat before with what the memory knows: before anything else, on every
 * connection, and twice a second. Until a beat has agreed nothing is admitted, and settlements wait in the outbox.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { ConfigError } from '../../errors/errors.ts'
import { checkAccepted, inDoubt, sentenceOf } from '../ledger/doubt.ts'
import { randomId } from '../ids.ts'
import { SCHEMA, type AcceptedDoubt, type Doubt, type Log } from '../ledger/ledger.ts'
import type { RedisConnection } from './connection.ts'
import type { Known, Memory } from './memory.ts'
import type { ScriptClient } from './replies.ts'
import { LEDGER, newer, openSchema, type Lifter } from './schema.ts'

const BEAT_MS = 500
const DEADLINE_MS = 500
/** Least time between two beats that were asked for by calls with unknown keys. */
const CONFIRM_MS = 100
/** What a failover may lose: as much as this process sends again. */
const [LEAST_LOST_MS, MOST_LOST_MS] = [5000, 120_000]

/** A record that this gateway has made, and that is not sent again. */
interface Made {
  /** Steady ms. */
  readonly at: number
  readonly exists: () => Promise<boolean>
}

interface BeatOptions {
  readonly connection: RedisConnection
  readonly memory: Memory
  readonly lifter: Lifter
  /** Address of the store for messages, without its password. */
  readonly place: string
  readonly log: Log
}

export class Beat {
  readonly #options: BeatOptions
  readonly #store: ScriptClient
  readonly #startedAt = performance.now()
  #doubt: Doubt | undefined
  #isAgreed = false
  /** Whether the store is known to lack rows. */
  #isSuspected = false
  /** The connection that the last beat was sent on. */
  #connectedAs = -1
  readonly #made = new Map<string, Made>()
  #timer: NodeJS.Timeout | undefined
  #beating: Promise<void> | undefined
  #beatenAt = -Infinity
  /** The beat after the present one, for all who wait. */
  #next: Promise<void> | undefined
  #opened: () => void = () => {}

  constructor(options: BeatOptions) {
    this.#options = options
    this.#store = options.connection.client as ScriptClient
  }

  get doubt(): Doubt | undefined {
    return this.#doubt
  }

  /** Whether a beat on the present connection has agreed. */
  get isOpen(): boolean {
    return this.#isAgreed && this.#connectedAs === this.#options.connection.connections
  }

  /** What the operator is told of a doubt; undefined without one. */
  get sentence(): string | undefined {
    return this.#doubt && sentenceOf(this.#doubt, this.#options.place)
  }

  /** Identity of the ledger, as far as it is known. */
  get known(): Known | undefined {
    return this.#options.memory.known
  }

  /** @param listener called whenever the ledger can be used again, or has lost what was written last */
  onOpen(listener: () => void): void {
    this.#opened = listener
  }

  /** Beats, and goes on with it. @throws ConfigError for a ledger of a newer schema */
  async start(): Promise<void> {
    await this.#run().catch((error: unknown) => {
      if (error instanceof ConfigError) throw error
    })
    this.#timer = setInterval(() => void this.now(), BEAT_MS)
    this.#timer.unref()
  }

  /** Beats now, unless one is under way. Never rejects. */
  now(): Promise<void> {
    this.#beating ??= this.#run()
      .catch((error: unknown) => this.#report(error))
      .finally(() => (this.#beating = undefined))
    return this.#beating
  }

  /** Beats after the present beat has ended. Never rejects. */
  async again(): Promise<void> {
    await this.#beating
    await this.now()
  }

  /** Resolves after a beat that began after this call. @throws Unavailable unless it has agreed */
  async confirm(): Promise<void> {
    await (this.#next ??= this.#following())
    this.assertOpen()
  }

  /** @throws Unavailable */
  assertOpen(): void {
    if (!this.isOpen) throw inDoubt()
  }

  /** Remembers a record for as long as a failover may lose it. @param exists absent for one that was removed */
  made(key: string, exists: (() => Promise<boolean>) | undefined): void {
    const now = performance.now()
    this.#made.delete(key)
    for (const [old, { at }] of this.#made) {
      if (now - at < MOST_LOST_MS) break
      this.#made.delete(old)
    }
    if (exists) this.#made.set(key, { at: now, exists })
  }

  /** An account lacks rows that were there: a server of a cluster is older. */
  suspect(account: string): void {
    if (this.#doubt || this.#isSuspected) return
    this.#isSuspected = true
    this.#options.log.error(`account ${account} has lost rows that this gateway has read`)
    void this.now()
  }

  /** Goes on with what is there. @throws StateChanged; Unavailable */
  async accept(accepted: AcceptedDoubt): Promise<void> {
    await this.again()
    const { kind, known } = checkAccepted(this.#doubt, accepted)
    await this.#options.connection.ask(() =>
      this.#store.accept(LEDGER, kind, known.id, randomId('ledger_')),
    )
    this.#made.clear()
    await this.again()
  }

  /** Gives the ledger another identity. Its other gateways follow, as after {@link accept}. */
  async adopt(id: string): Promise<void> {
    const { connection, memory } = this.#options
    const { known } = memory
    if (known === undefined || known.id === id) return
    await connection.ask(() =>
      this.#store
        .multi()
        .hset(LEDGER, { id, [`was:${known.id}`]: '1' })
        .hincrby(LEDGER, 'epoch', 1)
        .exec(),
    )
    await this.again()
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.#beating
    this.#options.memory.write()
  }

  async #following(): Promise<void> {
    await sleep(Math.max(0, this.#beatenAt + CONFIRM_MS - performance.now()))
    await this.#beating
    this.#next = undefined
    await this.now()
  }

  async #run(): Promise<void> {
    const { connection, memory, lifter } = this.#options
    const wasOpen = this.isOpen
    this.#beatenAt = performance.now()
    const { connections } = connection
    await lifter.begin()
    let answer = await this.#beat(false)
    if (answer.what === 'new' || (answer.what === 'agreed' && answer.schema !== SCHEMA)) {
      await openSchema(connection, this.#options.log)
      answer = await this.#beat(false)
    }
    const { known } = memory
    // The store has gone back to an earlier moment, possibly behind a proxy that has kept the connection.
    const isBehind = answer.seen < (known?.beat ?? 0)
    const mayLack = connections !== this.#connectedAs || isBehind
    const lacks = this.#isSuspected || (mayLack && !(await this.#hasAll()))
    if (answer.what === 'agreed' && known && lacks) {
      answer = await this.#beat(true)
    }
    this.#isSuspected = false
    this.#take(answer)
    this.#connectedAs = connections
    if (!this.#isAgreed) return
    if (!wasOpen || isBehind) this.#opened()
    await lifter.lift()
  }

  async #beat(lacks: boolean): Promise<Answer> {
    const { connection, memory } = this.#options
    const { id = '', beat = 0, epoch = 0 } = memory.known ?? {}
    const uptime = performance.now() - this.#startedAt
    const lost = Math.min(Math.max(uptime, LEAST_LOST_MS), MOST_LOST_MS)
    const numbers = [beat, epoch, Math.round(lost), lacks ? 1 : 0].map(String)
    const send = () => this.#store.beat(LEDGER, memory.name, id, ...numbers)
    const reply = await connection.ask(send, DEADLINE_MS)
    const [what = '', found = '', schema, newEpoch, seen, at, doubt = ''] = reply.map(
      (text) => text ?? '',
    )
    return {
      what: what as Answer['what'],
      id: found,
      schema: Number(schema),
      epoch: Number(newEpoch),
      seen: Number(seen),
      at: Number(at),
      doubt,
    }
  }

  #take({ what, id, schema, epoch, at, doubt }: Answer): void {
    const { memory, log } = this.#options
    if (what === 'agreed' && schema > SCHEMA) throw newer(schema)
    const before = this.#doubt
    this.#isAgreed = what === 'agreed' && schema === SCHEMA
    if (what === 'agreed') {
      this.#doubt = undefined
      memory.learn({ id, beat: at, epoch })
      if (before) log.info(`the ledger is ${id} again, or was accepted: calls are admitted`)
      return
    }
    if (what === 'foreign') {
      const { known } = memory
      this.#doubt = { kind: 'foreign', known: { id: known!.id, at: known!.beat }, found: { id } }
    } else {
      this.#doubt = readDoubt(doubt)
    }
    if (before?.kind !== this.#doubt.kind) log.error(this.sentence!)
  }

  /** Whether nothing is missing that no gateway would send again: accounts and keys. */
  async #hasAll(): Promise<boolean> {
    const all = await Promise.all([...this.#made.values()].map(({ exists }) => exists()))
    return all.every(Boolean)
  }

  #report(error: unknown): void {
    if (!(error instanceof ConfigError)) return
    if (this.#isAgreed)
      this.#options.log.error(`no calls are admitted: ${error.issues[0]!.message}`)
    this.#isAgreed = false
  }
}

interface Answer {
  readonly what: 'new' | 'agreed' | 'foreign' | 'doubted'
  readonly id: string
  readonly schema: number
  readonly epoch: number
  /** Time of the beat before this one, ms since epoch; 0 for none. */
  readonly seen: number
  /** Time of this beat. */
  readonly at: number
  /** See {@link readDoubt}. */
  readonly doubt: string
}

/** @param text `<kind>|<known id>|<its time>|<id found>|<its time>` */
function readDoubt(text: string): Doubt {
  const [kind, id = '', at, foundId = '', foundAt = ''] = text.split('|')
  return {
    kind: kind as Doubt['kind'],
    known: { id, at: Number(at) },
    found: { ...(foundId && { id: foundId }), ...(foundAt && { at: Number(foundAt) }) },
  }
}
