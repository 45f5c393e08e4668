/** Random JSON, and random damage to it. */
import { pick, type Random } from './_random.ts'

/** A text that is written into JSON as it is. It stands for what no value of this language becomes. */
export class Literal {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

/** Values that have broken programs before. */
export const ODD: readonly unknown[] = [
  null,
  true,
  false,
  0,
  -1,
  1.5,
  2 ** 53,
  -(2 ** 63),
  1e-7,
  1e308,
  '',
  ' ',
  '0',
  'null',
  '__proto__',
  'constructor',
  '\u0000',
  '\ud800',
  '\u{1f600}',
  '\u2028\r\n\n',
  'data: [DONE]\n\n',
  'a'.repeat(300),
  [],
  {},
  [[]],
  [null],
  { '': 0 },
  new Literal('1e999'),
  new Literal('-0'),
  new Literal('0.1e-400'),
  new Literal('{"__proto__":{"stream":true},"a":1,"a":2}'),
  new Literal('"\\ud800\\u0000\\/"'),
  new Literal('123456789012345678901234567890'),
]

const NAMES = [
  '__proto__',
  'constructor',
  'toString',
  '',
  'x',
  'type',
  'index',
  'usage',
  'error',
  'hasOwnProperty',
]

/** A value of at most some levels. */
export function anyJson(random: Random, levels = 3): unknown {
  const kind = random(levels > 0 ? 10 : 7)
  if (kind < 5) return pick(random, ODD)
  if (kind === 5) return random(1_000_000) - 1000
  if (kind === 6) return word(random)
  const size = random(4)
  if (kind < 8) return Array.from({ length: size }, () => anyJson(random, levels - 1))
  return Object.fromEntries(
    Array.from({ length: size }, () => [pick(random, NAMES), anyJson(random, levels - 1)]),
  )
}

/** A short text: letters, sometimes of other scripts. */
export function word(random: Random): string {
  const letters = random(8) === 0 ? 'äß漢字🙂"\\\n\u0007' : 'abcdefgh ijklmno pqrstuvwxyz'
  return Array.from({ length: 1 + random(24) }, () => letters[random(letters.length)]).join('')
}

/** A copy in which one value, member or item is replaced, left out, doubled or added. */
export function damage(value: unknown, random: Random): unknown {
  const count = size(value)
  return change(value, { at: random(count) }, random)
}

function size(value: unknown): number {
  if (typeof value !== 'object' || value === null || value instanceof Literal) return 1
  return Object.values(value).reduce((sum: number, one) => sum + size(one), 1)
}

function change(value: unknown, place: { at: number }, random: Random): unknown {
  if (place.at-- === 0) return damaged(value, random)
  if (typeof value !== 'object' || value === null || value instanceof Literal) return value
  if (Array.isArray(value)) return value.map((one) => change(one, place, random))
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [name, change(one, place, random)]),
  )
}

function damaged(value: unknown, random: Random): unknown {
  if (Array.isArray(value) && random(2) === 0) {
    const at = random(value.length + 1)
    switch (random(4)) {
      case 0:
        return value.toSpliced(at, 1)
      case 1:
        return value.toSpliced(at, 0, ...value.slice(at, at + 1))
      case 2:
        return value.toReversed()
      default:
        return value.toSpliced(at, 0, anyJson(random))
    }
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value) && random(2) === 0) {
    const members = Object.entries(value)
    const at = random(members.length + 1)
    return Object.fromEntries(
      random(2) === 0
        ? members.toSpliced(at, 1)
        : [...members, [pick(random, NAMES), anyJson(random)]],
    )
  }
  if (typeof value === 'number' && random(2) === 0) {
    return pick(random, [-value, value * 1e6, value + 0.5, String(value), [value], 2 ** 53])
  }
  if (typeof value === 'string' && random(2) === 0) {
    return pick(random, [
      `${value}${value}`,
      value.slice(1),
      value.toUpperCase(),
      [value],
      `${value}\u0000`,
    ])
  }
  return anyJson(random)
}

/** The text that `JSON.stringify` makes, with {@link Literal} as it is. */
export function toText(value: unknown): string {
  if (value instanceof Literal) return value.text
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(toText).join(',')}]`
  return `{${Object.entries(value)
    .map(([name, one]) => `${JSON.stringify(name)}:${toText(one)}`)
    .join(',')}}`
}

/** Damage to bytes: some of them changed, left out, doubled, or cut off. */
export function damageBytes(bytes: Buffer, random: Random): Buffer {
  const at = random(bytes.length + 1)
  const end = at + 1 + random(8)
  switch (random(6)) {
    case 0:
      return bytes.subarray(0, at)
    case 1:
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(end)])
    case 2:
      return Buffer.concat([bytes.subarray(0, end), bytes.subarray(at)])
    case 3: {
      const noise = Buffer.from(Array.from({ length: 1 + random(4) }, () => random(256)))
      return Buffer.concat([bytes.subarray(0, at), noise, bytes.subarray(at)])
    }
    case 4: {
      const odd = pick(random, [
        '"',
        '{',
        '}',
        '[',
        ']',
        ',',
        ':',
        '\\',
        '\0',
        '\n',
        '\n\n',
        '-',
        '9',
      ])
      return Buffer.concat([bytes.subarray(0, at), Buffer.from(odd), bytes.subarray(end - 1)])
    }
    default: {
      const copy = Buffer.from(bytes)
      if (at < copy.length) copy[at]! ^= 1 << random(8)
      return copy
    }
  }
}
