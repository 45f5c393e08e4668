import { readFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { gzipSync } from 'node:zlib'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, type Answer, type AskOptions, type TestGateway } from '../../_setup.ts'
import { json, sse, startUpstream, type FakeUpstream } from '../../upstream.ts'

const GENERATIONS = '/v1/images/generations'
const EDITS = '/v1/images/edits'
/** One pixel each. */
const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=='
const GIF = 'R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7'
const JPEG = Buffer.concat([Buffer.from('ffd8ffe000104a464946', 'hex'), Buffer.alloc(20)])
const MIB = 1024 * 1024

const ajv = new Ajv2020({ strict: false })
const schemaOf = (name: string) =>
  ajv.compile(
    JSON.parse(readFileSync(new URL(`../../wire/schemas/${name}.json`, import.meta.url), 'utf8')),
  )
const isResponse = schemaOf('images-response')
const isEvent = schemaOf('images-stream-event')
const isError = schemaOf('error')

/** Prices that the files in `test/wire/examples` have too. */
const BY_TOKEN = { prompt: '0.000005', image_token: '0.00001', image_output: '0.00004' }

let vendor: FakeUpstream
let t: TestGateway

beforeAll(async () => {
  vendor = await startUpstream()
  const model = (name: string, pricing: object, capabilities: string[] = []) => ({
    modality: 'image' as const,
    pricing,
    capabilities: capabilities as [],
    deployments: [{ provider: 'vendor', model: name }],
  })
  t = await createTestGateway({
    providers: {
      vendor: { use: 'openai', options: { apiKey: 'k', baseURL: `${vendor.url}/v1` } },
      mock: { use: 'mock' },
    },
    models: {
      'acme/painter': model('gpt-image-1', BY_TOKEN, ['REFERENCES', 'STREAMING']),
      'acme/whole': model('gpt-image-1', BY_TOKEN, ['REFERENCES']),
      'acme/flat': model('gpt-image-1', { image: '0.04' }),
      'acme/old': model('dall-e-3', { image: '0.04' }),
      'mock/painter': {
        modality: 'image',
        pricing: BY_TOKEN,
        capabilities: ['REFERENCES', 'STREAMING'],
        deployments: [{ provider: 'mock', model: 'painter', options: { reply: 'a red cube' } }],
      },
      'mock/echo': {
        pricing: { prompt: '0', completion: '0' },
        deployments: [{ provider: 'mock', model: 'echo' }],
      },
    },
    routing: { cooldown: 0 },
  })
})

afterAll(async () => {
  await t.close()
  await vendor.close()
})

const ask = (body: object, options: AskOptions = {}) =>
  t.ask('POST', GENERATIONS, { ...options, body: { prompt: 'a cube', ...body } })

const editJson = (body: object) => t.ask('POST', EDITS, { body: { prompt: 'a cube', ...body } })

async function editForm(parts: readonly (readonly [string, string | Blob, string?])[]) {
  const form = new FormData()
  for (const [name, value, filename] of parts) {
    if (typeof value === 'string') form.append(name, value)
    else form.append(name, value, filename)
  }
  const encoded = new Response(form)
  const headers = { 'content-type': encoded.headers.get('content-type')! }
  return t.ask('POST', EDITS, { body: new Uint8Array(await encoded.arrayBuffer()), headers })
}

const png = () => new Blob([Buffer.from(PNG, 'base64')])
const drawn = (count: number, usage?: object, more: object = {}) =>
  json({
    created: 1,
    background: 'opaque',
    output_format: 'png',
    quality: 'low',
    size: '1024x1024',
    data: Array.from({ length: count }, () => ({ b64_json: PNG })),
    ...(usage && { usage }),
    ...more,
  })
const USAGE = {
  input_tokens: 11,
  input_tokens_details: { text_tokens: 11, image_tokens: 0 },
  output_tokens: 1056,
  total_tokens: 1067,
}

function expectError(answer: Answer, status: number, code: string, param: string | null): void {
  expect({ status: answer.status, ...answer.json.error }).toMatchObject({ status, code, param })
  expect(isError(answer.json), JSON.stringify(isError.errors)).toBe(true)
}

