/** Parts that outlive a configuration: logs, metrics, accounts, the index of usage. Made once for a gateway. */
import type { ConsolaInstance } from 'consola'
import { Credentials } from '../access/credentials.ts'
import { Members } from '../access/members.ts'
import { Accounts } from '../accounts/accounts.ts'
import { ItemMemory } from '../answers/items.ts'
import { Repeats } from '../answers/repeats.ts'
import { AnswerStorage } from '../answers/storage.ts'
import { Labels } from '../accounts/labels.ts'
import type { LoadedConfig, Config } from '../config/config.ts'
import { proxySecrets } from '../config/network.ts'
import { secretsIn, secretsInAddresses } from '../errors/issues.ts'
import { Routing } from '../models/routing.ts'
import { Unserved } from '../models/unserved.ts'
import { HoldEstimator } from '../money/holds.ts'
import { AccessLog } from '../observe/access-log.ts'
import { Alerts } from '../observe/alerts.ts'
import { AuthFailures } from '../observe/auth-failures.ts'
import { Faults } from '../observe/faults.ts'
import { LiveEvents } from '../observe/live-events.ts'
import { type LogPlace, RequestLog } from '../observe/log/request-log.ts'
import { LoopWatch } from '../observe/loop-watch.ts'
import { Mask } from '../observe/mask.ts'
import { Metrics } from '../observe/metrics.ts'
import { Spending } from '../observe/spending.ts'
import { UsageFindings } from '../observe/usage-findings.ts'
import { CreditEvents } from '../observe/credit-events.ts'
import { Expiry } from '../observe/usage/expiry.ts'
import { Seals } from '../observe/usage/seals.ts'
import { UsageIndex } from '../observe/usage/usage.ts'
import {
  type Runtime,
  Call,
  ClientDisconnected,
  type Admission,
  type CallerContext,
} from '../pipeline/pipeline.ts'
import { PaymentOrders } from '../payments/orders.ts'
import type { RunningCalls } from '../pipeline/running-calls.ts'
import type { ChatCompletion } from '../plugin.ts'
import { instanceKey, randomId } from '../state/ids.ts'
import { PriceRecords } from '../state/prices.ts'
import { ProxyHealth } from '../upstream/egress.ts'
import { Discovery } from './discovery.ts'
import { createLog, messagesOf } from './log.ts'
import type { OpenState } from './open-state.ts'
import type { UsageQuery } from '../observe/usage/query.ts'
import { chat } from '../endpoints/chat/endpoint.ts'
import type { AnswerChunk } from '../endpoints/chat/billing.ts'
import { collect } from '../endpoints/chat/chunks.ts'
import { chatCompletions } from '../endpoints/chat/dialects/chat/write.ts'
import type { ChatRequest } from '../endpoints/chat/request.ts'
import type { GuardModelRequest } from '../guard/host.ts'
import type { Incoming } from '../pipeline/http.ts'
import { NO_POLICY } from '../policy/policy.ts'
import { route } from '../pipeline/stages/route.ts'

/** The parts that the setup of plugins needs. */
export type Common = Readonly<ReturnType<typeof createCommon>>

/** Those, and the parts that read and write the state. */
export type Shared = Readonly<ReturnType<typeof createShared>>

/** Settings of {@link createCommon} beside the configuration. */
interface CommonOptions {
  readonly log: ConsolaInstance | undefined
  readonly runtime: () => Runtime
  readonly running: RunningCalls
  /** Whether built-in providers get frozen input as well. */
  readonly freezesAll: boolean
}

export const TICK_MS = 250
/** Length of `gw_` and eight hexadecimal digits. */
const GATEWAY_ID_LENGTH = 11

