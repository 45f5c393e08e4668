/** A vendor's key alone: which models it brings, that they answer, and what `use` does with the name of a vendor. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { VENDORS } from '../../providers/vendors.ts'
import { ConfigError } from '../../src/errors/errors.ts'
import { unpricedVendors } from '../../src/models/by-vendor.ts'
import type { TestGateway } from '../_setup.ts'
import { json, startUpstream, type FakeUpstream } from '../upstream.ts'
import { gatewayOf, loadStarter as load, standIn } from './_vendors.ts'

let vendor: FakeUpstream
beforeAll(async () => {
  vendor = await standIn()
})
afterAll(() => vendor.close())

const gatewayWith = (...names: readonly string[]) => gatewayOf(vendor, names)

const idsOf = async (gateway: TestGateway) =>
  ((await gateway.ask('GET', '/v1/models')).json.data as any[]).filter(
    ({ owned_by }) => !['mock', 'local'].includes(owned_by),
  )
const HELLO = { messages: [{ role: 'user', content: 'Hello' }] }

describe('the key of OpenAI alone', () => {
  it('brings at least a hundred models of six modalities', async () => {
    const listed = await idsOf(await gatewayWith('openai'))
    expect(listed.length).toBeGreaterThanOrEqual(100)
    expect(new Set(listed.map(({ modality }) => modality))).toEqual(
      new Set(['chat', 'embedding', 'image', 'moderation', 'speech', 'transcription']),
    )
  })

  it('answers chat and embeddings, by name and by id', async () => {
    const gateway = await gatewayWith('openai')
    for (const model of ['gpt-4o-mini', 'openai/gpt-4o-mini']) {
      expect((await gateway.chat({ ...HELLO, model })).json).toMatchObject({
        model: 'openai/gpt-4o-mini',
        choices: [{ message: { content: 'Hello' } }],
      })
    }
    const body = { model: 'text-embedding-3-small', input: 'Hello' }
    const { status, json: answer } = await gateway.ask('POST', '/v1/embeddings', { body })
    expect([status, answer.data[0].embedding]).toEqual([200, [0.5, 0.25]])
    expect(vendor.requests.at(-1)!.headers.authorization).toBe('Bearer key-of-openai')
  })
})

it('a model that its vendor has given up is no model, for the client and for the operator', async () => {
  await using gone = await startUpstream(json({ error: { code: 'model_not_found' } }, 404))
  const gateway = await gatewayOf(gone, ['openai'])
  const { status, json: answer } = await gateway.chat({ ...HELLO, model: 'o1' })
  expect([status, answer.error]).toMatchObject([
    404,
    { code: 'model_not_found', message: expect.stringContaining('no longer offers "openai/o1".') },
  ])
  expect(gateway.gateway.runtime.unserved.list()).toMatchObject([
    { name: 'openai/o1', reason: 'gone' },
  ])
})

const KEYED = VENDORS.filter(({ variables }) => variables.length > 0)

it.each(KEYED.flatMap(({ name, variables }) => variables.map((variable) => [variable, name])))(
  '%s alone brings the models of %s and nothing else',
  async (variable, name) => {
    const { config, secrets } = await load({ [variable]: 'the-key' })
    const others = Object.keys(config.providers).filter((one) => !LOCAL.has(one))
    expect(others).toEqual([name])
    expect(config.providers[name]!.options.apiKey).toBe('the-key')
    expect(secrets).toContain(`providers.${name}.options.apiKey`)
    const ids = Object.keys(config.models).filter((id) => !/^(mock|local)\//.test(id))
    expect(ids.filter((id) => !id.startsWith(`${name}/`))).toEqual([])
    // A vendor without public prices brings nothing, and says so.
    const said = unpricedVendors(config.unpriced).filter((text) => text.startsWith(`${name}/*`))
    expect([ids.length > 0, said.length]).toEqual(WITHOUT_PRICES.has(name) ? [false, 1] : [true, 0])
  },
)
const WITHOUT_PRICES: ReadonlySet<string> = new Set(['github', 'featherless', 'meta'])
const LOCAL: ReadonlySet<string> = new Set(['mock', 'tesseract', 'espeak'])

it.each(
  KEYED.filter(
    ({ plugin }) =>
      plugin === undefined || ['openai', 'anthropic', 'mistral', 'google'].includes(plugin),
  ).map(({ name }) => name),
)('a chat model of %s answers', async (name) => {
  const gateway = await gatewayWith(name)
  const chat = (await idsOf(gateway)).find(({ modality }) => modality === 'chat')
  if (!chat) return
  expect((await gateway.chat({ ...HELLO, model: chat.id })).json).toMatchObject({
    model: chat.id,
    choices: [{ message: { content: 'Hello' } }],
  })
  const { headers } = vendor.requests.at(-1)!
  const key = headers['x-api-key'] ?? headers['x-goog-api-key']
  expect(key ?? headers.authorization).toBe(key ? `key-of-${name}` : `Bearer key-of-${name}`)
})

it.each([
  ['deepgram', 'authorization', 'Token key-of-deepgram'],
  ['elevenlabs', 'xi-api-key', 'key-of-elevenlabs'],
])('a voice of %s answers', async (name, header, key) => {
  const gateway = await gatewayWith(name)
  const voice = (await idsOf(gateway)).find(({ modality }) => modality === 'speech')
  const body = { model: voice.id, input: 'Hi.', voice: 'alloy' }
  const { status, headers } = await gateway.ask('POST', '/v1/audio/speech', { body })
  expect([status, headers['content-type']]).toEqual([200, 'audio/mpeg'])
  expect(vendor.requests.at(-1)!.headers[header]).toBe(key)
})

describe('use: <vendor>', () => {
  it('gives address, row and key; own options win, each as a whole', async () => {
    const providers = {
      groq: { use: 'groq' },
      mine: { use: 'groq', options: { baseURL: 'http://127.0.0.1:1/v1', apiKey: 'own' } },
    }
    const { config } = await load({ GROQ_API_KEY: 'k' }, { providers, models: { 'groq/*': {} } })
    expect(config.providers.groq).toMatchObject({
      use: 'openai-compatible',
      options: { baseURL: 'https://api.groq.com/openai/v1', quirks: 'groq', apiKey: 'k' },
    })
    expect(config.providers.mine!.options).toEqual({
      baseURL: 'http://127.0.0.1:1/v1',
      quirks: 'groq',
      apiKey: 'own',
    })
  })

  it.each(['groq', 'openai', 'together'])('%s without a key names the variable', async (use) => {
    const error = await load({}, { providers: { one: { use } }, models: {} }).catch((e) => e)
    expect(error).toBeInstanceOf(ConfigError)
    expect(error.message).toMatch(/(GROQ|OPENAI|TOGETHER)_API_KEY/)
  })

  it("takes the address of a server of one's own from its variable", async () => {
    const env = { VLLM_API_BASE: 'http://10.0.0.5:8000' }
    const { config } = await load(env, { providers: { vllm: { use: 'vllm' } }, models: {} })
    expect(config.providers.vllm!.options).toEqual({
      baseURL: 'http://10.0.0.5:8000/v1',
      quirks: 'vllm',
    })
  })

  it('is no value for a line that only maps prices', async () => {
    const providers = { one: { use: 'vertex' } }
    const { config } = await load({}, { providers, models: {} })
    // It stays the name of a plugin, of which there is none.
    expect(config.providers.one!.use).toBe('vertex')
  })
})
