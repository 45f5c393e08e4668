import { Ajv2020 } from 'ajv/dist/2020.js'
import * as fc from 'fast-check'
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { hashSecret } from '../../../src/accounts/secrets.ts'
import { Unavailable } from '../../../src/errors/errors.ts'
import { SqliteLedger } from '../../../src/state/sqlite/engine.ts'
import { formatPico } from '../../../src/money/money.ts'
import {
  createTestGateway,
  hello,
  MOCK_CONFIG,
  type Answer,
  type TestGateway,
} from '../../_setup.ts'
import { runs } from '../../_runs.ts'

const TOKEN = 'admin-token-of-the-test'
const isErrorBody = new Ajv2020({ strict: false }).compile(
  JSON.parse(readFileSync(new URL('../../wire/schemas/error.json', import.meta.url), 'utf8')),
)

let gateway: TestGateway
beforeAll(async () => {
  gateway = await createTestGateway({ ...MOCK_CONFIG, admin: { token: TOKEN } })
})
afterAll(() => gateway.close())

const get = (path: string) => gateway.ask('GET', `/admin${path}`, { key: TOKEN })
const post = (path: string, body: unknown) =>
  gateway.ask('POST', `/admin${path}`, { key: TOKEN, body })
const patch = (path: string, body: unknown) =>
  gateway.ask('PATCH', `/admin${path}`, { key: TOKEN, body })

let count = 0
/** An account of its own for each test, so that none sees another's rows. */
async function newAccount(usd?: string): Promise<string> {
  const id = `account-${++count}`
  expect((await post('/accounts', { name: 'Test', id })).status).toBe(201)
  if (usd) expect((await post(`/accounts/${id}/credits`, { usd })).status).toBe(201)
  return id
}

async function newKey(
  account: string,
  settings: object = {},
): Promise<{ id: string; key: string }> {
  const answer = await post(`/accounts/${account}/keys`, { name: 'test', ...settings })
  expect(answer.status, answer.text).toBe(201)
  return { id: answer.json.data.id, key: answer.json.key }
}

async function idsOf(path: string): Promise<string[]> {
  return (await get(path)).json.data.map(({ id }: { id: string }) => id)
}

function expectError(
  answer: Answer,
  status: number,
  code: string,
  param: string | null = null,
): void {
  expect(answer.status, answer.text).toBe(status)
  expect(isErrorBody(answer.json), answer.text).toBe(true)
  expect(answer.json.error).toMatchObject({ code, param })
}

describe('the token of the admin API', () => {
  it('lets a request in', async () => {
    expect((await get('/accounts')).status).toBe(200)
  })

  it.each([
    ['no token', null],
    ['a wrong one', `${TOKEN}x`],
    ['the start of it', TOKEN.slice(0, -1)],
    ['text that is no header value for it', 'a b'],
  ])('lets none in with %s', async (_, key) => {
    const answer = await gateway.ask('GET', '/admin/accounts', { key })
    expectError(answer, 401, 'invalid_api_key')
    expect(answer.headers['www-authenticate']).toBe('Bearer')
    expect(answer.text).not.toContain(TOKEN)
  })

  it('is not the owner of an API key', async () => {
    expectError(await gateway.ask('GET', '/admin/accounts'), 401, 'invalid_api_key')
  })

  it('says nothing about routes before the token was seen', async () => {
    const answer = await gateway.ask('GET', '/admin/no-such-route', { key: null })
    expectError(answer, 401, 'invalid_api_key')
  })

  it('does not exist without a token in the configuration', async () => {
    await using closed = await createTestGateway()
    for (const path of ['/admin', '/admin/accounts', '/admin/no-such-route']) {
      expectError(await closed.ask('GET', path, { key: TOKEN }), 404, 'unknown_url')
    }
  })

  it('carries the headers of every answer, and is never cached', async () => {
    for (const answer of [await get('/status'), await get('/no-such-route')]) {
      expect(answer.headers['x-service-request-id']).toMatch(/^req_[0-9A-Z]{26}$/)
      expect(answer.headers['access-control-allow-origin']).toBeUndefined()
    }
    expect((await get('/status')).headers['cache-control']).toBe('no-store')
  })
})

describe('routes', () => {
  it('that do not exist are 404', async () => {
    expectError(await get('/no-such-route'), 404, 'unknown_url')
    expectError(await get('/accounts/a/b/c'), 404, 'unknown_url')
  })

  it('name the methods they take', async () => {
    const answer = await gateway.ask('DELETE', '/admin/accounts', { key: TOKEN })
    expectError(answer, 405, 'method_not_allowed')
    expect(answer.headers.allow).toBe('GET, POST, HEAD')
  })

  it('answer HEAD like GET, without a body', async () => {
    const answer = await gateway.ask('HEAD', '/admin/status', { key: TOKEN })
    expect([answer.status, answer.text]).toEqual([200, ''])
  })
})

describe('accounts', () => {
  it('are created with or without an id, and shown', async () => {
    const named = await post('/accounts', { name: 'Acme Ltd', id: 'acme-ltd' })
    expect(named.status).toBe(201)
    expect(named.json.data).toMatchObject({
      id: 'acme-ltd',
      name: 'Acme Ltd',
      balance_usd: 0,
      free_tier: true,
      keys: [],
    })
    const { id } = (await post('/accounts', { name: 'Other', id: null })).json.data
    expect(id).toMatch(/^\S+$/)
    expect((await get(`/accounts/${id}`)).json.data.name).toBe('Other')
  })

  it('are not created twice', async () => {
    const id = await newAccount()
    expectError(await post('/accounts', { name: 'Again', id }), 400, 'invalid_value', 'id')
  })

  it('are listed in pages that have every account once', async () => {
    const made = [await newAccount(), await newAccount(), await newAccount()]
    const seen: string[] = []
    let next: string | null = null
    do {
      const page: Answer = await get(`/accounts?limit=2${next ? `&after=${next}` : ''}`)
      expect(page.json.data.length).toBeLessThanOrEqual(2)
      seen.push(...page.json.data.map(({ id }: { id: string }) => id))
      next = page.json.next
    } while (next)
    expect(new Set(seen).size).toBe(seen.length)
    expect(seen).toEqual(expect.arrayContaining(made))
  })

  it('refuse bad pages', async () => {
    for (const limit of ['0', '201', 'x', '-1', '1.5']) {
      expectError(await get(`/accounts?limit=${limit}`), 400, 'invalid_value', 'limit')
    }
    expectError(await get('/accounts?after=nobody'), 400, 'invalid_value', 'after')
  })

  it('that do not exist are 404 on every route', async () => {
    for (const path of ['/accounts/nobody', '/accounts/nobody/ledger', '/keys?account=nobody']) {
      expectError(await get(path), 404, 'not_found')
    }
    expectError(await post('/accounts/nobody/credits', { usd: '1' }), 404, 'not_found')
    expectError(await post('/accounts/nobody/keys', { name: 'x' }), 404, 'not_found')
    expectError(await get('/ledger/verify?account=nobody'), 404, 'not_found')
  })
})

