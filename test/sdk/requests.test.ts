/** What of a request reaches the vendor, as the vendor saw it, and what never does. */
import type OpenAI from 'openai'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { answered, HELLO, rejected, setUp, streamed, user, type Setup } from './_setup.ts'

let s: Setup
beforeAll(async () => {
  s = await setUp()
})
beforeEach(() => s.vendor.answer(answered({ content: 'Fine.' })))
afterAll(() => s[Symbol.asyncDispose]())

const PNG = 'data:image/png;base64,iVBORw0KGgo='
const PDF = 'data:application/pdf;base64,JVBERi0xLjcK'

/** What the vendor got when the client sent this on top of a greeting; the official types do not know every member. */
async function sent(members: object): Promise<any> {
  const { choices } = await s.client.chat.completions.create({ ...HELLO, ...members })
  expect(choices[0]!.message.content).toBe('Fine.')
  return s.vendor.requests.at(-1)!.json
}

const messagesSent = async (messages: readonly object[], model = HELLO.model) =>
  (await sent({ model, messages })).messages

const text = (said: string) => [{ type: 'text', text: said }]

describe('messages', () => {
  it('of every role reach the vendor, as text or in parts', async () => {
    const history = [
      { role: 'system', content: text('Be brief.') },
      { role: 'developer', content: text('Be kind.'), name: 'dev' },
      { role: 'user', content: [...text('One'), ...text('Two')], name: 'ann' },
      { role: 'assistant', content: text('Three') },
      { role: 'assistant', content: [{ type: 'refusal', refusal: 'No.' }] },
      { role: 'user', content: 'Four' },
    ]
    expect(await messagesSent(history, 'acme/openai')).toEqual(history)
  })

  it('of the developer are the system’s where the vendor knows no developer', async () => {
    const history = [{ role: 'developer', content: 'Be kind.' }, user('Hi')]
    expect(await messagesSent(history)).toEqual([
      { role: 'system', content: 'Be kind.' },
      user('Hi'),
    ])
  })

  it('carry images unchanged, by data URL and by https', async () => {
    const content = [
      { type: 'text', text: 'What is this?' },
      { type: 'image_url', image_url: { url: PNG, detail: 'low' } },
      { type: 'image_url', image_url: { url: 'https://example.org/a.png?b=c&d=%20e' } },
    ]
    expect(await messagesSent([{ role: 'user', content }])).toEqual([{ role: 'user', content }])
  })

  it('carry images that are plain texts as objects', async () => {
    const content = [{ type: 'image_url', image_url: PNG }]
    const [message] = await messagesSent([{ role: 'user', content }])
    expect(message.content).toEqual([{ type: 'image_url', image_url: { url: PNG } }])
  })

  it.each([
    ['wrapped', 'data:image/png;base64,iVBO\r\nRw0K\nGgo='],
    ['in capitals', 'DATA:image/png;BASE64,iVBORw0KGgo='],
    ['without a type', 'data:;base64,iVBORw0KGgo='],
    ['of a type that is not registered', 'data:image/jpg;base64,/9j/4AAQ'],
    ['for URLs, without padding', 'data:image/png;base64,iVBORw0KGgo_-w'],
  ])('carry base64 that is %s, as the standard has it', async (_name, url) => {
    const content = [{ type: 'image_url', image_url: { url } }]
    const [message] = await messagesSent([{ role: 'user', content }])
    const sent: string = message.content[0].image_url.url
    expect(sent).toMatch(
      /^data:[^,]*;base64,(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/,
    )
    const bytesOf = (source: string) => Buffer.from(source.slice(source.indexOf(',')), 'base64')
    expect(bytesOf(sent)).toEqual(bytesOf(url))
  })

  it('carry files and sound', async () => {
    const content = [
      { type: 'file', file: { filename: 'a.pdf', file_data: PDF } },
      { type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav' } },
    ]
    expect(await messagesSent([{ role: 'user', content }])).toEqual([{ role: 'user', content }])
  })

  it('carry cache_control on messages, parts and tools, and at the top, where the vendor takes it', async () => {
    const cache_control = { type: 'ephemeral', ttl: '1h' }
    const marked = {
      cache_control,
      messages: [
        { role: 'system', content: [{ type: 'text', text: 'Long.', cache_control }] },
        { role: 'user', content: 'Hi', cache_control },
      ],
      tools: [{ type: 'function', function: { name: 'f' }, cache_control }],
    }
    expect(await sent(marked)).toMatchObject(marked)
    expect(JSON.stringify(await sent({ ...marked, model: 'acme/openai' }))).not.toContain(
      'cache_control',
    )
  })

  it('hand reasoning back in order and unmodified, where the vendor takes it', async () => {
    const reasoning_details = [
      {
        type: 'reasoning.text',
        text: 'Hm.',
        signature: 'c2ln',
        id: null,
        format: 'anthropic-claude-v1',
        index: 0,
      },
      {
        type: 'reasoning.encrypted',
        data: 'eHl6',
        id: 'rs_1',
        format: 'openai-responses-v1',
        index: 1,
      },
    ]
    const history = [
      user('2+2?'),
      { role: 'assistant', content: '4', reasoning: 'Hm.', reasoning_details },
      user('Sure?'),
    ]
    const replayed = await messagesSent(history, 'acme/router')
    expect(replayed[1]).toEqual({ role: 'assistant', content: '4', reasoning_details })
    expect((await messagesSent(history))[1]).toEqual({ role: 'assistant', content: '4' })
  })

  it('may be full of nulls', async () => {
    const nothing = {
      name: null,
      tool_calls: null,
      function_call: null,
      refusal: null,
      audio: null,
    }
    const history = [
      { role: 'user', content: 'Hi', name: null },
      {
        role: 'assistant',
        content: 'Yes?',
        ...nothing,
        annotations: null,
        reasoning_details: null,
      },
      { role: 'user', content: [{ type: 'image_url', image_url: { url: PNG, detail: null } }] },
    ]
    expect(await messagesSent(history)).toEqual([
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: 'Yes?' },
      { role: 'user', content: [{ type: 'image_url', image_url: { url: PNG } }] },
    ])
  })
})

describe('members', () => {
  const OPTIONS = {
    temperature: 0.3,
    top_p: 0.9,
    frequency_penalty: 0.1,
    presence_penalty: -0.1,
    top_k: 40,
    min_p: 0.05,
    repetition_penalty: 1.1,
    stop: ['END', '\n\n'],
    seed: 7,
    logit_bias: { 50256: -100 },
    max_completion_tokens: 99,
    verbosity: 'low',
    user: 'u-1',
    metadata: { team: 'a' },
    prompt_cache_key: 'k',
    safety_identifier: 's',
    prediction: { type: 'content', content: 'Fine.' },
  }

  it('that steer the model reach it', async () => {
    expect(await sent(OPTIONS)).toEqual({ ...OPTIONS, model: 'swift', messages: HELLO.messages })
  })

  it('that are unknown here reach it too, at any depth', async () => {
    const extra = { vendor_option: { deep: [{ er: true }] }, x: 1, y: 'z', empty: [] }
    const messages = [{ role: 'user', content: [{ type: 'text', text: 'Hi', extra: 1 }], extra: 2 }]
    expect(await sent({ ...extra, messages })).toEqual({ ...extra, messages, model: 'swift' })
  })

  it('that are null, or empty where that means nothing, do not', async () => {
    const nulls = Object.fromEntries(Object.keys(OPTIONS).map((name) => [name, null]))
    const empty = { tools: [], stop: [], plugins: [], stream: null, stream_options: null, n: null }
    expect(
      await sent({ ...nulls, ...empty, tool_choice: null, reasoning: null, policy: undefined }),
    ).toEqual({
      model: 'swift',
      messages: HELLO.messages,
    })
  })

  it('that speak of tools do not where there are none', async () => {
    const body = await sent({ tools: [], tool_choice: 'none', parallel_tool_calls: true })
    expect(Object.keys(body).toSorted()).toEqual(['messages', 'model'])
  })

  it.each([
    [{ max_tokens: 50 }, 50],
    [{ max_completion_tokens: 60 }, 60],
    [{ max_tokens: 50, max_completion_tokens: 60 }, 60],
  ])('%j limits the answer', async (limits, expected) => {
    const body = await sent(limits)
    expect(body.max_completion_tokens).toBe(expected)
    expect(body).not.toHaveProperty('max_tokens')
  })

  it.each<[object, object]>([
    [{ reasoning_effort: 'low' }, { reasoning_effort: 'low' }],
    [{ reasoning: { effort: 'high' } }, { reasoning_effort: 'high' }],
    [{ reasoning: { enabled: false } }, { reasoning_effort: 'none' }],
    [{ reasoning: { effort: null, exclude: false } }, {}],
    [{ include_reasoning: false }, {}],
  ])('%j asks for reasoning', async (wish, expected) => {
    const { model, messages, ...rest } = await sent({ ...wish, model: 'acme/openai' })
    expect([model, messages]).toEqual(['swift', HELLO.messages])
    expect(rest).toEqual(expected)
  })

  it('that are the gateway’s own business never do', async () => {
    const own = {
      models: ['acme/other', 'evil/model'],
      route: 'fallback',
      provider: { order: ['evil'], allow_fallbacks: false },
      policy: { version: 1, maxOutputTokens: 1000 },
      plugins: [
        { id: 'file-parser', pdf: { engine: 'x' } },
        { id: 'web', enabled: false },
      ],
      session_id: 'session-1',
      transforms: ['middle-out'],
      usage: { include: true },
      debug: { echo: true },
      service_tier: 'priority',
      store: true,
    }
    for (const model of ['acme/swift-1', 'acme/openai', 'acme/router']) {
      const { max_completion_tokens, prompt_cache_key, ...body } = await sent({ ...own, model })
      expect(max_completion_tokens).toBe(1000)
      // OpenAI's way to keep related requests together; the id itself stays here.
      if (model === 'acme/openai') expect(prompt_cache_key).toMatch(/^[0-9a-f]{32}$/)
      const kept = Object.keys(body).filter((name) => name in own)
      // A router takes the session as it is.
      expect(kept).toEqual(model === 'acme/router' ? ['session_id'] : [])
      expect(body).toMatchObject({ model: 'swift', messages: HELLO.messages })
    }
  })

  it('of a stream always ask the vendor for usage, whatever the client asked', async () => {
    for (const options of [
      {},
      { stream_options: { include_usage: false, include_obfuscation: true } },
    ]) {
      s.vendor.answer(streamed([{ content: 'Fine.' }]))
      await s.client.chat.completions.stream({ ...HELLO, ...options }).done()
      const { stream, stream_options } = s.vendor.requests.at(-1)!.json
      expect([stream, stream_options]).toEqual([true, { include_usage: true }])
    }
  })

  it('of a key’s policy are laid over what the client wants', async () => {
    const { secret } = await s.t.newKey({
      policy: { version: 1, maxOutputTokens: 10, systemPrompt: 'House rules.' },
    })
    const body = { ...HELLO, max_completion_tokens: 500 }
    await s.connect({ apiKey: secret }).chat.completions.create(body)
    const { max_completion_tokens, messages } = s.vendor.requests.at(-1)!.json
    expect(max_completion_tokens).toBe(10)
    expect(messages[0].role).toBe('system')
    expect(messages[0].content).toContain('House rules.')
    expect(messages.slice(1)).toEqual(HELLO.messages)
  })
})

describe('the head of a request', () => {
  it('is the gateway’s own: nothing of the client’s goes on', async () => {
    const defaultHeaders = {
      'x-provider-api-keys': 'secret-of-another',
      'http-referer': 'https://app.example',
      'x-title': 'App',
      'idempotency-key': 'once',
      cookie: 'a=b',
    }
    const client = s.connect({ defaultHeaders, organization: 'org-1', project: 'proj-1' })
    await client.chat.completions.create(HELLO)
    const { headers, path, method } = s.vendor.requests.at(-1)!
    expect([method, path]).toEqual(['POST', '/v1/chat/completions'])
    expect(headers.authorization).toBe('Bearer vendor-key')
    expect(JSON.stringify(headers)).not.toMatch(
      /stainless|secret-of-another|app\.example|idempotency|cookie|org-1|proj-1|sk-sluice/i,
    )
  })

  it('finds its way from every base URL that people write', async () => {
    const { url } = s.t
    const doubled = [`${url}/v1/v1`, `${url}//v1`]
    for (const baseURL of [`${url}/v1`, `${url}/v1/`, ...doubled, url, `${url}/api/v1`]) {
      const { choices } = await s.connect({ baseURL }).chat.completions.create(HELLO)
      expect(choices[0]!.message.content).toBe('Fine.')
    }
    const baseURL = `${url}/v1/chat/completions`
    const error = await rejected(s.connect({ baseURL }).chat.completions.create(HELLO))
    expect(error).toMatchObject({ status: 404, code: 'unknown_url' })
    expect(error.message).toContain('/v1/chat/completions')
  })

  it('may have a query', async () => {
    const client = s.connect({ defaultQuery: { 'api-version': '2026-01-01' } })
    expect((await client.chat.completions.create(HELLO)).choices).toHaveLength(1)
  })
})

describe('a body', () => {
  it('of every shape that has no meaning to the vendor is refused before it is asked', async () => {
    const asked = s.vendor.requests.length
    const cases: readonly [object, string, string][] = [
      [
        {
          messages: [
            { role: 'user', content: [{ type: 'image_url', image_url: { url: 'ftp://x' } }] },
          ],
        },
        'invalid_value',
        'messages[0].content[0].image_url.url',
      ],
      [
        { messages: [{ role: 'user', content: [{ type: 'file', file: { file_id: 'file-1' } }] }] },
        'unsupported_value',
        'messages[0].content[0].file.file_id',
      ],
      [
        { messages: [user('Hi'), { role: 'king', content: 'Hi' }] },
        'invalid_value',
        'messages[1].role',
      ],
      [{ modalities: ['text', 'audio'] }, 'unsupported_value', 'modalities'],
      [
        { reasoning_effort: 'low', reasoning: { effort: 'high' } },
        'invalid_value',
        'reasoning_effort',
      ],
      [{ top_logprobs: 2 }, 'invalid_value', 'top_logprobs'],
    ]
    for (const [members, code, param] of cases) {
      const body = { ...HELLO, ...members } as OpenAI.ChatCompletionCreateParamsNonStreaming
      const error = await rejected(s.client.chat.completions.create(body))
      expect([error.status, error.code, error.param]).toEqual([400, code, param])
    }
    expect(s.vendor.requests.length).toBe(asked)
  })
})
