/** Items of earlier answers that a request refers to by their ids. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { UserConfig } from '../../../../../src/config/config.ts'
import {
  createGatewayBeside,
  createTestGateway,
  MOCK_CONFIG,
  send,
  type TestGateway,
} from '../../../../_setup.ts'
import { folder } from '../../../../_folder.ts'
import { needRedis, sharedServer } from '../../../../state/redis/_engine.ts'
import { json, startUpstream } from '../../../../upstream.ts'
import { streamed } from './_events.ts'

const PATH = '/v1/responses'
const WORD = 'marmot'
const weather = {
  type: 'function',
  name: 'weather',
  parameters: {
    type: 'object',
    properties: { city: { type: 'string', enum: [WORD] } },
    required: ['city'],
  },
}

async function started(config: UserConfig = MOCK_CONFIG): Promise<TestGateway> {
  const gateway = await createTestGateway(config)
  onTestFinished(() => gateway.close())
  return gateway
}

const post = (gateway: TestGateway, body: object, key = gateway.key.secret) =>
  gateway.ask('POST', PATH, { key, body: { model: 'mock/tools', tools: [weather], ...body } })

const askAt = (url: string, key: string, body: object) =>
  send(url + PATH, 'POST', JSON.stringify({ model: 'mock/tools', tools: [weather], ...body }), {
    authorization: `Bearer ${key}`,
    'content-type': 'application/json',
  })

const refer = (...ids: readonly string[]) => ids.map((id) => ({ type: 'item_reference', id }))
const question = { role: 'user', content: 'Weather?' }
const resultOf = (call: any) => ({
  type: 'function_call_output',
  call_id: call.call_id,
  output: 'rain',
})

/** Has a tool called. @returns the item of the call */
async function called(gateway: TestGateway, body: object = {}, key = gateway.key.secret) {
  const asked = await post(gateway, { input: [question], ...body }, key)
  const { output } = 'stream' in body ? (streamed(asked.text).response as any) : asked.json
  return output.find(({ type }: any) => type === 'function_call')
}

const secondTurn = (call: any) => ({ input: [question, ...refer(call.id), resultOf(call)] })

it.each([{}, { stream: true }])(
  'stand for items of an answer that was asked with %j',
  async (how) => {
    const gateway = await started()
    const call = await called(gateway, how)
    const { status, json: answer } = await post(gateway, secondTurn(call))
    expect([status, answer.output[0].content[0].text]).toEqual([
      200,
      expect.stringContaining('rain'),
    ])
    const count = { body: { model: 'mock/echo', ...secondTurn(call) } }
    const whole = { body: { model: 'mock/echo', input: [question, call, resultOf(call)] } }
    const counted = async (asked: object) =>
      (await gateway.ask('POST', `${PATH}/input_tokens`, asked)).json
    expect(await counted(count)).toEqual(await counted(whole))
  },
)

it('are of the caller alone, and of answers that may be remembered', async () => {
  const gateway = await started()
  const other = await gateway.newKey()
  const refused = async (call: any, key?: string) => {
    const { status, json: answer } = await post(gateway, secondTurn(call), key)
    expect([status, answer.error]).toMatchObject([
      400,
      {
        code: 'unsupported_value',
        param: 'input[1]',
        message: expect.stringContaining('"store" to false'),
      },
    ])
  }
  await refused(await called(gateway), other.secret)
  await refused(await called(gateway, { store: false }))
  const without = await started({ ...MOCK_CONFIG, responses: { remember: 0 } })
  const call = await called(without)
  expect((await post(without, secondTurn(call))).status).toBe(400)
})

it('end with their time', async () => {
  const gateway = await started({ ...MOCK_CONFIG, responses: { remember: 0.001 } })
  const call = await called(gateway)
  const status = async () => (await post(gateway, secondTurn(call))).status
  await expect.poll(status).toBe(400)
})

it('may be as many as are remembered', async () => {
  const gateway = await started()
  const said: string[] = []
  const asked = Array.from({ length: 400 }, async (_, i) => {
    const body = { model: 'mock/echo', input: `Word ${i}`, tools: [] }
    const { json: answer } = await post(gateway, body)
    said.push(answer.output[0].id)
  })
  await Promise.all(asked)
  const input = [...refer(...said), question]
  // A storage that does not answer in time remembers nothing: on a busy machine it is asked again.
  const body = { model: 'mock/echo', input, tools: [] }
  await expect.poll(async () => (await post(gateway, body)).status).toBe(200)
})