describe('bodies', () => {
  it.each<[string, object, string, string | null]>([
    ['a missing name', {}, 'missing_required_parameter', 'name'],
    ['an empty name', { name: '' }, 'invalid_value', 'name'],
    ['a name that is no text', { name: 7 }, 'invalid_type', 'name'],
    ['an unknown member', { name: 'x', colour: 'red' }, 'unsupported_parameter', 'colour'],
    ['an id with a slash', { name: 'x', id: 'a/b' }, 'invalid_value', 'id'],
  ])('of accounts are refused for %s', async (_, body, code, param) => {
    expectError(await post('/accounts', body), 400, code, param)
  })

  it.each<[string, object, string, string]>([
    ['a rate of 0', { rpm_limit: 0 }, 'invalid_value', 'rpm_limit'],
    ['a rate that is text', { rpm_limit: '60' }, 'invalid_type', 'rpm_limit'],
    ['half a call at once', { concurrency_limit: 0.5 }, 'invalid_value', 'concurrency_limit'],
    ['a cap as a number', { spend_cap: { usd: 5, scope: 'day' } }, 'invalid_type', 'spend_cap.usd'],
    [
      'a cap of nothing',
      { spend_cap: { usd: '0', scope: 'day' } },
      'invalid_value',
      'spend_cap.usd',
    ],
    [
      'a cap per year',
      { spend_cap: { usd: '5', scope: 'year' } },
      'invalid_value',
      'spend_cap.scope',
    ],
    [
      'a cap without a scope',
      { spend_cap: { usd: '5' } },
      'missing_required_parameter',
      'spend_cap.scope',
    ],
    ['a date that is none', { expires_at: 'tomorrow' }, 'invalid_value', 'expires_at'],
    ['the 30th of February', { expires_at: '2027-02-30T00:00:00Z' }, 'invalid_value', 'expires_at'],
    [
      'a moment without a zone',
      { expires_at: '2027-01-31T00:00:00' },
      'invalid_value',
      'expires_at',
    ],
    ['a model with white space', { models: ['mock/ echo'] }, 'invalid_value', 'models.0'],
    ['a model without a name', { models: [''] }, 'invalid_value', 'models.0'],
    ['no models at all', { models: [] }, 'invalid_value', 'models'],
    ['a policy that is text', { policy: 'no code' }, 'invalid_type', 'policy'],
    ['a policy of another version', { policy: { version: 2 } }, 'invalid_policy', 'policy.version'],
    [
      'an unknown category',
      { policy: { version: 1, deny: ['sports'] } },
      'invalid_policy',
      'policy.deny[0]',
    ],
  ])('of keys are refused for %s', async (_, settings, code, param) => {
    const id = await newAccount()
    expectError(await post(`/accounts/${id}/keys`, { name: 'x', ...settings }), 400, code, param)
    const key = await newKey(id)
    expectError(await patch(`/keys/${key.id}`, settings), 400, code, param)
  })

  it.each<[string, unknown, string]>([
    ['a number', 5, 'invalid_type'],
    ['nothing', '0', 'invalid_value'],
    ['a debt', '-5', 'invalid_value'],
    ['13 fractional digits', '0.0000000000001', 'invalid_value'],
    ['words', 'ten', 'invalid_value'],
    ['an infinite amount', '1e99', 'invalid_value'],
    ['more than a top-up may be', '4000001', 'invalid_value'],
  ])('of credits are refused for %s', async (_, usd, code) => {
    const id = await newAccount()
    expectError(await post(`/accounts/${id}/credits`, { usd }), 400, code, 'usd')
    expect((await get(`/accounts/${id}`)).json.data).toMatchObject({
      balance_usd: 0,
      free_tier: true,
    })
  })

  it('have to be JSON objects, of a bearable size', async () => {
    expectError(await post('/accounts', '{"name":'), 400, 'invalid_json')
    expectError(await post('/accounts', '[1]'), 400, 'invalid_json')
    expectError(await post('/accounts', ''), 400, 'invalid_json')
    expectError(await post('/accounts', { name: 'x'.repeat(300_000) }), 413, 'request_too_large')
    const form = { key: TOKEN, body: 'name=x', headers: { 'content-type': 'text/plain' } }
    expectError(await gateway.ask('POST', '/admin/accounts', form), 415, 'unsupported_content_type')
  })
})

