/** Makes automata of patterns: decides which views apply to a pattern, and writes its instructions for each of them. */
import type { Task } from './time-slice.ts'
import { fold, foldAll, isIgnorable, isMark, NEWLINE, SPACE } from './views/fold.ts'
import { complement, rangesOf, type Ranges } from './alphabet.ts'
import { ProductDfa, type Automaton, KIND_SETS, type Normalization } from './product-dfa.ts'
import { type MatchTarget, NfaBuilder } from './nfa.ts'
import { RE2JS, RE2JSException } from 're2js'

/** A pattern that can be used. */
export interface ParsedPattern {
  readonly regex: Regex
  /** A match may be under way for a text of any length. */
  readonly unbounded: boolean
  /** The folded symbols of a pattern without metacharacters; empty if folding removes all of it. */
  readonly literal?: readonly number[]
}

/** The automata of a list of patterns: over the text itself, and over decoded text if view `decoded` applies to any. */
export interface CompiledPatterns {
  readonly text: ProductDfa
  readonly decoded: ProductDfa | undefined
}

// A literal needs so many letters or digits for these views: shorter ones would match ordinary text.
const SQUEEZED = 5
const UNMARKED = 5
const LEET = 5
const DERIVED = 6
const DECODED = 5
/** Instructions of a pattern between two pauses. */
const PIECE = 64
/** Classes of up to so many members also match what these fold to. */
const WRITTEN_OUT = 32

const LETTER = /^\p{L}$/u
const LETTER_OR_DIGIT = /^[\p{L}\p{N}]$/u

let gaps: Ranges | undefined

/** @throws PatternError for a pattern that cannot be used */
export function* parsePattern(pattern: string): Task<ParsedPattern> {
  const regex = yield* parseRegex(pattern)
  yield
  if (isNullable(regex, (one) => !isLost(one, isIgnorable))) {
    throw new PatternError(
      isNullable(regex, () => true)
        ? 'can match nothing at all, so it would block everything'
        : 'consists of characters that cannot be seen, and these are never looked at',
    )
  }
  if (isLiteral(pattern)) return { regex, unbounded: false, literal: flatten(foldAll(pattern)) }
  yield
  return { regex, unbounded: isUnbounded(regex) }
}

/** Builds the automata of some patterns. Pauses often, whatever the patterns. */
export function* buildAutomata(patterns: readonly ParsedPattern[]): Task<CompiledPatterns> {
  const plain = new NfaBuilder()
  const folded = new NfaBuilder()
  const flat = new NfaBuilder()
  const unmarked = new NfaBuilder()
  const decoded = new NfaBuilder()
  for (const [pattern, { regex, literal }] of patterns.entries()) {
    yield
    if (literal?.some((symbol) => symbol !== SPACE)) {
      // An ASCII literal that stands in a text as written also stands in the folded text, unless there are tags in it.
      const plain = literal.every((symbol) => symbol < 128) && isAscii(regex)
      addChain(flat, literal, { pattern, view: 'folded', plain })
      yield* addEvasions(flat, literal, pattern)
      if (count(literal, LETTER_OR_DIGIT) >= DECODED)
        addChain(decoded, literal, { pattern, view: 'decoded' })
      const isUnmarked = count(literal, LETTER_OR_DIGIT) >= UNMARKED && !literal.some(isMark)
      if (isUnmarked) addChain(unmarked, literal, { pattern, view: 'folded' })
      if (plain && isUnmarked) continue
    }
    yield* addRegex(plain, regex, { pattern, view: 'raw' }, asWritten)
    if (literal !== undefined || regex.caseSensitive) continue
    if (isNullable(regex, (one) => !isLost(one, vanishes))) continue
    yield* addRegex(folded, regex, { pattern, view: 'folded' }, asFolded)
  }
  const automata = yield* automataOf([
    ['plain', plain],
    ['folded', folded],
    ['squeezed', flat],
    ['unmarked', unmarked],
  ])
  const text = yield* ProductDfa.of(automata)
  if (decoded.size === 0) return { text, decoded: undefined }
  return { text, decoded: yield* ProductDfa.of(yield* automataOf([['squeezed', decoded]])) }
}

