/** Metrics of calls that have ended, and of their attempts at deployments. */
import type { Usage } from '../plugin.ts'
import type { ModelOutcomes } from './recent-errors.ts'
import type { CallRecord } from './record.ts'
import { Amounts, Counter, Histogram, type MetricFamily } from './prometheus.ts'

/** Upper bounds in seconds: from an answer of a cache to the longest stream. */
export const REQUEST_BOUNDS = [
  0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600,
]
const FIRST_BOUNDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
const RATE_BOUNDS = [1, 5, 10, 20, 40, 80, 160, 320, 640, 1280]
/** Streams with fewer tokens say nothing about a rate. */
const LEAST_TOKENS = 20
/** Deployments of wildcard models have no bound of their own. */
const MOST_SERIES = 2000

const TOKENS = {
  prompt: 'promptTokens',
  cached: 'cachedTokens',
  cache_write: 'cacheWriteTokens',
  completion: 'completionTokens',
  reasoning: 'reasoningTokens',
} as const satisfies Record<string, keyof Usage>
const UNITS = {
  images: 'images',
  pages: 'pages',
  seconds: 'seconds',
  characters: 'characters',
  searches: 'searches',
  search_units: 'searchUnits',
} as const satisfies Record<string, keyof Usage>
const TOKEN_KINDS = Object.entries(TOKENS)
const UNIT_KINDS = Object.entries(UNITS)

/** Codes of failures that the client has not caused. */
const FAULTS: ReadonlySet<string> = new Set([
  'internal_error',
  'provider_overloaded',
  'service_unavailable',
  'upstream_error',
  'upstream_rate_limited',
  'upstream_timeout',
])

/** What is counted when a call ends. */
export class CallMetrics {
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
  readonly #cooldowns = new Counter({
    name: 'sluicegate_deployment_cooldowns_total',
    help: 'Cooldowns that have begun.',
    labels: ['deployment', 'class'],
    limit: MOST_SERIES,
    open: ['deployment'],
  })

  /** A call has ended. @param model its label: names that clients make up would add series without bound */
  ended(call: CallRecord, model = ''): void {
    const { path: endpoint, deployment = '', outcome, code = '', limit, ms, firstMs } = call
    const { bill, usage, searches } = call
    const seconds = ms / 1000
    this.#requests.add(1, endpoint, model, outcome, code)
    this.#durations.observe(seconds, endpoint, outcome)
    this.#cost.add(bill?.cost ?? 0n, endpoint, model)
    if (limit !== undefined) this.#refusals.add(1, limit)
    if (searches) this.#units.add(searches, endpoint, model, 'searches')
    if (usage) {
      for (const [kind, member] of TOKEN_KINDS) {
        const tokens = usage[member]
        if (tokens) this.#tokens.add(tokens, endpoint, model, kind)
      }
      for (const [kind, member] of UNIT_KINDS) {
        const units = usage[member]
        if (units) this.#units.add(units, endpoint, model, kind)
      }
    }
    if (firstMs === undefined) return
    const firstSeconds = firstMs / 1000
    this.#firstParts.observe(firstSeconds, model, deployment)
    const tokens = usage?.completionTokens ?? 0
    if (tokens < LEAST_TOKENS || seconds <= firstSeconds || outcome !== 'completed') return
    this.#rates.observe(tokens / (seconds - firstSeconds), model, deployment)
  }

  /** Calls of each model since the start, and how many the gateway or a vendor failed at. */
  outcomes(): Map<string, ModelOutcomes> {
    const found = new Map<string, { calls: number; failed: number }>()
    for (const { names, value } of this.#requests.series()) {
      const [, model = '', , code = ''] = names
      if (model === '') continue
      let outcomes = found.get(model)
      if (!outcomes) found.set(model, (outcomes = { calls: 0, failed: 0 }))
      outcomes.calls += value.count
      if (FAULTS.has(code)) outcomes.failed += value.count
    }
    return found
  }

  /** A call goes on to another deployment. @param failure class of the failure of the one before */
  failedOver(model: string, from: string, to: string, failure: string): void {
    this.#failovers.add(1, model, from, to, failure)
  }

  /** A cooldown begins. @param failure class of the failure that starts it */
  cooledDown(deployment: string, failure: string): void {
    this.#cooldowns.add(1, deployment, failure)
  }

  /** These metrics with their present values. */
  families(): MetricFamily[] {
    return [
      this.#requests,
      this.#durations,
      this.#firstParts,
      this.#rates,
      this.#cost,
      this.#tokens,
      this.#units,
      this.#refusals,
      this.#failovers,
      this.#cooldowns,
    ].map((metric) => metric.family())
  }
}