/** The events of a stream, each with its name. */
function eventsOf(text: string): any[] {
  return text
    .trimEnd()
    .split('\n\n')
    .map((event) => {
      const [, name, payload] = /^event: (.*)\ndata: (.*)$/.exec(event)!
      const parsed = JSON.parse(payload!)
      expect(parsed.type).toBe(name)
      expect(isEvent(parsed), JSON.stringify(isEvent.errors)).toBe(true)
      return parsed
    })
}

describe('generations', () => {
  it('are charged by the token, exactly, and say so', async () => {
    vendor.answer(drawn(1, USAGE))
    const before = await t.balance()
    const answer = await ask({ model: 'acme/painter', size: '1024x1024', quality: 'low' })
    expect(answer.status).toBe(200)
    expect(isResponse(answer.json), JSON.stringify(isResponse.errors)).toBe(true)
    // 11 × 0.000005 + 1056 × 0.00004
    expect(answer.json.usage).toEqual({
      input_tokens: 11,
      output_tokens: 1056,
      total_tokens: 1067,
      input_tokens_details: { text_tokens: 11, image_tokens: 0 },
      output_tokens_details: { text_tokens: 0, image_tokens: 1056 },
      cost: 0.042295,
      cost_details: { prompt_cost: 0.000055, image_cost: 0.04224 },
    })
    expect(answer.headers['x-service-cost']).toBe('0.042295')
    expect(before - (await t.balance())).toBe(42_295_000_000n)
    expect(answer.json).toMatchObject({ size: '1024x1024', quality: 'low', background: 'opaque' })
  })

  it('are charged by the image where that is the price', async () => {
    vendor.answer(drawn(3, USAGE))
    const { json: body } = await ask({ model: 'acme/flat', n: 3 })
    expect(isResponse(body), JSON.stringify(isResponse.errors)).toBe(true)
    expect(body.data).toHaveLength(3)
    expect(body.usage).toMatchObject({
      input_tokens: 0,
      output_tokens: 0,
      total_tokens: 0,
      image_count: 3,
      cost: 0.12,
      cost_details: { image_cost: 0.12 },
    })
  })

  it('are charged by estimate where the vendor counts nothing and tokens are the price', async () => {
    vendor.answer(drawn(1))
    const { json: body } = await ask({ model: 'acme/painter', prompt: 'x'.repeat(40) })
    // 10 × 0.000005 + 4160 × 0.00004
    expect(body.usage.cost).toBe(0.16645)
  })

  it('go upstream in the words of the vendor, without what is the gateway’s own', async () => {
    vendor.answer(drawn(1, USAGE))
    await ask({
      model: 'acme/painter:online',
      response_format: 'b64_json',
      style: 'vivid',
      moderation: 'low',
      background: null,
      seed: 7,
      stream: false,
      partial_images: 2,
      policy: { version: 1, maxOutputTokens: 5 },
    })
    expect(vendor.requests.at(-1)).toMatchObject({
      path: '/v1/images/generations',
      json: { model: 'gpt-image-1', prompt: 'a cube', moderation: 'low' },
    })
    expect(Object.keys(vendor.requests.at(-1)!.json)).toHaveLength(3)
  })

  it('are asked for one by one where a model makes no more, and fetched as bytes', async () => {
    vendor.answer(
      json({ created: 1, data: [{ b64_json: PNG, revised_prompt: 'A cube of glass' }] }),
    )
    const asked = vendor.requests.length
    const { json: body } = await ask({ model: 'acme/old', n: 3, style: 'natural', quality: 'hd' })
    expect(body.data).toHaveLength(3)
    expect(body.data[2].revised_prompt).toBe('A cube of glass')
    expect(body.usage).toMatchObject({ image_count: 3, cost: 0.12 })
    const requests = vendor.requests.slice(asked)
    expect(requests).toHaveLength(3)
    for (const { json: sent } of requests) {
      expect(sent).toMatchObject({ n: 1, response_format: 'b64_json', style: 'natural' })
    }
  })

  it('fail, and cost nothing, with fewer images than were asked for', async () => {
    vendor.answer(drawn(2, USAGE))
    const before = await t.balance()
    expectError(await ask({ model: 'acme/flat', n: 3 }), 502, 'upstream_error', null)
    expect(await t.balance()).toBe(before)
  })

  it.each([
    ['a data URL', `data:image/png;base64,${PNG}`],
    [
      'URL-safe base64 without padding',
      PNG.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, ''),
    ],
    ['lines', PNG.replace(/.{20}/g, '$&\r\n')],
  ])('are in plain base64 when the vendor sent %s', async (_form, b64_json) => {
    vendor.answer(json({ created: 1, data: [{ b64_json }], usage: USAGE }))
    const { json: body } = await ask({ model: 'acme/painter' })
    expect(body.data).toEqual([{ b64_json: PNG }])
  })

  it.each([
    ['no base64', 'not base64!'],
    ['nothing', null],
  ])('fail when the vendor sent %s', async (_what, b64_json) => {
    vendor.answer(json({ created: 1, data: [{ b64_json }] }))
    expectError(await ask({ model: 'acme/flat' }), 502, 'upstream_error', null)
  })

  it('name the format that the bytes have, and no look that is not in the contract', async () => {
    const look = { output_format: 'png', background: 'auto', quality: 'best' }
    for (const size of ['large', ['2x2']]) {
      const data = [{ b64_json: JPEG.toString('base64') }]
      vendor.answer(drawn(1, USAGE, { data, ...look, size }))
      const { json: body } = await ask({ model: 'acme/painter' })
      expect(body.output_format).toBe('jpeg')
      expect(body).not.toHaveProperty('background')
      expect(body).not.toHaveProperty('quality')
      expect(body).not.toHaveProperty('size')
    }
  })

  it('by the mock are images', async () => {
    const { json: body } = await ask({ model: 'mock/painter', size: '512x256', n: 2 })
    expect(isResponse(body), JSON.stringify(isResponse.errors)).toBe(true)
    expect(body.data[0].revised_prompt).toBe('a red cube')
    const bytes = Buffer.from(body.data[1].b64_json, 'base64')
    expect(bytes.subarray(1, 4).toString()).toBe('PNG')
    expect([bytes.readUInt32BE(16), bytes.readUInt32BE(20)]).toEqual([512, 256])
  })
})

