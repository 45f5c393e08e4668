import { createConsola } from 'consola'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import * as v from 'valibot'
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { ConfigError } from '../../src/errors/errors.ts'
import { createGateway } from '../../src/gateway/gateway.ts'
import { defineProvider, type Provider } from '../../src/plugin.ts'
import { folder } from '../_folder.ts'
import { definePlugin } from '../_plugin.ts'
import { MOCK_CONFIG, createTestGateway, eventsOf, hello, loaded } from '../_setup.ts'
import { collect, open as openEmbedded } from '../state/sqlite/_engine.ts'
import { events, startUpstream } from '../upstream.ts'
import { eventually } from '../_wait.ts'

/** The torture run sets more. */
const RELOADS = Number(process.env.RELOADS ?? 10)

const echo = MOCK_CONFIG.models['mock/echo']
const says = (content: string, finish_reason: string | null = null) => ({
  choices: [{ index: 0, delta: { content }, finish_reason }],
})

/** Lets the faked time pass until a promise is settled. */
async function whileTimePasses(promise: Promise<unknown>): Promise<void> {
  const settled = promise.then(() => true)
  while (!(await Promise.race([settled, turn()]))) await vi.advanceTimersByTimeAsync(1000)
}

describe('a new configuration', () => {
  it('serves new calls at once and lets running ones finish with the old one', async () => {
    const closed: string[] = []
    const plugin = (name: string) =>
      definePlugin(name, {
        async *chat(signal) {
          yield says(`${name} `)
          await gate.promise
          signal.throwIfAborted()
          yield says('done', 'stop')
        },
        close: () => void closed.push(name),
      })
    const gate = Promise.withResolvers<void>()
    const config = (name: string) => ({
      providers: { p: { use: plugin(name) } },
      models: { 'mock/echo': { ...echo, deployments: [{ provider: 'p', model: 'm' }] } },
    })
    await using t = await createTestGateway(config('old'))
    const running = t.chat({ ...hello, stream: true })
    await expect.poll(() => t.gateway.running.size).toBe(1)
    await t.gateway.reload(loaded(config('new')))
    const next = t.chat({ ...hello, stream: true })
    await expect.poll(() => t.gateway.running.size).toBe(2)
    expect(closed).toEqual([])
    gate.resolve()
    expect((await running).text).toContain('old ')
    expect((await next).text).toContain('new ')
    expect(closed).toEqual(['old'])
  })

  it('is left as it was read, so that a file with the same values is no change', async () => {
    const read = loaded({})
    const before = structuredClone(read.config)
    const gateway = await createGateway(read, { adminToken: true })
    try {
      expect(gateway.runtime.config.admin.token).toHaveLength(40)
      expect(read.config).toEqual(before)
      const next = loaded({})
      await gateway.reload(next)
      expect(gateway.runtime.config.admin.token).toHaveLength(40)
      expect(next.config).toEqual(before)
    } finally {
      await gateway.close()
    }
  })

  it('waits for no plugin of an old one, however many hang', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const never = new Promise<never>(() => {})
    const answers = async function* () {
      yield says('Fine.', 'stop')
    }
    const hanging = (setup: () => Provider | Promise<Provider>) => {
      const use = defineProvider({ name: 'hanging', options: v.looseObject({}), setup })
      return loaded({
        providers: { p: { use } },
        models: { 'mock/echo': { ...echo, deployments: [{ provider: 'p', model: 'm' }] } },
      })
    }
    const unclosable = hanging(() => ({ chat: async () => answers(), close: () => never }))
    const unready = hanging(() => never)
    const t = await createTestGateway()
    for (let i = 0; i < RELOADS; i++) {
      // No timer fires here: whatever waited for one would never end.
      await t.gateway.reload(unclosable)
      await whileTimePasses(
        expect(t.gateway.reload(unready)).rejects.toThrow('more than 10 seconds'),
      )
      expect((await t.chat(hello)).status).toBe(200)
    }
    await whileTimePasses(t.close())
    const left = 'providers.p (plugin "hanging") could not be closed'
    expect(t.logged.filter((line) => line.includes(left))).toHaveLength(RELOADS)
  })

  it('that is broken changes nothing', async () => {
    await using t = await createTestGateway()
    const broken = loaded({ ...MOCK_CONFIG, providers: { mock: { use: 'no-such-plugin' } } })
    await expect(t.gateway.reload(broken)).rejects.toThrow(ConfigError)
    expect((await t.chat(hello)).status).toBe(200)
  })

  it('brings new default limits to keys that have none of their own', async () => {
    await using t = await createTestGateway({ ...MOCK_CONFIG, defaults: { limits: { rpm: 5 } } })
    expect((await t.chat(hello)).headers['x-ratelimit-limit-requests']).toBe('5')
    await t.gateway.reload(loaded({ ...MOCK_CONFIG, defaults: { limits: { rpm: 9 } } }))
    expect((await t.chat(hello)).headers['x-ratelimit-limit-requests']).toBe('9')
  })

  it('says what needs a restart', async () => {
    await using t = await createTestGateway()
    await t.gateway.reload(loaded({ ...MOCK_CONFIG, server: { port: 9999 } }))
    expect(t.logged.join('\n')).toContain('server.port takes effect after a restart')
  })
})