/** Makes the parts that the setup of plugins needs. Its owner closes the logs and the loop's watch. */
export function createCommon(
  loaded: LoadedConfig,
  { runtime, running, freezesAll, ...options }: CommonOptions,
) {
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
    proxies: new ProxyHealth(),
    // Shared by all configurations: calls of an old one still end.
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
    }),
    routing: new Routing(),
    unserved: new Unserved(),
    discovery: new Discovery((message) => log.warn(message)),
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
) {
  const { requests, metrics, log } = common
  const { ledger, audit, records, storage } = state
  const defaults = () => runtime().config.defaults
  const accounts = new Accounts({ ...state, defaults })
  requests.onBatch = (lines) => {
    const { usage, sinks } = runtime()
    usage?.called(lines)
    sinks?.calls(lines)
  }
  const creditEvents = new CreditEvents({
    records,
    gateway: common.gatewayId,
    accountOf: (id) => accounts.account(id),
    newestCredit: (account) => runtime().usage?.ask('newestCredit', account),
    tell: () => {
      const { sinks } = runtime()
      return sinks && ((event, data, id) => sinks.tell(event, data, id))
    },
    failed: (error) => common.faults.warn('credit.events', messagesOf(error)),
  })
  const spending = new Spending({
    accounts,
    ledger,
    looked: (account, balance) => creditEvents.looked(account, balance),
    settings: () => moneySettings(runtime().config),
    top: (most) => topSpenders(runtime().usage, most),
    everything: () => watchedOf(accounts),
    wasEmpty: (account) => common.alerts.isActive('balance.empty', account),
    metrics: metrics.money,
    warn: (message) => log.warn(message),
  })
  accounts.directory.onChange = (account, key) => spending.touched(account, key)
  const usage = new UsageIndex({
    folder: logFolder,
    source: state.source,
    collect: () => requests.flush(),
    isDoubted: () => ledger.health().doubt !== undefined,
    lacks: (account) => ledger.suspect(account),
    booked: (bookings) => creditEvents.booked(bookings),
    log,
  })
  const seals = new Seals({
    records,
    audit,
    usage: () => runtime().usage,
    gateway: common.gatewayId,
    sealed: (message) => once(runtime(), { kind: 'ledger.sealed', object: '', message }),
    failed: (error) => common.faults.warn('ledger.seals', messagesOf(error)),
  })
  const expiry = new Expiry({
    ledger,
    usage: () => runtime().usage,
    failed: (error) => common.faults.warn('ledger.expiry', messagesOf(error)),
  })
  const payments = new PaymentOrders({
    records,
    ledger,
    accounts,
    provider: () => runtime().paymentProvider,
    settings: () => runtime().config,
    booked: (account) => {
      runtime().usage?.settled(account)
      spending.touched(account)
    },
    once: (what) => once(runtime(), what),
    warn: (message) => common.faults.warn('payments', message),
  })
  ledger.onReplayed = (bookings) => {
    const message = `the ledger had lost ${bookings} bookings, which were booked again`
    once(runtime(), { kind: 'ledger.replayed', object: '', message })
  }
  ledger.onBooked = (charge) => runtime().usage?.booked(charge)
  const [prices, labels] = [new PriceRecords(records, log), new Labels(records)]
  const answers = new AnswerStorage(storage)
  const items = new ItemMemory(answers, (message) => common.faults.warn('answers.items', message))
  const repeats = new Repeats({
    records,
    storage: answers,
    ledger,
    gateway: common.gatewayId,
    runs: async (gateway) => (await records.get(instanceKey(gateway))) !== undefined,
    warn: (message) => common.faults.warn('answers.repeats', message),
  })
  const credentials = new Credentials(records)
  const members = new Members(records, accounts, credentials)
  const stored = { ledger, audit, accounts, records, items, repeats, prices, labels }
  return { ...common, ...stored, credentials, members, usage, spending, seals, expiry, payments }
}

/** Tells something that has happened, unless the operator has switched its alert off. */
function once({ alerts, config }: Runtime, what: Parameters<Alerts['once']>[0]): void {
  if (!config.alerts.off.includes(what.kind)) alerts.once(what)
}

export function secretsOf({
  config,
  secrets,
  network,
}: Pick<LoadedConfig, 'config' | 'secrets' | 'network'>): string[] {
  // The models of a wildcard, of which there may be thousands, have what the wildcard has.
  const written = Object.entries(config.models).filter(([, model]) => model.wildcard === undefined)
  const value = { ...config, models: Object.fromEntries(written) }
  const { providers, search, sinks, guards, payments = {}, log, state, egress } = config
  return [
    ...secretsIn({ path: [], value, secrets }),
    ...secretsInAddresses({ providers, search, sinks, guards, payments, log, state, egress }),
    ...proxySecrets(config, network),
  ]
}

/** Place of the log: gateways that share a ledger share a log, in the same Redis where the log has none of its own. */
function placeOfLog({ config: { state, log } }: LoadedConfig): LogPlace | undefined {
  if (state.driver === 'redis') return { redis: log.url ?? state.url, isOwn: log.url !== undefined }
  return log.path === undefined ? undefined : { folder: log.path }
}

