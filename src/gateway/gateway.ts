/** Composition root: makes the Runtime snapshot of a configuration, and closes it again. */
import type { ConsolaInstance } from 'consola'
import { isDeepStrictEqual } from 'node:util'
import { Faults, type FaultAction, type FaultKind } from '../observe/faults.ts'
import { AuthFailures } from '../observe/auth-failures.ts'
import { BodyBudget, defaultBodyMemory } from './body-budget.ts'
import { AccessLog } from '../observe/access-log.ts'
import { ContentLog } from '../observe/content/content-log.ts'
import type { LogPlace } from '../observe/log/messages.ts'
import { RequestLog } from '../observe/log/request-log.ts'
import { Accounts } from '../accounts/accounts.ts'
import { ListedMoney } from '../accounts/listed-money.ts'
import { Labels } from '../accounts/labels.ts'
import type { LoadedConfig } from '../config/config.ts'
import { UpstreamFailure } from '../errors/errors.ts'
import { secretsIn } from '../errors/issues.ts'
import { Alerts } from '../observe/alerts.ts'
import { LiveEvents } from '../observe/live-events.ts'
import { LoopWatch } from '../observe/loop-watch.ts'
import { Mask } from '../observe/mask.ts'
import { needsToken, ownAdminToken, useOwnToken } from './admin-token.ts'
import { assemble, type Assembled, type Common, type Shared } from './assemble.ts'
import { internalChat } from './guard-setup.ts'
import { HealthEvents } from './health-events.ts'
import { HoldEstimator } from '../money/holds.ts'
import { Metrics } from '../observe/metrics.ts'
import { Spending } from '../observe/spending.ts'
import { UsageIndex } from '../observe/usage/usage.ts'
import { UsageFindings } from '../observe/usage-findings.ts'
import type { Call, Runtime } from '../pipeline/pipeline.ts'
import { RunningCalls } from '../pipeline/running-calls.ts'
import { randomId } from '../state/ids.ts'
import { PriceRecords } from '../state/prices.ts'
import { Routing } from '../models/routing.ts'
import { instanceOf, Instances } from './instances.ts'
import { DiskSpace, foldersOf } from './disk-space.ts'
import { AlertClaims } from './alert-claims.ts'
import { tellOfPrices } from './alert-findings.ts'
import { createLog } from './log.ts'
import { moneySettings, topSpenders } from './money-settings.ts'
import { closeState, openState, type OpenState } from './open-state.ts'
import { warnOfRestart } from './restart-settings.ts'
import { Peers } from './peers.ts'
import { TakenOut } from './taken-out.ts'
import { startTimer, TICK_MS } from './timer.ts'
import { packageVersion } from './version.ts'

/** A configuration whose plugins are set up. Its owner calls one of these. */
export interface PreparedConfig {
  /** Calls that come from now on use it. */
  use(): void
  /** Closes its plugins. */
  discard(): Promise<void>
}

/** Which one of several processes a gateway is that serve the same address: from 1. */
export interface WorkerPlace {
  readonly number: number
  readonly count: number
}

/** What becomes of invented calls. */
export interface DemoState {
  /** Whether some of them are still to be written. */
  readonly isFilling: boolean
}

/** A running gateway without its server. */
export interface Gateway {
  /** The current snapshot; a call keeps the one it started with. */
  readonly runtime: Runtime
  /** The configuration of the current snapshot as it was read, with its origins. */
  readonly loaded: LoadedConfig
  /** ms since epoch */
  readonly startedAt: number
  readonly version: string
  /** Present where its accounts and calls are invented: `serve --demo`. */
  readonly demo: DemoState | undefined
  /** Whether its admin token is one that it made itself, because the configuration had none at the start. */
  readonly madeToken: boolean
  /** Calls under way. */
  readonly running: RunningCalls
  /** The memory for bodies of requests. */
  readonly bodies: BodyBudget
  /** The gateways that share its state. */
  readonly instances: Instances
  /** Deployments that operators have taken out. */
  readonly takenOut: TakenOut
  /** What lists are sorted by. */
  readonly listedMoney: ListedMoney
  /** What the gateways that share its state tell each other. */
  readonly peers: Peers
  /** Adds a call to the running ones until it ends. */
  track(call: Call): void
  /**
   * Replaces the configuration. Running calls keep the old one, whose plugins are closed after the last of them.
   * @throws ConfigError without having changed anything
   */
  reload(next: LoadedConfig): Promise<void>
  /** The first half of {@link Gateway.reload}: sets up what the configuration names. @throws ConfigError */
  prepare(next: LoadedConfig): Promise<PreparedConfig>
  /** True once the gateway is going to end: it is not ready for new work. */
  readonly stopping: boolean
  /** True once an error has left code of the gateway half-run. */
  readonly faulty: boolean
  /** From now on the gateway is stopping; running calls go on. */
  stop(): void
  /**
   * Logs and counts an error that no call received, and blames the plugin that it comes from.
   * @returns whether the process can go on
   */
  reportFault(error: unknown, kind: FaultKind): FaultAction
  /** Closes plugins and state. The caller has drained the calls before. */
  close(): Promise<void>
}

