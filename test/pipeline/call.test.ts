import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ROUTES } from '../../src/gateway/routes.ts'
import type { Call } from '../../src/pipeline/pipeline.ts'
import { dataUrl, pdfOf, pngOfPixels } from '../_documents.ts'
import { createTestGateway, type AskOptions, type TestGateway } from '../_setup.ts'
import { wav } from '../endpoints/audio/_sounds.ts'

/** Fields that are written once, and the file of the stage that writes each. */
const WRITERS: Readonly<Record<string, string>> = {
  key: 'enter',
  account: 'enter',
  entered: 'enter',
  request: 'request',
  labels: 'request',
  model: 'request',
  online: 'request',
  held: 'hold',
  policy: 'request',
}

interface Access {
  readonly kind: 'read' | 'write'
  readonly field: string
  /** The file below `src/`, without extension, that did it. */
  readonly by: string
}

/** The call, and a list of who reads and writes its write-once fields, in order. */
function recorded(call: Call, log: Access[]): Call {
  return new Proxy(call, {
    get(target, name) {
      if (typeof name === 'string' && name in WRITERS) {
        log.push({ kind: 'read', field: name, by: caller() })
      }
      const value = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
    set(target, name, value) {
      if (typeof name === 'string' && name in WRITERS) {
        log.push({ kind: 'write', field: name, by: caller() })
      }
      return Reflect.set(target, name, value, target)
    },
  })
}

/** The file of `src/` that is nearest on the stack. */
function caller(): string {
  return /\/src\/([\w/-]+)\.ts/.exec(new Error().stack ?? '')?.[1] ?? 'unknown'
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
  'GET /v1/key': [{}],
  'GET /v1/key/usage': [{}],
  'GET /v1/key/requests': [{}],
  'GET /v1/credits': [{}],
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
  const runs = ROUTES.map((route) => [route, route.run] as const)
  const log: Access[] = []
  let t: TestGateway

  beforeAll(async () => {
    for (const [route, run] of runs) {
      Object.assign(route, { run: (call: Call) => run(recorded(call, log)) })
    }
    t = await createTestGateway({
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
  })
  afterAll(async () => {
    await t.close()
    for (const [route, run] of runs) Object.assign(route, { run })
  })

  it.each(ROUTES.map(({ method, path }) => [method, path] as const))(
    'are each written once, by their stage, before they are read: %s %s',
    async (method, path) => {
      const requests = REQUESTS[`${method} ${path}`]!
      for (const request of requests) {
        log.length = 0
        const { status, text } = await t.ask(method, path.replace('{id}', 'mock/echo'), request)
        expect(status, text).toBe(200)
        await expect.poll(() => t.gateway.running.size).toBe(0)
        expect(faultsIn(log)).toEqual([])
        // What a stage of this route writes, another one needs.
        expect(log.some(({ kind }) => kind === 'read')).toBe(true)
      }
    },
  )
})

function faultsIn(log: readonly Access[]): string[] {
  const written = new Set<string>()
  const faults: string[] = []
  const later = new Set(log.filter(({ kind }) => kind === 'write').map(({ field }) => field))
  for (const { kind, field, by } of log) {
    if (kind === 'write') {
      if (written.has(field)) faults.push(`${field} was written twice, by ${by}`)
      if (by !== `pipeline/stages/${WRITERS[field]}`) faults.push(`${field} was written by ${by}`)
      written.add(field)
    } else if (!written.has(field) && (later.has(field) || !ENDS.has(by))) {
      // The record of a call says of it what is known at its end, and no route has all fields.
      faults.push(`${field} was read by ${by} before it was written`)
    }
  }
  return faults
}
