/** The guard itself, which is loaded on first use. */
import type {
  CheckProgress,
  Guard,
  GuardHost,
  OutputCheck,
  Span,
  Verdict,
} from '../../../src/plugin.ts'
import { readInSlices, warmUp, expression, matchesOf } from '../text/slices.ts'
import type { EntityClass } from './classes.ts'
import { PersonalDataScan } from './scan.ts'

const PASS: Verdict = { action: 'pass' }

export interface PersonalDataOptions {
  readonly entities: readonly EntityClass[]
  readonly ignore: readonly string[]
  readonly weak: boolean
}

export async function createGuard(
  { entities, ignore, weak }: PersonalDataOptions,
  host: GuardHost,
): Promise<Required<Pick<Guard, 'checkInput' | 'checkOutput' | 'streamOutput' | 'locate'>>> {
  const classes = new Set<EntityClass>(entities)
  const isIgnored = ignoreMatcher(ignore)
  const newCheck = () => new PersonalDataCheck(classes, isIgnored, weak)
  await warmUp()
  return {
    checkInput: (items, context) => readInSlices(items, newCheck, () => host.yieldIfDue(context)),
    checkOutput({ text }) {
      const check = newCheck()
      check.push(text)
      return check.end().verdict ?? PASS
    },
    streamOutput: newCheck,
    async locate(text, context) {
      const search = new PersonalDataSearch(classes, isIgnored)
      for (let at = 0; at < text.length; at += SLICE) {
        search.push(text.slice(at, at + SLICE))
        const due = host.yieldIfDue(context)
        if (due) await due
      }
      return search.end()
    },
  }
}

const SLICE = 1 << 12

/** Finds all personal data of one text, shapes included; addresses of roles are none. */
class PersonalDataSearch {
  readonly #spans: Span[] = []
  readonly #scan: PersonalDataScan
  readonly #encoded: EncodedWords

  constructor(classes: ReadonlySet<EntityClass>, isIgnored: (text: string) => boolean) {
    const settings = { classes, strict: true }
    this.#scan = new PersonalDataScan(settings, ({ start, end, label, tier }, text) => {
      if (tier < 3 && !isIgnored(text)) this.#spans.push({ start, end, label })
      return true
    })
    this.#encoded = new EncodedWords(({ start, end, before, text }) => {
      const scan = new PersonalDataScan(settings, (entity, value) => {
        const isInside = entity.tier === 1 && entity.start >= before.length
        if (isInside && !isIgnored(value)) this.#spans.push({ start, end, label: entity.label })
        return true
      })
      scan.push(before + text)
      scan.end()
      return true
    })
  }

  push(piece: string): void {
    this.#scan.push(piece)
    this.#encoded.push(piece)
  }

  end(): readonly Span[] {
    this.#scan.end()
    this.#encoded.end()
    return joined(this.#spans)
  }
}

/** Checks one growing text. */
class PersonalDataCheck implements OutputCheck {
  readonly #scan: PersonalDataScan
  readonly #encoded: EncodedWords
  /** Shapes, and addresses of roles, that did not count alone. */
  readonly #shapes: Span[] = []
  #roles = 0
  /** Characters that were read. */
  #read = 0
  #verdict: Verdict | undefined = undefined

