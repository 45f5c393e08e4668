/** Discovery: vendors are asked for their models, by the command `models discover` and for entries with `discover`. */
import { expect, it, onTestFinished } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { call } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { createTestGateway } from '../_setup.ts'
import { json, startUpstream, type FakeResponse, type ReceivedRequest } from '../upstream.ts'
import { eventually } from '../_wait.ts'

/** A vendor whose list is in the hand of the test. */
async function vendorWith(answer: (request: ReceivedRequest) => FakeResponse) {
  const vendor = await startUpstream()
  onTestFinished(() => vendor.close())
  vendor.answer(answer)
  return vendor
}

const named = (...ids: readonly string[]) =>
  json({ object: 'list', data: ids.map((id) => ({ id })) })

interface Provider {
  readonly use: string
  readonly options: object
}

const CONFIG = { state: { driver: 'memory' }, log: { access: false, requests: false } }

async function discover(
  providers: Readonly<Record<string, Provider>>,
  models: object,
  ...more: string[]
) {
  const config = JSON.stringify({ ...CONFIG, providers, models })
  const cwd = await folder({ 'gateway.config.json': config })
  return call(['models', 'discover', ...more], { cwd })
}

const WORDS = { completion: 'completion', tools: 'tools', vision: 'vision', thinking: 'thinking' }

/** The list of models as the vendor sends it, page by page, and the names in it, by plugin. */
const FORMS: Readonly<
  Record<
    string,
    {
      readonly use?: string
      readonly quirks?: string
      readonly pages: Readonly<Record<string, object>>
      readonly names: readonly string[]
    }
  >
> = {
  openai: {
    pages: { '/v1/models': { data: [{ id: 'one' }, { id: 'two' }] } },
    names: ['one', 'two'],
  },
  mistral: { pages: { '/v1/models': { data: [{ id: 'one' }] } }, names: ['one'] },
  'openai-compatible': {
    pages: { '/v1/models': [{ id: 'a/b' }, { nameless: 1 }] },
    names: ['a/b'],
  },
  anthropic: {
    pages: {
      '/v1/models?limit=1000': { data: [{ id: 'one' }], has_more: true, last_id: 'one' },
      '/v1/models?limit=1000&after_id=one': { data: [{ id: 'two' }], has_more: false },
    },
    names: ['one', 'two'],
  },
  google: {
    pages: {
      '/v1/models?pageSize=1000': { models: [{ name: 'models/one' }], nextPageToken: 'x y' },
      '/v1/models?pageSize=1000&pageToken=x%20y': { models: [{ name: 'models/two' }] },
    },
    names: ['one', 'two'],
  },
  deepgram: {
    pages: {
      '/v1/models': {
        stt: [{ canonical_name: 'nova' }, { canonical_name: 'nova' }],
        tts: [{ canonical_name: 'aura' }],
      },
    },
    names: ['aura', 'nova'],
  },
  elevenlabs: {
    pages: {
      '/v1/models': [
        { model_id: 'speaks', can_do_text_to_speech: true },
        { model_id: 'changes', can_do_text_to_speech: false },
      ],
    },
    names: ['speaks'],
  },
  bedrock: {
    pages: {
      '/foundation-models': {
        modelSummaries: [
          { modelId: 'acme.small', inferenceTypesSupported: ['ON_DEMAND'] },
          { modelId: 'acme.large', inferenceTypesSupported: ['INFERENCE_PROFILE'] },
        ],
      },
      '/inference-profiles?maxResults=1000': {
        inferenceProfileSummaries: [{ inferenceProfileId: 'eu.acme.large' }],
        nextToken: 'x y',
      },
      '/inference-profiles?maxResults=1000&nextToken=x%20y': {
        inferenceProfileSummaries: [{ inferenceProfileId: 'us.acme.large' }],
      },
    },
    names: ['acme.small', 'eu.acme.large', 'us.acme.large'],
  },
  ollama: {
    use: 'openai-compatible',
    quirks: 'ollama',
    pages: {
      '/api/tags': { models: [{ name: 'llama3.2:latest' }] },
      '/api/show': { capabilities: [WORDS.completion, WORDS.tools] },
    },
    names: ['llama3.2'],
  },
}

