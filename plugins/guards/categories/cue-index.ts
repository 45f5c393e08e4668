import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { CATEGORIES, type Category } from '../../../src/plugin.ts'

/** Accents: combining marks of Latin, Greek and Cyrillic, and Arabic vowel signs. */
const MARKS = /[\u0300-\u036f\u0610-\u061a\u064b-\u065f\u0670\u0640]/g
/** Invisible characters. */
const IGNORABLE = /\p{Default_Ignorable_Code_Point}|[\ufeff\u061c]/gu
const SPELT: Readonly<Record<string, string>> = {
  ß: 'ss',
  œ: 'oe',
  æ: 'ae',
  ø: 'o',
  ł: 'l',
  đ: 'd',
  ı: 'i',
  '’': "'",
  '‘': "'",
  ʼ: "'",
  '´': "'",
  أ: 'ا',
  إ: 'ا',
  آ: 'ا',
  ة: 'ه',
  ى: 'ي',
}
const SPACE = 0x20

/** Cache of folded code units: a single unit, or one of the values below. Filled on first use. */
const foldCache = new Uint16Array(0x10000).fill(0xffff)
const UNSEEN = 0xffff
const NOTHING = 0
const SEVERAL = 0xfffe

/** Folds cues and texts alike: lower case, no accents, straight apostrophes, single spaces, which commas are, too. */
export function fold(text: string): string {
  const units = new Uint16Array(text.length * MAX_UNITS)
  return String.fromCharCode(...units.subarray(0, foldInto(text, units)))
}

/** Most units that one code unit folds to. */
export const MAX_UNITS = 8

/** Folds a text into `units`. @returns the length of the folded text */
export function foldInto(text: string, units: Uint16Array): number {
  let length = 0
  let before = -1
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    let unit = foldCache[code]!
    if (unit === UNSEEN) unit = learn(code)
    if (unit === NOTHING || (unit === SPACE && before === SPACE)) continue
    if (unit === SEVERAL) for (const one of letters(text[i]!)) units[length++] = one.charCodeAt(0)
    else units[length++] = unit
    before = unit
  }
  return length
}

function learn(code: number): number {
  const folded = letters(String.fromCharCode(code))
  const unit = folded === '' ? NOTHING : folded.length === 1 ? folded.charCodeAt(0) : SEVERAL
  foldCache[code] = unit
  return unit
}

function letters(letter: string): string {
  if (/[\s,，、]/.test(letter)) return ' '
  const plain = letter
    .replace(IGNORABLE, '')
    .normalize('NFKD')
    .replace(MARKS, '')
    .normalize('NFC')
    .toLowerCase()
    .replace(/[^\0-\x7f]/g, (one) => SPELT[one] ?? one)
  return plain.slice(0, MAX_UNITS)
}

/** Bits of the letter in a branch key; the rest is the node. */
const LETTER_BITS = 12
/** A letter that no cue contains. */
const UNKNOWN = 0
/** Most characters of a cue. */
const MAX_CUE = 100
const WHOLE = 1
const OPEN = 2
const ANY_ENDING = 4
const STAR = 0x2a
const AT_SIGN = 0x40

/** Scripts without spaces between words. Cues match anywhere in them. */
const CONTINUOUS = /[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]/
const WORD = /[\p{L}\p{N}\p{M}_]/u

/** Arabic words that are joined to the next one: "and", "so", "with", "for", "like", "will". */
const JOINED = new Set([...'وفبلكس'].map((letter) => letter.charCodeAt(0)))
const [ALIF, LAM] = [0x627, 0x644]
/** Arabic endings: pronouns, duals and plurals. */
const ENDINGS = new Set('ه ها هم هن ك كم ي نا ني ا ان ين ون ات ته تها تي تك تين يه يا'.split(' '))
const MAX_ENDING = 3
/** Shorter Arabic words have no endings here: too many of them would be other words. */
const MIN_STEM = 3

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

