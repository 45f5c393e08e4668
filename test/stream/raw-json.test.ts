import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { RawJson } from '../../src/stream/raw-json.ts'
import { runs } from '../_runs.ts'
import { expectSame } from '../_same.ts'

/** Long enough to be recorded by itself. */
const FILLER = { role: 'user', content: 'x'.repeat(5000) }

/** Writes JSON as its writers differ: white space anywhere, characters escaped or not. */
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
  fc.constantFrom('"messages":[1]', '\\', '\\"', '\ud800', '{[', '"', '\u2028'),
  fc.string({ unit: 'binary' }),
  fc.constantFrom('"', '\\', '\n', 'x', '\\"').map((one) => one.repeat(5000)),
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
const lists = fc.array(fc.oneof(value, { weight: 3, arbitrary: fc.constant(FILLER) }), {
  maxLength: 4,
})

/** What a stage or a provider may make of a body: new objects wherever something differs. */
const changes = fc.constantFrom<((body: any) => object)[]>(
  (body) => body,
  (body) => ({ ...body }),
  (body) => ({ ...body, model: 'other', messages: body.messages }),
  (body) => ({ input: body.messages, messages: undefined }),
  (body) => ({ ...body, messages: [{ role: 'system', content: 'Be brief.' }, ...body.messages] }),
  (body) => ({ ...body, messages: body.messages.slice(1) }),
  (body) => ({ ...body, messages: body.messages.toReversed() }),
  (body) => ({ ...body, messages: [...body.messages, undefined, () => {}, ...body.messages] }),
  (body) => ({ ...body, messages: body.messages.map((one: object) => ({ ...one, more: 1 })) }),
  (body) => ({ nested: body }),
  (body) => [body.messages, body],
)

function recorded(source: string): any {
  const body = JSON.parse(source)
  new RawJson(source, body).record('messages')
  return body
}

describe('a body that is serialised', () => {
  it('says what JSON.stringify says, whatever was changed', () => {
    let copied = 0
    const numRuns = runs(300)
    fc.assert(
      fc.property(
        fc.array(member, { maxLength: 6 }),
        lists,
        dice,
        changes,
        (others, messages, next, change) => {
          const split = others.length >> 1
          const members = [...others.slice(0, split), ['messages', messages] as const]
          const body = recorded(new Writer(next).object([...members, ...others.slice(split)]))
          if (!Array.isArray(body.messages)) return
          if (RawJson.textOf(body.messages)) copied++
          const changed = change(body)
          const plain = JSON.stringify(changed)
          expectSame(JSON.parse(RawJson.stringify(changed)), JSON.parse(plain))
          expect(JSON.stringify(changed)).toBe(plain)
        },
      ),
      { numRuns },
    )
    expect(copied).toBeGreaterThan(numRuns / 5)
  })

  const filler = JSON.stringify(FILLER)
  const exact = '{ "id":12345678901234567890, "x": 1.0, "c":"\\u0061" }'

  it('keeps the digits of numbers, in an unchanged list and in an unchanged message', () => {
    const body = recorded(`{"model":"m","messages":[${exact},${filler}]}`)
    expect(RawJson.stringify({ ...body, model: 'n' })).toBe(
      `{"messages":[${exact},${filler}],"model":"n"}`,
    )
    const long = `{"id":12345678901234567890,"content":"${FILLER.content}"}`
    const { messages } = recorded(`{"messages":[${long}]}`)
    expect(RawJson.stringify({ messages: ['new', ...messages] })).toBe(
      `{"messages":["new",${long}]}`,
    )
  })

  it('is serialised anew after the release', () => {
    const source = `{"messages":[${exact},${filler}]}`
    const raw = new RawJson(source, JSON.parse(source))
    raw.record('messages')
    raw.release()
    expect(RawJson.stringify(raw.value)).toBe(JSON.stringify(raw.value))
  })

  it('is no copy of a list or of an item of it', () => {
    const { messages } = recorded(`{"messages":[${filler}]}`)
    expect(RawJson.textOf(messages[0])).toBe(filler)
    for (const copy of [{ ...messages[0] }, Object.assign({}, messages[0]), [...messages]]) {
      expect(RawJson.textOf(copy)).toBeUndefined()
    }
  })

  it('has the list that JSON.parse gave, where the name is there twice', () => {
    const body = recorded(`{"messages":[1],"messages":[2,${filler}],"x":{"messages":[3]}}`)
    expect(RawJson.stringify(body)).toBe(JSON.stringify(body))
    expect(RawJson.textOf(body.messages)).toBeDefined()
  })

  it.each([
    ['a name that is there twice', `{"messages":[${filler},{"a":"good","a":"bad"}]}`],
    ['such a name, escaped', `{"messages":[${filler},{"role":1,"r\\u006fle":2}]}`],
    ['such a name further in', `{"messages":[${filler},{"a":[{"b":{"c":1,"c":1}}]}]}`],
    ['its own name, escaped', `{"messages":[1],"mess\\u0061ges":[${filler}]}`],
    ['deep nesting', `{"messages":[${filler},${'['.repeat(10_000)}${']'.repeat(10_000)}]}`],
  ])('is not copied where there is %s', (_what, source) => {
    const body = recorded(source)
    expect(RawJson.textOf(body.messages)).toBeUndefined()
    expect(RawJson.textOf(body.messages[0])).toBeUndefined()
  })
})

describe('a top-level member', () => {
  it('is given as it is written', () => {
    fc.assert(
      fc.property(
        fc.array(member, { maxLength: 6 }),
        name,
        value,
        dice,
        (others, one, own, next) => {
          const source = new Writer(next).object([...others, [one, own], ['last', 1]])
          const text = new RawJson(source, JSON.parse(source)).member(one)
          if (text === undefined) expect(source).toMatch(/\\|\[/)
          else if (others.every(([other]) => other !== one)) expectSame(JSON.parse(text), own)
        },
      ),
      { numRuns: runs(70) },
    )
  })

  it('is not given where it is missing, and after the release', () => {
    const source = '{"a": 1.0 ,"b":{"c":2}}'
    const raw = new RawJson(source, JSON.parse(source))
    expect(raw.member('a')).toBe(' 1.0 ')
    expect(raw.member('c')).toBeUndefined()
    raw.release()
    expect(raw.member('a')).toBeUndefined()
  })
})

it('a plain writer writes as JSON.stringify does', () => {
  fc.assert(
    fc.property(value, (one) => {
      expect(new Writer(plainDice).value(one)).toBe(JSON.stringify(one))
    }),
  )
})
