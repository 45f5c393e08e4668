/** Makes automata of patterns: decides which views apply to a pattern, and writes its instructions for each of them. */
import type { Task } from './time-slice.ts'
import { fold, foldAll, isIgnorable, isMark, NEWLINE, SPACE } from './views/fold.ts'
import { complement, rangesOf, type Ranges } from './alphabet.ts'
import { ProductDfa, type Automaton, KIND_SETS, type Normalization } from './product-dfa.ts'
import { type MatchTarget, NfaBuilder } from './nfa.ts'
import {
  classRanges,
  countOf,
  isLiteral,
  isNullable,
  isUnbounded,
  membersOf,
  parseRegex,
  PatternError,
  type Instruction,
  type Regex,
} from './regex.ts'

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
  const known = new Set([literal.join()])
  for (const derived of [literal.map(rotated), literal.toReversed()]) {
    if (known.has(derived.join())) continue
    known.add(derived.join())
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
