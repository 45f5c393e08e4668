/** What a client pays that leaves an answer: about what its vendor has made by then, wherever it leaves. */
import { request as httpRequest } from 'node:http'
import * as v from 'valibot'
import fc from 'fast-check'
import { afterEach, describe, expect, it, vi } from 'vitest'
import {
  defineProvider,
  type ChatChunk,
  type ChatCompletion,
  type ChatDelta,
  type ImageEvent,
  type TranscriptionEvent,
} from '../../src/plugin.ts'
import type { Settlement } from '../../src/state/ledger/ledger.ts'
import { dataUrl } from '../_documents.ts'
import { SOUND } from '../_every-endpoint.ts'
import { wav } from '../endpoints/audio/_sounds.ts'
import { createTestGateway, type TestGateway } from '../_setup.ts'
import { runs } from '../_runs.ts'

const RUNS = runs(16)
/** Fast, so that no timeout of the gateway is reached. */
const TOKENS_PER_SECOND = 5000
const SEARCH_USD = 0.0005

const SCRIPTS = {
  latin: 'The quick brown fox jumps over it. ',
  cyrillic: 'Съешь ещё этих мягких булок. ',
  chinese: '敏捷的棕色狐狸跳过了懒狗。',
  emoji: '🦊🐶🚀🎉',
} as const

type Script = keyof typeof SCRIPTS

/** One thing that the vendor does. */
type Deed =
  | { readonly does: 'hides'; readonly tokens: number; readonly summary: boolean }
  | { readonly does: 'reasons' | 'writes'; readonly text: string }
  | { readonly does: 'searches'; readonly bytes: number }

interface Scene {
  readonly deeds: readonly Deed[]
  readonly streamed: boolean
  /** Whether the request asks for reasoning. A model that is not asked may reason all the same, as its last answers tell. */
  readonly asks: boolean
  readonly model: 'acme/thinks' | 'acme/plain'
  /** The vendor's speed beside the usual one. */
  readonly speed: number
  /** The share of its deeds after which the client leaves. */
  readonly leaves: number
}

const text = fc
  .tuple(fc.constantFrom(...(Object.keys(SCRIPTS) as Script[])), fc.nat({ max: 8 }))
  .map(([script, times]) => SCRIPTS[script].repeat(times + 1))
const hides = fc.record({
  does: fc.constant('hides' as const),
  tokens: fc.integer({ min: 1, max: 3000 }),
  summary: fc.boolean(),
})
const writes = fc.record({ does: fc.constant('writes' as const), text })
const searches = fc.record({
  does: fc.constant('searches' as const),
  bytes: fc.nat({ max: 8000 }),
})
const common = {
  streamed: fc.boolean(),
  asks: fc.boolean(),
  speed: fc.double({ min: 0.95, max: 1.05, noNaN: true }),
  leaves: fc.double({ min: 0, max: 1, noNaN: true }),
}
/** Reasoning that does not pass, an answer, and the filler after it. */
const hidden = fc.record({
  ...common,
  model: fc.constant('acme/thinks' as const),
  deeds: fc
    .tuple(hides, fc.array(fc.oneof(writes, hides, searches), { maxLength: 12 }))
    .map(([first, rest]): Deed[] => [first, ...rest]),
})
/** All that is written passes. */
const shown = fc.record({
  ...common,
  model: fc.constant('acme/plain' as const),
  deeds: fc.array(fc.oneof(writes, searches), { minLength: 1, maxLength: 20 }),
})
const scene: fc.Arbitrary<Scene> = fc.oneof(hidden, shown).map((one) => {
  if (one.streamed) return one
  // Of an answer that comes whole time is the only measure.
  return { ...one, deeds: one.deeds.filter(({ does }) => does !== 'searches') }
})

/** The clock that the gateway sees: it runs with what the vendor makes. */
let aheadMs = 0
const begunMs = performance.now()

class Vendor {
  scene!: Scene
  /** Tokens of the answer, eighths of them, and quantities beside it, that were made until now. */
  eighths = 0
  resultBytes = 0
  searches = 0
  isAborted = false
  reached = Promise.withResolvers<void>()
  /** The promise that the client has left, where the answer goes on after it and ends with a report of usage. */
  left: PromiseWithResolvers<void> | undefined

