/** A quantity that no vendor reported is unknown, and not 0, wherever an operator reads it. */
import { expect, it } from 'vitest'
import { createTestGateway, hello, MOCK_CONFIG } from '../_setup.ts'
import { eventually } from '../_wait.ts'
import { json, startUpstream } from '../upstream.ts'

const TOKEN = 'admin-token-of-the-test'
const message = { role: 'assistant', content: 'Hello.' }
const COUNTS = { prompt_tokens: 10, completion_tokens: 4 }
const DETAILED = {
  ...COUNTS,
  prompt_tokens_details: { cached_tokens: 3 },
  completion_tokens_details: { reasoning_tokens: 0 },
}

async function gatewayOf(usage: object) {
  const answer = { choices: [{ index: 0, message, finish_reason: 'stop' }], usage }
  const vendor = await startUpstream(json(answer))
  const options = { baseURL: `${vendor.url}/v1`, apiKey: 'k' }
  const t = await createTestGateway({
    ...MOCK_CONFIG,
    admin: { token: TOKEN },
    providers: { far: { use: 'openai-compatible', options } },
    models: {
      'far/m': {
        pricing: { prompt: '0.000001', completion: '0.000002' },
        deployments: [{ provider: 'far', model: 'm' }],
      },
    },
  })
  return { t, vendor }
}

it.each([
  ['left out', COUNTS, [null, null, null]],
  ['told, zero included', DETAILED, [3, null, 0]],
] as const)('counts that a vendor has %s', async (_, usage, [cached, written, reasoning]) => {
  const { t, vendor } = await gatewayOf(usage)
  await using _t = t
  await using _vendor = vendor
  const get = (path: string) => t.ask('GET', `/admin${path}`, { key: TOKEN })
  const headers = { 'x-service-tag': 'red' }
  const chat = await t.chat({ ...hello, model: 'far/m', user: 'ann' }, { headers })
  expect(chat.json.usage.completion_tokens_details.reasoning_tokens).toBe(0)
  const counts = {
    prompt_tokens: 10,
    completion_tokens: 4,
    cached_tokens: cached,
    cache_write_tokens: written,
    reasoning_tokens: reasoning,
  }
  const id = chat.headers['x-request-id']
  await eventually(async () => {
    expect((await get(`/requests/${id}`)).json.data.usage).toMatchObject(counts)
  })
  for (const group of ['model', 'key', 'endpoint', 'tag', 'user']) {
    const path = `/usage?group=${group}&rollup=day`
    await eventually(async () => {
      const { data } = (await get(path)).json
      expect([group, data.length]).toEqual([group, 1])
      expect(data[0]).toMatchObject(counts)
    })
    const csv = (await get(`${path}&format=csv`)).text.trimEnd().split('\r\n')
    const [names, values] = csv.map((line) => line.split(',')) as [string[], string[]]
    const cell = (name: string) => values[names.indexOf(name)]
    const expected = Object.values(counts).map((count) => (count === null ? '' : String(count)))
    expect(Object.keys(counts).map(cell)).toEqual(expected)
  }
})
