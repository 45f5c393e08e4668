/** The metrics of one gateway. Text is built only when Prometheus asks for it. */
import type { AuthFailure } from './auth-failures.ts'
import { GuardMetrics } from './guard-metrics.ts'
import type { Quantity } from '../server/admin/resources/usage.ts'
import type { KnownCall } from './record.ts'
import {
  Counter,
  familiesText,
  gaugeFamily,
  Histogram,
  type Gauge,
  type MetricFamily,
  Amounts,
  type Count,
  type Distribution,
} from './prometheus.ts'
import { formatPico, parsePico, type Pico } from '../money/money.ts'
import type { KeySpend } from '../state/ledger/ledger.ts'
import type { SinkCounts, SinkLoss } from './sinks/work.ts'

/** Upper bounds in seconds: from an answer of a cache to the longest stream. */
const REQUEST_BOUNDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600]
const FIRST_BOUNDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
const RATE_BOUNDS = [1, 5, 10, 20, 40, 80, 160, 320, 640, 1280]
/** Streams with fewer tokens say nothing about a rate. */
const LEAST_TOKENS = 20
/** Deployments of wildcard models have no bound of their own. */
const MOST_SERIES = 2000

/** Quantities that count as tokens, by name; the others are units. */
const TOKENS: Partial<Record<Quantity, string>> = {
  prompt_tokens: 'prompt',
  cached_tokens: 'cached',
  cache_write_tokens: 'cache_write',
  completion_tokens: 'completion',
  reasoning_tokens: 'reasoning',
}

/** Codes of failures that the client has not caused. */
export const FAULTS: ReadonlySet<string> = new Set([
  'internal_error',
  'provider_overloaded',
  'service_unavailable',
  'upstream_error',
  'upstream_rate_limited',
  'upstream_timeout',
])

/** Handles of the metrics of one model at one endpoint, so that its calls need not look them up. */
interface CallSeries {
  readonly cost: { sum: Pico }
  /** It is made with the first call of which it is known. */
  vendor: { sum: Pico } | undefined
  /** Handles by outcome and code. */
  readonly ended: Map<string, { readonly requests: Count; readonly durations: Distribution }>
  readonly consumed: Map<string, Count>
  readonly firstParts: Map<string, Distribution>
  readonly rates: Map<string, Distribution>
}

/** The value of a map, created where it is missing. */
function kept<Value>(of: Map<string, Value>, name: string, make: () => Value): Value {
  let value = of.get(name)
  if (value === undefined) of.set(name, (value = make()))
  return value
}

