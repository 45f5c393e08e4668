/**
 * What is counted, and the text that Prometheus reads (exposition format 0.0.4).
 * A call costs one string and a few look-ups here; text is only made when somebody asks for it.
 */
import {
  escape,
  getOrCreate,
  histogram,
  histogramLines,
  observe,
  type Histogram,
} from './prometheus.ts'
import { GuardMetrics } from './guard-metrics.ts'
import { formatPico, type Pico } from '../money/money.ts'

/** The content type of {@link Metrics.text}. */
export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** A call that has ended. */
export interface EndedRequest {
  readonly endpoint: string
  /** Only ids of the catalog: a name that a client made up would grow the registry without bound. */
  readonly model?: string | undefined
  readonly outcome: string
  /** The code of the error the client got. */
  readonly code?: string | undefined
  readonly seconds: number
  readonly cost?: Pico | undefined
  readonly promptTokens?: number | undefined
  readonly completionTokens?: number | undefined
}

/** One request to a vendor; `outcome` is `ok` or the class of the failure. */
export interface UpstreamRequestEnded {
  readonly provider: string
  readonly outcome: string
  readonly seconds: number
}

/** One web search; `outcome` is `ok` or the class of the failure. */
export interface SearchEnded {
  /** The engine's name in the configuration. */
  readonly engine: string
  readonly outcome: string
  readonly seconds: number
}

/** A value that is read off when the text is made, such as the depth of an outbox. */
export interface Gauge {
  readonly name: string
  readonly help: string
  /** One, or one for each value of a label. */
  readonly value: number | { readonly label: string; readonly of: ReadonlyMap<string, number> }
}

/** Upper bounds in seconds: from an answer out of a cache to the longest stream. */
const REQUEST_BOUNDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600]
/** A settlement is a write that was made durable: fractions of a millisecond to an outage. */
const SETTLE_BOUNDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5]

/** Vendors may put any code into an error: past this many combinations the rest is counted as `other`. */
const MAX_SERIES = 5000
const OTHER = 'other'

interface Consumption {
  cost: Pico
  promptTokens: number
  completionTokens: number
}

type Labels = Pick<EndedRequest, 'endpoint' | 'model' | 'outcome' | 'code'>

/** Everything a call of one combination of labels adds to. */
interface Series {
  count: number
  readonly labels: string
  readonly duration: Histogram
  readonly consumed: Consumption
}

export class Metrics {
  readonly guard = new GuardMetrics()
  #running = 0
  readonly #series = new Map<string, Series>()
  /** Of the call before, which most calls are like. */
  #last: { readonly of: Labels; readonly series: Series } | undefined = undefined
  readonly #durations = new Map<string, Histogram>()
  readonly #consumed = new Map<string, Consumption>()
  readonly #entries = new Map<string, number>()
  readonly #holds = new Map<string, number>()
  readonly #upstream = new Map<string, Map<string, Histogram>>()
  readonly #searches = new Map<string, Map<string, Histogram>>()
  readonly #settlements = histogram(SETTLE_BOUNDS)

  /** Calls under way. */
  get running(): number {
    return this.#running
  }

  requestStarted(): void {
    this.#running++
  }

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

  /** @param result `ok`, or why the ledger did not let the call in */
  entered(result: string): void {
    this.#entries.set(result, (this.#entries.get(result) ?? 0) + 1)
  }

  /** @param result `ok`, or why the ledger did not hold the money */
  held(result: string): void {
    this.#holds.set(result, (this.#holds.get(result) ?? 0) + 1)
  }