describe('what is wrong with a request for images', () => {
  const model = 'acme/painter'
  it.each([
    ['no model', { model: undefined }, 'missing_required_parameter', 'model'],
    ['no prompt', { model, prompt: undefined }, 'missing_required_parameter', 'prompt'],
    ['an empty prompt', { model, prompt: '' }, 'empty_string', 'prompt'],
    ['a long prompt', { model, prompt: '😀'.repeat(32_001) }, 'string_above_max_length', 'prompt'],
    ['a prompt in parts', { model, prompt: ['a'] }, 'invalid_type', 'prompt'],
    ['no image', { model, n: 0 }, 'integer_below_min_value', 'n'],
    ['too many', { model, n: 11 }, 'integer_above_max_value', 'n'],
    ['a number as text', { model, n: '1' }, 'invalid_type', 'n'],
    ['a size in words', { model, size: 'large' }, 'invalid_value', 'size'],
    ['an unknown quality', { model, quality: 'best' }, 'invalid_value', 'quality'],
    ['an address', { model, response_format: 'url' }, 'unsupported_value', 'response_format'],
    ['another form', { model, response_format: 'jpg' }, 'invalid_value', 'response_format'],
    ['another format', { model, output_format: 'gif' }, 'invalid_value', 'output_format'],
    [
      'much compression',
      { model, output_compression: 101 },
      'integer_above_max_value',
      'output_compression',
    ],
    ['a coloured background', { model, background: 'red' }, 'invalid_value', 'background'],
    ['no moderation', { model, moderation: 'none' }, 'invalid_value', 'moderation'],
    ['a style', { model, style: 'bold' }, 'invalid_value', 'style'],
    [
      'many partial images',
      { model, partial_images: 4 },
      'integer_above_max_value',
      'partial_images',
    ],
    ['a stream of two', { model, stream: true, n: 2 }, 'unsupported_value', 'n'],
    ['stream as text', { model, stream: 'yes' }, 'invalid_type', 'stream'],
    ['a policy', { model, policy: { version: 2 } }, 'invalid_policy', 'policy.version'],
    ['no policy', { model, policy: null }, 'invalid_policy', 'policy'],
  ])('%s', async (_what, body, code, param) => {
    expectError(await ask(body), 400, code, param)
  })

  it('the wrong model, route, type or size', async () => {
    expectError(await ask({ model: 'acme/paintr' }), 404, 'model_not_found', 'model')
    const chat = await ask({ model: 'mock/echo' })
    expectError(chat, 400, 'wrong_endpoint', 'model')
    expect(chat.json.error.message).toContain('/v1/chat/completions')
    const headers = { 'content-type': 'text/plain' }
    expectError(await ask({ model }, { headers }), 415, 'unsupported_content_type', null)
    const large = await ask({ model, prompt: 'x'.repeat(MIB) })
    expectError(large, 413, 'request_too_large', null)
    expectError(await t.ask('POST', GENERATIONS, { body: '{"model":' }), 400, 'invalid_json', null)
    expectError(await ask({ model }, { key: null }), 401, 'invalid_api_key', null)
    expectError(await t.ask('GET', GENERATIONS), 405, 'method_not_allowed', null)
  })

  it('a size that the model lacks, and a prompt that its vendor filters', async () => {
    const refuse = (error: object) => vendor.answer(json({ error }, 400))
    refuse({
      message: "Invalid size '9x9'.",
      type: 'invalid_request_error',
      code: 'invalid_value',
      param: 'size',
    })
    expectError(await ask({ model, size: '9x9' }), 400, 'unsupported_value', 'size')
    refuse({
      message: 'Your request was rejected by the safety system.',
      type: 'image_generation_user_error',
      code: 'moderation_blocked',
      param: null,
    })
    expectError(await ask({ model }), 400, 'content_policy_violation', 'prompt')
  })
})