describe('credits', () => {
  it('that may or may not be booked can be repeated without being booked twice', async () => {
    const id = await newAccount()
    const { ledger } = gateway.gateway.runtime
    const book = vi.spyOn(ledger, 'book')
    onTestFinished(() => book.mockRestore())
    book.mockImplementationOnce(async (wanted) => {
      await SqliteLedger.prototype.book.call(ledger as SqliteLedger, wanted)
      throw new Unavailable('service_unavailable', 'The gateway cannot reach its ledger right now.')
    })
    const answer = await post(`/accounts/${id}/credits`, { usd: '5' })
    expectError(answer, 503, 'service_unavailable')
    const [, reference] = /reference "([^"]+)"/.exec(answer.json.error.message) ?? []
    const again = await post(`/accounts/${id}/credits`, { usd: '5', reference })
    expect(again.json.data).toMatchObject({ duplicate: true, balance_usd: 5 })
  })

  it('raise the balance exactly and end the free tier', async () => {
    const id = await newAccount()
    const first = await post(`/accounts/${id}/credits`, { usd: '0.000000000001' })
    expect(first.status).toBe(201)
    expect(first.json.data).toMatchObject({ account_id: id, free_tier: false, duplicate: false })
    const second = await post(`/accounts/${id}/credits`, { usd: '123456.789' })
    expect(second.text).toContain('"balance_usd":123456.789000000001')
    expect((await get(`/accounts/${id}`)).text).toContain('"balance_usd":123456.789000000001')
  })

  it('and other things are made once for each Idempotency-Key', async () => {
    const id = await newAccount()
    const named = (path: string, body: object, name = 'once') =>
      gateway.ask('POST', `/admin${path}`, {
        key: TOKEN,
        body,
        headers: { 'idempotency-key': name },
      })
    for (const [path, body] of Object.entries({
      [`/accounts/${id}/credits`]: { usd: '5' },
      [`/accounts/${id}/adjust`]: { usd: '-1', reason: 'x' },
      [`/accounts/${id}/keys`]: { name: 'a key' },
      '/accounts': { name: 'an account' },
    })) {
      const [first, again] = [await named(path, body), await named(path, body)]
      expect([first.status, again.status]).toEqual([201, 200])
      expect(again.headers['idempotent-replayed']).toBe('true')
      expect(again.json.data).toMatchObject({ duplicate: true })
      expect(again.json.key).toBeUndefined()
      if (path.endsWith('s')) expect(again.json.data.id).toBe(first.json.data.id)
      expect((await named(path, body, 'twice')).status).toBe(201)
    }
    expect((await named(`/accounts/${id}/credits`, { usd: '6' })).status).toBe(409)
    expect((await get(`/accounts/${id}`)).json.data.balance_usd).toBe(8)
    expectError(await named('/accounts', { name: 'x' }, 'a b'), 400, 'invalid_value')
  })

  it('are booked once per reference, and say so', async () => {
    const id = await newAccount()
    const body = { usd: '10.00', reference: 'invoice 17', note: 'bank transfer' }
    expect((await post(`/accounts/${id}/credits`, body)).status).toBe(201)
    const again = await post(`/accounts/${id}/credits`, { ...body, usd: '10' })
    expect(again.status).toBe(200)
    expect(again.json.data).toMatchObject({ duplicate: true, amount_usd: 10, balance_usd: 10 })
    const other = await post(`/accounts/${id}/credits`, { ...body, usd: '9.99' })
    expectError(other, 409, 'reference_taken', 'reference')
    expect(other.json.error.message).toContain(
      '"invoice 17" was booked with 10 USD before, not with 9.99 USD',
    )
    expect((await get(`/accounts/${id}`)).json.data.balance_usd).toBe(10)
    const rows = (await get(`/accounts/${id}/ledger`)).json.data
    expect(rows).toHaveLength(1)
    expect(rows[0]).toMatchObject({
      kind: 'top-up',
      reference: 'invoice 17',
      note: 'bank transfer',
      amount_usd: 10,
    })
  })

  it('without a reference are booked every time', async () => {
    const id = await newAccount()
    await post(`/accounts/${id}/credits`, { usd: '1' })
    await post(`/accounts/${id}/credits`, { usd: '1' })
    expect((await get(`/accounts/${id}`)).json.data.balance_usd).toBe(2)
  })
})

describe('adjustments', () => {
  it('correct a balance either way, below zero too, and leave the free tier alone', async () => {
    const id = await newAccount()
    const body = { usd: '-2.000000000001', reason: 'charged twice', reference: 'ticket 4' }
    const answer = await post(`/accounts/${id}/adjust`, body)
    expect(answer.status).toBe(201)
    expect(answer.text).toContain('"amount_usd":-2.000000000001,"balance_usd":-2.000000000001')
    expect(answer.json.data).toMatchObject({ account_id: id, duplicate: false })
    const other = await post(`/accounts/${id}/adjust`, { ...body, usd: '2.000000000001' })
    expectError(other, 409, 'reference_taken', 'reference')
    expect(other.json.error.message).toContain('with -2.000000000001 USD before')
    const again = await post(`/accounts/${id}/adjust`, body)
    expect(again.status).toBe(200)
    expect(again.json.data).toMatchObject({ duplicate: true, amount_usd: -2.000000000001 })
    const given = await post(`/accounts/${id}/adjust`, { usd: '5', reason: 'goodwill' })
    expect(given.json.data.balance_usd).toBe(2.999999999999)
    const shown = { balance_usd: 2.999999999999, free_tier: true }
    expect((await get(`/accounts/${id}`)).json.data).toMatchObject(shown)
    const rows = (await get(`/accounts/${id}/ledger`)).json.data
    expect(rows).toMatchObject([
      { kind: 'adjust', amount_usd: 5, reason: 'goodwill' },
      { kind: 'adjust', reference: 'ticket 4', reason: 'charged twice' },
    ])
    expect((await get(`/ledger/verify?account=${id}`)).json.data).toMatchObject({ ok: true })
  })

  it.each<[string, object, string, string]>([
    ['without a reason', { usd: '1' }, 'missing_required_parameter', 'reason'],
    ['with an empty reason', { usd: '1', reason: '' }, 'invalid_value', 'reason'],
    ['of nothing', { usd: '-0.00', reason: 'x' }, 'invalid_value', 'usd'],
    ['with two signs', { usd: '--1', reason: 'x' }, 'invalid_value', 'usd'],
    ['with a number', { usd: -1, reason: 'x' }, 'invalid_type', 'usd'],
    ['above the bound', { usd: '-4000001', reason: 'x' }, 'invalid_value', 'usd'],
    ['with a note', { usd: '1', reason: 'x', note: 'y' }, 'unsupported_parameter', 'note'],
  ])('are refused %s', async (_, body, code, param) => {
    const id = await newAccount()
    expectError(await post(`/accounts/${id}/adjust`, body), 400, code, param)
    expect((await get(`/accounts/${id}/ledger`)).json.data).toEqual([])
  })

  it('have a bound each, and the balance has none', async () => {
    const id = await newAccount()
    const most = { usd: '-4000000', reason: 'a loan' }
    expect((await post(`/accounts/${id}/adjust`, most)).status).toBe(201)
    const more = await post(`/accounts/${id}/adjust`, { usd: '-1', reason: 'more of it' })
    expect(more.status).toBe(201)
    expect((await get(`/accounts/${id}`)).json.data.balance_usd).toBe(-4_000_001)
  })

  it('need an account', async () => {
    const body = { usd: '1', reason: 'x' }
    expectError(await post('/accounts/nobody/adjust', body), 404, 'not_found')
  })
})

