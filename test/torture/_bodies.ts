/** A grammar of requests for every route with a body: what it makes is valid, and is answered with 200. */
import * as v from 'valibot'
import type { UserConfig } from '../../src/config/config.ts'
import { defineSearch } from '../../src/plugin.ts'
import { pngOfPixels, dataUrl } from '../_documents.ts'
import { wav } from '../endpoints/audio/_sounds.ts'
import { word } from './_json.ts'
import { pick, type Random } from './_random.ts'

/** One for each kind of endpoint. */
const MOCK_MODELS = {
  'm/chat': {
    pricing: { prompt: '0.000001', completion: '0.000002000001' },
    capabilities: [
      'STREAMING',
      'TOOLS',
      'VISION',
      'STRUCTURED_OUTPUTS',
      'REASONING',
      'AUDIO_INPUT',
      'FILE_INPUT',
      'LOGPROBS',
      'CHOICES',
    ],
    deployments: [{ provider: 'mock', model: 'echo' }],
  },
  'm/text': {
    pricing: { prompt: '0.000001', completion: '0.000002000001' },
    capabilities: ['STREAMING', 'LOGPROBS', 'CHOICES', 'COMPLETIONS'],
    deployments: [{ provider: 'mock', model: 'echo' }],
  },
  'm/embedding': {
    modality: 'embedding',
    pricing: { prompt: '0.00000002' },
    deployments: [{ provider: 'mock', model: 'embedding' }],
  },
  'm/rerank': {
    modality: 'rerank',
    pricing: { search_unit: '0.002' },
    deployments: [{ provider: 'mock', model: 'rerank' }],
  },
  'm/moderation': {
    modality: 'moderation',
    pricing: { request: '0.0001' },
    deployments: [{ provider: 'mock', model: 'moderation' }],
  },
  'm/image': {
    modality: 'image',
    pricing: { image: '0.04' },
    capabilities: ['STREAMING', 'REFERENCES'],
    deployments: [{ provider: 'mock', model: 'image' }],
  },
  'm/ocr': {
    modality: 'ocr',
    pricing: { page: '0.001' },
    deployments: [{ provider: 'mock', model: 'ocr' }],
  },
  'm/speech': {
    modality: 'speech',
    pricing: { character: '0.000015' },
    deployments: [{ provider: 'mock', model: 'speech' }],
  },
  'm/transcription': {
    modality: 'transcription',
    pricing: { second: '0.0001' },
    capabilities: ['STREAMING', 'TIMESTAMPS', 'DIARIZATION'],
    deployments: [{ provider: 'mock', model: 'transcription' }],
  },
}

/** A search engine with one page. */
const SEARCH = defineSearch({
  name: 'page',
  options: v.strictObject({}),
  setup: () => ({
    search: async (query) => ({
      results: [{ url: 'https://example.com/', title: query.text(50), content: 'A page.' }],
    }),
  }),
})

/** A configuration in which the provider `mock` answers every request. */
export const MOCK_CONFIG = {
  providers: { mock: { use: 'mock' } },
  models: MOCK_MODELS,
  search: { engines: { page: { use: SEARCH, price: '0.005' } } },
  guards: { use: [{ use: 'pii' }] },
} as UserConfig

type Make = (random: Random) => unknown

const PNG = dataUrl('image/png', pngOfPixels({ width: 2, height: 2 }, Buffer.alloc(4)))
const SOUND = dataUrl('audio/wav', wav(0.05))

/** Members in a random order; those that are undefined are left out. */
function members(random: Random, of: Readonly<Record<string, Make>>): Record<string, unknown> {
  const made = Object.entries(of).map(([name, make]) => [name, make(random)] as const)
  const given = made.filter(([, value]) => value !== undefined)
  const turn = random(given.length + 1)
  return Object.fromEntries([...given.slice(turn), ...given.slice(0, turn)])
}

const always =
  (value: unknown): Make =>
  () =>
    value
const text: Make = (random) => word(random)
const filled: Make = (random) => `${word(random)}.`
const name: Make = (random) => `n${random(1000)}-x_Y`
const flag: Make = (random) => random(2) === 0
const oneOf =
  (...values: readonly unknown[]): Make =>
  (random) =>
    pick(random, values)
const either =
  (...makes: readonly Make[]): Make =>
  (random) =>
    pick(random, makes)(random)
const integer =
  (min: number, max: number): Make =>
  (random) =>
    min + random(max - min + 1)
const number =
  (min: number, max: number): Make =>
  (random) =>
    min + ((max - min) * random(1001)) / 1000
const object =
  (of: Readonly<Record<string, Make>>): Make =>
  (random) =>
    members(random, of)
const list =
  (make: Make, min: number, max: number): Make =>
  (random) =>
    Array.from({ length: min + random(max - min + 1) }, () => make(random))
/** Mostly absent, sometimes null, which means the same. */
const maybe =
  (make: Make): Make =>
  (random) => {
    const kind = random(8)
    return kind > 1 ? undefined : kind === 1 ? make(random) : random(3) === 0 ? null : make(random)
  }
