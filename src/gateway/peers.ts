/**
 * Messages between the gateways of one state, so that each shows the calls and events of all: accounts with new rows, running
 * calls, events while a console watches, calls that an operator ends. All of it may be lost.
 */
import { Unavailable } from '../errors/errors.ts'
import type { LiveEvent, LiveEvents } from '../observe/live-events.ts'
import { callOfRow, type EarlierRow } from '../observe/log/earlier.ts'
import type { KnownCall } from '../observe/record.ts'
import type { UsageIndex } from '../observe/usage/usage.ts'
import { runningRow } from '../pipeline/call-record.ts'
import type { RunningCalls } from '../pipeline/running-calls.ts'
import type { Announcements, Topic } from '../state/announcements.ts'
import type { Records } from '../state/records.ts'
import type { Instances } from './instances.ts'

interface PeersOptions {
  readonly announcements: Announcements | undefined
  readonly records: Records
  readonly instances: Instances
  readonly gatewayId: string
  readonly running: RunningCalls
  readonly events: LiveEvents
  readonly usage: UsageIndex
}

interface Message<Body> {
  readonly gateway: string
  readonly body: Body
}

/** Events of about a second, and the number of those left out. */
interface EventBatch {
  readonly events: readonly LiveEvent[]
  readonly left: number
}

const PUBLISH_MS = 1000
const READ_MS = 2000
/** Most running calls of one gateway that the others show. */
const MOST_CALLS = 1000
/** Most events of a second that the others get; a console takes twenty. */
const MOST_EVENTS = 40
const CALLS_SECONDS = 6
/** How long other gateways go on sending events after a console was last seen. */
const WATCHED_SECONDS = 10
const WATCHED = 'watched'

export class Peers {
  readonly #options: PeersOptions
  readonly #settled = new Set<string>()
  #events: LiveEvent[] = []
  #eventsLeft = 0
  readonly #cursors = new Map<Topic, string>()
  #publishedAt = -Infinity
  #readAt = -Infinity
  #turn: Promise<void> | undefined
  /** Whether other gateways have calls of this one. */
  #hasPublishedCalls = false

  constructor(options: PeersOptions) {
    this.#options = options
    if (!options.announcements) return
    options.usage.onSettled = (accounts) => accounts.forEach((id) => this.#settled.add(id))
    options.events.onEmit = (event) => this.#keep(event)
  }

  /** @param now steady ms */
  tick(now: number): void {
    const { announcements } = this.#options
    if (!announcements || this.#turn || now - this.#publishedAt < PUBLISH_MS) return
    this.#publishedAt = now
    const isRead = now - this.#readAt >= READ_MS
    if (isRead) this.#readAt = now
    this.#turn = this.#publish(announcements)
      .then(() => this.#read(announcements, isRead))
      // The connection reports its loss; the messages would be out of date by the time it is back.
      .catch(() => undefined)
      .finally(() => (this.#turn = undefined))
  }

  /** Running calls of the other gateways. @throws Unavailable while the state cannot be reached */
  async calls(): Promise<readonly KnownCall[]> {
    const { announcements, records, instances, gatewayId } = this.#options
    if (!announcements) return []
    const ids = (await instances.list()).map(({ id }) => id).filter((id) => id !== gatewayId)
    const present = await records.getMany<{ calls: readonly KnownCall[] }>(ids.map(callsKey))
    const earlier = await records.getMany<{ rows: readonly EarlierRow[] }>(ids.map(earlierKey))
    return [
      ...present.flatMap((one) => one?.calls ?? []),
      ...earlier.flatMap((one) => one?.rows ?? []).map(callOfRow),
    ]
  }

  /** Ends a call that runs at another gateway. @returns false where none is known to run it */
  async end(id: string): Promise<boolean> {
    const calls = await this.calls()
    if (!calls.some((call) => call.id === id)) return false
    await this.#send('end', id)
    return true
  }

  /** Waits for messages that are being sent. */
  async close(): Promise<void> {
    await this.#turn
  }

  /** Ends a call of this gateway. @returns false where it does not run */
  endOwn(id: string): boolean {
    for (const call of this.#options.running) {
      if (call.id !== id) continue
      call.abort(new Unavailable('service_unavailable', 'An operator has ended this call.'))
      return true
    }
    return false
  }

  #keep(event: LiveEvent): void {
    if (this.#events.length < MOST_EVENTS) this.#events.push(event)
    else this.#eventsLeft++
  }

  async #publish(announcements: Announcements): Promise<void> {
    const { events: live } = this.#options
    const settled = [...this.#settled]
    const batch: EventBatch = { events: this.#events, left: this.#eventsLeft }
    this.#settled.clear()
    this.#events = []
    this.#eventsLeft = 0
    if (settled.length > 0) await this.#send('settled', settled, announcements)
    if (batch.events.length > 0 && live.isWatchedElsewhere) {
      await this.#send('live', batch, announcements)
    }
  }

  async #read(announcements: Announcements, all: boolean): Promise<void> {
    const { events, usage, records } = this.#options
    if (events.isWatched) {
      for (const batch of await this.#messagesOf<EventBatch>('live', announcements)) {
        events.relay(batch.events, batch.left)
      }
      for (const batch of await this.#messagesOf<EventBatch>('events', announcements)) {
        events.relay(batch.events.map(eventOfEarlier), batch.left)
      }
    } else for (const topic of ['live', 'events'] as const) this.#cursors.delete(topic)
    if (!all) return
    await this.#publishCalls()
    const accounts = await this.#messagesOf<readonly string[]>('settled', announcements)
    usage.settledElsewhere(accounts.flat())
    for (const id of await this.#messagesOf<string>('end', announcements)) this.endOwn(id)
    if (events.isWatched) await records.put(WATCHED, {}, { ttlSeconds: WATCHED_SECONDS })
    if (events.isWatched || (await records.get(WATCHED))) events.watchedElsewhere(2 * READ_MS)
  }

  async #publishCalls(): Promise<void> {
    const { records, running, gatewayId } = this.#options
    if (running.size === 0 && !this.#hasPublishedCalls) return
    this.#hasPublishedCalls = running.size > 0
    const calls = [...running].slice(-MOST_CALLS).map(runningRow)
    await records.put(callsKey(gatewayId), { calls }, { ttlSeconds: CALLS_SECONDS })
  }

  async #send(topic: Topic, body: unknown, to = this.#options.announcements): Promise<void> {
    await to?.tell(topic, JSON.stringify({ gateway: this.#options.gatewayId, body }))
  }

  /** Messages of the others since the last reading. */
  async #messagesOf<Body>(topic: Topic, announcements: Announcements): Promise<Body[]> {
    const { messages, cursor } = await announcements.hear(topic, this.#cursors.get(topic))
    this.#cursors.set(topic, cursor)
    return messages
      .map((message) => JSON.parse(message) as Message<Body>)
      .filter(({ gateway }) => gateway !== this.#options.gatewayId)
      .map(({ body }) => body)
  }
}

function callsKey(gateway: string): string {
  return `calls:${gateway}`
}

/** Name under which a gateway of an earlier release has its calls. */
function earlierKey(gateway: string): string {
  return `running:${gateway}`
}

/** An event of a gateway of an earlier release: a call is a row. */
function eventOfEarlier(event: LiveEvent): LiveEvent {
  const isOfCall = 'method' in event.data && 'endpoint' in event.data
  return isOfCall ? { ...event, data: callOfRow(event.data as EarlierRow) } : event
}
