/** Sinks of a gateway, as their receivers and the operator see them. */
import { createHmac } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { folder } from '../_folder.ts'
import { createTestGateway, hello, MOCK_CONFIG, type TestGateway } from '../_setup.ts'
import { eventually } from '../_wait.ts'
import { json, startUpstream, type FakeUpstream, type ReceivedRequest } from '../upstream.ts'
import { checkTraces, type OtlpSpan } from './_otlp.ts'

const TOKEN = 'admin-token-of-the-test'
const SECRET = 'secret-of-the-webhook'
const OLD_SECRET = 'secret-of-the-webhook-before'
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const PARENT = '00f067aa0ba902b7'

/** A policy that blocks a word. */
const policy = { version: 1, bannedPatterns: ['swordfish'] } as const

function signed(request: ReceivedRequest, secret: string): string {
  const time = /^t=(\d+),/.exec(String(request.headers['x-sluicegate-signature']))![1]!
  const sum = createHmac('sha256', secret)
    .update(`${time}.${String(request.body)}`)
    .digest('hex')
  return `v1=${sum}`
}

type Verifier = (body: string, signature: string, secret: string, now?: number) => unknown

/** The function that docs/operate/sinks.md shows to receivers. */
async function verifierOfTheDocuments(): Promise<Verifier> {
  const page = await readFile(new URL('../../docs/operate/sinks.md', import.meta.url), 'utf8')
  const [, code = ''] = /```js\n([^]*?function readEvent[^]*?)```/.exec(page)!
  const module = await import(`data:text/javascript,${encodeURIComponent(code)}`)
  return module.readEvent as Verifier
}

function spansIn(receiver: FakeUpstream): OtlpSpan[] {
  return receiver.requests.flatMap(({ body }) => checkTraces(JSON.parse(String(gunzipSync(body)))))
}

function attributesOf({ attributes }: OtlpSpan): Record<string, unknown> {
  return Object.fromEntries(
    attributes.map(({ key, value }) => [key, Object.values(value)[0] as unknown]),
  )
}

async function metrics(t: TestGateway): Promise<string> {
  return (await t.ask('GET', '/metrics', { key: TOKEN })).text
}

