/**
 * Passes over what an automaton need not read, sixteen characters at once: a loop of vector instructions, which only
 * WebAssembly has, as a module that is put together here. What it looks for is in tables; see `sieve.ts`. Opcodes are those
 * of the WebAssembly specification 3.0, 5.4.
 */
import { SPACE } from './views/fold.ts'
import type { Units } from './utf16.ts'

/** Units that are looked at together. */
export const BLOCK = 16
/** So many places at the beginning of a match are looked at. */
export const PLACES = 6
/**
 * What to look for, in rows of {@link ROW} bytes. The first is made of eight bits twice, one for each sixteen of the ASCII
 * codes. Then comes a row for each of {@link SORTS}: the byte for the low half of a code has the bits of those that have it
 * and are of that sort. A row for each of {@link FIRST_CODES} follows, for every place: a bit for each group of matches that may
 * have such a code there. Letters are those of either case, and a space is what else is below it.
 */
export type Tables = Uint8Array
export const ROW = 16
/** What has to be read; characters of base64; those of a row of hexadecimal digits, and such digits. */
export const SORTS = ['stop', 'sextet', 'filled', 'digit'] as const
/** With which code each row of a place begins. */
export const FIRST_CODES = [0x20, 0x30, 0x60, 0x70] as const
export const FIRST_PLACE = 1 + SORTS.length
export const ROWS = FIRST_PLACE + FIRST_CODES.length * PLACES

/** Places of what begins with the last unit of a text, and what is missing of a block then. */
const BEHIND = PLACES - 1 + BLOCK - 1

/** In memory behind the tables: sixteen times each of these bytes. */
const BYTES = [0x0f, 0x10, 0x20, 0x60, 0x70, 0x8f] as const

/** Lengths in units of what is in memory behind the tables and the state: a text, and a part of another. */
const TEXT_LENGTH = 1 << 15
export const PART_LENGTH = 1 << 13

// Addresses: of what is kept until a block was heeded, of what was found, and of texts.
const STATE = 576
const FOUND = 704
const TEXT = 768
const PART = TEXT + TEXT_LENGTH * 2
const PAGES = 2

/** Why a loop over blocks ends: less than one is left, this one has to be read, or the last one has to be heeded. */
const REST = 0
export const READ = 1 << 24
export const HEED = 1 << 25
const WHY = READ | HEED

/** Instructions, as bytes. */
type Code = readonly number[]

const unsigned = (value: number): Code =>
  value < 128 ? [value] : [(value & 127) | 128, ...unsigned(value >>> 7)]
const signed = (value: number): Code =>
  value >= -64 && value < 64 ? [value & 127] : [(value & 127) | 128, ...signed(value >> 7)]
const vector = (opcode: number): Code => [0xfd, ...unsigned(opcode)]
const binary =
  (...opcode: Code) =>
  (one: Code, other: Code): Code => [...one, ...other, ...opcode]

const get = (local: number): Code => [0x20, local]
const set = (local: number, value: Code): Code => [...value, 0x21, local]

const number = (value: number): Code => [0x41, ...signed(value)]
const above = binary(0x4b)
const add = binary(0x6a)
const and = binary(0x71)
const or = binary(0x72)
const not = (bits: Code): Code => [...bits, ...number(-1), 0x73]

// Two numbers side by side, of which the same is made at once.
const two = (one: Code, other: Code): Code => eachOr([...one, 0xad], left([...other, 0xad], 32))
const eachAnd = binary(0x83)
const eachOr = binary(0x84)
const left = (pair: Code, bits: number): Code => [...pair, 0x42, ...signed(bits), 0x86]
const right = (pair: Code, bits: number): Code => [...pair, 0x42, ...signed(bits), 0x88]
const isEither = (pair: Code): Code => [...pair, 0x42, 0, 0x52]
const first = (pair: Code): Code => [...pair, 0xa7]
const second = (pair: Code): Code => first(right(pair, 32))

