/**
 * What of a text need not be read, because no match begins there, and nothing that a decoder may read: that is seen by
 * which characters stand side by side.
 */
import { endianness } from 'node:os'
import type { Steps } from './time-slice.ts'
import { SPACE } from './views/fold.ts'
import type { Automaton } from './product-dfa.ts'
import { readAs, type Reading } from './normalization.ts'
import { FIRST_CODES, FIRST_PLACE, PLACES, ROW, ROWS, Sifter, SORTS, type Tables } from './sift.ts'
import { DIGIT, ESCAPE, SEPARATOR, SEXTET, SORTS as SORTS_BY_CODE, UNSEEN } from './char-class.ts'
import { CODES } from './lazy-dfa.ts'

/** Beginnings of matches are taken together in so many groups. */
const GROUPS = 8
const ALL_PLACES = (1 << PLACES) - 1
/** Of ASCII, what is one space with what stands beside it. */
const SPACES = [0x09, 0x0a, 0x0d, SPACE]

/** Where more than so many characters of ordinary text seem to begin a match, it is faster to read all of it. */
const MOST_FOUND = 0.025

/** The one that there is, unless this machine cannot do that: then everything is read. */
export const sifter = newSifter()

function newSifter(): Sifter | undefined {
  // In WebAssembly, everywhere, the low byte of a unit comes first.
  if (endianness() === 'BE') return undefined
  try {
    return new Sifter()
  } catch {
    return undefined
  }
}

/** After so many units of all texts it begins to pay. */
const WORTH = 1 << 18

/** What is known of the texts that some automata read. */
export class Sieve {
  /** Undefined as long as it would not pay. */
  tables: Tables | undefined
  readonly #automata: readonly Automaton[]
  readonly #decodes: boolean
  #left = WORTH

  /** @param decodes whether runs and rows are looked for that a decoder may read */
  constructor(automata: readonly Automaton[], decodes: boolean) {
    this.#automata = automata
    this.#decodes = decodes
  }

  /** Notes that a text of so many units is looked at. @returns whether it is time to {@link make} it */
  isDue(units: number): boolean {
    this.#left -= units
    return this.#left < 0 && sifter !== undefined
  }

  /** Others do without meanwhile. */
  *make(): Steps<void> {
    this.#left = Infinity
    let isMade = false
    try {
      this.tables = yield* tablesOf(this.#automata, this.#decodes)
      isMade = true
    } finally {
      // Whoever wanted it has gone.
      if (!isMade) this.#left = 0
    }
  }
}

/** @returns undefined where they would not pay */
function* tablesOf(automata: readonly Automaton[], decodes: boolean): Steps<Tables | undefined> {
  const groups = Array.from({ length: GROUPS }, () => new Group())
  let found = 0
  for (const automaton of automata) {
    const read = charactersOf(automaton)
    for (const start of automaton.nfa.starts) {
      yield
      const places = placesOf(automaton, start, read)
      // It joins the group in which least is found that was not before.
      const more = groups.map((group) => group.foundWith(places) - group.found)
      const least = Math.min(...more)
      groups[more.indexOf(least)]!.add(places)
      found += least
      if (found > MOST_FOUND) return undefined
    }
  }
  return written(groups, decodes)
}

/** Some ways in which matches begin. */
class Group {
  /** By ASCII code, as bits: the places where it may stand. */
  readonly places = new Uint8Array(CODES)
  /** How frequently there is something in all of its places. */
  found = 0
  readonly #frequencies = new Float64Array(PLACES)

  foundWith(places: Uint8Array): number {
    return this.#frequenciesWith(places).reduce((product, one) => product * one)
  }

  add(places: Uint8Array): void {
    this.#frequencies.set(this.#frequenciesWith(places))
    this.found = this.#frequencies.reduce((product, one) => product * one)
    for (let code = 0; code < CODES; code++) this.places[code]! |= places[code]!
  }

  #frequenciesWith(places: Uint8Array): Float64Array {
    const frequencies = this.#frequencies.slice()
    for (let code = 0; code < CODES; code++) {
      const more = places[code]! & ~this.places[code]!
      for (let place = 0; more >> place !== 0; place++) {
        if (((more >> place) & 1) !== 0) frequencies[place]! += FREQUENCIES[code]!
      }
    }
    return frequencies
  }
}

