/**
 * A slow reference implementation of all views: threads that remember where they began, one list for each view, one symbol
 * at a time. View `decoded` is computed from whole texts.
 */
import {
  leetGroup,
  isLiteral,
  parseRegex,
  type Instruction,
  type Regex,
} from '../../src/patterns/build.ts'
import {
  fold,
  foldUnmarked,
  isIgnorable,
  isMark,
  readsAsLetter,
} from '../../src/patterns/views/fold.ts'
import { runSync } from '../../src/patterns/time-slice.ts'

/** A match in the raw text. */
export interface Match {
  readonly pattern: number
  readonly view: string
  readonly start: number
  readonly end: number
}

/** The matches in a text, and what has to be retained of it at each offset. */
export interface Judgement {
  /**
   * The beginning of the oldest match under way, or the offset itself where there is none, by offset; for all views but
   * `decoded`.
   */
  readonly holds: ReadonlyMap<number, number>
  /** All matches, in the order in which they are complete. */
  readonly matches: readonly (Match & {
    /** The end of the code point that completed the match; Infinity for the end of the text. */
    readonly known: number
  })[]
  /** View `decoded` applies to any pattern. */
  readonly decodes: boolean
}

interface Point {
  readonly codePoint: number
  readonly start: number
  readonly end: number
}

interface Spot {
  readonly start: number
  readonly end: number
}

/** Reads one view for one pattern. */
interface ViewReader {
  readonly view: string
  /** @returns matches that this symbol completes */
  read(symbol: number, spot: Spot): Spot[]
  end(): Spot[]
  alive(): number
}

export function judge(patterns: readonly string[], text: string): Judgement {
  const points = pointsOf(text)
  const lists = patterns.map((pattern) => readersOf(pattern, points))
  const holds = new Map<number, number>([[0, 0]])
  const matches: { pattern: number; view: string; start: number; end: number; known: number }[] = []
  const readings = new Map<string, Reading>([
    ['plain', plainReading()],
    ['folded', foldedReading(false)],
    ['squeezed', foldedReading(true)],
    ['unmarked', foldedReading(true, foldUnmarked)],
  ])
  for (const point of points) {
    for (const [name, reading] of readings) {
      for (const symbol of reading(point.codePoint)) {
        for (const [pattern, list] of lists.entries()) {
          for (const reader of list[name] ?? []) {
            for (const spot of reader.read(symbol, point)) {
              matches.push({ pattern, view: reader.view, ...spot, known: point.end })
            }
          }
        }
      }
    }
    const alive = lists.flatMap((list) =>
      Object.values(list).flatMap((all) => all.map((one) => one.alive())),
    )
    holds.set(point.end, Math.min(point.end, ...alive))
  }
  for (const [pattern, list] of lists.entries()) {
    for (const reader of Object.values(list).flat()) {
      for (const spot of reader.end()) {
        matches.push({ pattern, view: reader.view, ...spot, known: Infinity })
      }
    }
  }
  const hidden = patterns.flatMap((pattern, index) =>
    hiddenIn(pattern, points).map((spot) => ({
      pattern: index,
      view: 'decoded',
      ...spot,
      known: spot.end,
    })),
  )
  matches.push(...hidden)
  return {
    holds,
    matches: matches.sort((one, other) => one.known - other.known),
    decodes: patterns.some((pattern) => isLiteral(pattern) && alnum(flat(pattern)).length >= 5),
  }
}

type Reading = (codePoint: number) => readonly number[]

function plainReading(): Reading {
  return (codePoint) => (isIgnorable(codePoint) ? [] : [codePoint])
}

function foldedReading(isFlat: boolean, image = fold): Reading {
  let last = 0
  return (codePoint) =>
    image(codePoint).flatMap((symbol) => {
      const next = isFlat && symbol === 10 ? 32 : symbol
      if (next === 32 && last === 32) return []
      last = next
      return [next]
    })
}

type CharInstruction = Instruction & { kind: 'char' }

