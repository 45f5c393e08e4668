/**
 * What looking for banned patterns costs: `node test/bench/guard.ts`. Prints medians of interleaved rounds beside the
 * figure that has to hold.
 */
import { compilePatterns } from '../../src/guard/patterns.ts'
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
const hostile = hostilePatterns()

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

// Texts that hostile patterns find hard, and that they do not match.
for (const [name, patterns, text] of hostile) {
  const matcher = compilePatterns(patterns)
  const times = [1 << 18, 1 << 19].map((length) => {
    const subject = text(length)
    let slowest = 0
    const scan = matcher.scan()
    const begun = performance.now()
    for (let at = 0; at < subject.length; at += SLICE()) {
      const slice = performance.now()
      const { hit } = scan.push(subject.slice(at, at + SLICE()))
      if (hit) throw new Error(`${name} matches at ${hit.start}`)
      slowest = Math.max(slowest, performance.now() - slice)
    }
    return { total: performance.now() - begun, slowest }
  })
  report(`${name}: twice the text`, times[1]!.total / times[0]!.total, 'times', 2.5)
  report(`${name}: 1 MiB`, times[1]!.total * 2, 'ms', Infinity)
  report(`${name}: slowest slice`, times[1]!.slowest, 'ms', 10)
}

function SLICE(): number {
  return 1024
}

function find(
  name: string,
  patterns: readonly string[],
  text: string,
  unit: 'µs' | 'ms',
  limit: number,
): Case {
  const matcher = compilePatterns(patterns)
  const times = Math.max(1, Math.round(400_000 / text.length))
  return {
    name,
    unit,
    limit,
    run() {
      const begun = performance.now()
      for (let time = 0; time < times; time++) {
        if (matcher.find(text)) throw new Error(`${name} matches`)
      }
      return ((performance.now() - begun) / times) * (unit === 'µs' ? 1_000 : 1)
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
      const begun = performance.now()
      const scan = matcher.scan()
      for (const piece of pieces) {
        const { hit } = scan.push(piece)
        if (hit) throw new Error(`${name} matches`)
      }
      return ((performance.now() - begun) / pieces.length) * 1_000
    },
  }
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1]!
}

function report(name: string, value: number, unit: string, limit: number): void {
  const verdict = value <= limit ? 'ok' : 'TOO MUCH'
  const bound = limit === Infinity ? '' : `at most ${limit} ${verdict}`
  process.stdout.write(`${name.padEnd(44)} ${value.toFixed(2).padStart(9)} ${unit.padEnd(6)}${bound}\n`)
}
