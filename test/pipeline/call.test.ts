import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ROUTES } from '../../src/gateway/routes.ts'
import type { ParsedRequest } from '../../src/pipeline/pipeline.ts'
import { dataUrl, pdfOf, pngOfPixels } from '../_documents.ts'
import { createTestGateway, type AskOptions, type TestGateway } from '../_setup.ts'
import { fakeProvider, paymentsOf } from '../payments/_provider.ts'
import { wav } from '../endpoints/audio/_sounds.ts'

/** What stages make of a call, and the file of the stage that makes each, once. */
const WRITERS: Readonly<Record<string, string>> = {
  admission: 'enter',
  request: 'request',
  labels: 'request',
  target: 'request',
  'admission.entered': 'enter',
  'admission.held': 'hold',
  'admission.estimate': 'hold',
}
/** The target of guards that are asked in place of a model. */
const TARGETS = ['pipeline/stages/request', 'endpoints/moderations/guards']

interface Access {
  readonly kind: 'read' | 'write'
  readonly field: string
  /** The file below `src/`, without extension, that did it. */
  readonly by: string
}

/** An object of a call, and a list of who reads and writes its write-once members, in order. */
function recorded<T extends object>(group: T, prefix: string, log: Access[]): T {
  const note = (kind: Access['kind'], name: string | symbol) => {
    const field = `${prefix}${String(name)}`
    if (field in WRITERS) log.push({ kind, field, by: caller() })
  }
  const kept = (name: string | symbol, value: unknown) =>
    name === 'admission' ? recorded(value as object, 'admission.', log) : value
  // What was made before the group was.
  for (const name in group) note('write', name)
  return new Proxy(group, {
    get(target, name) {
      note('read', name)
      return Reflect.get(target, name, target)
    },
    set(target, name, value) {
      const before = Reflect.get(target, name, target) as ParsedRequest | undefined
      // Labels are added to a request, and its content is taken out of it once it has served.
      const isNamed = name === 'request' && before && value.labels !== before.labels
      if (isNamed) note('write', 'labels')
      else if (!servesNoMore()) note('write', name)
      return Reflect.set(target, name, kept(name, value), target)
    },
  })
}

/** Whether the content of a request is being dropped. */
function servesNoMore(): boolean {
  return /\bdropContent\b/.test(new Error().stack ?? '')
}

/** The file of `src/` that is nearest on the stack, but for the call itself. */
function caller(): string {
  const stack = new Error().stack ?? ''
  const files = Array.from(stack.matchAll(/\/src\/([\w/-]+)\.ts/g), ([, file]) => file!)
  return files.find((file) => file !== 'pipeline/pipeline') ?? 'pipeline/pipeline'
}

const price = (pricing: Record<string, string>, more: object = {}) => ({
  pricing,
  deployments: [{ provider: 'mock', model: 'any' }],
  ...more,
})

const png = dataUrl('image/png', pngOfPixels({ width: 2, height: 2 }, Buffer.alloc(4)))
const messages = [{ role: 'user', content: 'hello' }]
const image = { modality: 'image' as const, capabilities: ['REFERENCES' as const] }

/** What looks at a call when it has ended, wherever that was. */
const ENDS: ReadonlySet<string> = new Set(['pipeline/stages/trace', 'pipeline/call-record'])

/** One request for every route. */
const REQUESTS: Readonly<Record<string, readonly AskOptions[]>> = {
  'GET /openapi.json': [{ key: null }],
  'GET /v1/models': [{ key: null }],
  'GET /v1/models/user': [{}],
  'GET /v1/models/{id}': [{ key: null }],
  'GET /v1/key/requests/{id}': [{}],
  'GET /v1/key': [{}],
  'GET /v1/key/usage': [{}],
  'GET /v1/key/requests': [{}],
  'GET /v1/credits': [{}],
  'POST /v1/key/checkout': [{ body: { usd: '10' } }],
  'GET /v1/key/payments': [{}],
  'GET /v1/key/payments/{reference}': [{}],
  'POST /v1/chat/completions': [
    { body: { model: 'mock/echo', messages } },
    { body: { model: 'mock/echo', messages, stream: true, session_id: 's' } },
    {
      body: { model: 'mock/echo', messages, policy: { version: 1, bannedPatterns: ['elephant'] } },
    },
  ],
  'POST /v1/messages/count_tokens': [{ body: { model: 'mock/echo', messages } }],
  'POST /v1/messages': [
    { body: { model: 'mock/echo', messages, max_tokens: 9 } },
    { body: { model: 'mock/echo', messages, max_tokens: 9, stream: true } },
  ],
  'POST /v1/responses/input_tokens': [{ body: { model: 'mock/echo', input: 'hi' } }],
  'POST /v1/responses': [
    { body: { model: 'mock/echo', input: 'hi' } },
    { body: { model: 'mock/echo', input: 'hi', stream: true } },
  ],
  'POST /v1/responses/compact': [{ body: { model: 'mock/echo', input: 'hi' } }],
  'POST /v1/completions': [
    { body: { model: 'mock/text', prompt: 'hi' } },
    { body: { model: 'mock/text', prompt: 'hi', stream: true } },
  ],
  'POST /v1/embeddings': [{ body: { model: 'mock/vectors', input: 'hi' } }],
  'POST /v1/rerank': [{ body: { model: 'mock/ranks', query: 'hi', documents: ['hi', 'ho'] } }],
  'POST /v1/moderations': [{ body: { model: 'mock/moderation', input: 'hi' } }],
  'POST /v1/images/generations': [{ body: { model: 'mock/painter', prompt: 'a cube' } }],
  'POST /v1/images/edits': [
    { body: { model: 'mock/painter', prompt: 'a cube', images: [{ image_url: png }] } },
  ],
  'POST /v1/audio/speech': [{ body: { model: 'mock/voice', input: 'hi', voice: 'v' } }],
  'POST /v1/audio/transcriptions': [
    { body: { model: 'mock/ears', file: dataUrl('audio/wav', wav(1)) } },
  ],
  'POST /v1/ocr': [
    {
      body: {
        model: 'mock/reader',
        document: {
          type: 'document_url',
          document_url: dataUrl('application/pdf', pdfOf([{ text: 'Hello', y: 700 }])),
        },
      },
    },
  ],
}