describe('a clock that is set back', () => {
  afterEach(() => vi.useRealTimers())

  it('keeps no lease from being renewed', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'Date', 'performance'] })
    const gate = Promise.withResolvers<void>()
    const plugin = definePlugin('slow', {
      async *chat() {
        await gate.promise
        yield says('done', 'stop')
      },
    })
    await using t = await createTestGateway({
      providers: { p: { use: plugin } },
      models: { 'mock/echo': { ...echo, deployments: [{ provider: 'p', model: 'm' }] } },
    })
    const running = t.chat(hello)
    await eventually(() => expect([...t.gateway.running][0]?.made.admission?.entered).toBeDefined())
    const renew = vi.spyOn(t.gateway.runtime.ledger, 'renew')
    vi.setSystemTime(Date.now() - 3_600_000)
    vi.advanceTimersByTime(25_000)
    gate.resolve()
    expect((await running).status).toBe(200)
    expect(renew).toHaveBeenCalledTimes(2)
  })
})

describe('a configuration that cannot be used', () => {
  it('names every provider and deployment that is wrong', async () => {
    const config = loaded({
      providers: { mock: { use: 'mock', options: { paceMs: -1 } }, other: { use: 'mokc' } },
      models: { 'mock/echo': echo },
    })
    const error = await createGateway(config).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(ConfigError)
    const paths = (error as ConfigError).issues.map((issue) => issue.path)
    expect(paths).toContain('providers.mock.options.paceMs')
    expect(paths).toContain('providers.other.use')
    expect((error as Error).message).toMatch(/^test\.config\.ts is not valid:/)
  })

  it('names the setting of a data folder that can be neither read nor made', async () => {
    const path = join(await folder({ 'a-file': '' }), 'a-file', 'data')
    const config = loaded({ state: { driver: 'file', path }, log: { path: join(path, 'log') } })
    const opening = createGateway(config, { log: createConsola({ level: 0 }) })
    await expect(opening).rejects.toThrow(`state.path  ${path} cannot be used: ENOTDIR`)
  })
})

describe('a client that leaves a gateway that drains', () => {
  it('pays for what came when the gateway is ended before the answer is', async () => {
    const path = await folder({})
    const stuck = Promise.withResolvers<never>()
    const plugin = definePlugin('stuck', {
      async *chat(signal) {
        signal.addEventListener('abort', () => stuck.reject(signal.reason))
        yield says('four')
        await stuck.promise
      },
    })
    const t = await createTestGateway({
      state: { driver: 'file', path },
      billing: { onDisconnect: 'drain' },
      providers: { p: { use: plugin } },
      models: { 'mock/echo': { ...echo, deployments: [{ provider: 'p', model: 'm' }] } },
    })
    const leaving = new AbortController()
    const answer = await fetch(`${t.baseURL}/chat/completions`, {
      method: 'POST',
      signal: leaving.signal,
      headers: { authorization: `Bearer ${t.key.secret}`, 'content-type': 'application/json' },
      body: JSON.stringify({ ...hello, stream: true }),
    })
    await answer.body!.getReader().read()
    leaving.abort()
    await expect.poll(() => [...t.gateway.running][0]?.answer.outcome).toBe('cancelled')
    await t.close()
    const { ledger } = await openEmbedded(path, () => Date.now())
    const [row] = await collect(ledger.usage('acme'))
    // 11 characters in, 4 out: 3 tokens and 1.
    expect(row).toMatchObject({ kind: 'usage', cost: 5_000_000n, usage: { outcome: 'cancelled' } })
  })

  it('pays what the vendor says, not an estimate', async () => {
    await using vendor = await startUpstream()
    const usage = { prompt_tokens: 1000, completion_tokens: 500 }
    vendor.answer({
      ...events(),
      pieces: [
        `data: ${JSON.stringify(says('one '))}\n\n`,
        `data: ${JSON.stringify(says('two ', 'stop'))}\n\n`,
        `data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`,
      ],
      pauseMs: 150,
    })
    await using t = await createTestGateway({
      providers: { vendor: { use: 'openai-compatible', options: { baseURL: `${vendor.url}/v1` } } },
      models: { 'mock/echo': { ...echo, deployments: [{ provider: 'vendor', model: 'm' }] } },
      billing: { onDisconnect: 'drain' },
    })
    const before = await t.balance()
    const leaving = new AbortController()
    const response = await fetch(`${t.baseURL}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${t.key.secret}`, 'content-type': 'application/json' },
      body: JSON.stringify({ ...hello, stream: true }),
      signal: leaving.signal,
    })
    const reader = response.body!.getReader()
    await reader.read()
    leaving.abort()
    await reader.read().catch(() => {})
    await expect.poll(() => t.gateway.running.size).toBe(0)
    expect(before - (await t.balance())).toBe(2_000_000_000n)
  })
})

