/**
 * A provider that is free of charge and answers the same every time: for the first start, tests, demos and benchmarks.
 * It repeats the last user message; a deployment's options may script any other answer. The model name `tools` calls
 * the tools that the request offers, the model name `agent` those that the user names.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import * as v from 'valibot'
import { createHash, hash } from 'node:crypto'
import { crc32, deflateSync } from 'node:zlib'
import {
  defineProvider,
  type ChatInput,
  type CompletionInput,
  type Host,
  type ImageEditInput,
  type ImageInput,
  type ProviderRequest,
  type ChatChunk,
  type ChatCompletion,
  type EmbeddingInput,
  type EmbeddingResult,
  type ModerationInput,
  type ModerationResult,
  type RerankInput,
  type RerankResult,
  type ImageEvent,
  type ImageResult,
  type Usage,
  type Speech,
  type SpeechInput,
  type Transcription,
  type TranscriptionEvent,
  type TranscriptionInput,
  type OptionField,
  type OcrInput,
  type OcrPage,
  type OcrResult,
} from '../src/plugin.ts'
import { answerOf, chatChunks, promptTokens, toCompletion } from './mock/chat.ts'
import { exampleOf } from './mock/schema-example.ts'

// OCR results without reading: a document has three pages, an image has one.

/** What the deployment's options script. */
interface OcrScript {
  /** The text of every page. */
  readonly reply?: string | undefined
  /** No usage is reported. */
  readonly uncounted: boolean
}

const PAGES = 3
/** US letter at 200 dots per inch. */
const PAGE_DIMENSIONS = { dpi: 200, height: 2200, width: 1700 }

/** The requested pages that exist, and a small annotation that fits the requested schema. */
function readDocument(input: OcrInput, { reply, uncounted }: OcrScript): OcrResult {
  const { document, pages: requested, document_annotation_format: format } = input
  const all = Array.from({ length: document.kind === 'image' ? 1 : PAGES }, (_, index) => index)
  const pages = all
    .filter((index) => requested?.includes(index) ?? true)
    .map((index): OcrPage => {
      const markdown = reply ?? `# Page ${index + 1}\n\n${document.name ?? 'A document'}`
      return { index, markdown, images: [], dimensions: PAGE_DIMENSIONS }
    })
  return {
    pages,
    ...(format && { document_annotation: JSON.stringify(exampleOf(schemaIn(format))) }),
    ...(!uncounted && { usage: { pages: pages.length } }),
  }
}

function schemaIn(format: { readonly json_schema?: { readonly schema?: unknown } }): unknown {
  return format.json_schema?.schema
}

// Generated sound and transcripts.

const SAMPLE_RATE = 24_000
/** Samples for one character. */
const SAMPLES_PER_CHARACTER = SAMPLE_RATE / 20
const PITCH = 440
const LOUDNESS = 8000

/** 417 bytes of silence: one empty frame of MPEG 1 layer III at 128 kbit/s and 44.1 kHz. */
const SILENT_FRAME = Buffer.alloc(417)
SILENT_FRAME.set([0xff, 0xfb, 0x90, 0xc4])
const FRAME_SECONDS = 1152 / 44_100

/**
 * Sound of a twentieth of a second per character: a tone for letters, silence for white space, silence only as MP3.
 * Undefined for formats that need an encoder.
 * @param pace is awaited before each word
 */
function synthesize(
  { input, response_format: format, speed = 1 }: SpeechInput,
  pace: (sent: number) => Promise<void>,
): Speech | undefined {
  if (format === 'mp3') return { bytes: eachWord(input, pace, (word) => silence(word, speed)) }
  if (format !== 'wav' && format !== 'pcm') return undefined
  return { bytes: eachWord(input, pace, (word) => tone(word, speed)), pcmSampleRate: SAMPLE_RATE }
}

async function* eachWord(
  text: string,
  pace: (sent: number) => Promise<void>,
  soundOf: (word: string) => Uint8Array,
): AsyncGenerator<Uint8Array, void, undefined> {
  const words = text.match(/\s*\S+\s?|\s+$/g) ?? []
  for (const [sent, word] of words.entries()) {
    await pace(sent)
    yield soundOf(word)
  }
  await pace(words.length)
}

