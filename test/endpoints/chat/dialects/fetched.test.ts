/** Addresses and ids that a vendor would fetch or look up for the operator's account, in bodies that go out as they came. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createTestGateway, type TestGateway } from '../../../_setup.ts'
import { json, startUpstream, type FakeUpstream } from '../../../upstream.ts'

let vendor: FakeUpstream
let t: TestGateway
beforeAll(async () => {
  vendor = await startUpstream()
  const options = { apiKey: 'k', baseURL: `${vendor.url}/v1` }
  const at = (provider: string, more = {}) => ({
    pricing: { prompt: '0.000003', completion: '0.000015' },
    capabilities: ['STREAMING', 'TOOLS', 'VISION', 'FILE_INPUT'] as const,
    deployments: [{ provider, model: 'm-1', options: more }],
  })
  t = await createTestGateway({
    defaults: { limits: { rpm: 1_000_000 } },
    providers: {
      anthropic: { use: 'anthropic', options },
      openai: { use: 'openai', options },
      further: { use: 'anthropic', passes: ['beta_member'], options },
      server: { use: 'openai-compatible', options },
    },
    models: {
      'm/server': { ...at('server'), capabilities: [...at('server').capabilities] },
      'm/messages': { ...at('anthropic'), capabilities: [...at('anthropic').capabilities] },
      'm/further': { ...at('further'), capabilities: [...at('further').capabilities] },
      'm/responses': {
        ...at('openai', { api: 'responses' }),
        capabilities: [...at('openai').capabilities],
      },
    },
  })
})
afterAll(async () => {
  await t.close()
  await vendor.close()
})
beforeEach(() => vendor.answer(() => json({ error: { message: 'no' } }, 400)))

const ADDRESSES = [
  'http://127.0.0.1/a',
  'https://127.0.0.1/a',
  'https://2130706433/a',
  'https://0x7f.1/a',
  'https://[::1]/a',
  'https://[::ffff:10.0.0.1]/a',
  'https://10.1.2.3/a',
  'https://192.168.0.1/a',
  'https://172.16.0.1/a',
  'https://169.254.169.254/latest/meta-data',
  'https://localhost/a',
  'https://metadata.google.internal/a',
  'https://printer.local/a',
  'https://intranet/a',
  'https://user:pass@example.org/a',
  'https://example.org:8443/a',
  'ftp://example.org/a',
  'file:///etc/passwd',
  'gopher://127.0.0.1/a',
  '//127.0.0.1/a',
]

/** Items and blocks with one member that a vendor would fetch, known and unknown ones. */
const ITEMS: readonly ((address: string) => object)[] = [
  (image_url) => ({ role: 'user', content: [{ type: 'input_image', image_url }] }),
  (file_url) => ({ role: 'user', content: [{ type: 'input_file', file_url }] }),
  (image_url) => ({
    type: 'function_call_output',
    call_id: 'c',
    output: [{ type: 'input_image', image_url }],
  }),
  (image_url) => ({
    type: 'computer_call_output',
    call_id: 'c',
    output: { type: 'computer_screenshot', image_url },
  }),
  (url) => ({ type: 'shell_call_output', call_id: 'c', output: [{ url }] }),
  (url) => ({ type: 'brand_new', source: { url } }),
  (page_uri) => ({ type: 'brand_new', deep: [[{ page_uri }]] }),
  (url) => ({ type: 'brand_new', parameters: { url } }),
]
const BLOCKS: readonly ((address: string) => object)[] = [
  (url) => ({ type: 'image', source: { type: 'url', url } }),
  (url) => ({ type: 'document', source: { type: 'url', url } }),
  (url) => ({
    type: 'tool_result',
    tool_use_id: 'a',
    content: [{ type: 'image', source: { type: 'url', url } }],
  }),
  (url) => ({ type: 'web_fetch_tool_result', tool_use_id: 'a', content: { url } }),
  (image_url) => ({ type: 'tool_search_tool_result', tool_use_id: 'a', content: { image_url } }),
  (url) => ({ type: 'text', text: 'Hi', input_schema: { url } }),
]

const responses = (item: object) => ({
  path: '/v1/responses',
  body: { model: 'm/responses', input: [{ role: 'user', content: 'Hi' }, item] },
})
const messages = (block: object, more: object = {}) => ({
  path: '/v1/messages',
  body: {
    model: 'm/messages',
    max_tokens: 50,
    messages: [{ role: 'user', content: [{ type: 'text', text: 'Hi' }, block] }],
    ...more,
  },
})

/** What a vendor got of a request; undefined where it was refused. */
async function sent({ path, body }: { path: string; body: object }, key = t.key.secret) {
  const before = vendor.requests.length
  const { status, headers, text } = await t.ask('POST', path, { key, body })
  const request = vendor.requests[before]
  const received = request && JSON.parse(request.body.toString())
  return { status, error: JSON.parse(text).error, ignored: headers['x-service-ignored'], received }
}

/** The members of a body that a vendor would fetch; an address in a text is none. */
function fetchedOf(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, member]) =>
    typeof member === 'string' && /^url$|_ur[li]$|^file_data$/.test(name)
      ? [member]
      : fetchedOf(member),
  )
}

