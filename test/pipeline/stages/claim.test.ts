/** Requests that a client repeats with one `Idempotency-Key`. */
import OpenAI from 'openai'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { UserConfig } from '../../../src/config/config.ts'
import {
  createGatewayBeside,
  createTestGateway,
  hello,
  MOCK_CONFIG,
  type Answer,
  type TestGateway,
} from '../../_setup.ts'
import { folder } from '../../_folder.ts'
import { gated } from '../../_plugin.ts'
import { askAndLeave, at, body, CHAT, CONFIG, started, WORD } from './_claims.ts'

const asker = (t: TestGateway) => (name: string, asked?: object, path?: string) =>
  at(t.url, t.key.secret, name, asked, path)
const idOf = ({ headers }: Answer) => headers['x-service-request-id']

describe('a repeated request', () => {
  const question = [{ role: 'user', content: 'Hi' }]
  it.each<[string, string, object]>([
    ['chat', CHAT, body],
    ['streamed chat', CHAT, { ...body, stream: true, stream_options: { include_usage: true } }],
    ['messages', '/v1/messages', { model: 'mock/says', max_tokens: 9, messages: question }],
    [
      'streamed messages',
      '/v1/messages',
      { model: 'mock/says', max_tokens: 9, messages: question, stream: true },
    ],
    ['responses', '/v1/responses', { model: 'mock/says', input: 'Hi' }],
    ['streamed responses', '/v1/responses', { model: 'mock/says', input: 'Hi', stream: true }],
    ['speech', '/v1/audio/speech', { model: 'mock/speech', input: 'Hi', voice: 'alloy' }],
  ])('gets the same answer again, and is charged once: %s', async (_, path, asked) => {
    const t = await started()
    const first = await asker(t)('a', asked, path)
    expect(first.status).toBe(200)
    const balance = await t.balance()
    expect(balance).toBeLessThan(100n * 10n ** 12n)
    const again = await asker(t)('a', asked, path)
    expect([again.status, again.text]).toEqual([200, first.text])
    expect(again.headers).toMatchObject({
      'content-type': first.headers['content-type'],
      'idempotent-replayed': 'true',
      'x-service-cost': '0',
      'x-service-original-request': idOf(first),
    })
    expect(idOf(again)).not.toBe(idOf(first))
    expect(await t.balance()).toBe(balance)
    expect(await t.gateway.runtime.ledger.verify()).toEqual([])
  })

  it('is in the request log, at no cost', async () => {
    const path = await folder({})
    const t = await started({ ...CONFIG, admin: { token: 'the-admin-token' }, log: { path } })
    await asker(t)('a')
    const again = await asker(t)('a')
    const row = async () => {
      const asked = `/admin/requests/${idOf(again)}`
      return (await t.ask('GET', asked, { key: 'the-admin-token' })).json.data
    }
    await expect.poll(row).toMatchObject({ outcome: 'replayed', cost_usd: 0, status: 200 })
  })

  it('is the same whatever the form’s boundary is', async () => {
    const t = await started()
    const edit = async (name: string, prompt: string) => {
      const form = new FormData()
      const png = Buffer.from(
        'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
        'base64',
      )
      form.append('model', 'mock/image')
      form.append('prompt', prompt)
      form.append('image', new Blob([png], { type: 'image/png' }), 'a.png')
      const encoded = new Response(form)
      return t.ask('POST', '/v1/images/edits', {
        body: Buffer.from(await encoded.arrayBuffer()),
        headers: { 'content-type': encoded.headers.get('content-type')!, 'idempotency-key': name },
      })
    }
    const [first, again] = [await edit('a', 'A hat.'), await edit('a', 'A hat.')]
    expect([again.status, again.text]).toEqual([200, first.text])
    expect((await edit('a', 'Two hats.')).json.error.code).toBe('idempotency_key_reused')
  })

  it('is answered to the official client', async () => {
    const t = await started()
    const client = new OpenAI({ baseURL: t.baseURL, apiKey: t.key.secret, maxRetries: 5 })
    const ask = () =>
      client.chat.completions.create({ ...body, model: 'mock/slow' } as never, {
        headers: { 'Idempotency-Key': 'a' },
      })
    const [first, again] = await Promise.all([ask(), ask()])
    expect(again).toEqual(first)
  })
})

