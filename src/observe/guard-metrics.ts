/** Metrics of guards. Labels are names from the configuration and names of rules. */
import type { Pico } from '../money/money.ts'
import type { CircuitState, GuardState } from '../server/admin/resources/guard.ts'
import { Amounts, Counter, Histogram, type MetricFamily } from './prometheus.ts'

const LATENCY_BOUNDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 4]
const STALL_BOUNDS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 20]
const RETAINED_BOUNDS = [0, 8, 32, 128, 512, 2048, 8192, 32_768, 131_072]

const CIRCUIT_STATES: Readonly<Record<CircuitState, number>> = {
  closed: 0,
  'half-open': 1,
  open: 2,
}

function counter(name: string, help: string, ...labels: readonly string[]): Counter {
  return new Counter({ name, help, labels, limit: 2000 })
}

export class GuardMetrics {
  /** Circuit breakers of the guards in use, by guard and origin. */
  circuits: ReadonlyMap<string, { readonly state: CircuitState }> = new Map()
  readonly #decisions = counter(
    'sluicegate_guard_decisions_total',
    'Findings of guards by rule, and guarded calls that passed.',
    'side',
    'rule',
    'mode',
    'outcome',
  )
  readonly #errors = counter(
    'sluicegate_guard_errors_total',
    'Guards that failed to give a verdict.',
    'guard',
    'kind',
    'on_error',
  )
  readonly #removed = counter(
    'sluicegate_guard_fields_removed_total',
    'Fields left out of answers because no guard can read them.',
    'field',
  )
  readonly #ignored = counter(
    'sluicegate_guard_policy_ignored_total',
    "Members of request policies that were ignored because they loosen the key's policy.",
    'member',
  )
  readonly #unscanned = counter(
    'sluicegate_guard_unscanned_total',
    'Media that no guard can read.',
    'kind',
  )
  readonly #masked = counter(
    'sluicegate_guard_masked_total',
    'Values of personal data that were replaced in requests.',
    'kind',
  )
  readonly #restored = counter(
    'sluicegate_guard_restored_total',
    'Values that were put back into answers, by the form in which the model wrote their names.',
    'form',
  )
  readonly #judged = counter(
    'sluicegate_guard_judge_calls_total',
    'Requests of guards to models.',
    'result',
  )
  readonly #latency = new Histogram(LATENCY_BOUNDS, {
    name: 'sluicegate_guard_latency_seconds',
    help: 'Requests to remote guards.',
    labels: ['guard', 'side'],
  })
  readonly #retained = new Histogram(RETAINED_BOUNDS, {
    name: 'sluicegate_guard_hold_chars',
    help: 'Largest amount of text retained of one answer, in characters.',
  })
  readonly #stall = new Histogram(STALL_BOUNDS, {
    name: 'sluicegate_guard_stall_seconds',
    help: 'Time that clients waited only for guards.',
  })
  readonly #cost = new Amounts({
    name: 'sluicegate_guard_cost_usd_total',
    help: 'Cost of the requests of guards to models, in USD.',
    labels: ['payer'],
  })

  decided(side: string, rule: string, mode: string, outcome: string): void {
    this.#decisions.add(1, side, rule.replace(/\[\d+\]$/, ''), mode, outcome)
  }

  failed(guard: string, kind: string, onError: string): void {
    this.#errors.add(1, guard, kind, onError)
  }

  /** A remote guard has answered. @param seconds the seconds since the request */
  recordAnswer(guard: string, side: string, seconds: number): void {
    this.#latency.observe(seconds, guard, side)
  }

  /** A field was left out of an answer because no guard can read it. */
  removed(field: string): void {
    this.#removed.add(1, field)
  }

  /** @param counts values by kind */
  masked(counts: Readonly<Record<string, number>>): void {
    for (const [kind, count] of Object.entries(counts)) this.#masked.add(count, kind)
  }

  /** @param altered how many of the values had another name in the answer than in the request */
  restored(count: number, altered: number): void {
    if (count > altered) this.#restored.add(count - altered, 'exact')
    if (altered > 0) this.#restored.add(altered, 'altered')
  }

  ignored(member: string): void {
    this.#ignored.add(1, member)
  }

  unscanned(kind: string): void {
    this.#unscanned.add(1, kind)
  }

  /** A guard has asked a model. @param ok whether the model has answered */
  judged(ok: boolean): void {
    this.#judged.add(1, ok ? 'ok' : 'failed')
  }

  /** A guard's request to a model was charged. @param payer `account` or `operator` */
  spent(payer: string, cost: Pico): void {
    this.#cost.add(cost, payer)
  }

  /**
   * A screened answer has ended.
   * @param characters largest amount of text that was retained at one time
   * @param stallMs ms that the client waited for guards alone
   */
  screened(characters: number, stallMs: number): void {
    this.#retained.observe(characters)
    this.#stall.observe(stallMs / 1000)
  }

  stateOf(guard: string): GuardState {
    const circuits = [...this.circuits].filter(([name]) => name.startsWith(`${guard} `))
    const errors = [...this.#errors.series()].filter(({ names: [name] }) => name === guard)
    const ms = (seconds: number) => Math.round(seconds * 1000)
    const latencies = [...this.#latency.series()].filter(({ names: [name] }) => name === guard)
    return {
      circuits: circuits.map(([name, { state }]) => ({
        origin: name.slice(guard.length + 1),
        state,
      })),
      errors: errors.map(({ names, value: { count } }) => ({
        kind: names[1]!,
        on_error: names[2]!,
        count,
      })),
      latency: latencies.map(({ names, value }) => {
        const calls = value.counts.reduce((sum, count) => sum + count, 0)
        return {
          side: names[1]!,
          calls,
          mean_ms: ms(value.sum / calls),
          p50_ms: ms(this.#latency.boundOf(value, 0.5)),
          p95_ms: ms(this.#latency.boundOf(value, 0.95)),
        }
      }),
    }
  }

  families(): MetricFamily[] {
    const circuits = new Counter(
      {
        name: 'sluicegate_guard_circuit_state',
        help: 'Circuit breakers: 0 closed, 1 half-open, 2 open.',
        labels: ['guard', 'origin'],
      },
      'gauge',
      'max',
    )
    for (const [key, { state }] of this.circuits) {
      const space = key.lastIndexOf(' ')
      circuits.add(CIRCUIT_STATES[state], key.slice(0, space), key.slice(space + 1))
    }
    return [
      this.#decisions,
      this.#errors,
      this.#removed,
      this.#ignored,
      this.#unscanned,
      this.#masked,
      this.#restored,
      this.#judged,
      this.#latency,
      this.#retained,
      this.#stall,
      this.#cost,
      circuits,
    ].map((metric) => metric.family())
  }
}
