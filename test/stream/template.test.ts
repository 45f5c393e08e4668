import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { templateOf, type Template } from '../../src/stream/template.ts'

const learn = (before: string, text: string): Template | undefined =>
  templateOf(`data: ${before}\n\n`, `data: ${text}\n\n`, [6, 2], JSON.parse(text))

const read = (template: Template | undefined, text: string): unknown =>
  template?.read(`data: ${text}\n\n`, 0)

const chunk = (content: string, obfuscation = 'x') =>
  JSON.stringify({
    id: 'chatcmpl-1',
    choices: [{ index: 0, delta: { content }, logprobs: null, finish_reason: null }],
    usage: null,
    obfuscation,
  })

/** Where a literal belongs. */
const SLOT = '\0'

const NAMES = ['"a"', '"b"', '"c"', '"d"', '"\\u0061"', '"1"', '"__proto__"', '"toString"']

/** JSON with slots, in which names repeat. */
const { value: shapes } = fc.letrec<{ value: string; list: string; object: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.constantFrom('null', '-0', '1e400', '"hole 0"', '"hole 1"', '""', SLOT, SLOT),
    tie('list'),
    tie('object'),
  ),
  list: fc.array(tie('value'), { maxLength: 3 }).map((items) => `[${items.join(',')}]`),
  object: fc
    .array(fc.tuple(fc.constantFrom(...NAMES, SLOT), tie('value')), { maxLength: 4 })
    .map((members) => `{${members.map(([name, value]) => `${name} :${value}`).join(',')}}`),
}))

const literals = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 20 }).map((text) => JSON.stringify(text)),
  fc.constantFrom('"hole 0"', '"hole 1"', '"\\u0068ole 0"', '"\\ud83d"', '"\\\\"', '"\\""', '"a"'),
)

function filled(shape: string, texts: readonly string[], from: number): string {
  let slot = from
  return shape.replaceAll(SLOT, () => texts[slot++ % texts.length]!)
}

describe('the template of two events', () => {
  it('reads the next one of the same kind', () => {
    const template = learn(chunk(' a'), chunk(' dog'))
    for (const word of ['', ' barks', 'é', '😀', '日本', '\n\n', ' "so" \\', '\u2028']) {
      expect(read(template, chunk(word))).toEqual(JSON.parse(chunk(word)))
    }
    expect(template!.end).toBe(`data: ${chunk('\u2028')}\n\n`.length)
  })

  it('has several holes, where several texts differ', () => {
    const template = learn(chunk(' a', 'uY'), chunk(' dog', 'OYcX'))
    expect(read(template, chunk(' "barks"', ''))).toEqual(JSON.parse(chunk(' "barks"', '')))
  })

  it('has none, where they are the same', () => {
    const template = learn(chunk(' ha'), chunk(' ha'))
    expect(read(template, chunk(' ha'))).toEqual(JSON.parse(chunk(' ha')))
    expect(read(template, chunk(' ho'))).toBeUndefined()
  })

  it('makes new objects every time, through and through', () => {
    const text = (say: string) => `{"say":"${say}","list":[{"deep":[1]}],"none":{}}`
    const template = learn(text('a'), text('b'))
    const first: any = read(template, text('c'))
    first.list[0].deep.push(2)
    first.none.some = true
    first.say = 'changed'
    expect(read(template, text('d'))).toEqual({ say: 'd', list: [{ deep: [1] }], none: {} })
  })

  it.each([
    ['numbers', '{"a":1}', '{"a":2}'],
    ['members', '{"a":"x"}', '{"a":"x","b":1}'],
    ['names of members', '{"a":1}', '{"b":1}'],
    ['names of members with objects', '{"a":{}}', '{"b":{}}'],
    ['what another member of the name hides', '{"a":"x","a":1}', '{"a":"y","a":1}'],
    [
      'such, beside a text like a probe',
      '{"a":"x","a":1,"b":"hole 0"}',
      '{"a":"y","a":1,"b":"hole 0"}',
    ],
    ['a member of a peculiar name', '{"__proto__":"x"}', '{"__proto__":"y"}'],
    ['something that is no object', '"x"', '"y"'],
    ['spaces', '{"a":"x"}', '{"a": "x"}'],
    ['more texts than any two of a kind', '["a","b","c","d","e"]', '["f","g","h","i","j"]'],
  ])('is not made where they differ in %s', (_what, before, text) => {
    expect(learn(before, text)).toBeUndefined()
  })

  it('is not made of what is nested deeply', () => {
    const nested = (text: string) => `${'['.repeat(50_000)}"${text}"${']'.repeat(50_000)}`
    expect(learn(nested('a'), nested('b'))).toBeUndefined()
  })

  it.each([
    'data: {"a":"x\ny"}\n\n',
    'data: {"a":"\\x"}\n\n',
    'data: {"a":"x',
    'data: {"a":"x"}\n',
    '',
  ])('leaves alone what is no JSON: %j', (text) => {
    expect(learn('{"a":"x"}', '{"a":"y"}')!.read(text, 0)).toBeUndefined()
  })

  it('says what JSON.parse says, or nothing', () => {
    let hits = 0
    fc.assert(
      fc.property(shapes, fc.array(literals, { minLength: 3, maxLength: 12 }), (shape, texts) => {
        const [a, b, ...others] = texts.map((_, i) => filled(shape, texts, i))
        const template = learn(a!, b!)
        for (const text of [a!, b!, ...others]) {
          const said = read(template, text)
          if (said === undefined) continue
          hits++
          expect(JSON.stringify(said)).toBe(JSON.stringify(JSON.parse(text)))
          expect(said).toStrictEqual(JSON.parse(text))
        }
      }),
      { numRuns: 2000 },
    )
    expect(hits).toBeGreaterThan(500)
  })
})