describe('a stream', () => {
  const part = (name: string, more: object) =>
    `event: ${name}\ndata: ${JSON.stringify({ type: name, b64_json: PNG, created_at: 1, ...more })}\n\n`
  const look = { size: '1024x1024', quality: 'medium', background: 'opaque', output_format: 'png' }

  it('has partial images, then the whole one with usage and cost', async () => {
    vendor.answer(
      sse(
        part('image_generation.partial_image', { ...look, partial_image_index: 0 }) +
          part('image_generation.partial_image', { ...look, partial_image_index: 1 }) +
          part('image_generation.partial_image', { ...look, partial_image_index: 2 }) +
          part('image_generation.completed', { ...look, usage: USAGE }),
      ),
    )
    const answer = await ask({ model: 'acme/painter', stream: true, partial_images: 2 })
    expect(vendor.requests.at(-1)!.json).toMatchObject({ stream: true, partial_images: 2 })
    expect(answer.headers['content-type']).toBe('text/event-stream; charset=utf-8')
    expect(answer.text).not.toContain('[DONE]')
    const events = eventsOf(answer.text)
    expect(events.map(({ type, partial_image_index: index }) => [type, index])).toEqual([
      ['image_generation.partial_image', 0],
      ['image_generation.partial_image', 1],
      ['image_generation.completed', undefined],
    ])
    expect(events[2]).toMatchObject({ ...look, b64_json: PNG, usage: { cost: 0.042295 } })
  })

  it('of a model that cannot stream is the whole image alone', async () => {
    vendor.answer(drawn(1, USAGE))
    const answer = await ask({ model: 'acme/whole', stream: true, partial_images: 3 })
    expect(vendor.requests.at(-1)!.json).not.toHaveProperty('stream')
    const [event, ...more] = eventsOf(answer.text)
    expect(more).toEqual([])
    expect(event).toMatchObject({ type: 'image_generation.completed', usage: { cost: 0.042295 } })
  })

  it('of an edit has events of its own', async () => {
    const body = { model: 'mock/painter', images: [{ image_url: `data:;base64,${PNG}` }] }
    const answer = await editJson({ ...body, stream: true, partial_images: 1, size: '64x64' })
    const events = eventsOf(answer.text)
    expect(events.map(({ type }) => type)).toEqual([
      'image_edit.partial_image',
      'image_edit.completed',
    ])
    // 2 × 0.000005 + 1024 × 0.00001 + 1024 × 0.00004
    expect(events[1].usage).toMatchObject({ cost: 0.05121, input_tokens: 1026 })
  })

  it.each([
    [
      'fails',
      `event: error\ndata: {"type":"error","error":{"message":"x","type":"server_error","code":null}}\n\n`,
    ],
    ['ends early', ''],
  ])('that %s says so, and costs the image that was begun', async (_how, rest) => {
    const partial = part('image_generation.partial_image', { ...look, partial_image_index: 0 })
    const before = await t.balance()
    vendor.answer(sse(partial + rest))
    const answer = await ask({ model: 'acme/painter', stream: true, partial_images: 1 })
    const events = eventsOf(answer.text)
    expect(events.map(({ type }) => type)).toEqual(['image_generation.partial_image', 'error'])
    expect(events[1].error).toMatchObject({ type: 'server_error', code: 'upstream_error' })
    expect(events[1].error.usage.output_tokens_details.image_tokens).toBe(4160)
    expect(Number(before - (await t.balance())) / 1e12).toBeCloseTo(events[1].error.usage.cost, 12)
  })

  it('that fails before anything came has a status', async () => {
    vendor.answer(json({ error: { message: 'x', code: 'slow_down' } }, 503))
    const answer = await ask({ model: 'acme/painter', stream: true })
    expectError(answer, 503, 'provider_overloaded', null)
  })
})

