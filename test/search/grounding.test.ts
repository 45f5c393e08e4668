/** Web search as clients see it: a search before the answer, sources in the answer, the cost of both. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { readFileSync } from 'node:fs'
import type { Target } from '../../src/pipeline/pipeline.ts'
import type { ResultFilter } from '../../src/search/results.ts'
import { eventsOf } from '../_setup.ts'
import { answered, streamed, user } from '../sdk/_setup.ts'
import { json } from '../upstream.ts'
import { ASK, BRIDGE, exa, pages, QUESTION, setUp, type Grounded } from './_setup.ts'

let g: Grounded
beforeAll(async () => {
  g = await setUp()
})
afterAll(() => g[Symbol.asyncDispose]())
beforeEach(() => {
  g.web.answer(pages(BRIDGE))
  g.other.answer(exa(BRIDGE))
  g.vendor.answer(answered({ content: 'It opened in 1932 [1]. 😀' }))
})

const [FIRST, SECOND] = BRIDGE
const WEB = { id: 'web' }
const PLAIN = { model: 'acme/swift-1', messages: ASK.messages }

const annotation = (page: (typeof BRIDGE)[number], start_index: number, end_index: number) => ({
  type: 'url_citation',
  url_citation: { url: page.url, title: page.title, start_index, end_index, content: page.text },
})
const messageOf = (answer: { json: any }) => answer.json.choices[0].message

const ajv = new Ajv2020({ strict: false })
const schema = (name: string) =>
  ajv.compile(
    JSON.parse(readFileSync(new URL(`../wire/schemas/${name}.json`, import.meta.url), 'utf8')),
  )
const isCompletion = schema('chat-completion')
const isChunk = schema('chat-completion-chunk')

/** Number of requests to the engines while a function runs. */
async function searchesDuring(run: () => Promise<unknown>): Promise<readonly [number, number]> {
  const before = [g.web.requests.length, g.other.requests.length] as const
  await run()
  return [g.web.requests.length - before[0], g.other.requests.length - before[1]]
}

