/** The request log, as an operator asks for it. */
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, hello, MOCK_CONFIG, type TestGateway } from '../../_setup.ts'
import { call, served, start, urlOf } from '../../_cli.ts'
import { folder } from '../../_folder.ts'
import { loadConfig } from '../../../src/config/config.ts'
import { seed } from '../../../src/gateway/seed.ts'

const TOKEN = 'admin-token-of-the-test'
let gateway: TestGateway
beforeAll(async () => {
  const slow = {
    pricing: { prompt: '0.000001', completion: '0.000002' },
    deployments: [{ provider: 'mock', model: 'echo', options: { paceMs: 400 } }],
  }
  const models = { ...MOCK_CONFIG.models, 'mock/slow': slow }
  gateway = await createTestGateway({ ...MOCK_CONFIG, models, admin: { token: TOKEN } })
})
afterAll(() => gateway.close())

/** A gateway of a folder with the accounts of its configuration, in this process. Its caller closes it. */
async function stoppable(cwd: string): Promise<TestGateway> {
  const loaded = await loadConfig({ cwd, env: { SLUICEGATE__LOG__ACCESS: 'false' } })
  const kept = await createTestGateway(loaded, cwd, { withAccount: false })
  await seed(kept.gateway, { generate: true })
  return kept
}

const get = (path: string) => gateway.ask('GET', `/admin${path}`, { key: TOKEN })
const chat = (key: string, body: object = hello) =>
  gateway.ask('POST', '/v1/chat/completions', { key, body })

