/** Events of the gateway for watching consoles. None is made while no console watches. */
import { randomId } from '../state/ids.ts'

/** Kinds of events that a watcher may ask for. Those of calls have the record of the call as `data`. */
export const LIVE_EVENT_TYPES = [
  'call.started',
  'call.ended',
  'call.refused',
  'guard.blocked',
  'health',
  'alert',
  'audit',
] as const

/** A kind of event; `skipped` says how many a watcher did not get. */
export type LiveEventType = (typeof LIVE_EVENT_TYPES)[number] | 'skipped'

export interface LiveEvent {
  readonly id: string
  readonly type: LiveEventType
  readonly data: Readonly<Record<string, unknown>>
}

/** Receives at most twenty events a second, and then the number that was left out. */
export interface Watcher {
  /** Types that the watcher wants; undefined for all. */
  readonly types?: ReadonlySet<LiveEventType>
  /** Whether it wants every event of these types, without the limit per second. */
  readonly all?: boolean
  wants(event: LiveEvent): boolean
  /** @returns false when it is full, and the event is left out */
  take(event: LiveEvent): boolean
  /** It is called from time to time while nothing happens, so that the connection stays open. */
  idle(): void
}

/** Events kept for a watcher that comes back. */
const RING = 500
const PER_SECOND = 20
const SECOND_MS = 1000
const IDLE_MS = 15_000
/** How long events of its types are still made after a watcher has left, so that it can come back. */
const LINGER_MS = 30_000

interface Watching {
  readonly watcher: Watcher
  /** Events in the second that began at `since`, steady ms. */
  sent: number
  since: number
  left: number
  idleAt: number
}

/** The events of one gateway. The owner calls `tick` from time to time. */
export class LiveEvents {
  readonly #watching = new Set<Watching>()
  /** Distinguishes events of this process from those of an earlier one. */
  readonly #series = randomId('').slice(0, 8)
  #number = 0
  #ring: LiveEvent[] = []
  /** Moment until which events of a type are made for a watcher that has left, steady ms. */
  readonly #lingering = new Map<LiveEventType, number>()
  #until = -Infinity
  #untilElsewhere = -Infinity
  /** It is called with each event that this gateway makes. */
  onEmit: (event: LiveEvent) => void = () => {}

  get wanted(): boolean {
    return this.isWatched || this.isWatchedElsewhere
  }

  /** Whether a console watches this gateway, or did a moment ago. */
  get isWatched(): boolean {
    return this.#watching.size > 0 || performance.now() < this.#until
  }

  /** Whether a console watches another gateway, which receives the events of this one. */
  get isWatchedElsewhere(): boolean {
    return performance.now() < this.#untilElsewhere
  }

  /** A console may watch another gateway. @param ms how long this is known, in milliseconds */
  watchedElsewhere(ms: number): void {
    this.#untilElsewhere = performance.now() + ms
  }

  /** Sends events of another gateway. @param left number of events left out */
  relay(events: readonly LiveEvent[], left: number): void {
    for (const event of events) this.#send(event)
    for (const watching of this.#watching) watching.left += left
  }

  /** @param make called only while the gateway is watched */
  emit(type: LiveEventType, make: () => LiveEvent['data']): void {
    if (!this.wanted) return
    if (!this.isWatchedElsewhere && this.#isForNothing(type)) {
      for (const watching of this.#watching) if (isOf(watching, type)) watching.left++
      return
    }
    const event = { id: `${this.#series}-${++this.#number}`, type, data: make() }
    this.#send(event)
    this.onEmit(event)
  }

  /** Whether each watcher wants other types, or has had its events of this second; one that has left may come back. */
  #isForNothing(type: LiveEventType): boolean {
    const now = performance.now()
    if (now < (this.#lingering.get(type) ?? 0)) return false
    for (const watching of this.#watching) {
      const { watcher, sent, since } = watching
      if (!isOf(watching, type)) continue
      if (!watcher.all || sent < PER_SECOND || now - since >= SECOND_MS) return false
    }
    return true
  }

  #send(event: LiveEvent): void {
    this.#ring.push(event)
    if (this.#ring.length > RING) this.#ring.shift()
    const now = performance.now()
    for (const watching of this.#watching) send(watching, event, now)
  }

  /** @param after id of the last event received; kept events since then are sent first @returns a function that ends it */
  watch(watcher: Watcher, after?: string): () => void {
    const now = performance.now()
    const watching: Watching = { watcher, sent: 0, since: now, left: 0, idleAt: now }
    this.#watching.add(watching)
    const last = this.#ring.findIndex(({ id }) => id === after)
    const missed = last < 0 ? [] : this.#ring.slice(last + 1)
    for (const event of missed) if (wants(watching, event) && !watcher.take(event)) watching.left++
    return () => {
      this.#watching.delete(watching)
      this.#until = performance.now() + LINGER_MS
      for (const type of watcher.types ?? LIVE_EVENT_TYPES) this.#lingering.set(type, this.#until)
    }
  }

  /** Reports events left out to watchers, and keeps quiet connections open. @param now steady ms */
  tick(now: number): void {
    if (!this.wanted) this.#ring = []
    for (const watching of this.#watching) {
      beginSecond(watching, now)
      if (now - watching.idleAt < IDLE_MS) continue
      watching.idleAt = now
      watching.watcher.idle()
    }
  }
}

function isOf({ watcher }: Watching, type: LiveEventType): boolean {
  return !watcher.types || watcher.types.has(type)
}

function wants(watching: Watching, event: LiveEvent): boolean {
  return isOf(watching, event.type) && watching.watcher.wants(event)
}

function send(watching: Watching, event: LiveEvent, now: number): void {
  const { watcher } = watching
  if (!wants(watching, event)) return
  beginSecond(watching, now)
  if (watching.sent >= PER_SECOND || !watcher.take(event)) {
    watching.left++
    return
  }
  watching.sent++
  watching.idleAt = now
}

/** Begins a new second where the last is over. */
function beginSecond(watching: Watching, now: number): void {
  if (now - watching.since < SECOND_MS) return
  watching.since = now
  watching.sent = 0
  if (watching.left === 0) return
  const count = watching.left
  // The event has no id: a client that comes back names the last real event.
  if (watching.watcher.take({ id: '', type: 'skipped', data: { count } })) watching.left = 0
}
