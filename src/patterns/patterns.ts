/** Banned patterns: RE2 expressions and literals, looked for in whole texts and in texts that come in pieces. */
import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type {
  Origin,
  PatternMatch,
  PatternMatcher as MatcherContract,
  ScanProgress,
  TextScan,
} from '../plugin.ts'
import {
  buildAutomata,
  parsePattern,
  type CompiledPatterns,
  type ParsedPattern,
  PatternError,
} from './build.ts'
import { mayContainMatch, EncodedScanner } from './search.ts'
import { runSliced, runSync, type Task } from './time-slice.ts'
import { MatchCursor } from './cursor.ts'
import { mayEscape } from './views/escapes.ts'

// One scan of a text for patterns: in pieces as they come, or as a whole.

/** Longer pieces are read in steps of so many units. */
const LONG = 1 << 14
const STEP = 64
/**
 * Reads the text itself with one cursor, and what is encoded in it beside. After `pushSliced` or `endSliced` has returned a
 * promise, nothing may be pushed until it is settled; if it rejects, the scan is of no further use.
 */
export class PatternScan implements TextScan {
  readonly #cursor: MatchCursor
  readonly #encoded: EncodedScanner | undefined
  #position = 0
  /** The first half of a surrogate pair that waits for the second, or nothing. */
  #half = ''
  #progress: ScanProgress = { safeOffset: 0 }

  constructor({ text, decoded }: CompiledPatterns) {
    this.#cursor = new MatchCursor(text)
    this.#encoded = decoded && new EncodedScanner(decoded)
  }

  push(text: string): ScanProgress {
    return this.#pushed(text) ?? runSync(this.#stop())
  }

  end(): ScanProgress {
    return this.#ended() ?? runSync(this.#stop())
  }

  /** {@link push} in time slices: a promise only if it takes longer than one. */
  pushSliced(text: string, proceed?: () => void): ScanProgress | Promise<ScanProgress> {
    const isLong = text.length > LONG && !this.#progress.match
    if (isLong) return runSliced(this.#readLong(text), proceed)
    return this.#pushed(text) ?? runSliced(this.#stop(), proceed)
  }

  endSliced(proceed?: () => void): ScanProgress | Promise<ScanProgress> {
    return this.#ended() ?? runSliced(this.#stop(), proceed)
  }

  /** The first match in a whole text. @param step units between two pauses */
  *search(text: string, step: number): Task<PatternMatch | undefined> {
    yield* this.#readSteps(text, step)
    return this.#isOver || this.#finish() ? yield* this.#locate() : undefined
  }

  /** @returns nothing where a match has ended that is to be located */
  #pushed(text: string): ScanProgress | undefined {
    if (this.#progress.match) return this.#progress
    this.#read(text)
    return this.#isOver ? undefined : this.#pass()
  }

  #ended(): ScanProgress | undefined {
    if (this.#progress.match) return this.#progress
    return this.#finish() ? undefined : (this.#progress = { safeOffset: this.#position })
  }

  *#readLong(text: string): Task<ScanProgress> {
    yield* this.#readSteps(text, STEP)
    if (this.#isOver) return yield* this.#stop()
    yield* this.#cursor.pendingStartTask()
    return this.#pass()
  }

  *#readSteps(text: string, step: number): Task<void> {
    for (let at = 0; at < text.length && !this.#isOver; at += step) {
      this.#read(text.slice(at, at + step))
      if (!this.#isOver) yield* this.#cursor.dropIfShort()
      yield
    }
  }

  get #isOver(): boolean {
    return this.#cursor.isOver || this.#encoded?.found !== undefined
  }

