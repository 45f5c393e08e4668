/**
 * Banned patterns: RE2 expressions over every view of a text (guard design, 1.4, 3.2, 3.3). Linear in the text, exact
 * on streams: nothing that is part of a match is ever said to be safe.
 */
import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Matcher, PatternHit, Scan } from '../plugin.ts'
import { buildMachines, parsePattern, type Machines, type Parsed } from './matcher/build.ts'
import { isSuspect } from './matcher/find.ts'
import { isUnbounded, PatternError } from './matcher/regex.ts'
import { TextScan } from './matcher/scan.ts'

/** A pattern that cannot be used. */
export interface PatternProblem {
  readonly index: number
  /** Why, in words that follow "the pattern". */
  readonly reason: string
  /** The pattern as a literal, if that can be used. */
  readonly suggestion?: string
}

export interface PatternWarning {
  /** Text without end may be held while the pattern is undecided. */
  readonly code: 'pattern_unbounded'
  readonly index: number
}

export interface PatternCheck {
  /** The first one. */
  readonly problem?: PatternProblem
  readonly warnings: readonly PatternWarning[]
}

/**
 * So many UTF-16 units at once take a scan a few milliseconds at most, however hostile the patterns; 10 µs if they are
 * not. Whoever has more should let others have their turn in between.
 */
export const SLICE = 128

/** Of all patterns together, in instructions. */
const MAX_SIZE = 12_000

/** Matchers of keys, and of requests: these must not push those out. The size is in instructions of all views. */
const caches = {
  key: new LRUCache<string, PatternMatcher>({ max: 1_000, maxSize: 4_000_000 }),
  request: new LRUCache<string, PatternMatcher>({ max: 1_000, maxSize: 1_000_000 }),
}

const checks = new LRUCache<string, PatternCheck>({ max: 1_000 })

/**
 * Compiles patterns; the same list again costs a look-up.
 * @param origin whose they are
 * @throws Error that says which pattern is wrong, and why
 */
export function compilePatterns(
  patterns: readonly string[],
  origin: 'key' | 'request' = 'key',
): PatternMatcher {
  const id = idOf(patterns)
  const known = caches[origin].get(id)
  if (known) return known
  const { parsed, problem } = parse(patterns)
  if (problem) throw new Error(`Pattern ${problem.index} ${problem.reason}.`)
  const machines = buildMachines(parsed)
  const matcher = new PatternMatcher(machines)
  const size = machines.text.size + (machines.decoded?.size ?? 0)
  caches[origin].set(id, matcher, { size: size + 1 })
  return matcher
}

/** Looks for what would make {@link compilePatterns} throw, and for what is allowed but unwise. Never throws. */
export function checkPatterns(patterns: readonly string[]): PatternCheck {
  const id = idOf(patterns)
  let check = checks.get(id)
  if (!check) {
    check = findProblems(patterns)
    checks.set(id, check)
  }
  return check
}

/** A pattern that matches this text and nothing else. */
export function escapePattern(text: string): string {
  return text.replace(/[\\.^$|?*+()[\]{}]/g, '\\$&')
}

/** Finds patterns in texts. An empty list matches nothing. */
export class PatternMatcher implements Matcher {
  readonly #machines: Machines

  constructor(machines: Machines) {
    this.#machines = machines
  }

  find(text: string): PatternHit | undefined {
    const search = this.#search(text, false)
    for (;;) {
      const { done, value } = search.next()
      if (done) return value
    }
  }

  /**
   * {@link find}, a few milliseconds at a time: whoever asks may let others have their turn between two steps.
   * Whatever the patterns and the text, a step is short.
   */
  search(text: string): Generator<void, PatternHit | undefined, void> {
    return this.#search(text, true)
  }

  scan(): Scan {
    return new TextScan(this.#machines)
  }

  *#search(text: string, pauses: boolean): Generator<void, PatternHit | undefined, void> {
    if (!(yield* isSuspect(this.#machines, text, pauses))) return undefined
    const scan = this.scan()
    for (let at = 0; at < text.length; at += SLICE) {
      const { hit } = scan.push(text.slice(at, at + SLICE))
      if (hit) return hit
      yield
    }
    return scan.end().hit
  }
}

function findProblems(patterns: readonly string[]): PatternCheck {
  const { parsed, problem } = parse(patterns)
  const warnings = parsed.flatMap(({ regex }, index) =>
    isUnbounded(regex) ? [{ code: 'pattern_unbounded' as const, index }] : [],
  )
  return problem ? { problem, warnings } : { warnings }
}

/** All patterns up to the first that cannot be used. */
function parse(patterns: readonly string[]): { parsed: Parsed[]; problem?: PatternProblem } {
  const parsed: Parsed[] = []
  let size = 0
  for (const [index, pattern] of patterns.entries()) {
    const one = tryParse(pattern)
    if (one instanceof PatternError) return { parsed, problem: problemOf(pattern, index, one) }
    size += one.regex.size
    if (size > MAX_SIZE) {
      const reason = `makes ${size} instructions with those before it, of which at most ${MAX_SIZE} are allowed`
      return { parsed, problem: { index, reason } }
    }
    parsed.push(one)
  }
  return { parsed }
}

function idOf(patterns: readonly string[]): string {
  return hash('sha256', JSON.stringify(patterns))
}

function problemOf(pattern: string, index: number, { message }: PatternError): PatternProblem {
  const suggestion = escapePattern(pattern)
  const isUsable = suggestion !== pattern && !(tryParse(suggestion) instanceof PatternError)
  return { index, reason: message, ...(isUsable ? { suggestion } : {}) }
}

function tryParse(pattern: string): Parsed | PatternError {
  try {
    return parsePattern(pattern)
  } catch (error) {
    if (error instanceof PatternError) return error
    throw error
  }
}
