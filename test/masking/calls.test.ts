/** Masked calls as a client, an operator and a storage see them. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { defineGuard, type Guard } from '../../src/plugin.ts'
import type { UserConfig } from '../../src/config/config.ts'
import { createTestGateway, MOCK_CONFIG, type TestGateway } from '../_setup.ts'
import { json, startUpstream, type FakeUpstream, type ReceivedRequest } from '../upstream.ts'
import * as v from 'valibot'

const MAIL = 'mira.lowe@kestrelmail.net'
let fails = false
/** A guard as a service: it finds one address, or fails. */
const service = defineGuard({
  name: 'service',
  options: v.strictObject({}),
  setup: (): Guard => ({
    enforces: [],
    execution: 'remote',
    async locate(text) {
      if (fails) throw new Error(`no ${text}`)
      const start = text.indexOf('code-7781')
      return start < 0 ? [] : [{ start, end: start + 9, label: 'badge id' }]
    },
  }),
})

let upstream: FakeUpstream
let t: TestGateway
let key = ''
const received: string[] = []
beforeAll(async () => {
  upstream = await startUpstream()
  upstream.answer(({ json: body }: ReceivedRequest) => {
    received.push(JSON.stringify(body))
    const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }
    if (body.documents) {
      const results = body.documents.map((_: unknown, index: number) => ({
        index,
        relevance_score: 1 - index / 10,
      }))
      return json({ results, usage })
    }
    if (body.input) return json({ data: [{ index: 0, embedding: [1] }], usage })
    const content = body.messages.at(-1).content
    return json({
      choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
      usage,
    })
  })
  const deployments = [{ provider: 'one', model: 'm' }]
  t = await createTestGateway({
    admin: { token: 'admin-token' },
    guards: {
      use: [
        { use: 'pii', mask: 'keys' },
        { use: service, mask: 'keys' },
      ],
    },
    answers: {},
    log: { content: { enabled: true } },
    providers: {
      one: { use: 'openai-compatible', options: { baseURL: `${upstream.url}/v1`, apiKey: 'k' } },
    },
    models: {
      'acme/swift': {
        ...MOCK_CONFIG.models['mock/echo'],
        defaults: { temperature: 0 },
        cache: 'asked',
        deployments,
      },
      'acme/vectors': { modality: 'embedding', pricing: { prompt: '0.000001' }, deployments },
      'acme/order': { modality: 'rerank', pricing: { search_unit: '0.001' }, deployments },
      'acme/voice': { modality: 'speech', pricing: { character: '0.000001' }, deployments },
    },
  } as unknown as UserConfig)
  key = (await t.newKey({ mask: true })).secret
})
afterAll(async () => {
  await t.close()
  await upstream.close()
})

const ask = (content: unknown, more: object = {}, headers = {}, secret = key) =>
  t.chat(
    { model: 'acme/swift', messages: [{ role: 'user', content }], ...more },
    { key: secret, headers },
  )