  /** Reads up to a match, or all but the first half of a surrogate pair at the end. */
  #read(text: string, isWhole = false): void {
    const all = this.#half + text
    this.#half = ''
    const last = all.length - 1
    for (let at = 0; at <= last && !this.#isOver;) {
      const unit = all.charCodeAt(at)
      if (at === last && (unit & 0xfc00) === 0xd800 && !isWhole) {
        this.#half = all.slice(at)
        return
      }
      // V8 13.6 compiles `codePointAt` so that it reads on behind the end of a string that is a slice of another.
      const codePoint = at === last ? unit : all.codePointAt(at)!
      const units = codePoint > 0xffff ? 2 : 1
      this.#readCodePoint(codePoint, units)
      at += units
    }
  }

  #readCodePoint(codePoint: number, units: number): void {
    const [cursor, encoded] = [this.#cursor, this.#encoded]
    const start = this.#position
    const end = start + units
    if (encoded !== undefined && mayEscape(codePoint)) encoded.beginEscape(cursor)
    // The character that completes a match is not released.
    if (cursor.read(codePoint, start, end) || encoded?.read(codePoint, start, end)) return
    this.#position = end
  }

  /** The text is over. @returns whether there is a match */
  #finish(): boolean {
    this.#read('', true)
    return this.#isOver || this.#cursor.finish() || this.#encoded?.finish() === true
  }

  #pass(): ScanProgress {
    const pending = this.#cursor.pendingStart(false)
    const encoded = this.#encoded ? this.#encoded.pendingStart(false) : Infinity
    const safeOffset = Math.min(this.#position, pending, encoded)
    return safeOffset === this.#progress.safeOffset
      ? this.#progress
      : (this.#progress = { safeOffset })
  }

  *#stop(): Task<ScanProgress> {
    const match = yield* this.#locate()
    const encoded = this.#encoded?.pendingStart(true) ?? Infinity
    let safeOffset = Math.min(this.#position, match.start, encoded)
    // Most matches begin where the oldest match under way does: then there is nothing to walk back over.
    if (this.#cursor.since < safeOffset) {
      safeOffset = Math.min(safeOffset, yield* this.#cursor.pendingStartTask())
    }
    return (this.#progress = { safeOffset, match })
  }

  *#locate(): Task<PatternMatch> {
    return this.#cursor.isOver ? yield* this.#cursor.locate() : this.#encoded!.found!
  }
}

export { PatternError }

/** A pattern that cannot be used. */
interface PatternProblem {
  readonly index: number
  /** Why, in words that follow "the pattern". */
  readonly reason: string
  /** The pattern as a literal, if that can be used. */
  readonly suggestion?: string
}

/** A pattern that can be used, with a drawback. */
interface PatternWarning {
  /** While the pattern is undecided, text of any length may be retained. */
  readonly code: 'pattern_unbounded'
  readonly index: number
}

interface PatternCheck {
  /** The first one. */
  readonly problem?: PatternProblem
  readonly warnings: readonly PatternWarning[]
}

/** Units that a search reads in one step: a few milliseconds with hostile patterns, 10 µs with others. */
const SLICE = 128

/** Units times instructions of a step: about a millisecond where code is cold. */
const STEP_SIZE = 1 << 18

/** Instructions of all patterns of a list. */
const MAX_SIZE = 12_000

/** Matchers by list, apart by origin: requests must not evict those of keys. Sizes are in instructions of all views. */
const matchers = {
  key: new LRUCache<string, PatternMatcher>({ max: 1_000, maxSize: 4_000_000 }),
  request: new LRUCache<string, PatternMatcher>({ max: 1_000, maxSize: 1_000_000 }),
}

/** Checks by list: a policy is checked in slices, and read at once soon after. */
const checks = new LRUCache<string, PatternCheck>({ max: 1_000 })

/** Patterns are checked first and compiled soon after. Sizes are in instructions. */
const parsings = new LRUCache<string, ParsedPattern | PatternError>({
  max: 1_000,
  maxSize: 100_000,
})

/** Compilations that are under way, by origin and list: all callers that want the same matcher advance the same task. */
const compilations = new Map<string, Compilation>()

interface Compilation {
  readonly task: Task<PatternMatcher>
  matcher: PatternMatcher | undefined
  callers: number
}

/**
 * Compiles patterns; the same list again costs a look-up.
 * @param origin whose patterns they are; each origin has a cache of its own
 * @throws Error that says which pattern is wrong, and why
 */
export function compilePatterns(
  patterns: readonly string[],
  origin: Origin = 'key',
): PatternMatcher {
  return runSync(compileTask(patterns, origin))
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
  return runSliced(compileTask(patterns, origin), proceed)
}

/** Looks for what would make {@link compilePatterns} throw, and for what is allowed but unwise. Never throws. */
export function checkPatterns(patterns: readonly string[]): PatternCheck {
  return runSync(checkTask(patterns))
}

/**
 * {@link checkPatterns} in time slices: a promise only if it takes longer than one.
 * @param proceed throws when the result is no longer wanted; asked before each further slice
 */
export function checkPatternsSliced(
  patterns: readonly string[],
  proceed?: () => void,
): PatternCheck | Promise<PatternCheck> {
  return runSliced(checkTask(patterns), proceed)
}

/** A pattern that matches this text and nothing else. */
export function escapePattern(text: string): string {
  return text.replace(/[\\.^$|?*+()[\]{}]/g, '\\$&')
}

/** Warming gives way to calls after this time, on a machine with much else to do. */
const MOST_WARMING_MS = 1000

/** Compiles and searches once at start-up: the first time takes 50 ms, some of it in one piece, while code is cold. */
export function warmUp(): void {
  const start = performance.now()
  const matcher = compilePatterns(['(?:a+|b?c){2,3}(?i:warm) up', 'warming up'])
  for (let time = 0; time < 3 && performance.now() - start < MOST_WARMING_MS; time++) {
    matcher.find(`${time} w a r m i n g up, aac c WARM, w4rm1ng, %77arm, d2FybWluZyB1cA== \u2013`)
  }
}

/** Finds patterns in texts. An empty list matches nothing. */
export class PatternMatcher implements MatcherContract {
  readonly #compiled: CompiledPatterns

  constructor(compiled: CompiledPatterns) {
    this.#compiled = compiled
  }

  /** The first match in a whole text. Blocks for as long as it takes; {@link search} does not. */
  find(text: string): PatternMatch | undefined {
    return runSync(this.searchTask(text))
  }

  /**
   * {@link find} in time slices: a promise only if it takes longer than one.
   * @param proceed throws when the result is no longer wanted; asked before each further slice
   */
  search(
    text: string,
    proceed?: () => void,
  ): PatternMatch | undefined | Promise<PatternMatch | undefined> {
    return runSliced(this.searchTask(text), proceed)
  }

  /** {@link search} as a task, for callers that measure its steps. */
  *searchTask(text: string): Task<PatternMatch | undefined> {
    if (!(yield* mayContainMatch(this.#compiled, text))) return undefined
    const step = Math.min(SLICE, Math.ceil(STEP_SIZE / this.#compiled.text.size))
    return yield* new PatternScan(this.#compiled).search(text, step)
  }

  /** Begins to read a text that comes in pieces. */
  scan(): PatternScan {
    return new PatternScan(this.#compiled)
  }
}

function* compileTask(patterns: readonly string[], origin: Origin): Task<PatternMatcher> {
  const id = idOf(patterns)
  const cached = matchers[origin].get(id)
  if (cached) return cached
  const { parsings, problem } = yield* parseAll(patterns)
  if (problem) throw new Error(`Pattern ${problem.index} ${problem.reason}.`)
  const key = `${origin} ${id}`
  const compilation = compilations.get(key) ?? {
    task: buildMatcher(parsings, origin, id),
    matcher: undefined,
    callers: 0,
  }
  compilations.set(key, compilation)
  compilation.callers++
  try {
    for (;;) {
      if (compilation.matcher) return compilation.matcher
      const { done, value } = compilation.task.next()
      if (done) return (compilation.matcher = value)
      yield
    }
  } finally {
    // The last caller that leaves ends the work.
    if (--compilation.callers === 0) {
      compilations.delete(key)
      compilation.task.return(undefined as never)
    }
  }
}

function* buildMatcher(
  parsings: readonly ParsedPattern[],
  origin: Origin,
  id: string,
): Task<PatternMatcher> {
  const compiled = yield* buildAutomata(parsings)
  const matcher = new PatternMatcher(compiled)
  const size = compiled.text.size + (compiled.decoded?.size ?? 0)
  matchers[origin].set(id, matcher, { size: size + 1 })
  return matcher
}

function* checkTask(patterns: readonly string[]): Task<PatternCheck> {
  const id = idOf(patterns)
  const cached = checks.get(id)
  if (cached) return cached
  const { parsings, problem } = yield* parseAll(patterns)
  const warnings = parsings.flatMap(({ unbounded }, index) =>
    unbounded ? [{ code: 'pattern_unbounded' as const, index }] : [],
  )
  const check = problem ? { problem, warnings } : { warnings }
  checks.set(id, check)
  return check
}

/** Parses all patterns up to the first that cannot be used. */
function* parseAll(
  patterns: readonly string[],
): Task<{ readonly parsings: readonly ParsedPattern[]; readonly problem?: PatternProblem }> {
  const parsings: ParsedPattern[] = []
  let size = 0
  for (const [index, pattern] of patterns.entries()) {
    const parsing = yield* parse(pattern)
    if (parsing instanceof PatternError) {
      return { parsings, problem: yield* problemOf(pattern, index, parsing) }
    }
    size += parsing.regex.size
    if (size > MAX_SIZE) {
      const reason = `makes ${size} instructions with those before it, of which at most ${MAX_SIZE} are allowed`
      return { parsings, problem: { index, reason } }
    }
    parsings.push(parsing)
  }
  return { parsings }
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
  const isUsable = suggestion !== pattern && !((yield* parse(suggestion)) instanceof PatternError)
  return { index, reason: message, ...(isUsable ? { suggestion } : {}) }
}

function* parse(pattern: string): Task<ParsedPattern | PatternError> {
  let parsing = parsings.get(pattern)
  // Known patterns take no pause: a policy that was checked before is read at once.
  if (!parsing) {
    yield
    try {
      parsing = yield* parsePattern(pattern)
    } catch (error) {
      if (!(error instanceof PatternError)) throw error
      parsing = error
    }
    parsings.set(pattern, parsing, {
      size: parsing instanceof PatternError ? 2 : parsing.regex.size + 1,
    })
  }
  return parsing
}