describe('limits of an account', () => {
  it('hold for its keys together, and are shown with what is used', async () => {
    const account = await newAccount('10')
    const [first, second] = [await newKey(account), await newKey(account, { rpm_limit: 7 })]
    const limits = { rpm_limit: 2, spend_cap: { usd: '5.00', scope: 'month' }, note: 'a trial' }
    const changed = await patch(`/accounts/${account}`, limits)
    expect(changed.json.data).toMatchObject({ ...limits, spend_cap: { usd: '5', scope: 'month' } })
    const chat = (key: string) => gateway.chat(hello, { key })
    expect((await chat(first.key)).status).toBe(200)
    expect((await chat(second.key)).status).toBe(200)
    const refused = await chat(first.key)
    expectError(refused, 429, 'rate_limited')
    expect(refused.json.error.message).toContain('2 requests per minute of this account')
    const shown = (await get(`/keys/${second.id}/limits`)).json.data
    expect(shown.map((one: any) => [one.limit, one.value, one.source])).toEqual([
      ['key.rpm', 7, 'key'],
      ['key.concurrency', expect.any(Number), 'default'],
      ['account.rpm', 2, 'account'],
      ['account.cap.month', '5', 'account'],
    ])
    const rates = shown.map((one: any) => [one.limit, one.used, one.left])
    expect(rates[0]).toEqual(['key.rpm', 1, 6])
    expect(rates[2]).toEqual(['account.rpm', 2, 0])
    const { used, left, resets_at } = shown.at(-1)
    expect(used).toBeGreaterThan(0)
    expect(used + left).toBe(5)
    expect(Date.parse(resets_at)).toBeGreaterThan(Date.now())
    const page = (await get(`/requests?account=${account}&limited_by=account.rpm`)).json
    expect(page.data).toHaveLength(1)
    const cleared = await patch(`/accounts/${account}`, { rpm_limit: null, spend_cap: null })
    expect(cleared.json.data).toMatchObject({
      rpm_limit: null,
      spend_cap: null,
      limits: null,
      limit_status: [],
    })
    expect((await chat(first.key)).status).toBe(200)
    const [change] = (await get(`/audit?object=account:${account}`)).json.data
    expect(change).toMatchObject({ action: 'account.update', address: '127.0.0.1' })
  })

  it('are the free tier for an account that never paid', async () => {
    const { id } = await newKey(await newAccount())
    const { data } = (await get(`/keys/${id}/limits`)).json
    const names = data.filter((one: any) => one.source === 'tier').map((one: any) => one.limit)
    expect(names).toEqual(['tier.rpm', 'tier.day', 'tier.concurrency'])
  })

  it('refuse every key of one that is disabled or archived', async () => {
    const account = await newAccount('1')
    const { id, key } = await newKey(account)
    const state = async (body: object) => {
      expect((await patch(`/accounts/${account}`, body)).status).toBe(200)
      return gateway.chat(hello, { key })
    }
    expectError(await state({ disabled: true }), 401, 'invalid_api_key')
    expect((await state({ disabled: false })).status).toBe(200)
    const archived = await gateway.ask('DELETE', `/admin/accounts/${account}`, { key: TOKEN })
    expect(archived.json.data).toMatchObject({ disabled: true, balance_usd: expect.anything() })
    expectError(await gateway.chat(hello, { key }), 401, 'invalid_api_key')
    expect((await get(`/keys/${id}`)).json.data.archived_at).not.toBeNull()
    expectError(
      await patch(`/accounts/${account}`, { disabled: false }),
      400,
      'invalid_value',
      'id',
    )
  })

  it('are changed by the revision that If-Match names', async () => {
    const account = await newAccount()
    const ask = (match: string) => {
      const options = { key: TOKEN, body: { rpm_limit: 3 }, headers: { 'if-match': match } }
      return gateway.ask('PATCH', `/admin/accounts/${account}`, options)
    }
    expect((await ask('"0"')).status).toBe(200)
    const late = await ask('"0"')
    expectError(late, 412, 'revision_changed')
    expect(late.json.data).toMatchObject({ id: account, rpm_limit: 3 })
  })
})

