/** Connects a gateway with those that share its state. */
import type { LoadedConfig } from '../config/config.ts'
import type { Announcements, Topic } from '../state/announcements.ts'
import type { Generations } from './generations.ts'
import type { Shared } from './shared.ts'
import { instanceKey } from '../state/ids.ts'
import type { Records } from '../state/records.ts'
import { steadyNow } from '../lifetime/scope.ts'
import type { Routing } from '../models/routing.ts'
import type { Log } from '../state/ledger/ledger.ts'
import { Unavailable } from '../errors/errors.ts'
import type { LiveEvent, LiveEvents } from '../observe/live-events.ts'
import { callOfRow, type EarlierRow } from '../observe/log/earlier.ts'
import type { KnownCall } from '../observe/record.ts'
import type { UsageIndex } from '../observe/usage/usage.ts'
import { runningRow } from '../pipeline/call-record.ts'
import type { RunningCalls } from '../pipeline/running-calls.ts'
import type { Runtime } from '../pipeline/pipeline.ts'
import type { Instance } from '../server/admin/resources/gateway.ts'
import { packageVersion } from './version.ts'

interface Sharing {
  readonly instances: Instances
  /** Deployments that operators have disabled. */
  readonly disabledDeployments: DisabledDeployments
  readonly peers: Peers
}

/** Public data of a gateway, and its connection to the others. */
interface OwnPlace {
  readonly announcements: Announcements | undefined
  /** ms since epoch */
  readonly startedAt: number
  readonly worker: number | undefined
  readonly managed: () => NonNullable<Instance['managed']>
}

/** Whether other gateways may use the same state. */
export function isShared({ config }: LoadedConfig): boolean {
  return config.state.driver === 'redis'
}

/** Makes the parts. Never rejects; its owner drives them by a timer, closes peers and lets the instance leave. */
export async function createSharing(
  shared: Shared,
  generations: Generations,
  { announcements, startedAt, worker, managed }: OwnPlace,
): Promise<Sharing> {
  const { records, gatewayId, events, usage } = shared
  const { running } = generations
  const mayHaveOthers = isShared(generations.loaded)
  const disabledDeployments = new DisabledDeployments(shared, mayHaveOthers)
  await disabledDeployments.load()
  const own = () => ({
    ...instanceOf(generations.runtime, running.size, startedAt),
    ...(worker && { worker }),
    managed: managed(),
  })
  const instances = new Instances({ ...shared, own }, mayHaveOthers)
  return {
    disabledDeployments,
    instances,
    peers: new Peers({ announcements, records, instances, gatewayId, running, events, usage }),
  }
}

// Deployments that operators have disabled, on all gateways of one state.

interface Order {
  /** Moment of the order, ms since epoch. */
  readonly at: number
  /** End of the cooldown, ms since epoch; 0 for a deployment that was enabled again. */
  readonly until: number
}

/** The stored orders: one record, because a gateway reads all of them at once. */
interface Orders {
  readonly revision: number
  readonly orders: Readonly<Record<string, Order>>
}

const KEY = 'taken-out'
const READ_MS = 2000
/** Retention of an order that enables a deployment again, so that every gateway reads it. */
const KEPT_MS = 600_000

export class DisabledDeployments {
  readonly #records: Records
  readonly #routing: Routing
  readonly #log: Log
  /** Whether other gateways give orders too. */
  readonly #isShared: boolean
  #orders: Orders['orders'] = {}
  #readAt = -Infinity

  constructor(
    { records, routing, log }: { records: Records; routing: Routing; log: Log },
    isShared: boolean,
  ) {
    this.#records = records
    this.#routing = routing
    this.#log = log
    this.#isShared = isShared
  }

  /** Carries out the stored orders. Never rejects: without them calls go to every deployment. */
  async load(): Promise<void> {
    try {
      this.#apply((await this.#records.get<Orders>(KEY))?.orders ?? {})
    } catch (error) {
      this.#log.warn('the deployments that were taken out could not be read', error)
    }
  }

  /** Disables a deployment for some seconds. @throws Unavailable while the state cannot be reached */
  disable(id: string, seconds: number): Promise<void> {
    const now = steadyNow()
    return this.#order(id, { at: now, until: now + seconds * 1000 })
  }

  /** Enables a deployment again, also one in a cooldown after failures. @throws Unavailable while the state cannot be reached */
  enable(id: string): Promise<void> {
    return this.#order(id, { at: steadyNow(), until: 0 })
  }