  constructor(
    classes: ReadonlySet<EntityClass>,
    isIgnored: (text: string) => boolean,
    weak: boolean,
  ) {
    this.#scan = new PersonalDataScan({ classes, strict: weak }, (entity, text) => {
      if (isIgnored(text)) return true
      const { start, end, label } = entity
      const spans = [...this.#shapes, { start, end, label }]
      if (entity.tier === 3) this.#roles++
      const isAlone = spans.length < 2 || spans.length === this.#roles
      if (entity.tier === 3 ? isAlone : entity.tier === 2 && !weak && isAlone) {
        this.#shapes.push({ start, end, label })
        return true
      }
      this.#verdict = { action: 'block', rule: 'deny:personal-data', spans, reason: label }
      return false
    })
    this.#encoded = new EncodedWords(({ start, end, before, text: decoded }) => {
      const scan = new PersonalDataScan({ classes, strict: weak }, (entity, text) => {
        const { tier, label } = entity
        if (tier > 1 || entity.start < before.length || isIgnored(text)) return true
        const spans = [{ start, end, label }]
        this.#verdict ??= { action: 'block', rule: 'deny:personal-data', spans, reason: label }
        return false
      })
      scan.push(before + decoded)
      scan.end()
      return !this.#verdict
    })
  }

  push(text: string): CheckProgress {
    for (let at = 0; at < text.length && !this.#verdict;) {
      const piece = text.slice(at, (at += this.#encoded.reach(text.slice(at))))
      const from = this.#read
      this.#scan.push(piece)
      this.#read += piece.length
      // Both stop at the same character, however the text is split.
      this.#encoded.push(this.#verdict ? piece.slice(0, this.#scan.at - from) : piece)
    }
    return this.#progress()
  }

  end(): CheckProgress {
    this.#scan.end()
    if (!this.#verdict) this.#encoded.end()
    return this.#progress()
  }

  #progress(): CheckProgress {
    const safe = Math.min(this.#scan.safe, this.#encoded.safe)
    return this.#verdict ? { safeOffset: safe, verdict: this.#verdict } : { safeOffset: safe }
  }
}

/** Matches ignored entries regardless of case and of separators between digits. */
function ignoreMatcher(entries: readonly string[]): (text: string) => boolean {
  const normalized = entries.map(normalize)
  return (text) => {
    if (normalized.length === 0) return false
    const candidate = normalize(text)
    return normalized.some((entry) =>
      /^[@.]/.test(entry) ? candidate.endsWith(entry) : candidate === entry,
    )
  }
}

function normalize(text: string): string {
  const lower = text.trim().toLowerCase()
  return lower.includes('@') || !/\d/.test(lower) ? lower : lower.replaceAll(/[^\p{L}\p{N}]/gu, '')
}

/** Ranges in their order, those that overlap as one; the first gives its label. */
function joined(spans: readonly Span[]): readonly Span[] {
  const all: Span[] = []
  for (const span of spans.toSorted((a, b) => a.start - b.start || b.end - a.end)) {
    const last = all.at(-1)
    if (last && span.start < last.end)
      all[all.length - 1] = { ...last, end: Math.max(last.end, span.end) }
    else all.push(span)
  }
  return all
}

// Parts of a growing text that are encoded: base64, hexadecimal digits, and escapes of URLs, JavaScript, JSON and HTML.

/** A part of a text, and what it says. */
interface Decoded {
  /** Offsets in the text. */
  readonly start: number
  readonly end: number
  /** The text shortly before the part. */
  readonly before: string
  readonly text: string
}

/** Shorter words are not decoded. */
const MIN_WORD = 8
/** The characters that are decoded at a time of a longer word. */
const WINDOW = 512
/** The last characters of a window, which are decoded again with those that follow. */
const OVERLAP = 256
/** Characters before a word that are kept. */
const MEMORY = 64
/** The characters of a word from which on a line break may be inside of base64. */
const MIN_LINE = 40

const LINE_FEED = 10
const CARRIAGE_RETURN = 13
const ESCAPE = expression(
  /%([\da-f]{2})|\\x([\da-f]{2})|\\u([\da-f]{4})|\\u\{([\da-f]{1,6})\}|&#(\d{1,7});?|&#x([\da-f]{1,6});?/gi,
)
const BASE64 = expression(/[\w+/-]{12,}={0,2}/g)
const HEX = expression(/[\da-f]{16,}/gi)
const ONLY_BASE64 = expression(/^[\w+/\r\n-]*$/)
/** What no personal data is without: a sign of an address, or some digits. */
const TELLING = expression(/[@:]|(?:\d[^\d\n]{0,3}){6}/)
const CONTROLS = expression(/\p{Cc}/gu)

/** Decodes the words of a text. One level is decoded, and what is found depends on the text only, not on how it arrives. */
class EncodedWords {
  readonly #take: (decoded: Decoded) => boolean
  #stopped = false
  /** The kept text, from offset `#base` on. */
  #text = ''
  #base = 0
  #at = 0
  /** Where the present word begins; -1 between words. */
  #word = -1

  /** @param take receives what words say; false ends the reading, and the word stays undecided */
  constructor(take: (decoded: Decoded) => boolean) {
    this.#take = take
  }

  /** Offset up to which the text is part of no word that is undecided. */
  get safe(): number {
    return this.#word < 0 ? this.#at : this.#word
  }

  /** How many characters of a piece may be added before a word is decoded: nothing is found before the last of them. */
  reach(piece: string): number {
    let word = this.#word
    for (let i = 0, at = this.#at; i < piece.length; i++, at++) {
      const code = piece.charCodeAt(i)
      if (isSign(code) && word < 0) word = at
      else if (word >= 0 && (!isSign(code) || at - word === WINDOW)) {
        if (at - word >= MIN_WORD) return i + 1
        word = -1
      }
    }
    return piece.length
  }

  push(piece: string): void {
    this.#text += piece
    for (; this.#at < this.#base + this.#text.length && !this.#stopped; this.#at++) {
      const code = this.#text.charCodeAt(this.#at - this.#base)
      const isBreak = code === LINE_FEED || code === CARRIAGE_RETURN
      const isInside = isSign(code) || (isBreak && this.#isLine())
      if (isInside && this.#word < 0) this.#word = this.#at
      else if (!isInside && this.#word >= 0) this.#endWord()
      else if (isInside && this.#at - this.#word === WINDOW) this.#decode(this.#at - OVERLAP)
    }
    if (this.#stopped) return
    const needed = this.safe - MEMORY
    if (needed - this.#base < WINDOW) return
    this.#text = this.#text.slice(needed - this.#base)
    this.#base = needed
  }

  end(): void {
    if (this.#word >= 0 && !this.#stopped) this.#endWord()
  }

  #isLine(): boolean {
    return this.#word >= 0 && this.#at - this.#word >= MIN_LINE && ONLY_BASE64.test(this.#wordNow())
  }

  #wordNow(): string {
    return this.#text.slice(this.#word - this.#base, this.#at - this.#base)
  }

  #endWord(): void {
    if (this.#at - this.#word >= MIN_WORD) this.#decode(-1)
    else this.#word = -1
  }

  /** @param next where the next word begins */
  #decode(next: number): void {
    const start = this.#word
    const before = this.#text.slice(Math.max(0, start - MEMORY - this.#base), start - this.#base)
    for (const reading of readingsOf(this.#wordNow())) {
      const text = reading.replaceAll(CONTROLS, '\n')
      if (!TELLING.test(text)) continue
      if (!this.#take({ start, end: this.#at, before, text })) {
        this.#stopped = true
        return
      }
    }
    this.#word = next
  }
}

/** Whether a character may be part of a word. */
function isSign(code: number): boolean {
  return code > 32 && code < 127
}

/** What a word may say. */
function* readingsOf(word: string): Generator<string> {
  if (/[%\\&]/.test(word)) {
    const plain = unescaped(word)
    if (plain !== word) yield plain
  }
  for (const [digits] of matchesOf(word, HEX)) {
    for (const from of [0, 1]) yield Buffer.from(digits.slice(from), 'hex').toString()
  }
  // A sign before the first group must not hide what follows.
  for (const [group] of matchesOf(word.replaceAll(/[\r\n]/g, ''), BASE64)) {
    for (const from of [0, 1, 2, 3]) yield Buffer.from(group.slice(from), 'base64').toString()
  }
}

function unescaped(word: string): string {
  return word.replaceAll(ESCAPE, (escape, byte, x, u, braced, decimal, hex) => {
    const code = decimal ? Number(decimal) : Number.parseInt(byte ?? x ?? u ?? braced ?? hex, 16)
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : escape
  })
}