describe('edits', () => {
  const text = [
    ['model', 'acme/painter'],
    ['prompt', 'make it blue'],
  ] as const

  it('go on as a form, whatever order the parts came in', async () => {
    vendor.answer(
      drawn(2, { ...USAGE, input_tokens_details: { text_tokens: 1, image_tokens: 10 } }),
    )
    const answer = await editForm([
      ['image[]', png(), 'first.dat'],
      ['mask', png()],
      ['n', '2'],
      ['image[]', new Blob([JPEG])],
      ['quality', 'null'],
      ['policy', '{"version":1}'],
      ...text,
    ])
    expect(answer.status).toBe(200)
    expect(isResponse(answer.json), JSON.stringify(isResponse.errors)).toBe(true)
    // 1 × 0.000005 + 10 × 0.00001 + 1056 × 0.00004
    expect(answer.json.usage.cost).toBe(0.042345)
    const { headers, body, path } = vendor.requests.at(-1)!
    expect(path).toBe('/v1/images/edits')
    const type = headers['content-type']!
    const form = await new Response(new Uint8Array(body), {
      headers: { 'content-type': type },
    }).formData()
    expect([...form.keys()]).toEqual(['model', 'n', 'prompt', 'image[]', 'image[]', 'mask'])
    expect(form.get('model')).toBe('gpt-image-1')
    expect(form.get('n')).toBe('2')
    const [first, second] = form.getAll('image[]') as File[]
    expect([first!.name, first!.type]).toEqual(['image.png', 'image/png'])
    expect([second!.name, second!.type]).toEqual(['image.jpeg', 'image/jpeg'])
    expect(Buffer.from(await first!.arrayBuffer())).toEqual(Buffer.from(PNG, 'base64'))
  })

  it('are taken as JSON too', async () => {
    vendor.answer(drawn(1, USAGE))
    const image_url = `data:image/gif;base64,${PNG}`
    const answer = await editJson({
      model: 'acme/painter',
      images: [{ image_url }],
      mask: { image_url },
      input_fidelity: 'high',
    })
    expect(answer.status).toBe(200)
    expect(vendor.requests.at(-1)!.body.toString()).toContain('name="input_fidelity"\r\n\r\nhigh')
  })

  it('may be compressed on their way', async () => {
    vendor.answer(drawn(1, USAGE))
    const part = (name: string) => `--x\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n`
    const body = Buffer.concat([
      Buffer.from(`${part('model')}acme/painter\r\n${part('prompt')}x\r\n${part('image')}`),
      Buffer.from(PNG, 'base64'),
      Buffer.from('\r\n--x--'),
    ])
    const type = { 'content-type': 'multipart/form-data; boundary=x' }
    const headers = { ...type, 'content-encoding': 'gzip' }
    expect((await t.ask('POST', EDITS, { body: gzipSync(body), headers })).status).toBe(200)
    const cut = gzipSync(body).subarray(0, -20)
    const broken = await t.ask('POST', EDITS, { body: cut, headers })
    expectError(broken, 400, 'invalid_multipart', null)
    const file = part('image').replace('"image"', '"image"; filename="a.png"')
    const sent = (bytes: Buffer, level: number) => {
      const body = gzipSync(Buffer.concat([Buffer.from(file), bytes]), { level })
      return t.ask('POST', EDITS, { body, headers })
    }
    expectError(await sent(Buffer.alloc(9 * MIB), 0), 413, 'file_too_large', 'image')
    // Small on the wire, 9 MiB when it is unpacked.
    expectError(await sent(Buffer.alloc(9 * MIB), 1), 413, 'request_too_large', null)
  })

  it('need a model that takes references', async () => {
    const answer = await editForm([
      ['model', 'acme/flat'],
      ['prompt', 'x'],
      ['image', png()],
    ])
    expectError(answer, 400, 'references_not_supported', 'model')
    expect(answer.json.error.message).toContain('acme/painter, acme/whole, mock/painter')
  })

  it.each([
    ['no image', [...text], 400, 'missing_required_parameter', 'image'],
    ['no prompt', [text[0], ['image', png()]], 400, 'missing_required_parameter', 'prompt'],
    [
      'a GIF',
      [...text, ['image', new Blob([Buffer.from(GIF, 'base64')]), 'a.png']],
      400,
      'invalid_image',
      'image',
    ],
    [
      'words',
      [...text, ['image[]', new Blob(['hello'], { type: 'image/png' })]],
      400,
      'invalid_image',
      'image[]',
    ],
    [
      'a JPEG for a mask',
      [...text, ['image', png()], ['mask', new Blob([JPEG])]],
      400,
      'invalid_image',
      'mask',
    ],
    [
      '17 images',
      [...text, ...Array.from({ length: 17 }, () => ['image', png()])],
      400,
      'array_above_max_length',
      'image',
    ],
    ['no number', [...text, ['image', png()], ['n', 'two']], 400, 'invalid_type', 'n'],
    ['no truth', [...text, ['image', png()], ['stream', 'yes']], 400, 'invalid_type', 'stream'],
    ['no policy', [...text, ['image', png()], ['policy', 'null']], 400, 'invalid_policy', 'policy'],
    ['a prompt twice', [...text, ['prompt', 'x'], ['image', png()]], 400, 'invalid_type', 'prompt'],
    [
      'a fidelity',
      [...text, ['image', png()], ['input_fidelity', 'x']],
      400,
      'invalid_value',
      'input_fidelity',
    ],
    [
      '8 MiB and a byte',
      [...text, ['image', new Blob([new Uint8Array(8 * MIB + 1)])]],
      413,
      'file_too_large',
      'image',
    ],
    [
      'a large mask',
      [...text, ['mask', new Blob([new Uint8Array(8 * MIB + 1)])]],
      413,
      'file_too_large',
      'mask',
    ],
  ] as const)('refuse %s in a form', async (_what, parts, status, code, param) => {
    expectError(await editForm(parts as never), status, code, param)
  })

  it.each([
    ['no image', {}, 'missing_required_parameter', 'image'],
    ['none', { images: [] }, 'empty_array', 'images'],
    [
      'an address',
      { images: [{ image_url: 'https://a.example/b.png' }] },
      'invalid_base64',
      'images[0].image_url',
    ],
    ['a file id', { images: [{ file_id: 'file-1' }] }, 'unsupported_value', 'images[0].file_id'],
    ['a text', { images: ['x'] }, 'invalid_type', 'images[0]'],
    [
      'words',
      { images: [{ image_url: 'data:image/png;base64,aGVsbG8=' }] },
      'invalid_image',
      'images[0].image_url',
    ],
    [
      'no base64',
      { images: [{ image_url: 'data:image/png,x' }] },
      'invalid_base64',
      'images[0].image_url',
    ],
    [
      'another mask',
      { images: [{ image_url: `data:;base64,${PNG}` }], mask: {} },
      'missing_required_parameter',
      'mask.image_url',
    ],
  ])('refuse %s in JSON', async (_what, body, code, param) => {
    expectError(await editJson({ model: 'acme/painter', ...body }), 400, code, param)
  })

  it('take exactly 8 MiB, and not a byte more in JSON either', async () => {
    const head = Buffer.from(PNG, 'base64')
    const large = (bytes: number) => Buffer.concat([head, Buffer.alloc(bytes - head.length)])
    const body = (bytes: number) => ({
      model: 'mock/painter',
      images: [{ image_url: `data:image/png;base64,${large(bytes).toString('base64')}` }],
    })
    expect((await editJson(body(8 * MIB))).status).toBe(200)
    const larger = { ...body(8 * MIB + 1), n: 'many' }
    expectError(await editJson(larger), 413, 'file_too_large', 'images[0].image_url')
  })

  it('refuse bodies that are no forms', async () => {
    const headers = { 'content-type': 'multipart/form-data; boundary=x' }
    const send = (body: string, type = headers['content-type']) =>
      t.ask('POST', EDITS, { body, headers: { 'content-type': type } })
    expectError(await send('--x\r\n'), 400, 'invalid_multipart', null)
    expectError(await send('hello', 'multipart/form-data'), 400, 'invalid_multipart', null)
    expectError(await send('hello', 'text/plain'), 415, 'unsupported_content_type', null)
    expect((await send('x', 'text/plain')).json.error.message).toContain('multipart/form-data')
    const encoded = await t.ask('POST', EDITS, {
      body: 'hello',
      headers: { ...headers, 'content-encoding': 'gzip' },
    })
    expectError(encoded, 400, 'invalid_multipart', null)
  })
})