/** An unknown member at any place is passed over. */
const extra: Make = (random) =>
  random(12) === 0 ? { vendor: [word(random), random(99)] } : undefined

const policy = maybe(
  object({
    version: always(1),
    maxOutputTokens: integer(1, 50),
    systemPrompt: text,
    extra: always(undefined),
  }),
)
/** `policy` is the one member that may not be null. */
const tightening: Make = (random) => policy(random) ?? undefined

const part = either(
  object({ type: always('text'), text, x_extra: extra }),
  object({
    type: always('image_url'),
    image_url: either(
      always(PNG),
      object({ url: always(PNG), detail: maybe(oneOf('low', 'high')) }),
    ),
  }),
  object({
    type: always('input_audio'),
    input_audio: object({ data: always('UklGRg=='), format: always('wav') }),
  }),
  object({
    type: always('file'),
    file: object({
      filename: maybe(text),
      file_data: always('data:application/pdf;base64,JVBERi0='),
    }),
  }),
)
const call = object({
  id: name,
  type: always('function'),
  function: object({ name, arguments: oneOf('{}', '{"a":1}', '', 'no json') }),
})
const message = either(
  object({ role: oneOf('user', 'system', 'developer'), content: text, name: maybe(name) }),
  object({ role: always('user'), content: list(part, 1, 3), x_extra: extra }),
  object({
    role: always('assistant'),
    content: text,
    refusal: maybe(text),
    reasoning: maybe(text),
  }),
  object({ role: always('assistant'), content: always(null), tool_calls: list(call, 1, 2) }),
  object({ role: always('tool'), tool_call_id: name, content: text }),
)
const schema: Make = (random) => ({
  type: 'object',
  properties: { [word(random)]: { type: 'string' }, n: { type: 'integer' } },
  required: ['n'],
})
const tool = object({
  type: always('function'),
  function: object({
    name,
    description: maybe(text),
    parameters: maybe(schema),
    strict: maybe(flag),
  }),
})

const chat = object({
  model: oneOf('m/chat', 'm/chat', 'm/chat:online'),
  messages: list(message, 1, 4),
  stream: maybe(flag),
  stream_options: maybe(object({ include_usage: flag })),
  max_completion_tokens: maybe(integer(1, 500)),
  temperature: maybe(number(0, 2)),
  top_p: maybe(number(0, 1)),
  n: maybe(integer(1, 3)),
  stop: maybe(either(text, list(text, 0, 4))),
  seed: maybe(integer(0, 1e9)),
  logit_bias: maybe(object({ 50256: integer(-100, 100) })),
  response_format: maybe(
    either(
      object({ type: oneOf('text', 'json_object') }),
      object({ type: always('json_schema'), json_schema: object({ name, schema }) }),
    ),
  ),
  tools: maybe(list(tool, 0, 3)),
  parallel_tool_calls: maybe(flag),
  reasoning_effort: maybe(oneOf('low', 'medium', 'high', 'none')),
  plugins: maybe(list(object({ id: always('web'), max_results: maybe(integer(-5, 50)) }), 0, 2)),
  user: maybe(text),
  metadata: maybe(object({ a: text, b: text })),
  x_extra: extra,
  policy: tightening,
})

const picture = {
  model: always('m/image'),
  prompt: text,
  n: maybe(integer(1, 2)),
  size: maybe(oneOf('auto', '16x16', '256x128')),
  quality: maybe(oneOf('low', 'medium', 'high', 'auto')),
  output_format: maybe(always('png')),
  background: maybe(oneOf('transparent', 'opaque', 'auto')),
  response_format: maybe(always('b64_json')),
  x_extra: extra,
  policy: tightening,
}

const ocr = object({
  model: always('m/ocr'),
  document: either(
    object({
      type: always('image_url'),
      image_url: either(always(PNG), object({ url: always(PNG) })),
    }),
    object({ image_url: always(PNG) }),
  ),
  include_image_base64: maybe(flag),
  include_blocks: maybe(flag),
  image_limit: maybe(integer(0, 9)),
  table_format: maybe(oneOf('markdown', 'html')),
  x_extra: extra,
  policy: tightening,
})

const speech = object({
  model: always('m/speech'),
  input: text,
  voice: either(name, object({ id: name })),
  instructions: maybe(text),
  response_format: maybe(oneOf('mp3', 'wav', 'pcm')),
  speed: maybe(number(0.25, 4)),
  stream_format: maybe(oneOf('audio', 'sse')),
  x_extra: extra,
  policy: tightening,
})

const transcription = object({
  model: always('m/transcription'),
  file: always(SOUND),
  language: maybe(oneOf('en', 'de')),
  prompt: maybe(text),
  response_format: maybe(oneOf('json', 'text', 'srt', 'verbose_json', 'vtt')),
  temperature: maybe(number(0, 1)),
  x_extra: extra,
  policy: tightening,
})