describe('a key', () => {
  it('is changed by one of two operators who read the same revision', async () => {
    const { id } = await newKey(await newAccount())
    const { revision } = (await get(`/keys/${id}`)).json.data
    const change = (body: object, match: string) =>
      gateway.ask('PATCH', `/admin/keys/${id}`, {
        key: TOKEN,
        body,
        headers: { 'if-match': match },
      })
    const first = await change({ rpm_limit: 5, tag: 'team.a' }, `"${revision}"`)
    expect(first.status).toBe(200)
    const second = await change({ rpm_limit: 6 }, `"${revision}"`)
    expectError(second, 412, 'revision_changed')
    const { data } = first.json
    expect(second.json.data).toMatchObject({ rpm_limit: 5, tag: 'team.a', revision: data.revision })
    expect((await change({ rpm_limit: 6 }, `"${data.revision}"`)).json.data.rpm_limit).toBe(6)
    expectError(await change({ rpm_limit: 7 }, 'three'), 400, 'invalid_value', 'If-Match')
  })

  it('is rotated: both secrets count into the limits of one key', async () => {
    const account = await newAccount('1')
    const { id, key: first } = await newKey(account, { rpm_limit: 2 })
    const rotated = await post(`/keys/${id}/rotate`, { overlap: 3600 })
    expect(rotated.status).toBe(201)
    const { key: second, data } = rotated.json
    expect(data).toMatchObject({ id, previous_secret: { start: first.slice(0, 14) } })
    expect(data.start).toBe(second.slice(0, 14))
    const chat = async (key: string) => (await gateway.chat(hello, { key })).status
    expect([await chat(first), await chat(second), await chat(first)]).toEqual([200, 200, 429])
    expectError(await post(`/keys/${id}/rotate`, { overlap: -1 }), 400, 'invalid_value', 'overlap')
    expectError(await post('/keys/none/rotate', {}), 404, 'not_found')
    expect((await get('/audit?limit=200')).text).not.toContain(second)
  })

  it('is called with a play token: its limits and charges, until it is changed', async () => {
    const account = await newAccount('1')
    const { id } = await newKey(account, { rpm_limit: 2 })
    const played = await post(`/keys/${id}/play`, {})
    expect(played.status).toBe(201)
    const { token } = played.json.data
    expect((await gateway.chat(hello, { key: token })).status).toBe(200)
    expect((await get(`/keys/${id}`)).json.data.spend_usd).toBeGreaterThan(0)
    const [logged] = (await get(`/requests?key=${id}&origin=play`)).json.data
    expect(logged).toMatchObject({ key_id: id, origin: 'play', status: 200 })
    expect((await get(`/requests?key=${id}&origin=api`)).json.data).toEqual([])
    expectError(await gateway.ask('GET', '/v1/key', { key: token }), 401, 'invalid_api_key')
    const other = token.slice(0, -1) + (token.endsWith('0') ? '1' : '0')
    for (const key of [other, token.slice(0, -1), `${token}x`, token.replace('play', 'once')]) {
      expectError(await gateway.chat(hello, { key }), 401, 'invalid_api_key')
    }
    expect((await patch(`/keys/${id}`, { rpm_limit: 5 })).status).toBe(200)
    expectError(await gateway.chat(hello, { key: token }), 401, 'invalid_api_key')
    const [change] = (await get(`/audit?object=key:${id}&action=key.play`)).json.data
    expect(change.actor).toBe('admin')
    expect((await get('/audit?limit=200')).text).not.toContain(token)
  })

  it('is archived: refused for good, its history stays', async () => {
    const account = await newAccount('1')
    const { id, key } = await newKey(account)
    expect((await gateway.chat(hello, { key })).status).toBe(200)
    const archived = await gateway.ask('DELETE', `/admin/keys/${id}`, { key: TOKEN })
    expect(archived.json.data).toMatchObject({ id, disabled: true })
    expect(archived.json.data.archived_at).not.toBeNull()
    expectError(await gateway.chat(hello, { key }), 401, 'invalid_api_key')
    expectError(await patch(`/keys/${id}`, { disabled: false }), 400, 'invalid_value', 'id')
    const rows = (await get(`/accounts/${account}/ledger`)).json.data
    expect(rows[0]).toMatchObject({ kind: 'usage', key_id: id })
  })
})

describe('the audit log', () => {
  it('has every change with who made it, and no secret', async () => {
    const account = await newAccount()
    await post(`/accounts/${account}/credits`, { usd: '5', reference: 'invoice' })
    await post(`/accounts/${account}/credits`, { usd: '5', reference: 'invoice' })
    await post(`/accounts/${account}/adjust`, { usd: '-0.5', reason: 'charged twice' })
    const { id, key: secret } = await newKey(account)
    const change = { rpm_limit: 7, spend_cap: { usd: '2', scope: 'day' } }
    expect((await patch(`/keys/${id}`, change)).status).toBe(200)
    expect((await patch(`/keys/${id}`, { ...change, rpm_limit: null })).status).toBe(200)
    expect((await patch(`/keys/${id}`, {})).status).toBe(200)
    expectError(await patch(`/keys/${id}`, { rpm_limit: 0 }), 400, 'invalid_value', 'rpm_limit')

    const ofKey = await get(`/audit?object=key:${id}`)
    expect(ofKey.json.data).toMatchObject([
      { actor: 'admin', action: 'key.update' },
      { actor: 'admin', action: 'key.update' },
      { actor: 'admin', action: 'key.create', object: `key:${id}` },
    ])
    expect(ofKey.json.data[0].changes).toEqual([{ member: 'rpm_limit', before: 7, after: null }])
    expect(ofKey.json.data[1].changes).toEqual([
      { member: 'rpm_limit', before: null, after: 7 },
      { member: 'spend_cap', before: null, after: { usd: '2', scope: 'day' } },
    ])
    const ofAccount = (await get(`/audit?object=account:${account}`)).json.data
    expect(ofAccount.map(({ action }: { action: string }) => action)).toEqual([
      'account.adjust',
      'account.credit',
      'account.create',
    ])
    expect(ofAccount[0].changes).toContainEqual({ member: 'usd', before: null, after: '-0.5' })
    const everything = (await get('/audit?limit=200')).text
    expect(everything).not.toContain(secret)
    expect(everything).not.toContain(TOKEN)
  })

  it('is read page by page, by action and by day', async () => {
    for (let i = 0; i < 3; i++) await newAccount()
    const first = (await get('/audit?action=account.create&limit=2')).json
    expect(first.data).toHaveLength(2)
    const rest = (await get(`/audit?action=account.create&limit=200&after=${first.next}`)).json
    expect(rest.next).toBeNull()
    const all = (await get('/audit?action=account.create&limit=200')).json.data
    expect([...first.data, ...rest.data]).toEqual(all)
    expect((await get('/audit?to=2020-01-01')).json.data).toEqual([])
    expect((await get('/audit?actor=another')).json.data).toEqual([])
    const wrong = { before: 'unsupported_parameter', from: 'invalid_value', after: 'invalid_value' }
    for (const [name, code] of Object.entries(wrong)) {
      expectError(await get(`/audit?${name}=x`), 400, code, name)
    }
  })

  it('that cannot be written stops no change, and the log says so', async () => {
    const { audit, log } = gateway.gateway.runtime
    const add = vi.spyOn(audit, 'add').mockRejectedValue(new Error('no space'))
    const error = vi.spyOn(log, 'error').mockImplementation(() => {})
    onTestFinished(() => [add, error].forEach((spy) => spy.mockRestore()))
    const id = await newAccount()
    expect((await get(`/accounts/${id}`)).status).toBe(200)
    const message = `account.create of account:${id} was done, but is missing in the audit log`
    expect(error).toHaveBeenCalledWith(message, expect.any(Error))
  })
})

