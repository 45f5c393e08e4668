/** Composition root: makes a gateway of a configuration, and closes it again. */
import { statfs } from 'node:fs/promises'
import type { ConsolaInstance } from 'consola'
import { ListedMoney } from '../accounts/listed-money.ts'
import type { LoadedConfig, Config } from '../config/config.ts'
import { UpstreamFailure } from '../errors/errors.ts'
import type { FaultAction, FaultKind } from '../observe/faults.ts'
import type { Call, Runtime } from '../pipeline/pipeline.ts'
import type { RunningCalls } from '../pipeline/running-calls.ts'
import { completable, needsToken, ownAdminToken, useOwnToken } from './admin-token.ts'
import { assemble, type Assembled } from './assemble.ts'
import { BodyBudget, defaultBodyMemory } from './body-budget.ts'
import { Generations, type PreparedConfig } from './generations.ts'
import { withChangesLogged } from './changes.ts'
import { Managed } from './managed.ts'
import { closeState, openState, type OpenState } from './open-state.ts'
import {
  createCommon,
  createShared,
  secretsOf,
  type Common,
  type Shared,
  TICK_MS,
} from './shared.ts'
import {
  createSharing,
  isShared,
  type DisabledDeployments,
  type Peers,
  type Instances,
} from './sharing.ts'
import { Seeding } from './seed.ts'
import { packageVersion } from './version.ts'
import type { Ledger } from '../state/ledger/ledger.ts'
import type { Finding } from '../observe/alerts.ts'
import type { LiveEvents } from '../observe/live-events.ts'
import { AlertFindings } from './alert-findings.ts'

export interface WorkerPlace {
  readonly number: number
  readonly count: number
}

export interface DemoState {
  /** Whether some of them are still to be written. */
  readonly isFilling: boolean
}

/** A running gateway without its server. */
export interface Gateway {
  readonly runtime: Runtime
  readonly loaded: LoadedConfig
  /** ms since epoch */
  readonly startedAt: number
  readonly version: string
  /** Present where its accounts and calls are invented: `serve --demo`. */
  readonly demo: DemoState | undefined
  /** Whether it made its admin token itself, because the configuration had none at the start. */
  readonly madeToken: boolean
  readonly running: RunningCalls
  readonly bodies: BodyBudget
  readonly instances: Instances
  /** Deployments that operators have disabled. */
  readonly disabledDeployments: DisabledDeployments
  readonly listedMoney: ListedMoney
  /** Vendors and models that are set up at run time. */
  readonly managed: Managed
  /** Messages between the gateways that share its state. */
  readonly peers: Peers
  /** Accounts and keys of the configuration. */
  readonly seeding: Seeding
  track(call: Call): void
  /**
   * Replaces the configuration. Running calls keep the old one, whose plugins are closed after the last of them.
   * @throws ConfigError without having changed anything
   */
  reload(next: LoadedConfig): Promise<void>
  /** The first half of {@link Gateway.reload}: sets up the plugins of a configuration. @throws ConfigError */
  prepare(next: LoadedConfig): Promise<PreparedConfig>
  /** Calls a function after each change of the configuration. @returns ends that */
  whenReplaced(watch: () => void): () => void
  /** It is true once the gateway is going to end: it is not ready for new work. */
  readonly stopping: boolean
  /** It is true once an error has left code of the gateway half-run. */
  readonly faulty: boolean
  /** Sets {@link Gateway.stopping}; running calls go on. */
  stop(): void
  /**
   * Logs and counts an error that reached no call, and assigns it to the plugin that it comes from.
   * @returns whether the process can go on
   */
  reportFault(error: unknown, kind: FaultKind): FaultAction
  /** Closes plugins and state, after the caller has drained the calls. @param patience see {@link Ledger.close} */
  close(patience?: AbortSignal): Promise<void>
}

interface GatewayOptions {
  readonly log?: ConsolaInstance
  /** Whether it makes a token of its own where the configuration has none. */
  readonly adminToken?: boolean
  readonly demo?: DemoState | undefined
  readonly worker?: WorkerPlace
  /** Whether built-in providers get frozen input, as all others do, so that changing it throws. */
  readonly freezesAll?: boolean
}

