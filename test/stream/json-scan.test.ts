import { describe, expect, it } from 'vitest'
import { JsonScan, type JsonLimits } from '../../src/stream/raw-json.ts'
import { runs } from '../_runs.ts'
import { SEED } from '../_seed.ts'

const NAMES = ['depth', 'containers', 'values', 'literal', 'key'] as const
const NONE: JsonLimits = {
  depth: Infinity,
  containers: Infinity,
  values: Infinity,
  literal: Infinity,
  key: Infinity,
}

/** Pseudo-random numbers below `n`, the same ones for the same seed. */
function randomOf(seed: number): (n: number) => number {
  let state = seed >>> 0
  return (n) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * n)
  }
}

const LETTERS = ['a', '"', '\\', '{', '[', ']', '}', ',', ':', '\n', 'é', '€', '😀', '\ud800', ' ']

/** A random document with blanks in all places where JSON allows them. */
function documentOf(random: (n: number) => number, depth = 0): string {
  const blank = () => ['', '', '', ' ', '\n', '\t', '\r\n'][random(7)]!
  const text = () => {
    const length = random(8) ? random(12) : random(200)
    const made = Array.from({ length }, () => LETTERS[random(random(3) ? 1 : LETTERS.length)]).join(
      '',
    )
    return random(4)
      ? JSON.stringify(made)
      : `"${'\\u005c'.repeat(random(3))}${'\\\\'.repeat(random(5))}"`
  }
  const items = (one: () => string) =>
    Array.from({ length: random(4) }, one).join(`${blank()},${blank()}`)
  const inner = () => documentOf(random, depth + 1)
  switch (random(depth > 6 ? 3 : 5)) {
    case 0:
      return text()
    case 1:
      return [`${random(2) ? '-' : ''}${random(1e9)}`, '1e-7', '0.5', '-12E+3'][random(4)]!
    case 2:
      return ['true', 'false', 'null'][random(3)]!
    case 3:
      return `[${blank()}${items(inner)}${blank()}]`
    default:
      return `{${blank()}${items(() => `${text()}${blank()}:${blank()}${inner()}`)}${blank()}}`
  }
}

/** The measures of a valid document, from its tokens. */
function measured(document: string): JsonLimits {
  const tokens = document.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s"{}[\],:]+/gsu) ?? []
  const bytes = (token: string) => Buffer.byteLength(token)
  let depth = 0
  let deepest = 0
  for (const token of tokens) {
    if (token === '{' || token === '[') deepest = Math.max(deepest, ++depth)
    if (token === '}' || token === ']') depth--
  }
  return {
    depth: deepest,
    containers: tokens.filter((token) => token === '{' || token === '[').length,
    values: tokens.filter((token) => '{[,:'.includes(token)).length,
    literal: Math.max(0, ...tokens.filter((token) => /^[-\w]/.test(token)).map(bytes)),
    key: Math.max(
      0,
      ...tokens.flatMap((one, i) => (tokens[i + 1] === ':' ? [bytes(one) - 2] : [])),
    ),
  }
}

function scanned(pieces: readonly Buffer[], limits: JsonLimits): keyof JsonLimits | undefined {
  const scan = new JsonScan(limits)
  for (const piece of pieces) {
    const excess = scan.push(piece)
    if (excess) return excess
  }
  return undefined
}

describe('a scan', () => {
  it('counts what a parser would find, wherever the text is cut', () => {
    const random = randomOf(SEED)
    for (let round = 0; round < runs(500); round++) {
      const document = documentOf(random)
      // What the measures say is worth something for valid documents only.
      JSON.parse(document)
      const limits = measured(document)
      const body = Buffer.from(document)
      const bytewise = Array.from(body, (byte) => Buffer.from([byte]))
      const where = `seed ${SEED}, round ${round}: ${document}`
      expect(scanned([body], limits), where).toBeUndefined()
      expect(scanned(bytewise, limits), where).toBeUndefined()
      if (body.length < 500) {
        for (let at = 0; at <= body.length; at++) {
          const halves = [body.subarray(0, at), body.subarray(at)]
          expect(scanned(halves, limits), `${where}, cut at ${at}`).toBeUndefined()
        }
      }
      for (const name of NAMES) {
        if (limits[name] === 0) continue
        const tighter = { ...NONE, [name]: limits[name] - 1 }
        expect(scanned([body], tighter), where).toBe(name)
        expect(scanned(bytewise, tighter), where).toBe(name)
      }
    }
  })

  it('measures long strings, long numbers and long names in many pieces', () => {
    const random = randomOf(7)
    const cut = (body: Buffer) => {
      const pieces: Buffer[] = []
      for (let at = 0; at < body.length;) {
        const next = at + 1 + random(5000)
        pieces.push(body.subarray(at, next))
        at = next
      }
      return pieces
    }
    const texts = ['x'.repeat(1e5), '\\"'.repeat(5e4), `${'y'.repeat(999)}\\\\`.repeat(100)]
    for (const text of texts) {
      const long = cut(Buffer.from(`{"a":["${text}","[[["],"${text}":1}`))
      const limits = { depth: 2, containers: 2, values: 6, literal: 1, key: text.length }
      expect(scanned(long, limits)).toBeUndefined()
      expect(scanned(long, { ...limits, key: text.length - 1 })).toBe('key')
    }
    const number = cut(Buffer.from(`[${'1'.repeat(50_000)}]`))
    expect(scanned(number, { ...NONE, literal: 50_000 })).toBeUndefined()
    expect(scanned(number, { ...NONE, literal: 49_999 })).toBe('literal')
  })

  it('takes what is no JSON to its end, for the parser to refuse', () => {
    const limits = { depth: 4, containers: 9, values: 20, literal: 40, key: 9 }
    for (const text of ['', '}}}]', '{"a', '\\"\\', '"\\', ':::', '﻿{}', 'undefined "', '"a"b"c"']) {
      expect(scanned([Buffer.from(text)], limits), text).toBeUndefined()
    }
  })
})