describe('the sinks of a gateway', () => {
  it('get calls, blocks and alerts; one that hangs or refuses costs no call anything', async () => {
    await using hook = await startUpstream(json({}))
    await using hanging = await startUpstream({ pieces: [], ending: 'silent' })
    await using refusing = await startUpstream(json({ error: 'no' }, 503))
    refusing.answer(({ path }) => json({}, path.startsWith('/v1/') ? 401 : 503))
    await using chat = await startUpstream(json({}))
    await using collector = await startUpstream(json({ partialSuccess: {} }))
    await using langfuse = await startUpstream(json({}))
    const path = join(await folder({}), 'events', 'events.jsonl')
    await using t = await createTestGateway({
      ...MOCK_CONFIG,
      admin: { token: TOKEN },
      telemetry: { service: 'edge' },
      models: {
        ...MOCK_CONFIG.models,
        'mock/lost': {
          pricing: { prompt: '0', completion: '0' },
          deployments: [{ provider: 'gone', model: 'm' }],
        },
        'mock/down': {
          pricing: { prompt: '0', completion: '0' },
          deployments: [
            { provider: 'gone', model: 'm' },
            { provider: 'mock', model: 'echo', priority: 1 },
          ],
        },
      },
      providers: {
        ...MOCK_CONFIG.providers,
        gone: {
          use: 'openai-compatible',
          options: { baseURL: `${refusing.url}/v1`, apiKey: 'key-of-the-vendor' },
        },
      },
      sinks: [
        {
          use: 'webhook',
          options: {
            url: `${hook.url}/events`,
            secret: SECRET,
            previousSecret: OLD_SECRET,
            headers: { 'x-team': 'ops' },
            events: ['alert', 'guard.blocked', 'call.ended'],
          },
        },
        {
          use: 'webhook',
          name: 'hanging',
          options: { url: hanging.url, secret: SECRET, events: ['call.ended'] },
        },
        {
          use: 'webhook',
          name: 'refusing',
          options: { url: refusing.url, secret: SECRET, events: ['call.ended'] },
        },
        { use: 'file', options: { path } },
        { use: '../docs/examples/sink-alerts/my-sink.ts', options: { url: chat.url } },
        { use: 'otlp', options: { endpoint: `${collector.url}/`, headers: { 'x-scope': 'a' } } },
        {
          use: 'langfuse',
          options: { host: langfuse.url, publicKey: 'pk-lf-1', secretKey: 'sk-lf-of-the-test' },
        },
      ],
    })
    const traced = await t.chat(hello, {
      headers: {
        traceparent: `00-${TRACE}-${PARENT}-01`,
        tracestate: 'a=1 , b@c=x y',
        'x-service-tag': 'nightly',
      },
    })
    expect(traced.status).toBe(200)
    const answered = String(traced.headers.traceparent)
    expect(answered).toMatch(new RegExp(`^00-${TRACE}-[0-9a-f]{16}-01$`))
    expect(
      (await t.chat(hello, { headers: { traceparent: 'nonsense' } })).headers,
    ).not.toHaveProperty('traceparent')
    const key = await t.newKey({ policy })
    const text = 'the swordfish is the word'
    const body = { model: 'mock/echo', messages: [{ role: 'user', content: text }] }
    expect((await t.chat(body, { key: key.secret })).headers['x-service-guard']).toContain(
      'blocked',
    )
    expect((await t.chat({ ...hello, model: 'mock/down' })).status).toBe(200)

    // The webhook: signed by both secrets, with an id of its own for each event.
    const posts = () => hook.requests.map((request) => request.json)
    const named = (name: string) => posts().filter(({ event }) => event === name)
    await eventually(() => expect(named('call.ended')).toHaveLength(4))
    expect(named('guard.blocked')).toHaveLength(1)
    const readEvent = await verifierOfTheDocuments()
    for (const request of hook.requests) {
      const { id, event } = request.json
      expect(request.headers).toMatchObject({
        'x-team': 'ops',
        'x-sluicegate-event': event,
        'x-sluicegate-id': id,
      })
      const signature = String(request.headers['x-sluicegate-signature'])
      for (const secret of [SECRET, OLD_SECRET]) {
        expect(readEvent(String(request.body), signature, secret)).toEqual(request.json)
      }
      expect(readEvent(`${String(request.body)} `, signature, SECRET)).toBeNull()
      expect(readEvent(String(request.body), signature, 'another-secret-of-16')).toBeNull()
      expect(readEvent(String(request.body), signature, SECRET, Date.now() + 301_000)).toBeNull()
      expect(signature.split(',').slice(1)).toEqual([
        signed(request, SECRET),
        signed(request, OLD_SECRET),
      ])
    }
    const first = named('call.ended').find(({ data }) => data.id === traced.headers['x-request-id'])
    expect(first.data).toMatchObject({
      status: 200,
      model: 'mock/echo',
      tag: 'nightly',
      usage: { prompt_tokens: traced.json.usage.prompt_tokens },
      cost_usd: String(traced.json.usage.cost),
    })

    // The file has the same calls.
    const lines = async () =>
      (await readFile(path, 'utf8'))
        .trim()
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line))
        .filter(({ event }) => event === 'call.ended')
    await eventually(async () => expect(await lines()).toHaveLength(4))
    expect((await lines()).map(({ data }) => data.id)).toContain(traced.headers['x-request-id'])

    // The collector: spans of the client's trace, and one for each request to a vendor.
    await eventually(() => expect(spansIn(collector)).toHaveLength(8))
    const spans = spansIn(collector)
    const [server] = spans.filter(({ parentSpanId }) => parentSpanId === PARENT)
    expect(server).toMatchObject({
      traceId: TRACE,
      spanId: answered.split('-')[2],
      traceState: 'a=1,b@c=x y',
      name: 'POST /v1/chat/completions',
      kind: 2,
    })
    expect(attributesOf(server!)).toMatchObject({
      'http.response.status_code': '200',
      'sluicegate.tag': 'nightly',
      'sluicegate.cost.usd': String(traced.json.usage.cost),
    })
    const [attempt] = spans.filter(({ parentSpanId }) => parentSpanId === server!.spanId)
    expect(attempt).toMatchObject({
      name: 'chat mock/echo',
      kind: 3,
      traceState: 'a=1,b@c=x y',
    })
    expect(attributesOf(attempt!)).toMatchObject({
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'mock',
      'gen_ai.usage.input_tokens': String(traced.json.usage.prompt_tokens),
      'gen_ai.usage.cost': traced.json.usage.cost,
    })
    const failed = spans.filter((span) => attributesOf(span)['error.type'] === 'upstream_auth')
    expect(failed.map(({ status }) => status?.code)).toEqual([2])
    const resource = JSON.parse(String(gunzipSync(collector.requests[0]!.body))).resourceSpans[0]
      .resource
    expect(resource.attributes).toContainEqual({
      key: 'service.name',
      value: { stringValue: 'edge' },
    })
    expect(collector.requests[0]).toMatchObject({
      path: '/v1/traces',
      headers: { 'x-scope': 'a', 'content-encoding': 'gzip' },
    })

    // Langfuse: its own address, login and attributes.
    await eventually(() => expect(spansIn(langfuse)).toHaveLength(8))
    const [request] = langfuse.requests
    const login = Buffer.from('pk-lf-1:sk-lf-of-the-test').toString('base64')
    expect(request).toMatchObject({
      path: '/api/public/otel/v1/traces',
      headers: { authorization: `Basic ${login}`, 'x-langfuse-ingestion-version': '4' },
    })
    expect(JSON.stringify(spansIn(langfuse))).toContain('langfuse.trace.tags')

    // What the guide's example makes of an alert.
    await eventually(() => expect(chat.requests).toHaveLength(1))
    expect(chat.requests[0]!.json).toEqual({
      text: expect.stringMatching(
        /^raised: every deployment of mock\/lost is in cooldown: gone\/m: upstream_auth; no call has succeeded since /,
      ),
    })

    // An alert arrives as well, and what failed is counted and said once.
    await eventually(async () => {
      const text = await metrics(t)
      expect(text).toMatch(
        /sluicegate_sink_events_total\{sink="webhook",result="delivered"\} [5-9]/,
      )
      expect(text).toMatch(/sluicegate_sink_events_total\{sink="refusing",result="failed"\} [1-9]/)
      expect(text).toContain('sluicegate_sink_queue{sink="hanging"} 4')
    })
    const said = t.logged.filter((line) =>
      line.includes('the sink refusing: events cannot be sent'),
    )
    expect(said).toHaveLength(1)
    expect(said[0]).toContain('HTTP 503')
    const seen = [
      ...t.logged,
      ...posts().map((post) => JSON.stringify(post)),
      JSON.stringify(spans),
    ]
    for (const secret of [SECRET, OLD_SECRET, login, 'sk-lf-of-the-test', text, key.secret]) {
      expect(seen.filter((line) => line.includes(secret))).toEqual([])
    }
    // The gateway would give it time to answer.
    await hanging.close()
  })

  it('are refused with a reason at the setting that is wrong', async () => {
    const refused = (sinks: object[], more: object = {}) =>
      createTestGateway({ ...MOCK_CONFIG, ...more, sinks: sinks as never }).then(
        async (t) => {
          await t.close()
          return 'accepted'
        },
        (error: Error) => error.message,
      )
    const path = await folder({ 'late.mjs': 'export default 1', 'odd.mjs': ODD })
    expect(await refused([{ use: 'webhok', options: {} }])).toContain('did you mean "webhook"?')
    const secret = await refused([
      { use: 'webhook', options: { url: 'ftp://x', secret: 'hunter2' } },
    ])
    expect(secret).toContain('sinks.0.options.url     expected an address that begins with')
    expect(secret).toContain('sinks.0.options.secret  expected a text of at least 16 characters')
    expect(secret).not.toContain('hunter2')
    expect(
      await refused([{ use: 'otlp', options: { endpoint: 'http://c:4318/v1/traces' } }]),
    ).toContain('without /v1/traces')
    expect(await refused([{ use: join(path, 'late.mjs') }])).toContain('defineSink')
    expect(await refused([{ use: join(path, 'odd.mjs') }])).toContain('to make "takes" and "send"')
    expect(
      await refused([{ use: 'file', options: { path: join(path, 'late.mjs', 'f') } }]),
    ).toContain('sinks.0.use  the plugin "file" could not be set up')
    const hook = { use: 'webhook', options: { url: 'http://localhost:1', secret: SECRET } }
    expect(await refused([hook, hook])).toContain('sinks.1.name  there is a sink "webhook" already')
    expect(await refused([{ ...hook, options: { log() {} } }])).toContain(
      'sinks.0.options  expected plain data',
    )
  })
})

const ODD = `export default {
  kind: 'sink', api: 1, name: 'odd', options: { '~standard': { validate: (value) => ({ value }) } },
  setup: () => ({ takes: 'alert' }),
}`