describe('a client that leaves', () => {
  /** Sends a body, or the beginning of it, and can be gone at any time. */
  const send = (path: string, type: string, body: string, length = body.length) => {
    const request = httpRequest(t.url + path, {
      method: 'POST',
      agent: false,
      headers: {
        authorization: `Bearer ${t.key.secret}`,
        'content-type': type,
        'content-length': length,
      },
    })
    request.on('error', () => {})
    request.write(body)
    return request
  }
  const idle = () => expect.poll(() => t.gateway.running.size).toBe(0)

  it('in the middle of an upload leaves nothing behind', async () => {
    const before = await t.balance()
    const head = '--x\r\ncontent-disposition: form-data; name="image"\r\n\r\n'
    const request = send(EDITS, 'multipart/form-data; boundary=x', head.padEnd(100_000, 'y'), MIB)
    await expect.poll(() => t.gateway.running.size).toBe(1)
    request.destroy()
    await idle()
    expect(await t.balance()).toBe(before)
    const { inFlight } = await t.gateway.runtime.ledger.key('acme', t.key.id)
    expect(inFlight).toBe(0)
  })

  it('while images are made pays for them, by estimate, and the vendor is let go', async () => {
    const before = await t.balance()
    vendor.answer({ pieces: [], ending: 'hang' })
    const asked = vendor.requests.length
    const body = JSON.stringify({ model: 'acme/flat', prompt: 'x', n: 2 })
    const request = send(GENERATIONS, 'application/json', body)
    await expect.poll(() => vendor.requests.length).toBe(asked + 1)
    request.destroy()
    expect(await vendor.requests.at(-1)!.aborted).toBe(true)
    await idle()
    // 2 × 0.04
    expect(before - (await t.balance())).toBe(80_000_000_000n)
  })
})

