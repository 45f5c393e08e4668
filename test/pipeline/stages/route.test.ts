/** Several deployments of one model, some of them sick: what clients see of it, what the sick ones do, and the operator. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import * as v from 'valibot'
import type { UserConfig } from '../../../src/config/config.ts'
import { defineGuard } from '../../../src/plugin.ts'
import { createTestGateway, eventsOf, loaded, type TestGateway } from '../../_setup.ts'
import { guarded } from '../../guard/_setup.ts'
import {
  events,
  json,
  startUpstream,
  type FakeResponse,
  type FakeUpstream,
  type ReceivedRequest,
} from '../../upstream.ts'

/** The torture run sets more. */
const CALLS = Number(process.env.FAILOVER_CALLS ?? 40)

const TOKEN = 'admin-token'
const MESSAGES = [{ role: 'user', content: 'Hello there' }]
const body = { model: 'acme/swift', messages: MESSAGES }
const COOLDOWN_MS = 30_000
const RETRY_AFTER_MS = 20_000

const realNow = performance.now.bind(performance)
/** ms that the clock is ahead of the real one. */
let aheadMs = 0
beforeEach(() => {
  aheadMs = 0
  vi.spyOn(performance, 'now').mockImplementation(() => realNow() + aheadMs)
})
afterEach(() => {
  vi.restoreAllMocks()
})

/** Stops the clock, which only {@link aheadMs} moves from now on: calls may take as long as they take. */
function stopClock(): void {
  const now = realNow()
  vi.spyOn(performance, 'now').mockImplementation(() => now + aheadMs)
}

const says = (content: string, finish_reason: string | null = null) => ({
  choices: [{ index: 0, delta: { content }, finish_reason }],
})
const usage = { prompt_tokens: 3, completion_tokens: 2 }
const FINE = (request: ReceivedRequest): FakeResponse => {
  if (request.json.stream) return events(says('Fine.', 'stop'), { choices: [], usage }, '[DONE]')
  const message = { role: 'assistant', content: 'Fine.' }
  return json({ choices: [{ index: 0, message, finish_reason: 'stop' }], usage })
}
const BROKEN = json({ error: { message: 'boom' } }, 500)
const LIMITED = json({ error: { message: 'slow down' } }, 429, {
  'retry-after': String(RETRY_AFTER_MS / 1000),
})
const REFUSED = json({ error: { message: 'Incorrect API key: vendor-key-a' } }, 401)

interface Vendor {
  readonly answer: FakeResponse | ((request: ReceivedRequest) => FakeResponse)
  readonly priority?: number
  readonly timeout?: number
  readonly firstPartTimeout?: number
  readonly idleTimeout?: number
}

/** A gateway before vendors that are named like their providers, one deployment each. */
async function setUp<const Name extends string>(
  vendors: Readonly<Record<Name, Vendor>>,
  options: { readonly provider?: object; readonly quirks?: string } = {},
) {
  const upstreams = {} as Record<Name, FakeUpstream>
  for (const name of Object.keys(vendors) as Name[]) upstreams[name] = await startUpstream()
  const config: UserConfig = {
    admin: { token: TOKEN },
    providers: Object.fromEntries(
      (Object.keys(vendors) as Name[]).map((name) => [
        name,
        {
          use: 'openai-compatible',
          options: {
            baseURL: `${upstreams[name].url}/v1`,
            apiKey: `vendor-key-${name}`,
            ...(options.quirks ? { quirks: options.quirks } : {}),
          },
          ...options.provider,
        },
      ]),
    ),
    models: {
      'acme/swift': {
        pricing: { prompt: '0.000001', completion: '0.000002' },
        capabilities: ['STREAMING', 'REASONING'],
        deployments: (Object.keys(vendors) as Name[]).map((name) => {
          const { answer, ...settings } = vendors[name]
          upstreams[name].answer(answer)
          return { provider: name, model: 'swift', ...settings }
        }),
      },
    },
  }
  const t = await createTestGateway(config)
  const { secret } = await t.newKey({ rpm: 100_000, concurrency: 100 })
  return {
    t,
    config,
    ...upstreams,
    ask: (more: object = {}) => t.chat({ ...body, ...more }, { key: secret }),
    /** Health by provider. */
    async health(): Promise<Record<Name, any>> {
      const { data } = (await t.ask('GET', '/admin/models', { key: TOKEN })).json
      return Object.fromEntries(
        data[0].deployments.map((one: any) => [one.provider, one.health]),
      ) as Record<Name, any>
    },
    async [Symbol.asyncDispose]() {
      await t.close()
      for (const upstream of Object.values<FakeUpstream>(upstreams)) await upstream.close()
    },
  }
}

