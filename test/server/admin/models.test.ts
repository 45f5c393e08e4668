/** What operators see of guards, models and vendors: decisions, failures, calls of the last day. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { guardPlugin, wordGuard } from '../../guard/_doubles.ts'
import { guarded, wholeOf, type Guarded } from '../../guard/_setup.ts'
import { json } from '../../upstream.ts'

const TOKEN = 'a-token-of-the-operator'
let g: Guarded
let blocking: string

beforeAll(async () => {
  const remote = wordGuard('anything', {
    enforces: ['deny:math'],
    execution: 'remote',
    checkInput: (units) => units.map(() => ({ action: 'pass' as const })),
  })
  const use = [guardPlugin('words', wordGuard('forbidden')), guardPlugin('far', remote)]
  g = await guarded(use, {}, { admin: { token: TOKEN } })
  const deny = ['code' as const, 'math' as const]
  const key = await g.t.newKey({ policy: { version: 1, deny, bannedPatterns: ['x', 'heron'] } })
  blocking = key.id
  g.vendor.answer(wholeOf({ content: 'Fine.' }))
  const ask = (content: string) =>
    g.t.chat({ model: 'acme/swift', messages: [{ role: 'user', content }] }, { key: key.secret })
  expect((await ask('A heron, a heron.')).status).toBe(200)
  expect((await ask('A bittern.')).status).toBe(200)
  const watched = { bannedPatterns: ['heron'], guard: { mode: 'monitor' as const } }
  await g.ask(watched, { messages: [{ role: 'user', content: 'A heron.' }] })
  g.vendor.answer(json({ error: { message: 'no' } }, 500))
  expect((await g.ask(undefined)).status).toBe(502)
})
afterAll(() => g[Symbol.asyncDispose]())

const get = (path: string) => g.t.ask('GET', `/admin${path}`, { key: TOKEN })

describe('GET /admin/guard', () => {
  it('counts decisions by day, rule, mode, side and outcome', async () => {
    const { status, json } = await get('/guard')
    expect(status).toBe(200)
    const day = new Date().toISOString().slice(0, 10)
    expect(json.data.decisions).toEqual([
      { day, rule: '', mode: 'block', side: 'all', outcome: 'passed', calls: 1 },
      { day, rule: 'bannedPatterns', mode: 'block', side: 'input', outcome: 'blocked', calls: 1 },
      { day, rule: 'bannedPatterns', mode: 'monitor', side: 'input', outcome: 'seen', calls: 1 },
    ])
    expect(json.data.keys).toHaveLength(2)
    // Each sum of the range leads to the list of its calls.
    expect(json.data.rules).toHaveLength(3)
    for (const { calls, where } of [...json.data.rules, ...json.data.keys]) {
      const list = await get(`/requests?${new URLSearchParams(where)}`)
      expect(list.json.data, JSON.stringify(where)).toHaveLength(calls)
    }
    const own = (await get(`/guard?key=${blocking}`)).json.data
    expect(own.keys).toEqual([
      {
        account_id: 'acme',
        key_id: blocking,
        key_name: 'test',
        rule: 'bannedPatterns',
        mode: 'block',
        side: 'input',
        outcome: 'blocked',
        calls: 1,
        where: expect.objectContaining({ key: blocking }),
      },
    ])
    expect((await get('/guard?from=2020-01-01&to=2020-02-01')).json.data.decisions).toEqual([])
    expect((await get('/guard?rule=scope')).json.error.param).toBe('rule')
  })

  it('shows circuits of guards, and how long those elsewhere take', async () => {
    const { guards } = (await get('/guard')).json.data
    expect(guards.map(({ guard }: { guard: string }) => guard)).toEqual(['words', 'far'])
    const [words, far] = guards
    expect(words).toMatchObject({ execution: 'local', mode: 'block', errors: [], latency: [] })
    expect(words.circuits).toEqual(
      expect.arrayContaining([
        { origin: 'key', state: 'closed' },
        { origin: 'request', state: 'closed' },
      ]),
    )
    const [latency] = far.latency
    expect(latency).toMatchObject({ side: 'input', p50_ms: expect.any(Number) })
    expect(latency.calls).toBeGreaterThan(0)
  })

  it('calls that are only watched are found in the request log', async () => {
    const { data } = (await get('/requests?guard=monitored')).json
    expect(data.map(({ guard }: any) => guard)).toEqual([
      { outcome: 'monitored', rules: ['bannedPatterns[0]'] },
    ])
  })
})

describe('GET /admin/models', () => {
  it('shows calls, cost and failures of the last 24 hours', async () => {
    const { data } = (await get('/models?q=SWIFT')).json
    expect(data).toHaveLength(1)
    const [swift] = data
    // The refused call asked no vendor, and is a call of the model.
    expect(swift.last_24h).toMatchObject({ calls: 4, failures: { upstream_error: 2 } })
    expect(swift.last_24h.cost_usd).toBeGreaterThan(0)
    expect(swift.deployments[0].failures_24h).toEqual({ upstream_error: 2 })
    expect(swift.price_source).toEqual({ from: 'own' })
  })

  it('is sorted by what is asked for', async () => {
    const ids = async (sort: string) =>
      (await get(`/models?sort=${sort}`)).json.data.map(({ id }: { id: string }) => id)
    expect((await ids('-calls'))[0]).toBe('acme/swift')
    expect((await ids('cost_usd')).at(-1)).toBe('acme/swift')
    expect(await ids('-id')).toEqual(['acme/swift', 'acme/judge', 'acme/free'])
    expect((await get('/models?sort=weight')).json.error.param).toBe('sort')
  })

  it('is narrowed by vendor and by use, and comes in pages', async () => {
    const ids = async (query: string) =>
      (await get(`/models?${query}`)).json.data.map(({ id }: { id: string }) => id)
    expect(await ids('used=1d')).toEqual(['acme/swift'])
    expect(await ids('vendor=acme')).toHaveLength(3)
    expect(await ids('vendor=other')).toEqual([])
    const first = (await get('/models?limit=2')).json
    expect(first.next).toBe('acme/judge')
    const second = (await get(`/models?limit=2&after=${first.next}`)).json
    expect(second).toMatchObject({ data: [{ id: 'acme/swift' }], next: null })
    for (const [param, wrong] of [
      ['used', '30'],
      ['limit', '0'],
      ['after', 'acme/none'],
    ] as const)
      expect((await get(`/models?${param}=${wrong}`)).json.error.param).toBe(param)
  })

  it('says what the entry says of the model', async () => {
    const [judge] = (await get('/models?q=judge')).json.data
    expect(judge).toMatchObject({ name: null, created: null, deprecated_on: null, wildcard: null })
    expect(Object.keys(judge)).toEqual(
      expect.arrayContaining(['context_length', 'max_output_tokens']),
    )
  })
})

describe('deployments that are taken out', () => {
  const path = async (what: string) => {
    const { data } = (await get('/models?q=judge')).json
    return `/admin/deployments/${encodeURIComponent(data[0].deployments[0].id)}/${what}`
  }
  const post = async (what: string, body: object = {}) =>
    g.t.ask('POST', await path(what), { key: TOKEN, body })
  const judge = { model: 'acme/judge', messages: [{ role: 'user', content: 'Hello.' }] }

  it('get no calls until they are taken back in', async () => {
    g.vendor.answer(wholeOf({ content: 'Fine.' }))
    expect((await g.t.chat(judge)).status).toBe(200)
    const out = await post('cooldown', { seconds: 600 })
    expect([out.status, out.json.data.health]).toMatchObject([
      200,
      { state: 'cooldown', taken_out: true, rests_until: expect.any(String) },
    ])
    const before = g.vendor.requests.length
    const balance = await g.t.balance()
    const refused = await g.t.chat(judge)
    expect([refused.status, refused.json.error.code]).toEqual([503, 'service_unavailable'])
    expect(refused.headers['retry-after']).toBe('30')
    expect(g.vendor.requests.length).toBe(before)
    expect(await g.t.balance()).toBe(balance)
    const back = await post('resume')
    expect([back.status, back.json.data.health.state]).toEqual([200, 'healthy'])
    expect((await g.t.chat(judge)).status).toBe(200)
    const { data } = (await get('/audit?action=deployment.cooldown')).json
    expect(data[0].changes).toContainEqual({
      member: 'state',
      before: 'healthy',
      after: 'cooldown',
    })
  })

  it('are refused by name and time', async () => {
    const wrong = await post('cooldown', { seconds: 86_401 })
    expect([wrong.status, wrong.json.error.param]).toEqual([400, 'seconds'])
    const unknown = '/admin/deployments/nothing/resume'
    expect((await g.t.ask('POST', unknown, { key: TOKEN, body: {} })).status).toBe(404)
  })
})

it('a gateway of its own lists itself', async () => {
  const { data } = (await get('/gateways')).json
  expect(data).toEqual([
    {
      id: expect.stringMatching(/^gw_/),
      own: true,
      worker: null,
      version: g.t.gateway.version,
      node: process.versions.node,
      started_at: expect.any(String),
      running: 0,
      ledger: { ok: true, outbox: 0 },
      usage_lag_rows: expect.any(Number),
      log: { rows: expect.any(Number), dropped: {} },
      managed: { revision: 0, error: null, kid: null },
    },
  ])
})
