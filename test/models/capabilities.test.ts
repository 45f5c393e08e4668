/** What a model's setting `capabilities` does, before a vendor that can everything: absent, a list, an empty list. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createTestGateway, eventsOf, type TestGateway } from '../_setup.ts'
import { events, json, startUpstream, type FakeUpstream } from '../upstream.ts'

let vendor: FakeUpstream
let t: TestGateway

beforeAll(async () => {
  vendor = await startUpstream()
  const model = {
    pricing: { prompt: '0.000001', completion: '0.000002' },
    deployments: [{ provider: 'acme', model: 'm' }],
  }
  const image = { pricing: { image: '0.01' }, deployments: model.deployments }
  t = await createTestGateway({
    admin: { token: 'admin-token' },
    providers: {
      acme: {
        use: 'openai-compatible',
        options: { baseURL: `${vendor.url}/v1`, apiKey: 'vendor-key', quirks: 'openai' },
      },
    },
    models: {
      'acme/three-lines': model,
      'acme/nothing': { ...model, capabilities: [] },
      'acme/tools': { ...model, capabilities: ['STREAMING', 'TOOLS'] },
      'acme/painter': image,
      'acme/plain-painter': { ...image, capabilities: [] },
      'acme/words-painter': { ...image, capabilities: ['STREAMING'] },
    },
  })
})
afterAll(async () => {
  await t.close()
  await vendor.close()
})

let before = 0
/** What the vendor was asked in this test. */
const asked = () => vendor.requests.slice(before)
const usage = { prompt_tokens: 3, completion_tokens: 2 }
beforeEach(() => {
  before = vendor.requests.length
  vendor.answer(({ json: body }) => {
    const message = { role: 'assistant', content: 'Fine.' }
    const finish_reason = 'stop'
    if (body.stream) {
      const choice = { index: 0, delta: message, finish_reason }
      return events({ choices: [choice] }, { choices: [], usage }, '[DONE]')
    }
    const choices = Array.from({ length: body.n ?? 1 }, (_, index) => ({
      index,
      message,
      finish_reason,
    }))
    return json({ choices, usage })
  })
})

const QUESTION = { role: 'user', content: 'Look.' }
const PICTURE = {
  role: 'user',
  content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } }],
}
const SOUND = {
  role: 'user',
  content: [{ type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav' } }],
}
const FILE = {
  role: 'user',
  content: [
    {
      type: 'file',
      file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERg==' },
    },
  ],
}
const SCHEMA = { type: 'json_schema', json_schema: { name: 'a', schema: { type: 'object' } } }
const TOOL = { type: 'function', function: { name: 'look', parameters: { type: 'object' } } }
/** Request members, the capability they need, and the parameter that a refusal names. */
const NEEDS = [
  ['tools', 'TOOLS', { tools: [TOOL] }, 'tools'],
  ['images', 'VISION', { messages: [PICTURE] }, 'messages[0].content[0]'],
  ['sound', 'AUDIO_INPUT', { messages: [SOUND] }, 'messages[0].content[0]'],
  ['files', 'FILE_INPUT', { messages: [FILE] }, 'messages[0].content[0]'],
  ['a schema', 'STRUCTURED_OUTPUTS', { response_format: SCHEMA }, 'response_format'],
  ['log probabilities', 'LOGPROBS', { logprobs: true }, 'logprobs'],
  ['several choices', 'CHOICES', { n: 2 }, 'n'],
] as const

describe.each(NEEDS)('a request with %s', (_, capability, members, param) => {
  const request = { messages: [QUESTION], ...members }

  it('reaches the vendor where the entry says nothing about capabilities', async () => {
    const { status, text } = await t.chat({ ...request, model: 'acme/three-lines' })
    expect(status, text).toBe(200)
    const [sent] = asked()
    for (const name of Object.keys(members)) expect(sent!.json).toHaveProperty(name)
  })

  it('is refused by the setting, and the sentence names it, where the list is empty', async () => {
    const { status, json: body } = await t.chat({ ...request, model: 'acme/nothing' })
    expect(status).toBe(400)
    expect(body.error).toMatchObject({ code: 'unsupported_parameter', param })
    expect(body.error.message).toBe(
      `acme/nothing cannot honour ${param}: it lacks the capability ${capability}, ` +
        'which its setting "capabilities" does not list.',
    )
    expect(asked()).toEqual([])
  })

  it('is answered exactly if the list has the capability', async () => {
    const { status } = await t.chat({ ...request, model: 'acme/tools' })
    expect(status).toBe(capability === 'TOOLS' ? 200 : 400)
  })
})

describe('a stream', () => {
  it.each([
    ['acme/three-lines', true],
    ['acme/tools', true],
    ['acme/nothing', false],
  ])(
    'of %s: asked of the vendor is %s; the client has one in any case',
    async (model, streamed) => {
      const { text } = await t.chat({ model, messages: [QUESTION], stream: true })
      expect(asked()[0]!.json.stream ?? false).toBe(streamed)
      const said = eventsOf(text).map((event) => event.choices?.[0]?.delta?.content ?? '')
      expect(said.join('')).toBe('Fine.')
    },
  )
})

it('a refusal of the vendor reaches the client, and the deployment goes on', async () => {
  const error = { message: 'Unsupported parameter', param: 'tools', code: 'unsupported_parameter' }
  vendor.answer(() => json({ error }, 400))
  const request = { model: 'acme/three-lines', messages: [QUESTION], tools: [TOOL] }
  expect(await t.chat(request)).toMatchObject({ status: 400 })
  const headers = { authorization: 'Bearer admin-token' }
  const { json: listed } = await t.ask('GET', '/admin/models', { headers, key: null })
  const own = listed.data.find(({ id }: { id: string }) => id === 'acme/three-lines')
  expect(own.deployments[0].health).toMatchObject({ state: 'healthy', failures: 0 })
})

it.each(['acme/painter', 'acme/plain-painter', 'acme/words-painter'])(
  'edits are refused for %s: a list has to name REFERENCES',
  async (model) => {
    const image_url = 'data:image/png;base64,iVBORw0KGgo='
    const { status, json: body } = await t.ask('POST', '/v1/images/edits', {
      body: { model, prompt: 'a', images: [{ image_url }] },
    })
    expect(status).toBe(400)
    expect(body.error.code).toBe('references_not_supported')
    expect(body.error.message).toContain('which its setting "capabilities" does not list')
  },
)

it('clients see an empty list for unknown capabilities, the operator sees that they are unknown', async () => {
  const { json: shown } = await t.ask('GET', '/v1/models')
  const capabilitiesOf = (list: any, id: string) =>
    list.data.find((model: { id: string }) => model.id === id).capabilities
  expect(capabilitiesOf(shown, 'acme/three-lines')).toEqual([])
  const headers = { authorization: 'Bearer admin-token' }
  const { json: admin } = await t.ask('GET', '/admin/models', { headers, key: null })
  expect(capabilitiesOf(admin, 'acme/three-lines')).toBeNull()
  expect(capabilitiesOf(admin, 'acme/nothing')).toEqual([])
})
