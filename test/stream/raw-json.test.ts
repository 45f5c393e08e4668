import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  carry,
  forget,
  mapped,
  stringify,
  writtenIn,
  writtenMember,
  writtenString,
} from '../../src/plugin/json.ts'

const LONG = 512
const PLACE = JSON.stringify('\u00ab written \u00bb')

/** JSON as its writers differ: white space anywhere, characters in other words. */
class Writer {
  readonly #dice: () => number

  constructor(dice: () => number) {
    this.#dice = dice
  }

  value(value: unknown): string {
    if (typeof value === 'string') return this.string(value)
    if (Array.isArray(value)) return `[${value.map((item) => this.#spaced(item)).join(',')}]`
    if (typeof value === 'object' && value !== null) return this.object(Object.entries(value))
    return JSON.stringify(value)
  }

  object(members: readonly (readonly [name: string, value: unknown])[]): string {
    const texts = members.map(
      ([name, value]) =>
        `${this.#space()}${this.string(name)}${this.#space()}:${this.#spaced(value)}`,
    )
    return `{${texts.join(',')}${this.#space()}}`
  }

  string(text: string): string {
    return JSON.stringify(text).replace(/\\u.{4}|\\.|[^\\"]/gs, (character) => {
      if (character.length > 1 || this.#dice() > 3) return character
      if (character === '/') return '\\/'
      return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
    })
  }

  #spaced(value: unknown): string {
    return `${this.#space()}${this.value(value)}${this.#space()}`
  }

  #space(): string {
    return [' ', '\n\t', '\r\n  '][this.#dice()] ?? ''
  }
}

const plainDice = () => 40
const dice = fc.oneof(
  fc.constant(plainDice),
  fc.infiniteStream(fc.nat({ max: 40 })).map((stream) => () => stream.next().value),
)
const name = fc.oneof(
  fc.constantFrom('messages', 'content', '__proto__', 'constructor', 'a"b', 'a\\', '', ':', '}'),
  fc.string({ unit: 'grapheme' }),
)
const text = fc.oneof(
  fc.constantFrom('"messages":[1]', '\\', '\\"', '\ud800', '{[', PLACE, '"', '\u2028'),
  fc.string({ unit: 'binary' }),
  fc.string({ unit: 'binary', minLength: LONG - 20, maxLength: LONG + 60, size: 'max' }),
  fc.constantFrom('"', '\\', '\n', 'x', '\\"').map((one) => one.repeat(LONG)),
)
const { tree: value } = fc.letrec<{ tree: unknown }>((tie) => ({
  tree: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    text,
    fc.constantFrom(null, true, 0, -1.5e300, 1e21),
    fc.array(tie('tree'), { maxLength: 4 }),
    fc.dictionary(name, tie('tree'), { maxKeys: 4, noNullPrototype: false }),
  ),
}))
const member = fc.tuple(fc.oneof(fc.constant('messages'), name), value)
const list = fc.array(value, { maxLength: 4 })

describe('a member as it is written', () => {
  it('says what was read, and can be put in its place', () => {
    let copied = 0
    fc.assert(
      fc.property(fc.array(member, { maxLength: 6 }), list, dice, (others, messages, next) => {
        const split = others.length >> 1
        const members = [...others.slice(0, split), ['messages', messages] as const]
        const source = new Writer(next).object([...members, ...others.slice(split)])
        const object = JSON.parse(source)
        const plain = JSON.stringify(object)
        const written = writtenMember(source, object, 'messages')
        if (written) {
          copied++
          expect(written.value).toBe(object.messages)
          expect(JSON.stringify(JSON.parse(written.json!))).toBe(JSON.stringify(object.messages))
        }
        const spliced = stringify(object, object, 'messages', written)
        expect(JSON.stringify(JSON.parse(spliced))).toBe(JSON.stringify(JSON.parse(plain)))
        expect(JSON.stringify(object)).toBe(plain)
      }),
      { numRuns: 1000 },
    )
    expect(copied).toBeGreaterThan(300)
  })

  it('is the last one of that name', () => {
    const source =
      '{"messages":[1],"x":{"messages":[2]},"messages": [3, "]"] ,"y":"\\"messages\\":[4]"}'
    expect(writtenMember(source, JSON.parse(source), 'messages')!.json!.trim()).toBe('[3, "]"]')
  })

  it.each([
    ['a name that is there twice', '{"messages":[{"content":"good","content":"bad"}]}'],
    ['one that is there twice, in other words', '{"messages":[{"role":1,"r\\u006fle":2}]}'],
    ['one that is there twice further in', '{"messages":[{"a":[{"b":{"c":1,"c":1}}]}]}'],
    ['itself in other words', '{"messages":[1],"mess\\u0061ges":[2]}'],
    ['no list and no object', '{"messages":"[1]"}'],
    ['nothing', '{"others":[1]}'],
    ['more than anybody nests', `{"messages":${'['.repeat(10_000)}${']'.repeat(10_000)}}`],
  ])('is not copied where there is %s', (_what, source) => {
    expect(writtenMember(source, JSON.parse(source), 'messages')).toBeUndefined()
  })
})