it('are checked like the items that they stand for, and bounded with them', async () => {
  const gateway = await started({ ...MOCK_CONFIG, server: { limits: { chat: 4000 } } })
  const nameless = await post(gateway, { input: [{ type: 'item_reference' }] })
  expect(nameless.json.error).toMatchObject({ param: 'input[0].id' })
  const body = { model: 'mock/echo', tools: [], input: 'x'.repeat(3000) }
  const { id } = (await post(gateway, body)).json.output[0]
  const twice = await post(gateway, { model: 'mock/echo', tools: [], input: refer(id, id) })
  expect([twice.status, twice.json.error.code]).toEqual([413, 'request_too_large'])
})

it('go whole to a vendor with this API, reasoning left out that it cannot read', async () => {
  const vendor = await startUpstream()
  onTestFinished(() => vendor.close())
  const gateway = await started({
    providers: { openai: { use: 'openai', options: { apiKey: 'k', baseURL: vendor.url } } },
    models: {
      'openai/gpt': {
        pricing: { prompt: '0.000003', completion: '0.000015' },
        deployments: [{ provider: 'openai', model: 'gpt-5.6' }],
      },
    },
  })
  const output = [
    { id: 'rs_1', type: 'reasoning', summary: [{ type: 'summary_text', text: 'Hm.' }] },
    {
      id: 'fc_1',
      type: 'function_call',
      status: 'completed',
      call_id: 'c1',
      name: 'weather',
      arguments: '{"n": 12345678901234567890}',
    },
  ]
  const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 }
  vendor.answer(
    json({ id: 'r', object: 'response', status: 'completed', model: 'gpt', output, usage }),
  )
  const [, call] = (await post(gateway, { model: 'openai/gpt', input: [question] })).json.output
  const input = [question, ...refer('rs_1', call.id), resultOf(call)]
  expect((await post(gateway, { model: 'openai/gpt', input })).status).toBe(200)
  const { id: _id, ...sent } = output[1]!
  expect(vendor.requests.at(-1)!.json.input).toEqual([question, sent, resultOf(call)])
})

it('outlive a restart, and cannot be read in the files', async () => {
  const path = await folder({})
  const config: UserConfig = { ...MOCK_CONFIG, state: { driver: 'file', path } }
  const first = await createTestGateway(config)
  const call = await called(first)
  await first.close()
  expect(call.arguments).toContain(WORD)
  for (const entry of readdirSync(path, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    expect(readFileSync(join(entry.parentPath, entry.name)).includes(WORD)).toBe(false)
  }
  const second = await createGatewayBeside(config)
  onTestFinished(() => second.close())
  expect((await askAt(second.url, first.key.secret, secondTurn(call))).status).toBe(200)
})

describe('on one Redis', () => {
  needRedis()

  it('are known to every gateway, and no word of them is in a dump', async () => {
    const server = await sharedServer()
    const config = async (): Promise<UserConfig> => ({
      ...MOCK_CONFIG,
      state: { driver: 'redis', url: server.url, outbox: await folder({}) },
    })
    const one = await started(await config())
    const other = await createGatewayBeside(await config())
    onTestFinished(() => other.close())
    const call = await called(one)
    expect(call.arguments).toContain(WORD)
    const turn = async () => (await askAt(other.url, one.key.secret, secondTurn(call))).status
    await expect.poll(turn).toBe(200)
    const stored = await server.ask(async (client) => {
      const keys = (await client.keys('*:item:*')) as string[]
      return Promise.all(keys.map(async (key) => [await client.ttl(key), await client.get(key)]))
    })
    expect(stored.length).toBeGreaterThan(0)
    for (const [ttl, text] of stored) {
      expect(ttl).toBeGreaterThan(0)
      expect(ttl).toBeLessThanOrEqual(900)
      const bytes = Buffer.from(String(text).replace('base64:', ''), 'base64')
      expect(bytes.includes(WORD)).toBe(false)
    }
  })
})