describe('the ledger', () => {
  it('shows what calls cost, newest first', async () => {
    const id = await newAccount('5')
    const { id: key, key: secret } = await newKey(id)
    const answer = await gateway.chat(hello, { key: secret })
    expect(answer.status, answer.text).toBe(200)
    const { data, next } = (await get(`/accounts/${id}/ledger`)).json
    expect(next).toBeNull()
    expect(data.map(({ kind }: { kind: string }) => kind)).toEqual(['usage', 'top-up'])
    expect(data[0]).toMatchObject({
      request_id: answer.headers['x-service-request-id'],
      key_id: key,
      amount_usd: -answer.json.usage.cost,
      usage: {
        endpoint: '/v1/chat/completions',
        model: 'mock/echo',
        deployment: 'mock/echo',
        outcome: 'completed',
        lines: [{ source: 'model', prompt_tokens: answer.json.usage.prompt_tokens }],
      },
    })
    expect(JSON.stringify(data)).not.toContain('Hello there')
  })

  it('comes in pages that have every row once, and sums to the balance', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.bigInt({ min: 1n, max: 10n ** 15n }), { maxLength: 12 }),
        fc.integer({ min: 1, max: 5 }),
        async (amounts, limit) => {
          const id = await newAccount()
          for (const amount of amounts) {
            await post(`/accounts/${id}/credits`, { usd: formatPico(amount) })
          }
          const seqs: number[] = []
          let before = ''
          do {
            const { data, next } = (await get(`/accounts/${id}/ledger?limit=${limit}${before}`))
              .json
            seqs.push(...data.map(({ seq }: { seq: number }) => seq))
            before = next === null ? '' : `&before=${next}`
          } while (before)
          expect(seqs).toHaveLength(amounts.length)
          expect(seqs).toEqual([...new Set(seqs)].sort((a, b) => b - a))
          const sum = amounts.reduce((a, b) => a + b, 0n)
          expect((await get(`/accounts/${id}`)).text).toContain(`"balance_usd":${formatPico(sum)},`)
        },
      ),
      { numRuns: runs(7) },
    )
  })

  it('refuses bad pages', async () => {
    const id = await newAccount()
    expectError(await get(`/accounts/${id}/ledger?limit=500`), 400, 'invalid_value', 'limit')
    expectError(await get(`/accounts/${id}/ledger?before=x`), 400, 'invalid_value', 'before')
  })

  it('verifies itself', async () => {
    await newAccount('3')
    expect((await get('/ledger/verify')).json).toEqual({ data: { ok: true, discrepancies: [] } })
    await using own = await createTestGateway({ ...MOCK_CONFIG, admin: { token: TOKEN } })
    own.gateway.runtime.ledger.verify = async () => [
      { account: 'acme', what: 'balance', stored: 1n, recomputed: 2n * 10n ** 12n },
    ]
    expect((await own.ask('GET', '/admin/ledger/verify', { key: TOKEN })).text).toBe(
      '{"data":{"ok":false,"discrepancies":[{"account_id":"acme","what":"balance",' +
        '"stored":0.000000000001,"recomputed":2}]}}',
    )
  })
})

describe('keys that were made elsewhere', () => {
  const foreign = 'sk-made-elsewhere'
  const sha256 = hashSecret(foreign)

  it('keep working by their hash, and no secret is made', async () => {
    const id = await newAccount('1')
    const answer = await post(`/accounts/${id}/keys`, { name: 'old', sha256, start: 'sk-...here' })
    expect([answer.status, answer.json.data.start]).toEqual([201, 'sk-...here'])
    expect(answer.json).not.toHaveProperty('key')
    expect(answer.text).not.toContain(sha256)
    const { status } = await gateway.chat(hello, { key: foreign })
    expect(status).toBe(200)
    const again = await post(`/accounts/${id}/keys`, { name: 'again', sha256 })
    expectError(again, 400, 'invalid_value', 'sha256')
    const { json } = await post(`/accounts/${id}/keys`, { name: 'x', sha256: 'a'.repeat(64) })
    expect(json.data.start).toBe('seeded')
  })

  it.each([
    ['a hash in capitals', { sha256: 'A'.repeat(64) }, 'invalid_value', 'sha256'],
    ['a key in place of its hash', { sha256: foreign }, 'invalid_value', 'sha256'],
    ['a beginning without a hash', { start: 'sk-...ab' }, 'invalid_value', 'start'],
    ['a beginning of a whole key', { sha256, start: 'x'.repeat(21) }, 'invalid_value', 'start'],
  ])('are refused for %s', async (_, settings, code, param) => {
    const id = await newAccount()
    const answer = await post(`/accounts/${id}/keys`, { name: 'x', ...settings })
    expectError(answer, 400, code, param)
    for (const secret of ['x'.repeat(21), foreign]) expect(answer.text).not.toContain(secret)
  })
})