describe('the fields of a call', () => {
  const log: Access[] = []
  let t: TestGateway

  beforeAll(async () => {
    t = await createTestGateway({
      ...paymentsOf(fakeProvider()),
      providers: { mock: { use: 'mock' } },
      models: {
        'mock/echo': price(
          { prompt: '0.000001', completion: '0.000002' },
          {
            capabilities: ['STREAMING'],
          },
        ),
        'mock/painter': price({ image: '0.04' }, image),
        'mock/voice': price({ character: '0.000015' }),
        'mock/ears': price({ second: '0.0001' }),
        'mock/reader': price({ page: '0.0017' }),
        'mock/text': price(
          { prompt: '0.000001', completion: '0.000002' },
          { capabilities: ['COMPLETIONS'] },
        ),
        'mock/vectors': price({ prompt: '0.00000002' }, { modality: 'embedding' }),
        'mock/ranks': price({ search_unit: '0.002' }, { modality: 'rerank' }),
        'mock/moderation': price({ prompt: '0.0000001' }, { modality: 'moderation' }),
      },
    })
    const { track } = t.gateway
    t.gateway.track = (call) => {
      Object.assign(call, { made: recorded(call.made, '', log) })
      track(call)
    }
  })
  afterAll(() => t.close())

  /** The id of a call that has ended. */
  const chatId = async () => {
    const { headers } = await t.chat({ messages, model: 'mock/echo' })
    await expect.poll(() => t.gateway.running.size).toBe(0)
    return String(headers['x-service-request-id'])
  }
  /** The reference of an order of credit. */
  const orderId = async (): Promise<string> => {
    const { json } = await t.ask('POST', '/v1/key/checkout', { body: { usd: '10' } })
    return json.data.reference
  }
  const idFor = (path: string) =>
    path.includes('/requests/') ? chatId() : path.includes('/payments/') ? orderId() : 'mock/echo'

  it.each(ROUTES.map(({ method, path }) => [method, path] as const))(
    'are each written once, by their stage, before they are read: %s %s',
    async (method, path) => {
      const requests = REQUESTS[`${method} ${path}`]!
      for (const request of requests) {
        const id = await idFor(path)
        await expect.poll(() => t.gateway.running.size).toBe(0)
        log.length = 0
        const { status, text } = await t.ask(method, path.replace(/\{\w+\}/, id), request)
        expect(status, text).toBe(200)
        await expect.poll(() => t.gateway.running.size).toBe(0)
        expect(faultsIn(log)).toEqual([])
        // What a stage of this route writes, another one needs.
        expect(log.some(({ kind }) => kind === 'read')).toBe(true)
      }
    },
  )
})

function isMember(field: string): boolean {
  return field.includes('.')
}

function faultsIn(log: readonly Access[]): string[] {
  const written = new Set<string>()
  const faults: string[] = []
  const later = new Set(log.filter(({ kind }) => kind === 'write').map(({ field }) => field))
  for (const { kind, field, by } of log) {
    if (kind === 'write') {
      if (written.has(field)) faults.push(`${field} was written twice, by ${by}`)
      const stage = `pipeline/stages/${WRITERS[field]}`
      const writers = field === 'target' ? TARGETS : [stage]
      if (!writers.includes(by)) faults.push(`${field} was written by ${by}`)
      written.add(field)
    } else if (!written.has(field) && (later.has(field) || (isMember(field) && !ENDS.has(by)))) {
      // The record of a call says of it what is known at its end, and no route has all fields. A call without a group throws
      // where one is needed.
      faults.push(`${field} was read by ${by} before it was written`)
    }
  }
  return faults
}