class CallMetrics {
  readonly #series = new Map<string, Map<string, CallSeries>>()
  readonly #requests = new Counter({
    name: 'sluicegate_requests_total',
    help: 'Calls that have ended.',
    labels: ['endpoint', 'model', 'outcome', 'code'],
    limit: 5000,
    open: ['model', 'code'],
  })
  readonly #durations = new Histogram(REQUEST_BOUNDS, {
    name: 'sluicegate_request_duration_seconds',
    help: 'From the arrival of a call to its last byte.',
    labels: ['endpoint', 'outcome'],
  })
  readonly #firstParts = new Histogram(FIRST_BOUNDS, {
    name: 'sluicegate_first_part_seconds',
    help: 'From the arrival of a call to the first part of an answer that is sent as it comes.',
    labels: ['model', 'deployment'],
    limit: MOST_SERIES,
  })
  readonly #rates = new Histogram(RATE_BOUNDS, {
    name: 'sluicegate_output_tokens_per_second',
    help: 'Output tokens of a stream by the time after its first part; streams of at least 20 tokens.',
    labels: ['model', 'deployment'],
    limit: MOST_SERIES,
  })
  readonly #cost = new Amounts({
    name: 'sluicegate_cost_usd_total',
    help: 'What calls were charged, in USD, exact.',
    labels: ['endpoint', 'model'],
  })
  readonly #vendor = new Amounts({
    name: 'sluicegate_vendor_cost_usd_total',
    help: 'What vendors are paid for calls of which that is known, in USD, exact.',
    labels: ['endpoint', 'model'],
  })
  readonly #refunds = new Amounts({
    name: 'sluicegate_refunds_usd_total',
    help: 'Refunds of calls, in USD, exact.',
    labels: ['endpoint', 'model'],
  })
  readonly #tokens = new Counter({
    name: 'sluicegate_tokens_total',
    help: 'Tokens consumed. cached and cache_write are contained in prompt, reasoning in completion.',
    labels: ['endpoint', 'model', 'kind'],
  })
  readonly #units = new Counter({
    name: 'sluicegate_units_total',
    help: 'What was consumed beside tokens: images, pages, seconds, characters, searches, search units.',
    labels: ['endpoint', 'model', 'kind'],
  })
  readonly #refusals = new Counter({
    name: 'sluicegate_refusals_total',
    help: 'Calls that a limit has refused.',
    labels: ['limit'],
  })
  readonly #failovers = new Counter({
    name: 'sluicegate_failovers_total',
    help: 'Calls that went on to another deployment.',
    labels: ['model', 'from', 'to', 'class'],
    limit: MOST_SERIES,
    open: ['model', 'from', 'to'],
  })
  readonly #fallbacks = new Counter({
    name: 'sluicegate_fallbacks_total',
    help: 'Calls that a model has answered in place of the one that was asked for.',
    labels: ['model', 'to', 'reason'],
    limit: MOST_SERIES,
    open: ['model', 'to'],
  })
  readonly #answers = new Counter({
    name: 'sluicegate_answers_total',
    help: 'What the storage of answers has done for calls: hit, joined, miss, pass, stored, too_large, late, failed.',
    labels: ['result'],
  })
  readonly #saved = new Amounts({
    name: 'sluicegate_answers_saved_usd_total',
    help: 'What stored answers have cost less than new ones, in USD, exact.',
    labels: ['model'],
  })
  readonly #cooldowns = new Counter({
    name: 'sluicegate_deployment_cooldowns_total',
    help: 'Cooldowns that have begun.',
    labels: ['deployment', 'class'],
    limit: MOST_SERIES,
    open: ['deployment'],
  })

  /** Counts an ended call. @param model label of the model: names that clients make up would add series without bound */
  ended(call: KnownCall, model = ''): void {
    const { endpoint, deployment = '', outcome = 'failed', code = '', limited_by, times } = call
    const { cost_usd, vendor_cost_usd: vendor } = call
    const usage: Readonly<Record<string, number | undefined>> = call.usage ?? {}
    const series = this.#seriesOf(model, endpoint)
    const seconds = (times?.total_ms ?? 0) / 1000
    const ended = kept(series.ended, `${outcome} ${code}`, () => ({
      requests: this.#requests.of([endpoint, model, outcome, code]),
      durations: this.#durations.of([endpoint, outcome]),
    }))
    ended.requests.count++
    this.#durations.put(ended.durations, seconds)
    if (cost_usd !== undefined) series.cost.sum += parsePico(cost_usd)
    if (vendor !== undefined) {
      series.vendor ??= this.#vendor.of([endpoint, model])
      series.vendor.sum += parsePico(vendor)
    }
    if (limited_by !== undefined) this.#refusals.add(1, limited_by)
    for (const [name, count] of Object.entries(usage)) {
      if (count)
        kept(series.consumed, name, () => this.#consumed(name, endpoint, model)).count += count
    }
    if (times?.first_ms === undefined) return
    const firstSeconds = times.first_ms / 1000
    const firstParts = kept(series.firstParts, deployment, () =>
      this.#firstParts.of([model, deployment]),
    )
    this.#firstParts.put(firstParts, firstSeconds)
    const tokens = usage.completion_tokens ?? 0
    if (tokens < LEAST_TOKENS || seconds <= firstSeconds || outcome !== 'completed') return
    const rates = kept(series.rates, deployment, () => this.#rates.of([model, deployment]))
    this.#rates.put(rates, tokens / (seconds - firstSeconds))
  }

  #seriesOf(model: string, endpoint: string): CallSeries {
    const ofModel = kept(this.#series, model, () => new Map<string, CallSeries>())
    return kept(ofModel, endpoint, () => ({
      cost: this.#cost.of([endpoint, model]),
      vendor: undefined,
      ended: new Map(),
      consumed: new Map(),
      firstParts: new Map(),
      rates: new Map(),
    }))
  }

  refunded(endpoint: string, model: string, amount: Pico): void {
    this.#refunds.of([endpoint, model]).sum += amount
  }

  #consumed(name: string, endpoint: string, model: string): Count {
    const tokens = TOKENS[name as Quantity]
    if (tokens === undefined) return this.#units.of([endpoint, model, name])
    return this.#tokens.of([endpoint, model, tokens])
  }

  outcomes(): Map<string, ModelOutcomes> {
    const byModel = new Map<string, { calls: number; failed: number; fellBack: number }>()
    const of = (model: string) => kept(byModel, model, () => ({ calls: 0, failed: 0, fellBack: 0 }))
    for (const { names, value } of this.#requests.series()) {
      const [, model = '', , code = ''] = names
      if (model === '') continue
      const outcomes = of(model)
      outcomes.calls += value.count
      if (FAULTS.has(code)) outcomes.failed += value.count
    }
    for (const { names, value } of this.#fallbacks.series()) {
      if (names[0]) of(names[0]).fellBack += value.count
    }
    return byModel
  }

  /** Counts a call that goes on to another deployment. @param failure class of the failure of the one before */
  failedOver(model: string, from: string, to: string, failure: string): void {
    this.#failovers.add(1, model, from, to, failure)
  }

  /** Counts a call that a model answers in place of the asked one. */
  fellBack(model: string, to: string, reason: string): void {
    this.#fallbacks.add(1, model, to, reason)
  }

  /** Counts a result of the storage of answers. */
  answered(result: string): void {
    this.#answers.add(1, result)
  }

  saved(amount: Pico, model: string): void {
    this.#saved.of([model]).sum += amount
  }

  /** Counts the beginning of a cooldown. @param failure class of the failure that starts it */
  cooledDown(deployment: string, failure: string): void {
    this.#cooldowns.add(1, deployment, failure)
  }

  families(): MetricFamily[] {
    return [
      this.#requests,
      this.#durations,
      this.#firstParts,
      this.#rates,
      this.#cost,
      this.#vendor,
      this.#refunds,
      this.#tokens,
      this.#units,
      this.#refusals,
      this.#failovers,
      this.#fallbacks,
      this.#answers,
      this.#saved,
      this.#cooldowns,
    ].map((metric) => metric.family())
  }
}