function tone(word: string, speed: number): Uint8Array {
  const perCharacter = Math.round(SAMPLES_PER_CHARACTER / speed)
  const characters = [...word]
  const samples = new Int16Array(characters.length * perCharacter)
  characters.forEach((character, index) => {
    if (/\s/.test(character)) return
    for (let i = index * perCharacter; i < (index + 1) * perCharacter; i++) {
      samples[i] = Math.round(LOUDNESS * Math.sin((2 * Math.PI * PITCH * i) / SAMPLE_RATE))
    }
  })
  return new Uint8Array(samples.buffer)
}

function silence(word: string, speed: number): Uint8Array {
  const seconds = ([...word].length * SAMPLES_PER_CHARACTER) / SAMPLE_RATE / speed
  const frames = Math.max(1, Math.round(seconds / FRAME_SECONDS))
  return Buffer.concat(Array.from({ length: frames }, () => SILENT_FRAME))
}

/** Length of one word. */
const WORD_SECONDS = 0.25

/** The scripted text, or a text with the size of the file. Each word is a quarter of a second long. */
function transcribe(input: TranscriptionInput, reply: string | undefined): Transcription {
  const text = reply ?? `A file of ${input.file.bytes.length} bytes.`
  const words = text.split(/\s+/).filter(Boolean)
  return {
    text,
    language: input.language ?? 'en',
    words: words.map((word, index) => ({
      word,
      start: index * WORD_SECONDS,
      end: (index + 1) * WORD_SECONDS,
      speaker: 'A',
    })),
  }
}

/** The same transcript, one word per event. @param pace is awaited before each event */
async function* transcriptionEvents(
  input: TranscriptionInput,
  reply: string | undefined,
  pace: (sent: number) => Promise<void>,
): AsyncGenerator<TranscriptionEvent, void, undefined> {
  const whole = transcribe(input, reply)
  const words = whole.text.match(/\s*\S+/g) ?? []
  for (const [sent, text] of words.entries()) {
    await pace(sent)
    yield { type: 'delta', text }
  }
  await pace(words.length)
  yield { type: 'done', ...whole }
}

// Generated images of one colour, which depends on the prompt.

/** What the deployment's options script. */
interface ImageScript {
  /** It is sent as the revised prompt. */
  readonly reply?: string | undefined
  /** No usage is reported. */
  readonly uncounted: boolean
}

const MAX_SIDE = 4096
const IMAGE_TOKENS = 1024

/** The requested images at once. */
function makeImages(input: ImageInput | ImageEditInput, script: ImageScript): ImageResult {
  const { prompt, size = 'auto', n = 1, quality } = input
  const [width = 0, height = 0] = size.split('x').map((side) => Math.min(Number(side), MAX_SIDE))
  const shape = width > 0 && height > 0 ? { width, height } : { width: 1024, height: 1024 }
  const data = Array.from({ length: n }, (_, index) => ({
    b64_json: pngOf(shape, `${prompt} ${index}`).toString('base64'),
    ...(script.reply !== undefined && { revised_prompt: script.reply }),
  }))
  return {
    data,
    size: `${shape.width}x${shape.height}`,
    background: 'opaque',
    output_format: 'png',
    ...(quality && quality !== 'auto' && { quality }),
    ...(!script.uncounted && { usage: usageOf(input, n) }),
  }
}

/** The same images as a stream of events. @param pace is awaited before each event */
async function* imageEvents(
  input: ImageInput | ImageEditInput,
  script: ImageScript,
  pace: (sent: number) => Promise<void>,
): AsyncGenerator<ImageEvent, void, undefined> {
  const result = makeImages(input, script)
  const partials = input.partial_images ?? 0
  for (let index = 0; index < partials; index++) {
    await pace(index)
    const side = 16 << index
    const sketch = pngOf({ width: side, height: side }, `${input.prompt} 0`)
    yield { type: 'partial', b64_json: sketch.toString('base64'), index }
  }
  await pace(partials)
  yield { type: 'completed', ...result }
}

/** Four characters of the prompt count as one token, and each image as 1,024 tokens. */
function usageOf(input: ImageInput | ImageEditInput, n: number): Usage {
  const references = 'images' in input ? (input as ImageEditInput).images.length : 0
  const imageInputTokens = references * IMAGE_TOKENS
  return {
    promptTokens: Math.ceil(input.prompt.length / 4) + imageInputTokens,
    imageInputTokens,
    completionTokens: n * IMAGE_TOKENS,
    imageOutputTokens: n * IMAGE_TOKENS,
  }
}

