/** Parts that outlive a configuration: logs, metrics, accounts, the index of usage. Made once for a gateway. */
import type { ConsolaInstance } from 'consola'
import { Accounts } from '../accounts/accounts.ts'
import { Labels } from '../accounts/labels.ts'
import type { LoadedConfig } from '../config/config.ts'
import { secretsIn } from '../errors/issues.ts'
import { Routing } from '../models/routing.ts'
import { HoldEstimator } from '../money/holds.ts'
import { AccessLog } from '../observe/access-log.ts'
import { Alerts } from '../observe/alerts.ts'
import { AuthFailures } from '../observe/auth-failures.ts'
import type { ContentLog } from '../observe/content/content-log.ts'
import { Faults } from '../observe/faults.ts'
import { LiveEvents } from '../observe/live-events.ts'
import { type LogPlace, RequestLog } from '../observe/log/request-log.ts'
import { LoopWatch } from '../observe/loop-watch.ts'
import { Mask } from '../observe/mask.ts'
import { Metrics } from '../observe/metrics.ts'
import { Spending } from '../observe/spending.ts'
import { UsageFindings } from '../observe/usage-findings.ts'
import { UsageIndex } from '../observe/usage/usage.ts'
import type { Runtime } from '../pipeline/pipeline.ts'
import type { RunningCalls } from '../pipeline/running-calls.ts'
import type { AlertNotice } from '../plugin.ts'
import type { Audit } from '../state/audit.ts'
import { randomId } from '../state/ids.ts'
import type { Ledger } from '../state/ledger/ledger.ts'
import { PriceRecords } from '../state/prices.ts'
import type { Records } from '../state/records.ts'
import { internalChat } from './guard-setup.ts'
import { createLog } from './log.ts'
import { moneySettings, topSpenders } from './money-settings.ts'
import type { OpenState } from './open-state.ts'

export interface Shared extends Common {
  readonly ledger: Ledger
  readonly audit: Audit
  readonly records: Records
  readonly prices: PriceRecords
  readonly accounts: Accounts
  readonly labels: Labels
  readonly usage: UsageIndex
  readonly spending: Spending
}

export interface Common {
  readonly mask: Mask
  readonly loop: LoopWatch
  /** Shared by all configurations: calls of an old one still end. */
  readonly access: AccessLog
  readonly requests: RequestLog
  readonly contents: ContentLog
  readonly faults: Faults
  readonly authFailures: AuthFailures
  readonly gatewayId: string
  readonly events: LiveEvents
  readonly alerts: Alerts
  readonly log: ConsolaInstance
  readonly metrics: Metrics
  readonly usageFindings: UsageFindings
  readonly routing: Routing
  readonly holds: HoldEstimator
  readonly internalChat: Runtime['internalChat']
  /** Whether built-in providers get frozen input as well. */
  readonly freezesAll: boolean
}

/** Settings of {@link createCommon} beside the configuration. */
interface CommonOptions {
  readonly log: ConsolaInstance | undefined
  readonly runtime: () => Runtime
  readonly running: RunningCalls
  readonly freezesAll: boolean
  /** Whether this gateway is the one that reports an alert; absent for a gateway alone. */
  readonly claim?: (id: string, state: AlertNotice['state']) => Promise<boolean>
}

export const TICK_MS = 250
/** Length of `gw_` and eight hexadecimal digits. */
const GATEWAY_ID_LENGTH = 11

/** Makes the parts that the setup of plugins needs. Its owner closes the logs and the loop's watch. */
export function createCommon(
  loaded: LoadedConfig,
  { runtime, running, claim, freezesAll, ...options }: CommonOptions,
): Common {
  const { format, path: folder, keep, size, content } = loaded.config.log
  const mask = new Mask()
  mask.use(secretsOf(loaded))
  const log = mask.over(options.log ?? createLog(loaded))
  const metrics = new Metrics()
  const events = new LiveEvents()
  const requests = new RequestLog({
    place: placeOfLog(loaded),
    contents: { folder, keep: content.keep, size },
    keep,
    size,
    log,
    queried: (seconds) => metrics.logQueried(seconds),
  })
  return {
    mask,
    log,
    metrics,
    events,
    freezesAll,
    access: new AccessLog({ format }),
    requests,
    contents: requests.contents,
    loop: new LoopWatch(TICK_MS, (message) => log.warn(message)),
    faults: new Faults({ log, metrics, clean: (text) => mask.clean(text) }),
    authFailures: new AuthFailures(metrics, log),
    usageFindings: new UsageFindings(metrics, log),
    alerts: new Alerts({
      log,
      events,
      tell: (notice) => runtime().sinks?.tell('alert', notice),
      ...(claim && { claim }),
    }),
    routing: new Routing(),
    holds: new HoldEstimator(),
    internalChat: internalChat((call) => {
      running.add(call)
      call.scope.defer(() => running.delete(call))
    }),
    gatewayId: randomId('gw_').slice(0, GATEWAY_ID_LENGTH),
  }
}

/** Makes the parts that read and write an open state. Its owner closes usage, spending and the directory of accounts. */
export function createShared(
  common: Common,
  state: OpenState,
  runtime: () => Runtime,
  logFolder: string | undefined,
): Shared {
  const { requests, metrics, log } = common
  const { ledger, audit, records } = state
  const defaults = () => runtime().config.defaults
  const accounts = new Accounts({ ...state, defaults })
  requests.onBatch = (lines) => {
    const { usage, sinks } = runtime()
    usage?.called(lines)
    sinks?.calls(lines)
  }
  const spending = new Spending({
    accounts,
    ledger,
    settings: () => moneySettings(runtime().config),
    top: (most) => topSpenders(runtime().usage, most),
    metrics: metrics.money,
    warn: (message) => log.warn(message),
  })
  const usage = new UsageIndex({
    folder: logFolder,
    source: state.source,
    collect: () => requests.flush(),
    log,
  })
  ledger.onBooked = (charge) => runtime().usage?.booked(charge)
  const [prices, labels] = [new PriceRecords(records, log), new Labels(records)]
  return { ...common, ledger, audit, accounts, records, prices, labels, usage, spending }
}

export function secretsOf({ config, secrets }: Pick<LoadedConfig, 'config' | 'secrets'>): string[] {
  return secretsIn({ path: [], value: config, secrets })
}

/** Place of the log: gateways that share a ledger share a log, in the same Redis where the log has none of its own. */
function placeOfLog({ config: { state, log } }: LoadedConfig): LogPlace | undefined {
  if (state.driver === 'redis') return { redis: log.url ?? state.url, isOwn: log.url !== undefined }
  return log.path === undefined ? undefined : { folder: log.path }
}