const completion = object({
  model: always('m/text'),
  prompt: either(filled, list(filled, 1, 3)),
  suffix: maybe(text),
  max_tokens: maybe(integer(1, 50)),
  n: maybe(integer(1, 3)),
  echo: maybe(flag),
  logprobs: maybe(integer(0, 5)),
  stream: maybe(flag),
  stop: maybe(either(text, list(text, 0, 4))),
  temperature: maybe(number(0, 2)),
  user: maybe(text),
  x_extra: extra,
})

const tokens = list(integer(0, 1e5), 1, 5)
const embedding = object({
  model: always('m/embedding'),
  input: either(filled, list(filled, 1, 4), tokens, list(tokens, 1, 3)),
  encoding_format: maybe(oneOf('float', 'base64')),
  dimensions: maybe(integer(1, 32)),
  user: maybe(text),
  x_extra: extra,
  policy: tightening,
})

const rerank = object({
  model: always('m/rerank'),
  query: filled,
  documents: list(either(text, object({ text, x_extra: extra })), 1, 5),
  top_n: maybe(integer(1, 9)),
  return_documents: maybe(flag),
  x_extra: extra,
  policy: tightening,
})

const moderation = object({
  model: oneOf('m/moderation', 'guard', undefined),
  input: either(
    filled,
    list(filled, 1, 4),
    list(object({ type: always('text'), text: filled, x_extra: extra }), 1, 3),
  ),
  x_extra: extra,
  policy: tightening,
})

// --- messages ---

const textBlock = object({ type: always('text'), text: filled, x_extra: extra })
const resultBlock = object({
  type: always('tool_result'),
  tool_use_id: name,
  content: maybe(either(text, list(textBlock, 1, 2))),
  is_error: maybe(flag),
})
const callBlock = object({ type: always('tool_use'), id: name, name, input: object({ a: text }) })
const thinkingBlock = object({
  type: always('thinking'),
  thinking: text,
  signature: maybe(always('c2ln')),
})
const exchange = either(
  object({ role: always('user'), content: filled }),
  object({ role: always('user'), content: list(either(textBlock, resultBlock), 1, 3) }),
  object({
    role: always('assistant'),
    content: list(either(textBlock, callBlock, thinkingBlock), 1, 3),
  }),
  object({ role: always('system'), content: filled }),
)
const countedMessages = {
  model: always('m/chat'),
  messages: list(exchange, 1, 4),
  system: maybe(either(text, list(textBlock, 1, 2))),
  tools: maybe(list(object({ name, description: maybe(text), input_schema: schema }), 0, 2)),
  metadata: maybe(object({ user_id: text })),
  x_extra: extra,
  policy: tightening,
}
const messages = object({
  ...countedMessages,
  max_tokens: integer(1, 500),
  stream: maybe(flag),
  temperature: maybe(number(0, 1)),
  stop_sequences: maybe(list(filled, 0, 3)),
})

// --- responses ---

const inputPart = object({ type: always('input_text'), text, x_extra: extra })
const item = either(
  object({
    role: oneOf('user', 'system', 'developer'),
    content: either(filled, list(inputPart, 1, 2)),
  }),
  object({ type: always('function_call'), call_id: name, name, arguments: always('{"a":1}') }),
  object({ type: always('function_call_output'), call_id: name, output: text }),
  object({ type: always('custom_tool_call'), call_id: name, name, input: text }),
  object({
    type: always('reasoning'),
    id: name,
    summary: list(object({ type: always('summary_text'), text }), 0, 2),
    encrypted_content: maybe(always('gAAA')),
  }),
)
const countedResponses = {
  model: always('m/chat'),
  input: either(filled, list(item, 1, 4)),
  instructions: maybe(text),
  tools: maybe(list(object({ type: always('function'), name, parameters: maybe(schema) }), 0, 2)),
  x_extra: extra,
  policy: tightening,
}
const responses = object({
  ...countedResponses,
  stream: maybe(flag),
  max_output_tokens: maybe(integer(1, 500)),
  temperature: maybe(number(0, 2)),
  store: maybe(flag),
  metadata: maybe(object({ a: text })),
})

/** Requests by path. */
export const GRAMMAR: Readonly<Record<string, Make>> = {
  '/v1/chat/completions': chat,
  '/v1/completions': completion,
  '/v1/messages': messages,
  '/v1/messages/count_tokens': object(countedMessages),
  '/v1/responses': responses,
  '/v1/responses/input_tokens': object(countedResponses),
  '/v1/embeddings': embedding,
  '/v1/rerank': rerank,
  '/v1/moderations': moderation,
  '/v1/images/generations': object(picture),
  '/v1/images/edits': object({
    ...picture,
    images: list(object({ image_url: always(PNG) }), 1, 2),
    mask: maybe(object({ image_url: always(PNG) })),
  }),
  '/v1/ocr': ocr,
  '/v1/audio/speech': speech,
  '/v1/audio/transcriptions': transcription,
  '/v1/key/checkout': object({ usd: (random) => pick(random, ['5', '25.5', '1000']) }),
}