const load = (address: Code, offset: number): Code => [
  ...address,
  ...vector(0x00),
  0,
  ...unsigned(offset),
]
const store = (offset: number, value: Code): Code => [
  ...number(0),
  ...value,
  ...vector(0x0b),
  0,
  ...unsigned(offset),
]
const loadPair = (offset: number): Code => [...number(0), 0x29, 0, ...unsigned(offset)]
const storePair = (offset: number, value: Code): Code => [
  ...number(0),
  ...value,
  0x37,
  0,
  ...unsigned(offset),
]
const storeNumber = (offset: number, value: Code): Code => [
  ...number(0),
  ...value,
  0x36,
  0,
  ...unsigned(offset),
]
const row = (index: number): Code => load(number(0), index * ROW)
/** Bytes of a vector, by indices: 0 where the highest bit of one is set; none of the others is above 15. */
const pick = binary(...vector(0x100))
const same = binary(...vector(0x23))
const both = binary(...vector(0x4e))
const either = binary(...vector(0x50))
const differ = binary(...vector(0x51))
const plus = binary(...vector(0x6e))
const larger = binary(...vector(0x79))
/** Of each two bytes together. */
const halved = (both: Code, times: number): Code => [...both, ...number(times), ...vector(0x8d)]
/** Two vectors of units as one of bytes: 255 for units up to 0x7fff that are larger, 0 for those beyond. */
const narrow = binary(...vector(0x66))
const isAny = (one: Code): Code => [...one, ...vector(0x53)]
/** The highest bit of each byte. */
const highest = (one: Code): Code => [...one, ...vector(0x64)]
/** The last bytes of one vector and then the first of another. */
const join = (count: number, one: Code, other: Code): Code => [
  ...one,
  ...other,
  ...vector(0x0d),
  ...Array.from({ length: 16 }, (_, lane) => 16 - count + lane),
]

// Locals: addresses; what of a run and of a row stands before; a bit for each unit where something was found.
const [AT, END, GOES_ON, RUN, FILL, RUNS, DIGITS] = [0, 1, 2, 3, 4, 5, 6]
// Pairs: a bit for each of the last 32 units, for runs and for rows; those behind seven others; the lower half of each.
const [SIDES, EIGHTH, HALVES] = [7, 8, 9]
const [UNITS, LOW, HIGH] = [10, 11, 12]
/** Indices into the rows of a place. */
const AMONG = FIRST_CODES.map((_, index) => 13 + index)
const KNOWN = BYTES.map((_, index) => 17 + index)
const LAST = Array.from({ length: PLACES - 1 }, (_, place) => 23 + place)
const THESE = Array.from({ length: PLACES }, (_, place) => 23 + LAST.length + place)
const LOCALS = [3, 2, 0x7f, 3, 0x7e, 13 + LAST.length + THESE.length, 0x7b]

const bytes = (byte: (typeof BYTES)[number]): Code => get(KNOWN[BYTES.indexOf(byte)]!)
/** A bit for each unit that is of a sort. */
const are = (sort: (typeof SORTS)[number]): Code => {
  const picked = pick(row(1 + SORTS.indexOf(sort)), get(LOW))
  return highest(same(both(picked, get(HIGH)), get(HIGH)))
}
/** Of each of a pair the upper half. */
const upper = (pair: Code): Code => eachAnd(right(pair, BLOCK), get(HALVES))
/** Where units stand side by side, the last of so many. */
const aside = (pair: number, count: number): Code => eachAnd(get(pair), left(get(pair), count))
const groupsAt = (place: number): Code =>
  AMONG.map((local, index) =>
    pick(row(FIRST_PLACE + place * FIRST_CODES.length + index), get(local)),
  ).reduce(either)
