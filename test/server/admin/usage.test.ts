/** Usage, as an operator asks for it. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, hello, MOCK_CONFIG, type TestGateway } from '../../_setup.ts'

const TOKEN = 'admin-token-of-the-test'
let gateway: TestGateway
beforeAll(async () => {
  gateway = await createTestGateway({ ...MOCK_CONFIG, admin: { token: TOKEN } })
})
afterAll(() => gateway.close())

const get = (path: string) => gateway.ask('GET', `/admin${path}`, { key: TOKEN })
const chat = (key: string, body: object = hello) =>
  gateway.ask('POST', '/v1/chat/completions', { key, body })

describe('usage', () => {
  it('adds up the calls of a key, and equals the ledger', async () => {
    const { id, secret } = await gateway.newKey()
    const costs: number[] = []
    for (let i = 0; i < 3; i++) costs.push((await chat(secret)).json.usage.cost)
    await chat(secret, { ...hello, model: 'mock/nothing' })
    const { status, json } = await get(`/usage?key=${id}&group=model,outcome&rollup=day`)
    expect(status).toBe(200)
    const spent = (await get(`/keys/${id}`)).json.data.spend_usd
    expect(json).toMatchObject({
      data: [
        {
          start: expect.stringMatching(/T00:00:00Z$/),
          group: { model: 'mock/echo', outcome: 'completed' },
          calls: 3,
          cost_usd: spent,
          images: null,
          errors: null,
        },
      ],
      other: [],
      totals: { calls: 3, cost_usd: spent },
      rollup: 'day',
      partial: { from: null },
      indexed: 1,
      ledger: { agrees: true, cost_usd: spent, differences: [] },
    })
    expect(costs[0]).toBeGreaterThan(0)
    const [whole] = (await get(`/usage?key=${id}`)).json.data
    expect(whole).toMatchObject({ calls: 3, errors: 1, refused: 0, blocked: 0 })
    expect(whole.p50_ms).toBeGreaterThan(0)
  })

  it('says by which limit calls were refused', async () => {
    const { id, secret } = await gateway.newKey({ rpm: 1 })
    await chat(secret)
    await chat(secret)
    const { data } = (await get(`/usage?key=${id}&group=limit`)).json
    expect(data).toMatchObject([
      { group: { limit: null }, calls: 1, cost_usd: null, refused: 0 },
      { group: { limit: 'key.rpm' }, calls: 1, refused: 1 },
    ])
  })

  it('keeps the largest groups apart, and adds up the rest', async () => {
    const { data: before } = (await get('/usage?group=key&rollup=day')).json
    const {
      data,
      other,
      totals,
      key_names: names,
    } = (await get('/usage?group=key&rollup=day&top=1')).json
    expect(before.length).toBeGreaterThan(1)
    expect(data).toHaveLength(1)
    expect(data[0].group.key).toBe(before[0].group.key)
    const own = await get(`/keys/${data[0].group.key}`)
    expect(names).toEqual({ [data[0].group.key]: own.json.data.name })
    expect(data[0].calls + other[0].calls).toBe(totals.calls)
  })

  it('is a table for a spreadsheet', async () => {
    const { headers, text } = await get('/usage?group=model&rollup=month&format=csv')
    expect(headers['content-type']).toBe('text/csv; charset=utf-8')
    expect(headers['content-disposition']).toMatch(/^attachment; filename="usage-.*\.csv"$/)
    const [headings, line] = text.split('\r\n')
    expect(headings).toMatch(/^start,model,calls,cost_usd,prompt_tokens,/)
    expect(line).toMatch(/^\d{4}-\d\d-01T00:00:00Z,mock\/echo,\d+,0\.\d+,/)
  })

  it('refuses what it cannot answer, and says what would be right', async () => {
    const cases: [string, string, RegExp][] = [
      ['grup=key', 'grup', /Known: .*group/],
      ['group=colour', 'group', /one of account, team, key/],
      ['group=key,key', 'group', /two different/],
      ['group=key,model,account', 'group', /two different/],
      ['group=tag,model', 'group', /tag or user with account and key/],
      ['group=tag&rollup=hour', 'group', /days or months/],
      ['group=code,deployment', 'group', /code and limit/],
      ['rollup=week', 'rollup', /hour, day, month/],
      ['top=0', 'top', /1 to 1000/],
      ['metric=fun', 'metric', /cost_usd/],
      ['from=2026-02-01&to=2026-01-01', 'from', /before 'to'/],
      ['from=2026-02-30', 'from', /a day such as/],
      ['to=2026-02-01T12:00:00', 'to', /2026-11-23T12:00:00Z/],
      ['format=xml', 'format', /json or csv/],
    ]
    for (const [query, param, message] of cases) {
      const { status, json } = await get(`/usage?${query}`)
      expect(status, query).toBe(400)
      expect(json.error).toMatchObject({ param, message: expect.stringMatching(message) })
    }
  })

  it('is added up again, and read again, on demand', async () => {
    expect((await get('/usage/verify')).json.data).toMatchObject({ agrees: true, indexed: 1 })
    const before = (await get('/usage?group=key,model&rollup=day')).json
    const begun = await gateway.ask('POST', '/admin/usage/rebuild', { key: TOKEN })
    expect(begun).toMatchObject({ status: 202, json: { data: { begun: true } } })
    const again = async () => (await get('/usage?group=key,model&rollup=day')).json
    await expect.poll(async () => (await again()).ledger.agrees).toBe(true)
    expect((await again()).data).toEqual(before.data)
  })

  it('is right after it was read again while credit was booked', async () => {
    await gateway.newAccount('busy')
    const ask = (method: string, path: string, body?: object) =>
      gateway.ask(method, `/admin${path}`, { key: TOKEN, body })
    const credit = () => ask('POST', '/accounts/busy/credits', { usd: '1' })
    const credits = () => Promise.all([credit(), credit(), credit(), credit()])
    for (let round = 0; round < 5; round++) {
      const answers = await Promise.all([
        credits(),
        ask('GET', '/usage?account=busy'),
        ask('POST', '/usage/rebuild'),
        ask('GET', '/usage?account=busy'),
        credits(),
      ])
      expect(answers.flat().map(({ status }) => status)).not.toContain(503)
    }
    const checked = async () => (await get('/usage?account=busy')).json.ledger
    await expect.poll(checked).toMatchObject({ agrees: true, differences: [] })
  })
})

describe('the entries of an account', () => {
  it('are filtered by kind, key and time, and are a table', async () => {
    const { id, secret } = await gateway.newKey()
    await chat(secret, { ...hello, metadata: { tag: 'nightly' } })
    const rows = async (query: string) => (await get(`/accounts/acme/ledger?${query}`)).json.data
    expect(await rows(`key=${id}`)).toMatchObject([{ key_id: id, usage: { tag: 'nightly' } }])
    expect(await rows('kind=top-up&kind=adjust')).toMatchObject([{ kind: 'top-up' }])
    expect(await rows(`key=${id}&to=2020-01-01`)).toEqual([])
    expect(await rows(`key=${id}&from=2020-01-01`)).toHaveLength(1)
    const { text } = await get(`/accounts/acme/ledger?key=${id}&format=csv`)
    const [headings, line] = text.split('\r\n')
    expect(headings).toMatch(/^seq,kind,at,amount_usd,reference,request_id,key_id,/)
    expect(line).toMatch(/,usage,.*,-0\.0.*,mock\/echo,.*,completed,nightly$/)
    for (const query of ['kind=gift', 'colour=red', 'from=never']) {
      expect((await get(`/accounts/acme/ledger?${query}`)).status).toBe(400)
    }
  })
})

describe('the statement of an account', () => {
  it('goes from the opening balance to the closing one', async () => {
    const { data } = (await get('/accounts/acme/statement')).json
    const { balance_usd } = (await get('/accounts/acme')).json.data
    expect(data).toMatchObject({
      account_id: 'acme',
      opening_usd: 0,
      bookings: [{ kind: 'top-up', seq: 1 }],
      closing_usd: balance_usd,
      number: null,
      state: 'draft',
      usage: { models: [{ name: 'mock/echo' }], tags: [{ name: null }, { name: 'nightly' }] },
      ledger: { agrees: true },
    })
    const { data: points } = (await get('/accounts/acme/balance')).json
    expect(points.at(-1).balance_usd).toBe(balance_usd)
    const { text } = await get('/accounts/acme/statement?format=csv')
    expect(text).toMatch(/^section,name,at,.*\r\nstatement,DRAFT,.*\r\nsum,opening,,,,,,0/)
    expect((await get('/accounts/acme/statement?month=13')).status).toBe(400)
    const later = await get('/accounts/acme/statement?month=2999-01')
    expect(later.json.error.message).toMatch(/expected a month that has begun, up to \d{4}-\d\d\.$/)
    expect((await get('/accounts/nobody/statement')).status).toBe(404)
  })
})