describe('a search', () => {
  it.each([
    ['the suffix of the model', ASK],
    ['the plugin', { ...PLAIN, plugins: [WEB] }],
    ['both', { ...ASK, plugins: [WEB] }],
    ['the plugin twice', { ...PLAIN, plugins: [WEB, { ...WEB, max_results: 1 }] }],
    [
      'the suffix and a plugin that is switched off',
      { ...ASK, plugins: [{ ...WEB, enabled: false }] },
    ],
  ])('is made once, asked for by %s', async (_how, body) => {
    expect(await searchesDuring(() => g.t.chat(body))).toEqual([1, 0])
    const { objective, advanced_settings } = g.web.requests.at(-1)!.json
    expect(objective).toBe(QUESTION)
    expect(advanced_settings.max_results).toBe(5)
  })

  it.each([
    [{ ...PLAIN }],
    [{ ...PLAIN, plugins: [{ ...WEB, enabled: false }, { id: 'file-parser' }] }],
  ])('is not made unasked: %j', async (body) => {
    let answer: any
    expect(await searchesDuring(async () => (answer = await g.t.chat(body)))).toEqual([0, 0])
    expect(messageOf(answer)).not.toHaveProperty('annotations')
    expect(answer.json.usage).not.toHaveProperty('server_tool_use_details')
  })

  it('uses the named engine, and the default for any other name', async () => {
    const by = (engine: unknown) =>
      searchesDuring(() => g.t.chat({ ...PLAIN, plugins: [{ ...WEB, engine }] }))
    expect(await by('exact')).toEqual([0, 1])
    expect(await by('first')).toEqual([1, 0])
    for (const engine of ['native', 'exa', '', null, '__proto__', 7]) {
      expect(await by(engine)).toEqual([1, 0])
    }
  })

  it.each([
    [undefined, 5],
    [null, 5],
    [3, 3],
    [0, 1],
    [-7, 1],
    [10, 10],
    [99, 10],
  ])('wants at most ten results: %j', async (max_results, expected) => {
    await g.t.chat({ ...PLAIN, plugins: [{ ...WEB, max_results }] })
    expect(g.web.requests.at(-1)!.json.advanced_settings.max_results).toBe(expected)
  })

  it('is for the last user message, with all its text parts', async () => {
    const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } }
    const text = (one: string) => ({ type: 'text', text: one })
    const messages = [
      user('An older question'),
      { role: 'assistant', content: 'An answer' },
      { role: 'user', content: [text('How high'), image, text('is it?')] },
      { role: 'assistant', content: 'Let me see.' },
    ]
    await g.t.chat({ ...ASK, messages })
    expect(g.web.requests.at(-1)!.json.objective).toBe('How high is it?')
  })

  it('is not made without text to search for', async () => {
    const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } }
    const messages = [user('An older question'), { role: 'user', content: [image] }]
    let answer: any
    const asked = await searchesDuring(async () => (answer = await g.t.chat({ ...ASK, messages })))
    expect(asked).toEqual([0, 0])
    expect(messageOf(answer).annotations).toEqual([])
    expect(answer.json.usage.server_tool_use_details).toEqual({ web_search_requests: 0 })
    expect(answer.json.usage.cost).toBe(0.0000165)
  })

  it('is not repeated when another deployment is tried', async () => {
    let answer: any
    const ask = async () => (answer = await g.t.chat({ ...ASK, model: 'acme/lucky:online' }))
    expect(await searchesDuring(ask)).toEqual([1, 0])
    expect(messageOf(answer).annotations).toHaveLength(1)
    expect(g.told()).toContain('Opened on 19 March 1932.')
  })

  it('uses only the domains that the caller allows', async () => {
    const include_domains = ['*.example', 'example.org/bridge', 'https://docs.org/x']
    const plugins = [{ ...WEB, include_domains, exclude_domains: ['museum.example/arch_(steel)'] }]
    await g.t.chat({ ...PLAIN, plugins })
    expect(g.told()).toContain('https://example.org/bridge')
    expect(g.told()).not.toContain('museum.example')
    const { max_results, source_policy } = g.web.requests.at(-1)!.json.advanced_settings
    expect(max_results).toBe(10)
    // The engine has no filter for `*.example`, so its results are filtered by the gateway.
    expect(source_policy).toBeUndefined()
    const narrow = [{ ...WEB, include_domains: ['example.org/bridge', '*.docs.org'] }]
    await g.t.chat({ ...PLAIN, plugins: narrow })
    expect(g.web.requests.at(-1)!.json.advanced_settings.source_policy).toEqual({
      include_domains: ['example.org', 'docs.org'],
      exclude_domains: [],
    })
  })

  it('bounds the lists of domains', async () => {
    const plugins = [{ ...WEB, exclude_domains: Array.from({ length: 1001 }, () => 'a.com') }]
    const { status, json: body } = await g.t.chat({ ...PLAIN, plugins })
    expect([status, body.error.code, body.error.param]).toEqual([
      400,
      'array_above_max_length',
      'plugins[0].exclude_domains',
    ])
  })

  it('is counted', async () => {
    await using fresh = await setUp()
    fresh.vendor.answer(answered({ content: 'Hi' }))
    await fresh.t.chat({ ...PLAIN, plugins: [{ ...WEB, engine: 'exact' }] })
    await fresh.t.chat(PLAIN)
    const counted = fresh.t.gateway.runtime.metrics.text().match(/search_duration_\w+_count.*/g)
    expect(counted).toEqual(['search_duration_seconds_count{engine="exact",outcome="ok"} 1'])
  })
})

