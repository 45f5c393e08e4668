/** `defaults` of an entry: what a chat is asked with where its request does not say it. */
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { createTestGateway } from '../_setup.ts'
import type { FakeUpstream } from '../upstream.ts'
import { standIn } from './_vendors.ts'

let vendor: FakeUpstream
beforeAll(async () => {
  vendor = await standIn()
})
afterAll(() => vendor.close())

const DEFAULTS = {
  temperature: 0.25,
  top_p: 0.5,
  max_completion_tokens: 77,
  reasoning: { effort: 'low' },
  seed: 7,
  stop: ['END'],
}

async function gatewayWith(more: object = {}) {
  const options = { baseURL: `${vendor.url}/v1`, apiKey: 'the-key' }
  const gateway = await createTestGateway({
    providers: {
      openai: { use: 'openai-compatible', options },
      anthropic: { use: 'anthropic', options },
    },
    models: Object.fromEntries(
      ['openai', 'anthropic'].map((provider) => [
        `${provider}/model`,
        {
          pricing: { prompt: '0', completion: '0' },
          defaults: DEFAULTS,
          deployments: [{ provider, model: 'model' }],
          ...more,
        },
      ]),
    ),
  } as never)
  onTestFinished(() => gateway.close())
  return gateway
}

const ASKED = { model: 'openai/model', messages: [{ role: 'user', content: 'Hello' }] }

it('applies where a request says nothing, and nowhere else', async () => {
  const gateway = await gatewayWith()
  expect((await gateway.chat(ASKED)).status).toBe(200)
  expect(vendor.requests.at(-1)!.json).toMatchObject({
    temperature: 0.25,
    top_p: 0.5,
    max_completion_tokens: 77,
    reasoning_effort: 'low',
    seed: 7,
    stop: ['END'],
  })
  await gateway.chat({ ...ASKED, temperature: 0, max_tokens: 5, reasoning_effort: 'high' })
  expect(vendor.requests.at(-1)!.json).toMatchObject({
    temperature: 0,
    max_completion_tokens: 5,
    reasoning_effort: 'high',
    seed: 7,
  })
})

it("applies in Anthropic's form and in that of responses, where a request goes to its own vendor too", async () => {
  const gateway = await gatewayWith({ defaults: { temperature: 0.25 } })
  const messages = { model: 'anthropic/model', max_tokens: 9, messages: ASKED.messages }
  expect((await gateway.ask('POST', '/v1/messages', { body: messages })).status).toBe(200)
  expect(vendor.requests.at(-1)!.json).toMatchObject({ temperature: 0.25, max_tokens: 9 })
  const responses = { model: 'openai/model', input: 'Hello' }
  expect((await gateway.ask('POST', '/v1/responses', { body: responses })).status).toBe(200)
  expect(vendor.requests.at(-1)!.json).toMatchObject({ temperature: 0.25 })
})

it('is below the limit of the model, and reasoning is left out where the model has none', async () => {
  const gateway = await gatewayWith({ max_output_tokens: 50, capabilities: ['STREAMING'] })
  await gateway.chat(ASKED)
  const { json } = vendor.requests.at(-1)!
  expect(json.max_completion_tokens).toBe(50)
  expect(json).not.toHaveProperty('reasoning_effort')
})

it('is in the list of models', async () => {
  const gateway = await gatewayWith()
  const { data } = (await gateway.ask('GET', '/v1/models')).json
  expect(data[0].default_parameters).toEqual(DEFAULTS)
})
