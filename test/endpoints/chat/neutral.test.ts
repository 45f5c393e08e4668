/** Parts of a request that clients write in many ways arrive in a form that each vendor takes, from all three dialects. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createTestGateway, type TestGateway } from '../../_setup.ts'
import { json, startUpstream, type FakeUpstream } from '../../upstream.ts'

const VENDORS = [
  'openai',
  'responses',
  'azure',
  'server',
  'openrouter',
  'anthropic',
  'bedrock',
  'google',
] as const
type Vendor = (typeof VENDORS)[number]
const DIALECTS = ['chat', 'messages', 'responses'] as const
type Dialect = (typeof DIALECTS)[number]

let vendor: FakeUpstream
let t: TestGateway
beforeAll(async () => {
  vendor = await startUpstream()
  const key = { apiKey: 'k' }
  const at = (provider: string, model: string, options = {}) => ({
    pricing: { prompt: '0.000003', completion: '0.000015' },
    capabilities: [
      'STREAMING' as const,
      'TOOLS' as const,
      'VISION' as const,
      'FILE_INPUT' as const,
      'AUDIO_INPUT' as const,
    ],
    deployments: [{ provider, model, options }],
  })
  t = await createTestGateway({
    defaults: { limits: { rpm: 100_000 } },
    providers: {
      openai: { use: 'openai', options: { ...key, baseURL: `${vendor.url}/v1` } },
      azure: { use: 'azure', options: { ...key, baseURL: vendor.url } },
      server: { use: 'openai-compatible', options: { ...key, baseURL: `${vendor.url}/v1` } },
      openrouter: {
        use: 'openai-compatible',
        options: { ...key, quirks: 'openrouter', baseURL: `${vendor.url}/v1` },
      },
      anthropic: { use: 'anthropic', options: { ...key, baseURL: `${vendor.url}/v1` } },
      bedrock: { use: 'bedrock', options: { ...key, region: 'eu-north-1', baseURL: vendor.url } },
      google: { use: 'google', options: { ...key, baseURL: vendor.url } },
    },
    models: {
      'm/openai': at('openai', 'gpt-4.1', { api: 'chat' }),
      'm/responses': at('openai', 'gpt-5.6', { api: 'responses' }),
      'm/azure': at('azure', 'gpt-4.1', { api: 'chat' }),
      'm/server': at('server', 'local'),
      'm/openrouter': at('openrouter', 'some/model'),
      'm/anthropic': at('anthropic', 'claude-sonnet-5'),
      'm/bedrock': at('bedrock', 'anthropic.claude-sonnet-5'),
      'm/google': at('google', 'gemini-3.5-flash'),
    },
  })
})
afterAll(async () => {
  await t.close()
  await vendor.close()
})
beforeEach(() => vendor.answer(() => json({ error: { message: 'no' } }, 400)))

const PATHS = { chat: '/v1/chat/completions', messages: '/v1/messages', responses: '/v1/responses' }

/** The body that arrives at the vendor, or the error of the gateway. A policy keeps requests off the verbatim lane. */
async function arrives(to: Vendor, dialect: Dialect, body: object): Promise<any> {
  const policy = { version: 1 as const, bannedPatterns: ['swordfish'] }
  const { secret } = await t.newKey({ policy })
  const before = vendor.requests.length
  const whole = { model: `m/${to}`, ...(dialect === 'messages' && { max_tokens: 100 }), ...body }
  const { text } = await t.ask('POST', PATHS[dialect], { key: secret, body: whole })
  const request = vendor.requests[before]
  return request ? JSON.parse(request.body.toString()) : { refused: JSON.parse(text).error }
}

/** A question with one tool. */
const withTool = (dialect: Dialect, schema: unknown, strict?: boolean): object => {
  const named = { name: 'look', description: 'Looks.', ...(strict !== undefined && { strict }) }
  if (dialect === 'messages') {
    return {
      messages: [{ role: 'user', content: 'Hi' }],
      tools: [{ ...named, input_schema: schema }],
    }
  }
  const called = { ...named, ...(schema !== undefined && { parameters: schema }) }
  return dialect === 'chat'
    ? {
        messages: [{ role: 'user', content: 'Hi' }],
        tools: [{ type: 'function', function: called }],
      }
    : { input: 'Hi', tools: [{ type: 'function', ...called }] }
}

const toolAt: Record<Vendor, (body: any) => { description: string; schema: any }> = {
  openai: ({ tools: [{ function: one }] }) => ({ ...one, schema: one.parameters }),
  azure: ({ tools: [{ function: one }] }) => ({ ...one, schema: one.parameters }),
  server: ({ tools: [{ function: one }] }) => ({ ...one, schema: one.parameters }),
  openrouter: ({ tools: [{ function: one }] }) => ({ ...one, schema: one.parameters }),
  responses: ({ tools: [one] }) => ({ ...one, schema: one.parameters }),
  anthropic: ({ tools: [one] }) => ({ ...one, schema: one.input_schema }),
  bedrock: ({ toolConfig: { tools } }) => ({
    ...tools[0].toolSpec,
    schema: tools[0].toolSpec.inputSchema.json,
  }),
  google: ({
    tools: [
      {
        functionDeclarations: [one],
      },
    ],
  }) => ({ ...one, schema: one.parametersJsonSchema }),
}