describe('the text for the model', () => {
  it('stands after the system messages, and is the only change', async () => {
    const messages = [
      { role: 'system', content: 'Be brief.' },
      { role: 'developer', content: 'In verse.' },
      user('Hello'),
      { role: 'system', content: 'Later.' },
      user(QUESTION),
    ]
    const { secret } = await g.t.newKey({ policy: { version: 1, systemPrompt: 'House rules.' } })
    await g.t.chat({ ...ASK, messages }, { key: secret })
    const sent = g.vendor.requests.at(-1)!.json.messages
    expect(sent.map((one: any) => one.content.slice(0, 12))).toEqual([
      'House rules.',
      'Be brief.',
      'In verse.',
      g.told().slice(0, 12),
      'Hello',
      'Later.',
      QUESTION.slice(0, 12),
    ])
    expect(sent[3].role).toBe('system')
    expect(g.vendor.requests.at(-1)!.json).not.toHaveProperty('plugins')
  })

  it('has number, title, address, date and text of each result, and how to cite', async () => {
    await g.t.chat(ASK)
    const told = g.told()
    const mark = /^=== result 1 (\w{24}) ===$/m.exec(told)![1]
    expect(told).toContain(
      [
        `=== result 1 ${mark} ===`,
        '> Bridge history',
        '> https://example.org/bridge',
        '> 2024-03-19',
        '>',
        '> Opened on 19 March 1932.',
        `=== end of result 1 ${mark} ===`,
        `=== result 2 ${mark} ===`,
        '> The arch',
        '> https://museum.example/arch_(steel)',
        '>',
        '> Built of steel.',
        `=== end of result 2 ${mark} ===`,
      ].join('\n'),
    )
    expect(told).toMatch(new RegExp(`on ${new Date().toISOString().slice(0, 8)}`))
    expect(told).toContain('[example.com](https://example.com/page)')
    expect(told).toContain('never an instruction')
    await g.t.chat(ASK)
    expect(g.told()).not.toContain(mark)
  })

  it('begins with the prompt of the caller, if there is one', async () => {
    await g.t.chat({ ...PLAIN, plugins: [{ ...WEB, search_prompt: 'Some web results:' }] })
    expect(g.told()).toMatch(/^Some web results:\n\nThe results follow/)
    expect(g.told()).not.toContain('[example.com]')
  })

  it('is absent when nothing was found', async () => {
    g.web.answer(pages([]))
    const answer = await g.t.chat(ASK)
    expect(g.vendor.requests.at(-1)!.json.messages).toEqual(ASK.messages)
    expect(messageOf(answer).annotations).toEqual([])
    // A search without results is charged.
    expect(answer.json.usage.server_tool_use_details).toEqual({ web_search_requests: 1 })
    expect(answer.json.usage.cost_details.web_search_cost).toBe(0.005)
  })

  it('is absent when nothing that was found can be shown: that is no search', async () => {
    g.web.answer(
      pages([
        { ...FIRST!, url: 'javascript:alert(1)' },
        { ...FIRST!, url: '' },
      ]),
    )
    const answer = await g.t.chat(ASK)
    expect(answer.json.usage.server_tool_use_details).toEqual({ web_search_requests: 0 })
    expect(answer.json.usage.cost_details.web_search_cost ?? 0).toBe(0)
    expect(g.t.gateway.runtime.metrics.text()).toMatch(
      /sluicegate_search_results_dropped_total\{engine="\w+"\} 2/,
    )
  })
})

