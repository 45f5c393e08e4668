/** Endpoints without turns: a refusal is always an error, and what was generated is charged. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { dataUrl, pdfOf } from '../_documents.ts'
import { createTestGateway, type TestGateway } from '../_setup.ts'
import { mp3, wav } from '../endpoints/audio/_sounds.ts'
import { formatPico } from '../../src/money/money.ts'
import {
  events,
  json,
  sse,
  startUpstream,
  type FakeResponse,
  type FakeUpstream,
} from '../upstream.ts'
import { guardPlugin, wordGuard } from './_doubles.ts'

const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=='
const PDF = dataUrl('application/pdf', pdfOf([{ text: 'Hello', y: 700 }]))
const SOUND = dataUrl('audio/wav', wav(2.6))
const SAFE = 'a bird'
const TOKENS = {
  type: 'tokens',
  input_tokens: 14,
  input_token_details: { text_tokens: 0, audio_tokens: 14 },
  output_tokens: 45,
  total_tokens: 59,
}

interface Form {
  readonly name: string
  readonly path: string
  /** A request with these words. */
  readonly body: (words: string) => object
  /** What the vendor answers, with these words where it says any. */
  readonly answer: (words: string) => FakeResponse
  /** What an answer costs, in USD. */
  readonly cost: number
  /** Words come out. */
  readonly says: boolean
  /** The violation is known when a part of the answer has gone out. */
  readonly late?: boolean
}

