/** Metrics with a value for each combination of their labels, as Prometheus text (exposition format 0.0.4). */
import { formatPico, type Pico } from '../money/money.ts'

interface Definition {
  readonly name: string
  readonly help: string
  readonly labels?: readonly string[]
  /** Number of combinations above which further ones count as `other`: vendors and guards may invent values. */
  readonly limit?: number
  /** Labels that become `other` then; all by default. */
  readonly open?: readonly string[]
}

/** How the values of several processes for one gauge are combined. */
type Combination = 'sum' | 'max' | 'min'

/** A metric with its present values as plain data, which one process sends to another. */
export interface MetricFamily {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  /** Counters and histograms add up. */
  readonly over: Combination
  /** Suffix of the name, such as `_sum{model="a"}`, and value; sums of money are bigint. */
  readonly samples: readonly (readonly [suffix: string, value: number | Pico])[]
}

/** Combines the families of several processes, in the order of the first. */
export function combineFamilies(
  processes: readonly (readonly MetricFamily[])[],
): readonly MetricFamily[] {
  const byName = Map.groupBy(processes.flat(), ({ name }) => name)
  return [...byName.values()].map(([first, ...others]) => {
    const samples = new Map(first!.samples)
    for (const [suffix, value] of others.flatMap((one) => one.samples)) {
      const sum = samples.get(suffix)
      samples.set(suffix, sum === undefined ? value : combined(first!.over, sum, value))
    }
    return { ...first!, samples: [...samples] }
  })
}

function combined(over: Combination, one: number | Pico, other: number | Pico): number | Pico {
  if (over === 'max') return one > other ? one : other
  if (over === 'min') return one < other ? one : other
  return typeof one === 'bigint' && typeof other === 'bigint'
    ? one + other
    : Number(one) + Number(other)
}

export function familiesText(families: readonly MetricFamily[]): string {
  const lines = families.flatMap(({ name, help, type, samples }) => [
    `# HELP ${name} ${help}`,
    `# TYPE ${name} ${type}`,
    ...samples.map(
      ([suffix, value]) =>
        `${name}${suffix} ${typeof value === 'bigint' ? formatPico(value) : value}`,
    ),
  ])
  return `${lines.join('\n')}\n`
}

interface Series<Value> {
  /** Values of the labels in their order. */
  readonly names: readonly string[]
  /** Labels in the text format of Prometheus. */
  readonly labels: string
  readonly value: Value
}

/** What all kinds of metrics share. A metric without labels is shown from the start. */
abstract class Metric<Value> {
  readonly #about: Omit<MetricFamily, 'samples'>
  readonly #labels: readonly string[]
  readonly #limit: number
  readonly #open: readonly string[]
  /** Series by joined label values. */
  readonly #series = new Map<string, Series<Value>>()

  constructor(
    type: MetricFamily['type'],
    { name, help, labels = [], limit = Infinity, open }: Definition,
    over: Combination = 'sum',
  ) {
    this.#about = { name, help, type, over }
    this.#labels = labels
    this.#limit = limit
    this.#open = open ?? labels
  }

  series(): IterableIterator<Series<Value>> {
    return this.#series.values()
  }

  family(): MetricFamily {
    if (this.#labels.length === 0) this.of([])
    const series = [...this.#series.values()]
    return {
      ...this.#about,
      samples: series.flatMap(({ labels, value }) => this.samples(labels, value)),
    }
  }

  protected abstract make(): Value
  protected abstract samples(labels: string, value: Value): MetricFamily['samples']

  /** The value for these label values, to be kept and changed by a frequent counter. */
  of(values: readonly string[]): Value {
    const key = values.join('\n')
    const series = this.#series.get(key)
    if (series) return series.value
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

export interface Count {
  count: number
}

export class Counter extends Metric<Count> {
  constructor(
    definition: Definition,
    type: 'counter' | 'gauge' = 'counter',
    over: Combination = 'sum',
  ) {
    super(type, definition, over)
  }

  add(by: number, ...values: readonly string[]): void {
    this.of(values).count += by
  }

  protected make() {
    return { count: 0 }
  }

  protected samples(labels: string, { count }: Count): MetricFamily['samples'] {
    return [[labels && `{${labels}}`, count]]
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

  protected samples(labels: string, { sum }: { sum: Pico }): MetricFamily['samples'] {
    return [[`{${labels}}`, sum]]
  }
}

export interface Distribution {
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
    this.put(this.of(values), value)
  }

  put(distribution: Distribution, value: number): void {
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

  protected samples(labels: string, { counts, sum }: Distribution): MetricFamily['samples'] {
    const own = labels && `{${labels}}`
    const before = labels && `${labels},`
    let below = 0
    const buckets = counts.map((count, i) => {
      below += count
      return [`_bucket{${before}le="${this.#bounds[i] ?? '+Inf'}"}`, below] as const
    })
    return [...buckets, [`_sum${own}`, sum], [`_count${own}`, below]]
  }
}

/** A value that is read when the text is built, such as the length of a queue. */
export interface Gauge {
  readonly name: string
  readonly help: string
  /** The type; `gauge` by default. */
  readonly type?: 'gauge' | 'counter'
  /** How the values of several workers are combined; `max` for a value that is the same in all. */
  readonly over: Combination
  readonly value: number | { readonly label: string; readonly of: ReadonlyMap<string, number> }
  /** Further labels, equal for all values. */
  readonly fixed?: Readonly<Record<string, string>>
}

export function gaugeFamily(definition: Gauge): MetricFamily {
  const { name, help, value, type = 'gauge', over, fixed = {} } = definition
  const isOne = typeof value === 'number'
  const values = isOne ? [[[], value] as const] : [...value.of].map(([of, n]) => [[of], n] as const)
  const labels = [...(isOne ? [] : [value.label]), ...Object.keys(fixed)]
  const gauge = new Counter({ name, help, labels }, type, over)
  for (const [of, one] of values) gauge.add(one, ...of, ...Object.values(fixed))
  return gauge.family()
}

function escape(label: string): string {
  return label.replace(/[\\"\n]/g, (character) => (character === '\n' ? '\\n' : `\\${character}`))
}