function readersOf(pattern: string, points: readonly Point[]): Record<string, ViewReader[]> {
  const regex = runSync(parseRegex(pattern))
  const plain = [regexViewReader(regex, 'raw', (one) => [one])]
  if (!isLiteral(pattern)) {
    return regex.caseSensitive
      ? { plain }
      : { plain, folded: [regexViewReader(regex, 'folded', fold)] }
  }
  const literal = flat(pattern)
  if (!literal.some((symbol) => symbol !== 32)) return { plain }
  const letters = literal.filter((symbol) => /\p{L}/u.test(String.fromCodePoint(symbol))).length
  const same = (one: number, other: number) => one === other
  const list = [literalViewReader(literal, 'folded', same)]
  if (alnum(literal).length >= 5) list.push(squeezedViewReader(alnum(literal)))
  if (letters >= 5) {
    list.push(
      literalViewReader(
        literal,
        'L',
        (one, other) => leetGroup(one).includes(other),
        (spot) => isMostlyLetters(points, spot, alnum(literal).length - letters),
      ),
    )
  }
  if (letters >= 6) {
    list.push(literalViewReader(literal.map(rot13), 'derived', same))
    list.push(literalViewReader(literal.toReversed(), 'derived', same))
  }
  if (alnum(literal).length < 5 || literal.some(isMark)) return { plain, squeezed: list }
  return { plain, squeezed: list, unmarked: [literalViewReader(literal, 'folded', same)] }
}

function literalViewReader(
  literal: readonly number[],
  view: string,
  matches: (expected: number, symbol: number) => boolean,
  allows: (spot: Spot) => boolean = () => true,
): ViewReader {
  let threads: { at: number; start: number }[] = []
  return {
    view,
    read(symbol, { start, end }) {
      const moved = [...threads, { at: 0, start }]
        .filter(({ at }) => matches(literal[at]!, symbol))
        .map((thread) => ({ at: thread.at + 1, start: thread.start }))
      threads = moved.filter(({ at }) => at < literal.length)
      return moved
        .filter(({ at }) => at === literal.length)
        .map((thread) => ({ start: thread.start, end }))
        .filter(allows)
    },
    end: () => [],
    alive: () => Math.min(...threads.map(({ start }) => start)),
  }
}

function squeezedViewReader(letters: readonly number[]): ViewReader {
  let threads: { at: number; run: number; gap: number; start: number }[] = []
  return {
    view: 'squeezed',
    read(symbol, { start, end }) {
      const isLetter = alnum([symbol]).length > 0
      const next: typeof threads = []
      const found: Spot[] = []
      for (const thread of [...threads, { at: 0, run: 0, gap: 0, start }]) {
        if (!isLetter) {
          const gap = thread.gap + 1
          if (thread.at > 0 && gap <= 3) next.push({ ...thread, gap })
          continue
        }
        const run = thread.gap > 0 ? 1 : thread.run + 1
        if (letters[thread.at] !== symbol || run > 2) continue
        if (thread.at + 1 === letters.length) found.push({ start: thread.start, end })
        else next.push({ at: thread.at + 1, run, gap: 0, start: thread.start })
      }
      threads = next
      return found
    },
    end: () => [],
    alive: () => Math.min(...threads.map(({ start }) => start)),
  }
}