  begin(next: Scene): void {
    this.scene = next
    this.eighths = this.resultBytes = this.searches = 0
    this.isAborted = false
    this.reached = Promise.withResolvers()
  }

  get usd(): number {
    const prompt = PROMPT_TOKENS + Math.ceil(this.resultBytes / 4)
    const tokens = Math.ceil(this.eighths / 8)
    return (prompt + 2 * tokens) / 1e6 + this.searches * SEARCH_USD
  }

  get report() {
    return {
      prompt_tokens: PROMPT_TOKENS + Math.ceil(this.resultBytes / 4),
      completion_tokens: Math.ceil(this.eighths / 8),
      searches: this.searches,
    }
  }

  /** Cost of the report, with all searches. */
  get reported(): bigint {
    const { prompt_tokens, completion_tokens } = this.report
    const tokens = BigInt(prompt_tokens + 2 * completion_tokens)
    return tokens * 1_000_000n + BigInt(this.searches) * BigInt(SEARCH_USD * 1e12)
  }

  /** Makes a share of something in its time. */
  #make(eighths: number): void {
    this.eighths += eighths
    aheadMs += (eighths / 8 / (TOKENS_PER_SECOND * this.scene.speed)) * 1000
  }

  async chat(signal: AbortSignal): Promise<AsyncIterable<ChatChunk> | ChatCompletion> {
    signal.addEventListener('abort', () => (this.isAborted = true))
    if (this.scene.streamed) return this.#stream(signal)
    for await (const _ of this.#stream(signal));
    const message = { role: 'assistant' as const, content: 'Done.' }
    if (this.left) {
      this.#make(3 * 5 - 5)
      return { choices: [{ index: 0, message, finish_reason: 'stop' }], usage: this.report }
    }
    throw new Error('the client has left')
  }

  async *#stream(signal: AbortSignal): AsyncGenerator<ChatChunk> {
    const { deeds, leaves } = this.scene
    const last = leaves * deeds.length
    for (let i = 0; i < Math.floor(last); i++) yield* this.#do(deeds[i]!, 1)
    const begun = deeds[Math.floor(last)]
    // What is hidden may be left in the middle.
    if (begun?.does === 'hides') yield* this.#do(begun, last % 1)
    this.reached.resolve()
    const { left } = this
    await new Promise<void>((goOn, reject) => {
      void left?.promise.then(goOn)
      signal.addEventListener('abort', () => reject(signal.reason as Error))
      if (signal.aborted) reject(signal.reason as Error)
    })
    if (begun?.does === 'hides') yield* this.#do(begun, 1 - (last % 1))
    for (const deed of deeds.slice(Math.floor(last) + (begun?.does === 'hides' ? 1 : 0)))
      yield* this.#do(deed, 1)
    yield { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }
    yield { choices: [], usage: this.report }
  }

  *#do(deed: Deed, share: number): Generator<ChatChunk> {
    if (deed.does === 'hides') {
      this.#make(deed.tokens * 8 * share)
      const base = { id: null, index: 0, format: 'other-v1' }
      const details: ChatDelta = deed.summary
        ? {
            reasoning: 'Hm.',
            reasoning_details: [{ type: 'reasoning.summary', summary: 'Hm.', ...base }],
          }
        : { reasoning_details: [{ type: 'reasoning.encrypted', data: 'x'.repeat(100), ...base }] }
      return yield delta(details)
    }
    if (deed.does === 'searches') {
      this.searches++
      yield { choices: [], searches: 1 }
      this.resultBytes += deed.bytes
      return yield { choices: [], searchBytes: deed.bytes }
    }
    this.#make(3 * Buffer.byteLength(deed.text) - deed.text.length)
    yield delta(deed.does === 'writes' ? { content: deed.text } : { reasoning: deed.text })
  }
}

const delta = (said: ChatDelta): ChatChunk => ({ choices: [{ index: 0, delta: said }] })

const PROMPT = 'Tell me something of some length, so that it has tokens.'
const PROMPT_TOKENS = Math.ceil(PROMPT.length / 4)

