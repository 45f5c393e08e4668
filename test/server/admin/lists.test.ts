/** Lists of accounts and keys: pages, order, search, filters, CSV. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, hello, MOCK_CONFIG, type TestGateway } from '../../_setup.ts'

const TOKEN = 'admin-token-of-the-test'
const NAMES = ['Delta', 'alpha', 'Charlie', 'bravo']

let gateway: TestGateway
beforeAll(async () => {
  const models = {
    ...MOCK_CONFIG.models,
    'house/large': {
      pricing: { prompt: '0', completion: '0' },
      deployments: [{ provider: 'mock', model: 'echo' }],
    },
  }
  gateway = await createTestGateway({ ...MOCK_CONFIG, models, admin: { token: TOKEN } })
  for (const [i, name] of NAMES.entries()) {
    const id = `list-${name.toLowerCase()}`
    await ask('POST', '/accounts', { name, id })
    await ask('POST', `/accounts/${id}/credits`, { usd: `${10 + i}` })
    for (let k = 0; k <= i; k++) {
      const key = { id: `key-${name.toLowerCase()}-${k}`, name: `${name} ${k}` }
      await ask('POST', `/accounts/${id}/keys`, key)
    }
  }
})
afterAll(() => gateway.close())

const ask = (method: string, path: string, body?: object) =>
  gateway.ask(method, `/admin${path}`, { key: TOKEN, ...(body && { body }) })
const list = async (path: string) => (await ask('GET', path)).json.data
const names = async (path: string) => (await list(path)).map(({ name }: any) => name)

describe('lists', () => {
  it('of accounts are sorted, searched and read page by page', async () => {
    expect(await names('/accounts?q=list-')).toEqual(NAMES.toReversed())
    expect(await names('/accounts?q=list-&sort=name')).toEqual([
      'alpha',
      'bravo',
      'Charlie',
      'Delta',
    ])
    expect(await names('/accounts?q=LIST-&sort=-balance_usd')).toEqual(NAMES.toReversed())
    expect(await names('/accounts?q=ALPH')).toEqual(['alpha'])
    const first = (await ask('GET', '/accounts?q=list-&sort=-name&limit=3')).json
    expect(first.data.map(({ name }: any) => name)).toEqual(['Delta', 'Charlie', 'bravo'])
    const rest = `/accounts?q=list-&sort=-name&limit=3&after=${first.next}`
    expect((await ask('GET', rest)).json).toMatchObject({
      data: [{ name: 'alpha' }],
      next: null,
      total: NAMES.length,
    })
    expect(first.total).toBe(NAMES.length)
    const [row] = await list('/accounts?q=list-bravo')
    expect(row).toMatchObject({ state: 'active', balance_usd: 13, key_count: 4, free_tier: false })
  })

  it('are searched for one name together, what has just that id first', async () => {
    const found = await list('/search?q=ALPHA')
    expect(found).toEqual([
      { kind: 'account', id: 'list-alpha', name: 'alpha', state: 'active' },
      {
        kind: 'key',
        id: 'key-alpha-0',
        name: 'alpha 0',
        state: 'active',
        account: 'list-alpha',
        start: expect.any(String),
      },
      {
        kind: 'key',
        id: 'key-alpha-1',
        name: 'alpha 1',
        state: 'active',
        account: 'list-alpha',
        start: expect.any(String),
      },
    ])
    expect((await list('/search?q=ALPHA&kind=account')).map(({ id }: any) => id)).toEqual([
      'list-alpha',
    ])
    for (const [query, param] of [
      ['q=a&kind=x', 'kind'],
      ['sha256=sk-sluice-1', 'sha256'],
    ]) {
      expect((await ask('GET', `/search?${query}`)).json.error.param).toBe(param)
    }
    expect(await list(`/search?sha256=${'0'.repeat(64)}`)).toEqual([])
    expect((await list('/search?q=key-alpha-1'))[0]).toMatchObject({ id: 'key-alpha-1' })
    expect(await list('/search?q=mock/echo')).toEqual([
      { kind: 'model', id: 'mock/echo', name: 'mock/echo' },
    ])
    // A vendor, and the models that it serves under other names, after those that are called so.
    const ofVendor = await list('/search?q=Mock')
    expect(ofVendor[0]).toEqual({ kind: 'vendor', id: 'mock', name: 'mock' })
    expect(ofVendor.slice(1).map(({ id }: any) => id)).toEqual([
      ...Object.keys(MOCK_CONFIG.models).toSorted(),
      'house/large',
    ])
    expect(await list('/search?q=oc&kind=vendor')).toEqual([ofVendor[0]])
    const wrong = await ask('GET', '/search')
    expect([wrong.status, wrong.json.error.param]).toEqual([400, 'q'])
  })

  it('are found by their name, whatever else of that name is archived', async () => {
    const make = async () =>
      (await ask('POST', '/accounts/list-alpha/keys', { name: 'again' })).json
    const made = []
    for (let n = 0; n < 10; n++) made.push((await make()).data.id)
    for (const id of made) await ask('DELETE', `/keys/${id}`)
    const { data: live } = await make()
    const found = await list('/search?kind=key&q=again')
    expect(found[0]).toMatchObject({ id: live.id, state: 'active' })
    expect(found.slice(1).map(({ state }: any) => state)).toEqual(Array(7).fill('archived'))
    await ask('DELETE', `/keys/${live.id}`)
    // The newest keys are all archived; those before them are offered.
    expect((await list('/search?kind=key')).length).toBeGreaterThan(0)
  })

  it('of keys follow what is created, changed, spent and archived', async () => {
    const { key } = (
      await ask('POST', '/accounts/list-delta/keys', { name: 'Spender', id: 'spends' })
    ).json
    expect((await gateway.chat(hello, { key })).status).toBe(200)
    expect((await list('/keys?account=list-delta&sort=-spend_usd'))[0]).toMatchObject({
      id: 'spends',
      state: 'active',
      running: 0,
    })
    const lastUsed = async () => (await list('/keys?account=list-delta&q=spends'))[0].last_used_at
    await expect.poll(lastUsed, { timeout: 60_000 }).toMatch(/^20\d\d-.*:00:00\.000Z$/)
    expect(await list('/keys?account=list-delta&sort=-last_used_at')).toMatchObject([
      { id: 'spends' },
      { id: 'key-delta-0', last_used_at: null },
    ])
    expect((await ask('GET', '/keys/spends')).json.data.last_used_at).toMatch(/:00:00\.000Z$/)
    await ask('PATCH', '/keys/spends', { name: 'Renamed', policy: { version: 1, deny: ['code'] } })
    expect(await names('/keys?q=renam')).toEqual(['Renamed'])
    expect(await names('/keys?q=renam&policy=none')).toEqual([])
    expect(await names('/keys?account=list-delta&policy=any')).toEqual(['Renamed'])
    await ask('PATCH', '/keys/spends', { disabled: true })
    expect(await names('/keys?account=list-delta&state=active')).toEqual(['Delta 0'])
    expect(await names('/keys?account=list-delta&state=disabled')).toEqual(['Renamed'])
    await ask('PATCH', '/keys/spends', { disabled: false, expires_at: '2026-01-01T00:00:00Z' })
    expect(await names('/keys?account=list-delta&state=expired&state=archived')).toEqual([
      'Renamed',
    ])
    await ask('DELETE', '/keys/spends')
    expect(await names('/keys?account=list-delta')).toEqual(['Delta 0'])
    expect(await names('/keys?account=list-delta&state=archived')).toEqual(['Renamed'])
    expect((await list('/accounts?q=list-delta'))[0].key_count).toBe(1)
  })

  it('are CSV too, all of what matches', async () => {
    const answer = await ask('GET', '/keys?q=bravo&format=csv&sort=name')
    expect(answer.headers['content-type']).toBe('text/csv; charset=utf-8')
    expect(answer.headers['cache-control']).toBe('no-store')
    const [head, ...lines] = answer.text.trim().split('\r\n')
    expect(head!.split(',').slice(0, 3)).toEqual(['id', 'account_id', 'name'])
    expect(lines.map((line) => line.split(',')[0])).toEqual(
      [0, 1, 2, 3].map((k) => `key-bravo-${k}`),
    )
    expect((await ask('GET', '/accounts?format=csv&q=alpha')).text).toContain(
      'list-alpha,alpha,active,11,',
    )
  })

  it.each([
    ['/accounts?colour=red', 'unsupported_parameter', 'colour'],
    ['/accounts?sort=colour', 'invalid_value', 'sort'],
    ['/accounts?state=expired', 'invalid_value', 'state'],
    ['/accounts?after=nothing', 'invalid_value', 'after'],
    ['/keys?policy=some', 'invalid_value', 'policy'],
    ['/keys?format=xml', 'invalid_value', 'format'],
    ['/keys?limit=201', 'invalid_value', 'limit'],
  ])('refuse %s', async (path, code, param) => {
    const answer = await ask('GET', path)
    expect([answer.status, answer.json.error]).toMatchObject([400, { code, param }])
  })
})
