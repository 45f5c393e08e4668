/** Most of a text is passed over by what decodes it. Nobody may be able to tell. */
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { buildMachines, parsePattern, type Machines } from '../../src/guard/matcher/build.ts'
import { DecodedText } from '../../src/guard/matcher/decoded.ts'
import { isSuspect } from '../../src/guard/matcher/find.ts'
import { NOTHING } from '../../src/guard/matcher/machine.ts'
import { TextScan } from '../../src/guard/matcher/scan.ts'
import { Track } from '../../src/guard/matcher/track.ts'
import { atOnce } from '../../src/guard/stretch.ts'

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

// What decoders begin, go on and end with.
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
  ],
  ['\u200b', '\u0001', '\u0308', 'é', '日', 'е', '🦅', '\ud83e', '\udd85'],
].flat()

const ENCODERS: readonly ((text: string) => string)[] = [
  (text) => Buffer.from(text).toString('base64'),
  (text) => Buffer.from(text).toString('base64url'),
  (text) => Buffer.from(text).toString('hex'),
  (text) => [...Buffer.from(text)].map((byte) => byte.toString(16).padStart(2, '0')).join('-'),
  (text) => text.replace(/[aeiou]/g, (letter) => `%${letter.charCodeAt(0).toString(16)}`),
  (text) => text.replace(/[aeiou]/g, (letter) => `&#${letter.charCodeAt(0)}`),
  (text) => text.replace(/[^aeiou]/gu, (one) => `\\u{${one.codePointAt(0)!.toString(16)}}`),
]

const UNSEEN = ['', '\u200b', '\u0001', '\u200b\u200b', '\u{e0100}', '']

/** How far a text may go, and what is found in it, when every decoder reads every character. */
class Plain {
  readonly #machines: Machines
  readonly #track: Track
  readonly #decoded: DecodedText
  #position = 0
  #rest = ''

  constructor(machines: Machines & { decoded: NonNullable<Machines['decoded']> }) {
    this.#machines = machines
    this.#track = new Track(machines.text)
    this.#decoded = new DecodedText(machines.decoded)
  }

  push(text: string) {
    const all = this.#rest + text
    this.#rest = /[\ud800-\udbff]$/.exec(all)?.[0] ?? ''
    return this.#read(all.slice(0, all.length - this.#rest.length)) ?? { safe: this.#hold(false) }
  }

  end() {
    const step = this.#read(this.#rest)
    if (step) return step
    if (this.#track.finish()) return this.#stop()
    for (const decoder of this.#decoders) decoder.end()
    return this.#decoded.found ? this.#stop() : { safe: this.#position }
  }

  get #decoders() {
    return [...this.#decoded.runs, this.#decoded.escapes]
  }

  #read(text: string) {
    const { text: machine, decoded } = this.#machines
    for (const character of text) {
      const codePoint = character.codePointAt(0)!
      const [start, end] = [this.#position, this.#position + character.length]
      const codeClass = machine.classOf(codePoint)
      if (codeClass !== NOTHING && this.#track.advance(codeClass, start, end)) return this.#stop()
      if (decoded!.classOf(codePoint) !== NOTHING) {
        for (const decoder of this.#decoders) decoder.read(codePoint, start, end)
        if (this.#decoded.found) return this.#stop()
      }
      this.#position = end
    }
    return undefined
  }

  #stop() {
    const { pattern, view, start, end } = (this.#track.found ?? this.#decoded.found)!
    return { safe: Math.min(this.#hold(true), start), hit: { pattern, view, start, end } }
  }

  #hold(isExact: boolean): number {
    const holds = this.#decoders.map((decoder) => decoder.hold(isExact))
    return Math.min(this.#position, this.#track.hold(isExact), ...holds)
  }
}

function machinesOf(patterns: readonly string[]): Machines {
  return atOnce(buildMachines(patterns.map((pattern) => atOnce(parsePattern(pattern)))))
}

it('passes over what need not be decoded, and goes as far and finds the same as without', () => {
  let hits = 0
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
        const machines = machinesOf(patterns)
        const { text: machine, decoded } = machines
        if (!decoded) return
        const hidden = place > 30 ? '' : encode('xyz'.slice(0, place % 4) + patterns[0]!)
        const middle = place % 5 > 0 ? hidden.length : place % (hidden.length + 1)
        // Something that cannot be seen in the middle of it changes nothing.
        const secret = hidden.slice(0, middle) + UNSEEN[place % 6] + hidden.slice(middle)
        const text = [...said.slice(0, place), secret, ...said.slice(place)].join('')
        // What it has learnt must not change anything.
        const isSaid = atOnce(isSuspect(machines, text, false))
        const plain = new Plain({ text: machine, decoded })
        const scan = new TextScan(machines)
        for (let at = 0, next = 0; at < text.length; at = next) {
          next += 1 + sizes.next().value!
          const expected = plain.push(text.slice(at, next))
          expect(scan.push(text.slice(at, next))).toEqual(expected)
          if (!('hit' in expected)) continue
          expect(isSaid).toBe(true)
          hits++
          return
        }
        const expected = plain.end()
        expect(scan.end()).toEqual(expected)
        if ('hit' in expected) expect(isSaid).toBe(true)
      },
    ),
    { numRuns: 1_500 },
  )
  expect(hits).toBeGreaterThan(150)
})

it('finds what is hidden behind a text of any length that says nothing', () => {
  const machines = machinesOf(['heron', 'begin.*end'])
  const words = 'All the words of it, 12 and 345. '.repeat(200)
  for (const before of [words, `begin ${words}`, `h${'\u200b'.repeat(5_000)}`, `${words}begin a`]) {
    const text = `${before}%65ron or h%65ron`
    const found = new Plain({ text: machines.text, decoded: machines.decoded! }).push(text)
    expect(found).toMatchObject({ hit: { view: 'D' } })
    expect(new TextScan(machines).push(text)).toEqual(found)
  }
})

it('finds the same in a whole text, wherever something that cannot be seen stands in it', () => {
  const machines = machinesOf(['heron'])
  for (const encode of ENCODERS) {
    const secret = encode('a heron')
    for (let cut = 0; cut < secret.length; cut++) {
      for (const unseen of UNSEEN) {
        const text = `It is ${secret.slice(0, cut)}${unseen}${secret.slice(cut)}, 1 & 2.`
        expect(new TextScan(machines).push(text)).toMatchObject({ hit: { pattern: 0 } })
        expect(atOnce(isSuspect(machines, text, false)), text).toBe(true)
      }
    }
  }
})
