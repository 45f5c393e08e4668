/** Base64 in bodies that go out as they came: repaired at its place, with all other bytes as they were. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { withNeutralMedia } from '../../../../../src/endpoints/chat/dialects/shared/media.ts'
import { runs } from '../../../../_runs.ts'

/** The same bytes as clients write them, and as they go out. */
const data = fc
  .tuple(fc.uint8Array({ minLength: 1, maxLength: 40 }), fc.constantFrom(0, 1, 2, 3))
  .map(([bytes, form]) => {
    const canonical = Buffer.from(bytes).toString('base64')
    const wrapped = canonical.replace(/(.{5})/g, '$1\r\n')
    const forms = [canonical, wrapped, Buffer.from(bytes).toString('base64url'), ` ${canonical}`]
    return { given: forms[form]!, canonical }
  })

/** A value with `given` and the one that goes out; white space and escapes are added to the text later. */
interface Pair {
  readonly given: unknown
  readonly sent: unknown
}
const both = (make: (data: string) => unknown) =>
  data.map(({ given, canonical }): Pair => ({ given: make(given), sent: make(canonical) }))
const same = (value: fc.Arbitrary<unknown>) => value.map((one): Pair => ({ given: one, sent: one }))
const listOf = (one: fc.Arbitrary<Pair>) =>
  fc.array(one, { maxLength: 4 }).map((pairs): Pair => ({
    given: pairs.map(({ given }) => given),
    sent: pairs.map(({ sent }) => sent),
  }))
const inside = (pair: fc.Arbitrary<Pair>, make: (value: unknown) => unknown) =>
  pair.map(({ given, sent }): Pair => ({ given: make(given), sent: make(sent) }))

const words = fc.string().map((text) => ({ type: 'text', text }))
const input = fc.record({
  type: fc.constant('tool_use'),
  input: fc.dictionary(fc.string(), fc.json()),
})
const image = both((one) => ({
  type: 'image',
  source: { type: 'base64', media_type: 'image/png', data: one },
}))
const url = both((one) => ({ type: 'input_image', image_url: `data:image/png;base64,${one}` }))
const sound = both((one) => ({ type: 'input_audio', input_audio: { data: one, format: 'wav' } }))
const leaf = fc.oneof(image, url, sound, same(words), same(input))
const result = inside(listOf(leaf), (content) => ({ type: 'tool_result', content }))
const document = inside(listOf(leaf), (content) => ({ source: { type: 'content', content } }))
const item = fc.oneof(
  inside(listOf(fc.oneof(leaf, result, document)), (content) => ({ role: 'user', content })),
  inside(listOf(leaf), (output) => ({ type: 'function_call_output', output })),
)

/** JSON with white space and escaped slashes, as some clients write it. */
const written = (value: unknown) => JSON.stringify(value, null, 1).replaceAll('/', '\\/')

describe('media in the text of a body', () => {
  it('is canonical, and everything else stays as it was written', () => {
    fc.assert(
      fc.property(listOf(item), fc.constantFrom('messages', 'input'), (items, list) => {
        const body = { z: 1.5, [list]: items.given, a: '/' }
        const next = withNeutralMedia(written(body), body, list)
        const expected = { z: 1.5, [list]: items.sent, a: '/' }
        expect(JSON.parse(next)).toEqual(expected)
        // Texts that are replaced have no escapes.
        expect(next.replaceAll('\\/', '/')).toBe(written(expected).replaceAll('\\/', '/'))
      }),
      { numRuns: runs(170) },
    )
  })

  it('stays where nothing has to be repaired, and where it is none', () => {
    const texts = [
      '{"messages":[{"content":[{"source":{"type":"base64","data":"AA=="}}]}]}',
      '{"messages":[{"content":[{"source":{"type":"brand_new","data":"A-_"}}]}]}',
      '{"messages":[{"content":[{"image_url":"data:text/plain,A-_A"}]}]}',
      '{"messages":[{"content":[{"image_url":"https:\\/\\/a.example/a-b_c"}]}]}',
      '{"messages":[{"content":[{"type":"tool_use","input":{"file_data":"A-_"}}]}]}',
    ]
    for (const text of texts)
      expect(withNeutralMedia(text, JSON.parse(text), 'messages')).toBe(text)
  })

  it('that is a plain file gets its type', () => {
    const text = '{"input":[{"content":[{"filename":"a.csv","file_data":"YSxi"}]}]}'
    expect(withNeutralMedia(text, JSON.parse(text), 'input')).toBe(
      text.replace('YSxi', 'data:text/csv;base64,YSxi'),
    )
  })

  it('is found in linear time, however deep a body is', () => {
    const deep = `{"messages":${'[{"content":'.repeat(5000)}1${'}]'.repeat(5000)}}`
    expect(withNeutralMedia(deep, JSON.parse(deep), 'messages')).toBe(deep)
  })
})