const DIALECTS = {
  'chat/completions': (asks: boolean) => ({
    messages: [{ role: 'user', content: PROMPT }],
    ...(asks && { reasoning_effort: 'medium' }),
  }),
  messages: (asks: boolean) => ({
    max_tokens: 64_000,
    messages: [{ role: 'user', content: PROMPT }],
    ...(asks && { thinking: { type: 'enabled', budget_tokens: 5000 } }),
  }),
  responses: (asks: boolean) => ({
    input: PROMPT,
    ...(asks && { reasoning: { effort: 'medium' } }),
  }),
} as const

async function open(vendor: Vendor, onDisconnect?: 'drain') {
  const plugin = defineProvider({
    name: 'steady',
    options: v.optional(v.looseObject({}), {}),
    setup: () => ({ chat: ({ signal }) => vendor.chat(signal) }),
  })
  const model = {
    pricing: { prompt: '0.000001', completion: '0.000002', web_search: String(SEARCH_USD) },
    max_output_tokens: 64_000,
    deployments: [{ provider: 'steady', model: 'm' }],
  }
  const t = await createTestGateway({
    providers: { steady: { use: plugin } },
    models: {
      'acme/thinks': { ...model, capabilities: ['STREAMING', 'REASONING'] },
      'acme/plain': { ...model, capabilities: ['STREAMING'] },
    },
    defaults: { limits: { rpm: 100_000 } },
    ...(onDisconnect && { billing: { onDisconnect } }),
  })
  for (const id of ['acme/thinks', 'acme/plain']) {
    const { deployments } = t.gateway.runtime.catalog.get(id)!
    const answer = { model: id, deployment: deployments[0]!.id, hidden: 'unasked' } as const
    for (let i = 0; i < 20; i++) {
      const seconds = 1000 / (TOKENS_PER_SECOND * (0.95 + i / 200))
      t.gateway.runtime.holds.learnAnswer({ ...answer, tokens: 1000, reasoning: 500, seconds })
    }
  }
  return t
}

/** Settlements in their order, as they are booked. */
function settlementsOf(t: TestGateway): () => Promise<Settlement> {
  const { ledger } = t.gateway.runtime
  const settle = ledger.settle.bind(ledger)
  let next = Promise.withResolvers<Settlement>()
  vi.spyOn(ledger, 'settle').mockImplementation((settlement) => {
    next.resolve(settlement)
    return settle(settlement)
  })
  return async () => {
    const settlement = await next.promise
    next = Promise.withResolvers()
    return settlement
  }
}

function ask(t: TestGateway, path: string, body: object) {
  const asked = httpRequest(`${t.baseURL}/${path}`, {
    method: 'POST',
    agent: false,
    headers: { authorization: `Bearer ${t.key.secret}`, 'content-type': 'application/json' },
  })
  asked.on('error', () => {}).on('response', (response) => response.on('error', () => {}).resume())
  asked.end(JSON.stringify(body))
  return asked
}

afterEach(() => void vi.restoreAllMocks())

