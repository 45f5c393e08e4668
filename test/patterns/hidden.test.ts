/** Encoded text: the scanner decodes only parts of a text, and must find what decoding all of it finds. */
import fc from 'fast-check'
import { afterEach, expect, it, vi } from 'vitest'
import { buildAutomata, parsePattern, type CompiledPatterns } from '../../src/patterns/build.ts'
import { Decoders, mayContainMatch } from '../../src/patterns/search.ts'
import { UNSEEN_CLASS, type ProductDfa } from '../../src/patterns/product-dfa.ts'
import { PatternScan, compilePatterns } from '../../src/patterns/patterns.ts'
import { MatchCursor } from '../../src/patterns/cursor.ts'
import { runSync } from '../../src/patterns/time-slice.ts'
import { Escapes } from '../../src/patterns/views/escapes.ts'
import { LITERALS, ordinaryText } from '../guard/texts.ts'
import { runs } from '../_runs.ts'
import { expectSame } from '../_same.ts'

const PATTERNS = [
  [
    'heron',
    'abcdef',
    'cd',
    'blue heron',
    'banned',
    ' abcde',
    'abcde ',
    'wörld',
    'привет',
    'a  bcde',
  ],
  [
    'facade',
    'decade',
    'beaded',
    '12345',
    '00000',
    'a&b&c&d&e',
    '100%%%',
    'heron&',
    'her%on',
    '-----',
  ],
  ['a.*b', 'he(r|ro)n?x', '\\bhen\\b', 'x\\s+y'],
].flat()

// What encoded text begins with, goes on with and ends with.
const PIECES = [
  [
    'a',
    'e',
    'F',
    'g',
    'her',
    'on',
    'heron',
    'x',
    '0',
    '9',
    '12',
    'ab',
    'face',
    'added',
    'bead',
    'token',
  ],
  [
    'blue ',
    'configuration',
    'understand',
    ' ',
    '  ',
    '\n',
    '-',
    ':',
    ', ',
    '.',
    '_',
    '+',
    '/',
    '=',
    '"',
  ],
  ['%', '&', '\\', '&#', '&#x', '\\u', '\\x', '\\u{', '%68', '%65ron', '\\u0068eron', '&#104;eron'],
  [
    '&#104',
    '\\ud83e\\udd85',
    '%f0%9f',
    'aGVyb24',
    'xYmFubmVk',
    '62616e6e6564',
    '62:61:6e:6e:65:64',
    '0x',
    '\r\n',
    '0x68',
    '**',
  ],
  ['\u200b', '\u0001', '\u0308', 'é', '日', 'е', '🦅', '\ud83e', '\udd85'],
].flat()

const ENCODERS: readonly ((text: string) => string)[] = [
  (text) => Buffer.from(text).toString('base64'),
  (text) => Buffer.from(text).toString('base64url'),
  (text) => Buffer.from(text).toString('hex'),
  (text) => [...Buffer.from(text)].map((byte) => byte.toString(16).padStart(2, '0')).join('-'),
  (text) =>
    [...Buffer.from(text)].map((byte) => `0x${byte.toString(16).padStart(2, '0')}`).join(', '),
  (text) =>
    Buffer.from(`All of it is ${text} and so on`)
      .toString('base64')
      .replace(/.{8,11}(?!=)/g, '$&\n'),
  (text) => text.replace(/[aeiou]/g, (letter) => `%${letter.charCodeAt(0).toString(16)}`),
  (text) => text.replace(/[aeiou]/g, (letter) => `&#${letter.charCodeAt(0)}`),
  (text) => text.replace(/[^aeiou]/gu, (one) => `\\u{${one.codePointAt(0)!.toString(16)}}`),
  (text) => text.replace(/[aeiou]/g, (one) => `\\u00${one.charCodeAt(0).toString(16)}`),
  (text) => text.replace(/[aeiou]/g, (one) => `\\x${one.charCodeAt(0).toString(16)}`),
  (text) => text.replace(/[^aeiou]/g, (one) => `&#x${one.charCodeAt(0).toString(16)};`),
]

