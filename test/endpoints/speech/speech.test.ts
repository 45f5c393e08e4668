import { readFileSync } from 'node:fs'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, eventsOf, type TestGateway } from '../../_setup.ts'
import { adts, mp3, wav } from '../audio/_sounds.ts'
import { json, startUpstream, type FakeResponse, type FakeUpstream } from '../../upstream.ts'

const SPEECH = '/v1/audio/speech'
const ajv = new Ajv2020({ strict: false })
const schemaOf = (name: string) =>
  ajv.compile(
    JSON.parse(readFileSync(new URL(`../../wire/schemas/${name}.json`, import.meta.url), 'utf8')),
  )
const isEvent = schemaOf('speech-stream-event')
const isError = schemaOf('error')

let vendor: FakeUpstream
let t: TestGateway

beforeAll(async () => {
  vendor = await startUpstream()
  const use = 'openai-compatible'
  const model = (...providers: string[]) => ({
    pricing: { character: '0.000015' },
    deployments: providers.map((provider, priority) => ({ provider, model: 'tts', priority })),
  })
  t = await createTestGateway({
    providers: {
      mock: { use: 'mock' },
      vendor: { use, options: { baseURL: `${vendor.url}/v1` } },
      broken: { use, options: { baseURL: `${vendor.url}/broken` } },
      samples: {
        use: 'elevenlabs',
        options: { apiKey: 'secret', baseURL: vendor.url },
        firstPartTimeout: 1,
      },
    },
    models: {
      'acme/voice': model('vendor'),
      'acme/samples': model('samples'),
      'acme/spare': model('broken', 'vendor'),
      'mock/voice': model('mock'),
      'mock/free': { ...model('mock'), pricing: { character: '0' }, free_tier: true },
      'mock/echo': {
        pricing: { prompt: '0', completion: '0' },
        deployments: [{ provider: 'mock', model: 'echo' }],
      },
    },
    routing: { cooldown: 0 },
    server: { headTimeout: 0.25 },
  })
})
afterAll(async () => {
  await t.close()
  await vendor.close()
})

const sound = (bytes: Uint8Array, more: Partial<FakeResponse> = {}): FakeResponse => ({
  headers: { 'content-type': 'audio/mpeg' },
  pieces: [bytes],
  ...more,
})

const fill = (body: object) => ({ model: 'acme/voice', input: 'Hello.', voice: 'alloy', ...body })

function say(body: object = {}, { key = t.key.secret, signal = null as AbortSignal | null } = {}) {
  return fetch(t.url + SPEECH, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(fill(body)),
    signal,
  })
}

async function bodyOf(response: Response): Promise<any> {
  return response.json()
}

/** What it took, in USD. */
async function taken(doing: () => Promise<unknown>): Promise<number> {
  const before = await t.balance()
  await doing()
  await expect.poll(() => t.gateway.running.size).toBe(0)
  return Number(before - (await t.balance())) / 1e12
}