describe('a long string as it is written', () => {
  it('says what was read, and can be put in its place', () => {
    let copied = 0
    fc.assert(
      fc.property(text, fc.array(member, { maxLength: 3 }), dice, (content, others, next) => {
        const source = new Writer(next).object([...others, ['said', { content }]])
        const object = JSON.parse(source)
        const plain = JSON.stringify(object)
        const written = writtenString(source, object.said.content)
        if (written) {
          copied++
          expect(JSON.parse(written.json!)).toBe(object.said.content)
        }
        const spliced = stringify(object, object.said, 'content', written)
        expect(JSON.parse(spliced)).toEqual(JSON.parse(plain))
        expect(JSON.stringify(object)).toBe(plain)
      }),
      { numRuns: 1000 },
    )
    expect(copied).toBeGreaterThan(50)
  })

  it.each(['"', '\\', '\\"', 'x\\', '\\\\"'])('ends where it ends: %j', (end) => {
    for (let length = LONG; length < LONG + 40; length++) {
      const content = 'x'.repeat(length) + end
      const source = JSON.stringify({ a: 'b"', content, c: '"' })
      expect(writtenString(source, content)!.json).toBe(JSON.stringify(content))
    }
  })

  it('is not looked for where it is short, and not told from another long one', () => {
    const long = 'x'.repeat(LONG)
    expect(writtenString(JSON.stringify({ a: 'short' }), 'short')).toBeUndefined()
    expect(writtenString(JSON.stringify({ a: long, b: long }), long)).toBeUndefined()
    expect(writtenString(JSON.stringify({ [long]: 1, b: long }), long)).toBeUndefined()
  })
})

describe('writing again', () => {
  const json = ' [1, "\\u0061"]'
  const asked = (value: readonly unknown[] = JSON.parse(json)) => {
    const object: Record<string, unknown> = { before: 1, messages: value, after: 'b' }
    return { object, written: { value, json } }
  }

  it('copies the text of what is still there', () => {
    const { object, written } = asked()
    expect(stringify(object, object, 'messages', written)).toBe(
      `{"before":1,"messages":${json},"after":"b"}`,
    )
  })

  it('writes anew what was changed, what is no longer known, and what cannot be told apart', () => {
    const { object, written } = asked()
    const plain = JSON.stringify(object)
    const changed = { ...object, messages: [1, 'b'] }
    expect(stringify(changed, changed, 'messages', written)).toBe(JSON.stringify(changed))
    expect(stringify(object, object, 'messages', undefined)).toBe(plain)
    for (const other of [JSON.parse(PLACE), { [JSON.parse(PLACE)]: 1 }]) {
      const confusing = { ...object, other }
      expect(stringify(confusing, confusing, 'messages', written)).toBe(JSON.stringify(confusing))
    }
    carry(object, written)
    forget(object)
    expect(stringify(object, object, 'messages', writtenIn(object))).toBe(plain)
  })

  it('is carried by copies, and is in no JSON', () => {
    const { object, written } = asked()
    const copy = { ...carry(object, written), more: 1 }
    expect(writtenIn(copy)).toBe(written)
    expect(JSON.parse(JSON.stringify(copy))).toEqual({ ...asked().object, more: 1 })
  })

  it('keeps a list in which nothing changes', () => {
    const items = [1, 2, 3]
    expect(mapped(items, (item) => item)).toBe(items)
    expect(mapped(items, (item) => item % 2)).toEqual([1, 0, 1])
    expect(items).toEqual([1, 2, 3])
  })

  it('costs a number of digits nothing', () => {
    const source = '{"messages":[12345678901234567890,1.0]}'
    const object = JSON.parse(source)
    const written = writtenMember(source, object, 'messages')
    expect(stringify(object, object, 'messages', written)).toBe(source)
  })
})

it('a plain writer writes as JSON.stringify does', () => {
  fc.assert(
    fc.property(value, (one) => {
      expect(new Writer(plainDice).value(one)).toBe(JSON.stringify(one))
    }),
  )
})