/** @throws ConfigError for plugins that cannot be used, and the errors of the state engine */
export async function createGateway(
  read: LoadedConfig,
  { log, adminToken, demo, worker, freezesAll = false }: GatewayOptions = {},
): Promise<Gateway> {
  const loaded = completable(read)
  const generations = new Generations()
  const runtime = () => generations.runtime
  const common = createCommon(loaded, {
    log,
    runtime,
    running: generations.running,
    freezesAll,
  })
  const { assembled, state, token } = await open(loaded, common, adminToken)
  const shared = createShared(common, state, runtime, loaded.config.log.path)
  generations.begin(loaded, assembled, shared, token)
  const startedAt = Date.now()
  const managed = new Managed({
    ...shared,
    generations,
    loaded,
    isShared: isShared(loaded),
    logged: (use) => withChangesLogged(generations, use),
  })
  const own = {
    startedAt,
    worker: worker?.number,
    announcements: state.announcements,
    managed: () => managed.report,
  }
  const sharing = await createSharing(shared, generations, own)
  const { instances } = sharing
  await shared.alerts.keepIn({
    records: shared.records,
    gateway: shared.gatewayId,
    ...(isShared(loaded) && {
      running: async () => (await instances.list()).map(({ id }) => id),
    }),
  })
  await managed.start()
  const bodies = bodyBudgetOf(generations, shared, worker)
  const listedMoney = listedMoneyOf(generations, shared)
  const timer = drive(generations, shared, { ...sharing, bodies, managed })
  const seeding = new Seeding(generations)
  let [stopping, faulty] = [false, false]
  return {
    ...sharing,
    seeding,
    startedAt,
    version: packageVersion(),
    demo,
    running: generations.running,
    bodies,
    listedMoney,
    managed,
    madeToken: token !== undefined && loaded.config.admin.token === token,
    get stopping() {
      return stopping
    },
    get faulty() {
      return faulty
    },
    get loaded() {
      return generations.loaded
    },
    get runtime() {
      return generations.runtime
    },
    track: (call) => generations.track(call),
    prepare: (next) => managed.prepare(next),
    reload: (next) => managed.reload(next),
    whenReplaced: (watch) => generations.whenReplaced(watch),
    stop: () => void (stopping = true),
    reportFault(error, kind) {
      const action = reportFault(common, generations, error, kind)
      if (action === 'stop') faulty = true
      return action
    },
    async close(patience) {
      clearInterval(timer)
      await seeding.close()
      await managed.close()
      await closeParts({ generations, shared, state, ...sharing, listedMoney }, patience)
    },
  }
}

/** Parts that a gateway closes at its end. */
interface Closable extends Pick<Gateway, 'listedMoney' | 'instances' | 'peers'> {
  readonly generations: Generations
  readonly shared: Shared
  readonly state: OpenState
}

async function closeParts(
  { generations, shared, state, ...parts }: Closable,
  patience: AbortSignal | undefined,
): Promise<void> {
  const { requests, access, loop, usage, spending, accounts, items, payments } = shared
  requests.flush()
  await payments.close()
  await generations.close()
  access.flush()
  await parts.peers.close()
  loop.close()
  await parts.instances.leave()
  await requests.close()
  // These read the ledger, which could not be closed tidily meanwhile.
  const readers = [usage, spending, accounts.directory, parts.listedMoney]
  await Promise.all([...readers, items].map((one) => one.close()))
  await closeState(state, patience)
}

/** The memory for bodies; each of several processes has its share. */
function bodyBudgetOf(generations: Generations, { metrics }: Shared, worker?: WorkerPlace) {
  const memory = defaultBodyMemory()
  return new BodyBudget(
    () => (generations.runtime.config.server.limits.bodyMemory ?? memory) / (worker?.count ?? 1),
    (resource) => metrics.bodyRefused(resource),
  )
}

/** The money for sorting lists; prepared where an operator can request lists. */
function listedMoneyOf(generations: Generations, { ledger, accounts, usage }: Shared): ListedMoney {
  const { directory } = accounts
  const listedMoney = new ListedMoney({
    ledger,
    directory,
    isShared: isShared(generations.loaded),
    isFollowed: () => generations.runtime.usage !== undefined,
    now: () => Date.now(),
  })
  usage.onNew = (some) => listedMoney.note(some)
  if (!needsToken(generations.runtime.config.admin)) {
    directory.prepare()
    listedMoney.prepare()
  }
  return listedMoney
}

/** Starts the timer that drives all parts, and the findings for alerts. The caller clears it. */
function drive(
  generations: Generations,
  shared: Shared,
  parts: Pick<Gateway, 'bodies' | 'disabledDeployments' | 'instances' | 'peers' | 'managed'>,
): NodeJS.Timeout {
  const disk = new DiskSpace(foldersOf(generations.runtime.config))
  const more = () => [
    ...shared.spending.findings(),
    ...disk.findings(),
    ...shared.payments.findings(),
    ...parts.managed.findings(),
  ]
  const health = new HealthEvents(shared.events, () => generations.runtime, more, disk)
  return startTimer({ ...shared, ...parts, running: generations.running, health, disk })
}