function* automataOf(
  builders: readonly (readonly [Normalization, NfaBuilder])[],
): Task<readonly Automaton[]> {
  const automata: Automaton[] = []
  for (const [normalization, builder] of builders) {
    if (builder.size === 0) continue
    yield
    for (const set of KIND_SETS) builder.set(set)
    automata.push({ normalization, nfa: yield* builder.build() })
  }
  yield
  return automata
}

/** Merges runs of white space, as the `squeezed` normalization does. */
function flatten(symbols: readonly number[]): number[] {
  const flat: number[] = []
  for (const symbol of symbols) {
    const next = symbol === NEWLINE ? SPACE : symbol
    if (next !== SPACE || flat.at(-1) !== SPACE) flat.push(next)
  }
  return flat
}

function addChain(
  builder: NfaBuilder,
  symbols: readonly number[],
  target: MatchTarget,
  setOf: (symbol: number) => Ranges = (symbol) => [symbol, symbol],
): void {
  const accept = builder.accept(target)
  builder.start(symbols.reduceRight((next, symbol) => builder.char(setOf(symbol), next), accept))
}

function* addEvasions(
  builder: NfaBuilder,
  literal: readonly number[],
  pattern: number,
): Task<void> {
  const squeezed = literal.filter((symbol) => is(symbol, LETTER_OR_DIGIT))
  const letters = count(literal, LETTER)
  if (squeezed.length >= SQUEEZED) {
    yield
    // Collecting all symbols that are neither letters nor digits takes a step of its own the first time.
    gaps ??= complement(classRanges('[\\pL\\pN]'))
    yield
    addSqueezed(builder, gaps, squeezed, pattern)
  }
  if (letters >= LEET) {
    const digits = squeezed.length - letters
    const target: MatchTarget = { pattern, view: 'leet', digits }
    addChain(builder, literal, target, (symbol) => rangesOf(leetGroup(symbol)))
  }
  if (letters < DERIVED) return
  const variants = new Set([literal.join()])
  for (const derived of [literal.map(rotated), literal.toReversed()]) {
    if (variants.has(derived.join())) continue
    variants.add(derived.join())
    addChain(builder, derived, { pattern, view: 'derived' })
  }
}

/**
 * View `squeezed`: gaps of up to three other symbols between letters, and at most two letters without a gap. Instructions
 * are made from the last letter to the first: once for a letter behind a gap, once for a letter behind another letter.
 */
function addSqueezed(
  builder: NfaBuilder,
  gaps: Ranges,
  letters: readonly number[],
  pattern: number,
): void {
  let alone = builder.accept({ pattern, view: 'squeezed' })
  let second = alone
  for (let at = letters.length - 1; at > 0; at--) {
    const letter: Ranges = [letters[at]!, letters[at]!]
    const apart = builder.char(letter, alone)
    const third = builder.char(gaps, apart)
    const two = builder.char(gaps, builder.split(apart, third))
    const gap = builder.char(gaps, builder.split(apart, two))
    alone = builder.split(gap, builder.char(letter, second))
    second = gap
  }
  builder.start(builder.char([letters[0]!, letters[0]!], alone))
}

/** What a `char` instruction becomes in a view: alternatives, each a sequence of sets. */
type Shape = (one: Instruction & { kind: 'char' }, regex: Regex) => readonly (readonly Ranges[])[]

function* addRegex(
  builder: NfaBuilder,
  regex: Regex,
  target: MatchTarget,
  shape: Shape,
): Task<void> {
  const states = regex.instructions.map(() => builder.reserve())
  for (const [index, one] of [...regex.instructions.entries()].toReversed()) {
    if (index % PIECE === 0) yield
    const at = states[index]!
    if (one.kind === 'accept') builder.accept(target, at)
    else if (one.kind === 'assert') builder.assert(one.conditions, states[one.next]!, at)
    else if (one.kind === 'split') builder.split(states[one.next]!, states[one.other]!, at)
    else if (one.kind === 'char') {
      const ways = shape(one, regex).map((row) =>
        row.reduceRight((next, set) => builder.char(set, next), states[one.next]!),
      )
      const way = ways.reduce((first, second) => builder.split(first, second))
      builder.split(way, way, at)
    }
  }
  builder.start(states[regex.start]!)
}