/** Entries that a trie is made for at first; it grows. */
const FIRST_SIZE = 1 << 18
/** The nodes from which cues are followed, and from which those that end a compound are, backwards. */
const START = 0
const COMPOUNDS = 1
/** Most letters by which the last part of a compound is inflected. */
const MAX_INFLECTION = 2

/** Finds all cues of a text in one pass, however many cues there are. The cues are stored as a trie. */
export class CueIndex {
  readonly cues: Cue[] = []
  readonly #letters = new Uint16Array(0x10000)
  #letterCount = 0
  /** Branches of the trie in an open-addressing hash table: key of node and letter, and target node. */
  #keys = new Int32Array(FIRST_SIZE).fill(-1)
  #targets = new Int32Array(FIRST_SIZE)
  #mask = FIRST_SIZE - 1
  #nodes = COMPOUNDS + 1
  /** Whether cues end at a node, as a whole word or with any ending; and which cues. */
  #ends = new Uint8Array(FIRST_SIZE / 2)
  readonly #whole: number[][] = []
  readonly #open: number[][] = []
  readonly #units = new Uint16Array(MAX_CUE * MAX_UNITS)

  /** Adds the cues of a language. */
  add({ cues }: Lexicon): void {
    for (const { text, cue } of cues) {
      const open = text.endsWith('*')
      const isCompound = text.startsWith('*')
      const letters = text.slice(isCompound ? 1 : 0, open ? -1 : undefined).slice(0, MAX_CUE)
      const length = foldInto(letters, this.#units)
      const isOpen = open || classes[this.#units[length - 1]!] === CLASS_CONTINUOUS
      if (isCompound) this.#units.subarray(0, length).reverse()
      const node = this.#insert(isCompound ? COMPOUNDS : START, length)
      this.#ends[node]! |= isOpen ? OPEN : WHOLE
      const ends = isOpen ? this.#open : this.#whole
      ;(ends[node] ??= []).push(this.cues.length)
      this.cues.push(cue)
    }
  }

  #insert(from: number, length: number): number {
    let node = from
    for (let i = 0; i < length; i++) {
      const code = this.#units[i]!
      this.#letters[code] ||= ++this.#letterCount
      if (this.#nodes * 2 > this.#mask) this.#grow()
      const key = (node << LETTER_BITS) | this.#letters[code]!
      const at = this.#slot(key)
      if (this.#keys[at] === -1) {
        this.#keys[at] = key
        this.#targets[at] = this.#nodes++
      }
      // A star within a cue stands for any ending of its word.
      if (code === STAR) this.#ends[node]! |= ANY_ENDING
      node = this.#targets[at]!
    }
    return node
  }

  #grow(): void {
    const [keys, targets, ends] = [this.#keys, this.#targets, this.#ends]
    this.#keys = new Int32Array(keys.length * 2).fill(-1)
    this.#targets = new Int32Array(keys.length * 2)
    this.#ends = new Uint8Array(keys.length)
    this.#ends.set(ends)
    this.#mask = this.#keys.length - 1
    for (const [from, key] of keys.entries()) {
      if (key === -1) continue
      const at = this.#slot(key)
      this.#keys[at] = key
      this.#targets[at] = targets[from]!
    }
  }

  /**
   * Reports every cue in a folded text, in order of position.
   * @param onCue receives the index in `cues` and the position
   */
  find(units: Uint16Array, length: number, onCue: (cue: number, at: number) => void): void {
    const letters = this.#letters
    let before = CLASS_OTHER
    let addressAt = units.subarray(0, length).indexOf(AT_SIGN)
    for (let at = 0; at < length; at++) {
      const code = units[at]!
      const kind = classes[code]!
      if (at > addressAt && addressAt >= 0) {
        addressAt = units.subarray(0, length).indexOf(AT_SIGN, at)
      }
      // The name in a mail address is no word.
      if (kind === CLASS_WORD && before !== CLASS_WORD && isUpTo(units, at, addressAt)) {
        before = kind
        continue
      }
      if (kind === CLASS_CONTINUOUS || (kind === CLASS_WORD && before !== CLASS_WORD)) {
        const letter = letters[code]!
        if (letter !== UNKNOWN) this.#walk(units, length, at, letter, onCue)
        if (isArabic(code)) this.#findInArabicWord(units, length, at, onCue)
      }
      if (before === CLASS_WORD && kind !== CLASS_WORD) this.#findInCompound(units, at, onCue)
      before = kind
    }
    if (before === CLASS_WORD) this.#findInCompound(units, length, onCue)
  }

  /** Reports cues that end the word before `end` and do not begin it. */
  #findInCompound(units: Uint16Array, end: number, onCue: (cue: number, at: number) => void): void {
    for (let inflected = 0; inflected <= MAX_INFLECTION; inflected++) {
      let node = COMPOUNDS
      // The first letter of the word is no part of these cues.
      for (let at = end - inflected - 1; at > 0 && classes[units[at - 1]!] === CLASS_WORD; at--) {
        const letter = this.#letters[units[at]!]!
        const slot = this.#slot((node << LETTER_BITS) | letter)
        if (letter === UNKNOWN || this.#keys[slot] === -1) break
        node = this.#targets[slot]!
        const ends = this.#ends[node]!
        if ((ends & OPEN) !== 0) for (const cue of this.#open[node]!) onCue(cue, at)
        if ((ends & WHOLE) !== 0 && inflected === 0) {
          for (const cue of this.#whole[node]!) onCue(cue, at)
        }
      }
    }
  }

  /** Reports cues that follow the words that are joined to an Arabic word. */
  #findInArabicWord(
    units: Uint16Array,
    length: number,
    start: number,
    onCue: (cue: number, at: number) => void,
  ): void {
    let at = start
    const walk = () => {
      const letter = at < length ? this.#letters[units[at]!]! : UNKNOWN
      if (letter !== UNKNOWN) this.#walk(units, length, at, letter, onCue)
    }
    for (let joined = 0; joined < 2 && JOINED.has(units[at]!); joined++) {
      at++
      walk()
    }
    // The article; "for the" is written without its first letter.
    const isArticle = units[at] === ALIF && units[at + 1] === LAM
    if (isArticle) at += 2
    else if (at > start && units[at - 1] === LAM && units[at] === LAM) at++
    else return
    walk()
  }

  /** Reports the cues that begin at `from`, whose first letter is known. */
  #walk(
    units: Uint16Array,
    length: number,
    from: number,
    first: number,
    onCue: (cue: number, at: number) => void,
  ): void {
    this.#follow(units, length, { from, at: from, node: START, letter: first }, onCue)
  }

  #follow(
    units: Uint16Array,
    length: number,
    { from, at, node, letter }: { from: number; at: number; node: number; letter: number },
    onCue: (cue: number, at: number) => void,
  ): void {
    while (letter !== UNKNOWN) {
      const slot = this.#slot((node << LETTER_BITS) | letter)
      if (this.#keys[slot] === -1) return
      node = this.#targets[slot]!
      at++
      const ends = this.#ends[node]!
      if (ends !== 0) {
        if ((ends & OPEN) !== 0) for (const cue of this.#open[node]!) onCue(cue, from)
        if ((ends & WHOLE) !== 0 && isWordEnd(units, length, from, at)) {
          for (const cue of this.#whole[node]!) onCue(cue, from)
        }
        if ((ends & ANY_ENDING) !== 0) {
          let end = at
          while (end < length && classes[units[end]!] === CLASS_WORD) end++
          const next = this.#targets[this.#slot((node << LETTER_BITS) | this.#letters[STAR]!)]!
          const start = { from, at: end, node: next, letter: this.#letters[units[end]!]! }
          if (end < length) this.#follow(units, length, start, onCue)
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

/** Whether one word reaches from `at` to the end. */
function isUpTo(units: Uint16Array, at: number, end: number): boolean {
  for (let i = at; i < end; i++) if (classes[units[i]!] !== CLASS_WORD) return false
  return end > at
}

/** Whether the word of a cue ends at this position, or has an Arabic ending there. */
function isWordEnd(units: Uint16Array, length: number, from: number, at: number): boolean {
  if (at >= length || classes[units[at]!] !== CLASS_WORD) return true
  if (!isArabic(units[at]!) || at - from < MIN_STEM) return false
  let end = at
  while (end < length && classes[units[end]!] === CLASS_WORD)
    if (++end > at + MAX_ENDING) return false
  return ENDINGS.has(String.fromCharCode(...units.subarray(at, end)))
}

function isArabic(code: number): boolean {
  return code >= 0x600 && code <= 0x6ff
}

// Word lists of the categories, read from the files in `lexicon/`, whose README has their shape.

/** Roles of cues. */
export const ROLES = [
  'asks',
  'leads',
  'topics',
  'loose',
  'strong',
  'against',
  'declines',
  'address',
  'common',
] as const
/** What a cue contributes. */
export type Role = (typeof ROLES)[number]

/** One entry of a list. */
export interface Cue {
  /** A name such as `en.code.topics.python`, shown to the operator. */
  readonly id: string
  /** It is undefined for cues of every category. */
  readonly category: Category | undefined
  readonly role: Role
}

/** Word lists of one language. */
export interface Lexicon {
  readonly language: string
  readonly script: Script
  readonly cues: readonly { readonly text: string; readonly cue: Cue }[]
  /** Words for arithmetic operations between numbers. */
  readonly operators: readonly string[]
}

/** Sections for every category, by the role of their entries. */
const COMMON: Readonly<Record<string, Role>> = {
  asks: 'leads',
  against: 'against',
  declines: 'declines',
  address: 'address',
  common: 'common',
}
const EXTENSION = '.txt'
/** The folder of the lists: beside this file in a checkout; a build leaves them where they are. */
const FOLDER = ['./lexicon/', '../../../../plugins/guards/categories/lexicon/']
  .map((path) => new URL(path, import.meta.url))
  .find((folder) => existsSync(folder))

/** The lexicons that ship, one at a time. @throws Error for a file that cannot be read, with its line */
export function* readLexicons(): Generator<Lexicon> {
  if (!FOLDER) throw new Error('the folder with the lexicons is missing')
  const files = readdirSync(FOLDER).filter((name) => name.endsWith(EXTENSION))
  for (const file of files.sort()) {
    yield parseLexicon(
      file.slice(0, -EXTENSION.length),
      readFileSync(new URL(file, FOLDER), 'utf8'),
    )
  }
}

/** Reads one lexicon. @throws Error that names the line and what would be right */
export function parseLexicon(language: string, text: string): Lexicon {
  const cues: { text: string; cue: Cue }[] = []
  const operators: string[] = []
  let script: Script | undefined
  let add: ((entry: string, fail: (what: string) => Error) => void) | undefined
  const opened = new Set<string>()
  for (const [index, line] of text.split('\n').entries()) {
    const fail = (what: string) => new Error(`${language}${EXTENSION}, line ${index + 1}: ${what}`)
    const content = line.trim()
    if (content === '' || content.startsWith('#')) continue
    const name = /^\[(.*)\]$/.exec(content)?.[1]
    if (name === undefined) {
      if (!add) throw fail('an entry before the first section')
      for (const entry of content.split(',')) if (entry.trim()) add(entry.trim(), fail)
      continue
    }
    if (opened.has(name)) throw fail(`there is a section [${name}] already`)
    opened.add(name)
    if (name === 'operators') add = (entry) => operators.push(entry)
    else if (name === 'script') {
      add = (entry, wrong) => {
        script = SCRIPTS.find((one) => one === entry)
        if (!script) throw wrong(`there is no script ${entry}; such as ${SCRIPTS.join(', ')}`)
      }
    } else {
      const { category, role } = sectionOf(name) ?? {}
      if (!role) throw fail(`there is no section [${name}]; such as [code topics]`)
      const prefix = `${language}.${name.replace(' ', '.')}`
      add = (entry) => cues.push({ text: entry, cue: { id: `${prefix}.${entry}`, category, role } })
    }
  }
  if (!script) throw new Error(`${language}${EXTENSION}: the section [script] is missing`)
  return { language, script, cues, operators }
}

function sectionOf(name: string): { category: Category | undefined; role: Role } | undefined {
  const common = COMMON[name]
  if (common) return { category: undefined, role: common }
  const [first, second] = name.split(' ')
  const category = CATEGORIES.find((one) => one === first)
  const role = ROLES.find((one) => one === second)
  return category && role && { category, role }
}

// Which languages a sentence may be in: by its letters, and among those of one script by its common words.

/** Scripts that lexicons are written in. */
const SCRIPTS = ['Latin', 'Cyrillic', 'Arabic', 'Devanagari', 'Hangul', 'Han', 'Kana'] as const
/** A script that lexicons are written in. */
export type Script = (typeof SCRIPTS)[number]

const RANGES: Readonly<Record<Script, readonly (readonly [number, number])[]>> = {
  Latin: [
    [0x61, 0x7a],
    [0xe0, 0x24f],
  ],
  Cyrillic: [[0x400, 0x52f]],
  Arabic: [[0x600, 0x6ff]],
  Devanagari: [[0x900, 0x97f]],
  Hangul: [[0xac00, 0xd7af]],
  Han: [[0x3400, 0x9fff]],
  Kana: [[0x3040, 0x30ff]],
}
/** Bit of the script of every folded code unit. */
const scriptOf = new Uint8Array(0x10000)
for (const [i, script] of SCRIPTS.entries()) {
  for (const [first, last] of RANGES[script]) scriptOf.fill(1 << i, first, last + 1)
}
const HAN = 1 << SCRIPTS.indexOf('Han')
const KANA = 1 << SCRIPTS.indexOf('Kana')
/** A language is out of question when another one has so many times as many common words. */
const CLEARLY_MORE = 2

/** What a text has shown of its language so far. */
export interface LanguageState {
  /** Japanese writes headings and names without kana, so that kana anywhere before decides about Han. */
  hasKana: boolean
}

/** Decides for each sentence which of some languages count in it. One instance serves all texts. */
export class LanguageFinder {
  readonly #scripts: Uint8Array
  /** Common words of each language in the present sentence. */
  readonly #common: Int32Array
  readonly #counts: Uint8Array
  /** Whether a lexicon has common words. One without them is not compared with others. */
  readonly #isKnown: readonly boolean[]

  /**
   * @param scripts the script of each language
   * @param isKnown whether there are common words of each
   */
  constructor(scripts: readonly Script[], isKnown: readonly boolean[]) {
    this.#isKnown = isKnown
    this.#scripts = Uint8Array.from(scripts, (script) => 1 << SCRIPTS.indexOf(script))
    this.#common = new Int32Array(scripts.length)
    this.#counts = new Uint8Array(scripts.length)
  }

  /** Starts a sentence. */
  begin(): void {
    this.#common.fill(0)
  }

  /** Notes a common word of a language. */
  note(language: number): void {
    this.#common[language]!++
  }

  /**
   * Decides about the sentence.
   * @param units the folded sentence, of `length` units
   * @returns whether each language counts; valid until the next sentence
   */
  decide(units: Uint16Array, length: number, state: LanguageState): Uint8Array {
    let present = 0
    for (let at = 0; at < length; at++) present |= scriptOf[units[at]!]!
    if ((present & KANA) !== 0) state.hasKana = true
    if (state.hasKana && (present & HAN) !== 0) present = (present & ~HAN) | KANA
    const most = Math.max(...this.#common)
    for (let i = 0; i < this.#counts.length; i++) {
      const isPossible = most === 0 || !this.#isKnown[i] || this.#common[i]! * CLEARLY_MORE > most
      this.#counts[i] = (present & this.#scripts[i]!) !== 0 && isPossible ? 1 : 0
    }
    return this.#counts
  }
}