describe('keys', () => {
  it('are shown raw in one answer only, and work', async () => {
    const account = await newAccount('5')
    const answer = await post(`/accounts/${account}/keys`, { name: 'Laptop', id: 'laptop-1' })
    expect(answer.json.key).toMatch(/^sk-sluice-[0-9A-Za-z]{46}$/)
    expect(answer.json.data).toMatchObject({
      id: 'laptop-1',
      account_id: account,
      name: 'Laptop',
      disabled: false,
      rpm_limit: null,
      concurrency_limit: null,
      spend_cap: null,
      expires_at: null,
      models: null,
      policy: null,
      spend_usd: 0,
      warnings: [],
    })
    expect(answer.json.key.startsWith(answer.json.data.start.replace('…', ''))).toBe(true)
    const shown = await get('/keys/laptop-1')
    expect(shown.text).not.toContain(answer.json.key)
    expect(shown.text).not.toContain('sha256')
    expect((await gateway.chat(hello, { key: answer.json.key })).status).toBe(200)
    expect((await get('/keys/laptop-1')).json.data.spend_usd).toBeGreaterThan(0)
    expect((await get(`/accounts/${account}`)).json.data.keys).toEqual(['laptop-1'])
  })

  it('keep every setting, and give back what can be sent again', async () => {
    const account = await newAccount('5')
    const settings = {
      rpm_limit: 7,
      concurrency_limit: 2,
      spend_cap: { usd: '1.5', scope: 'month' },
      expires_at: '2099-01-31T00:00:00.000Z',
      models: ['mock/*'],
      policy: { version: 1, maxOutputTokens: 100 },
    }
    const { id } = await newKey(account, settings)
    const { data } = (await get(`/keys/${id}`)).json
    expect(data).toMatchObject(settings)
    expect((await patch(`/keys/${id}`, settings)).json.data).toMatchObject(settings)
  })

  it('are changed member by member, and null clears', async () => {
    const { id } = await newKey(await newAccount(), {
      rpm_limit: 7,
      spend_cap: { usd: '1', scope: 'day' },
      models: ['mock/echo'],
      expires_at: '2099-01-31',
      policy: { version: 1 },
      concurrency_limit: 3,
    })
    const changed = await patch(`/keys/${id}`, { name: 'Renamed', rpm_limit: null, models: null })
    expect(changed.status).toBe(200)
    expect(changed.json.data).toMatchObject({
      name: 'Renamed',
      rpm_limit: null,
      models: null,
      concurrency_limit: 3,
      spend_cap: { usd: '1', scope: 'day' },
      expires_at: '2099-01-31T00:00:00.000Z',
    })
    const cleared = { spend_cap: null, expires_at: null, policy: null, concurrency_limit: null }
    expect((await patch(`/keys/${id}`, cleared)).json.data).toMatchObject({
      ...cleared,
      name: 'Renamed',
    })
  })

  it('obey a change at once', async () => {
    const { id, key } = await newKey(await newAccount('5'))
    expect((await gateway.chat(hello, { key })).status).toBe(200)
    await patch(`/keys/${id}`, { disabled: true })
    expectError(await gateway.chat(hello, { key }), 401, 'invalid_api_key')
    await patch(`/keys/${id}`, { disabled: false, rpm_limit: 1 })
    expectError(await gateway.chat(hello, { key }), 429, 'rate_limited')
    await patch(`/keys/${id}`, { rpm_limit: null, models: ['mock/free'] })
    expectError(await gateway.chat(hello, { key }), 403, 'model_not_allowed', 'model')
  })

  it('are listed, all or those of one account', async () => {
    const [one, two] = [await newAccount(), await newAccount()]
    const a = await newKey(one)
    const b = await newKey(two)
    expect(await idsOf(`/keys?account=${one}`)).toEqual([a.id])
    expect(await idsOf('/keys?limit=200')).toEqual(expect.arrayContaining([a.id, b.id]))
  })

  it('that do not exist are 404', async () => {
    expectError(await get('/keys/nobody'), 404, 'not_found')
    expectError(await patch('/keys/nobody', { name: 'x' }), 404, 'not_found')
  })

  it('are not made twice under one id', async () => {
    const account = await newAccount()
    const { id } = await newKey(account)
    expectError(
      await post(`/accounts/${account}/keys`, { name: 'x', id }),
      400,
      'invalid_value',
      'id',
    )
  })

  it('warn of models that are not in the catalog', async () => {
    const listed = ['mock/ecco', 'acme/*', 'mock/*', 'missing']
    const { id } = await newKey(await newAccount(), { models: listed })
    expect((await get(`/keys/${id}`)).json.data).toMatchObject({
      models: listed,
      warnings: [
        'the catalog has no model "mock/ecco"; did you mean "mock/echo"?',
        'the catalog has no model "acme/*"',
        'the catalog has no model "missing"',
      ].map((message) => ({
        code: 'models.unknown',
        object: `key:${id}`,
        member: 'models',
        message,
      })),
    })
  })

  it('have the ids of models that are named in another way', async () => {
    const deployments = [{ provider: 'mock', model: 'echo' }]
    const pricing = { prompt: '0.000001' }
    await using own = await createTestGateway({
      ...MOCK_CONFIG,
      admin: { token: TOKEN },
      models: {
        ...MOCK_CONFIG.models,
        'mock/sol': { pricing, aliases: ['assistant'], deployments },
        'other/sol': { pricing, deployments },
      },
    })
    const ask = (method: string, path: string, body: object) =>
      own.ask(method, `/admin${path}`, { key: TOKEN, body })
    const models = ['assistant', 'echo', 'tools:online', 'free-20260101', 'mock/echo', 'sol']
    const stored = ['mock/sol', 'mock/echo', 'mock/tools', 'mock/free', 'sol']
    const made = await ask('POST', '/accounts/acme/keys', { name: 'x', models })
    expect(made.json.data.models).toEqual(stored)
    expect(made.json.data.warnings).toMatchObject([
      { code: 'models.ambiguous', message: 'several models are called "sol": mock/sol, other/sol' },
    ])
    const changed = await ask('PATCH', `/keys/${made.json.data.id}`, { models: ['assistant'] })
    expect(changed.json.data).toMatchObject({ models: ['mock/sol'], warnings: [] })
    const answer = (model: string) => own.chat({ ...hello, model }, { key: made.json.key })
    expect((await answer('assistant')).status).toBe(200)
    expectError(await answer('other/sol'), 403, 'model_not_allowed', 'model')
  })

  it('warn that a key has expired, when it is made, changed and rotated', async () => {
    const message = 'the key expired on 2020-01-01: it is refused until expires_at is changed'
    const expired = { code: 'key.expired', member: 'expires_at', message }
    const idle = { code: 'key.rotation_idle' }
    const past = { expires_at: '2020-01-01T00:00:00Z' }
    const path = `/accounts/${await newAccount('5')}/keys`
    const made = await post(path, { name: 'past', ...past })
    expect([made.status, made.json.data.warnings]).toMatchObject([201, [expired]])
    const rotated = await post(`/keys/${made.json.data.id}/rotate`, {})
    expect([rotated.status, rotated.json.data.warnings]).toMatchObject([201, [expired, idle]])
    const renewed = await post(`/keys/${made.json.data.id}/rotate`, { expires_at: null })
    expect([renewed.status, renewed.json.data.warnings]).toEqual([201, []])
    const later = await patch(`/keys/${made.json.data.id}`, { expires_at: null })
    expect(later.json.data.warnings).toEqual([])
    const changed = await patch(`/keys/${made.json.data.id}`, past)
    expect([changed.status, changed.json.data.warnings]).toMatchObject([200, [expired]])
    const [row] = (await get(`/keys?q=${made.json.data.id}`)).json.data
    expect(row.warnings).toMatchObject([expired])
  })

  it('warn of rules that no guard enforces', async () => {
    const guard = { model: 'mock/echo', onBlock: 'error' }
    const policy = { version: 1, scope: 'Gardens.', bannedPatterns: ['secret plan'], guard }
    const answer = await post(`/accounts/${await newAccount('5')}/keys`, { name: 'kiosk', policy })
    const messages = answer.json.data.warnings.map((one: any) => one.message)
    expect(messages).toEqual([
      'nothing on this gateway looks after mock/echo: calls with this key will be refused',
      'nothing on this gateway judges the scope: the model is told about it, no more',
    ])
    expectError(await gateway.chat(hello, { key: answer.json.key }), 503, 'guard_unavailable')
    const missing = { name: 'k', policy: { version: 1, guard: { model: 'mock/none' } } }
    const refused = await post(`/accounts/${await newAccount('5')}/keys`, missing)
    expect(refused.json.error).toMatchObject({
      code: 'invalid_policy',
      param: 'policy.guard.model',
    })
  })
})

