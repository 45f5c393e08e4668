/** Metrics with a value for each combination of their labels, as Prometheus text (exposition format 0.0.4). */
import { formatPico, type Pico } from '../money/money.ts'

/** Name and meaning of a metric. */
interface Definition {
  readonly name: string
  readonly help: string
  readonly labels?: readonly string[]
  /** Above this many combinations, further ones count as `other`: vendors and guards may invent values. */
  readonly limit?: number
  /** The labels that become `other` then; all by default. */
  readonly open?: readonly string[]
}

/** The value of one combination of labels. */
interface Series<Value> {
  /** In the order of the labels. */
  readonly names: readonly string[]
  /** As Prometheus reads them. */
  readonly labels: string
  readonly value: Value
}

/** What all kinds of metrics share. A metric without labels is shown from the start. */
abstract class Metric<Value> {
  protected readonly name: string
  readonly #about: readonly string[]
  readonly #labels: readonly string[]
  readonly #limit: number
  readonly #open: readonly string[]
  /** By label values, joined. */
  readonly #series = new Map<string, Series<Value>>()

  constructor(type: string, { name, help, labels = [], limit = Infinity, open }: Definition) {
    this.name = name
    this.#about = [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`]
    this.#labels = labels
    this.#limit = limit
    this.#open = open ?? labels
  }

  /** All values so far. */
  series(): IterableIterator<Series<Value>> {
    return this.#series.values()
  }

  /** All lines of the metric. */
  lines(): string[] {
    if (this.#labels.length === 0) this.of([])
    const series = [...this.#series.values()]
    return [...this.#about, ...series.flatMap(({ labels, value }) => this.samples(labels, value))]
  }

  protected abstract make(): Value
  protected abstract samples(labels: string, value: Value): readonly string[]

  /** The value for these label values. */
  protected of(values: readonly string[]): Value {
    const key = values.join('\n')
    const known = this.#series.get(key)
    if (known) return known.value
    if (this.#series.size >= this.#limit) {
      const shown = values.map((value, i) =>
        this.#open.includes(this.#labels[i]!) ? OTHER : value,
      )
      const other = shown.join('\n')
      if (other !== key) return this.of(shown)
    }
    const labels = this.#labels.map((label, i) => `${label}="${escape(values[i]!)}"`).join(',')
    const made = { names: values, labels, value: this.make() }
    this.#series.set(key, made)
    return made.value
  }
}

const OTHER = 'other'

/** Counts, or values that add up. */
export class Counter extends Metric<{ count: number }> {
  constructor(definition: Definition, type: 'counter' | 'gauge' = 'counter') {
    super(type, definition)
  }

  add(by: number, ...values: readonly string[]): void {
    this.of(values).count += by
  }

  protected make() {
    return { count: 0 }
  }

  protected samples(labels: string, { count }: { count: number }): readonly string[] {
    return [`${this.name}${labels && `{${labels}}`} ${count}`]
  }
}

/** Sums of money in USD, exact. */
export class Amounts extends Metric<{ sum: Pico }> {
  constructor(definition: Definition) {
    super('counter', definition)
  }

  add(amount: Pico, ...values: readonly string[]): void {
    this.of(values).sum += amount
  }

  protected make() {
    return { sum: 0n }
  }

  protected samples(labels: string, { sum }: { sum: Pico }): readonly string[] {
    return [`${this.name}{${labels}} ${formatPico(sum)}`]
  }
}

interface Distribution {
  /** Values per bound; one more than bounds, the last one counts everything above. */
  readonly counts: number[]
  sum: number
}

/** Observed values, counted by upper bound. */
export class Histogram extends Metric<Distribution> {
  readonly #bounds: readonly number[]

  /** @param bounds upper bounds, ascending */
  constructor(bounds: readonly number[], definition: Definition) {
    super('histogram', definition)
    this.#bounds = bounds
  }

  observe(value: number, ...values: readonly string[]): void {
    const distribution = this.of(values)
    const i = this.#bounds.findIndex((bound) => value <= bound)
    distribution.counts[i < 0 ? this.#bounds.length : i]!++
    distribution.sum += value
  }

  /** The bound below which a share of the values is; the last bound for those above it. */
  boundOf({ counts }: Distribution, share: number): number {
    let left = share * counts.reduce((sum, count) => sum + count, 0)
    const place = counts.findIndex((count) => (left -= count) <= 0)
    return this.#bounds[place] ?? this.#bounds.at(-1)!
  }

  protected make(): Distribution {
    return { counts: Array.from({ length: this.#bounds.length + 1 }, () => 0), sum: 0 }
  }

  protected samples(labels: string, { counts, sum }: Distribution): readonly string[] {
    const own = labels && `{${labels}}`
    const before = labels && `${labels},`
    let below = 0
    const buckets = counts.map((count, i) => {
      below += count
      return `${this.name}_bucket{${before}le="${this.#bounds[i] ?? '+Inf'}"} ${below}`
    })
    return [...buckets, `${this.name}_sum${own} ${sum}`, `${this.name}_count${own} ${below}`]
  }
}

/** A value that is read when the text is built, such as the length of a queue. */
export interface Gauge {
  readonly name: string
  readonly help: string
  /** By default `gauge`. */
  readonly type?: 'gauge' | 'counter'
  /** One value, or one for each value of a label. */
  readonly value: number | { readonly label: string; readonly of: ReadonlyMap<string, number> }
  /** Further labels, with a value for all. */
  readonly fixed?: Readonly<Record<string, string>>
}

/** A gauge with its present values. */
export function gaugeOf({ name, help, value, type = 'gauge', fixed = {} }: Gauge): Counter {
  const isOne = typeof value === 'number'
  const values = isOne ? [[[], value] as const] : [...value.of].map(([of, n]) => [[of], n] as const)
  const labels = [...(isOne ? [] : [value.label]), ...Object.keys(fixed)]
  const gauge = new Counter({ name, help, labels }, type)
  for (const [of, one] of values) gauge.add(one, ...of, ...Object.values(fixed))
  return gauge
}

/** Escapes the value of a label. */
function escape(label: string): string {
  return label.replace(/[\\"\n]/g, (found) => (found === '\n' ? '\\n' : `\\${found}`))
}
