/** Large requests that clients send reach the vendor, however they are encoded. `npm run torture -- bodies` sends those that are as large as may be. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createTestGateway, type TestGateway } from '../_setup.ts'
import { json, startUpstream, type FakeUpstream } from '../upstream.ts'
import { CODINGS, ordinaryBodies } from './_hostile-bodies.ts'

const completion = {
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello.' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 3, completion_tokens: 2 },
}
const bodies = ordinaryBodies('acme/large', 8)

let vendor: FakeUpstream
let t: TestGateway

beforeAll(async () => {
  vendor = await startUpstream(json(completion))
  t = await createTestGateway({
    providers: { v: { use: 'openai-compatible', options: { baseURL: `${vendor.url}/v1` } } },
    models: {
      'acme/large': {
        pricing: { prompt: '0', completion: '0' },
        capabilities: ['VISION', 'TOOLS', 'STRUCTURED_OUTPUTS'],
        deployments: [{ provider: 'v', model: 'large' }],
      },
    },
  })
})

afterAll(async () => {
  await t.close()
  await vendor.close()
})

/** The request that the vendor gets. */
async function received(name: string, coding: string): Promise<any> {
  const headers = {
    'content-type': 'application/json',
    ...(coding === 'identity' ? {} : { 'content-encoding': coding }),
  }
  const body = CODINGS[coding]!(bodies[name]!)
  const { status, text } = await t.ask('POST', '/v1/chat/completions', { headers, body })
  expect([status, status === 200 ? '' : text]).toEqual([200, ''])
  const { json: asked } = vendor.requests.at(-1)!
  ;(vendor.requests as unknown[]).length = 0
  return asked
}

/** Equal as texts: a comparison of the values would take longer than the requests. */
function expectSame(asked: any, name: string): void {
  const sent = JSON.parse(bodies[name]!.toString())
  for (const member of ['messages', 'tools', 'response_format', 'input']) {
    const same = JSON.stringify(asked[member]) === JSON.stringify(sent[member])
    expect(same, `${name}: ${member}`).toBe(true)
  }
}

it.each(Object.keys(bodies))('%s arrive, uncompressed', async (name) => {
  expectSame(await received(name, 'identity'), name)
})

it.each(['gzip', 'br', 'zstd'])(
  'messages, tools, numbers and deep schemas arrive in %s',
  async (coding) => {
    for (const name of ['messages and tools', 'tokens', 'a deep schema']) {
      expectSame(await received(name, coding), name)
    }
  },
)