/** Indices into two rows, of what is below 16 and of what is below 32; what is not has its highest bit set. */
const indices = (code: Code, early: number, late: number): Code => [
  ...set(early, code),
  ...set(late, index(differ(get(early), bytes(0x10)))),
  ...set(early, index(get(early))),
]
const index = (code: Code): Code => both(plus(code, bytes(0x70)), bytes(0x8f))

const leave = (why: number): Code => [...or(get(AT), number(why)), 0x0f]
const when = (condition: Code, ...then: Code[]): Code => [
  ...condition,
  0x04,
  0x40,
  ...then.flat(),
  0x0b,
]
const RESTORE: readonly Code[] = [
  ...LAST.map((local, place) => set(local, load(number(0), STATE + place * ROW))),
  set(SIDES, loadPair(STATE + LAST.length * ROW)),
]
const SAVE: readonly Code[] = [
  ...LAST.map((local, place) => store(STATE + place * ROW, get(local))),
  storePair(STATE + LAST.length * ROW, get(SIDES)),
]

const LOOP: readonly Code[] = [
  when(above(add(get(AT), number(BLOCK * 2)), get(END)), leave(REST)),
  set(UNITS, narrow(load(get(AT), 0), load(get(AT), BLOCK))),
  set(LOW, both(get(UNITS), bytes(0x0f))),
  set(HIGH, pick(row(0), both(halved(get(UNITS), 4), bytes(0x0f)))),
  when(or(highest(get(UNITS)), are('stop')), leave(READ)),
  set(SIDES, eachOr(upper(get(SIDES)), left(two(are('sextet'), are('filled')), BLOCK))),
  // Is there a group that may have what stands in each of its places?
  indices(differ(larger(get(UNITS), bytes(0x20)), bytes(0x20)), AMONG[0]!, AMONG[1]!),
  indices(differ(either(get(UNITS), bytes(0x20)), bytes(0x60)), AMONG[2]!, AMONG[3]!),
  ...THESE.map((local, place) => set(local, groupsAt(place))),
  when(
    isAny(
      THESE.map((local, place) =>
        place < LAST.length ? join(LAST.length - place, get(LAST[place]!), get(local)) : get(local),
      ).reduce(both),
    ),
    leave(READ),
  ),
  ...LAST.map((local, place) => set(local, get(THESE[place]!))),
  set(AT, add(get(AT), number(BLOCK * 2))),
  set(EIGHTH, aside(SIDES, 1)),
  set(EIGHTH, aside(EIGHTH, 2)),
  set(EIGHTH, upper(aside(EIGHTH, 4))),
  when(
    isEither(get(EIGHTH)),
    // In a run, the eighth; in a row, a digit that is the eighth or comes after it.
    set(RUNS, and(first(get(EIGHTH)), not(first(right(get(SIDES), 8))))),
    set(DIGITS, and(second(get(EIGHTH)), are('digit'))),
    when(
      or(get(RUNS), get(DIGITS)),
      ...SAVE,
      storeNumber(FOUND, get(RUNS)),
      storeNumber(FOUND + 4, get(DIGITS)),
      leave(HEED),
    ),
  ),
  // Once more.
  [0x0c, 0],
]

const BODY = [
  ...set(HALVES, two(number(0xffff), number(0xffff))),
  ...set(SIDES, two(get(RUN), get(FILL))),
  ...when(get(GOES_ON), ...RESTORE),
  ...KNOWN.flatMap((local, index) => set(local, row(ROWS + index))),
  0x03,
  0x40,
  ...LOOP.flat(),
  0x0b,
  0x00,
  0x0b,
]

const section = (id: number, content: Code): Code => [id, ...unsigned(content.length), ...content]
const exported = (name: string, ...what: Code): Code => [name.length, ...Buffer.from(name), ...what]

const HEADER = [0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0]