describe('an address', () => {
  it('that is not public reaches no vendor, wherever it stands', async () => {
    let places = 0
    for (const address of ADDRESSES) {
      const asked = [
        ...ITEMS.map((item) => responses(item(address))),
        ...BLOCKS.map((block) => messages(block(address))),
      ]
      for (const one of asked) {
        places++
        const { received, error, status } = await sent(one)
        expect(received, JSON.stringify(one)).toBeUndefined()
        expect(status).toBe(400)
        expect(error.param).toMatch(/url|uri|^input$|messages/)
      }
    }
    expect(places).toBe(ADDRESSES.length * (ITEMS.length + BLOCKS.length))
  })

  it.each(['under a policy', 'for a vendor of another form'])(
    'that is not public reaches no vendor, wherever it stands, %s',
    async (how) => {
      const policy = { version: 1 as const, bannedPatterns: ['swordfish'] }
      const isGuarded = how === 'under a policy'
      const key = isGuarded ? (await t.newKey({ policy })).secret : t.key.secret
      let [places, refused] = [0, 0]
      for (const [index, address] of ADDRESSES.entries()) {
        const asked = [
          ...ITEMS.map((item) => responses(item(address))),
          ...BLOCKS.map((block) => messages(block(address))),
        ]
        // Each address is in every fourth place, and each place has every fourth address.
        for (const { path, body } of asked.filter((_, place) => (index + place) % 4 === 0)) {
          places++
          const model = isGuarded ? body.model : 'm/server'
          const { received, status } = await sent({ path, body: { ...body, model } }, key)
          expect(fetchedOf(received), JSON.stringify(body)).toEqual([])
          expect(status).toBe(400)
          if (!received) refused++
        }
      }
      expect(places).toBe((ADDRESSES.length * (ITEMS.length + BLOCKS.length)) / 4)
      // What the other form lacks is left out; the rest is refused.
      expect(refused).toBeGreaterThan(places / 2)
    },
  )

  it('that is not public reaches no vendor from a chat', async () => {
    const parts = (address: string) => [
      { type: 'image_url', image_url: { url: address } },
      { type: 'file', file: { filename: 'a.pdf', file_data: address } },
      { type: 'file', file: { filename: 'a.pdf', file_data: ` ${address}` } },
    ]
    for (const address of ADDRESSES) {
      for (const part of parts(address)) {
        const messages = [{ role: 'user', content: [{ type: 'text', text: 'Hi' }, part] }]
        const body = { model: 'm/server', messages }
        const { received, status } = await sent({ path: '/v1/chat/completions', body })
        expect(received, JSON.stringify(part)).toBeUndefined()
        expect(status).toBe(400)
      }
    }
  })

  it('that nobody fetches passes: in schemas, inputs and texts', async () => {
    const quiet = 'http://127.0.0.1/a'
    const tools = [
      {
        name: 'f',
        input_schema: { type: 'object', properties: { url: { type: 'string', url: quiet } } },
      },
    ]
    const call = { type: 'tool_use', id: 'a', name: 'f', input: { url: quiet } }
    const result = { type: 'tool_result', tool_use_id: 'a', content: `See ${quiet}` }
    const conversation = [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: [call] },
      { role: 'user', content: [result] },
    ]
    const { received } = await sent(messages(call, { messages: conversation, tools }))
    expect(received.messages[1].content[0].input).toEqual({ url: quiet })
  })
})

describe('what belongs to the account of the operator', () => {
  it('is refused with its path', async () => {
    const item = responses({ type: 'brand_new', content: [{ file_id: 'file-1' }] })
    expect(await sent(item)).toMatchObject({
      status: 400,
      received: undefined,
      error: { code: 'unsupported_value', param: 'input[1].content[0].file_id' },
    })
    const block = messages({
      type: 'web_fetch_tool_result',
      tool_use_id: 'a',
      content: { file_ids: ['f'] },
    })
    expect(await sent(block)).toMatchObject({
      status: 400,
      received: undefined,
      error: { code: 'unsupported_value', param: 'messages[0].content[1].content.file_ids' },
    })
  })

  it('is left out and named, at the top and in results of tools', async () => {
    const top = messages({ type: 'text', text: 'Hi' }, { user_profile_id: 'u', vault_ids: ['v'] })
    const { received, ignored } = await sent(top)
    expect(received).not.toHaveProperty('user_profile_id')
    expect(received).not.toHaveProperty('vault_ids')
    expect(ignored).toBe('user_profile_id, vault_ids')
    const uploaded = await sent(
      messages({ type: 'mcp_tool_result', tool_use_id: 'a', file_id: 'x' }),
    )
    expect(uploaded.received.messages).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'Hi' }] },
    ])
    expect(uploaded.ignored).toBe('messages[0].content[1].mcp_tool_result')
    const environment = await sent({
      path: '/v1/responses',
      body: { model: 'm/responses', input: 'Hi', environment: { id: 'e' } },
    })
    expect(environment.received).not.toHaveProperty('environment')
    expect(environment.ignored).toBe('environment')
  })

  it('passes where the configuration says so', async () => {
    const block = { type: 'text', text: 'Hi' }
    const more = { model: 'm/further', beta_member: 1, container: 'c', other: 2 }
    const { received, ignored } = await sent(messages(block, more))
    expect(received.beta_member).toBe(1)
    expect(ignored).toBe('container, other')
  })
})
