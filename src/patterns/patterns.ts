/**
 * Banned patterns: RE2 expressions over every view of a text (guard design, 1.4, 3.2, 3.3). Linear in the text, exact
 * on streams: nothing that is part of a match is ever said to be safe.
 */
import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Origin, PatternMatch, PatternMatcher as MatcherContract } from '../plugin.ts'
import { buildAutomata, parsePattern, type CompiledPatterns, type ParsedPattern } from './build.ts'
import { mayContainMatch, mayMatch } from './search.ts'
import { isUnbounded, PatternError } from './regex.ts'
import { PatternScan, type SlicedScan } from './scan.ts'
import { runSliced, runSync, type Task } from './time-slice.ts'

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

/** Utf16 times instructions of one step of a search: about a millisecond where code is cold. */
const STEP_SIZE = 1 << 18

/** Of all patterns together, in instructions. */
const MAX_SIZE = 12_000

/** Matchers of keys, and of requests: these must not push those out. The size is in instructions of all views. */
const caches = {
  key: new LRUCache<string, PatternMatcher>({ max: 1_000, maxSize: 4_000_000 }),
  request: new LRUCache<string, PatternMatcher>({ max: 1_000, maxSize: 1_000_000 }),
}

const checks = new LRUCache<string, PatternCheck>({ max: 1_000 })

/** A pattern on its own. */
interface Read {
  readonly parsed: ParsedPattern
  readonly isUnbounded: boolean
}

/** Patterns are checked first and compiled soon after. The size is in instructions. */
const known = new LRUCache<string, Read | PatternError>({ max: 1_000, maxSize: 100_000 })

/** Matchers that are being made, by origin and list: whoever wants the same meanwhile helps. */
const underWay = new Map<string, Making>()

interface Making {
  readonly steps: Task<PatternMatcher>
  made: PatternMatcher | undefined
  /** How many wait for it. */
  wanted: number
}

/**
 * Compiles patterns; the same list again costs a look-up.
 * @param origin whose they are
 * @throws Error that says which pattern is wrong, and why
 */
export function compilePatterns(
  patterns: readonly string[],
  origin: Origin = 'key',
): PatternMatcher {
  return runSync(compiling(patterns, origin))
}

/**
 * {@link compilePatterns} in time slices: a promise only if it takes longer than one.
 * @param proceed throws when the matcher is no longer wanted; asked before each further slice
 */
export function compilePatternsSliced(
  patterns: readonly string[],
  origin: Origin,
  proceed?: () => void,
): PatternMatcher | Promise<PatternMatcher> {
  return runSliced(compiling(patterns, origin), proceed)
}

/** {@link compilePatterns}, in steps. */
export function* compiling(patterns: readonly string[], origin: Origin): Task<PatternMatcher> {
  const id = idOf(patterns)
  const matcher = caches[origin].get(id)
  if (matcher) return matcher
  const { read, problem } = yield* parse(patterns)
  if (problem) throw new Error(`Pattern ${problem.index} ${problem.reason}.`)
  const key = `${origin} ${id}`
  const making = underWay.get(key) ?? { steps: make(read, origin, id), made: undefined, wanted: 0 }
  underWay.set(key, making)
  making.wanted++
  try {
    for (;;) {
      if (making.made) return making.made
      const { done, value } = making.steps.next()
      if (done) return (making.made = value)
      yield
    }
  } finally {
    // Nobody goes on with what nobody wants.
    if (--making.wanted === 0) {
      underWay.delete(key)
      making.steps.return(undefined as never)
    }
  }
}

/** Looks for what would make {@link compilePatterns} throw, and for what is allowed but unwise. Never throws. */
export function checkPatterns(patterns: readonly string[]): PatternCheck {
  return runSync(checking(patterns))
}

/**
 * {@link checkPatterns} in time slices: a promise only if it takes longer than one.
 * @param proceed throws when the result is no longer wanted; asked before each further slice
 */
export function checkPatternsSliced(
  patterns: readonly string[],
  proceed?: () => void,
): PatternCheck | Promise<PatternCheck> {
  return runSliced(checking(patterns), proceed)
}

/** {@link checkPatterns}, in steps. */
export function* checking(patterns: readonly string[]): Task<PatternCheck> {
  const id = idOf(patterns)
  let check = checks.get(id)
  if (!check) {
    const { read, problem } = yield* parse(patterns)
    const warnings = read.flatMap(({ isUnbounded }, index) =>
      isUnbounded ? [{ code: 'pattern_unbounded' as const, index }] : [],
    )
    check = problem ? { problem, warnings } : { warnings }
    checks.set(id, check)
  }
  return check
}