const MODULE = Uint8Array.of(
  ...HEADER,
  // A function of five numbers that gives a number; one such; two pages of memory.
  ...section(1, [1, 0x60, 5, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 1, 0x7f]),
  ...section(3, [1, 0]),
  ...section(5, [1, 0, PAGES]),
  ...section(7, [2, ...exported('memory', 2, 0), ...exported('pass', 0, 0)]),
  ...section(10, [1, ...unsigned(LOCALS.length + BODY.length), ...LOCALS, ...BODY]),
)

/** What is used of it: types of it come only with those of browsers. */
declare const WebAssembly: {
  readonly Module: new (bytes: Uint8Array) => object
  readonly Instance: new (module: object) => { readonly exports: unknown }
}

interface Exports {
  readonly memory: { readonly buffer: ArrayBuffer }
  readonly pass: (from: number, to: number, goesOn: number, run: number, fill: number) => number
}

export interface Before {
  readonly run: number
  readonly isRow: boolean
}

/** Passes over texts: of several that take turns, each is loaded again. */
export class Sifter {
  /** Space for a text. */
  readonly text: Uint16Array
  readonly #pass: Exports['pass']
  readonly #tables: Uint8Array
  readonly #found: Int32Array
  readonly #part: Uint16Array
  #loaded: Tables | undefined
  /** The address of the first unit of a text, as if all of it were in memory. */
  #base = TEXT

  /** @throws Error where there is no WebAssembly, or none with vectors */
  constructor() {
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(MODULE))
    const { memory, pass } = exports as Exports
    this.#pass = pass
    this.#tables = new Uint8Array(memory.buffer, 0, (ROWS + BYTES.length) * ROW)
    for (const [index, byte] of BYTES.entries()) {
      this.#tables.fill(byte, (ROWS + index) * ROW, (ROWS + index + 1) * ROW)
    }
    this.#found = new Int32Array(memory.buffer, FOUND, 2)
    this.text = new Uint16Array(memory.buffer, TEXT, TEXT_LENGTH)
    this.#part = new Uint16Array(memory.buffer, PART, PART_LENGTH + BEHIND)
  }

  /**
   * Says what is passed over from now on, until somebody else does so. What follows in {@link text} is overwritten.
   * @param to at most {@link PART_LENGTH} further, if the units are not {@link text}
   */
  load(tables: Tables, units: Units, from: number, to: number): void {
    if (tables !== this.#loaded) {
      this.#tables.set(tables)
      this.#loaded = tables
    }
    if (units === this.text) {
      this.#base = TEXT
      fillUp(this.text, to)
    } else {
      this.#base = PART - from * 2
      this.#part.set(units.subarray(from, to))
      fillUp(this.#part, to - from)
    }
  }

  /**
   * Passes over whole blocks of what was loaded.
   * @param isEnd whether the text ends there: the rest then passes with spaces behind it
   * @param before what stands before: how many of a run, up to 16, and whether a row may have begun; undefined if that has
   * just been passed
   * @returns where the next block begins, which may be behind the end, or the one that has to be read, with {@link READ}
   * or {@link HEED}
   */
  pass(from: number, to: number, isEnd: boolean, before?: Before): number {
    const base = this.#base
    const end = base + (isEnd ? to + BEHIND : to) * 2
    const run = before ? ones(before.run) : 0
    const fill = before?.isRow ? ones(BLOCK) : 0
    const passed = this.#pass(base + from * 2, end, before ? 0 : 1, run, fill)
    return (passed & WHY) | (((passed & ~WHY) - base) >> 1)
  }

  /** In the last block: eighth characters of runs, and digits of rows, a bit for each unit. */
  get runs(): number {
    return this.#found[0]!
  }

  get digits(): number {
    return this.#found[1]!
  }
}

/** Spaces neither begin a match nor hide one that ends before them. */
function fillUp(units: Units, from: number): void {
  for (let at = from; at < from + BEHIND; at++) units[at] = SPACE
}

/** The last of 32 units. */
function ones(count: number): number {
  return count === 0 ? 0 : -1 << (32 - count)
}