describe('bounds of reading on that are gone', () => {
  it('are warned of, and have no effect', async () => {
    await using t = await createTestGateway({
      ...MOCK_CONFIG,
      billing: { onDisconnect: 'drain', drainSeconds: 5 } as never,
    })
    expect(t.logged.join('\n')).toContain('billing.drainSeconds has no effect')
  })
})

describe('what is said to the model', () => {
  it('is what the client wrote, less what is the gateway’s own business', async () => {
    await using vendor = await startUpstream(events(says('Hello.', 'stop'), '[DONE]'))
    await using t = await createTestGateway({
      providers: {
        vendor: {
          use: 'openai-compatible',
          options: { baseURL: `${vendor.url}/v1`, apiKey: 'sk-vendor' },
        },
      },
      models: {
        'mock/echo': { ...echo, deployments: [{ provider: 'vendor', model: 'their-name' }] },
      },
    })
    const { secret } = await t.newKey({
      policy: { version: 1, systemPrompt: 'Be brief.', maxOutputTokens: 50 },
    })
    const cache_control = { type: 'ephemeral' }
    const answer = await t.chat(
      {
        model: 'mock/echo',
        stream: true,
        messages: [
          { role: 'developer', content: [{ type: 'text', text: 'Rules', cache_control }] },
          { role: 'user', content: 'Hi', vendor_member: 1 },
        ],
        cache_control,
        max_tokens: 400,
        vendor_member: { kept: true },
        policy: { version: 1 },
        plugins: [{ id: 'other' }],
        provider: { order: ['x'] },
        models: ['a/b'],
        route: 'fallback',
        service_tier: 'priority',
      },
      { key: secret },
    )
    expect(eventsOf(answer.text).at(-2).choices[0].finish_reason).toBe('stop')
    const { json, headers, path } = vendor.requests[0]!
    expect(path).toBe('/v1/chat/completions')
    expect(headers.authorization).toBe('Bearer sk-vendor')
    expect(json).toMatchObject({
      model: 'their-name',
      stream: true,
      stream_options: { include_usage: true },
      cache_control,
      vendor_member: { kept: true },
    })
    expect(json.max_tokens ?? json.max_completion_tokens).toBe(50)
    expect(json.messages[0]).toMatchObject({ role: 'system', content: 'Be brief.' })
    expect(json.messages[1].content).toEqual([{ type: 'text', text: 'Rules', cache_control }])
    expect(json.messages[2]).toMatchObject({ content: 'Hi', vendor_member: 1 })
    for (const name of ['policy', 'plugins', 'provider', 'models', 'route', 'service_tier']) {
      expect(json).not.toHaveProperty(name)
    }
  })
})

describe('the logs', () => {
  it('never hold keys, bodies or what a vendor said', async () => {
    await using vendor = await startUpstream({
      status: 401,
      pieces: ['{"error":{"message":"Incorrect API key provided: sk-vendor-secret"}}'],
    })
    await using t = await createTestGateway({
      providers: {
        vendor: {
          use: 'openai-compatible',
          options: { baseURL: `${vendor.url}/v1`, apiKey: 'sk-vendor-secret' },
        },
      },
      models: { 'mock/echo': { ...echo, deployments: [{ provider: 'vendor', model: 'm' }] } },
    })
    const content = 'the client said this'
    expect((await t.chat({ ...hello, messages: [{ role: 'user', content }] })).status).toBe(502)
    expect(t.logged.join('\n')).toContain('upstream_auth')
    expect(t.logged.join('\n')).not.toMatch(/sk-vendor-secret|the client said this/)
    expect(t.logged.join('\n')).not.toContain(t.key.secret)
  })
})