// A thread is between two symbols: before an instruction, or inside the symbols that a literal character is folded to.
function regexViewReader(
  regex: Regex,
  view: string,
  image: (one: number) => readonly number[],
): ViewReader {
  const { instructions } = regex
  let threads = new Map<string, { at: number; inside: number; start: number }>()
  let before = -1
  let lastEnd = 0
  const loses = remembered((one: CharInstruction): boolean => {
    const gone = (member: number) => image(member).every((symbol) => isIgnorable(symbol))
    if (one.literal !== undefined) return gone(one.literal)
    const members = smallClass(one)
    return members !== undefined && members.every(gone)
  })
  const rows = remembered((one: CharInstruction): ((symbol: number) => boolean)[][] => {
    const is = (expected: number) => (symbol: number) => symbol === expected
    if (view === 'raw') return [[(symbol) => within(one.set, symbol)]]
    if (one.literal !== undefined) {
      const following = instructions[one.next]!
      const isRun =
        image(one.literal)[0] === 32 &&
        following.kind === 'char' &&
        following.literal !== undefined &&
        image(following.literal)[0] === 32
      return [isRun ? [] : image(one.literal).map(is)]
    }
    const members = smallClass(one) ?? []
    return [
      [(symbol) => within(one.set, symbol)],
      ...members
        .map((member) => image(member))
        .filter(({ length }) => length > 0)
        .map((row) => row.map(is)),
    ]
  })
  const places = (symbol: number): ((conditions: number) => boolean) => {
    const word = (one: number) => one >= 0 && /^\w$/.test(String.fromCodePoint(one))
    const isBorder = word(before) !== word(symbol)
    return (conditions) =>
      (!(conditions & 1) || before === -1 || before === 10) &&
      (!(conditions & 2) || symbol === -2 || symbol === 10) &&
      (!(conditions & 4) || before === -1) &&
      (!(conditions & 8) || symbol === -2) &&
      (!(conditions & 16) || isBorder) &&
      (!(conditions & 32) || !isBorder)
  }
  // What is reached from an instruction without reading: instructions that read, or acceptance.
  const waysFrom = (from: number, holds: (conditions: number) => boolean) => {
    const seen = new Set([from])
    const readers: number[] = []
    let accepts = false
    for (const at of seen) {
      const one = instructions[at]!
      if (one.kind === 'accept') accepts = true
      else if (one.kind === 'split') seen.add(one.next).add(one.other)
      else if (one.kind === 'assert' && holds(one.conditions)) seen.add(one.next)
      else if (one.kind === 'char') {
        if (loses(one)) seen.add(one.next)
        else if (rows(one).some(({ length }) => length === 0)) seen.add(one.next)
        readers.push(at)
      }
    }
    return { readers, accepts }
  }
  const isLast = remembered((at: number): boolean => waysFrom(at, () => false).accepts)
  const step = (symbol: number, spot: Spot | undefined): Spot[] => {
    const holds = places(symbol)
    const ways = remembered((at: number) => waysFrom(at, holds))
    const next = new Map<string, { at: number; inside: number; start: number }>()
    const found: Spot[] = []
    const keep = (at: number, inside: number, start: number) => {
      const key = `${at}.${inside}`
      const other = next.get(key)
      if (other === undefined || other.start > start) next.set(key, { at, inside, start })
    }
    const all = [...threads.values()]
    if (spot) all.push({ at: regex.start, inside: 0, start: spot.start })
    for (const { at, inside, start } of all) {
      const isNew = spot !== undefined && start === spot.start && at === regex.start
      const { readers, accepts } = inside > 0 ? { readers: [at], accepts: false } : ways(at)
      if (accepts && !isNew) found.push({ start, end: lastEnd })
      if (!spot) continue
      for (const reader of readers) {
        const one = instructions[reader]!
        if (one.kind !== 'char' || loses(one)) continue
        for (const [index, row] of rows(one).entries()) {
          const place = inside > 0 ? inside - index * 100 : 0
          if (inside > 0 && (place < 1 || place >= 100)) continue
          if (place >= row.length || !row[place]!(symbol)) continue
          if (place + 1 < row.length) {
            keep(reader, index * 100 + place + 1, start)
            continue
          }
          if (isLast(one.next)) found.push({ start, end: spot.end })
          if (instructions[one.next]!.kind !== 'accept') keep(one.next, 0, start)
        }
      }
    }
    threads = next
    return found
  }
  return {
    view,
    read(symbol, spot) {
      const found = step(symbol, spot)
      before = symbol
      lastEnd = spot.end
      return found
    },
    end: () => step(-2, undefined),
    alive: () => Math.min(...[...threads.values()].map(({ start }) => start)),
  }
}

/** Caches the results of a pure function. */
function remembered<From, To>(find: (from: From) => To): (from: From) => To {
  const known = new Map<From, To>()
  return (from) => {
    let to = known.get(from)
    if (to === undefined) known.set(from, (to = find(from)))
    return to
  }
}

/** All matches in base64, hexadecimal digits and escapes. */
function hiddenIn(pattern: string, points: readonly Point[]): Spot[] {
  if (!isLiteral(pattern)) return []
  const literal = flat(pattern)
  if (alnum(literal).length < 5) return []
  const seen = points.filter(({ codePoint }) => foldedReading(true)(codePoint).length > 0)
  return [
    ...runs(seen, base64Value, 8).flatMap((run) =>
      [0, 1, 2, 3].flatMap((from) => textsOf(bytesOf(run.slice(from), base64Value, 6))),
    ),
    ...hexRows(seen),
    unescaped(seen),
  ].flatMap((symbols) => find(literal, symbols))
}