describe('the request log', () => {
  it('has every call with its circumstances, whole and streamed, and finds each by its id', async () => {
    const { id, secret } = await gateway.newKey()
    const whole = await chat(secret)
    const streamed = await chat(secret, { ...hello, stream: true })
    const unknown = await chat(secret, { ...hello, model: 'mock/nothing' })
    const { data, next, searched_to } = (await get(`/requests?key=${id}`)).json
    expect([next, searched_to]).toEqual([null, null])
    expect(data.map((call: any) => call.id)).toEqual(
      [unknown, streamed, whole].map(({ headers }) => headers['x-request-id']),
    )
    const [third, second, first] = data
    expect(first).toMatchObject({
      running: false,
      endpoint: '/v1/chat/completions',
      method: 'POST',
      account_id: 'acme',
      key_id: id,
      model: 'mock/echo',
      deployment: 'mock/echo',
      status: 200,
      code: null,
      outcome: 'completed',
      stream: false,
      cost_usd: whole.json.usage.cost,
      usage: { prompt_tokens: whole.json.usage.prompt_tokens, images: null },
      attempts: [],
      error: null,
    })
    const { prompt_cost, completion_cost } = whole.json.usage.cost_details
    expect(first.cost_details).toEqual({ prompt_cost, completion_cost })
    expect(second).toMatchObject({ stream: true, outcome: 'completed' })
    expect(second.times.first_ms).toBeGreaterThanOrEqual(second.times.admit_ms)
    expect(third).toMatchObject({
      status: 404,
      code: 'model_not_found',
      outcome: 'failed',
      model: null,
      cost_usd: null,
      error: unknown.json.error.message,
    })
    expect(first.times.settled_ms).toBeLessThanOrEqual(first.times.total_ms)
    expect([first.end, third.end]).toEqual(['completed', 'rejected'])
    const rejected = (await get(`/requests?key=${id}&end=blocked&end=rejected`)).json.data
    expect(rejected.map((call: any) => call.id)).toEqual([third.id])
    const wrong = (await get('/requests?end=refused')).json.error
    expect(wrong.message).toContain('completed, blocked, limited, rejected, failed, left')
    const [booked] = (await get('/accounts/acme/ledger?kind=usage&limit=2')).json.data.filter(
      ({ request_id }: any) => request_id === first.id,
    )
    const { limits, ledger, content, bill, ...rest } = (await get(`/requests/${first.id}`)).json
      .data
    expect(rest).toEqual(first)
    expect(bill.cost_usd).toBe(rest.cost_usd)
    expect(content).toBe('not kept')
    expect(ledger).toEqual({ seq: booked.seq, cost_usd: -booked.amount_usd })
    expect(ledger.cost_usd).toBe(first.cost_usd)
    const { limit, left } = first.rate
    expect(limits).toEqual([{ limit: 'rpm', value: limit, used: limit - left, left }])
    // Nothing was charged for a model that does not exist.
    expect((await get(`/requests/${third.id}`)).json.data.ledger).toBeNull()
  })

  it('has the limits that were in force, also when they have changed since', async () => {
    const { id, secret } = await gateway.newKey({
      concurrency: 3,
      spendCap: { usd: '2.50', scope: 'month' },
    })
    const answer = await chat(secret)
    await gateway.ask('PATCH', `/admin/keys/${id}`, {
      key: TOKEN,
      body: { concurrency_limit: 9, spend_cap: null },
    })
    await chat(secret)
    const { data } = (await get(`/requests/${answer.headers['x-request-id']}`)).json
    expect(data.limits.slice(1)).toEqual([
      { limit: 'key.concurrency', value: 3, used: null, left: null },
      { limit: 'key.cap.month', value: '2.50', used: null, left: null },
    ])
  })

  it('says which limit refused a call', async () => {
    const { id, secret } = await gateway.newKey({ rpm: 1 })
    await chat(secret)
    expect((await chat(secret)).status).toBe(429)
    const { data } = (await get(`/requests?key=${id}&limited_by=key.rpm`)).json
    expect(data).toMatchObject([{ status: 429, limited_by: 'key.rpm', code: 'rate_limited' }])
    const poor = await gateway.newKey({ spendCap: { usd: '0.0000001', scope: 'day' } })
    await chat(poor.secret)
    expect((await chat(poor.secret)).status).toBe(403)
    expect((await get(`/requests?key=${poor.id}&status=4xx`)).json.data).toMatchObject([
      { limited_by: 'key.cap.day', code: 'key_limit_exceeded' },
    ])
  })

  it('shows running calls first, and as ended when they have', async () => {
    const { id, secret } = await gateway.newKey()
    const messages = [{ role: 'user', content: 'one two three four five' }]
    const slow = { model: 'mock/slow', messages, stream: true }
    const running = chat(secret, slow)
    const shown = () => get(`/requests?key=${id}`).then(({ json }) => json.data)
    await expect.poll(shown).toMatchObject([{ running: true, outcome: null }])
    const [{ id: request }] = (await get(`/requests?key=${id}&running=true`)).json.data
    const limits = [expect.objectContaining({ limit: 'rpm', used: 1 })]
    const named = { running: true, key_name: 'test', limits }
    expect((await get(`/requests/${request}`)).json.data).toMatchObject(named)
    await running
    await expect
      .poll(shown)
      .toMatchObject([{ id: request, running: false, status: 200, key_name: 'test' }])
  })

  it('refuses what it cannot read, and says what would be right', async () => {
    const cases: [string, string, RegExp][] = [
      ['limt=5', 'limt', /Unknown parameter 'limt'\. Known: .*limit/],
      ['limit=0', 'limit', /1 to 200/],
      ['status=abc', 'status', /404.*4xx/],
      ['after=17', 'after', /id of a request/],
      ['from=yesterday', 'from', /2026-11-23/],
      ['min_cost_usd=much', 'min_cost_usd', /0\.05/],
      ['min_cost_usd=10000000', 'min_cost_usd', /0\.05/],
      ['status=404&'.repeat(101), 'status', /at most 100/],
      ['model=a&'.repeat(101), 'model', /at most 100/],
      ['min_ms=-1', 'min_ms', /whole number/],
      ['stream=maybe', 'stream', /true or false/],
    ]
    for (const [query, param, message] of cases) {
      const { status, json } = await get(`/requests?${query}`)
      expect(status).toBe(400)
      expect(json.error).toMatchObject({ param, message: expect.stringMatching(message) })
    }
    for (const id of ['req_01J00000000000000000000000', 'req_', 'other']) {
      expect((await get(`/requests/${id}`)).status).toBe(404)
    }
  })
})