  /** @param seconds from the charge to the moment it was durable */
  settled(seconds: number): void {
    observe(this.#settlements, seconds)
  }

  upstream({ provider, outcome, seconds }: UpstreamRequestEnded): void {
    const outcomes = getOrCreate(this.#upstream, provider, () => new Map<string, Histogram>())
    observe(getOrCreate(outcomes, outcome, requestHistogram), seconds)
  }

  searched({ engine, outcome, seconds }: SearchEnded): void {
    const outcomes = getOrCreate(this.#searches, engine, () => new Map<string, Histogram>())
    observe(getOrCreate(outcomes, outcome, requestHistogram), seconds)
  }

  /** The whole registry as Prometheus text, with `gauges` after it. */
  text(gauges: readonly Gauge[] = []): string {
    const lines: string[] = []
    const family = (name: string, type: string, help: string, samples: Iterable<string>): void => {
      lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...samples)
    }
    const series = [...this.#series.values()]
    const consumed = [...this.#consumed]
    family('gateway_requests_running', 'gauge', 'Calls under way.', [
      `gateway_requests_running ${this.#running}`,
    ])
    family(
      'gateway_requests_total',
      'counter',
      'Calls that have ended.',
      series.map(({ labels, count }) => `gateway_requests_total{${labels}} ${count}`),
    )
    family(
      'gateway_request_duration_seconds',
      'histogram',
      'From the arrival of a call to its last byte.',
      histogramLines('gateway_request_duration_seconds', this.#durations),
    )
    family(
      'gateway_cost_usd_total',
      'counter',
      'What calls were charged, in USD, exact.',
      consumed.map(([labels, { cost }]) => `gateway_cost_usd_total{${labels}} ${formatPico(cost)}`),
    )
    family(
      'gateway_tokens_total',
      'counter',
      'Tokens consumed.',
      consumed.flatMap(([labels, { promptTokens, completionTokens }]) => [
        `gateway_tokens_total{${labels},kind="prompt"} ${promptTokens}`,
        `gateway_tokens_total{${labels},kind="completion"} ${completionTokens}`,
      ]),
    )
    family(
      'gateway_entries_total',
      'counter',
      'First half of admission: key, rate, concurrency.',
      resultLines('gateway_entries_total', this.#entries),
    )
    family(
      'gateway_holds_total',
      'counter',
      'Second half of admission: tier, caps, balance.',
      resultLines('gateway_holds_total', this.#holds),
    )
    family(
      'gateway_settlement_duration_seconds',
      'histogram',
      'From a charge to the moment it was durable.',
      histogramLines('gateway_settlement_duration_seconds', [['', this.#settlements]]),
    )
    family(
      'gateway_upstream_duration_seconds',
      'histogram',
      'Requests to vendors, to the first part of an answer.',
      histogramLines(
        'gateway_upstream_duration_seconds',
        outcomeSeries('provider', this.#upstream),
      ),
    )
    family(
      'gateway_search_duration_seconds',
      'histogram',
      'Web searches, second tries included.',
      histogramLines('gateway_search_duration_seconds', outcomeSeries('engine', this.#searches)),
    )
    for (const { name, type, help, samples } of this.guard.families()) {
      family(name, type, help, samples)
    }
    for (const { name, help, value } of gauges) {
      const samples = typeof value === 'number' ? [` ${value}`] : labelled(value.label, value.of)
      family(
        name,
        'gauge',
        help,
        samples.map((sample) => name + sample),
      )
    }
    return `${lines.join('\n')}\n`
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

function resultLines(name: string, counts: ReadonlyMap<string, number>): string[] {
  return [...counts].map(([result, count]) => `${name}{result="${escape(result)}"} ${count}`)
}

function labelled(label: string, values: ReadonlyMap<string, number>): string[] {
  return [...values].map(([of, value]) => `{${label}="${escape(of)}"} ${value}`)
}

function* outcomeSeries(
  label: string,
  asked: ReadonlyMap<string, ReadonlyMap<string, Histogram>>,
): Generator<readonly [labels: string, Histogram]> {
  for (const [name, outcomes] of asked) {
    for (const [outcome, durations] of outcomes) {
      yield [`${label}="${escape(name)}",outcome="${escape(outcome)}"`, durations]
    }
  }
}