/** Makes `count` calls, twenty at a time. It fails when a client sees anything but an answer. */
async function expectFine(ask: (more: object) => ReturnType<TestGateway['chat']>, count: number) {
  let left = count
  const worker = async () => {
    while (left-- > 0) {
      const answer = await ask({ stream: left % 2 === 0 })
      expect(answer.status).toBe(200)
      expect(answer.text).toContain('Fine.')
      expect(answer.text).not.toContain('"error"')
    }
  }
  await Promise.all(Array.from({ length: 20 }, worker))
}

describe('one of three deployments is well', () => {
  it('all calls are answered, the sick ones are probed, and noticed when they recover', async () => {
    stopClock()
    await using s = await setUp({
      broken: { answer: BROKEN },
      limited: { answer: LIMITED },
      fine: { answer: FINE },
    })
    const hits = () => [s.broken.requests.length, s.limited.requests.length]
    // The gateway learns: three failures of one, one of the other.
    for (let calls = 0; hits().join() !== '3,1'; calls++) {
      expect(calls).toBeLessThan(100)
      expect((await s.ask()).status).toBe(200)
    }
    expect(await s.health()).toMatchObject({
      broken: { state: 'cooldown', failures: 3, last_failure: 'upstream_error' },
      limited: { state: 'cooldown', failures: 1, last_failure: 'upstream_rate' },
      fine: { state: 'healthy', failures: 0 },
    })
    await expectFine(s.ask, CALLS)
    expect(hits()).toEqual([3, 1])

    aheadMs += RETRY_AFTER_MS
    await expectFine(s.ask, 60)
    expect(hits()).toEqual([3, 2])
    aheadMs += COOLDOWN_MS - RETRY_AFTER_MS
    await expectFine(s.ask, 60)
    expect(hits()).toEqual([4, 2])
    // The second rest of a deployment is twice as long; a vendor that says how long is taken at its word.
    aheadMs += COOLDOWN_MS
    await expectFine(s.ask, 60)
    expect(hits()).toEqual([4, 3])

    s.broken.answer(FINE)
    s.limited.answer(FINE)
    aheadMs += COOLDOWN_MS
    await expectFine(s.ask, 150)
    const [broken, limited] = hits()
    expect(broken).toBeGreaterThan(20)
    expect(limited).toBeGreaterThan(20)
    const health = await s.health()
    for (const one of [health.broken, health.limited]) {
      expect(one).toMatchObject({
        state: 'healthy',
        failures: 0,
        last_failure: null,
        rests_until: null,
        in_flight: 0,
        latency_ms: expect.any(Number),
      })
    }
    expect(s.t.logged.filter((line) => line.endsWith('broken/swift is well again'))).toHaveLength(1)
  })

  it('while one call probes, the others keep away', async () => {
    await using s = await setUp({
      slow: { answer: LIMITED },
      fine: { answer: FINE, priority: 1 },
    })
    await expectFine(s.ask, 1)
    s.slow.answer({ pieces: [], ending: 'silent' })
    aheadMs += RETRY_AFTER_MS
    const probe = s.ask()
    await expect.poll(() => s.slow.requests.length).toBe(2)
    expect((await s.health()).slow).toMatchObject({ state: 'probing', in_flight: 1 })
    await expectFine(s.ask, 50)
    expect(s.slow.requests.length).toBe(2)
    // The one that waits is not lost either.
    await s.slow.close()
    expect((await probe).json.choices[0].message.content).toBe('Fine.')
  })

  it('vendors that fail in several ways do not limit the gateway', async () => {
    await using s = await setUp({ a: { answer: BROKEN }, b: { answer: LIMITED, priority: 1 } })
    const { status, json: answer } = await s.ask()
    expect([status, answer.error.code]).toEqual([503, 'provider_overloaded'])
    const limited = await s.ask()
    expect(limited.status).toBe(503)
  })

  it('a vendor that limits the gateway says so, in words that clients wait for', async () => {
    await using s = await setUp({ a: { answer: LIMITED } })
    const { status, headers, json: answer } = await s.ask()
    expect(status).toBe(429)
    expect(answer.error).toMatchObject({ type: 'requests', code: 'upstream_rate_limited' })
    expect(answer.error.message).toMatch(
      /limits of your key are not reached\. Try again in \d+s\.$/,
    )
    expect(answer.error.message).not.toMatch(/quota|billing|credit|will reset at/i)
    expect(headers['retry-after']).toBe(String(RETRY_AFTER_MS / 1000))
    expect(headers).not.toHaveProperty('retry-after-ms')
  })

  it('no deployment is healthy: each call asks the one that is due first, and only that', async () => {
    await using s = await setUp({ a: { answer: LIMITED }, b: { answer: REFUSED, priority: 1 } })
    expect((await s.ask()).status).toBe(502)
    const [a, b] = [s.a.requests.length, s.b.requests.length]
    for (let i = 0; i < 10; i++) {
      const answer = await s.ask()
      expect(answer.status).toBe(429)
      expect(answer.headers['retry-after']).toBe(String(RETRY_AFTER_MS / 1000))
    }
    expect([s.a.requests.length - a, s.b.requests.length - b]).toEqual([10, 0])
  })
})