describe('models and status', () => {
  it('shows models with their deployments and how these are', async () => {
    const { data } = (await get('/models')).json
    expect(data.map(({ id }: { id: string }) => id)).toEqual(Object.keys(MOCK_CONFIG.models).sort())
    expect(data[0]).toMatchObject({
      id: 'mock/echo',
      modality: 'chat',
      pricing: { prompt: '0.000001' },
      deployments: [
        {
          id: 'mock/echo',
          provider: 'mock',
          weight: 1,
          priority: 0,
          health: {
            state: 'healthy',
            since: null,
            failures: 0,
            last_failure: null,
            rests_until: null,
            in_flight: 0,
          },
        },
      ],
    })
  })

  it('shows which deployments rest, and why', async () => {
    const options = { error: { class: 'upstream_auth' } }
    const broken = {
      ...MOCK_CONFIG.models['mock/echo'],
      deployments: [{ provider: 'mock', model: 'broken', options }],
    }
    await using own = await createTestGateway({
      ...MOCK_CONFIG,
      admin: { token: TOKEN },
      models: { 'mock/broken': broken },
    })
    expect((await own.chat({ ...hello, model: 'mock/broken' })).status).toBe(502)
    const { data } = (await own.ask('GET', '/admin/models', { key: TOKEN })).json
    const { health } = data[0].deployments[0]
    expect(health).toMatchObject({
      state: 'cooldown',
      failures: 1,
      last_failure: 'upstream_auth',
      in_flight: 0,
    })
    expect(Date.parse(health.since)).toBeLessThanOrEqual(Date.now())
    expect(Date.parse(health.rests_until)).toBeGreaterThan(Date.now())
    const metrics = await own.ask('GET', '/metrics', { key: TOKEN })
    expect(metrics.text).toContain('sluicegate_deployment_up{deployment="mock/broken"} 0\n')
  })

  it('lists running calls without a word of theirs', async () => {
    await using own = await createTestGateway({
      ...MOCK_CONFIG,
      admin: { token: TOKEN },
      providers: { mock: { use: 'mock', options: { paceMs: 60_000 } } },
    })
    const answer = own.chat({ ...hello, stream: true })
    const status = () => own.ask('GET', '/admin/status', { key: TOKEN })
    await expect.poll(async () => (await status()).json.data.calls[0]?.model).toBe('mock/echo')
    const shown = await status()
    expect(shown.json.data).toMatchObject({
      running: 1,
      calls: [{ path: '/v1/chat/completions', account_id: 'acme', key_id: own.key.id }],
    })
    expect(shown.text).not.toContain('Hello there')
    await own.close()
    expect((await answer).status).toBe(503)
  })

  it('shows what runs', async () => {
    const { data } = (await get('/status')).json
    expect(data).toMatchObject({
      version: gateway.gateway.version,
      state: 'memory',
      running: 0,
      calls: [],
      ledger: { ok: true, outbox: 0 },
    })
    expect(data.uptime_seconds).toBeGreaterThanOrEqual(0)
  })
})

describe('health and metrics', () => {
  it('says that it lives, to anybody', async () => {
    const answer = await gateway.ask('GET', '/health', { key: null })
    expect([answer.status, answer.json]).toEqual([200, { status: 'ok', reasons: [] }])
    expect(answer.headers['content-type']).toBe('application/json')
  })

  it('is unavailable while the ledger cannot book', async () => {
    await using broken = await createTestGateway()
    broken.gateway.runtime.ledger.health = () => ({ ok: false, outbox: 3, oldestMs: 9000 })
    const answer = await broken.ask('GET', '/health', { key: null })
    expect([answer.status, answer.json]).toEqual([
      503,
      { status: 'unavailable', reasons: ['ledger', 'outbox'] },
    ])
  })

  it('gives metrics to the admin only, unless they are public', async () => {
    const answer = await gateway.ask('GET', '/metrics', { key: TOKEN })
    expect(answer.status).toBe(200)
    expect(answer.headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8')
    expect(answer.text).toContain('\nsluicegate_ledger_up 1\n')
    expect(answer.text).toContain('sluicegate_requests_total{')
    expectError(await gateway.ask('GET', '/metrics'), 401, 'invalid_api_key')

    await using open = await createTestGateway({ ...MOCK_CONFIG, admin: { metrics: 'public' } })
    expect((await open.ask('GET', '/metrics', { key: null })).status).toBe(200)
    await using shut = await createTestGateway({ ...MOCK_CONFIG, admin: { metrics: false } })
    expectError(await shut.ask('GET', '/metrics', { key: null }), 404, 'unknown_url')
  })

  it('counts a call with its exact cost', async () => {
    await using own = await createTestGateway({ ...MOCK_CONFIG, admin: { metrics: 'public' } })
    const answer = await own.chat(hello)
    const { text } = await own.ask('GET', '/metrics', { key: null })
    const labels = 'endpoint="/v1/chat/completions",model="mock/echo"'
    expect(text).toContain(`sluicegate_requests_total{${labels},outcome="completed",code=""} 1\n`)
    expect(text).toContain(
      `sluicegate_cost_usd_total{${labels}} ${answer.headers['x-service-cost']}\n`,
    )
    expect(text).toContain('sluicegate_entries_total{result="ok"} 1\n')
    expect(text).toContain('sluicegate_requests_running 0\n')
  })
})