describe.each(DIALECTS)('%s', (dialect) => {
  const EMPTY = { type: 'object', properties: {} }
  it.each(VENDORS)('offers a tool without parameters to %s', async (to) => {
    const schemas = [{ type: 'object' }, {}, ...(dialect === 'messages' ? [] : [undefined])]
    for (const schema of schemas) {
      const { schema: sent } = toolAt[to](await arrives(to, dialect, withTool(dialect, schema)))
      if (to === 'google') expect(sent ?? EMPTY).toEqual(EMPTY)
      else expect(sent).toEqual(EMPTY)
    }
    const untyped = { required: ['a'], properties: { a: { enum: ['b'] } } }
    const { schema } = toolAt[to](await arrives(to, dialect, withTool(dialect, untyped)))
    expect(schema).toEqual({ type: 'object', ...untyped })
  })

  const a = {
    type: 'object',
    properties: { kind: { const: 'a' }, x: { type: 'string' } },
    required: ['kind', 'x'],
  }
  const b = { properties: { kind: { const: 'b' }, y: { type: 'string' } }, required: ['kind'] }
  const root = {
    anyOf: [a, { $ref: '#/$defs/b' }],
    $defs: { b },
    properties: { z: { type: 'number' } },
    required: ['z'],
  }
  it.each(VENDORS)(
    'offers a tool with alternatives at the root of its schema to %s',
    async (to) => {
      const body = await arrives(to, dialect, withTool(dialect, root))
      const { schema, description } = toolAt[to](body)
      if (to === 'server' || to === 'openrouter' || to === 'google') {
        expect(schema).toEqual({ type: 'object', ...root })
        return
      }
      expect(schema).toEqual({
        type: 'object',
        $defs: { b },
        properties: {
          z: { type: 'number' },
          kind: { anyOf: [{ const: 'a' }, { const: 'b' }] },
          x: { type: 'string' },
          y: { type: 'string' },
        },
        required: ['z', 'kind'],
      })
      const words = JSON.stringify({ anyOf: root.anyOf })
      expect(description).toBe(`Looks.\nThe arguments match this JSON Schema: ${words}`)
    },
  )

  it('refuses a strict tool that a vendor would need flat', async () => {
    for (const to of ['openai', 'responses', 'azure'] as const) {
      const { refused } = await arrives(to, dialect, withTool(dialect, root, true))
      expect(refused.code).toBe('invalid_value')
    }
  })
})

it('says why a strict tool is refused', async () => {
  const body = { model: 'm/openai', ...withTool('chat', { anyOf: [{ type: 'object' }] }, true) }
  const { json: answer } = await t.chat(body)
  expect(answer.error.message).toMatch(/^Invalid schema for function 'look': anyOf /)
  expect(answer.error.param).toBe('tools[0].function.parameters')
})

const FAILED = '(the tool failed)'
const resultAt: Record<Vendor, (body: any) => unknown> = {
  openai: ({ messages }) => messages.at(-1).content,
  azure: ({ messages }) => messages.at(-1).content,
  server: ({ messages }) => messages.at(-1).content,
  openrouter: ({ messages }) => messages.at(-1).content,
  responses: ({ input }) => input.at(-1).output,
  anthropic: ({ messages }) => messages.at(-1).content[0],
  bedrock: ({ messages }) => messages.at(-1).content[0].toolResult,
  google: ({ contents }) => contents.at(-1).parts[0].functionResponse.response,
}

const conversation = (result: object, mark?: object) => ({
  messages: [
    { role: 'user', content: 'Hi' },
    {
      role: 'assistant',
      content: [
        { type: 'text', text: 'I look.' },
        { type: 'tool_use', id: 'call_1', name: 'look', input: {}, ...mark },
      ],
    },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1', ...result }] },
  ],
  tools: [{ name: 'look', input_schema: { type: 'object' } }],
})

it.each(VENDORS)('tells %s that a tool has failed', async (to) => {
  const at = async (result: object) =>
    resultAt[to](await arrives(to, 'messages', conversation({ is_error: true, ...result })))
  const text = await at({ content: 'No such file.' })
  const none = await at({})
  switch (to) {
    case 'anthropic':
      expect(text).toMatchObject({ is_error: true, content: 'No such file.' })
      return expect(none).toMatchObject({ is_error: true })
    case 'bedrock':
      expect(text).toMatchObject({ status: 'error', content: [{ text: 'No such file.' }] })
      return expect(none).toMatchObject({ status: 'error' })
    case 'google':
      expect(text).toEqual({ error: 'No such file.' })
      return expect(none).toEqual({ error: FAILED })
    default:
      expect(text).toBe(`${FAILED}\nNo such file.`)
      expect(none).toBe(FAILED)
      expect(JSON.stringify(await at({ content: [{ type: 'text', text: 'No.' }] }))).toMatch(
        /\(the tool failed\).*No\./,
      )
  }
})

