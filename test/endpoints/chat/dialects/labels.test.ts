/** Guards with exact rules read what a vendor gets of a body that goes out as it came: no word less, and no word more. */
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { prepare as prepareMessages } from '../../../../src/endpoints/chat/dialects/messages/prepare.ts'
import { readMessagesRequest } from '../../../../src/endpoints/chat/dialects/messages/read.ts'
import { prepare as prepareResponses } from '../../../../src/endpoints/chat/dialects/responses/prepare.ts'
import { readResponsesRequest } from '../../../../src/endpoints/chat/dialects/responses/read.ts'
import type { DialectRequest } from '../../../../src/endpoints/chat/endpoint.ts'
import { chatTexts } from '../../../../src/endpoints/chat/guard-input.ts'
import type { NativeFormat, NativeTarget } from '../../../../src/pipeline/pipeline.ts'
import { RawJson } from '../../../../src/stream/raw-json.ts'
import { runs } from '../../../_runs.ts'

/** A word of the client, which is told from those of the format. */
const word = fc.nat(1e9).map((n) => `w${n}w`)
const maybe = (value: fc.Arbitrary<unknown>) => fc.option(value, { nil: undefined })
/** Any JSON, in whose places and names the client can write words. */
const anything = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    word,
    fc.nat(9),
    fc.constant(null),
    fc.boolean(),
    fc.array(tie('value'), { maxLength: 2 }),
    fc.dictionary(word, tie('value'), { maxKeys: 2 }),
  ),
})).value
/** An object with the members of the format, and with one that is not. */
const withMore = (members: Record<string, fc.Arbitrary<unknown>>) =>
  fc
    .tuple(fc.record(members), fc.dictionary(word, anything, { maxKeys: 1 }))
    .map(([own, more]) => ({ ...own, ...more }) as object)
const type = (name: string) => fc.constant(name)
const object = fc.dictionary(word, anything, { maxKeys: 2 })
const schema = fc.record({ type: type('object'), properties: fc.dictionary(word, object) })
const opaque = fc.constant('AAAA')
const few = <T>(one: fc.Arbitrary<T>) => fc.array(one, { minLength: 1, maxLength: 3 })

const textBlock = withMore({ type: type('text'), text: word })
const readable = fc.oneof(
  textBlock,
  withMore({
    type: type('image'),
    source: fc.record({
      type: type('base64'),
      media_type: fc.constant('image/png'),
      data: opaque,
    }),
  }),
  withMore({
    type: type('document'),
    source: fc.record({ type: type('text'), data: word }),
    title: word,
    context: word,
  }),
  withMore({ type: type('search_result'), source: word, title: word, content: few(textBlock) }),
)
const result = withMore({
  type: type('tool_result'),
  tool_use_id: word,
  content: fc.oneof(word, few(readable)),
})
const answered = fc.oneof(
  textBlock,
  withMore({ type: type('thinking'), thinking: word, signature: opaque }),
  withMore({ type: type('redacted_thinking'), data: opaque }),
  withMore({ type: type('tool_use'), id: word, name: word, input: object }),
  withMore({
    type: type('server_tool_use'),
    id: word,
    name: fc.constant('web_search'),
    input: object,
  }),
  // What the vendor ran with things of the operator's account does not go out.
  withMore({ type: type('mcp_tool_use'), id: word, name: word, input: object }),
  withMore({
    type: fc.constantFrom('mcp_tool_result', 'code_execution_tool_result'),
    content: anything,
  }),
  withMore({ type: type('web_search_tool_result'), tool_use_id: word, content: few(object) }),
)
const messages = withMore({
  model: fc.constant('a/b'),
  max_tokens: fc.constant(9),
  system: fc.oneof(word, few(textBlock)),
  messages: few(
    fc.oneof(
      withMore({ role: type('user'), content: fc.oneof(word, few(fc.oneof(readable, result))) }),
      withMore({ role: type('assistant'), content: fc.oneof(word, few(answered)) }),
    ),
  ),
  stop_sequences: fc.array(word, { maxLength: 2 }),
  tools: maybe(
    few(
      fc.oneof(
        withMore({ name: word, description: word, input_schema: schema }),
        withMore({ type: type('web_fetch_20250910'), name: fc.constant('web_fetch') }),
        withMore({ type: type('memory_20250818'), name: fc.constant('memory') }),
      ),
    ),
  ),
  context_management: maybe(object),
  diagnostics: maybe(object),
  mcp_servers: maybe(few(object)),
  container: maybe(word),
})

const inputPart = fc.oneof(
  withMore({ type: type('input_text'), text: word }),
  withMore({
    type: type('input_image'),
    image_url: fc.constant('data:image/png;base64,AAAA'),
    detail: fc.constant('low'),
  }),
  withMore({ type: type('refusal'), refusal: word }),
)
const item = fc.oneof(
  withMore({
    role: fc.constantFrom('user', 'assistant', 'developer'),
    content: fc.oneof(word, few(inputPart)),
    id: word,
  }),
  withMore({ type: type('function_call'), call_id: word, name: word, arguments: word, id: word }),
  withMore({ type: type('function_call_output'), call_id: word, output: word }),
  withMore({
    type: type('custom_tool_call'),
    call_id: word,
    name: word,
    namespace: word,
    input: word,
  }),
  withMore({ type: type('shell_call'), call_id: word, action: object, id: word }),
  withMore({ type: type('web_search_call'), id: word, action: object }),
  withMore({ type: type('code_interpreter_call'), id: word, code: word }),
  withMore({ type: type('mcp_call'), id: word, arguments: word }),
  withMore({ type: word, words: anything }),
  withMore({
    type: type('reasoning'),
    // Another vendor of this form gets it.
    id: fc.constant('rs_1'),
    summary: few(fc.record({ type: type('summary_text'), text: word })),
    encrypted_content: opaque,
  }),
)
const responses = withMore({
  model: fc.constant('a/b'),
  instructions: maybe(word),
  input: fc.oneof(word, few(item)),
  metadata: maybe(fc.dictionary(word, word)),
  tools: maybe(
    few(
      fc.oneof(
        withMore({ type: type('function'), name: word, description: word, parameters: schema }),
        withMore({ type: type('custom'), name: word, description: word, format: object }),
      ),
    ),
  ),
  moderation: maybe(object),
  conversation: fc.constant(undefined),
  client_metadata: maybe(object),
})

const TO = {
  model: { prices: {} },
  upstreamModel: 'up',
  guarded: false,
  passes: ['*'],
  label: () => 'label',
} as unknown as NativeTarget

const wordsIn = (text: string) => new Set(text.match(/w\d+w/g))

it.each([
  ['messages', messages, (raw) => readMessagesRequest(raw, () => undefined), prepareMessages],
  ['responses', responses, (raw) => readResponsesRequest(raw), prepareResponses],
] satisfies [
  string,
  fc.Arbitrary<object>,
  (raw: RawJson) => DialectRequest,
  NativeFormat['prepare'],
][])('are what arrives, %s', (_name, bodies, read, prepare) => {
  fc.assert(
    fc.property(bodies, (given) => {
      const text = JSON.stringify(given)
      const rawJson = new RawJson(text, JSON.parse(text))
      const { input, nativeHeaders } = read(rawJson)
      const items = chatTexts(input, []).items.map((one) => one.text)
      const request = { rawJson, stream: false, nativeHeaders } as any
      const sent = prepare(request, TO)!.input.body
      expect(wordsIn(items.join('\n'))).toEqual(wordsIn(sent))
    }),
    { numRuns: runs(130) },
  )
})
