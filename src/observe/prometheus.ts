/** Building blocks of Prometheus text (exposition format 0.0.4). */

/** A metric with all its samples. */
export interface Family {
  readonly name: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly help: string
  readonly samples: Iterable<string>
}

/** Observed values, counted by upper bound. */
export interface Histogram {
  readonly bounds: readonly number[]
  /** Values per bound; one more than bounds, the last one counts everything above. */
  readonly counts: number[]
  sum: number
}

/** An empty histogram. @param bounds upper bounds, ascending */
export function histogram(bounds: readonly number[]): Histogram {
  return { bounds, counts: Array.from({ length: bounds.length + 1 }, () => 0), sum: 0 }
}

/** Adds one value to a histogram. */
export function observe(target: Histogram, seconds: number): void {
  const { bounds, counts } = target
  let i = 0
  while (i < bounds.length && seconds > bounds[i]!) i++
  counts[i]!++
  target.sum += seconds
}

/** The value of a key; created and stored if it is absent. */
export function getOrCreate<Value>(map: Map<string, Value>, key: string, make: () => Value): Value {
  let value = map.get(key)
  if (value === undefined) map.set(key, (value = make()))
  return value
}

/** The lines of a family: help, type, samples. */
export function familyLines({ name, type, help, samples }: Family): string[] {
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...samples]
}

/** Samples of histograms, one for each set of labels. */
export function* histogramLines(
  name: string,
  histograms: Iterable<readonly [labels: string, Histogram]>,
): Generator<string> {
  for (const [labels, { bounds, counts, sum }] of histograms) {
    const own = labels && `{${labels}}`
    const before = labels && `${labels},`
    let below = 0
    for (const [i, count] of counts.entries()) {
      below += count
      yield `${name}_bucket{${before}le="${bounds[i] ?? '+Inf'}"} ${below}`
    }
    yield `${name}_sum${own} ${sum}`
    yield `${name}_count${own} ${below}`
  }
}

/** Escapes the value of a label. */
export function escape(label: string): string {
  return label.replace(/[\\"\n]/g, (found) => (found === '\n' ? '\\n' : `\\${found}`))
}