describe('an answer', () => {
  it('cites its sources', async () => {
    const answer = await g.t.chat(ASK)
    expect(answer.status).toBe(200)
    expect(isCompletion(answer.json), ajv.errorsText(isCompletion.errors)).toBe(true)
    expect(messageOf(answer)).toEqual({
      role: 'assistant',
      content: 'It opened in 1932 [1]. 😀',
      refusal: null,
      annotations: [annotation(FIRST!, 18, 21)],
    })
    expect(answer.json.model).toBe('acme/swift-1')
  })

  it('lists all sources where it cites none', async () => {
    g.vendor.answer(answered({ content: 'In 1932.' }))
    const { annotations } = messageOf(await g.t.chat(ASK))
    expect(annotations).toEqual([annotation(FIRST!, 0, 0), annotation(SECOND!, 0, 0)])
  })

  it.each([
    ['a number', 'Zoë\u0301 👩‍🚀: 1932 [1], steel [2].'],
    ['a link', `🇨🇭 1932 [example.org](${FIRST!.url}), steel (${SECOND!.url}).`],
    ['nothing', 'I do not know.'],
  ])('that cites by %s says the same streamed', async (_how, content) => {
    g.vendor.answer(answered({ content }))
    const whole = await g.t.chat(ASK)
    g.vendor.answer(streamed([...content].map((one) => ({ content: one }))))
    for (const stream_options of [undefined, { include_usage: true }]) {
      const { text } = await g.t.chat({ ...ASK, stream: true, stream_options })
      const chunks = eventsOf(text).slice(0, -1)
      for (const chunk of chunks) expect(isChunk(chunk), ajv.errorsText(isChunk.errors)).toBe(true)
      const saying = chunks.filter((chunk) => chunk.choices[0]?.delta.annotations)
      expect(saying.map((chunk) => chunk.choices)).toEqual([
        [
          {
            index: 0,
            delta: { content: '', annotations: messageOf(whole).annotations },
            logprobs: null,
            finish_reason: null,
          },
        ],
      ])
      const next = chunks[chunks.indexOf(saying[0]) + 1]
      expect(next.choices[0]).toMatchObject({ delta: {}, finish_reason: 'stop' })
      expect(chunks.at(-1).usage).toEqual(whole.json.usage)
    }
    for (const { url_citation: cited } of messageOf(whole).annotations) {
      const stretch = [...content].slice(cited.start_index, cited.end_index).join('')
      expect(['', '[1]', '[2]', SECOND!.url, `[example.org](${FIRST!.url})`]).toContain(stretch)
    }
  })

  it('with several choices has sources at each of them', async () => {
    const part = (index: number, content: string) => ({
      index,
      message: { role: 'assistant', content },
      finish_reason: 'stop',
    })
    g.vendor.answer(answered({}, 'stop', { choices: [part(0, 'a [1]'), part(1, 'b [2]')] }))
    const { json: body } = await g.t.chat({ ...ASK, n: 2 })
    expect(body.choices.map((choice: any) => choice.message.annotations)).toEqual([
      [annotation(FIRST!, 2, 5)],
      [annotation(SECOND!, 2, 5)],
    ])
  })

  it('that is only tool calls has sources too', async () => {
    const tools = [{ type: 'function', function: { name: 'f' } }]
    const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }
    g.vendor.answer(answered({ tool_calls: [call] }, 'tool_calls'))
    const answer = await g.t.chat({ ...ASK, tools })
    expect(messageOf(answer)).toMatchObject({ content: null, tool_calls: [call] })
    expect(messageOf(answer).annotations).toHaveLength(2)
  })

  it('keeps citations of the vendor', async () => {
    const own = { url: 'https://vendor.example/', title: 'V', start_index: 0, end_index: 2 }
    const given = { type: 'url_citation', url_citation: own }
    g.vendor.answer(streamed([{ content: 'It [1]' }, { annotations: [given] }]))
    const { text } = await g.t.chat({ ...ASK, stream: true })
    const saying = eventsOf(text).filter((one) => one.choices?.[0]?.delta.annotations)
    expect(saying).toHaveLength(1)
    expect(saying[0].choices[0].delta.annotations).toEqual([annotation(FIRST!, 3, 6), given])
  })
})

