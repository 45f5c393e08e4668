/** The metrics of one gateway. Text is built only when Prometheus asks for it. */
import type { AuthFailure } from './auth-failures.ts'
import { CallMetrics, REQUEST_BOUNDS } from './call-metrics.ts'
import { GuardMetrics } from './guard-metrics.ts'
import { MoneyMetrics } from './money-metrics.ts'
import type { CallRecord } from './record.ts'
import { SinkMetrics } from './sinks/metrics.ts'
import {
  Counter,
  familiesText,
  gaugeFamily,
  Histogram,
  type Gauge,
  type MetricFamily,
} from './prometheus.ts'

/** The content type of Prometheus text. */
export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** Upper bounds in seconds: from a write to a local disk to an outage of the ledger. */
const SETTLE_BOUNDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5]

const QUERY_BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1]

/** The metrics of one gateway. */
export class Metrics {
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
  readonly #faults = new Counter({
    name: 'sluicegate_faults_total',
    help: 'Errors that no call received.',
    labels: ['kind', 'origin'],
  })

  /** Number of calls in progress. */
  get running(): number {
    return this.#running
  }

  /** A call has arrived. */
  requestStarted(): void {
    this.#running++
  }

  /** A call has ended, whatever its outcome. @param model label of the model; see {@link CallMetrics.ended} */
  requestEnded(call: CallRecord, model?: string): void {
    this.#running--
    this.calls.ended(call, model)
  }

  /** A request had no valid key. */
  unauthenticated(why: AuthFailure): void {
    this.#unauthenticated.add(1, why)
  }

  /** The ledger has decided about an admission. @param result `ok`, or the reason of a refusal */
  entered(result: string): void {
    this.#entries.add(1, result)
  }

  /** A request body was refused. @param why what was short: memory, or a part of it */
  bodyRefused(why: string): void {
    this.#bodies.add(1, why)
  }

  /** A request came for a route that does not exist. */
  unknownRoute(): void {
    this.#unknown.add(1)
  }

  /** The ledger has decided about a hold. @param result `ok`, or the reason of a refusal */
  held(result: string): void {
    this.#holds.add(1, result)
  }

  /** A hold grows with the answer of its call. */
  raised(): void {
    this.#raises.add(1)
  }

  /** The ledger has answered a charge. @param state `deferred`: it is not durable. @param seconds since the charge */
  settled(state: string, seconds: number): void {
    if (state === 'deferred') this.#deferred.add(1)
    else this.#settlements.observe(seconds)
  }

  /** A deferred charge costs nothing, because its answer was not sent. */
  waived(): void {
    this.#waived.add(1)
  }

  /** An answer is charged by estimate. @param reason why */
  usageEstimated(provider: string, reason: string): void {
    this.#estimated.add(1, provider, reason)
  }

  /** A vendor's usage is `suspicious` or `absurd`. */
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

  /** A plugin has answered after nothing waited for it any more. @param instance of the configuration */
  answeredLate(instance: string): void {
    this.#late.add(1, instance)
  }

  /** Results of a search engine cannot be shown. */
  searchResultsDropped(engine: string, count: number): void {
    if (count > 0) this.#dropped.add(count, engine)
  }

  /** A request to the admin API was answered. @param route its path with `:id` */
  adminAnswered(route: string, status: number): void {
    this.#adminRequests.add(1, route, String(status))
  }

  /** The request log has answered a question, or failed to. */
  logQueried(seconds: number): void {
    this.#logQueries.observe(seconds)
  }

  /** A change could not be stored in the audit log. */
  auditFailed(): void {
    this.#auditFailures.add(1)
  }

  /** An error has reached no call. @param origin `core`, `unknown`, or `plugin:` and names of the configuration */
  faulted(kind: string, origin: string): void {
    this.#faults.add(1, kind, origin)
  }

  /** All metrics as Prometheus text, with `gauges` at the end. */
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
      this.#estimated,
      this.#suspicious,
      this.#absurd,
      this.#upstream,
      this.#searches,
      this.#faults,
      this.#adminRequests,
      this.#auditFailures,
      this.#logQueries,
      this.#dropped,
      this.#late,
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