it.each(Object.entries(FORMS))('%s is asked for its models', async (name, form) => {
  const { use = name, quirks, pages, names } = form
  const vendor = await vendorWith(({ path }) =>
    pages[path] ? json(pages[path]) : json({ error: { message: path } }, 404),
  )
  const base = ['deepgram', 'elevenlabs', 'bedrock'].includes(name)
    ? vendor.url
    : `${vendor.url}/v1`
  const region = name === 'bedrock' && { region: 'eu-north-1' }
  const options = { baseURL: base, apiKey: 'the-key', ...region, ...(quirks && { quirks }) }
  const { out, err } = await discover({ acme: { use, options } }, {}, '--json')
  expect(err).not.toContain('did not name')
  const [report] = JSON.parse(out)
  expect([...report.listed, ...report.unpriced].toSorted()).toEqual(names)
  expect(JSON.stringify(vendor.requests.map(({ headers }) => headers))).toContain('the-key')
})

it('tells what is served, listed, without a price, and gone', async () => {
  const vendor = await vendorWith(() => named('gpt-4o-mini', 'gpt-4o', 'gpt-99', 'mine'))
  const options = { baseURL: `${vendor.url}/v1`, apiKey: 'the-key' }
  const models = {
    'openai/gpt-4o-mini': {},
    'openai/mine': { pricing: { prompt: '1', completion: '1' } },
    'openai/o1': {},
  }
  const { code, out } = await discover({ openai: { use: 'openai', options } }, models)
  expect(out).toBe(
    [
      'openai: 4 models offered, 2 served',
      '  listed, not served (1): gpt-4o',
      '  no price (1): gpt-99',
      '    sluicegate models import --only "openai/gpt-99" --write',
      '  served, and gone at the vendor (1): o1',
      '',
    ].join('\n'),
  )
  expect(code).toBe(3)
  const whole = {
    'openai/gpt-4o-mini': {},
    'openai/gpt-4o': {},
    'openai/mine': models['openai/mine'],
  }
  vendor.answer(() => named('gpt-4o-mini', 'gpt-4o', 'mine'))
  expect((await discover({ openai: { use: 'openai', options } }, whole)).code).toBe(0)
})

it.each<readonly [string, FakeResponse, string]>([
  ['refuses the key', json({ error: { message: 'expired sk-secret' } }, 401), 'refused the key'],
  ['has no list', json({}, 404), 'no list of models at its address'],
  ['sends no JSON', { pieces: ['<html>'] }, 'not a list of models in JSON'],
  ['sends another thing', json({ hello: 1 }), 'not a list of models in JSON'],
  ['sends too much', json({ data: ['x'.repeat(5 * 1024 * 1024)] }), 'an answer that is too large'],
])('a vendor that %s gets one sentence, and status 1', async (_, answer, sentence) => {
  const vendor = await vendorWith(() => answer)
  const options = { baseURL: `${vendor.url}/v1`, apiKey: 'sk-secret' }
  const { code, out, err } = await discover({ acme: { use: 'openai', options } }, {})
  expect([code, out.split('\n').length]).toEqual([1, 2])
  expect(out).toMatch(/^acme: \S/)
  expect(out).toContain(sentence)
  expect(err).toContain('One vendor did not name any models.')
  expect(out + err).not.toContain('sk-secret')
})

it('a vendor that is away, and a name that no provider has', async () => {
  const options = { baseURL: 'http://127.0.0.1:1/v1', apiKey: 'the-key' }
  const providers = { acme: { use: 'openai', options }, scan: { use: 'tesseract', options: {} } }
  expect((await discover(providers, {})).out).toMatch(/^acme: .*ECONNREFUSED/)
  expect((await discover(providers, {}, 'acne')).err).toContain('did you mean "acme"?')
  expect((await discover(providers, {}, 'scan')).err).toContain('its plugin has no list of them')
})