describe('a vendor that does not take our key', () => {
  it('is the operator’s business: others serve, and the client hears nothing of it', async () => {
    await using s = await setUp({ a: { answer: REFUSED }, b: { answer: FINE, priority: 1 } })
    await expectFine(s.ask, 100)
    expect(s.a.requests.length).toBeLessThanOrEqual(20)
    expect((await s.health()).a).toMatchObject({
      state: 'cooldown',
      last_failure: 'upstream_auth',
      vendor_message: expect.any(String),
    })
    const told = s.t.logged.find((line) => line.includes('a/swift failed: upstream_auth'))
    expect(told).toContain('calls avoid it for 30 s')
    expect(s.t.logged.join('\n')).not.toContain('vendor-key')
    const metrics = await s.t.ask('GET', '/metrics', { key: TOKEN })
    expect(metrics.text).toContain('sluicegate_deployment_up{deployment="a/swift"} 0')
    expect(metrics.text).toContain('sluicegate_deployment_up{deployment="b/swift"} 1')
    expect(metrics.text).toMatch(
      /duration_seconds_count\{provider="a",outcome="upstream_auth"\} \d/,
    )

    s.b.answer(REFUSED)
    const answer = await s.ask()
    expect([answer.status, answer.json.error.code]).toEqual([502, 'upstream_error'])
    expect(answer.text).not.toMatch(/key|401/)
  })

  it('is asked again as soon as its settings have changed', async () => {
    await using s = await setUp({ a: { answer: REFUSED }, b: { answer: FINE, priority: 1 } })
    await expectFine(s.ask, 1)
    await s.t.gateway.reload(loaded(s.config))
    await expectFine(s.ask, 1)
    expect(s.a.requests.length).toBe(1)
    s.a.answer(FINE)
    const { a } = s.config.providers as Record<string, any>
    const options = { ...a.options, apiKey: 'vendor-key-anew' }
    const providers = { ...s.config.providers, a: { ...a, options } } as UserConfig['providers']
    await s.t.gateway.reload(loaded({ ...s.config, providers: providers! }))
    await expectFine(s.ask, 1)
    expect(s.a.requests.at(-1)!.headers.authorization).toBe('Bearer vendor-key-anew')
  })
})

describe('the last deployment there is', () => {
  it('is asked once more when it asks for a moment', async () => {
    await using s = await setUp({ a: { answer: FINE } })
    let asked = 0
    s.a.answer((request) =>
      asked++ === 0
        ? json({ error: { message: 'slow down' } }, 429, { 'retry-after-ms': '50' })
        : FINE(request),
    )
    await expectFine(s.ask, 1)
    expect(asked).toBe(2)
  })
})