describe('speech', () => {
  it.each([
    ['mp3', 'audio/mpeg', mp3(3)],
    ['opus', 'audio/opus', Buffer.from(`OggS${'.'.repeat(40)}`)],
    ['aac', 'audio/aac', adts(3)],
    ['flac', 'audio/flac', Buffer.from(`fLaC${'.'.repeat(40)}`)],
    ['wav', 'audio/wav', wav(0.1)],
    ['pcm', 'audio/pcm', Buffer.alloc(480)],
  ])('comes as %s, byte for byte', async (response_format, type, bytes) => {
    vendor.answer(sound(bytes))
    const response = await say({ response_format })
    expect([response.status, response.headers.get('content-type')]).toEqual([200, type])
    expect(Buffer.from(await response.arrayBuffer()).equals(bytes)).toBe(true)
    expect(vendor.requests.at(-1)!.json.response_format).toBe(response_format)
  })

  it('costs its characters, as people count them, and says so before the first byte', async () => {
    vendor.answer(sound(mp3(1)))
    const cost = await taken(async () => {
      const response = await say({ input: 'Ein Ölfaß 🛢️' })
      expect(response.headers.get('x-service-cost')).toBe('0.00018')
      expect(response.headers.get('cache-control')).toBe('no-store')
      await response.arrayBuffer()
    })
    // Twelve code points: the barrel is two of them.
    expect(cost).toBe(0.00018)
  })

  it('sends bytes while they are made', async () => {
    vendor.answer(sound(mp3(2), { ending: 'hang' }))
    const leaving = new AbortController()
    const cost = await taken(async () => {
      const response = await say({}, { signal: leaving.signal })
      expect(response.headers.get('x-service-cost')).toBe('0.00009')
      const reader = response.body!.getReader()
      let bytes = 0
      while (bytes < mp3(2).length) bytes += (await reader.read()).value!.length
      leaving.abort()
      expect(await vendor.requests.at(-1)!.aborted).toBe(true)
    })
    expect(cost).toBe(0.00009)
  })

  it('breaks the connection when the vendor does, and the charge stands', async () => {
    vendor.answer(sound(mp3(2), { ending: 'cut' }))
    const cost = await taken(async () => {
      const response = await say()
      expect(response.status).toBe(200)
      await expect(response.arrayBuffer()).rejects.toThrow()
    })
    expect(cost).toBe(0.00009)
  })

  it('is free, and an error like any other, when nothing comes', async () => {
    vendor.answer(json({ error: { message: 'x' } }, 500))
    const cost = await taken(async () => {
      const response = await say()
      const body = await bodyOf(response)
      expect([response.status, body.error.code]).toEqual([502, 'upstream_error'])
      expect(isError(body)).toBe(true)
      expect(response.headers.get('x-service-cost')).toBeNull()
    })
    expect(cost).toBe(0)
  })

  it.each(['<!doctype html><p>Busy', '{"status":"busy"}', 'Busy.'])(
    'is none where words come in its place: %s',
    async (words) => {
      vendor.answer(sound(Buffer.from(words)))
      const cost = await taken(async () => {
        const body = await bodyOf(await say())
        expect(body.error).toMatchObject({ code: 'upstream_error', param: null })
      })
      expect(cost).toBe(0)
    },
  )

  it('comes from another deployment when the first has nothing to say', async () => {
    vendor.answer(({ path }) =>
      path.startsWith('/broken') ? sound(Buffer.alloc(0)) : sound(mp3(1)),
    )
    const response = await say({ model: 'acme/spare' })
    expect(Buffer.from(await response.arrayBuffer()).equals(mp3(1))).toBe(true)
  })

  it('is made of samples where a model has nothing else', async () => {
    const response = await say({
      model: 'mock/voice',
      response_format: 'wav',
      input: 'Twenty characters...',
    })
    const file = Buffer.from(await response.arrayBuffer())
    expect(file.readUInt32LE(40)).toBe(48_000)
  })

  it('is made of samples as long as these come', async () => {
    // Longer, all together, than the beginning of a stream may take.
    const piece = Buffer.alloc(4800)
    vendor.answer({ ...sound(piece), pieces: [piece, piece, piece, piece], pauseMs: 400 })
    const response = await say({ model: 'acme/samples', response_format: 'wav' })
    expect(Buffer.from(await response.arrayBuffer()).readUInt32LE(40)).toBe(4 * piece.length)
  })

  it('is free for those who have not paid, of models that are', async () => {
    await t.newAccount('guest')
    const { secret } = await t.newKey({ account: 'guest' })
    const response = await say({ model: 'mock/free' }, { key: secret })
    expect([response.status, response.headers.get('x-service-cost')]).toEqual([200, '0'])
    const refused = await say({ model: 'mock/voice' }, { key: secret })
    expect([refused.status, (await bodyOf(refused)).error.code]).toEqual([403, 'model_not_allowed'])
  })
})

describe('speech as events', () => {
  it('says each piece, and what it cost at last', async () => {
    const bytes = Buffer.concat([mp3(1), Buffer.from([1, 2])])
    const pieces = [bytes.subarray(0, 100), bytes.subarray(100, 101), bytes.subarray(101)]
    vendor.answer(sound(bytes, { pieces }))
    const response = await say({ stream_format: 'sse' })
    const text = await response.text()
    expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
    expect(response.headers.get('x-service-cost')).toBe('0.00009')
    const events = eventsOf(text)
    for (const event of events) expect(isEvent(event), JSON.stringify(event)).toBe(true)
    const done = events.pop()
    const heard = events.map(({ audio }) => Buffer.from(audio, 'base64'))
    expect(heard.slice(0, -1).every(({ length }) => length % 3 === 0)).toBe(true)
    expect(Buffer.concat(heard).equals(bytes)).toBe(true)
    expect(done).toEqual({
      type: 'speech.audio.done',
      usage: {
        input_tokens: 0,
        output_tokens: 0,
        total_tokens: 0,
        characters: 6,
        cost: 0.00009,
        cost_details: { character_cost: 0.00009 },
      },
    })
    expect(text.endsWith('\n\n') && !text.includes('[DONE]')).toBe(true)
    expect(vendor.requests.at(-1)!.json).not.toHaveProperty('stream_format')
  })

  it('tells the cost in the head, however late the first sound is', async () => {
    const piece = Buffer.alloc(4800)
    vendor.answer({ ...sound(piece), pieces: [piece, piece, piece, piece, piece], pauseMs: 400 })
    const asked = { model: 'acme/samples', response_format: 'wav', stream_format: 'sse' }
    const response = await say(asked)
    expect(response.headers.get('x-service-cost')).toBe('0.00009')
    expect(await response.text()).toMatch(/^data: /)
  })

  it('says that it broke, and that it was charged', async () => {
    vendor.answer(sound(mp3(1), { ending: 'cut' }))
    const text = await (await say({ stream_format: 'sse' })).text()
    expect(text).toContain('\n\nevent: error\ndata: {"type":"error","error":{')
    const { error } = JSON.parse(text.split('event: error\ndata: ')[1]!)
    expect(error).toMatchObject({ code: 'upstream_error', usage: { characters: 6, cost: 0.00009 } })
  })
})