/** @returns the necessary action */
function reportFault(
  { faults }: Pick<Shared, 'faults'>,
  { runtime }: Generations,
  error: unknown,
  kind: FaultKind,
): FaultAction {
  const { instances, action } = faults.report(error, kind)
  if (kind === 'uncaughtException') blame(runtime, instances)
  return action
}

/** Counts a failure for each deployment of these providers. */
function blame({ catalog, routing, config }: Runtime, providers: readonly string[]): void {
  if (providers.length === 0) return
  const failure = new UpstreamFailure('upstream_error', 'The plugin has thrown an error.')
  const deployments = catalog.all().flatMap((model) => model.deployments)
  const blamed = deployments.filter(({ provider }) => providers.includes(provider))
  for (const health of new Set(blamed.map((one) => routing.healthOf(one)))) {
    const began = health.begin()
    health.failed(began, failure, config.routing.cooldown * 1000)
    health.end(began)
  }
}

/** Opens state and plugins; closes the one when the other fails. */
async function open(
  loaded: LoadedConfig,
  common: Common,
  makesToken = false,
): Promise<{
  readonly assembled: Assembled
  readonly state: OpenState
  /** The gateway's own admin token. */
  readonly token: string | undefined
}> {
  // Another thread opens the files while this one sets up plugins.
  const opening = openState(loaded, common.log, common.gatewayId)
  // The await below reports the error.
  opening.catch(() => {})
  const assembled = await assemble(loaded, common).catch(async (error: unknown) => {
    await opening.then(
      (opened) => closeState(opened),
      () => {},
    )
    throw error
  })
  const state = await opening.catch(async (error: unknown) => {
    await assembled.close()
    throw error
  })
  const { config } = loaded
  try {
    // Only now it is certain that the folder of the state is the gateway's own.
    const token = makesToken && needsToken(config.admin) ? ownAdminToken(config.state) : undefined
    useOwnToken(config, token)
    common.mask.use(secretsOf(loaded))
    return { assembled, state, token }
  } catch (error) {
    await Promise.all([assembled.close(), closeState(state)])
    throw error
  }
}

// The one timer of a gateway: deadlines and timeouts of calls, logs, the heap, leases, alerts.

/** Parts that the timer drives. */
interface Timed extends Pick<
  Shared,
  | 'access'
  | 'requests'
  | 'usage'
  | 'spending'
  | 'seals'
  | 'expiry'
  | 'payments'
  | 'events'
  | 'faults'
  | 'authFailures'
  | 'ledger'
  | 'log'
  | 'loop'
> {
  readonly running: RunningCalls
  readonly bodies: BodyBudget
  readonly disabledDeployments: DisabledDeployments
  readonly instances: Instances
  readonly peers: Peers
  readonly managed: Managed
  readonly health: HealthEvents
  readonly disk: DiskSpace
}

const RENEW_MS = 10_000

/** Starts the timer, which does not keep the process running. The owner clears it. */
function startTimer({ running, ledger, log, loop, ...timed }: Timed): NodeJS.Timeout {
  // Uses the monotonic clock, because leases do not expire by the wall clock.
  let renewAt = performance.now() + RENEW_MS
  loop.tick(performance.now())
  const timer = setInterval(() => {
    const now = performance.now()
    for (const call of running) call.tick(now)
    timed.access.flush()
    timed.requests.flush()
    timed.usage.flush()
    timed.faults.tick()
    timed.authFailures.tick()
    timed.events.tick(now)
    timed.health.tick()
    timed.bodies.tick()
    loop.tick(now)
    timed.disabledDeployments.tick(now)
    timed.managed.tick(now)
    timed.instances.tick(now)
    timed.peers.tick(now)
    timed.disk.tick(now)
    timed.seals.tick(now)
    timed.expiry.tick(now)
    timed.payments.tick(now)
    void timed.spending.tick(now)
    if (performance.now() < renewAt) return
    renewAt = performance.now() + RENEW_MS
    void renewLeases(running, ledger).catch((error) => log.error('renewing leases failed', error))
  }, TICK_MS)
  timer.unref()
  return timer
}

