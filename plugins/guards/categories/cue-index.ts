import type { Category } from '../../../src/plugin.ts'
import { entriesOf, type Cue, type Lexicon } from './cues.ts'
import { fold } from './fold.ts'

/** Bits of the letter in a branch key; the rest is the node. */
const LETTER_BITS = 12
/** A letter that no cue contains. */
const UNKNOWN = 0
const WHOLE = 1
const OPEN = 2

/** Scripts without spaces between words, or with prefixes that are joined to words. Cues match anywhere in them. */
const CONTINUOUS = /[\u0600-\u06ff\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]/
const WORD = /[\p{L}\p{N}\p{M}_]/u

const CLASS_OTHER = 0
const CLASS_WORD = 1
const CLASS_CONTINUOUS = 2

/** Class of every code unit, computed once. */
const classes = new Uint8Array(0x10000)
for (let code = 0; code < 0x10000; code++) {
  const letter = String.fromCharCode(code)
  if (CONTINUOUS.test(letter)) classes[code] = CLASS_CONTINUOUS
  else if (WORD.test(letter)) classes[code] = CLASS_WORD
}

/** Finds all cues of a text in one pass, however many cues there are. The cues are stored as a trie. */
export class CueIndex {
  readonly cues: readonly Cue[]
  readonly #letters = new Uint16Array(0x10000)
  /** Branches of the trie in an open-addressing hash table: key of node and letter, and target node. */
  readonly #keys: Int32Array
  readonly #targets: Int32Array
  readonly #mask: number
  /** Whether cues end at a node, as a whole word or with any ending; and which cues. */
  readonly #ends: Uint8Array
  readonly #whole: readonly (readonly number[] | undefined)[]
  readonly #open: readonly (readonly number[] | undefined)[]

  constructor(lexicons: readonly Lexicon[], categories: readonly Category[]) {
    const tree = new Tree()
    const cues: Cue[] = []
    for (const lexicon of lexicons) {
      for (const { text, cue } of entriesOf(lexicon, categories)) {
        const open = text.endsWith('*')
        const word = fold(open ? text.slice(0, -1) : text)
        tree.add(word, open || CONTINUOUS.test(word.at(-1)!), cues.length)
        cues.push(cue)
      }
    }
    this.cues = cues
    for (const [letter, id] of tree.letters) this.#letters[letter] = id
    let size = 1024
    while (size < tree.branches.size * 3) size *= 2
    this.#mask = size - 1
    this.#keys = new Int32Array(size).fill(-1)
    this.#targets = new Int32Array(size)
    for (const [key, target] of tree.branches) {
      const at = this.#slot(key)
      this.#keys[at] = key
      this.#targets[at] = target
    }
    this.#whole = tree.whole
    this.#open = tree.open
    this.#ends = new Uint8Array(tree.branches.size + 1)
    for (const node in tree.whole) this.#ends[node]! |= WHOLE
    for (const node in tree.open) this.#ends[node]! |= OPEN
  }

  /**
   * Reports every cue in a folded text, in order of position.
   * @param found receives the index in `cues` and the position
   */
  find(units: Uint16Array, length: number, found: (cue: number, at: number) => void): void {
    const letters = this.#letters
    let before = CLASS_OTHER
    for (let at = 0; at < length; at++) {
      const code = units[at]!
      const kind = classes[code]!
      if (kind === CLASS_CONTINUOUS || (kind === CLASS_WORD && before !== CLASS_WORD)) {
        const letter = letters[code]!
        if (letter !== UNKNOWN) this.#walk(units, length, at, letter, found)
      }
      before = kind
    }
  }

  #walk(
    units: Uint16Array,
    length: number,
    from: number,
    first: number,
    found: (cue: number, at: number) => void,
  ): void {
    let letter = first
    let node = 0
    for (let at = from + 1; letter !== UNKNOWN; at++) {
      const slot = this.#slot((node << LETTER_BITS) | letter)
      if (this.#keys[slot] === -1) return
      node = this.#targets[slot]!
      const ends = this.#ends[node]!
      if (ends !== 0) {
        if ((ends & OPEN) !== 0) for (const cue of this.#open[node]!) found(cue, from)
        if ((ends & WHOLE) !== 0 && (at >= length || classes[units[at]!] !== CLASS_WORD)) {
          for (const cue of this.#whole[node]!) found(cue, from)
        }
      }
      if (at >= length) return
      letter = this.#letters[units[at]!]!
    }
  }

  /** The slot of a key, or the free slot where it would be. */
  #slot(key: number): number {
    let at = (Math.imul(key, 0x9e3779b1) >>> 7) & this.#mask
    while (this.#keys[at] !== key && this.#keys[at] !== -1) at = (at + 1) & this.#mask
    return at
  }
}

class Tree {
  readonly letters = new Map<number, number>()
  readonly branches = new Map<number, number>()
  readonly whole: number[][] = []
  readonly open: number[][] = []
  #nodes = 1

  add(word: string, open: boolean, cue: number): void {
    let node = 0
    for (let i = 0; i < word.length; i++) {
      const key = (node << LETTER_BITS) | this.#letter(word.charCodeAt(i))
      let next = this.branches.get(key)
      if (next === undefined) this.branches.set(key, (next = this.#nodes++))
      node = next
    }
    const ends = open ? this.open : this.whole
    ;(ends[node] ??= []).push(cue)
  }

  #letter(code: number): number {
    let id = this.letters.get(code)
    if (id === undefined) this.letters.set(code, (id = this.letters.size + 1))
    return id
  }
}
