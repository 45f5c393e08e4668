/** What is counted of guards (guard design, 6). Labels are bounded: names of the configuration and of rules. */
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
const HELD_BOUNDS = [0, 8, 32, 128, 512, 2048, 8192, 32_768, 131_072]
/** Rules that guards invent are as many as they like; past this many the rest is `other`. */
const MAX_SERIES = 2000

const CIRCUIT_STATES = { closed: 0, 'half-open': 1, open: 2 } as const

/** State of a circuit breaker. */
export type CircuitState = keyof typeof CIRCUIT_STATES

interface Series {
  readonly labels: string
  count: number
}

class Counters {
  readonly name: string
  readonly help: string
  readonly #labels: readonly string[]
  /** By the values of their labels. */
  readonly #series = new Map<string, Series>()
  /** What was counted last is mostly counted next. */
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

export class GuardMetrics {
  /** Circuits of the guards in use, by guard and origin. */
  circuits: ReadonlyMap<string, { readonly state: CircuitState }> = new Map()
  readonly #decisions = new Counters(
    'gateway_guard_decisions_total',
    'What guards found, by rule, and guarded calls that passed.',
    ['side', 'rule', 'mode', 'outcome'],
  )
  readonly #errors = new Counters('gateway_guard_errors_total', 'Guards that could not look.', [
    'guard',
    'kind',
    'on_error',
  ])
  readonly #removed = new Counters(
    'gateway_guard_fields_removed_total',
    'Fields of answers left out because no guard can read them.',
    ['field'],
  )
  readonly #ignored = new Counters(
    'gateway_guard_policy_ignored_total',
    "Members of requests' policies that would have loosened the key's.",
    ['member'],
  )
  readonly #unscanned = new Counters(
    'gateway_guard_unscanned_total',
    'Media that no guard could read.',
    ['kind'],
  )
  readonly #asked = new Counters('gateway_guard_judge_calls_total', 'Models that guards asked.', [
    'result',
  ])
  readonly #latency = new Map<string, ReturnType<typeof histogram>>()
  readonly #held = histogram(HELD_BOUNDS)
  readonly #stall = histogram(STALL_BOUNDS)
  readonly #cost = new Map<string, Pico>()

  /** A guarded call has ended, or a rule has matched in it. */
  decided(side: string, rule: string, mode: string, outcome: string): void {
    this.#decisions.add(side, rule && rule.replace(/\[\d+\]$/, ''), mode, outcome)
  }

  failed(guard: string, kind: string, onError: string): void {
    this.#errors.add(guard, kind, onError)
  }

  asked(guard: string, side: string, seconds: number): void {
    const labels = `guard="${escape(guard)}",side="${side}"`
    observe(
      getOrCreate(this.#latency, labels, () => histogram(LATENCY_BOUNDS)),
      seconds,
    )
  }

  removed(field: string): void {
    this.#removed.add(field)
  }

  ignored(member: string): void {
    this.#ignored.add(member)
  }

  unscanned(kind: string): void {
    this.#unscanned.add(kind)
  }

  /** A guard has asked a model. */
  judged(ok: boolean): void {
    this.#asked.add(ok ? 'ok' : 'failed')
  }

  /** What that cost. @param payer `account` or `operator` */
  spent(payer: string, cost: Pico): void {
    this.#cost.set(payer, (this.#cost.get(payer) ?? 0n) + cost)
  }

  /** @param characters the most that was held of one answer @param stallMs how long its client waited for guards only */
  screened(characters: number, stallMs: number): void {
    observe(this.#held, characters)
    observe(this.#stall, stallMs / 1000)
  }

  families(): Family[] {
    const latency = 'gateway_guard_latency_seconds'
    const held = 'gateway_guard_hold_chars'
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
        help: 'Questions to remote guards.',
        samples: histogramLines(latency, this.#latency),
      },
      {
        name: held,
        type: 'histogram',
        help: 'The most that was held of one answer, in characters.',
        samples: histogramLines(held, [['', this.#held]]),
      },
      {
        name: stall,
        type: 'histogram',
        help: 'How long clients waited only for guards.',
        samples: histogramLines(stall, [['', this.#stall]]),
      },
      {
        name: cost,
        type: 'counter',
        help: 'What models cost that guards asked, in USD.',
        samples: [...this.#cost].map(
          ([payer, amount]) => `${cost}{payer="${payer}"} ${formatPico(amount)}`,
        ),
      },
      {
        name: circuit,
        type: 'gauge',
        help: '0 closed, 1 trying, 2 open.',
        samples: [...this.circuits].map(([key, { state }]) => {
          const space = key.lastIndexOf(' ')
          const [guard, origin] = [key.slice(0, space), key.slice(space + 1)]
          return `${circuit}{guard="${escape(guard)}",origin="${origin}"} ${CIRCUIT_STATES[state]}`
        }),
      },
    ]
  }
}