describe('a request for speech', () => {
  it.each([
    [{ model: undefined }, 'missing_required_parameter', 'model'],
    [{ input: undefined }, 'missing_required_parameter', 'input'],
    [{ voice: undefined }, 'missing_required_parameter', 'voice'],
    [{ input: '' }, 'empty_string', 'input'],
    [{ input: 7 }, 'invalid_type', 'input'],
    [{ input: 'a'.repeat(4097) }, 'string_above_max_length', 'input'],
    [{ instructions: 'a'.repeat(4097) }, 'string_above_max_length', 'instructions'],
    [{ voice: 7 }, 'invalid_type', 'voice'],
    [{ voice: {} }, 'missing_required_parameter', 'voice.id'],
    [{ response_format: 'ogg' }, 'invalid_value', 'response_format'],
    [{ speed: 0.2 }, 'decimal_below_min_value', 'speed'],
    [{ speed: 4.1 }, 'decimal_above_max_value', 'speed'],
    [{ speed: 'fast' }, 'invalid_type', 'speed'],
    [{ stream_format: 'json' }, 'invalid_value', 'stream_format'],
    [{ policy: null }, 'invalid_policy', 'policy'],
    [{ policy: { version: 2 } }, 'invalid_policy', 'policy.version'],
    [{ model: 'mock/echo' }, 'wrong_endpoint', 'model'],
    [{ model: 'mock/voice', response_format: 'aac' }, 'unsupported_value', 'response_format'],
  ])('is refused: %j', async (body, code, param) => {
    const response = await say(body)
    const answer = await bodyOf(response)
    expect([response.status, answer.error.code, answer.error.param]).toEqual([400, code, param])
    expect(isError(answer)).toBe(true)
  })

  it.each([
    ['without a key', { key: null }, 401, 'invalid_api_key'],
    [
      'for a model that is not there',
      { body: fill({ model: 'acme/voize' }) },
      404,
      'model_not_found',
    ],
    [
      'in a form',
      { headers: { 'content-type': 'multipart/form-data' } },
      415,
      'unsupported_content_type',
    ],
    ['that is no JSON', { body: '{"model":' }, 400, 'invalid_json'],
    [
      'that is too large',
      { body: fill({ input: 'a'.repeat(1024 * 1024) }) },
      413,
      'request_too_large',
    ],
  ])('is refused %s', async (_why, options, status, code) => {
    const answer = await t.ask('POST', SPEECH, { body: fill({}), ...options })
    expect([answer.status, answer.json.error.code]).toEqual([status, code])
  })

  it('may have 4096 characters of any kind, nulls, and unknown members', async () => {
    vendor.answer(sound(mp3(1)))
    const response = await say({
      input: '🙂'.repeat(4096),
      speed: null,
      seed: 7,
      stream_format: null,
    })
    expect(response.headers.get('x-service-cost')).toBe('0.06144')
    expect(vendor.requests.at(-1)!.json).toMatchObject({ seed: 7, response_format: 'mp3' })
    await response.arrayBuffer()
  })

  it('cannot be a GET', async () => {
    const answer = await t.ask('GET', SPEECH)
    expect([answer.status, answer.headers.allow]).toEqual([405, 'POST, OPTIONS'])
  })
})

describe('speech under guard', () => {
  const policy = (sides: object) =>
    ({ version: 1, bannedPatterns: ['secret'], guard: sides }) as const

  it.each([
    ['what goes in', { input: true, output: false }],
    ['what comes out', { input: false, output: true }],
  ])('is screened for %s', async (_what, sides) => {
    const { secret } = await t.newKey({ policy: policy({ ...sides, mode: 'block' }) as never })
    const before = vendor.requests.length
    for (const body of [
      { input: 'a secret' },
      { instructions: 'say secret' },
      { prompt: 'secret' },
      { voice: 'secret' },
      { voice: { id: 'a', name: 'secret' } },
    ]) {
      const response = await say(body, { key: secret })
      const { error } = await bodyOf(response)
      expect([response.status, error.code]).toEqual([400, 'policy_violation'])
    }
    expect(vendor.requests.length).toBe(before)
    vendor.answer(sound(mp3(2)))
    const passed = await say({}, { key: secret })
    expect(passed.headers.get('x-service-guard')).toMatch(/^outcome=(passed|pending)/)
    expect((await passed.arrayBuffer()).byteLength).toBe(mp3(2).length)
  })
})