const image = { b64_json: PNG }
const IMAGES = '/v1/images/generations'
const TRANSCRIPTS = '/v1/audio/transcriptions'
const hear = (prompt: string, more: object = {}) => ({
  model: 'acme/ear',
  file: SOUND,
  prompt,
  ...more,
})
const sound: FakeResponse = { headers: { 'content-type': 'audio/mpeg' }, pieces: [mp3(3)] }
const named = (type: string, payload: object) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...payload })}\n\n`

const FORMS: readonly Form[] = [
  {
    name: 'images',
    path: IMAGES,
    body: (prompt) => ({ model: 'acme/painter', prompt }),
    answer: (words) => json({ created: 1, data: [{ ...image, revised_prompt: words }] }),
    cost: 0.04,
    says: true,
  },
  {
    name: 'images in a stream',
    path: IMAGES,
    body: (prompt) => ({ model: 'acme/painter', prompt, stream: true, partial_images: 1 }),
    answer: (words) =>
      sse(
        named('image_generation.partial_image', { ...image, partial_image_index: 0 }) +
          named('image_generation.completed', { ...image, revised_prompt: words }),
      ),
    cost: 0.04,
    // Of images in a stream no words are handed on.
    says: false,
  },
  {
    name: 'images after images',
    path: '/v1/images/edits',
    body: (prompt) => ({
      model: 'acme/painter',
      prompt,
      images: [{ image_url: `data:image/png;base64,${PNG}` }],
    }),
    answer: (words) => json({ created: 1, data: [{ ...image, revised_prompt: words }] }),
    cost: 0.04,
    says: true,
  },
  {
    name: 'documents',
    path: '/v1/ocr',
    body: (words) => ({
      model: 'acme/reader',
      document: { type: 'document_url', document_url: PDF, document_name: `${words}.pdf` },
    }),
    answer: (markdown) =>
      json({
        model: 'ocr',
        pages: [{ index: 0, markdown, images: [], dimensions: null }],
        usage_info: { pages_processed: 1, doc_size_bytes: 9 },
      }),
    cost: 0.0017,
    says: true,
  },
  {
    name: 'speech',
    path: '/v1/audio/speech',
    body: (input) => ({ model: 'acme/voice', voice: 'alloy', input }),
    answer: () => sound,
    cost: 0.00009,
    says: false,
  },
  {
    name: 'speech in a stream',
    path: '/v1/audio/speech',
    body: (input) => ({ model: 'acme/voice', voice: 'alloy', input, stream_format: 'sse' }),
    answer: () => sound,
    cost: 0.00009,
    says: false,
  },
  {
    name: 'transcripts',
    path: TRANSCRIPTS,
    body: hear,
    answer: (text) => json({ text, usage: TOKENS }),
    cost: 0.000534,
    says: true,
  },
  {
    name: 'transcripts in a stream',
    path: TRANSCRIPTS,
    body: (prompt) => hear(prompt, { stream: true }),
    answer: (text) =>
      events(
        { type: 'transcript.text.delta', delta: 'Look: ' },
        ...text.match(/.{1,4}/gs)!.map((delta) => ({ type: 'transcript.text.delta', delta })),
        { type: 'transcript.text.done', text: `Look: ${text}`, usage: TOKENS },
      ),
    cost: 0.000534,
    says: true,
    late: true,
  },
]

let vendor: FakeUpstream
let t: TestGateway
beforeAll(async () => {
  vendor = await startUpstream()
  const model = (modality: string, pricing: object, provider = 'vendor') => ({
    modality,
    pricing,
    capabilities: ['STREAMING', 'REFERENCES'],
    deployments: [{ provider, model: modality === 'image' ? 'gpt-image-1' : 'swift' }],
  })
  const options = { apiKey: 'k', baseURL: `${vendor.url}/v1` }
  const broken = wordGuard('x', {
    enforces: ['deny:math'],
    checkInput() {
      throw new Error('broken')
    },
    checkOutput() {
      throw new Error('broken')
    },
  })
  t = await createTestGateway({
    providers: {
      vendor: { use: 'openai', options },
      mistral: { use: 'mistral', options },
    },
    models: {
      'acme/painter': model('image', { image: '0.04' }),
      'acme/reader': model('ocr', { page: '0.0017' }, 'mistral'),
      'acme/voice': model('speech', { character: '0.000015' }),
      'acme/ear': model('transcription', { audio: '0.000006', completion: '0.00001' }),
    } as never,
    guards: { use: [{ use: guardPlugin('broken', broken) }] },
  })
})
afterAll(async () => {
  await t.close()
  await vendor.close()
})

const keys = new Map<string, string>()
async function ask(form: Form, policy: object, words: { in?: string; out?: string }) {
  const id = JSON.stringify(policy)
  const key = keys.get(id) ?? (await t.newKey({ policy: { version: 1, ...policy } })).secret
  keys.set(id, key)
  vendor.answer(form.answer(words.out ?? SAFE))
  const [before, count] = [await t.balance(), vendor.requests.length]
  const answer = await t.ask('POST', form.path, { key, body: form.body(words.in ?? SAFE) })
  await expect.poll(() => t.gateway.running.size).toBe(0)
  const paid = Number(formatPico(before - (await t.balance())))
  const { status, headers, text } = answer
  return { status, headers, text, paid, asked: vendor.requests.length - count }
}

/** The error of an answer: its body, or the last of its events. */
function errorOf({ status, text }: { status: number; text: string }) {
  if (status !== 200) return JSON.parse(text).error
  const payloads = [...text.matchAll(/^data: (\{.*)$/gm)]
  return payloads.map(([, payload]) => JSON.parse(payload!)).find((event) => event.error)?.error
}

const BANNED = { bannedPatterns: ['heron'] }
const bothForms = ['refuse', 'error'] as const

describe.each(FORMS.map((form) => [form.name, form] as const))('%s', (_, form) => {
  it('that keep to the rules are as they would be, and cost the same', async () => {
    const { status, text, paid, asked } = await ask(form, BANNED, {})
    expect([status, paid, asked]).toEqual([200, form.cost, 1])
    expect(text).not.toContain('"error"')
  })

  it.each(bothForms)('are refused for what was asked, for free: %s', async (onBlock) => {
    const answer = await ask(form, { ...BANNED, guard: { onBlock } }, { in: 'a HERON' })
    expect([answer.status, answer.paid, answer.asked]).toEqual([400, 0, 0])
    expect(errorOf(answer)).toMatchObject({ code: 'policy_violation', param: null })
    expect(answer.headers['x-service-guard']).toBe(
      'outcome=blocked; side=input; rules=bannedPatterns[0]',
    )
  })

  it('cost nothing when a guard could not look', async () => {
    const answer = await ask(form, { deny: ['math'] }, {})
    expect([answer.status, answer.paid]).toEqual([503, 0])
    expect(errorOf(answer)).toMatchObject({ code: 'guard_unavailable', type: 'server_error' })
    expect(answer.headers['retry-after']).toBe('5')
  })

  if (!form.says) return

  it.each(bothForms)('are refused for what was said, and paid for: %s', async (onBlock) => {
    const answer = await ask(form, { ...BANNED, guard: { onBlock } }, { out: 'a HERON' })
    expect([answer.status, answer.asked]).toEqual([form.late ? 200 : 400, 1])
    const error = errorOf(answer)
    expect(error).toMatchObject({ code: 'policy_violation', type: 'invalid_request_error' })
    expect(error.usage.cost).toBe(answer.paid)
    expect(answer.paid).toBe(form.cost)
    expect(answer.text).not.toMatch(/heron/i)
    expect(answer.text).not.toContain(PNG)
  })
})
