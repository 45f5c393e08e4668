/** The text that Prometheus reads (exposition format 0.0.4), and what it is made of. */

/** A metric with all its samples. */
export interface Family {
  readonly name: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly help: string
  readonly samples: Iterable<string>
}

export interface Histogram {
  readonly bounds: readonly number[]
  /** One more than bounds: the last one is for everything above. */
  readonly counts: number[]
  sum: number
}

/** Nothing observed yet. @param bounds upper bounds, ascending */
export function histogram(bounds: readonly number[]): Histogram {
  return { bounds, counts: Array.from({ length: bounds.length + 1 }, () => 0), sum: 0 }
}

/** Adds one value. */
export function observe(target: Histogram, seconds: number): void {
  const { bounds, counts } = target
  let i = 0
  while (i < bounds.length && seconds > bounds[i]!) i++
  counts[i]!++
  target.sum += seconds
}

/** The value of a key, made when it is first asked for. */
export function getOrCreate<Value>(map: Map<string, Value>, key: string, make: () => Value): Value {
  let value = map.get(key)
  if (value === undefined) map.set(key, (value = make()))
  return value
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

/** The value of a label as it is written. */
export function escape(label: string): string {
  return label.replace(/[\\"\n]/g, (found) => (found === '\n' ? '\\n' : `\\${found}`))
}