const asWritten: Shape = (one) => (isLost(one, isIgnorable) ? [[]] : [[one.set]])

// A literal character is folded. A class stays, and a small one also matches what its members fold to; a large one does
// not, or \p{Cyrillic} would match an "a".
const asFolded: Shape = (one, { instructions }) => {
  const { set, literal, next } = one
  if (literal !== undefined) {
    const symbols = fold(literal)
    const following = instructions[next]!
    const isRun =
      symbols[0] === SPACE &&
      following.kind === 'char' &&
      following.literal !== undefined &&
      fold(following.literal)[0] === SPACE
    return [isRun ? [] : symbols.map((symbol): Ranges => [symbol, symbol])]
  }
  if (countOf(set) > WRITTEN_OUT) return [[set]]
  if (isLost(one, vanishes)) return [[]]
  const members = membersOf(set)
  const images = members.map(fold)
  const single = rangesOf([
    ...members,
    ...images.flatMap((image) => (image.length === 1 ? image : [])),
  ])
  const rows = new Map(
    images.filter(({ length }) => length > 1).map((image) => [image.join(), image]),
  )
  return [
    [single],
    ...[...rows.values()].map((image) => image.map((symbol): Ranges => [symbol, symbol])),
  ]
}

/** Whether an instruction reads only characters that a view drops. */
function isLost(one: Instruction, disappears: (codePoint: number) => boolean): boolean {
  if (one.kind !== 'char') return false
  if (one.literal !== undefined) return disappears(one.literal)
  return countOf(one.set) <= WRITTEN_OUT && membersOf(one.set).every(disappears)
}

function vanishes(codePoint: number): boolean {
  return fold(codePoint).length === 0
}

function isAscii({ instructions }: Regex): boolean {
  return instructions.every((one) => one.kind !== 'char' || (one.literal ?? 128) < 128)
}

function rotated(symbol: number): number {
  return symbol >= 0x61 && symbol <= 0x7a ? ((symbol - 0x61 + 13) % 26) + 0x61 : symbol
}

function count(symbols: readonly number[], kind: RegExp): number {
  return symbols.filter((symbol) => is(symbol, kind)).length
}

function is(symbol: number, kind: RegExp): boolean {
  return kind.test(String.fromCodePoint(symbol))
}

// Digits and signs that are written in place of letters.

const STANDS_FOR: Readonly<Record<string, string>> = {
  o: '0',
  i: '1!|l',
  e: '3',
  a: '4@',
  s: '5$',
  t: '7+',
  b: '8',
}

const GROUPS = Object.entries(STANDS_FOR).map(([letter, others]) =>
  Array.from(letter + others, (sign) => sign.charCodeAt(0)),
)
const BY_SYMBOL = new Map(GROUPS.flatMap((group) => group.map((symbol) => [symbol, group])))

/** All symbols that may stand for the same letter as this one, itself included. */
export function leetGroup(symbol: number): readonly number[] {
  return BY_SYMBOL.get(symbol) ?? [symbol]
}

// Turns RE2 expressions into instructions. re2js parses and simplifies them; no other file depends on it.

/** One instruction; `next` and `other` are indices. Conditions of assertions are those of RE2. */
export type Instruction =
  /** `literal` is the character if a single one was written. */
  | {
      readonly kind: 'char'
      readonly set: Ranges
      readonly literal?: number
      readonly next: number
    }
  | { readonly kind: 'split'; readonly next: number; readonly other: number }
  | { readonly kind: 'assert'; readonly conditions: number; readonly next: number }
  | { readonly kind: 'accept' }
  | { readonly kind: 'fail' }

export interface Regex {
  readonly instructions: readonly Instruction[]
  readonly start: number
  /** Case counts in a part of it. */
  readonly caseSensitive: boolean
  /** Instructions, as counted for limits. */
  readonly size: number
}

/** A pattern cannot be used; the message says why, in words that follow "the pattern". */
export class PatternError extends Error {}