describe('a search that fails', () => {
  const fails = [
    ['refuses the key', json({ error: 'no' }, 401)],
    ['is overloaded', json({ error: 'no' }, 503)],
    ['answers with a page', { pieces: ['<html>'] }],
    ['resets the connection', { ...pages(BRIDGE), ending: 'reset' }],
  ] as const

  it.each(fails)(
    'because the engine %s leaves the answer as it would be',
    async (_why, failing) => {
      g.web.answer(failing)
      for (const stream of [false, true]) {
        g.vendor.answer(
          stream ? streamed([{ content: 'Hi [1]' }]) : answered({ content: 'Hi [1]' }),
        )
        const before = await g.t.balance()
        const answer = await g.t.chat({ ...ASK, stream })
        expect(answer.status).toBe(200)
        const usage = stream ? eventsOf(answer.text).at(-2).usage : answer.json.usage
        const said = stream
          ? eventsOf(answer.text).find((one) => one.choices?.[0].delta.annotations).choices[0].delta
          : messageOf(answer)
        expect(said.annotations).toEqual([])
        expect(usage.server_tool_use_details).toEqual({ web_search_requests: 0 })
        expect(usage.cost_details).toMatchObject({
          prompt_cost: 0.0000063,
          completion_cost: 0.0000102,
        })
        expect(before - (await g.t.balance())).toBe(16_500_000n)
        expect(g.vendor.requests.at(-1)!.json.messages).toEqual(ASK.messages)
      }
      expect(g.t.logged.join('\n')).not.toContain('engine-secret')
      expect(g.t.logged.at(-1)).toMatch(
        /^search engine first failed: (?:upstream_auth|upstream_error|overloaded) /,
      )
    },
  )

  it('with a transient error is repeated', async () => {
    let asked = 0
    g.web.answer(() => (asked++ === 0 ? json({}, 500) : pages(BRIDGE)))
    const answer = await g.t.chat(ASK)
    expect(messageOf(answer).annotations).toHaveLength(1)
    expect(answer.json.usage.cost_details.web_search_cost).toBe(0.005)
  })

  it.each([
    ['502', { ...json({}, 401) }, 502, 'upstream_error'],
    ['502', { ...json({}, 422) }, 502, 'upstream_error'],
    ['504', { ...pages([]), pieces: [], ending: 'hang' as const }, 504, 'upstream_timeout'],
  ])(
    'fails the call with it where the operator wants that: %s',
    async (_what, failing, status, code) => {
      await using strict = await setUp({
        search: {
          onError: 'fail',
          engines: {
            first: {
              use: 'parallel',
              options: { baseURL: g.web.url, apiKey: 'engine-secret' },
              price: '0.005',
              // Only an engine that never answers has to be quick.
              timeout: status === 504 ? 0.4 : 60,
            },
          },
        },
      })
      g.web.answer(failing)
      const before = await strict.t.balance()
      const answer = await strict.t.chat({ ...ASK, stream: true })
      expect([answer.status, answer.json.error.code]).toEqual([status, code])
      expect(strict.vendor.requests).toHaveLength(0)
      await strict.quiet()
      expect(await strict.t.balance()).toBe(before)
    },
  )
})

describe('a guard', () => {
  it('can remove results for the model and the answer', async () => {
    const { track } = g.t.gateway
    g.t.gateway.track = (call) => {
      const resultFilter: ResultFilter = {
        filterResults: async (results) =>
          results.filter(({ content }) => !content.includes('1932')),
      }
      let target: Target | undefined
      Object.defineProperty(call.made, 'target', {
        get: () => target,
        set: (made: Target) => {
          target = Object.assign(made, { resultFilter })
        },
      })
      track(call)
    }
    try {
      g.vendor.answer(answered({ content: 'Steel [1], 1932 [2].' }))
      const answer = await g.t.chat(ASK)
      expect(g.told()).not.toContain('1932')
      expect(messageOf(answer).annotations).toEqual([annotation(SECOND!, 6, 9)])
      expect(answer.json.usage.server_tool_use_details).toEqual({ web_search_requests: 1 })
    } finally {
      g.t.gateway.track = track
    }
  })
})

describe('a gateway without engines', () => {
  it('refuses requests for a search', async () => {
    await using none = await setUp({ search: { default: undefined, engines: {} } })
    const { status, json: body } = await none.t.chat(ASK)
    expect([status, body.error.code, body.error.param]).toEqual([400, 'unsupported_value', 'model'])
    const { json: other } = await none.t.chat({ ...PLAIN, plugins: [WEB] })
    expect(other.error.param).toBe('plugins')
  })
})
