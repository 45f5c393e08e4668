/**
 * What looking for banned patterns costs: `node test/bench/guard.ts`. Prints medians of interleaved rounds beside the
 * figure that has to hold. Time is that of the process, so that a busy machine does not matter much.
 */
import { compilePatterns, type PatternMatcher } from '../../src/patterns/patterns.ts'
import { hostilePatterns, LITERALS, ordinaryText, PATTERNS } from '../guard/texts.ts'

interface Case {
  readonly name: string
  readonly unit: string
  readonly limit: number
  /** One round, in the unit. */
  readonly run: () => number
}

const ROUNDS = 15

const short = ordinaryText(2_000, 1)
const long = ordinaryText(100_000, 2)

const cases: readonly Case[] = [
  find('8 literals, 2 KB', LITERALS.slice(0, 8), short, 'µs', 15),
  find('32 patterns, 2 KB', PATTERNS, short, 'µs', 60),
  find('32 literals, 100 KB', LITERALS, long, 'ms', 3),
  find('32 patterns, 100 KB', PATTERNS, long, 'ms', 3),
  events('an event, 8 literals', LITERALS.slice(0, 8), 2),
  events('an event, 32 literals', LITERALS, 2),
  events('an event, 32 patterns', PATTERNS, 2),
]

for (const { run } of cases) run()
const results = cases.map((): number[] => [])
for (let round = 0; round < ROUNDS; round++) {
  for (const [index, { run }] of cases.entries()) results[index]!.push(run())
}
for (const [index, { name, unit, limit }] of cases.entries()) {
  report(name, median(results[index]!), unit, limit)
}

// Texts that hostile patterns find hard and that they do not match. The first round warms up code, not automata: another
// pattern makes another matcher.
for (const salt of ['warm', 'measured']) {
  for (const [name, patterns, text] of hostilePatterns()) {
    const begun = now()
    const matcher = compilePatterns([...patterns.slice(1), salt])
    const compiled = now() - begun
    const [half, whole] = [1 << 17, 1 << 18].map((length) => inSlices(matcher, text(length)))
    const searched = inSteps(matcher, text(1 << 18))
    if (salt === 'warm') continue
    report(`${name}: compile`, compiled, 'ms', Infinity)
    report(`${name}: twice the text`, whole!.total / half!.total, 'times', 2.5)
    report(`${name}: 1 MiB in slices`, whole!.total * 4, 'ms', Infinity)
    report(`${name}: slowest slice`, Math.max(half!.slowest, whole!.slowest), 'ms', 25)
    report(`${name}: 1 MiB searched`, searched.total * 4, 'ms', Infinity)
    report(`${name}: slowest step`, searched.slowest, 'ms', 25)
  }
}

/** Units of a slice. */
const SLICE = 128

function inSlices(matcher: PatternMatcher, text: string): Timing {
  const scan = matcher.scan()
  return timed(function* () {
    for (let at = 0; at < text.length; at += SLICE) {
      if (scan.push(text.slice(at, at + SLICE)).match) throw new Error('a hostile text matches')
      yield
    }
  })
}

function inSteps(matcher: PatternMatcher, text: string): Timing {
  return timed(function* () {
    if (yield* matcher.searchTask(text)) throw new Error('a hostile text matches')
  })
}

interface Timing {
  readonly total: number
  /** The longest step by the clock, in ms: others wait for so long. */
  readonly slowest: number
}

function timed(steps: () => Generator<void, void, void>): Timing {
  const work = steps()
  const begun = now()
  let slowest = 0
  for (let done = false; !done;) {
    const step = performance.now()
    done = work.next().done === true
    slowest = Math.max(slowest, performance.now() - step)
  }
  const total = now() - begun
  return { total, slowest }
}

function find(
  name: string,
  patterns: readonly string[],
  text: string,
  unit: 'µs' | 'ms',
  limit: number,
): Case {
  const matcher = compilePatterns(patterns)
  const times = Math.max(1, Math.round(4_000_000 / text.length))
  return {
    name,
    unit,
    limit,
    run() {
      const begun = now()
      for (let time = 0; time < times; time++) {
        if (matcher.find(text)) throw new Error(`${name} matches`)
      }
      return ((now() - begun) / times) * (unit === 'µs' ? 1_000 : 1)
    },
  }
}

// A stream in pieces of 4 to 20 characters.
function events(name: string, patterns: readonly string[], limit: number): Case {
  const matcher = compilePatterns(patterns)
  const pieces: string[] = []
  for (let at = 0, size = 4; at < long.length; at += size, size = 4 + ((size * 7) % 17)) {
    pieces.push(long.slice(at, at + size))
  }
  return {
    name,
    unit: 'µs',
    limit,
    run() {
      const begun = now()
      const scan = matcher.scan()
      for (const piece of pieces) {
        const { match: hit } = scan.push(piece)
        if (hit) throw new Error(`${name} matches`)
      }
      return ((now() - begun) / pieces.length) * 1_000
    },
  }
}

/** CPU time, in ms. */
function now(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1]!
}

function report(name: string, value: number, unit: string, limit: number): void {
  const verdict = value <= limit ? 'ok' : 'TOO MUCH'
  const bound = limit === Infinity ? '' : `at most ${limit} ${verdict}`
  process.stdout.write(
    `${name.padEnd(44)} ${value.toFixed(2).padStart(9)} ${unit.padEnd(6)}${bound}\n`,
  )
}