/** Words with escapes of all kinds, with hexadecimal digits in small and in capital letters. */
const ESCAPED = [
  ['%68eron', 'hero%6e', 'hero%6E', 'w%c3%b6rld', 'w%C3%B6rld'],
  ['\\x68eron', 'hero\\X6E', 'w\\xc3\\xb6rld', 'w\\Xc3\\XB6rld'],
  ['\\u0068eron', '\\U0068eron', '\\uff48eron', '\\uFF48eron', '\\u{68}eron', '\\U{FF48}eron'],
  ['&#104;eron', '&#104eron', '&#x68;eron', '&#X68;eron', '&#xff48;eron', '&#XFF48;eron'],
].flat()

const INVISIBLE = ['', '\u200b', '\u0001', '\u200b\u200b', '\u{e0100}', '\u007f', '\u0308']

const DISGUISES: readonly ((text: string) => string)[] = [
  (text) => text,
  (text) => text.toUpperCase(),
  (text) => text.replaceAll(' ', '  \n\t '),
  (text) => [...text.replaceAll(' ', '')].join(' '),
  (text) => [...text.replaceAll(' ', '')].join(' . '),
  (text) => text.replace(/(?<=^.{3})/u, '\u200b'),
  (text) => text.replace(/(?<=^.{3})/u, '\0'),
  (text) => text.replaceAll('o', '0').replaceAll('i', '1').replaceAll('a', '@'),
  (text) => text.replaceAll('o', '\u043e').replaceAll('a', '\u0430'),
  (text) => [...text].toReversed().join(''),
  (text) => Buffer.from(text).toString('base64'),
  (text) => Buffer.from(` ${text}`).toString('base64url'),
  (text) => Buffer.from(text).toString('hex'),
  (text) => [...Buffer.from(text)].map((byte) => byte.toString(16)).join(' '),
  (text) => [...Buffer.from(text)].map((byte) => `0x${byte.toString(16)}`).join(', '),
  (text) => [...Buffer.from(text)].map((byte) => `"0X${byte.toString(16)}"`).join(',\n  '),
  (text) => text.replace(/(?<=^..)..../u, '**$&**'),
  (text) => text.replace(/(?<=^.{4})/u, '_'),
  (text) => `\`${text.replace(' ', '` ~~')}`,
  (text) => text.replace(/(?<=^.{3})/u, '\u{e0020}'),
  (text) => text.replace(/(?<=^.{3})/u, '\f'),
  (text) => text.replace(' ', '\f'),
  (text) => text.replace(' ', ' \f\n'),
  (text) => text.replace(/[aeiou]/g, (one) => `%${one.charCodeAt(0).toString(16)}`),
  (text) => text.replace(/[aeiou]/g, (one) => `\\u00${one.charCodeAt(0).toString(16)}`),
]

afterEach(() => vi.restoreAllMocks())

it('finds a literal in every disguise, wherever in a text it stands', () => {
  const words = ordinaryText(100, 11)
  for (const literal of ['blue heron', 'acquisition', 'casino']) {
    const matcher = compilePatterns([literal, 'begin.*end'])
    for (const disguise of DISGUISES) {
      const secret = disguise(literal)
      for (let before = 0; before <= 20; before++) {
        for (const after of [0, 5, 40]) {
          const text = `${words.slice(0, before)} ${secret} ${words.slice(0, after)}`
          expect(matcher.find(text)?.pattern, text).toBe(0)
        }
      }
    }
  }
})

/** A slow reference scanner: every decoder reads every character. */
class ReferenceScan {
  readonly #compiled: Pick<CompiledPatterns, 'text' | 'decoded'>
  readonly #cursor: MatchCursor
  readonly #decoded: Decoders
  /** Characters of a run of base64, with their offsets. */
  #run: (readonly [codePoint: number, start: number, end: number])[] = []
  #position = 0
  #rest = ''

  constructor(compiled: { text: ProductDfa; decoded: ProductDfa }) {
    this.#compiled = compiled
    this.#cursor = new MatchCursor(compiled.text)
    this.#decoded = new Decoders(compiled.decoded)
  }

  push(text: string) {
    const all = this.#rest + text
    this.#rest = /[\ud800-\udbff]$/.exec(all)?.[0] ?? ''
    return (
      this.#read(all.slice(0, all.length - this.#rest.length)) ?? { safeOffset: this.#hold(false) }
    )
  }