/** `gw_` and eight hexadecimal digits. */
const GATEWAY_ID_LENGTH = 11
/**
 * Opens a gateway.
 * @param options with `adminToken` it makes a token of its own where the configuration has none
 * @throws ConfigError for plugins that cannot be used, and the errors of the state engine
 */
export async function createGateway(
  loaded: LoadedConfig,
  options: {
    readonly log?: ConsolaInstance
    readonly adminToken?: boolean
    readonly demo?: DemoState | undefined
    readonly worker?: WorkerPlace
  } = {},
): Promise<Gateway> {
  const mask = new Mask()
  mask.use(secretsOf(loaded))
  const log = mask.over(options.log ?? createLog(loaded))
  const metrics = new Metrics()
  const running = new RunningCalls()
  const isShared = loaded.config.state.driver === 'redis'
  const { format, path: folder, keep, size, content } = loaded.config.log
  const events = new LiveEvents()
  const access = new AccessLog({ format })
  const requests = new RequestLog({
    place: placeOfLog(loaded),
    keep,
    size,
    log,
    queried: (seconds) => metrics.logQueried(seconds),
  })
  const contents = new ContentLog({ folder, keep: content.keep, size, log })
  const routing = new Routing()
  const chat = internalChat((call) => {
    running.add(call)
    call.scope.defer(() => running.delete(call))
  })
  let settings = loaded
  const faults = new Faults({ log, metrics, clean: (text) => mask.clean(text) })
  const usageFindings = new UsageFindings(metrics, log)
  const common = {
    loop: new LoopWatch(TICK_MS, (message) => log.warn(message)),
    access,
    requests,
    contents,
    faults,
    authFailures: new AuthFailures(metrics, log),
    log,
    metrics,
    mask,
    usageFindings,
    routing,
    holds: new HoldEstimator(),
    internalChat: chat,
    events,
    alerts: new Alerts({
      log,
      events,
      tell: (notice) => generation.runtime.sinks?.tell('alert', notice),
      ...(isShared && { claim: (id, state) => claims.claim(id, state) }),
    }),
    gatewayId: randomId('gw_').slice(0, GATEWAY_ID_LENGTH),
  }
  const { assembled, state, token } = await open(loaded, common, options.adminToken)
  useOwnToken(loaded.config, token)
  mask.use(secretsOf(loaded))
  const { ledger, audit } = state
  let { defaults } = loaded.config
  const accounts = new Accounts({ ...state, defaults: () => defaults })
  const { records } = state
  const prices = new PriceRecords(records, log)
  const usage = new UsageIndex({
    folder,
    source: state.source,
    collect: () => requests.flush(),
    log,
  })
  requests.onBatch = (lines) => {
    generation.runtime.usage?.called(lines)
    generation.runtime.sinks?.calls(lines)
  }
  const labels = new Labels(records)
  const spending = new Spending({
    accounts,
    ledger,
    settings: () => moneySettings(generation.runtime.config),
    top: (most) => topSpenders(generation.runtime.usage, most),
    metrics: metrics.money,
    warn: (message) => log.warn(message),
  })
  const shared = { ...common, ledger, audit, accounts, records, prices, labels, usage, spending }
  let generation = generationOf(assembled, shared)
  metrics.guard.circuits = generation.runtime.guards.circuits
  const retired = new Set<Generation>()
  const closing = new Set<Promise<void>>()

  const memory = defaultBodyMemory()
  const { worker } = options
  const bodies = new BodyBudget(
    () => (generation.runtime.config.server.limits.bodyMemory ?? memory) / (worker?.count ?? 1),
    (why) => metrics.bodyRefused(why),
  )
  const disk = new DiskSpace(foldersOf(loaded.config))
  const more = () => [...spending.findings(), ...disk.findings()]
  const health = new HealthEvents(events, () => generation.runtime, more)
  const takenOut = new TakenOut({ records, routing, log }, isShared)
  await takenOut.load()
  const startedAt = Date.now()
  const own = () => ({
    ...instanceOf(generation.runtime, running.size, startedAt),
    ...(worker && { worker: worker.number }),
  })
  const instances = new Instances({ records, log, own }, isShared)
  const claims = new AlertClaims({ records, instances, gatewayId: common.gatewayId })
  const { announcements } = state
  const { gatewayId } = common
  const peers = new Peers({ announcements, records, instances, gatewayId, running, events, usage })
  const watched = { running, bodies, health, takenOut, instances, peers, disk }
  const timer = startTimer({ ...watched, ...shared })
  const { directory } = accounts
  const isFollowed = () => generation.runtime.usage !== undefined
  const listedMoney = new ListedMoney({
    ledger,
    directory,
    isShared,
    isFollowed,
    now: () => Date.now(),
  })
  usage.onNew = (some) => listedMoney.note(some)
  if (!needsToken(loaded.config.admin)) {
    directory.prepare()
    listedMoney.prepare()
  }

  let [stopping, faulty] = [false, false]
  return {
    startedAt,
    version: packageVersion(),
    demo: options.demo,
    madeToken: token !== undefined && loaded.config.admin.token === token,
    running,
    get stopping() {
      return stopping
    },
    get faulty() {
      return faulty
    },
    stop() {
      stopping = true
    },
    reportFault(error, kind) {
      const { instances, action } = faults.report(error, kind)
      if (kind === 'uncaughtException') blame(generation.runtime, instances)
      if (action === 'stop') faulty = true
      return action
    },
    bodies,
    instances,
    takenOut,
    peers,
    listedMoney,
    get loaded() {
      return settings
    },
    get runtime() {
      return generation.runtime
    },
    track(call) {
      const own = generation
      own.calls++
      running.add(call)
      call.scope.defer(() => {
        running.delete(call)
        own.calls--
        if (retired.has(own) && own.calls === 0) retire(own)
      })
    },
    async reload(next) {
      const before = generation.runtime.config
      ;(await prepare(next)).use()
      warnOfRestart(log, before, next.config)
    },
    prepare,
    async close() {
      clearInterval(timer)
      // Sinks still get the last calls.
      requests.flush()
      await Promise.all([...closing, ...[...retired, generation].map((one) => one.close())])
      access.flush()
      await peers.close()
      common.loop.close()
      await instances.leave()
      await Promise.all([requests.close(), contents.close()])
      // They read the ledger, which could not be closed tidily meanwhile.
      const ofLists = [directory.close(), listedMoney.close()]
      await Promise.all([usage.close(), spending.close(), ...ofLists])
      await closeState(state)
    },
  }

  async function prepare(next: LoadedConfig): Promise<PreparedConfig> {
    useOwnToken(next.config, token)
    // Calls of the configuration before may still fail.
    mask.use([...secretsOf(settings), ...secretsOf(next)])
    const fresh = generationOf(await assemble(next, common), shared)
    return { use: () => replaceBy(fresh, next), discard: () => fresh.close() }
  }

  function replaceBy(fresh: Generation, next: LoadedConfig): void {
    const old = generation
    generation = fresh
    metrics.guard.circuits = fresh.runtime.guards.circuits
    tellOfPrices(old.runtime, fresh.runtime)
    settings = next
    retired.add(old)
    defaults = next.config.defaults
    accounts.refresh()
    const [before, after] = [old.runtime.config.providers, next.config.providers]
    routing.retain(fresh.runtime.catalog, (provider) =>
      isDeepStrictEqual(before[provider], after[provider]),
    )
    if (old.calls === 0) retire(old)
  }

  /** Closes a generation in the background: its plugins may take their time. */
  function retire(old: Generation): void {
    retired.delete(old)
    const done = old.close().finally(() => closing.delete(done))
    closing.add(done)
  }
}

