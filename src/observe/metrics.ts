/**
 * The counters and histograms of the gateway, and their Prometheus text (exposition format 0.0.4). Counting a call costs
 * one string and a few look-ups; text is built only when Prometheus asks for it.
 */
import {
  escape,
  familyLines,
  getOrCreate,
  histogram,
  histogramLines,
  observe,
  type Family,
  type Histogram,
} from './prometheus.ts'
import { GuardMetrics } from './guard-metrics.ts'
import { formatPico, type Pico } from '../money/money.ts'

/** The content type of {@link Metrics.text}. */
export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** A call that has ended. */
interface EndedRequest {
  readonly endpoint: string
  /** Only an id of the catalog: names that clients make up would add series without bound. */
  readonly model?: string | undefined
  readonly outcome: string
  /** Code of the error that the client received. */
  readonly code?: string | undefined
  readonly seconds: number
  readonly cost?: Pico | undefined
  readonly promptTokens?: number | undefined
  readonly completionTokens?: number | undefined
}

/** One request to a vendor; `outcome` is `ok` or the class of the failure. */
interface UpstreamRequestEnded {
  readonly provider: string
  readonly outcome: string
  readonly seconds: number
}

/** One web search; `outcome` is `ok` or the class of the failure. */
interface SearchEnded {
  /** The engine's name in the configuration. */
  readonly engine: string
  readonly outcome: string
  readonly seconds: number
}

/** A value that is read when the text is built, such as the length of a queue. */
export interface Gauge {
  readonly name: string
  readonly help: string
  /** One value, or one for each value of a label. */
  readonly value: number | { readonly label: string; readonly of: ReadonlyMap<string, number> }
}

/** Upper bounds in seconds: from an answer of a cache to the longest stream. */
const REQUEST_BOUNDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600]
/** Upper bounds in seconds: from a write to a local disk to an outage of the ledger. */
const SETTLE_BOUNDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5]

/** Vendors may invent error codes. Above this many label combinations, further ones count as `other`. */
const MAX_SERIES = 5000
const OTHER = 'other'

const REQUEST_HELP = 'From the arrival of a call to its last byte.'
const SETTLE_HELP = 'From a charge to the moment it was durable.'
const UPSTREAM_HELP = 'Requests to vendors, up to the first part of the answer.'

interface Consumption {
  cost: Pico
  promptTokens: number
  completionTokens: number
}

type Labels = Pick<EndedRequest, 'endpoint' | 'model' | 'outcome' | 'code'>

/** What calls with the same labels add to. */
interface Series {
  count: number
  readonly labels: string
  readonly duration: Histogram
  readonly consumed: Consumption
}

/** The metrics of one gateway. */
export class Metrics {
  readonly guard = new GuardMetrics()
  #running = 0
  readonly #series = new Map<string, Series>()
  /** Series of the previous call; most calls have the same labels. */
  #last: { readonly of: Labels; readonly series: Series } | undefined = undefined
  readonly #durations = new Map<string, Histogram>()
  readonly #consumed = new Map<string, Consumption>()
  readonly #entries = new Map<string, number>()
  readonly #holds = new Map<string, number>()
  readonly #upstream = new Map<string, Map<string, Histogram>>()
  readonly #searches = new Map<string, Map<string, Histogram>>()
  readonly #settlements = histogram(SETTLE_BOUNDS)

  /** Number of calls in progress. */
  get running(): number {
    return this.#running
  }

  /** A call has arrived. */
  requestStarted(): void {
    this.#running++
  }

  /** A call has ended, whatever its outcome. */
  requestEnded(request: EndedRequest): void {
    this.#running--
    const last = this.#last
    const series = last && isLike(last.of, request) ? last.series : this.#seriesOf(request)
    if (series !== last?.series) this.#last = { of: request, series }
    series.count++
    observe(series.duration, request.seconds)
    const { consumed } = series
    if (request.cost) consumed.cost += request.cost
    if (request.promptTokens) consumed.promptTokens += request.promptTokens
    if (request.completionTokens) consumed.completionTokens += request.completionTokens
  }

  /** The ledger has decided about an admission. @param result `ok`, or the reason of a refusal */
  entered(result: string): void {
    this.#entries.set(result, (this.#entries.get(result) ?? 0) + 1)
  }

  /** The ledger has decided about a hold. @param result `ok`, or the reason of a refusal */
  held(result: string): void {
    this.#holds.set(result, (this.#holds.get(result) ?? 0) + 1)
  }