type Symbols = { symbol: number; start: number; end: number }[]
type Utf8Decoder = { byte: number; start: number; end: number }[]

function find(literal: readonly number[], decoded: Symbols): Spot[] {
  const reading = foldedReading(true)
  const symbols = decoded.flatMap(({ symbol, start, end }) =>
    (symbol < 0 ? [symbol] : reading(symbol)).map((one) => ({ symbol: one, start, end })),
  )
  return symbols.flatMap((_, at) =>
    literal.every((expected, index) => symbols[at + index]?.symbol === expected)
      ? [{ start: symbols[at]!.start, end: symbols[at + literal.length - 1]!.end }]
      : [],
  )
}

function runs(
  points: readonly Point[],
  value: (codePoint: number) => number,
  least: number,
): Point[][] {
  const all: Point[][] = [[]]
  for (const point of points) {
    if (value(point.codePoint) >= 0) all.at(-1)!.push(point)
    else if (all.at(-1)!.length < least || !'\r\n'.includes(String.fromCodePoint(point.codePoint)))
      all.push([])
  }
  return all.filter(({ length }) => length >= least)
}

function bytesOf(
  points: readonly Point[],
  value: (codePoint: number) => number,
  bits: number,
): Utf8Decoder {
  const bytes: Utf8Decoder = []
  let buffer = 0
  let held = 0
  let start = 0
  for (const point of points) {
    if (held === 0) start = point.start
    buffer = ((buffer << bits) | value(point.codePoint)) & 0xffff
    held += bits
    if (held < 8) continue
    held -= 8
    bytes.push({ byte: (buffer >>> held) & 0xff, start, end: point.end })
    start = point.start
  }
  return bytes
}

function hexRows(points: readonly Point[]): Symbols[] {
  const rows: Symbols[] = []
  for (const offset of [0, 1]) {
    let digits: Point[] = []
    let skip = offset
    let separators = 0
    const close = () => {
      if (digits.length >= 8) rows.push(...textsOf(bytesOf(digits, hexValue, 4)))
      digits = []
      skip = offset
      separators = 0
    }
    for (const point of points) {
      if (hexValue(point.codePoint) >= 0) {
        if (skip > 0) skip--
        else digits.push(point)
        separators = 0
      } else if (
        digits.length % 2 === 1 &&
        'xX'.includes(String.fromCodePoint(point.codePoint)) &&
        digits.at(-1)!.codePoint === 0x30
      ) {
        digits.pop()
      } else if (
        ' \t\r\n:,-;"\''.includes(String.fromCodePoint(point.codePoint)) &&
        digits.length > 0 &&
        digits.length % 2 === 0 &&
        (separators += ' \t\r\n'.includes(String.fromCodePoint(point.codePoint)) ? 0 : 1) <= 3
      ) {
        continue
      } else {
        close()
      }
    }
    close()
  }
  return rows
}

function unescaped(points: readonly Point[]): Symbols {
  const text = points
    .map(({ codePoint }) => (codePoint < 128 ? String.fromCharCode(codePoint) : '\u{fffd}'))
    .join('')
  const symbols: Symbols = []
  let bytes: Utf8Decoder = []
  let high: { unit: number; start: number } | undefined
  const flush = () => {
    if (bytes.length > 0) symbols.push(...textsOf(bytes).flat())
    bytes = []
    if (high) symbols.push({ symbol: -1, start: high.start, end: high.start })
    high = undefined
  }
  const one =
    /(?:%|\\x)([\da-f]{2})|\\u([\da-f]{4})|\\u\{([\da-f]{1,6})\}|&#(\d{1,7});?|&#x([\da-f]{1,6});?/iy
  for (let at = 0; at < points.length;) {
    const { start } = points[at]!
    one.lastIndex = at
    const match = one.exec(text)
    if (!match) {
      flush()
      symbols.push({ symbol: points[at]!.codePoint, start, end: points[at]!.end })
      at++
      continue
    }
    at += match[0].length
    const { end } = points[at - 1]!
    const [, byte, unit, point, decimal, hex] = match
    if (byte) {
      if (high) flush()
      bytes.push({ byte: Number.parseInt(byte, 16), start, end })
      continue
    }
    const value = decimal ? Number(decimal) : Number.parseInt((unit ?? point ?? hex)!, 16)
    if (unit && high && value >= 0xdc00 && value <= 0xdfff) {
      const pair = 0x10000 + ((high.unit - 0xd800) << 10) + (value - 0xdc00)
      symbols.push({ symbol: pair, start: high.start, end })
      high = undefined
      continue
    }
    flush()
    if (unit && value >= 0xd800 && value <= 0xdbff) high = { unit: value, start }
    else symbols.push({ symbol: isText(value) ? value : -1, start, end })
  }
  flush()
  return symbols
}