// Gauges of balances and spend, of the accounts and keys that spend most.

interface MoneyValues {
  readonly balances: readonly { readonly account: string; readonly balance: Pico }[]
  readonly keys: readonly {
    readonly key: string
    readonly spend: Pick<KeySpend, 'day' | 'month' | 'lifetime'>
    /** Remainder of its cap; absent without one. */
    readonly remaining?: Pico
  }[]
}

const WINDOWS = ['day', 'month', 'lifetime'] as const

/** It is empty until it is set: the gauges are off by default. */
export class MoneyMetrics {
  #values: MoneyValues | undefined

  set(values: MoneyValues): void {
    this.#values = values
  }

  clear(): void {
    this.#values = undefined
  }

  /** The gauges with their present values; all workers have the same ledger. */
  families(): MetricFamily[] {
    if (!this.#values) return []
    const gauge = (name: string, help: string, labels: readonly string[]) =>
      new Counter({ name, help, labels }, 'gauge', 'max')
    const balances = gauge('sluicegate_account_balance_usd', 'Balance of an account.', ['account'])
    const spends = gauge('sluicegate_key_spend_usd', 'What a key has spent.', ['key', 'window'])
    const left = gauge('sluicegate_key_cap_remaining_usd', 'What is left of the cap.', ['key'])
    for (const { account, balance } of this.#values.balances) balances.add(usd(balance), account)
    for (const { key, spend, remaining } of this.#values.keys) {
      for (const window of WINDOWS) spends.add(usd(spend[window]), key, window)
      if (remaining !== undefined) left.add(usd(remaining), key)
    }
    return [balances.family(), spends.family(), left.family()]
  }
}

/** A gauge is a number; the exact amounts are in the ledger. */
function usd(amount: Pico): number {
  return Number(formatPico(amount))
}

/** Upper bounds in seconds: from a write to a local disk to an outage of the ledger. */
const SETTLE_BOUNDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5]

const QUERY_BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1]