/** A PNG of one colour (https://www.w3.org/TR/png-3/): one bit per pixel, all 0, and a palette of one colour. */
function pngOf({ width, height }: { width: number; height: number }, name: string): Buffer {
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  // Bit depth 1, colour type 3 (palette).
  header.set([1, 3, 0, 0, 0], 8)
  const palette = Buffer.from(hash('sha256', name, 'hex').slice(0, 6), 'hex')
  const rows = deflateSync(Buffer.alloc(height * (1 + Math.ceil(width / 8))))
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    chunk('IHDR', header),
    chunk('PLTE', palette),
    chunk('IDAT', rows),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

function chunk(type: string, content: Buffer): Buffer {
  const bytes = Buffer.alloc(content.length + 12)
  bytes.writeUInt32BE(content.length, 0)
  bytes.write(type, 4, 'latin1')
  content.copy(bytes, 8)
  bytes.writeUInt32BE(crc32(bytes.subarray(4, -4)), bytes.length - 4)
  return bytes
}

// An order of documents without a model: by the share of the query's words that they have.

const DOCUMENTS_PER_UNIT = 100

/** @param uncounted no usage is reported */
function rerank({ query, documents }: RerankInput, uncounted: boolean): RerankResult {
  const wanted = wordsOf(query)
  const results = documents.map((document, index) => {
    const words = new Set(wordsOf(typeof document === 'string' ? document : document.text))
    const shared = wanted.filter((word) => words.has(word)).length
    return { index, relevance_score: wanted.length === 0 ? 0 : shared / wanted.length }
  })
  const searchUnits = Math.ceil(documents.length / DOCUMENTS_PER_UNIT)
  const promptTokens = Math.ceil((query.length + JSON.stringify(documents).length) / 4)
  return { results, ...(!uncounted && { usage: { searchUnits, promptTokens } }) }
}

function wordsOf(text: string): readonly string[] {
  return text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []
}

// Vectors without a model: the same text has the same vector.

const DIMENSIONS = 8
const MOST_DIMENSIONS = 4096
const CHARACTERS_PER_TOKEN = 4

/** A vector of length 1 for each input; undefined where longer ones are asked for than there are. @param uncounted no usage is reported */
function embed(
  { input, dimensions = DIMENSIONS }: EmbeddingInput,
  uncounted: boolean,
): EmbeddingResult | undefined {
  if (dimensions > MOST_DIMENSIONS) return undefined
  const promptTokens = input.reduce(
    (sum: number, one) =>
      sum + (typeof one === 'string' ? Math.ceil(one.length / CHARACTERS_PER_TOKEN) : one.length),
    0,
  )
  return {
    data: [...input].map((one, index) => ({ index, embedding: vectorOf(one, dimensions) })),
    ...(!uncounted && { usage: { promptTokens } }),
  }
}

function vectorOf(text: string | readonly number[], dimensions: number): number[] {
  const seed = createHash('sha256').update(JSON.stringify(text)).digest()
  const numbers = Array.from({ length: dimensions }, (_, at) => {
    const byte = seed[at % seed.length]! ^ Math.floor(at / seed.length)
    return ((byte & 0xff) - 127.5) / 127.5
  })
  const length = Math.hypot(...numbers)
  return numbers.map((one) => one / length)
}

const FAILURES = [
  'bad_request',
  'context_length',
  'content_blocked',
  'payload_too_large',
  'not_found',
  'upstream_auth',
  'upstream_balance',
  'upstream_rate',
  'overloaded',
  'upstream_error',
  'timeout',
] as const

const ms = v.pipe(v.number(), v.integer(), v.minValue(0))

const options = v.strictObject({
  /** Milliseconds before each chunk, or before a complete answer. */
  paceMs: v.optional(ms, 0),
})

const deploymentOptions = v.strictObject({
  /** Replaces the repeated message. */
  reply: v.optional(v.string()),
  /** Reasoning before the reply. */
  reasoning: v.optional(v.string()),
  /** Tool calls after the reply. */
  toolCalls: v.optional(
    v.array(v.strictObject({ name: v.string(), arguments: v.optional(v.unknown(), {}) })),
  ),
  /** Citations, in the form of `annotations`. */
  annotations: v.optional(v.array(v.looseObject({}))),
  finishReason: v.optional(v.string()),
  /** OpenAI's usage object, or `none` to report no usage. By default the mock counts. */
  usage: v.optional(v.union([v.literal('none'), v.looseObject({})])),
  /** Fails; in a stream after this many chunks. */
  error: v.optional(
    v.strictObject({
      class: v.picklist(FAILURES),
      message: v.optional(v.string(), 'The mock was told to fail.'),
      after: v.optional(ms, 0),
      retryAfterMs: v.optional(ms),
    }),
  ),
  paceMs: v.optional(ms),
})

type Script = v.InferOutput<typeof deploymentOptions>

/** The names that mean something; every other one repeats as well. */
const MODELS = [
  ['echo', 'chat'],
  ['free', 'chat'],
  ['reasoner', 'chat'],
  ['agent', 'chat'],
  ['tools', 'chat'],
  ['painter', 'image'],
  ['voice', 'speech'],
  ['ears', 'transcription'],
] as const

const fields: readonly OptionField[] = [
  { name: 'paceMs', label: 'Milliseconds before each chunk', kind: 'number' },
]
const deploymentFields: readonly OptionField[] = [
  { name: 'reply', label: 'Reply', kind: 'text' },
  { name: 'reasoning', label: 'Reasoning before the reply', kind: 'text' },
  { name: 'paceMs', label: 'Milliseconds before each chunk', kind: 'number' },
]

export default defineProvider({
  name: 'mock',
  options,
  fields,
  deploymentOptions,
  deploymentFields,
  setup({ paceMs }, { fail }) {
    const { paceOf, whole, begun } = playing(paceMs, fail)
    const images = async (request: ProviderRequest<ImageInput | ImageEditInput>) => {
      const { input, options } = request
      const { reply, usage } = options as Script
      const script = { reply, uncounted: usage === 'none' }
      const pace = paceOf(request)
      if (input.stream) return imageEvents(input, script, pace)
      await pace(Infinity)
      return makeImages(input, script)
    }
    const unsupported = (param: string, message: string) =>
      fail('bad_request', message, { code: 'unsupported_value', param })
    return {
      address: null,
      models: async () => MODELS.map(([id, modality]) => ({ id, modality })),
      generateImage: images,
      editImage: images,
      ocr: whole((input, { reply, usage }) =>
        readDocument(input, { reply, uncounted: usage === 'none' }),
      ),
      rerank: whole((input, { usage }) => rerank(input, usage === 'none')),
      moderate: whole((input, { reply = 'flag' }) => moderate(input, reply)),
      countTokens: whole(({ messages }) => promptTokens(messages)),
      embed: whole((input, { usage }) => {
        const vectors = embed(input, usage === 'none')
        if (vectors) return vectors
        throw unsupported('dimensions', 'The mock has vectors of at most 4096 numbers.')
      }),

      async speech(request) {
        const sound = synthesize(request.input, paceOf(request))
        if (sound) return sound
        throw unsupported('response_format', 'The mock speaks mp3, wav and pcm only.')
      },

      async transcribe(request) {
        const { reply } = request.options as Script
        const pace = paceOf(request)
        if (request.input.stream) return transcriptionEvents(request.input, reply, pace)
        await pace(Infinity)
        return transcribe(request.input, reply)
      },

      async complete(request) {
        const script = request.options as Script
        const pace = await begun(request)
        const answers = textAnswers(request.input, script)
        if (!request.input.stream) return toTexts(answers)
        return completionChunks(answers, pace, script.error !== undefined)
      },

      async chat(request) {
        const script = request.options as Script
        const pace = await begun(request)
        const answer = answerOf(request.input, request.model, script)
        if (!request.input.stream) return toCompletion(answer)
        return chatChunks(answer, pace, script.error !== undefined)
      },
    }
  },
})

/** How requests are answered as their scripts say. @param paceMs where a script has no pace of its own */
function playing(paceMs: number, fail: Host['fail']) {
  const failureOf = ({ class: name, message, retryAfterMs }: NonNullable<Script['error']>) =>
    fail(name, message, retryAfterMs ? { retryAfterMs } : {})
  /** Waits before each part of an answer, and fails where the script says so. */
  const paceOf = ({ options, signal }: ProviderRequest<unknown>) => {
    const { error, paceMs: own = paceMs } = options as Script
    return async (sent: number) => {
      await pause(own, signal)
      if (error && sent >= error.after) throw failureOf(error)
    }
  }
  /** An answer that is never streamed. */
  const whole =
    <In, Out>(make: (input: In, script: Script) => Out) =>
    async (request: ProviderRequest<In>) => {
      await paceOf(request)(Infinity)
      return make(request.input, request.options as Script)
    }
  /** The pace of an answer of texts. A failure before its first chunk rejects the call itself. */
  const begun = async (request: ProviderRequest<ChatInput | CompletionInput>) => {
    const pace = paceOf(request)
    const { error } = request.options as Script
    if (!request.input.stream || error?.after === 0) await pace(Infinity)
    return pace
  }
  return { paceOf, whole, begun }
}

/** Waits. @throws the signal's reason */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  if (ms === 0) return
  try {
    await sleep(ms, undefined, { signal })
  } catch (error) {
    signal.throwIfAborted()
    throw error
  }
}