describe('guards', () => {
  it('read the prompt, and what the vendor made of it', async () => {
    const key = await t.newKey({ policy: { version: 1, bannedPatterns: ['cube'] } })
    const before = await t.balance()
    const blocked = await ask({ model: 'mock/painter' }, { key: key.secret })
    expectError(blocked, 400, 'policy_violation', null)
    expect(await t.balance()).toBe(before)

    const asked = { model: 'mock/painter', prompt: 'a ball', size: '64x64' }
    const revised = await ask(asked, { key: key.secret })
    expectError(revised, 400, 'policy_violation', null)
    // It was made, by order of the key's owner: 2 × 0.000005 + 1024 × 0.00004
    expect(revised.json.error.usage.cost).toBe(0.04097)
    expect(revised.headers['x-service-cost']).toBe('0.04097')
    expect(before - (await t.balance())).toBe(40_970_000_000n)

    const named = await ask({ ...asked, user: 'cube-17' }, { key: key.secret })
    expectError(named, 400, 'policy_violation', null)
    expect(named.json.error).not.toHaveProperty('usage')

    const other = await t.newKey({ policy: { version: 1, bannedPatterns: ['sphere'] } })
    const passed = await ask(asked, { key: other.secret })
    expect(passed.status).toBe(200)
    expect(passed.json.guard).toMatchObject({ outcome: 'passed', unscanned: ['image'] })
  })
})