export class Metrics {
  readonly #webhooks = new Counter({
    name: 'sluicegate_payment_webhooks_total',
    help: 'Webhooks of the payment provider: taken, of no matter, with a wrong signature, or failed and to be delivered again.',
    labels: ['result'],
  })
  readonly guard = new GuardMetrics()
  readonly calls = new CallMetrics()
  readonly sinks = new SinkMetrics()
  readonly money = new MoneyMetrics()
  #running = 0
  readonly #unauthenticated = new Counter({
    name: 'sluicegate_auth_failures_total',
    help: 'Requests without a valid key.',
    labels: ['why'],
  })
  readonly #entries = new Counter({
    name: 'sluicegate_entries_total',
    help: 'Admissions: key, rate, concurrency.',
    labels: ['result'],
  })
  readonly #holds = new Counter({
    name: 'sluicegate_holds_total',
    help: 'Holds: free tier, caps, balance.',
    labels: ['result'],
  })
  readonly #raises = new Counter({
    name: 'sluicegate_hold_raises_total',
    help: 'Holds that grew with the answer, where little money was left.',
  })
  readonly #bodies = new Counter({
    name: 'sluicegate_bodies_refused_total',
    help: 'Request bodies refused for lack of memory.',
    labels: ['why'],
  })
  readonly #unknown = new Counter({
    name: 'sluicegate_unknown_routes_total',
    help: 'Requests for routes that do not exist.',
  })
  readonly #settlements = new Histogram(SETTLE_BOUNDS, {
    name: 'sluicegate_settlement_duration_seconds',
    help: 'From a charge to the moment it was durable.',
  })
  readonly #deferred = new Counter({
    name: 'sluicegate_settlements_deferred_total',
    help: 'Charges that were not durable in time; the ledger goes on trying.',
  })
  readonly #waived = new Counter({
    name: 'sluicegate_settlements_waived_total',
    help: 'Deferred charges that cost nothing, because the answer was not sent.',
  })
  readonly #unbilled = new Counter({
    name: 'sluicegate_unbilled_usd_total',
    help: 'Cost that no account is charged: `gateway`, it failed itself; `deadline`, a whole answer came too late.',
    labels: ['why'],
  })
  readonly #estimated = new Counter({
    name: 'sluicegate_usage_estimated_total',
    help: 'Answers charged by estimate.',
    labels: ['provider', 'reason'],
  })
  readonly #suspicious = new Counter({
    name: 'sluicegate_usage_suspicious_total',
    help: 'Answers whose usage is higher than anything explains; charged as reported.',
    labels: ['provider'],
  })
  readonly #absurd = new Counter({
    name: 'sluicegate_usage_absurd_total',
    help: 'Answers whose usage is impossible; the vendor has failed.',
    labels: ['provider'],
  })
  readonly #upstream = new Histogram(REQUEST_BOUNDS, {
    name: 'sluicegate_upstream_duration_seconds',
    help: 'Requests to vendors, up to the first part of the answer.',
    labels: ['provider', 'outcome'],
  })
  readonly #searches = new Histogram(REQUEST_BOUNDS, {
    name: 'sluicegate_search_duration_seconds',
    help: 'Web searches with their retries.',
    labels: ['engine', 'outcome'],
  })

  readonly #dropped = new Counter({
    name: 'sluicegate_search_results_dropped_total',
    help: 'Results of search engines without text or without an address that can be shown.',
    labels: ['engine'],
  })
  readonly #late = new Counter({
    name: 'sluicegate_plugin_late_total',
    help: 'Answers of plugins that came when nothing waited for them any more.',
    labels: ['plugin'],
  })
  readonly #adminRequests = new Counter({
    name: 'sluicegate_admin_requests_total',
    help: 'Requests to routes of the admin API.',
    labels: ['route', 'status'],
  })
  readonly #logQueries = new Histogram(QUERY_BOUNDS, {
    name: 'sluicegate_log_query_seconds',
    help: 'Questions to the request log.',
  })
  readonly #auditFailures = new Counter({
    name: 'sluicegate_audit_failures_total',
    help: 'Changes that are missing in the audit log.',
  })
  readonly #operatorCalls = new Counter({
    name: 'sluicegate_operator_calls_total',
    help: 'Tests of models by operators, which no account pays.',
    labels: ['result'],
  })
  readonly #faults = new Counter({
    name: 'sluicegate_faults_total',
    help: 'Errors that no call received.',
    labels: ['kind', 'origin'],
  })

  get running(): number {
    return this.#running
  }

  requestStarted(): void {
    this.#running++
  }

  /** A call has ended, with any outcome. @param model label of the model; see {@link CallMetrics.ended} */
  requestEnded(call: KnownCall, model?: string): void {
    this.#running--
    this.calls.ended(call, model)
  }

  unauthenticated(reason: AuthFailure): void {
    this.#unauthenticated.add(1, reason)
  }

  /** The ledger has decided about an admission. @param result `ok`, or the reason of a refusal */
  entered(result: string): void {
    this.#entries.add(1, result)
  }

  /** A request body was refused. @param why the resource that was short: memory, or a share of it */
  bodyRefused(resource: string): void {
    this.#bodies.add(1, resource)
  }

  unknownRoute(): void {
    this.#unknown.add(1)
  }

  /** The ledger has decided about a hold. @param result `ok`, or the reason of a refusal */
  held(result: string): void {
    this.#holds.add(1, result)
  }

  raised(): void {
    this.#raises.add(1)
  }

  /** The ledger has answered a charge. @param state `deferred`: it is not durable. @param seconds the seconds since the charge */
  settled(state: string, seconds: number): void {
    if (state === 'deferred') this.#deferred.add(1)
    else this.#settlements.observe(seconds)
  }

  /** A deferred charge was set to 0, because its answer was not sent. */
  waived(): void {
    this.#waived.add(1)
  }

  unbilled(why: 'gateway' | 'deadline', cost: bigint): void {
    if (cost > 0n) this.#unbilled.add(Number(cost) / 1e12, why)
  }

  usageEstimated(provider: string, reason: string): void {
    this.#estimated.add(1, provider, reason)
  }

  usageDoubted(provider: string, verdict: 'suspicious' | 'absurd'): void {
    const counter = verdict === 'absurd' ? this.#absurd : this.#suspicious
    counter.add(1, provider)
  }

  /** A request to a vendor has its first part, or has failed. @param outcome `ok` or the class of the failure */
  upstream(provider: string, outcome: string, seconds: number): void {
    this.#upstream.observe(seconds, provider, outcome)
  }

  /** A web search has ended. @param outcome `ok` or the class of the failure */
  searched(engine: string, outcome: string, seconds: number): void {
    this.#searches.observe(seconds, engine, outcome)
  }

  /** A plugin has answered after its result was no longer needed. @param instance the instance of the configuration */
  answeredLate(instance: string): void {
    this.#late.add(1, instance)
  }

  searchResultsDropped(engine: string, count: number): void {
    if (count > 0) this.#dropped.add(count, engine)
  }

  /** A request to the admin API was answered. @param route its path with `:id` */
  webhook(result: 'taken' | 'ignored' | 'refused' | 'failed'): void {
    this.#webhooks.add(1, result)
  }

  adminAnswered(route: string, status: number): void {
    this.#adminRequests.add(1, route, String(status))
  }

  /** The request log has answered a question, or failed to. */
  logQueried(seconds: number): void {
    this.#logQueries.observe(seconds)
  }

  /** An operator has tested a model. @param result `ok` or `failed` */
  operatorCalled(result: string): void {
    this.#operatorCalls.add(1, result)
  }

  auditFailed(): void {
    this.#auditFailures.add(1)
  }

  /** An error has reached no call. @param origin `core`, `unknown`, or `plugin:` and names of the configuration */
  faulted(kind: string, origin: string): void {
    this.#faults.add(1, kind, origin)
  }

  text(gauges: readonly Gauge[] = []): string {
    return familiesText(this.families(gauges))
  }

  /** All metrics with their present values, with `gauges` at the end. */
  families(gauges: readonly Gauge[] = []): MetricFamily[] {
    const running = gaugeFamily({
      name: 'sluicegate_requests_running',
      help: 'Calls in progress.',
      over: 'sum',
      value: this.#running,
    })
    const own = [
      this.#unauthenticated,
      this.#entries,
      this.#bodies,
      this.#unknown,
      this.#holds,
      this.#raises,
      this.#settlements,
      this.#deferred,
      this.#waived,
      this.#unbilled,
      this.#estimated,
      this.#suspicious,
      this.#absurd,
      this.#upstream,
      this.#searches,
      this.#faults,
      this.#adminRequests,
      this.#auditFailures,
      this.#operatorCalls,
      this.#logQueries,
      this.#dropped,
      this.#late,
      this.#webhooks,
    ].map((metric) => metric.family())
    const calls = [running, ...this.calls.families()]
    return [
      ...calls,
      ...own,
      ...this.guard.families(),
      ...this.sinks.families(),
      ...this.money.families(),
      ...gauges.map(gaugeFamily),
    ]
  }
}