  /** A settlement is durable. @param seconds since the charge */
  settled(seconds: number): void {
    observe(this.#settlements, seconds)
  }

  /** A request to a vendor has its first part, or has failed. */
  upstream({ provider, outcome, seconds }: UpstreamRequestEnded): void {
    const outcomes = getOrCreate(this.#upstream, provider, () => new Map<string, Histogram>())
    observe(getOrCreate(outcomes, outcome, requestHistogram), seconds)
  }

  /** A web search has ended. */
  searched({ engine, outcome, seconds }: SearchEnded): void {
    const outcomes = getOrCreate(this.#searches, engine, () => new Map<string, Histogram>())
    observe(getOrCreate(outcomes, outcome, requestHistogram), seconds)
  }

  /** All metrics as Prometheus text, with `gauges` at the end. */
  text(gauges: readonly Gauge[] = []): string {
    const families = [
      ...this.#requestFamilies(),
      ...this.#durationFamilies(),
      ...this.guard.families(),
      ...gauges.map(toFamily),
    ]
    return `${families.flatMap(familyLines).join('\n')}\n`
  }

  #requestFamilies(): Family[] {
    const series = [...this.#series.values()]
    const consumed = [...this.#consumed]
    return [
      {
        name: 'gateway_requests_running',
        type: 'gauge',
        help: 'Calls in progress.',
        samples: [`gateway_requests_running ${this.#running}`],
      },
      {
        name: 'gateway_requests_total',
        type: 'counter',
        help: 'Calls that have ended.',
        samples: series.map(({ labels, count }) => `gateway_requests_total{${labels}} ${count}`),
      },
      durations('gateway_request_duration_seconds', this.#durations, REQUEST_HELP),
      {
        name: 'gateway_cost_usd_total',
        type: 'counter',
        help: 'What calls were charged, in USD, exact.',
        samples: consumed.map(
          ([labels, { cost }]) => `gateway_cost_usd_total{${labels}} ${formatPico(cost)}`,
        ),
      },
      {
        name: 'gateway_tokens_total',
        type: 'counter',
        help: 'Tokens consumed.',
        samples: consumed.flatMap(([labels, { promptTokens, completionTokens }]) => [
          `gateway_tokens_total{${labels},kind="prompt"} ${promptTokens}`,
          `gateway_tokens_total{${labels},kind="completion"} ${completionTokens}`,
        ]),
      },
      results('gateway_entries_total', this.#entries, 'Admissions: key, rate, concurrency.'),
      results('gateway_holds_total', this.#holds, 'Holds: free tier, caps, balance.'),
    ]
  }

  #durationFamilies(): Family[] {
    const vendors = outcomeSeries('provider', this.#upstream)
    const engines = outcomeSeries('engine', this.#searches)
    return [
      durations('gateway_settlement_duration_seconds', [['', this.#settlements]], SETTLE_HELP),
      durations('gateway_upstream_duration_seconds', vendors, UPSTREAM_HELP),
      durations('gateway_search_duration_seconds', engines, 'Web searches with their retries.'),
    ]
  }

  #seriesOf({ endpoint, model = '', outcome, code = '' }: Labels): Series {
    const key = `${endpoint}\n${model}\n${outcome}\n${code}`
    const series = this.#series.get(key)
    if (series) return series
    if (
      this.#series.size >= MAX_SERIES &&
      (model || code) &&
      !(model === OTHER && code === OTHER)
    ) {
      return this.#seriesOf({ endpoint, model: OTHER, outcome, code: OTHER })
    }
    const where = `endpoint="${escape(endpoint)}"`
    const which = `${where},model="${escape(model)}"`
    const how = `outcome="${escape(outcome)}"`
    const made: Series = {
      count: 0,
      labels: `${which},${how},code="${escape(code)}"`,
      duration: getOrCreate(this.#durations, `${where},${how}`, requestHistogram),
      consumed: getOrCreate(this.#consumed, which, nothingConsumed),
    }
    this.#series.set(key, made)
    return made
  }
}

function isLike(one: Labels, other: Labels): boolean {
  return (
    one.model === other.model &&
    one.outcome === other.outcome &&
    one.code === other.code &&
    one.endpoint === other.endpoint
  )
}

function requestHistogram(): Histogram {
  return histogram(REQUEST_BOUNDS)
}

function nothingConsumed(): Consumption {
  return { cost: 0n, promptTokens: 0, completionTokens: 0 }
}

function durations(
  name: string,
  histograms: Iterable<readonly [labels: string, Histogram]>,
  help: string,
): Family {
  return { name, type: 'histogram', help, samples: histogramLines(name, histograms) }
}

function results(name: string, counts: ReadonlyMap<string, number>, help: string): Family {
  const samples = [...counts].map(
    ([result, count]) => `${name}{result="${escape(result)}"} ${count}`,
  )
  return { name, type: 'counter', help, samples }
}

function toFamily({ name, help, value }: Gauge): Family {
  const samples =
    typeof value === 'number'
      ? [`${name} ${value}`]
      : [...value.of].map(([of, one]) => `${name}{${value.label}="${escape(of)}"} ${one}`)
  return { name, type: 'gauge', help, samples }
}

function* outcomeSeries(
  label: string,
  requests: ReadonlyMap<string, ReadonlyMap<string, Histogram>>,
): Generator<readonly [labels: string, Histogram]> {
  for (const [name, outcomes] of requests) {
    for (const [outcome, durations] of outcomes) {
      yield [`${label}="${escape(name)}",outcome="${escape(outcome)}"`, durations]
    }
  }
}
