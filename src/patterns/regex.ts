/** Turns RE2 expressions into instructions. re2js parses and simplifies them; no other file depends on it. */
import { RE2JS, RE2JSException } from 're2js'
import type { Task } from './time-slice.ts'
import { rangesOf, type Ranges } from './alphabet.ts'

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
  /** Whether case counts in a part of it. */
  readonly caseSensitive: boolean
  /** Instructions, as counted for limits. */
  readonly size: number
}

/** The reason why a pattern cannot be used, in words that follow "the pattern". */
export class PatternError extends Error {}

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

export function isLiteral(pattern: string): boolean {
  return LITERAL.test(pattern)
}

/**
 * Parses an expression; case does not count unless the expression wants it.
 * @throws PatternError for an expression that is not RE2, or too large
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
export function isNullable(regex: Regex, reads: (one: Instruction) => boolean): boolean {
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

export function isUnbounded({ instructions, start }: Regex): boolean {
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
export function classRanges(expression: string): Ranges {
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

export function membersOf(ranges: Ranges): number[] {
  const members: number[] = []
  for (let at = 0; at < ranges.length; at += 2) {
    for (let one = ranges[at]!; one <= ranges[at + 1]!; one++) members.push(one)
  }
  return members
}

export function countOf(ranges: Ranges): number {
  return ranges.reduce((sum, bound, at) => sum + (at % 2 === 0 ? -bound : bound + 1), 0)
}

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

function endsOf(instructions: readonly Instruction[]): Uint8Array {
  const ends = new Uint8Array(instructions.length)
  const found: number[] = []
  const before: number[][] = instructions.map(() => [])
  for (const [at, one] of instructions.entries()) {
    if (one.kind === 'accept') found.push(at)
    if (one.kind === 'split') for (const next of nextOf(one)) before[next]!.push(at)
  }
  for (const end of found) {
    if (ends[end] === 1) continue
    ends[end] = 1
    found.push(...before[end]!)
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