describe.each(Object.keys(DIALECTS) as (keyof typeof DIALECTS)[])('a client of %s', (path) => {
  it('that leaves pays between 0.8 and 1.3 of what the vendor has made by then', async () => {
    vi.spyOn(performance, 'now').mockImplementation(() => begunMs + aheadMs)
    const vendor = new Vendor()
    await using t = await open(vendor)
    const settled = settlementsOf(t)
    const law = fc.asyncProperty(scene, async (next) => {
      vendor.begin(next)
      const { streamed: stream, model, asks } = next
      const reasons = asks && model === 'acme/thinks'
      const leaving = ask(t, path, { model, stream, ...DIALECTS[path](reasons) })
      await vendor.reached.promise
      leaving.destroy()
      const { cost, usage } = await settled()
      expect(vendor.isAborted).toBe(true)
      expect([usage.outcome, usage.flags]).toEqual(['cancelled', ['estimated']])
      const ratio = Number(cost) / 1e12 / vendor.usd
      expect(ratio, JSON.stringify(usage.lines)).toBeGreaterThanOrEqual(0.8)
      expect(ratio, JSON.stringify(usage.lines)).toBeLessThanOrEqual(1.3)
    })
    await fc.assert(law, { numRuns: RUNS })
  })

  it('that leaves pays with "drain" what staying costs, or what passed where nothing can be hidden', async () => {
    vi.spyOn(performance, 'now').mockImplementation(() => begunMs + aheadMs)
    const vendor = new Vendor()
    await using t = await open(vendor, 'drain')
    const settled = settlementsOf(t)
    const law = fc.asyncProperty(scene, async (next) => {
      vendor.begin(next)
      vendor.left = Promise.withResolvers()
      const { streamed: stream, model, asks } = next
      const reasons = asks && model === 'acme/thinks'
      const leaving = ask(t, path, { model, stream, ...DIALECTS[path](reasons) })
      await vendor.reached.promise
      const made = vendor.usd
      leaving.destroy()
      // The gateway knows it once it has had time for another call.
      expect((await t.ask('GET', '/v1/models')).status).toBe(200)
      vendor.left.resolve()
      const { cost, usage } = await settled()
      expect(usage.outcome).toBe('cancelled')
      if (!vendor.isAborted || !usage.flags?.includes('estimated')) {
        expect(cost).toBe(vendor.reported)
        return
      }
      expect([model, stream]).toEqual(['acme/plain', true])
      const ratio = Number(cost) / 1e12 / made
      expect(ratio).toBeGreaterThanOrEqual(0.8)
      expect(ratio).toBeLessThanOrEqual(1.3)
    })
    await fc.assert(law, { numRuns: RUNS })
  })
})

describe('an image that is paid by the token', () => {
  it.each([
    ['before its first sketch', 0, 30],
    ['after its first sketch', 1, 4160],
    ['after all sketches', 3, 4160],
  ])('costs a client that leaves %s what was made', async (_, sketches, tokens) => {
    vi.spyOn(performance, 'now').mockImplementation(() => begunMs + aheadMs)
    const reached = Promise.withResolvers<void>()
    const picture = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1').toString('base64')
    const plugin = defineProvider({
      name: 'painter',
      options: v.optional(v.looseObject({}), {}),
      setup: () => ({
        generateImage: async ({ signal }) =>
          (async function* (): AsyncGenerator<ImageEvent> {
            for (let i = 0; i < sketches; i++)
              yield { type: 'partial', b64_json: picture, index: i }
            aheadMs += (30 / 80) * 1000
            reached.resolve()
            await new Promise((_done, reject) => {
              signal.addEventListener('abort', () => reject(signal.reason as Error))
            })
          })(),
      }),
    })
    await using t = await createTestGateway({
      providers: { painter: { use: plugin } },
      models: {
        'acme/paint': {
          pricing: { prompt: '0.000005', image_output: '0.00004' },
          modality: 'image',
          deployments: [{ provider: 'painter', model: 'm' }],
        },
      },
    })
    const settled = settlementsOf(t)
    const body = { model: 'acme/paint', prompt: PROMPT, stream: true, partial_images: 3 }
    const leaving = ask(t, 'images/generations', body)
    await reached.promise
    leaving.destroy()
    const { usage } = await settled()
    const [line] = usage.lines
    expect(line!.usage.promptTokens).toBe(PROMPT_TOKENS)
    const { imageOutputTokens, completionTokens } = line!.usage
    expect(imageOutputTokens).toBe(completionTokens)
    expect(completionTokens! / tokens).toBeGreaterThanOrEqual(0.8)
    expect(completionTokens! / tokens).toBeLessThanOrEqual(1.3)
  })
})

/** Answers that are not paid by the token: what they cost is known by the request. */
const MEDIA = {
  ocr: {
    model: 'acme/reads',
    body: (n: number) => ({
      document: { type: 'document_url', document_url: `data:application/pdf;base64,${PDF}` },
      pages: Array.from({ length: n }, (_, i) => i),
    }),
    staying: (n: number) => BigInt(n) * 1_000_000_000n,
  },
  'audio/speech': {
    model: 'acme/speaks',
    body: (n: number) => ({ input: SCRIPTS.emoji.repeat(n), voice: 'a', response_format: 'mp3' }),
    staying: (n: number) => BigInt(4 * n) * 15_000_000n,
  },
  'audio/transcriptions': {
    model: 'acme/hears',
    body: (n: number) => ({ file: dataUrl('audio/wav', wav(n)) }),
    staying: (n: number) => BigInt(n) * 100_000_000n,
  },
} as const
const PDF = Buffer.from('%PDF-1.4\n').toString('base64')