/** A gateway with an entry `vendor/*`, and what it lists. */
async function gatewayOf(vendor: string, provider: Provider, entry: object, models: object = {}) {
  const config = {
    ...CONFIG,
    providers: { [vendor]: provider },
    models: { [`${vendor}/*`]: entry, ...models },
  }
  const cwd = await folder({ 'gateway.config.json': JSON.stringify(config) })
  const loaded = await loadConfig({ cwd, env: {} })
  const gateway = await createTestGateway(loaded)
  onTestFinished(() => gateway.close())
  const list = async () =>
    ((await gateway.ask('GET', '/v1/models')).json.data as { id: string }[]).map(({ id }) => id)
  return { gateway, list, loaded }
}

it('with discover, a vendor serves what it names and the list has', async () => {
  const vendor = await vendorWith(() => named('gpt-4o-mini', 'gpt-99'))
  const options = { baseURL: `${vendor.url}/v1`, apiKey: 'the-key' }
  const own = { 'openai/o1': {} }
  const { gateway, list, loaded } = await gatewayOf(
    'openai',
    { use: 'openai', options },
    { discover: true },
    own,
  )
  await eventually(async () => expect(await list()).toEqual(['openai/gpt-4o-mini', 'openai/o1']))
  // The last answer stays while the vendor fails, also for another configuration.
  vendor.answer(() => json({}, 500))
  await gateway.gateway.reload({ ...loaded })
  expect(await list()).toEqual(['openai/gpt-4o-mini', 'openai/o1'])
})

it('with discover, a server of the operator serves all that it names, at no price, from the start', async () => {
  const vendor = await vendorWith(() =>
    json({ data: [{ id: 'qwen', max_model_len: 4096 }, { id: 'bge-m3' }] }),
  )
  const provider = { use: 'vllm', options: { baseURL: `${vendor.url}/v1` } }
  const { gateway, list } = await gatewayOf('vllm', provider, { discover: true })
  expect(await list()).toEqual(['vllm/bge-m3', 'vllm/qwen'])
  const { data } = (await gateway.ask('GET', '/v1/models')).json
  expect(data).toMatchObject([
    { modality: 'embedding', free_tier: true, pricing: { prompt: '0' } },
    { modality: 'chat', context_length: 4096, pricing: { prompt: '0', completion: '0' } },
  ])
})

it('a server that is slow does not delay the start, and its models come later', async () => {
  const { promise: told, resolve: goOn } = Promise.withResolvers<void>()
  const vendor = await startUpstream()
  onTestFinished(() => vendor.close())
  vendor.answer(async () => {
    await told
    return named('qwen')
  })
  const provider = { use: 'vllm', options: { baseURL: `${vendor.url}/v1` } }
  const { list } = await gatewayOf('vllm', provider, { discover: true })
  expect(await list()).toEqual([])
  goOn()
  await eventually(async () => expect(await list()).toEqual(['vllm/qwen']))
})

it('operators read one model by any of its names', async () => {
  const key = 'a-token-of-the-operator'
  const config = {
    ...CONFIG,
    admin: { token: key },
    providers: { openai: { use: 'openai', options: { apiKey: 'the-key' } } },
    models: { 'openai/gpt-4o-mini': { aliases: ['mini'] } },
  }
  const cwd = await folder({ 'gateway.config.json': JSON.stringify(config) })
  const gateway = await createTestGateway(await loadConfig({ cwd, env: {} }))
  onTestFinished(() => gateway.close())
  const show = (name: string) =>
    gateway.ask('GET', `/admin/models/${encodeURIComponent(name)}`, { key })
  for (const name of ['openai/gpt-4o-mini', 'mini', 'GPT-4o-mini']) {
    expect((await show(name)).json.data.id).toBe('openai/gpt-4o-mini')
  }
  expect((await show('gpt-4o-minj')).json.error).toMatchObject({
    code: 'model_not_found',
    message: expect.stringContaining('openai/gpt-4o-mini'),
  })
})