/** Instructions that a pattern may have. */
const MAX_SIZE = 1_500

const LITERAL = /^[^\\.^$|?*+()[\]{}]*$/

// Operations of re2js' programs.
const ALT = 1
const ALT_MATCH = 2
const CAPTURE = 3
const EMPTY_WIDTH = 4
const MATCH = 6
const NOP = 7
const RUNE = 8
const RUNE_ANY_NOT_NL = 11

/** Any letter whose case variants are looked up first. */
const FIRST = 0x6b

/** Case variants of the characters that were needed so far. */
const variants = new Map<number, Ranges>()

/** Whether a pattern has no metacharacters. */
export function isLiteral(pattern: string): boolean {
  return LITERAL.test(pattern)
}

/**
 * Parses an expression; case does not count unless the expression says so.
 * @throws PatternError for what is not RE2, and for what is too large
 */
export function* parseRegex(pattern: string): Task<Regex> {
  const { size, caseSensitive } = survey(pattern)
  if (size > MAX_SIZE) throw tooLarge(size)
  // The first call makes the tables of re2js, which takes a step of its own.
  variantsOf(FIRST)
  yield
  const { inst, start } = compile(pattern)
  yield
  const instructions = inst.map(translate)
  const counted = instructions.filter(
    (one) => one.kind !== 'fail' && !(one.kind === 'split' && one.next === one.other),
  ).length
  if (counted > MAX_SIZE) throw tooLarge(counted)
  return { instructions, start, caseSensitive, size: counted }
}

/** Whether an expression matches the empty text, if these instructions read nothing. */
function isNullable(regex: Regex, reads: (one: Instruction) => boolean): boolean {
  const seen = new Set([regex.start])
  for (const at of seen) {
    const one = regex.instructions[at]!
    if (one.kind === 'accept') return true
    if (one.kind === 'fail' || (one.kind === 'char' && reads(one))) continue
    seen.add(one.next)
    if (one.kind === 'split') seen.add(one.other)
  }
  return false
}

/** Whether a match may be under way for a text of any length. */
function isUnbounded({ instructions, start }: Regex): boolean {
  // A match ends as soon as it is complete, so what may follow does not count.
  const ends = endsOf(instructions)
  const [NEW, OPEN, DONE] = [0, 1, 2]
  const seen = new Uint8Array(instructions.length)
  const stack = [start]
  for (let at = start; stack.length > 0; at = stack.at(-1)!) {
    if (seen[at] !== NEW || ends[at] === 1) {
      seen[at] = DONE
      stack.pop()
      continue
    }
    seen[at] = OPEN
    for (const next of nextOf(instructions[at]!)) {
      if (seen[next] === OPEN) return true
      if (seen[next] === NEW) stack.push(next)
    }
  }
  return false
}

/** The characters of a Unicode class, such as `\pL`. */
function classRanges(expression: string): Ranges {
  return rangesFrom(compile(expression).inst.find(({ op }) => op === RUNE)!.runes)
}

interface Compiled {
  readonly inst: readonly {
    readonly op: number
    readonly out: number
    readonly arg: number
    readonly runes: ArrayLike<number>
  }[]
  readonly start: number
}

function compile(pattern: string): Compiled {
  try {
    return RE2JS.compile(pattern, RE2JS.CASE_INSENSITIVE).re2().prog
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error
    // The flag in front was not written by the user.
    const why = error.message.replace('error parsing regexp: ', '').replace('`(?i)', '`')
    throw new PatternError(`is not RE2 (${why})`)
  }
}

function translate({ op, out, arg, runes }: Compiled['inst'][number]): Instruction {
  if (op === ALT || op === ALT_MATCH) return { kind: 'split', next: out, other: arg }
  if (op === CAPTURE || op === NOP) return { kind: 'split', next: out, other: out }
  if (op === EMPTY_WIDTH) return { kind: 'assert', conditions: arg, next: out }
  if (op === MATCH) return { kind: 'accept' }
  if (op < RUNE || op > RUNE_ANY_NOT_NL || runes.length === 0) return { kind: 'fail' }
  if (runes.length > 1) return { kind: 'char', set: rangesFrom(runes), next: out }
  const literal = runes[0]!
  const set = arg === 0 ? [literal, literal] : variantsOf(literal)
  return { kind: 'char', set, literal, next: out }
}