describe('the request log of a gateway process', () => {
  const CONFIG = JSON.stringify({
    server: { port: 0 },
    admin: { token: TOKEN },
    seed: {
      accounts: [
        {
          id: 'acme',
          name: 'Acme',
          credits: '1',
          keys: [{ id: 'k', name: 'K', secret: 'secret-of-the-test-0123456789' }],
        },
      ],
    },
    providers: { mock: { use: 'mock' } },
    models: { 'mock/echo': { pricing: { prompt: '0.000001', completion: '0.000002' } } },
  })

  it('is in files of the data folder, and there after a restart and a kill', async () => {
    const cwd = await folder({ 'gateway.config.json': CONFIG })
    const ids: string[] = []
    for (const end of ['stop', 'kill', 'none'] as const) {
      const stopped = end === 'stop' ? await stoppable(cwd) : undefined
      const killed = end === 'kill' ? await start(['serve'], { cwd }) : undefined
      const url = stopped?.url ?? (killed ? await urlOf(killed) : await served({ cwd }))
      const at = ['--url', url, '--token', TOKEN]
      const answer = await fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: {
          authorization: 'Bearer secret-of-the-test-0123456789',
          'content-type': 'application/json',
        },
        body: JSON.stringify(hello),
      })
      expect(answer.status).toBe(200)
      ids.unshift(answer.headers.get('x-request-id')!)
      const list = await call(['requests', 'list', '--json', ...at], { cwd })
      expect(JSON.parse(list.out).map(({ id }: { id: string }) => id)).toEqual(ids)
      const table = await call(['requests', 'list', '--status', '2xx', ...at], { cwd })
      expect(table.out).toContain(ids[0])
      const card = await call(['requests', 'show', ids[0]!, ...at], { cwd })
      expect(card.out).toMatch(/^times\.total_ms +\d+$/m)
      expect(card.out).toMatch(/^cost_usd +0\.0000\d+$/m)
      await stopped?.close()
      killed?.child.kill('SIGKILL')
      await killed?.ended
    }
  })

  it('may lose calls, which are answered from the ledger', async () => {
    const cwd = await folder({ 'gateway.config.json': CONFIG })
    const headers = {
      authorization: 'Bearer secret-of-the-test-0123456789',
      'content-type': 'application/json',
      'x-service-tag': 'nightly',
    }
    const first = await stoppable(cwd)
    const body = JSON.stringify(hello)
    const url = `${first.baseURL}/chat/completions`
    const answer = await fetch(url, { method: 'POST', headers, body })
    const { usage } = (await answer.json()) as any
    const id = answer.headers.get('x-request-id')!
    await first.close()
    const log = join(cwd, 'data', 'log')
    const days = (await readdir(log)).filter((name) => /^\d{4}-\d\d-\d\d$/.test(name))
    expect(days.length).toBeGreaterThan(0)
    for (const name of days) await rm(join(log, name), { recursive: true })
    const at = ['--url', await served({ cwd }), '--token', TOKEN]
    const shown = await call(['requests', 'show', id, '--json', ...at], { cwd })
    expect(JSON.parse(shown.out)).toMatchObject({
      id,
      log: 'missing',
      account_id: 'acme',
      key_id: 'k',
      model: 'mock/echo',
      outcome: 'completed',
      status: null,
      tag: 'nightly',
      cost_usd: usage.cost,
      usage: { prompt_tokens: usage.prompt_tokens, completion_tokens: usage.completion_tokens },
      ledger: { cost_usd: usage.cost },
    })
  })
})