async function renewLeases(running: RunningCalls, ledger: Ledger): Promise<void> {
  const leases = []
  for (const call of running) {
    const { admission } = call.made
    if (!admission?.entered || call.answer.bill) continue
    const { account, key } = admission
    leases.push({ account: account.id, key: key.id, request: call.id })
  }
  if (leases.length > 0) await ledger.renew(leases)
}

// Watches the space of the disks that the gateway writes to.

const DISK_LOOK_MS = 10_000
const MIB = 1024 * 1024
const LOW_BYTES = 256 * MIB
const ENOUGH_BYTES = 512 * MIB

/** Free space of the folders of one gateway. The owner calls {@link DiskSpace.tick} from time to time. */
export class DiskSpace {
  readonly #folders: readonly string[]
  readonly #freeBytes: (folder: string) => Promise<number>
  readonly #free = new Map<string, number>()
  #lookedAt = -Infinity

  /** @param freeBytes returns the free bytes of a folder's disk */
  constructor(folders: readonly string[], freeBytes = freeBytesOf) {
    this.#folders = folders
    this.#freeBytes = freeBytes
  }

  get hasLooked(): boolean {
    return this.#free.size === this.#folders.length
  }

  /** @param now steady ms */
  tick(now: number): void {
    if (now - this.#lookedAt < DISK_LOOK_MS) return
    this.#lookedAt = now
    for (const folder of this.#folders) {
      this.#freeBytes(folder).then(
        (bytes) => this.#free.set(folder, bytes),
        // The folder does not exist yet.
        () => this.#free.delete(folder),
      )
    }
  }

  findings(): Finding[] {
    return [...this.#free].map(([folder, bytes]) => ({
      kind: 'disk.low',
      object: folder,
      state: bytes < LOW_BYTES ? 'wrong' : bytes > ENOUGH_BYTES ? 'well' : 'between',
      message: `the disk of ${folder} has ${Math.floor(bytes / MIB)} MiB left`,
    }))
  }
}

export function foldersOf({ state, log }: Config): string[] {
  const own =
    state.driver === 'file' ? [state.path] : state.driver === 'redis' ? [state.outbox] : []
  return [...new Set([...own, ...(log.path === undefined ? [] : [log.path])])]
}

async function freeBytesOf(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder)
  return bavail * bsize
}

// Notices when deployments or the ledger fail and recover: for alerts, and for watchers of the events of the gateway.

const HEALTH_LOOK_MS = 1000
/** Alerts of which nothing is known until everything was looked at. */
const MONEY: ReadonlySet<Finding['kind']> = new Set([
  'balance.low',
  'balance.empty',
  'cap.80',
  'cap.100',
  'key.expiring',
])

class HealthEvents {
  readonly #events: LiveEvents
  readonly #runtime: () => Runtime
  readonly #more: () => readonly Finding[]
  /** States by deployment, and of the ledger under the name ''. */
  #states = new Map<string, string>()
  readonly #findings = new AlertFindings()
  readonly #disk: DiskSpace
  #lookedAt = -Infinity

  /** @param more further findings for alerts */
  constructor(
    events: LiveEvents,
    runtime: () => Runtime,
    more: () => readonly Finding[],
    disk: DiskSpace,
  ) {
    this.#more = more
    this.#disk = disk
    this.#events = events
    this.#runtime = runtime
  }

  tick(): void {
    const now = performance.now()
    if (now - this.#lookedAt >= HEALTH_LOOK_MS) {
      this.#lookedAt = now
      const runtime = this.#runtime()
      const { off } = runtime.config.alerts
      const all = [...this.#findings.of(runtime), ...this.#more()]
      const findings = all.filter(({ kind }) => !off.includes(kind))
      runtime.alerts.observe(findings, now, (kind, object) => {
        if (MONEY.has(kind)) return runtime.spending.looked.complete
        if (kind === 'payment.unmatched') return runtime.payments.hasLooked
        if (kind === 'errors.high') return runtime.catalog.get(object) === undefined
        return kind !== 'disk.low' || this.#disk.hasLooked
      })
    }
    if (!this.#events.wanted) {
      this.#states.clear()
      return
    }
    const { catalog, routing, ledger } = this.#runtime()
    const isFirst = this.#states.size === 0
    const states = new Map([['', ledger.health().ok ? 'books' : 'cannot book']])
    for (const { deployments } of catalog.all()) {
      for (const one of deployments) states.set(one.id, routing.healthOf(one).report().state)
    }
    for (const [deployment, state] of states) {
      if (isFirst || this.#states.get(deployment) === state) continue
      const of = deployment === '' ? { ledger: state } : { deployment, state }
      this.#events.emit('health', () => of)
    }
    this.#states = states
  }
}