  /** Reads the orders of other gateways. @param now steady ms */
  tick(now: number): void {
    if (!this.#isShared || now - this.#readAt < READ_MS) return
    this.#readAt = now
    void this.load()
  }

  async #order(id: string, order: Order): Promise<void> {
    const next = await this.#records.update<Orders>(KEY, (stored) => {
      const current = Object.entries(stored?.orders ?? {}).filter(([, one]) => !isPast(one))
      return { orders: { ...Object.fromEntries(current), [id]: order } }
    })
    this.#apply(next!.orders)
  }

  #apply(orders: Orders['orders']): void {
    for (const [id, { at, until }] of Object.entries(orders)) {
      if (this.#orders[id]?.at === at) continue
      if (until === 0) this.#routing.resume(id)
      else this.#routing.takeOut(id, until)
    }
    this.#orders = orders
  }
}

function isPast({ at, until }: Order): boolean {
  return Math.max(until, at + KEPT_MS) < steadyNow()
}

// Messages between the gateways of one state, so that each shows the calls and events of all: accounts with new rows, running
// calls, events while a console watches, calls that an operator ends. All of it may be lost.

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

// The gateways that share one state: each publishes that it runs, and its state.

interface Listed {
  readonly revision: number
  readonly ids: readonly string[]
}

const INSTANCE_KEY = 'instances'
const TELL_MS = 5000
/** Seconds without a report after which a gateway counts as gone. */
const LIFE_SECONDS = 15

/** The owner calls `tick` from time to time, and `leave` at the end. */
export class Instances {
  readonly #records: Records
  readonly #log: Log
  readonly #own: () => Instance
  /** Whether there may be others. */
  readonly #isShared: boolean
  #toldAt = -Infinity
  #publishing: Promise<void> = Promise.resolve()

  constructor(
    { records, log, own }: { records: Records; log: Log; own: () => Instance },
    isShared: boolean,
  ) {
    this.#records = records
    this.#log = log
    this.#own = own
    this.#isShared = isShared
  }

  /** This gateway first, then the other running ones. @throws Unavailable while the state cannot be reached */
  async list(): Promise<readonly Instance[]> {
    const own = this.#own()
    if (!this.#isShared) return [own]
    const { ids = [] } = (await this.#records.get<Listed>(INSTANCE_KEY)) ?? {}
    const others = await this.#alive(ids.filter((id) => id !== own.id))
    return [own, ...others]
  }

  /** Publishes a report. @param now steady ms */
  tick(now: number): void {
    if (!this.#isShared || now - this.#toldAt < TELL_MS) return
    this.#toldAt = now
    this.#publishing = this.#publish().catch((error) =>
      this.#log.warn('other gateways could not be told that this one runs', error),
    )
  }

  /** Withdraws this gateway at its end. Never rejects: without it the others notice soon. */
  async leave(): Promise<void> {
    await this.#publishing
    if (this.#isShared) await this.#records.del(instanceKey(this.#own().id)).catch(() => undefined)
  }

  async #publish(): Promise<void> {
    const own = this.#own()
    await this.#records.put(instanceKey(own.id), own, { ttlSeconds: LIFE_SECONDS })
    await this.#records.update<Listed>(INSTANCE_KEY, async (stored) => {
      if (stored?.ids.includes(own.id)) return undefined
      const alive = await this.#alive(stored?.ids ?? [])
      return { ids: [...alive.map(({ id }) => id), own.id] }
    })
  }

  async #alive(ids: readonly string[]): Promise<Instance[]> {
    const reports = await Promise.all(ids.map((id) => this.#records.get<Instance>(instanceKey(id))))
    return reports.filter((one) => one !== undefined)
  }
}

/** The present report of a gateway. @param running number of running calls */
function instanceOf(
  { gatewayId, ledger, requests, usage }: Runtime,
  running: number,
  startedAt: number,
): Instance {
  const { ok, outbox } = ledger.health()
  const counts = requests?.counts
  return {
    id: gatewayId,
    version: packageVersion(),
    node: process.versions.node,
    startedAt,
    running,
    ...(usage && { lag: usage.lag }),
    ...(counts && { log: { rows: counts.rows, dropped: Object.fromEntries(counts.dropped) } }),
    ledger: { ok, outbox },
  }
}
