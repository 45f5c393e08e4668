/** Metrics of guards. Labels are bounded: names from the configuration and names of rules. */
import {
  escape,
  getOrCreate,
  histogram,
  histogramLines,
  observe,
  type Family,
} from './prometheus.ts'
import { formatPico, type Pico } from '../money/money.ts'

const LATENCY_BOUNDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 4]
const STALL_BOUNDS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 20]
const RETAINED_BOUNDS = [0, 8, 32, 128, 512, 2048, 8192, 32_768, 131_072]
/** Guards may invent rules. Above this many label combinations of a counter, further ones count as `other`. */
const MAX_SERIES = 2000

const CIRCUIT_STATES = { closed: 0, 'half-open': 1, open: 2 } as const

/** State of a circuit breaker. */
export type CircuitState = keyof typeof CIRCUIT_STATES

/** The count of one combination of label values. */
interface Series {
  readonly labels: string
  count: number
}

/** A counter with labels. */
class Counters {
  readonly name: string
  readonly help: string
  readonly #labels: readonly string[]
  /** By label values, joined. */
  readonly #series = new Map<string, Series>()
  /** Label values of the previous count; most counts repeat them. */
  #values: readonly string[] = []
  #last: Series | undefined

  constructor(name: string, help: string, labels: readonly string[]) {
    this.name = name
    this.help = help
    this.#labels = labels
  }

  add(...values: readonly string[]): void {
    if (!this.#last || values.some((value, i) => value !== this.#values[i])) {
      this.#last = this.#seriesOf(values)
      this.#values = values
    }
    this.#last.count++
  }

  family(): Family {
    const { name, help } = this
    const all = [...this.#series.values()]
    const samples = all.map(({ labels, count }) => `${name}{${labels}} ${count}`)
    return { name, type: 'counter', help, samples }
  }

  #seriesOf(values: readonly string[]): Series {
    const key = values.join('\n')
    const known = this.#series.get(key)
    if (known) return known
    const shown = this.#series.size < MAX_SERIES ? values : values.map(() => 'other')
    const labels = shown.map((value, i) => `${this.#labels[i]}="${escape(value)}"`).join(',')
    return getOrCreate(this.#series, shown === values ? key : shown.join('\n'), () => ({
      labels,
      count: 0,
    }))
  }
}

/** The metrics of all guards of one gateway. */
export class GuardMetrics {
  /** Circuit breakers of the guards in use, by guard and origin. */
  circuits: ReadonlyMap<string, { readonly state: CircuitState }> = new Map()
  readonly #decisions = new Counters(
    'gateway_guard_decisions_total',
    'Findings of guards by rule, and guarded calls that passed.',
    ['side', 'rule', 'mode', 'outcome'],
  )
  readonly #errors = new Counters(
    'gateway_guard_errors_total',
    'Guards that failed to give a verdict.',
    ['guard', 'kind', 'on_error'],
  )
  readonly #removed = new Counters(
    'gateway_guard_fields_removed_total',
    'Fields left out of answers because no guard can read them.',
    ['field'],
  )
  readonly #ignored = new Counters(
    'gateway_guard_policy_ignored_total',
    "Members of request policies that were ignored because they loosen the key's policy.",
    ['member'],
  )
  readonly #unscanned = new Counters(
    'gateway_guard_unscanned_total',
    'Media that no guard can read.',
    ['kind'],
  )
  readonly #asked = new Counters(
    'gateway_guard_judge_calls_total',
    'Requests of guards to models.',
    ['result'],
  )
  readonly #latency = new Map<string, ReturnType<typeof histogram>>()
  readonly #retained = histogram(RETAINED_BOUNDS)
  readonly #stall = histogram(STALL_BOUNDS)
  readonly #cost = new Map<string, Pico>()

  /** A guarded call has ended, or a rule has matched in it. */
  decided(side: string, rule: string, mode: string, outcome: string): void {
    this.#decisions.add(side, rule && rule.replace(/\[\d+\]$/, ''), mode, outcome)
  }

  /** A guard has failed to give a verdict. */
  failed(guard: string, kind: string, onError: string): void {
    this.#errors.add(guard, kind, onError)
  }

  /** A remote guard has answered. @param seconds since it was asked */
  asked(guard: string, side: string, seconds: number): void {
    const labels = `guard="${escape(guard)}",side="${side}"`
    observe(
      getOrCreate(this.#latency, labels, () => histogram(LATENCY_BOUNDS)),
      seconds,
    )
  }

  /** A field was left out of an answer because no guard can read it. */
  removed(field: string): void {
    this.#removed.add(field)
  }

  /** A member of a request's policy was ignored because it would loosen the policy of the key. */
  ignored(member: string): void {
    this.#ignored.add(member)
  }

  /** A medium passed that no guard can read. */
  unscanned(kind: string): void {
    this.#unscanned.add(kind)
  }

  /** A guard has asked a model. @param ok whether the model has answered */
  judged(ok: boolean): void {
    this.#asked.add(ok ? 'ok' : 'failed')
  }

  /** A guard's request to a model was charged. @param payer `account` or `operator` */
  spent(payer: string, cost: Pico): void {
    this.#cost.set(payer, (this.#cost.get(payer) ?? 0n) + cost)
  }

  /**
   * A screened answer has ended.
   * @param characters largest amount of text that was retained at one time
   * @param stallMs ms that the client waited only for guards
   */
  screened(characters: number, stallMs: number): void {
    observe(this.#retained, characters)
    observe(this.#stall, stallMs / 1000)
  }

  /** All guard metrics, for `Metrics.text`. */
  families(): Family[] {
    const latency = 'gateway_guard_latency_seconds'
    const retained = 'gateway_guard_hold_chars'
    const stall = 'gateway_guard_stall_seconds'
    const cost = 'gateway_guard_cost_usd_total'
    const circuit = 'gateway_guard_circuit_state'
    return [
      ...[
        this.#decisions,
        this.#errors,
        this.#removed,
        this.#ignored,
        this.#unscanned,
        this.#asked,
      ].map((counters) => counters.family()),
      {
        name: latency,
        type: 'histogram',
        help: 'Requests to remote guards.',
        samples: histogramLines(latency, this.#latency),
      },
      {
        name: retained,
        type: 'histogram',
        help: 'Largest amount of text retained of one answer, in characters.',
        samples: histogramLines(retained, [['', this.#retained]]),
      },
      {
        name: stall,
        type: 'histogram',
        help: 'Time that clients waited only for guards.',
        samples: histogramLines(stall, [['', this.#stall]]),
      },
      {
        name: cost,
        type: 'counter',
        help: 'Cost of the requests of guards to models, in USD.',
        samples: [...this.#cost].map(
          ([payer, amount]) => `${cost}{payer="${payer}"} ${formatPico(amount)}`,
        ),
      },
      {
        name: circuit,
        type: 'gauge',
        help: 'Circuit breakers: 0 closed, 1 half-open, 2 open.',
        samples: [...this.circuits].map(([key, { state }]) => {
          const space = key.lastIndexOf(' ')
          const [guard, origin] = [key.slice(0, space), key.slice(space + 1)]
          return `${circuit}{guard="${escape(guard)}",origin="${origin}"} ${CIRCUIT_STATES[state]}`
        }),
      },
    ]
  }
}
