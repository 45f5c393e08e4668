/** An absurd usage, however the answer ends, on every state driver: one call fails, and it leaves a trace. */
import {
  afterEach,
  beforeEach,
  describe,
  expect,
  it,
  onTestFinished,
  type TestContext,
} from 'vitest'
import type { UserConfig } from '../../src/config/config.ts'
import { folder } from '../_folder.ts'
import { createTestGateway, eventsOf } from '../_setup.ts'
import { hasRedis, NOT_INSTALLED, RedisServer } from '../state/redis/_redis.ts'
import { events, json, startUpstream, type FakeResponse } from '../upstream.ts'

const TOKEN = 'admin-token'
const USAGE = { prompt_tokens: 1e300, completion_tokens: 1e300 }
const TEXT = 'Hello there, how are you today?'
const SAYS = { choices: [{ index: 0, delta: { content: TEXT } }] }
const STOPS = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }
const REPORTS = { choices: [], usage: USAGE }
const whole = json({
  choices: [{ index: 0, message: { role: 'assistant', content: TEXT }, finish_reason: 'stop' }],
  usage: USAGE,
})
const pieces = [[...whole.pieces].join('')]
const half = [pieces[0]!.slice(0, -3)]

/** A stream in pieces. What arrives together is judged before any of it goes out. */
function streamed(response: FakeResponse): FakeResponse {
  const pieces = [...response.pieces].join('').split(/(?<=\n\n)/)
  return { ...response, pieces, pauseMs: 20 }
}

/** How an answer ends after its absurd usage. */
const ENDINGS: Readonly<Record<string, { stream: FakeResponse; whole: FakeResponse }>> = {
  'a normal end': { stream: events(SAYS, STOPS, REPORTS, '[DONE]'), whole },
  'an error event': {
    stream: events(SAYS, REPORTS, { error: { message: 'boom' } }),
    whole: json({ error: { message: 'boom' }, usage: USAGE }, 500),
  },
  'a cut': {
    stream: { ...events(SAYS, REPORTS), ending: 'cut' },
    whole: { ...whole, pieces: half, ending: 'cut' },
  },
  garbage: {
    stream: events(SAYS, REPORTS, '{"choices":[{"delta":'),
    whole: { ...whole, pieces: [`${half[0]}\u0000`] },
  },
}

const DRIVERS: Readonly<Record<string, (context: TestContext) => Promise<UserConfig['state']>>> = {
  memory: async () => ({ driver: 'memory' }),
  file: async () => ({ driver: 'file', path: await folder({}) }),
  async redis(context) {
    if (!hasRedis()) context.skip(NOT_INSTALLED)
    const server = await RedisServer.start()
    onTestFinished(() => server[Symbol.asyncDispose]())
    return { driver: 'redis', url: server.url, outbox: await folder({}) }
  },
}

const rejections: unknown[] = []
const note = (reason: unknown) => void rejections.push(reason)
beforeEach(() => {
  rejections.length = 0
  process.on('unhandledRejection', note)
  process.on('uncaughtException', note)
})
afterEach(() => {
  process.off('unhandledRejection', note)
  process.off('uncaughtException', note)
})

describe.each(Object.keys(DRIVERS))('an absurd usage, state in %s', (driver) => {
  it('fails its call alone, whatever comes after it', async (context) => {
    const state = await DRIVERS[driver]!(context)
    await using vendor = await startUpstream()
    const options = { baseURL: `${vendor.url}/v1`, apiKey: 'vendor-key' }
    const t = await createTestGateway({
      state,
      admin: { token: TOKEN },
      routing: { cooldown: 0 },
      providers: { vendor: { use: 'openai-compatible', options } },
      models: {
        'acme/swift': {
          pricing: { prompt: '0.000001', completion: '0.000002' },
          capabilities: ['STREAMING'],
          deployments: [{ provider: 'vendor', model: 'swift' }],
        },
      },
    })
    onTestFinished(() => t.close())
    const { ledger } = t.gateway.runtime
    const messages = [{ role: 'user', content: 'Say hello.' }]
    let absurd = 0
    let booked = 0n
    for (const [name, ending] of Object.entries(ENDINGS)) {
      for (const stream of [false, true]) {
        vendor.answer(stream ? streamed(ending.stream) : ending.whole)
        const before = vendor.requests.length
        const answer = await t.chat({ model: 'acme/swift', messages, stream })
        const shown = `${name}: ${answer.status} ${answer.text}`
        await expect.poll(() => t.gateway.running.size).toBe(0)
        await expect.poll(async () => (await ledger.key('acme', t.key.id)).inFlight).toBe(0)
        let row
        for await (row of ledger.usage('acme')) break
        expect(row!.request, shown).toBe(answer.headers['x-request-id'])
        expect(row!.usage!.outcome, shown).toBe('failed')
        if (answer.status === 200) {
          expect(eventsOf(answer.text).at(-1), shown).toBe('[DONE]')
          const { code, usage } = eventsOf(answer.text).at(-2).error
          expect(code, shown).toBe('upstream_error')
          // What was produced is charged, by estimate.
          expect(row!.cost, shown).toBe(BigInt(Math.round(usage.cost * 1e12)))
          expect([usage.completion_tokens, row!.usage!.flags]).toEqual([8, ['estimated']])
          expect(row!.usage!.reported, shown).toMatchObject({
            'vendor/swift': { promptTokens: {} },
          })
          absurd++
        } else {
          expect([answer.status, row!.cost], shown).toEqual([502, 0n])
          if (stream || name === 'a normal end') {
            expect(row!.usage!.reported).toHaveProperty(['vendor/swift'])
            // It is repeated once, as other failures of a vendor are.
            absurd += vendor.requests.length - before
          }
        }
        booked += row!.cost
      }
    }
    const metrics = (await t.ask('GET', '/metrics', { key: TOKEN })).text
    expect(metrics).toContain(`sluicegate_usage_absurd_total{provider="vendor"} ${absurd}\n`)
    expect(absurd).toBeGreaterThanOrEqual(5)
    expect(await t.balance()).toBe(100_000_000_000_000n - booked)
    expect(await ledger.verify()).toEqual([])
    expect(rejections).toEqual([])
  })
})
