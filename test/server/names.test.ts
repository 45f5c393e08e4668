/** Names that every object of JavaScript has, in each place where clients and vendors choose names. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, hello, type TestGateway } from '../_setup.ts'
import { json, startUpstream, type FakeUpstream } from '../upstream.ts'

const NAMES = ['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'valueOf']

let vendor: FakeUpstream
let t: TestGateway

beforeAll(async () => {
  vendor = await startUpstream()
  t = await createTestGateway({
    admin: { token: 'admin-token' },
    providers: { v: { use: 'openai-compatible', options: { baseURL: `${vendor.url}/v1` } } },
    models: {
      'acme/swift': {
        pricing: { prompt: '0.000001', completion: '0.000002' },
        capabilities: ['TOOLS', 'STRUCTURED_OUTPUTS'],
        deployments: [{ provider: 'v', model: 'swift' }],
      },
    },
  })
})

afterAll(async () => {
  await t.close()
  await vendor.close()
})

describe.each(NAMES)('the name %s', (name) => {
  const asking = { ...hello, model: 'acme/swift' }

  it('is no model and no key', async () => {
    const unknown = await t.chat({ ...hello, model: name })
    expect([unknown.status, unknown.json.error.code]).toEqual([404, 'model_not_found'])
    expect((await t.chat(hello, { key: name })).status).toBe(401)
    expect((await t.ask('GET', `/v1/${name}`)).status).toBe(404)
    expect((await t.ask('GET', `/${name}`)).status).toBe(404)
  })

  it('is no account and no key of the admin API', async () => {
    for (const path of [`/admin/accounts/${name}`, `/admin/keys/${name}`, `/admin/${name}`]) {
      expect((await t.ask('GET', path, { key: 'admin-token' })).status, path).toBe(404)
    }
  })

  it('may be a header, a tool, a member of a schema and of the usage', async () => {
    const text = (value: unknown) => JSON.stringify(value).replaceAll('"NAME"', `"${name}"`)
    const schema = { type: 'object', properties: { NAME: { type: 'string' } }, required: ['NAME'] }
    const tool = { type: 'function', function: { name: 'NAME', parameters: schema } }
    vendor.answer({
      ...json({}),
      pieces: [
        text({
          choices: [
            {
              index: 0,
              message: { role: 'assistant', content: 'Hi', NAME: 1 },
              finish_reason: 'stop',
            },
          ],
          usage: { prompt_tokens: 3, completion_tokens: 2, NAME: { polluted: 1 } },
          NAME: { polluted: 1 },
        }),
      ],
    })
    const before = vendor.requests.length
    const body = text({ ...asking, tools: [tool], NAME: { polluted: 1 } })
    const answer = await t.chat(body, {
      headers: { [`x-${name}`]: '1', [name.toLowerCase()]: '1' },
    })
    expect(answer.status).toBe(200)
    expect(answer.json.usage).toMatchObject({ prompt_tokens: 3, completion_tokens: 2 })
    expect(vendor.requests[before]!.body.toString()).toContain(text(tool.function.parameters))
    expect(vendor.requests[before]!.body.toString()).toContain(`"name":"${name}"`)
    expect(({} as { polluted?: number }).polluted).toBeUndefined()
  })
})