describe('a masked call', () => {
  it('tells how many values were masked, and what was not', async () => {
    const url = `data:image/png;base64,${Buffer.from('x').toString('base64')}`
    const parts = [
      { type: 'text', text: `Write to ${MAIL} of code-7781` },
      { type: 'image_url', image_url: { url } },
    ]
    const { headers, status } = await ask(parts)
    expect(status).toBe(200)
    expect(headers['x-service-guard']).toBe('masked=2; unmasked=image')
    expect(received.at(-1)).toMatch(/\[EMAIL_\d{4}\] of \[BADGE_ID_\d{4}\]/)
    const shown = await t.ask('GET', '/v1/key', { key })
    expect(shown.json.data.masking).toBe(true)
    const metrics = (await t.ask('GET', '/metrics', { key: 'admin-token' })).text
    expect(metrics).toMatch(/sluicegate_guard_masked_total\{kind="BADGE_ID"\} 1/)
  })

  it('reads patterns in the request and in the answer as the client has them', async () => {
    const policy = { version: 1 as const, bannedPatterns: ['kestrelmail'], guard: { input: false } }
    const { secret } = await t.newKey({ mask: true, policy })
    const out = await ask(`Write to ${MAIL}`, {}, {}, secret)
    expect(out.json.choices[0].finish_reason).toBe('content_filter')
    expect(out.text).not.toContain(MAIL)
    const before = received.length
    const input = {
      version: 1 as const,
      bannedPatterns: ['kestrelmail'],
      deny: ['personal-data' as const],
    }
    const inward = await t.newKey({ mask: true, policy: input })
    const blocked = await ask(`Write to ${MAIL}`, {}, {}, inward.secret)
    expect(blocked.headers['x-service-guard']).toMatch(
      /outcome=blocked.*bannedPatterns\[0\].*; masked=1/,
    )
    expect(received).toHaveLength(before)
    const denied = await t.newKey({ mask: true, policy: { version: 1, deny: ['personal-data'] } })
    const passed = await ask(`Write to ${MAIL}`, {}, {}, denied.secret)
    expect(passed.json.choices[0].message.content).toBe(`Write to ${MAIL}`)
  })

  it('is stored with names, and given to each client with its values', async () => {
    const cached = () => ask(`Stored for ${MAIL}`, {}, { 'x-service-cache': 'on' })
    await cached()
    await expect.poll(async () => (await cached()).headers['x-service-cache']).toMatch(/^hit/)
    expect((await cached()).json.choices[0].message.content).toBe(`Stored for ${MAIL}`)
  })

  it('gives a repeated request the same answer with its values', async () => {
    const repeat = () => ask(`Repeat ${MAIL}`, {}, { 'idempotency-key': 'one-of-them' })
    const first = await repeat()
    const before = received.length
    expect((await repeat()).text).toBe(first.text)
    expect(first.text).toContain(MAIL)
    expect(received).toHaveLength(before)
  })

  it('leaves no value in contents, calls and logs', async () => {
    const { secret, id } = await t.newKey({ mask: true, logContent: true })
    const said = await ask(`Kept for ${MAIL}`, { user: MAIL }, {}, secret)
    expect(said.text).toContain(MAIL)
    const path = `/admin/requests?key=${id}`
    await expect
      .poll(async () => (await t.ask('GET', path, { key: 'admin-token' })).json.data.length)
      .toBe(1)
    const [row] = (await t.ask('GET', path, { key: 'admin-token' })).json.data
    expect(row).toMatchObject({ masked: { EMAIL: 1 }, restored: 1, altered: 0 })
    const read = async () => {
      const one = await t.ask('GET', `/admin/requests/${row.id}/content`, { key: 'admin-token' })
      return one.text
    }
    await expect.poll(read).toContain('[EMAIL_')
    expect(await read()).not.toContain(MAIL)
    expect(JSON.stringify(row)).not.toContain(MAIL)
    expect(t.logged.join('\n')).not.toContain(MAIL)
  })

  it('masks embeddings and rerank, and refuses where no value can be put back', async () => {
    const post = (path: string, body: object) => t.ask('POST', path, { key, body })
    expect((await post('/v1/embeddings', { model: 'acme/vectors', input: MAIL })).status).toBe(200)
    expect(received.at(-1)).not.toContain(MAIL)
    const ranked = await post('/v1/rerank', {
      model: 'acme/order',
      query: 'who',
      documents: [`By ${MAIL.toUpperCase()}`, `To ${MAIL}`],
    })
    expect(ranked.json.results.map((one: any) => one.document.text)).toEqual([
      `By ${MAIL.toUpperCase()}`,
      `To ${MAIL}`,
    ])
    expect(received.at(-1)!.toLowerCase()).not.toContain(MAIL)
    const tokens = await post('/v1/embeddings', { model: 'acme/vectors', input: [1, 2] })
    expect(tokens.status).toBe(400)
    const speech = { model: 'acme/voice', voice: 'alloy', input: `Write to ${MAIL}` }
    const refused = await post('/v1/audio/speech', speech)
    expect(refused.status).toBe(400)
    expect(refused.json.error).toMatchObject({ code: 'policy_violation' })
    expect(refused.json.error.message).toContain('(email)')
  })

  it('is shown as a vendor would see it where a policy is tried', async () => {
    const policy = { version: 1 as const }
    const evaluate = async (more: object) => {
      const body = { policy, ...more }
      const answer = await t.ask('POST', '/admin/policies/evaluate', { key: 'admin-token', body })
      return answer.json.data.masked
    }
    const input = `Write to ${MAIL} of code-7781`
    expect(await evaluate({ input })).toMatch(/^Write to \[EMAIL_\d{4}\] of code-7781$/)
    expect(await evaluate({ input, ask: true })).toMatch(/ of \[BADGE_ID_\d{4}\]$/)
    expect(await evaluate({ output: input })).toBeNull()
  })

  it('does not leave where a guard cannot look', async () => {
    fails = true
    const before = received.length
    const policy = { version: 1 as const, guard: { onError: 'allow' as const } }
    const { secret } = await t.newKey({ mask: true, policy })
    const { status, json: body } = await ask(`Write to ${MAIL}`, {}, {}, secret)
    fails = false
    expect(status).toBe(503)
    expect(body.error.code).toBe('guard_unavailable')
    expect(received).toHaveLength(before)
  })
})