// Scripted or generated answers to requests that go on with a text.

type TextScript = Parameters<typeof answerOf>[2]

/** The answer to one prompt. */
type Answer = ReturnType<typeof answerOf>

/** The answers to the prompts, in their order: what a chat with this message would be told. */
function textAnswers(input: CompletionInput, script: TextScript): readonly Answer[] {
  const { prompt, max_tokens, n = 1, stop } = input
  return prompt.map((content) => {
    const messages = [{ role: 'user', content }] as const
    const chat = { messages, n, stop, max_completion_tokens: max_tokens } as ChatInput
    return answerOf(chat, 'completion', { ...script, reasoning: undefined, toolCalls: [] })
  })
}

/** All of them as one answer. */
function toTexts(answers: readonly Answer[]): ChatCompletion {
  const whole = answers.map(toCompletion)
  const choices = whole.flatMap((one) => one.choices)
  const usage = sum(whole.map((one) => one.usage))
  return {
    choices: choices.map((choice, index) => ({ ...choice, index })),
    ...(usage && { usage }),
  }
}

/**
 * All of them as one stream, one after another.
 * @param pace is awaited before each chunk
 * @param fails whether the script asks for a failure, which may come after the last chunk
 */
async function* completionChunks(
  answers: readonly Answer[],
  pace: (sent: number) => Promise<void>,
  fails: boolean,
): AsyncGenerator<ChatChunk, void, undefined> {
  let first = 0
  let sent = 0
  const next = () => pace(sent++)
  for (const answer of answers) {
    for await (const { choices } of chatChunks(answer, next, false)) {
      if (choices.length === 0) continue
      yield { choices: choices.map((one) => ({ ...one, index: first + one.index! })) }
    }
    first += answer.choices
  }
  const usage = sum(answers.map((answer) => answer.usage))
  if (usage) yield { choices: [], usage }
  if (fails) await pace(Infinity)
  yield { choices: [], endOfStream: true }
}

/** Scripted usage counts once. */
function sum(usages: readonly ChatCompletion['usage'][]): ChatCompletion['usage'] {
  const [first] = usages
  if (!first || usages.every((one) => one === first)) return first
  const total = (name: 'prompt_tokens' | 'completion_tokens') =>
    usages.reduce((tokens, one) => tokens + Number(one?.[name] ?? 0), 0)
  return { prompt_tokens: total('prompt_tokens'), completion_tokens: total('completion_tokens') }
}

// Moderation without a model: a word decides.

/** @param word what is flagged, in any case */
function moderate({ input }: ModerationInput, word: string): ModerationResult {
  const isParts = typeof input[0] === 'object'
  const texts = isParts ? [JSON.stringify(input)] : (input as readonly string[])
  return {
    results: texts.map((text) => {
      const flagged = text.toLowerCase().includes(word.toLowerCase())
      const score = flagged ? 1 : 0
      return { flagged, categories: { word: flagged }, category_scores: { word: score } }
    }),
  }
}