export class SinkMetrics {
  readonly #events = new Counter({
    name: 'sluicegate_sink_events_total',
    help: 'Events of sinks: delivered, refused by the receiver, or failed and to be tried again.',
    labels: ['sink', 'result'],
  })
  readonly #lost = new Counter({
    name: 'sluicegate_sink_dropped_total',
    help: 'Events that did not reach a sink.',
    labels: ['sink', 'reason'],
  })
  readonly queued = new Map<string, number>()

  /** Counts the results of a sink's events. */
  counted({ name, results, lost, queued }: SinkCounts): void {
    this.queued.set(name, queued)
    for (const [result, events] of Object.entries(results)) this.#events.add(events, name, result)
    for (const [reason, events] of Object.entries(lost)) this.#lost.add(events, name, reason)
  }

  /** Counts lost events. @param why `thread`: the thread of sinks accepted no more */
  lost(name: string, reason: SinkLoss | 'thread', events: number): void {
    this.#lost.add(events, name, reason)
  }

  families(): MetricFamily[] {
    return [this.#events.family(), this.#lost.family()]
  }
}

// Models that fail often: calls and failures of the last five minutes, computed from the counters.

export interface ModelOutcomes {
  readonly calls: number
  readonly failed: number
  /** Calls for the model that another one has answered. */
  readonly fellBack: number
}