/** A pattern that matches this text and nothing else. */
export function escapePattern(text: string): string {
  return text.replace(/[\\.^$|?*+()[\]{}]/g, '\\$&')
}

/**
 * What is compiled and searched first takes several times as long as ever after, 50 ms, some of it in one go. To be called
 * before there is anybody who would have to wait.
 */
export function warmUp(): void {
  const matcher = compilePatterns(['(?:a+|b?c){2,3}(?i:warm) up', 'warming up'])
  for (let time = 0; time < 3; time++) {
    matcher.find(`${time} w a r m i n g up, aac c WARM, w4rm1ng, %77arm, d2FybWluZyB1cA== \u2013`)
  }
}

/** Finds patterns in texts. An empty list matches nothing. */
export class PatternMatcher implements MatcherContract {
  readonly #compiled: CompiledPatterns

  constructor(compiled: CompiledPatterns) {
    this.#compiled = compiled
  }

  /** The first match in a whole text. Takes as long as it takes; {@link search} does the same in time slices. */
  find(text: string): PatternMatch | undefined {
    return this.mayMatch(text) ? runSync(this.searchTask(text)) : undefined
  }

  /**
   * {@link find} in time slices: a promise only if it takes longer than one.
   * @param proceed throws when the result is no longer wanted; asked before each further slice
   */
  search(
    text: string,
    proceed?: () => void,
  ): PatternMatch | undefined | Promise<PatternMatch | undefined> {
    return this.mayMatch(text) ? runSliced(this.searchTask(text), proceed) : undefined
  }

  /** A quick test of a text, at most a few milliseconds: false if nothing in it matches, true if only a search can tell. */
  mayMatch(text: string): boolean {
    return mayMatch(this.#compiled, text)
  }

  isClean(text: string): boolean {
    return !this.mayMatch(text)
  }

  /** {@link find}, in steps: whatever the patterns and the text, they are short. */
  *searchTask(text: string): Task<PatternMatch | undefined> {
    if (!(yield* mayContainMatch(this.#compiled, text))) return undefined
    const slice = Math.min(SLICE, Math.ceil(STEP_SIZE / this.#compiled.text.size))
    return yield* new PatternScan(this.#compiled).search(text, slice)
  }

  /** Begins to read a text that comes in pieces. */
  scan(): SlicedScan {
    return new PatternScan(this.#compiled)
  }
}

export { PatternMatcher as CompiledMatcher }

function* make(read: readonly Read[], origin: Origin, id: string): Task<PatternMatcher> {
  const compiled = yield* buildAutomata(read.map(({ parsed }) => parsed))
  const matcher = new PatternMatcher(compiled)
  const size = compiled.text.size + (compiled.decoded?.size ?? 0)
  caches[origin].set(id, matcher, { size: size + 1 })
  return matcher
}

/** All patterns up to the first that cannot be used. */
function* parse(
  patterns: readonly string[],
): Task<{ readonly read: readonly Read[]; readonly problem?: PatternProblem }> {
  const read: Read[] = []
  let size = 0
  for (const [index, pattern] of patterns.entries()) {
    yield
    const one = yield* readPattern(pattern)
    if (one instanceof PatternError) {
      return { read, problem: yield* problemOf(pattern, index, one) }
    }
    size += one.parsed.regex.size
    if (size > MAX_SIZE) {
      const reason = `makes ${size} instructions with those before it, of which at most ${MAX_SIZE} are allowed`
      return { read, problem: { index, reason } }
    }
    read.push(one)
  }
  return { read }
}

function idOf(patterns: readonly string[]): string {
  return hash('sha256', JSON.stringify(patterns))
}

function* problemOf(
  pattern: string,
  index: number,
  { message }: PatternError,
): Task<PatternProblem> {
  const suggestion = escapePattern(pattern)
  const isUsable =
    suggestion !== pattern && !((yield* readPattern(suggestion)) instanceof PatternError)
  return { index, reason: message, ...(isUsable ? { suggestion } : {}) }
}

function* readPattern(pattern: string): Task<Read | PatternError> {
  let read = known.get(pattern)
  if (!read) {
    read = yield* tryParse(pattern)
    const size = read instanceof PatternError ? 1 : read.parsed.regex.size
    known.set(pattern, read, { size: size + 1 })
  }
  return read
}

function* tryParse(pattern: string): Task<Read | PatternError> {
  try {
    const parsed = yield* parsePattern(pattern)
    yield
    return { parsed, isUnbounded: isUnbounded(parsed.regex) }
  } catch (error) {
    if (error instanceof PatternError) return error
    throw error
  }
}