// UTF-8, byte by byte, with the standard decoder.
function textsOf(bytes: Utf8Decoder): Symbols[] {
  const symbols: Symbols = []
  const decoder = new TextDecoder('utf-8', { fatal: true })
  for (let at = 0; at < bytes.length;) {
    const size = [1, 2, 3, 4].find((length) => {
      try {
        const piece = bytes.slice(at, at + length)
        return (
          piece.length === length &&
          decoder.decode(Uint8Array.from(piece, ({ byte }) => byte)).length > 0
        )
      } catch {
        return false
      }
    })
    const piece = bytes.slice(at, at + (size ?? 1))
    // The standard decoder swallows a byte order mark.
    const text =
      size &&
      new TextDecoder('utf-8', { ignoreBOM: true }).decode(
        Uint8Array.from(piece, ({ byte }) => byte),
      )
    const symbol = text ? text.codePointAt(0)! : -1
    symbols.push({
      symbol: isText(symbol) ? symbol : -1,
      start: piece[0]!.start,
      end: piece.at(-1)!.end,
    })
    at += piece.length
  }
  return [symbols]
}

function isText(codePoint: number): boolean {
  if (codePoint < 0 || codePoint > 0x10ffff) return false
  const character = String.fromCodePoint(codePoint)
  return '\t\n\r'.includes(character) || !/\p{Cc}/u.test(character)
}

function base64Value(codePoint: number): number {
  if (codePoint === 45) return 62
  if (codePoint === 95) return 63
  return 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'.indexOf(
    String.fromCodePoint(codePoint),
  )
}

function hexValue(codePoint: number): number {
  return '0123456789abcdef'.indexOf(String.fromCodePoint(codePoint).toLowerCase())
}

function isMostlyLetters(points: readonly Point[], spot: Spot, digits: number): boolean {
  const inside = points
    .filter(({ start, end }) => start >= spot.start && end <= spot.end)
    .filter(
      ({ codePoint }) => fold(codePoint).length > 0 && ![10, 32].includes(fold(codePoint)[0]!),
    )
  return (
    inside.filter(({ codePoint }) => readsAsLetter(codePoint)).length * 2 + digits >= inside.length
  )
}

function smallClass({ set }: CharInstruction): number[] | undefined {
  const members: number[] = []
  for (let at = 0; at < set.length; at += 2) {
    for (let one = set[at]!; one <= set[at + 1]!; one++)
      if (members.push(one) > 32) return undefined
  }
  return members
}

function within(set: readonly number[], symbol: number): boolean {
  return set.some((bound, at) => at % 2 === 0 && bound <= symbol && symbol <= set[at + 1]!)
}

function flat(pattern: string): number[] {
  const reading = foldedReading(true)
  return Array.from(pattern).flatMap((one) => [...reading(one.codePointAt(0)!)])
}

function alnum(symbols: readonly number[]): number[] {
  return symbols.filter((symbol) => /[\p{L}\p{N}]/u.test(String.fromCodePoint(symbol)))
}

function rot13(symbol: number): number {
  return symbol >= 97 && symbol <= 122 ? ((symbol - 97 + 13) % 26) + 97 : symbol
}

function pointsOf(text: string): Point[] {
  const points: Point[] = []
  for (let at = 0; at < text.length;) {
    const codePoint = text.codePointAt(at)!
    const end = at + (codePoint > 0xffff ? 2 : 1)
    points.push({ codePoint, start: at, end })
    at = end
  }
  return points
}