function secretsOf({ config, secrets }: Pick<LoadedConfig, 'config' | 'secrets'>): string[] {
  return secretsIn({ path: [], value: config, secrets })
}

/** Each deployment of these providers has failed once. */
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

/** Gateways that share a ledger share a log. */
function placeOfLog({ config: { state, log } }: LoadedConfig): LogPlace | undefined {
  if (state.driver === 'redis') return { redis: state.url }
  return log.path === undefined ? undefined : { folder: log.path }
}

/** Opens state and plugins; closes the one when the other fails. */
async function open(
  loaded: LoadedConfig,
  common: Common,
  makesToken = false,
): Promise<{
  readonly assembled: Assembled
  readonly state: OpenState
  /** The admin token of its own. */
  readonly token: string | undefined
}> {
  // Another thread opens the files while this one sets up plugins.
  const opening = openState(loaded, common.log)
  // The await below reports the error.
  opening.catch(() => {})
  const assembled = await assemble(loaded, common).catch(async (error: unknown) => {
    await opening.then(closeState, () => {})
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
    return { assembled, state, token }
  } catch (error) {
    await Promise.all([assembled.close(), closeState(state)])
    throw error
  }
}

/** The snapshot of one configuration, with the number of calls that use it. */
interface Generation {
  readonly runtime: Runtime
  calls: number
  close(): Promise<void>
}

function generationOf({ own, close }: Assembled, shared: Shared): Generation {
  const usage = own.config.log.usage ? shared.usage : undefined
  return { runtime: { ...shared, ...own, usage }, calls: 0, close }
}