/** Accounts, and keys with a cap or an end, that are not archived. */
async function watchedOf({ directory }: Accounts) {
  const { accounts, keys } = await directory.view()
  const isOpen = ({ archived }: { readonly archived: boolean }) => !archived
  return {
    accounts: [...accounts.values()].filter(isOpen).map(({ id }) => id),
    keys: [...keys.values()]
      .filter((one) => isOpen(one) && (one.hasCap || one.expiresAt !== undefined))
      .map(({ id }) => id),
  }
}

function moneySettings({ alerts, defaults, metrics, prices }: Config) {
  const top = metrics.money === false ? undefined : metrics.money.top
  return {
    below: alerts.balance,
    top,
    timeZone: defaults.timeZone,
    lists: Object.keys(prices.lists),
  }
}

async function topSpenders(usage: UsageIndex | undefined, most: number) {
  if (!usage) return { accounts: [], keys: [] }
  const now = new Date()
  const ask = (group: 'account' | 'key'): UsageQuery => ({
    from: Date.UTC(now.getUTCFullYear(), now.getUTCMonth()),
    to: now.getTime() + 1,
    rollup: 'month',
    group: [group],
    filters: {},
    metric: 'cost_usd',
    top: most,
  })
  const { result } = await usage.ask('usage', { queries: [ask('account'), ask('key')] })
  const [accounts = [], keys = []] = result.map((answer) =>
    'fits' in answer ? [] : answer.cells.map(({ group }) => group[0]!).filter(Boolean),
  )
  return { accounts, keys }
}

/**
 * Asks a model for a guard, by the same routing as calls: without policy, guards, limits of the key, or a row in the ledger.
 * @param track adds a call to the running ones
 */
function internalChat(track: (call: Call) => void) {
  return async function ask(
    beside: CallerContext,
    { model: id, request, signal, book }: GuardModelRequest,
  ): Promise<ChatCompletion> {
    const { id: requestId, path, runtime, catalog, account } = beside
    const incoming = withoutBody(beside.incoming)
    const model = catalog.get(id)
    if (model?.modality !== 'chat') throw new Error(`there is no chat model ${JSON.stringify(id)}`)
    const init = { id: requestId, path, endpoint: chat, format: chatCompletions, incoming, runtime }
    const call = new Call(init)
    const input = { ...request, model: id, stream: false } as ChatRequest
    // A question has no key of its own, and `route` needs none.
    call.made.admission = { account, played: false } as Admission
    call.made.target = {
      model,
      online: false,
      thinks: false,
      policy: NO_POLICY,
      outbound: chat.toUpstream(input),
      requiresNormalForm: false,
      native: false,
    }
    call.made.request = {
      input,
      model: id,
      stream: false,
      policy: undefined,
      session: undefined,
      affinityToken: undefined,
    }
    track(call)
    // It ends like a call whose client leaves: a question that was sent is paid.
    const giveUp = () => call.abort(new ClientDisconnected())
    signal.addEventListener('abort', giveUp, { once: true })
    try {
      signal.throwIfAborted()
      void call.enter(route)
      return await new Promise<ChatCompletion>((resolve, reject) => {
        const chunks: AnswerChunk[] = []
        call
          .chainTo({
            push: (chunk: AnswerChunk) => void chunks.push(chunk),
            batchEnd: () => true,
            end: () => resolve(collect(chunks)),
            fail: (error) => reject(error as Error),
          })
          .start(call.source!)
      })
    } catch (error) {
      signal.throwIfAborted()
      throw error
    } finally {
      signal.removeEventListener('abort', giveUp)
      await call.end('completed')
      const { flags, reported, meter } = call.answer
      if (flags.has('suspicious')) beside.answer?.flags.add('suspicious')
      if (reported && beside.answer) {
        beside.answer.reported = { ...beside.answer.reported, ...reported }
      }
      for (const line of meter) book({ ...line, source: 'guard' })
    }
  }
}

/** The same request without the body, which belongs to the call that reads it. */
function withoutBody(incoming: Incoming): Incoming {
  return {
    method: incoming.method,
    url: incoming.url,
    address: incoming.address,
    header: (name) => incoming.header(name),
    json: unreachable,
    pieces: unreachable,
    release: () => {},
    throwIfGone: () => incoming.throwIfGone(),
  }
}

function unreachable(): never {
  throw new Error('a call for a guard has no body, and route is its last stage')
}