it.each(VENDORS)('gives %s the cache mark of a call where it has marks', async (to) => {
  const mark = { cache_control: { type: 'ephemeral' } }
  const body = await arrives(to, 'messages', conversation({ content: 'Fine.' }, mark))
  const marks = JSON.stringify(body).match(/cache_control|cachePoint/g) ?? []
  switch (to) {
    case 'anthropic':
      return expect(body.messages[1].content[1]).toMatchObject({ type: 'tool_use', ...mark })
    case 'bedrock':
      return expect(body.messages[1].content.slice(1)).toMatchObject([
        { toolUse: { name: 'look' } },
        { cachePoint: { type: 'default' } },
      ])
    case 'server':
    case 'openrouter':
      return expect(body.messages[1]).toMatchObject({
        content: [{ type: 'text', text: 'I look.', ...mark }],
        tool_calls: [{ id: 'call_1' }],
      })
    default:
      expect(marks).toEqual([])
  }
})

describe('base64', () => {
  const bytes = Buffer.from('89504e470d0a1a0a0000fbef00ffbf3e3f', 'hex')
  const canonical = bytes.toString('base64')
  const FORMS = {
    plain: canonical,
    wrapped: `${canonical.slice(0, 8)}\r\n${canonical.slice(8)}\n`,
    'url-safe': bytes.toString('base64url'),
    unpadded: canonical.replace(/=+$/, ''),
  }
  const image = (dialect: Dialect, data: string): object => {
    const url = `data:image/png;base64,${data}`
    switch (dialect) {
      case 'chat':
        return {
          messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }],
        }
      case 'messages': {
        const source = { type: 'base64', media_type: 'image/png', data }
        return { messages: [{ role: 'user', content: [{ type: 'image', source }] }] }
      }
      default:
        return { input: [{ role: 'user', content: [{ type: 'input_image', image_url: url }] }] }
    }
  }

  it.each(VENDORS)('in any form arrives at %s as the standard has it', async (to) => {
    for (const dialect of DIALECTS) {
      for (const [name, data] of Object.entries(FORMS)) {
        const text = JSON.stringify(await arrives(to, dialect, image(dialect, data)))
        expect(text, `${dialect} ${name}`).toContain(`${canonical}"`)
      }
    }
  })

  it.each(DIALECTS)('that is none is refused with its path, %s', async (dialect) => {
    const paths = {
      chat: 'messages[0].content[0].image_url.url',
      messages: 'messages[0].content[0].source.data',
      responses: 'input[0].content[0].image_url',
    }
    for (const data of [
      'not base64!',
      ' ',
      '=',
      'AAAAA',
      'AA=A',
      'AAAA====',
      'https://10.1.2.3/a',
    ]) {
      const { refused } = await arrives('openai', dialect, image(dialect, data))
      expect(refused, data).toMatchObject({ code: 'invalid_base64', param: paths[dialect] })
    }
  })

  it('is read before an address behind a blank', async () => {
    const file = { type: 'file', file: { filename: 'a.pdf', file_data: ' https://10.1.2.3/a.pdf' } }
    const { refused } = await arrives('openai', 'chat', {
      messages: [{ role: 'user', content: [file] }],
    })
    expect(refused).toMatchObject({ code: 'invalid_base64' })
  })

  it.each(VENDORS)('of sound and files arrives at %s whole', async (to) => {
    const sound = { type: 'input_audio', input_audio: { format: 'wav', data: FORMS.wrapped } }
    const file = { type: 'file', file: { filename: 'a.pdf', file_data: FORMS['url-safe'] } }
    for (const part of [sound, file]) {
      if (part === sound && (to === 'anthropic' || to === 'responses')) continue
      const body = await arrives(to, 'chat', { messages: [{ role: 'user', content: [part] }] })
      expect(JSON.stringify(body)).toContain(`${canonical}"`)
    }
  })

  it.each([
    ['%PDF-1.7', 'a.png', 'application/pdf'],
    ['\x89PNG\r\n\x1a\n', undefined, 'image/png'],
    ['hi', 'notes.TXT', 'text/plain'],
    ['hi', 'unknown.zzz', 'application/pdf'],
    ['hi', undefined, 'application/pdf'],
  ])(
    'of a file that begins with %j and is called %s is of type %s',
    async (bytes, filename, type) => {
      const file_data = Buffer.from(bytes, 'latin1').toString('base64')
      const part = { type: 'file', file: { file_data, filename } }
      const body = await arrives('server', 'chat', {
        messages: [{ role: 'user', content: [part] }],
      })
      expect(body.messages[0].content[0].file.file_data).toBe(`data:${type};base64,${file_data}`)
    },
  )
})