describe('what is refused', () => {
  it('is a name that is malformed, or means another request', async () => {
    const t = await started()
    const malformed = await asker(t)('a b')
    expect([malformed.status, malformed.json.error.code]).toEqual([400, 'invalid_value'])
    const first = await asker(t)('a')
    const other = await asker(t)('a', { ...body, temperature: 1 })
    expect([other.status, other.json.error.code]).toEqual([400, 'idempotency_key_reused'])
    expect(other.json.error.message).toContain(idOf(first))
    const { secret } = await t.newKey()
    expect((await at(t.url, secret, 'a', { ...body, temperature: 1 })).status).toBe(200)
  })

  it('is a request that runs, until it has ended', async () => {
    const gate = Promise.withResolvers<void>()
    const t = await started({ ...MOCK_CONFIG, providers: gated(gate.promise) })
    const first = asker(t)('a', hello)
    await expect.poll(() => t.gateway.running.size).toBe(1)
    const early = await asker(t)('a', hello)
    expect([early.status, early.json.error.code]).toEqual([409, 'idempotency_in_progress'])
    expect(early.headers['retry-after']).toBe('2')
    expect((await asker(t)('a', hello)).status).toBe(409)
    gate.resolve()
    const { text } = await first
    expect((await asker(t)('a', hello)).text).toBe(text)
  })

  it('is an answer that is too large to keep', async () => {
    const t = await started({ ...CONFIG, idempotency: { most: 1024 } })
    const asked = { ...hello, messages: [{ role: 'user', content: 'x'.repeat(2000) }] }
    const first = await asker(t)('a', asked)
    const balance = await t.balance()
    const gone = await asker(t)('a', asked)
    expect([gone.status, gone.json.error.code]).toEqual([400, 'idempotency_answer_gone'])
    expect(gone.json.error.message).toContain(
      `${idOf(first)} and cost ${first.headers['x-service-cost']} USD`,
    )
    expect(await t.balance()).toBe(balance)
  })
})

it('an answer that the store does not take is paid for once, and the repetition is told so', async () => {
  const t = await started()
  vi.spyOn(t.gateway.runtime.repeats, 'keep').mockRejectedValue(new Error('the store is full'))
  const first = await asker(t)('a', hello)
  expect(first.status).toBe(200)
  const balance = await t.balance()
  const { error } = (await asker(t)('a', hello)).json
  expect(error.code).toBe('idempotency_answer_gone')
  expect(error.message).toContain('its answer was too large to keep, or could not be stored')
  expect(await t.balance()).toBe(balance)
})

describe('without effect', () => {
  it('is the header where it is switched off, and on the free tier', async () => {
    const off = await started({ ...CONFIG, idempotency: { enabled: false } })
    const t = await started()
    await t.newAccount('poor')
    const { secret } = await t.newKey({ account: 'poor' })
    const free = (name: string) => at(t.url, secret, name, { ...hello, model: 'mock/free' })
    for (const ask of [asker(off), free]) {
      const [first, again] = [await ask('a'), await ask('a')]
      expect([again.status, again.headers['idempotent-replayed']]).toEqual([200, undefined])
      expect(again.json.id).not.toBe(first.json.id)
    }
  })
})

it('is neither charged nor answered once another gateway has taken it over', async () => {
  const t = await started()
  const ask = asker(t)
  vi.spyOn(t.gateway.runtime.repeats, 'holds').mockResolvedValue(false)
  for (const stream of [false, true]) {
    const answer = await ask(`taken-${stream}`, { ...body, stream })
    const { error } = stream
      ? JSON.parse(/data: (\{"error".*\})/.exec(answer.text)![1]!)
      : (answer.json as { error: { code: string } })
    expect(error.code).toBe('service_unavailable')
    const rows = t.gateway.runtime.ledger.usage('acme')[Symbol.asyncIterator]()
    const { value } = await rows.next()
    expect(value).toMatchObject({ cost: 0n, usage: { charged: 'nothing', outcome: 'failed' } })
  }
})

it('a request that failed is a new purchase, before output and after', async () => {
  const t = await started()
  for (const stream of [false, true]) {
    const asked = { ...body, model: 'mock/breaks', stream }
    const [first, again] = [await asker(t)('a', asked), await asker(t)('a', asked)]
    expect(again.status).toBe(first.status)
    expect(again.headers['idempotent-replayed']).toBeUndefined()
    expect(again.text).toContain('upstream_error')
  }
})

describe('a client that leaves', () => {
  it('finds the whole answer when it comes back, charged once', async () => {
    const t = await started()
    const asked = { ...body, model: 'mock/slow', stream: true }
    await askAndLeave(t.url, t.key.secret, 'a', asked)
    const again = () => asker(t)('a', asked)
    await expect.poll(async () => (await again()).status).toBe(200)
    const { text, headers } = await again()
    expect(headers['idempotent-replayed']).toBe('true')
    expect(text).toContain('time.')
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true)
    expect(t.gateway.running.size).toBe(0)
    const { balance, available } = await t.gateway.runtime.ledger.account('acme')
    expect(available).toBe(balance)
  })
})

describe('an answer', () => {
  it('cannot be read in the files, and outlives a restart', async () => {
    const path = await folder({})
    const config: UserConfig = { ...CONFIG, state: { driver: 'file', path } }
    const first = await createTestGateway(config)
    const { secret } = first.key
    const answer = await at(first.url, secret, 'a')
    await first.close()
    for (const entry of readdirSync(path, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue
      expect(readFileSync(join(entry.parentPath, entry.name)).includes(WORD)).toBe(false)
    }
    const second = await createGatewayBeside(config)
    onTestFinished(() => second.close())
    const again = await at(second.url, secret, 'a')
    expect([again.headers['idempotent-replayed'], again.text]).toEqual(['true', answer.text])
  })
})