class Studio {
  size = 1
  /** Pieces that come before the client leaves. */
  pieces = 0
  isAborted = false
  reached = Promise.withResolvers<void>()
  /** The promise that the client has left, where the answer goes on after it. */
  left: PromiseWithResolvers<void> | undefined

  begin(size: number, pieces: number, drains: boolean): void {
    this.size = size
    this.pieces = pieces
    this.isAborted = false
    this.reached = Promise.withResolvers()
    this.left = drains ? Promise.withResolvers() : undefined
  }

  async wait(signal: AbortSignal): Promise<void> {
    signal.addEventListener('abort', () => (this.isAborted = true))
    this.reached.resolve()
    await new Promise<void>((goOn, reject) => {
      void this.left?.promise.then(goOn)
      signal.addEventListener('abort', () => reject(signal.reason as Error))
      if (signal.aborted) reject(signal.reason as Error)
    })
  }

  async *parts<Part>(piece: Part, last: Part, signal: AbortSignal): AsyncGenerator<Part> {
    for (let i = 0; i < this.pieces; i++) yield piece
    await this.wait(signal)
    yield last
  }

  get plugin() {
    return defineProvider({
      name: 'studio',
      options: v.optional(v.looseObject({}), {}),
      setup: () => ({
        ocr: async ({ signal }) => {
          await this.wait(signal)
          const pages = Array.from({ length: this.size }, (_, index) => ({ index, markdown: 'a' }))
          return { pages, usage: { pages: this.size } }
        },
        speech: async ({ signal }) => ({ bytes: this.parts(SOUND, SOUND, signal) }),
        transcribe: async ({ input, signal }) => {
          const done = { text: 'Turn left.', usage: { seconds: this.size } }
          if (input.stream) {
            const piece = { type: 'delta' as const, text: 'Turn ' }
            return this.parts<TranscriptionEvent>(piece, { type: 'done', ...done }, signal)
          }
          await this.wait(signal)
          return done
        },
      }),
    })
  }
}

describe.each(Object.keys(MEDIA) as (keyof typeof MEDIA)[])('a client of %s', (path) => {
  it.each(['cancel', 'drain'] as const)(
    'that leaves with "%s" pays what staying costs',
    async (how) => {
      const studio = new Studio()
      const { model, body, staying } = MEDIA[path]
      const deployments = [{ provider: 'studio', model: 'm' }]
      await using t = await createTestGateway({
        providers: { studio: { use: studio.plugin } },
        models: {
          'acme/reads': { modality: 'ocr', pricing: { page: '0.001' }, deployments },
          'acme/speaks': { modality: 'speech', pricing: { character: '0.000015' }, deployments },
          'acme/hears': {
            modality: 'transcription',
            pricing: { second: '0.0001' },
            capabilities: ['STREAMING'],
            deployments,
          },
        },
        defaults: { limits: { rpm: 100_000 } },
        billing: { onDisconnect: how },
      })
      const settled = settlementsOf(t)
      const law = fc.asyncProperty(
        fc.integer({ min: 1, max: 20 }),
        fc.nat({ max: 3 }),
        fc.boolean(),
        async (size, pieces, streamed) => {
          studio.begin(size, pieces, how === 'drain')
          const stream = streamed && path === 'audio/transcriptions'
          const leaving = ask(t, path, { model, ...body(size), ...(stream && { stream }) })
          await studio.reached.promise
          leaving.destroy()
          if (studio.left) {
            // The gateway knows it once it has had time for another call.
            expect((await t.ask('GET', '/v1/models')).status).toBe(200)
            studio.left.resolve()
          }
          const { cost, usage } = await settled()
          expect(cost).toBe(staying(size))
          // Sound is booked before its first piece goes out.
          if (path !== 'audio/speech') expect(usage.outcome).toBe('cancelled')
          if (how === 'cancel') await expect.poll(() => studio.isAborted).toBe(true)
        },
      )
      await fc.assert(law, { numRuns: Math.ceil(RUNS / 5) })
    },
  )
})
