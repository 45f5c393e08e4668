/** Vendors that send a whole answer and do not end its stream: what the client gets, what it costs, what becomes of the vendor. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { parsePico } from '../../../src/money/money.ts'
import { createTestGateway, eventsOf } from '../../_setup.ts'
import { eventually } from '../../_wait.ts'
import { events, startUpstream, type FakeResponse } from '../../upstream.ts'

const MESSAGES = [{ role: 'user', content: 'Hello there' }]
const usage = { prompt_tokens: 3, completion_tokens: 2 }
const COST = parsePico('0.000007')

const says = (content: string, finish_reason: string | null = null, index = 0) => ({
  choices: [{ index, delta: { content }, finish_reason }],
})
const hanging = (...payloads: readonly unknown[]): FakeResponse => ({
  ...events(...payloads),
  ending: 'hang',
})
/** One piece for each payload. */
const slowly = (...payloads: readonly unknown[]): FakeResponse => ({
  ...events(),
  pieces: payloads.flatMap((one) => [...events(one).pieces]),
  pauseMs: 600,
})

/** A gateway before one vendor with this answer. @param idleTimeout seconds of silence that fail a call */
async function setUp(answer: FakeResponse, idleTimeout: number) {
  const upstream = await startUpstream(answer)
  const t = await createTestGateway({
    providers: {
      vendor: {
        use: 'openai-compatible',
        options: { baseURL: `${upstream.url}/v1`, apiKey: 'vendor-key' },
      },
    },
    models: {
      'acme/swift': {
        pricing: { prompt: '0.000001', completion: '0.000002' },
        capabilities: ['STREAMING', 'TOOLS', 'CHOICES'],
        deployments: [{ provider: 'vendor', model: 'swift', idleTimeout }],
      },
    },
  })
  const before = await t.balance()
  return {
    t,
    upstream,
    ask: (more: object = {}, path = '/v1/chat/completions') => {
      const body = { model: 'acme/swift', messages: MESSAGES, stream: true, ...more }
      return t.ask('POST', path, { body })
    },
    spent: async () => before - (await t.balance()),
    async [Symbol.asyncDispose]() {
      await t.close()
      await upstream.close()
    },
  }
}

const codesIn = (text: string) => eventsOf(text).flatMap(({ error }) => (error ? [error.code] : []))

describe('an answer with finish reason and usage ends normally when its vendor is silent', () => {
  it.each<[string, FakeResponse]>([
    ['in one chunk', hanging({ ...says('Fine.', 'stop'), usage })],
    ['in two', hanging(says('Fine.', 'stop'), { choices: [], usage })],
    [
      'with keep-alives',
      {
        ...events(),
        pieces: (function* () {
          yield* events({ ...says('Fine.', 'stop'), usage }).pieces
          for (;;) yield ': keep-alive\n\n'
        })(),
        pauseMs: 20,
      },
    ],
  ])('%s', async (_what, answer) => {
    await using s = await setUp(answer, 3)
    const { text } = await s.ask({ stream_options: { include_usage: true } })
    const [last, end] = eventsOf(text).slice(-2)
    expect(text).toContain('"content":"Fine."')
    expect(text.match(/"finish_reason":"stop"/g)).toHaveLength(1)
    expect([end, codesIn(text), last.usage.cost]).toEqual(['[DONE]', [], 0.000007])
    expect(last.usage).toMatchObject(usage)
    expect(await s.spent()).toBe(COST)
    expect(s.upstream.requests).toHaveLength(1)
    // The vendor is let go.
    expect(await s.upstream.requests[0]!.aborted).toBe(true)
    await eventually(() => expect(s.t.gateway.running.size).toBe(0))
    expect(s.t.logged.join('\n')).not.toMatch(/failed|error/i)
  })

  it.each([
    ['/v1/messages', { max_tokens: 100 }, 'event: message_stop'],
    ['/v1/responses', { messages: undefined, input: 'Hello there' }, 'event: response.completed'],
  ])('for a client of %s', async (path, body, end) => {
    await using s = await setUp(hanging(says('Fine.', 'stop'), { choices: [], usage }), 3)
    const { text } = await s.ask(body, path)
    expect(text).toContain('Fine.')
    expect(text).toContain(end)
    expect(text).not.toContain('upstream_timeout')
    expect(await s.spent()).toBe(COST)
  })

  it('with everything that waits for the end', async () => {
    const call = (index: number) => ({
      index,
      id: `call_${index}`,
      type: 'function',
      function: { name: `tool_${index}`, arguments: '{}' },
    })
    const delta = { tool_calls: [call(0), call(1)] }
    const answer = { choices: [{ index: 0, delta, finish_reason: 'tool_calls' }], usage }
    await using s = await setUp(hanging(answer), 3)
    const tool = { type: 'function', function: { name: 'tool_0', parameters: { type: 'object' } } }
    const { text } = await s.ask({ tools: [tool] })
    for (const name of ['tool_0', 'tool_1']) expect(text).toContain(name)
    expect(codesIn(text)).toEqual([])
  })

  it('long before silence fails a call', async () => {
    await using s = await setUp(hanging({ ...says('Fine.', 'stop'), usage }), 60)
    const began = performance.now()
    let aheadMs = 0
    vi.spyOn(performance, 'now').mockImplementation(() => began + aheadMs)
    onTestFinished(() => void vi.restoreAllMocks())
    const answer = s.ask()
    await eventually(() => expect(s.upstream.requests[0]?.takenBytes).toBeGreaterThan(0))
    for (let ended; !ended; aheadMs += 100) ended = await Promise.race([answer, sleep(10)])
    expect(codesIn((await answer).text)).toEqual([])
    expect(aheadMs).toBeLessThan(60_000)
  })
})

it('what comes after finish reason and usage is part of the answer', async () => {
  const later = { prompt_tokens: 3, completion_tokens: 4 }
  const pieces = [
    { ...says('Fine', 'stop'), usage },
    says(' weather.'),
    { choices: [], usage: later },
  ]
  await using s = await setUp(slowly(...pieces, '[DONE]'), 60)
  const { text } = await s.ask()
  expect(text).toContain(' weather.')
  expect(codesIn(text)).toEqual([])
  expect(await s.spent()).toBe(parsePico('0.000011'))
})

it.each<[string, FakeResponse, object]>([
  ['a usage', hanging(says('Fine.', 'stop')), {}],
  ['a finish reason', hanging(says('Fine.'), { choices: [], usage }), {}],
  ['the end of a choice', hanging({ ...says('Fine.', 'stop'), usage }), { n: 2 }],
])('silence without %s fails the call', async (_what, answer, more) => {
  await using s = await setUp(answer, 0.5)
  expect(codesIn((await s.ask(more)).text)).toEqual(['upstream_timeout'])
})