function variantsOf(literal: number): Ranges {
  let ranges = variants.get(literal)
  if (ranges === undefined) {
    // re2js lists all variants of a character in a class with an unrelated one.
    const hex = literal.toString(16)
    const unrelated = literal === 0x10ffff ? 0 : 0x10ffff
    const { runes } = compile(`[\\x{${hex}}\\x{${unrelated.toString(16)}}]`).inst.find(
      ({ op }) => op === RUNE,
    )!
    ranges = rangesOf(membersOf(rangesFrom(runes)).filter((one) => one !== unrelated))
    variants.set(literal, ranges)
  }
  return ranges
}

/** All code points in some ranges. */
function membersOf(ranges: Ranges): number[] {
  const members: number[] = []
  for (let at = 0; at < ranges.length; at += 2) {
    for (let one = ranges[at]!; one <= ranges[at + 1]!; one++) members.push(one)
  }
  return members
}

/** The number of code points in some ranges. */
function countOf(ranges: Ranges): number {
  return ranges.reduce((sum, bound, at) => sum + (at % 2 === 0 ? -bound : bound + 1), 0)
}

/** Merges the sorted ranges of a class, which may touch. */
function rangesFrom(runes: ArrayLike<number>): Ranges {
  const ranges: number[] = []
  for (let at = 0; at + 1 < runes.length; at += 2) {
    if (ranges.length > 0 && ranges.at(-1)! >= runes[at]! - 1) {
      ranges[ranges.length - 1] = Math.max(ranges.at(-1)!, runes[at + 1]!)
    } else {
      ranges.push(runes[at]!, runes[at + 1]!)
    }
  }
  return ranges
}

function nextOf(one: Instruction): number[] {
  if (one.kind === 'accept' || one.kind === 'fail') return []
  return one.kind === 'split' ? [one.next, one.other] : [one.next]
}

/** Marks the instructions at which a match is complete whatever follows. */
function endsOf(instructions: readonly Instruction[]): Uint8Array {
  const ends = new Uint8Array(instructions.length)
  const queue: number[] = []
  const before: number[][] = instructions.map(() => [])
  for (const [at, one] of instructions.entries()) {
    if (one.kind === 'accept') queue.push(at)
    if (one.kind === 'split') for (const next of nextOf(one)) before[next]!.push(at)
  }
  for (const end of queue) {
    if (ends[end] === 1) continue
    ends[end] = 1
    queue.push(...before[end]!)
  }
  return ends
}

const TOKEN =
  /\\Q[^]*?(?:\\E|$)|\\[pPx]\{[^}]*\}|\\[^]|\(\?P?<\w*>|\(\?([a-zA-Z-]*)[:)]|\{(\d+)(?:,(\d*))?\}|[^]/gu

/** A lower bound of the program's size, found before re2js writes counted repetitions out. */
function survey(pattern: string): { size: number; caseSensitive: boolean } {
  const open: number[] = []
  let size = 0
  let last = 0
  let caseSensitive = false
  for (const [token, flags, least, most] of pattern.matchAll(TOKEN)) {
    if (least !== undefined) {
      const times = Math.max(Number(least), Number(most ?? 0))
      size += last * (times - 1)
      last *= times
    } else if (flags !== undefined && token.endsWith(')')) {
      last = 0
    } else if (token.startsWith('(')) {
      open.push(size)
      last = 0
    } else if (token === ')') {
      last = size - (open.pop() ?? 0)
    } else if (!'*+?|^$'.includes(token) && token !== '\\b' && token !== '\\B') {
      last = 1
      size++
    }
    if (flags?.slice(flags.indexOf('-')).includes('i') && flags.includes('-')) caseSensitive = true
  }
  return { size, caseSensitive }
}

function tooLarge(size: number): PatternError {
  return new PatternError(
    `compiles to ${size} instructions, of which at most ${MAX_SIZE} are allowed`,
  )
}