describe('a call that is not wanted any more', () => {
  it('is no failure of the deployment, and is not made again', async () => {
    const guard = defineGuard({
      name: 'late',
      options: v.strictObject({}),
      setup: () => ({
        enforces: ['deny:code'],
        execution: 'remote',
        async checkInput() {
          await expect.poll(() => s.vendor.requests.length).toBe(1)
          return [{ action: 'block', rule: 'deny:code' }]
        },
      }),
    })
    await using s = await guarded([guard], { overlapInput: true })
    s.vendor.answer({ pieces: [], ending: 'silent' })
    const blocked = await s.ask({ deny: ['code'] })
    expect(blocked.json.choices[0].finish_reason).toBe('content_filter')
    expect(await s.vendor.requests[0]!.aborted).toBe(true)
    await expect.poll(() => s.t.gateway.running.size).toBe(0)
    const { catalog, routing, metrics } = s.t.gateway.runtime
    expect(metrics.text()).not.toContain('outcome="upstream_error"')
    const [deployment] = catalog.get('acme/swift')!.deployments
    expect(routing.healthOf(deployment!).report()).toEqual({
      state: 'healthy',
      failures: 0,
      inFlight: 0,
      isProven: false,
    })
    expect(s.vendor.requests).toHaveLength(1)
    expect(s.t.logged.join('\n')).not.toMatch(/failed|error/i)
  })
})

describe('limits of time', () => {
  it('of a deployment are its own: the next one is asked, a stalled stream breaks off', async () => {
    await using s = await setUp({
      a: { answer: { pieces: [], ending: 'hang' }, firstPartTimeout: 1, timeout: 1 },
      b: { answer: FINE, priority: 1 },
    })
    const answers = await Promise.all([s.ask({ stream: true }), s.ask()])
    expect(answers.map(({ status }) => status)).toEqual([200, 200])
    expect(s.a.requests.length).toBe(2)
    expect((await s.health()).a.last_failure).toBe('timeout')
    const hanging: FakeResponse = { ...events(says('one ')), ending: 'hang' }
    await using t = await setUp({ a: { answer: hanging, idleTimeout: 1 } })
    const stalled = await t.ask({ stream: true })
    expect(eventsOf(stalled.text).at(-2).error.code).toBe('upstream_timeout')
  })

  it('of a deployment may be longer than its provider’s', async () => {
    await using s = await setUp(
      {
        a: {
          answer: (request) => ({ ...FINE(request), pauseMs: 1500 }),
          timeout: 20,
          idleTimeout: 20,
        },
      },
      { provider: { timeout: 0.2, idleTimeout: 0.2 } },
    )
    const answers = await Promise.all([s.ask(), s.ask({ stream: true })])
    for (const answer of answers) expect(answer.text).toContain('Fine.')
    expect(s.a.requests.length).toBe(2)
  })
})

describe('a conversation with signed thoughts', () => {
  it.each([false, true])(
    'goes on where they were made, without a session (stream: %s)',
    async (stream) => {
      const thinking = (request: ReceivedRequest): FakeResponse => {
        const sealed = {
          type: 'reasoning.encrypted',
          data: `made at ${request.headers.host}`,
          index: 0,
        }
        const message = { role: 'assistant', content: 'Fine.', reasoning_details: [sealed] }
        if (!request.json.stream) {
          return json({ choices: [{ index: 0, message, finish_reason: 'stop' }], usage })
        }
        const delta = { index: 0, delta: message, finish_reason: null }
        return events({ choices: [delta] }, says('', 'stop'), { choices: [], usage }, '[DONE]')
      }
      await using s = await setUp(
        { a: { answer: thinking }, b: { answer: thinking }, c: { answer: thinking } },
        { quirks: 'openrouter' },
      )
      const ask = async (messages: readonly object[]) => {
        const answer = await s.ask({ messages, stream })
        const details = stream
          ? eventsOf(answer.text).flatMap((one) => one.choices?.[0]?.delta?.reasoning_details ?? [])
          : answer.json.choices[0].message.reasoning_details
        return { role: 'assistant', content: 'Fine.', reasoning_details: details }
      }
      const makers = new Set<string>()
      for (let i = 0; i < 30; i++) {
        const first = await ask(MESSAGES)
        const second = await ask([...MESSAGES, first, ...MESSAGES])
        expect(second.reasoning_details[0].data).toBe(first.reasoning_details[0].data)
        makers.add(first.reasoning_details[0].data)
      }
      // Not for want of others.
      expect(makers.size).toBe(3)
    },
  )
})
