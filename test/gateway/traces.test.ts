/** Spans of calls as a collector gets them: guards, searches, parameters, events, contents. */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import * as v from 'valibot'
import { describe, expect, it } from 'vitest'
import { ATTRIBUTES } from '../../plugins/sinks/traces/spans.ts'
import type { Config, UserConfig } from '../../src/config/config.ts'
import { defineGuard, type Verdict } from '../../src/plugin.ts'
import { pages, BRIDGE } from '../search/_setup.ts'
import { createTestGateway, MOCK_CONFIG, type TestGateway } from '../_setup.ts'
import { eventually } from '../_wait.ts'
import { json, startUpstream, type FakeUpstream } from '../upstream.ts'
import { checkTraces, type OtlpSpan } from './_otlp.ts'

const TOKEN = 'admin-token-of-the-test'
const POLICY = { version: 1, deny: ['code'] } as const
const POLICY_ID = /^[0-9a-f]{16}$/

/** A guard that is asked elsewhere, and finds a word. */
const remote = defineGuard({
  name: 'remote',
  options: v.strictObject({}),
  setup: () => ({
    enforces: ['deny:code'],
    execution: 'remote',
    checkInput: async (items) => {
      if (items.some(({ text }) => text.includes('broken'))) throw new Error('out of order')
      return items.map(({ text }): Verdict =>
        text.includes('forbidden') ? { action: 'block', rule: 'deny:code' } : { action: 'pass' },
      )
    },
  }),
})

interface Traced extends AsyncDisposable {
  readonly t: TestGateway
  readonly collector: FakeUpstream
  readonly engine: FakeUpstream
  /** The spans of one call, the server's first. */
  spansOf(id: unknown, count: number): Promise<readonly OtlpSpan[]>
}

async function traced(
  telemetry: Partial<Config['telemetry']>,
  more: UserConfig = {},
): Promise<Traced> {
  const collector = await startUpstream(json({}))
  const engine = await startUpstream(pages(BRIDGE))
  const t = await createTestGateway({
    ...MOCK_CONFIG,
    admin: { token: TOKEN },
    telemetry,
    search: {
      engines: {
        web: { use: 'parallel', options: { baseURL: engine.url, apiKey: 'k' }, price: '0.005' },
      },
    },
    guards: { use: [{ use: remote }] },
    sinks: [{ use: 'otlp', options: { endpoint: collector.url } }],
    ...more,
  })
  const all = () =>
    collector.requests.flatMap(({ body }) => checkTraces(JSON.parse(String(gunzipSync(body)))))
  return {
    t,
    collector,
    engine,
    async spansOf(id, count) {
      const found = () => {
        const own = all().find((span) => attributesOf(span)['sluicegate.request_id'] === id)
        return own ? all().filter(({ traceId }) => traceId === own.traceId) : []
      }
      await eventually(() => expect(found()).toHaveLength(count))
      return found().toSorted((a, b) => Number(b.kind === 2) - Number(a.kind === 2))
    },
    async [Symbol.asyncDispose]() {
      await t.close()
      await collector.close()
      await engine.close()
    },
  }
}

function attributesOf({ attributes }: OtlpSpan): Record<string, unknown> {
  return Object.fromEntries(
    attributes.map(({ key, value }) => {
      const [content] = Object.values(value) as [unknown]
      const list = (content as { values?: object[] }).values
      return [key, list ? list.map((one) => Object.values(one)[0]) : content]
    }),
  )
}

const said = (content: string, more: object = {}) => ({
  model: 'mock/echo',
  messages: [{ role: 'user', content }],
  ...more,
})