/** How frequent characters are in English, more or less: each of these is a tenth less frequent than the one before. */
const FREQUENCIES = new Float64Array(CODES).fill(0.002)
for (const [rank, letter] of [...'etaoinshrdlcumwfgypbvk'].entries()) {
  FREQUENCIES[letter.charCodeAt(0)] = 0.1 * 0.9 ** rank
}
FREQUENCIES[SPACE] = 0.17

/** Which ASCII codes a set of symbols reads; it is asked for by number. */
type Characters = (set: number) => readonly number[]

function charactersOf({ reading, nfa: { alphabet } }: Automaton): Characters {
  const known: number[][] = []
  const classes = symbolsIn(reading).map((symbol) =>
    symbol === undefined ? undefined : alphabet.classOf(symbol),
  )
  return (set) =>
    (known[set] ??= [...classes.keys()].filter((code) => {
      const symbolClass = classes[code]
      return symbolClass !== undefined && alphabet.contains(set, symbolClass)
    }))
}

/** By ASCII code, as bits: the places where it may stand in a match that begins in this state, whatever is around it. */
function placesOf({ reading, nfa }: Automaton, start: number, read: Characters): Uint8Array {
  const places = new Uint8Array(CODES)
  const symbols = symbolsIn(reading)
  const isGap = (code: number) => reading !== 'plain' && symbols[code] === SPACE
  let states = new Set([start])
  // After a space, the spaces that follow are not read.
  let behindSpace = new Set<number>()
  for (let place = 0; place < PLACES; place++) {
    const { chars, accepts } = nfa.reads([...states, ...behindSpace])
    if (accepts) return blurred(places.map((bits) => bits | (ALL_PLACES & (-1 << place))))
    if (behindSpace.size > 0) for (const code of SPACES) places[code]! |= 1 << place
    states = new Set()
    behindSpace = new Set(behindSpace)
    for (const { set, next } of chars) {
      const codes = read(set)
      for (const code of codes) places[code]! |= 1 << place
      states.add(next)
      if (codes.some(isGap)) behindSpace.add(next)
    }
  }
  return blurred(places)
}

/** What can be told apart. */
function blurred(places: Uint8Array): Uint8Array {
  for (let code = 0; code < SPACE; code++) {
    places[SPACE]! |= places[code]!
    places[code] = 0
  }
  for (let code = 0x40; code < 0x60; code++) {
    places[code]! |= places[code + 0x20]!
    places[code + 0x20] = places[code]!
  }
  return places
}

const symbols = new Map<Reading, readonly (number | undefined)[]>()

/** By ASCII code, which is never more than one symbol. */
function symbolsIn(reading: Reading): readonly (number | undefined)[] {
  let known = symbols.get(reading)
  if (!known) {
    known = Array.from({ length: CODES }, (_, code) => readAs(reading, code)[0])
    symbols.set(reading, known)
  }
  return known
}

function written(groups: readonly Group[], decodes: boolean): Tables {
  const tables = new Uint8Array(ROWS * ROW)
  for (let index = 0; index < ROW; index++) tables[index] = 1 << (index & 7)
  const sorts = sortsOf(decodes)
  for (const [index, sort] of SORTS.entries()) {
    for (const [code, is] of SORTS_BY_CODE.entries()) {
      if ((is & sorts[sort]) !== 0) tables[(1 + index) * ROW + (code & 15)]! |= 1 << (code >> 4)
    }
  }
  for (let place = 0; place < PLACES; place++) {
    const at = (code: number) =>
      groups.reduce((all, group, index) => all | (((group.places[code]! >> place) & 1) << index), 0)
    for (const [index, first] of FIRST_CODES.entries()) {
      const row = FIRST_PLACE + place * FIRST_CODES.length + index
      for (let code = 0; code < ROW; code++) tables[row * ROW + code] = at(first + code)
    }
  }
  return tables
}

function sortsOf(decodes: boolean): Record<(typeof SORTS)[number], number> {
  if (!decodes) return { stop: UNSEEN, sextet: 0, filled: 0, digit: 0 }
  return { stop: UNSEEN | ESCAPE, sextet: SEXTET, filled: DIGIT | SEPARATOR, digit: DIGIT }
}
