/** Which languages a sentence may be in: by its letters, and among those of one script by its common words. */

/** Scripts that lexicons are written in. */
export const SCRIPTS = [
  'Latin',
  'Cyrillic',
  'Arabic',
  'Devanagari',
  'Hangul',
  'Han',
  'Kana',
] as const
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
    let found = 0
    for (let at = 0; at < length; at++) found |= scriptOf[units[at]!]!
    if ((found & KANA) !== 0) state.hasKana = true
    if (state.hasKana && (found & HAN) !== 0) found = (found & ~HAN) | KANA
    const most = Math.max(...this.#common)
    for (let i = 0; i < this.#counts.length; i++) {
      const isPossible = most === 0 || !this.#isKnown[i] || this.#common[i]! * CLEARLY_MORE > most
      this.#counts[i] = (found & this.#scripts[i]!) !== 0 && isPossible ? 1 : 0
    }
    return this.#counts
  }
}