describe('the spans of a call', () => {
  it('show questions to guards and engines, parameters and events, in the names of v1.41', async () => {
    await using all = await traced({})
    const key = await all.t.newKey({ policy: POLICY })
    const body = said('When did the bridge open?', {
      plugins: [{ id: 'web' }],
      max_tokens: 100,
      temperature: 0.5,
      top_p: 0.9,
      seed: 7,
      stop: ['confidential'],
      stream: true,
    })
    const { status, headers } = await all.t.chat(body, { key: key.secret })
    expect(status).toBe(200)
    const [server, ...below] = await all.spansOf(headers['x-request-id'], 4)
    expect(server!.events!.map(({ name }) => name)).toEqual([
      'held',
      'guard.input',
      'first_part',
      'settled',
    ])
    for (const { parentSpanId } of below) expect(parentSpanId).toBe(server!.spanId)
    const named = (name: string) => below.find((span) => span.name === name)!
    const guard = named('apply_guardrail remote')
    expect(guard.kind).toBe(1)
    expect(attributesOf(guard)).toEqual({
      'gen_ai.operation.name': 'apply_guardrail',
      'sluicegate.guard.name': 'remote',
      'sluicegate.guard.policy': expect.stringMatching(POLICY_ID),
      'sluicegate.guard.source': 'input',
      'sluicegate.guard.result': 'passed',
    })
    const search = named('web_search web')
    expect(search.kind).toBe(3)
    expect(attributesOf(search)).toEqual({
      'gen_ai.operation.name': 'web_search',
      'sluicegate.search.engine': 'web',
    })
    const chat = attributesOf(named('chat mock/echo'))
    expect(chat).toMatchObject({
      'gen_ai.request.max_tokens': '100',
      'gen_ai.request.temperature': 0.5,
      'gen_ai.request.top_p': 0.9,
      'gen_ai.request.seed': '7',
      'gen_ai.response.finish_reasons': ['stop'],
      'gen_ai.response.id': expect.stringMatching(/^chatcmpl-/),
    })
    expect(chat).not.toHaveProperty('gen_ai.request.stream')
    // Text of the client.
    expect(JSON.stringify([server, ...below])).not.toMatch(/confidential|bridge/)
    const { data } = (
      await all.t.ask('GET', `/admin/requests/${headers['x-request-id']}`, { key: TOKEN })
    ).json
    expect(data.questions).toEqual([
      expect.objectContaining({ to: 'guard', name: 'remote', side: 'input', result: 'passed' }),
      expect.objectContaining({ to: 'search', name: 'web', side: null, result: 'ok' }),
    ])
  })

  it('say in the newer names what a guard found, and why one or an engine did not answer', async () => {
    await using all = await traced({ semconv: 'genai-dev' })
    const key = await all.t.newKey({ policy: POLICY })
    const blocked = await all.t.chat(said('Something forbidden'), { key: key.secret })
    const [server, guard, ...none] = await all.spansOf(blocked.headers['x-request-id'], 2)
    expect(none).toEqual([])
    expect(attributesOf(guard!)).toMatchObject({
      'gen_ai.guardrail.component.name': 'remote',
      'gen_ai.guardrail.policy.id': expect.stringMatching(POLICY_ID),
      'gen_ai.guardrail.source': 'input',
      'gen_ai.guardrail.result.type': 'blocked',
      'gen_ai.guardrail.result.reason': ['deny:code'],
    })
    expect(guard).not.toHaveProperty('status')
    expect(attributesOf(server!)).toMatchObject({ 'gen_ai.guardrail.result.type': 'blocked' })

    const broken = await all.t.chat(said('Something broken'), { key: key.secret })
    const [, failed] = await all.spansOf(broken.headers['x-request-id'], 2)
    expect(failed).toMatchObject({ status: { code: 2 } })
    expect(attributesOf(failed!)).toMatchObject({
      'error.type': 'failed',
      'gen_ai.guardrail.result.type': 'error',
    })

    all.engine.answer(json({}, 400))
    const plugins = [{ id: 'web' }]
    const reasoning = { effort: 'high' }
    const alone = await all.t.chat(said('Anything', { plugins, reasoning, stream: true }))
    const [, ...below] = await all.spansOf(alone.headers['x-request-id'], 3)
    const [chat, search] = below.toSorted((a, b) => (a.name < b.name ? -1 : 1))
    expect(search).toMatchObject({ name: 'web_search web', status: { code: 2 } })
    expect(attributesOf(search!)).toHaveProperty('error.type', 'upstream_error')
    expect(attributesOf(chat!)).toMatchObject({
      'gen_ai.request.stream': true,
      'gen_ai.request.reasoning.level': 'high',
      'gen_ai.response.time_to_first_chunk': expect.any(Number),
    })
  })

  it('say what a vendor answered that failed, and where it is', async () => {
    await using vendor = await startUpstream(
      json({ error: { message: 'The model sleeps; key sk-live-0123456789abcdef0123' } }, 503),
    )
    const baseURL = `${vendor.url}/v1`
    const deployments = [
      { provider: 'gone', model: 'm' },
      { provider: 'mock', model: 'echo', priority: 1 },
    ]
    const pricing = { prompt: '0', completion: '0' }
    await using all = await traced(
      {},
      {
        providers: {
          ...MOCK_CONFIG.providers,
          gone: { use: 'openai-compatible', options: { baseURL } },
        },
        models: { 'mock/echo': { pricing, deployments } },
      },
    )
    const { headers } = await all.t.chat(said('Hello'))
    const [, ...below] = await all.spansOf(headers['x-request-id'], 3)
    const failed = below.find((span) => span.status?.code === 2)!
    expect(failed.status!.message).toMatch(/^The model sleeps; key (?!.*sk-live)/)
    expect(attributesOf(failed)).toMatchObject({
      'error.type': 'overloaded',
      'gen_ai.provider.name': 'gone',
      'http.response.status_code': '503',
      'server.address': '127.0.0.1',
      'server.port': new URL(vendor.url).port,
      'sluicegate.attempt': '1',
    })
    const path = `/admin/requests/${headers['x-request-id']}`
    const { data } = (await all.t.ask('GET', path, { key: TOKEN })).json
    expect(data.attempts).toEqual([
      expect.objectContaining({
        result: 'overloaded',
        status: 503,
        message: failed.status!.message,
      }),
      expect.objectContaining({ result: 'ok', status: null, message: null }),
    ])
  })

  it('have texts only where the configuration and the key allow it', async () => {
    await using all = await traced({ content: true })
    const open = await all.t.newKey({ logContent: true })
    const body = said('A secret of the user', { stop: ['user stop'] })
    const told = await all.t.chat(body, { key: open.secret })
    const silent = await all.t.chat(body)
    const [, chat] = await all.spansOf(told.headers['x-request-id'], 2)
    const attributes = attributesOf(chat!)
    expect(JSON.parse(String(attributes['gen_ai.input.messages']))).toEqual([
      { role: 'user', parts: [{ type: 'text', content: 'A secret of the user' }] },
    ])
    const { content } = told.json.choices[0].message
    expect(JSON.parse(String(attributes['gen_ai.output.messages']))).toEqual([
      { role: 'assistant', parts: [{ type: 'text', content }], finish_reason: 'stop' },
    ])
    expect(attributes['gen_ai.request.stop_sequences']).toEqual(['user stop'])
    const without = await all.spansOf(silent.headers['x-request-id'], 2)
    expect(JSON.stringify(without)).not.toMatch(/secret of|user stop/)
    // The holder of the key is told, and nothing of it is in a log.
    const own = await all.t.ask('GET', '/v1/key', { key: open.secret })
    expect(own.json.data.log_content).toBe(true)
    const kept = await all.t.ask('GET', `/admin/requests/${told.headers['x-request-id']}`, {
      key: TOKEN,
    })
    expect(kept.json.data.content).toBe('not kept')
  })

  it('are made of a part of the calls, and of all that an operator looks for', async () => {
    await using all = await traced({ ratio: 0 })
    const well = await all.t.chat(said('Fine'))
    const parent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`
    const followed = await all.t.chat(said('Fine'), { headers: { traceparent: parent } })
    const poor = await all.t.newKey({ rpm: 1 })
    await all.t.chat(said('Fine'), { key: poor.secret })
    const refused = await all.t.chat(said('Fine'), { key: poor.secret })
    expect(refused.status).toBe(429)
    const key = await all.t.newKey({ policy: POLICY })
    const blocked = await all.t.chat(said('Something forbidden'), { key: key.secret })
    await all.spansOf(followed.headers['x-request-id'], 2)
    const [limited] = await all.spansOf(refused.headers['x-request-id'], 1)
    expect(attributesOf(limited!)).toMatchObject({ 'sluicegate.limit': 'key.rpm' })
    await all.spansOf(blocked.headers['x-request-id'], 2)
    expect(await all.spansOf(well.headers['x-request-id'], 0)).toEqual([])
  })
})

/** Names that other files use for something else: settings, members of requests, a place in the browser. */
const OTHER_THINGS = new Set(['server.port', 'user.id', 'sluicegate.key'])

it('no other source has the name of an attribute', async () => {
  const names = ATTRIBUTES.filter((name) => !OTHER_THINGS.has(name))
  const root = join(import.meta.dirname, '../..')
  const found: string[] = []
  for (const folder of ['src', 'plugins', 'providers']) {
    for (const name of await readdir(join(root, folder), { recursive: true })) {
      if (!name.endsWith('.ts') || name.endsWith('traces/spans.ts')) continue
      const text = await readFile(join(root, folder, name), 'utf8')
      const used = names.filter((one) => ["'", '"', '`'].some((q) => text.includes(q + one + q)))
      found.push(...used.map((one) => `${folder}/${name}: ${one}`))
    }
  }
  expect(found).toEqual([])
})