  end() {
    const step = this.#read(this.#rest)
    if (step) return step
    if (this.#cursor.finish()) return this.#stop()
    for (const decoder of this.#decoders) decoder.end()
    return this.#decoded.firstMatch ? this.#stop() : { safeOffset: this.#position }
  }

  get #decoders() {
    return [this.#decoded.base64, ...this.#decoded.hex, this.#decoded.escapes]
  }

  #read(text: string) {
    const { decoded } = this.#compiled
    for (const character of text) {
      const codePoint = character.codePointAt(0)!
      const [start, end] = [this.#position, this.#position + character.length]
      if (this.#cursor.read(codePoint, start, end)) return this.#stop()
      if (decoded!.classOf(codePoint) !== UNSEEN_CLASS) {
        this.#readBase64(codePoint, start, end)
        for (const decoder of this.#decoders.slice(1)) decoder.read(codePoint, start, end)
        if (this.#decoded.firstMatch) return this.#stop()
      }
      this.#position = end
    }
    return undefined
  }

  /** A run of fewer than 8 characters is not decoded. */
  #readBase64(...one: readonly [codePoint: number, start: number, end: number]) {
    if (this.#run.length >= 8 && (one[0] === 0x0a || one[0] === 0x0d)) return
    if (!/^[\w+/-]$/.test(String.fromCodePoint(one[0]))) {
      this.#run = []
      return this.#decoded.base64.end()
    }
    this.#run.push(one)
    if (this.#run.length < 8) return
    for (const each of this.#run.length === 8 ? this.#run : [one])
      this.#decoded.base64.read(...each)
  }

  #stop() {
    const found = this.#cursor.isOver ? runSync(this.#cursor.locate()) : this.#decoded.firstMatch!
    const { pattern, view, start, end } = found
    return { safeOffset: Math.min(this.#hold(true), start), match: { pattern, view, start, end } }
  }

  #hold(isExact: boolean): number {
    const holds = this.#decoders.map((decoder) => decoder.pendingStart(isExact))
    if (this.#run.length < 8) holds.push(this.#run[0]?.[1] ?? Infinity)
    return Math.min(this.#position, this.#cursor.pendingStart(isExact), ...holds)
  }
}

function machinesOf(patterns: readonly string[]): CompiledPatterns {
  return runSync(buildAutomata(patterns.map((pattern) => runSync(parsePattern(pattern)))))
}

/** Scans a text in pieces of these sizes beside the reference. @returns whether there is a match */
function compare(compiled: CompiledPatterns, text: string, sizes: () => number): boolean {
  const reference = new ReferenceScan({ text: compiled.text, decoded: compiled.decoded! })
  const scan = new PatternScan(compiled)
  for (let at = 0, next = 0; at < text.length; at = next) {
    next = at + sizes()
    const expected = reference.push(text.slice(at, next))
    expectSame(scan.push(text.slice(at, next)), expected, text)
    if ('match' in expected) return true
  }
  const expected = reference.end()
  expectSame(scan.end(), expected, text)
  return 'match' in expected
}

it('says and finds the same as a scanner that decodes everything', () => {
  const numRuns = runs(70)
  let matches = 0
  const pieces = fc.oneof(
    fc.array(fc.constantFrom(...PIECES), { maxLength: 30 }),
    fc
      .array(fc.constantFrom(...PIECES), { minLength: 2, maxLength: 4 })
      .chain((few) => fc.array(fc.constantFrom(...few), { maxLength: 30 })),
  )
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom(...PATTERNS), { minLength: 1, maxLength: 3 }),
      pieces,
      fc.constantFrom(...ENCODERS),
      fc.nat(40),
      fc.infiniteStream(fc.nat(12)),
      (patterns, said, encode, place, sizes) => {
        const compiled = machinesOf(patterns)
        if (!compiled.decoded) return
        const hidden = place > 30 ? '' : encode('xyz'.slice(0, place % 4) + patterns[0]!)
        const middle = place % 5 > 0 ? hidden.length : place % (hidden.length + 1)
        // An invisible character inside it changes nothing.
        const secret =
          hidden.slice(0, middle) + INVISIBLE[place % INVISIBLE.length] + hidden.slice(middle)
        const text = [...said.slice(0, place), secret, ...said.slice(place)].join('')
        // Cached transitions must not change the result.
        const isSuspect = runSync(mayContainMatch(compiled, text))
        const isMatch = compare(compiled, text, () => 1 + sizes.next().value!)
        if (isMatch) expect(isSuspect).toBe(true)
        if (isMatch) matches++
      },
    ),
    { numRuns },
  )
  expect(matches).toBeGreaterThan(numRuns / 10)
})

it('says and finds the same when a piece ends inside a surrogate pair, however often', () => {
  const compiled = machinesOf(['heron'])
  const [inRun, inWord] = ['heraheraaaaa\u{e0100}', 'It is all about hero\u{e0100}ns.']
  // A whole text is read in steps, too.
  const matcher = compilePatterns(['heron'])
  const whole = `x${'🦅'.repeat(200)} heron`
  // After some time V8 compiles what reads a text; compiled code may behave differently where a piece is a slice of a string.
  for (let time = 0; time < 3_000; time++) {
    expect(compare(compiled, inRun, () => 13)).toBe(false)
    expect(compare(compiled, inWord, () => 21)).toBe(true)
    if (time % 10 === 0) expect(matcher.find(whole)).toMatchObject({ start: 402, end: 407 })
  }
})

it('finds what is encoded behind a text of any length', () => {
  const compiled = machinesOf(['heron', 'begin.*end'])
  const words = 'All the words of it, 12 and 345. '.repeat(200)
  for (const before of [words, `begin ${words}`, `h${'\u200b'.repeat(5_000)}`, `${words}begin a`]) {
    const text = `${before}%65ron or h%65ron`
    const found = new ReferenceScan({ text: compiled.text, decoded: compiled.decoded! }).push(text)
    expect(found).toMatchObject({ match: { view: 'decoded' } })
    expect(new PatternScan(compiled).push(text)).toEqual(found)
  }
})

it('says and finds the same, wherever an invisible character stands', () => {
  const compiled = machinesOf(['heron', 'wörld'])
  for (const secret of [...ENCODERS.map((encode) => encode('a heron')), ...ESCAPED]) {
    for (let cut = 0; cut <= secret.length; cut++) {
      for (const [index, invisible] of INVISIBLE.entries()) {
        const text = `It is ${secret.slice(0, cut)}${invisible}${secret.slice(cut)}, 1.`
        // Each place has pieces of each size, and so has each character.
        const size = [1, 4, text.length][(cut + index) % 3]!
        expect(compare(compiled, text, () => size)).toBe(true)
        expect(runSync(mayContainMatch(compiled, text)), text).toBe(true)
      }
    }
  }
})

it('retains what may be decoded before a match, and nothing behind it', () => {
  const compiled = machinesOf(['heron', 'cd'])
  const befores = [
    'zzab',
    '12:34:',
    '12::34:',
    '12 34 ',
    '1 2 ',
    'a\u200bb',
    '12\u200b34 ',
    '🦅12 ',
    '日ab',
  ]
  for (const before of befores) {
    for (const after of ['', 'ef', ' efg', ':12 34', '.', '\u200bef', '🦅']) {
      for (const text of [`It is ${before}cd${after}`, `${before}cd${after}`]) {
        for (const size of [1, 3, text.length]) {
          expect(compare(compiled, text, () => size)).toBe(true)
        }
      }
    }
  }
})

it('decodes nothing twice, however long a match in the text itself is under way', () => {
  const read = vi.spyOn(Escapes.prototype, 'read')
  const text = `begin ${'%41 and so on '.repeat(300)}`
  expect(new PatternScan(machinesOf(['heron', 'begin.*end'])).push(text)).toEqual({ safeOffset: 0 })
  expect(read.mock.calls.length).toBeLessThan(text.length)
})

it('finds encoded text in a whole text, however long it is and wherever it stands', () => {
  const compiled = machinesOf(['heron'])
  const words = 'All the words of it. '.repeat(3_500)
  const long = 'It is all about something else. '.repeat(90)
  for (const encode of ENCODERS) {
    const secret = encode('a heron')
    const texts = [encode(`${long}a heron${long}`), encode(`${long}xa heron`)]
    for (const border of [1 << 10, 1 << 13, 1 << 15, 1 << 16]) {
      for (let cut = 0; cut <= secret.length; cut += 3) {
        texts.push(`${words.slice(0, border - cut - 1)} ${secret} ${words.slice(0, 100)}`)
      }
    }
    for (const text of texts) {
      expect(runSync(mayContainMatch(compiled, text)), secret).toBe(true)
    }
  }
})

it('finds encoded text in a whole text, at whichever bit and digit it begins and ends', () => {
  const compiled = machinesOf(['heron', 'ivory', 'صلى الله'])
  const [[base64], rows] = [ENCODERS, ENCODERS.slice(2, 4)]
  // Letters of one to four bytes.
  for (const word of [
    'heron',
    'hеron',
    'һeron',
    'ｈeron',
    'ⓗeron',
    '🅷eron',
    'heroｎ',
    'hero🅽',
    'ﷺ',
  ]) {
    for (const before of ['', 'x', 'xy', 'xyz', 'wxyz', 'xyzxyz', '\0', 'é', '日']) {
      const texts = rows.map((encode) => encode(before + word))
      for (let first = 0; first < 4; first++)
        texts.push('aaa'.slice(0, first) + base64!(before + word))
      for (const text of texts) {
        const hidden = text.replace(/=+$/, '')
        if (hidden.length < 8 || !compare(compiled, hidden, () => hidden.length)) continue
        expect(runSync(mayContainMatch(compiled, hidden)), hidden).toBe(true)
      }
      const whole = base64!(before + word).replace(/=+$/, '')
      if (whole.length >= 8) expect(compare(compiled, whole, () => 1)).toBe(true)
    }
  }
  // One begins in the middle of the other's digits, and an escape ends with the text.
  for (const text of ['6976865726f6e', '06976865726f6e', 'hero&#110', 'hero&#x6e']) {
    expect(compare(compiled, text, () => text.length)).toBe(true)
    expect(runSync(mayContainMatch(compiled, text)), text).toBe(true)
  }
})

it.each([
  'h%c3eron',
  'h\\ud83eeron',
  'her%ffon',
  '%c3x%a9clair',
  '\\ud83ex\\udd85nests',
  `${ENCODERS[0]!('xxxxher')}. ${ENCODERS[0]!('heronx').slice(4)}.`,
  `${Buffer.from('xxxxxhehe').toString('base64')}. ${Buffer.from('hexxxx').toString('base64')}`,
  `${Buffer.from('xxxxxhehe').toString('hex')}. ${Buffer.from('hexxxx').toString('hex')}`,
])('does not put together what does not belong together: %s', (text) => {
  const compiled = machinesOf(['heron', 'hehehe', 'éclair', '🦅nests'])
  expect(compare(compiled, text, () => text.length)).toBe(false)
  expect(runSync(mayContainMatch(compiled, text))).toBe(false)
})

it('finds nothing in ordinary texts, whatever figures are in them', () => {
  const compiled = machinesOf(LITERALS)
  const figures =
    ' On 2024-05-12 at 16:45:12, 12,345,678 bytes: 0x4f5e6a7b, 2d05-61fe-4c2b, 100 %, R&D, C:\\now.'
  expect(runSync(mayContainMatch(compiled, ordinaryText(100_000, 3) + figures))).toBe(false)
})

it('keeps texts apart that are searched at the same time', () => {
  const compiled = machinesOf(['heron'])
  const words = 'All the words of it, 12 and 345. '.repeat(2_000)
  const secrets = ['', 'aGVyb24x', '', 'h%65ron', '68 65 72 6f 6e', `h%65r ${'x'.repeat(2_000)}`]
  const texts = [5_000, 15_000, 60_000].flatMap((length) =>
    secrets.map((secret) => words.slice(0, length) + secret),
  )
  // Afterwards all transitions are built, which would be a reason to pause.
  for (const text of texts) runSync(mayContainMatch(compiled, text))
  const looks = texts.map((text) => mayContainMatch(compiled, text))
  const said = texts.map((): boolean | undefined => undefined)
  while (said.includes(undefined)) {
    for (const [index, look] of looks.entries()) {
      if (said[index] !== undefined) continue
      const { done, value } = look.next()
      if (done) said[index] = value
    }
  }
  const all = [false, true, false, true, true, false]
  expect(said).toEqual([...all, ...all, ...all])
})
