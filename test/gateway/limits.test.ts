/** Limits of keys, teams and accounts as clients and operators see them. */
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from 'vitest'
import { call } from '../_cli.ts'
import { createTestGateway, hello, MOCK_CONFIG, type TestGateway } from '../_setup.ts'

const TOKEN = 'admin-token-of-the-test'

let gateway: TestGateway
beforeAll(async () => {
  gateway = await createTestGateway({ ...MOCK_CONFIG, admin: { token: TOKEN } })
})
afterAll(() => gateway.close())

const admin = async (method: string, path: string, body?: object) => {
  const answer = await gateway.ask(method, `/admin${path}`, { key: TOKEN, body })
  expect(answer.status, `${method} ${path}: ${answer.text}`).toBeLessThan(300)
  return answer.json.data
}

async function command(text: string, ...more: string[]): Promise<string> {
  const args = [...text.split(' '), ...more, '--url', gateway.url, '--token', TOKEN]
  const { code, out, err } = await call(args)
  expect([code, err], text).toEqual([0, ''])
  return out
}

const lastCall = async (key: string) =>
  (await admin('GET', `/requests?key=${key}`))[0] as { limited_by: string | null }

it('each refuse in turn, and say so in message, header, log, own key and command line', async () => {
  const models = { models: ['mock/*'] }
  const cases = [
    [{ unit: 'usd', window: '5h', value: '0.000001' }, 'key.cap.5h', 403],
    [{ unit: 'usd', window: 'week', value: '0.000001' }, 'key.cap.week', 403],
    [{ unit: 'usd', window: 'month', value: '0.000001' }, 'key.cap.month', 403],
    [{ unit: 'tokens', window: 'minute', value: 1, ...models }, 'key.tokens.minute', 429],
    [{ unit: 'requests', window: 'day', value: 1 }, 'key.requests.day', 429],
  ] as const
  const says = {
    '5h': /^The limit of 0\.000001 USD per 5 hours of this key is reached: 0\.\d+ USD counted since \S+Z\. It starts anew at \S+Z\.$/,
    week: /^The limit of 0\.000001 USD a week of this key is reached: 0\.\d+ USD counted since \S+T00:00:00Z\. It starts anew at \S+T00:00:00Z\.$/,
    month: /^The limit of 0\.000001 USD a month of this key is reached/,
    minute:
      /^Rate limit of 1 token per minute of this key for mock\/\* reached\. Try again in \d+s\.$/,
    day: /^Limit of 1 request a day of this key reached: 1 counted\. It starts anew at \S+\. Try again in \d+s\.$/,
  }
  for (const [limit, name, status] of cases) {
    const key = await gateway.newKey()
    await admin('PATCH', `/keys/${key.id}`, { limits: [limit] })
    expect((await gateway.chat(hello, { key: key.secret })).status, name).toBe(200)
    const refused = await gateway.chat(hello, { key: key.secret })
    expect(refused.status, name).toBe(status)
    expect(refused.json.error.message).toMatch(says[limit.window])
    const [told = '', unit, value, used] = String(refused.headers['x-service-limit']).split('; ')
    expect(told.startsWith(name)).toBe(true)
    expect([unit, value]).toEqual([`unit=${limit.unit}`, `value=${limit.value}`])
    expect(used).toMatch(/^used=[\d.]+$/)
    const expected = 'models' in limit ? `${name}.models` : name
    await expect.poll(async () => (await lastCall(key.id)).limited_by).toBe(expected)
    const own = await gateway.ask('GET', '/v1/key', { key: key.secret })
    const one = own.json.data.limits.find((some: any) => some.limit === told)
    expect(one).toMatchObject({ unit: limit.unit, window: limit.window, left: 0 })
    expect(Date.parse(one.resets_at)).toBeGreaterThan(Date.now())
    expect(await command(`limits show key:${key.id}`)).toContain(told)
  }
})

it('are raised for a while, and set back without a change of spend or rows', async () => {
  const { secret, id } = await gateway.newKey()
  const ask = async () => (await gateway.chat(hello, { key: secret })).status
  await command(`limits set key:${id} cap.week 0.000001`)
  expect([await ask(), await ask()]).toEqual([200, 403])
  const { ledger } = gateway.gateway.runtime
  const read = async () => {
    const items = []
    for await (const item of ledger.export()) {
      if (item.kind !== 'limits' && item.kind !== 'counter') items.push(item)
    }
    const year = new Date().getUTCFullYear()
    const span = `from=${year - 1}-01-01&to=${year + 2}-01-01`
    const path = `/admin/usage?key=${id}&group=key&format=csv&${span}`
    const csv = await gateway.ask('GET', path, { key: TOKEN })
    const sums = [await ledger.key('acme', id), await ledger.account('acme')]
    const text = async (path: string) =>
      (await gateway.ask('GET', `/admin/accounts/acme/${path}?format=csv`, { key: TOKEN })).text
    const written = [await text('statement'), await text('ledger')]
    return { items, sums, csv: csv.text, written }
  }
  // The calls are in the index of usage.
  await expect.poll(async () => (await read()).csv).toMatch(/,1,[^\n]*0\.000009/)
  const before = await read()
  const first = await admin('POST', `/keys/${id}/limits/cap.week/reset`, {
    reason: 'a test run',
    reference: 'once',
  })
  expect(first).toMatchObject({ duplicate: false })
  expect(first.counted).toBeGreaterThan(0)
  const again = { reason: 'a test run', reference: 'once' }
  expect(await admin('POST', `/keys/${id}/limits/cap.week/reset`, again)).toMatchObject({
    duplicate: true,
    counted: first.counted,
  })
  expect(await read()).toEqual(before)
  expect([await ask(), await ask()]).toEqual([200, 403])
  await command(`limits raise key:${id} cap.week 5 --until 6h`)
  expect(await ask()).toBe(200)
  const [limit] = (await admin('GET', `/keys/${id}/limits`)).slice(2)
  expect(limit).toMatchObject({ value: '5', raised: { from: '0.000001' } })
  await command(`limits raise key:${id} cap.week none`)
  expect(await ask()).toBe(403)
  // What is archived is refused for good: nothing of it is raised or set back.
  const { id: old } = await gateway.newKey()
  await command(`limits set key:${old} cap.week 1`)
  await command(`keys archive ${old} --yes`)
  for (const [act, body] of [
    ['raise', { value: '5', until: new Date(Date.now() + 60_000).toISOString() }],
    ['reset', { reason: 'x' }],
  ] as const) {
    const path = `/admin/keys/${old}/limits/cap.week/${act}`
    const { status, json } = await gateway.ask('POST', path, { key: TOKEN, body })
    const message = `"id" has to be one that is not archived; ${old} is, for good.`
    expect([status, json.error.message]).toEqual([400, message])
  }
  const unknown = await gateway.ask('POST', `/admin/keys/${id}/limits/cap.day/reset`, {
    key: TOKEN,
    body: { reason: 'x' },
  })
  expect(unknown.status).toBe(404)
  expect(unknown.json.error.message).toBe(`${id} has no limit "cap.day". It has: cap.week.`)
})

it('of a team hold for its keys, with its models, its switch and its settings for new keys', async () => {
  await gateway.newAccount('teams', '10')
  const team = await admin('POST', '/accounts/teams/teams', {
    id: 'red',
    name: 'Red',
    limits: [{ unit: 'requests', window: 'week', value: 2 }],
    deny_models: ['mock/tools'],
    new_keys: {
      tag: 'crew',
      limits: [{ unit: 'requests', window: 'day', value: 5 }],
      mask: true,
      cache: 'off',
      expires_in: 60,
    },
  })
  expect(team).toMatchObject({ id: 'red', account_id: 'teams', key_count: 0 })
  const make = () =>
    gateway.ask('POST', '/admin/accounts/teams/keys', {
      key: TOKEN,
      body: { name: 'k', team_id: 'red' },
    })
  const [one, two] = [(await make()).json, (await make()).json]
  expect(one.data).toMatchObject({
    tag: 'crew',
    team_id: 'red',
    mask: true,
    cache: 'off',
    expires_at: expect.any(String),
    from_defaults: ['limits', 'tag', 'cache', 'mask', 'expires_at'],
  })
  const ask = (key: string, model = 'mock/echo') => gateway.chat({ ...hello, model }, { key })
  const denied = await ask(one.key, 'mock/tools')
  expect(denied.json.error.message).toContain('is denied for the team of this key')
  expect((await ask(one.key)).status).toBe(200)
  expect((await ask(two.key)).status).toBe(200)
  const refused = await ask(one.key)
  expect(refused.status).toBe(429)
  expect(refused.json.error.message).toContain('Limit of 2 requests a week of this team reached')
  expect(await admin('GET', '/teams/red')).toMatchObject({ key_count: 2 })
  const { lifetime } = await gateway.gateway.runtime.ledger.key('teams', '@team:red')
  expect(lifetime).toBeGreaterThan(0n)
  await command('teams disable red')
  const off = await ask(two.key)
  expect([off.status, off.json.error.message]).toEqual([
    401,
    'The team of this API key is disabled.',
  ])
  await command('teams enable red')
  await admin('PATCH', `/keys/${two.data.id}`, { team_id: null })
  expect((await ask(two.key)).status).toBe(200)
  expect(await gateway.gateway.runtime.ledger.verify('teams')).toEqual([])
})

it('are one list or its simple form, and tell what is wrong with it', async () => {
  const { id } = await gateway.newKey()
  const refused = async (body: object) => {
    const answer = await gateway.ask('PATCH', `/admin/keys/${id}`, { key: TOKEN, body })
    expect(answer.status).toBe(400)
    return [answer.json.error.param, answer.json.error.message]
  }
  const day = { unit: 'usd', window: 'day', value: '1' }
  expect(await refused({ limits: [day], rpm_limit: 3 })).toEqual([
    'limits',
    'Send "limits" or its simple form (rpm_limit, concurrency_limit, spend_cap), not both.',
  ])
  expect(
    await refused({ limits: [{ unit: 'concurrent', value: 2 }, day, { ...day, value: '2' }] }),
  ).toEqual(['limits[2]', 'limits[1] has the same unit, window and models.'])
  expect((await refused({ limits: [{ ...day, window: 'minute' }] }))[0]).toBe('limits[0]')
  const rate = { unit: 'requests', window: 'minute', value: 7 }
  const both = await admin('PATCH', `/keys/${id}`, { limits: [rate, day] })
  expect(both).toMatchObject({
    rpm_limit: 7,
    spend_cap: { usd: '1', scope: 'day' },
    limits: [rate, day],
  })
  const cleared = await admin('PATCH', `/keys/${id}`, { spend_cap: null })
  expect(cleared).toMatchObject({ rpm_limit: 7, spend_cap: null, limits: [rate] })
  expect(await admin('PATCH', `/keys/${id}`, { limits: null })).toMatchObject({ limits: null })
})

it('are at most sixteen, in whichever form they are sent', async () => {
  const { id } = await gateway.newKey()
  const limits = Array.from({ length: 16 }, (_, i) => ({
    unit: 'requests',
    window: 'day',
    value: 5,
    models: [`mock/${i}`],
  }))
  await admin('PATCH', `/keys/${id}`, { limits })
  const body = { rpm_limit: 5 }
  const refused = await gateway.ask('PATCH', `/admin/keys/${id}`, { key: TOKEN, body })
  expect([refused.status, refused.json.error]).toMatchObject([
    400,
    { param: 'limits', message: 'There would be 17 limits: an owner has at most 16.' },
  ])
  const read = await admin('GET', `/keys/${id}`)
  expect(await admin('PATCH', `/keys/${id}`, { limits: read.limits })).toMatchObject({ limits })
})

it('of amounts that no answer could show are refused', async () => {
  const { id } = await gateway.newKey()
  const ask = (method: string, path: string, body?: object) =>
    gateway.ask(method, `/admin/keys/${id}${path}`, { key: TOKEN, body })
  const until = new Date(Date.now() + 3_600_000).toISOString()
  await admin('PATCH', `/keys/${id}`, { limits: [{ unit: 'usd', window: 'day', value: '1' }] })
  for (const usd of ['1e12', '1e99', '999999999999e1', '0e99']) {
    const limits = [{ unit: 'usd', window: 'day', value: usd }]
    const answers = [
      await ask('PATCH', '', { limits }),
      await ask('PATCH', '', { spend_cap: { usd, scope: 'day' } }),
      await ask('POST', '/limits/cap.day/raise', { value: usd, until }),
    ]
    expect(
      answers.map(({ status }) => status),
      usd,
    ).toEqual([400, 400, 400])
    expect((await ask('GET', '')).status).toBe(200)
  }
  const most = { usd: '999999999999.999999999999', scope: 'day' }
  expect(await admin('PATCH', `/keys/${id}`, { spend_cap: most })).toMatchObject({
    spend_cap: most,
  })
  expect((await ask('GET', '')).status).toBe(200)
})

it('that are set above their raise hold at once', async () => {
  const { id } = await gateway.newKey()
  const set = async (usd: string) => {
    await admin('PATCH', `/keys/${id}`, { spend_cap: { usd, scope: 'day' } })
    return (await admin('GET', `/keys/${id}/limits`)).at(-1)
  }
  await set('1')
  const until = new Date(Date.now() + 3_600_000).toISOString()
  await admin('POST', `/keys/${id}/limits/cap.day/raise`, { value: '5', until })
  expect(await set('2')).toMatchObject({ value: '5', raised: { from: '2' } })
  const above = await set('9')
  expect(above).toMatchObject({ value: '9' })
  expect(above).not.toHaveProperty('raised')
})

it('say what ends first: a cap along the chain, the balance, on the free tier the requests of the day', async () => {
  const { id } = await gateway.newKey()
  const left = async (key: string) => (await admin('GET', `/keys/${key}`)).left
  expect(await left(id)).toMatchObject({ limit: 'balance', unit: 'usd', resets_at: null })
  await admin('PATCH', `/keys/${id}`, {
    limits: [
      { unit: 'usd', window: 'week', value: '0.5' },
      { unit: 'usd', window: 'month', value: '0.25' },
      { unit: 'usd', window: 'day', value: '0.1', models: ['mock/*'] },
    ],
  })
  expect(await left(id)).toMatchObject({ limit: 'key.cap.month', value: '0.25', left: 0.25 })
  await admin('POST', '/accounts', { id: 'unpaid', name: 'Unpaid' })
  const free = await admin('POST', '/accounts/unpaid/keys', { name: 'free' })
  expect(await left(free.id)).toMatchObject({ limit: 'tier.day', unit: 'requests', left: 200 })
})

it('of many teams are listed without reading the keys for each', async () => {
  await admin('POST', '/accounts', { id: 'crowd', name: 'Crowd' })
  for (let n = 0; n < 20; n++) {
    await admin('POST', '/accounts/crowd/teams', { id: `crowd-${n}`, name: `Team ${n}` })
  }
  await admin('POST', '/accounts/crowd/keys', { name: 'one', team_id: 'crowd-3' })
  const { accounts } = gateway.gateway.runtime
  const listKeys = vi.spyOn(accounts, 'listKeys')
  onTestFinished(() => listKeys.mockRestore())
  const teams = await admin('GET', '/teams?account=crowd&sort=name')
  expect(teams).toHaveLength(20)
  expect(teams.find(({ id }: { id: string }) => id === 'crowd-3').key_count).toBe(1)
  expect(listKeys).toHaveBeenCalledTimes(1)
  const pages = await gateway.ask('GET', '/admin/teams?account=crowd&sort=-created_at&limit=2', {
    key: TOKEN,
  })
  expect(pages.json.data.map(({ id }: { id: string }) => id)).toEqual(['crowd-19', 'crowd-18'])
  expect(pages.json.next).toBe('crowd-18')
  const wrong = async (query: string) => {
    const { status, json } = await gateway.ask('GET', `/admin/teams?${query}`, { key: TOKEN })
    return [status, json.error.param]
  }
  expect(await wrong('state=asleep')).toEqual([400, 'state'])
  expect(await wrong('sort=size')).toEqual([400, 'sort'])
  expect(await wrong('account=nobody')).toEqual([404, null])
})

it('of a team: usage, requests and keys are told and filtered by it', async () => {
  const team = await admin('POST', '/accounts/acme/teams', { name: 'Field' })
  const inside = await gateway.newKey()
  const outside = await gateway.newKey()
  await admin('PATCH', `/keys/${inside.id}`, { team_id: team.id })
  for (const { secret } of [inside, inside, outside]) {
    expect((await gateway.chat(hello, { key: secret })).status).toBe(200)
  }
  const keys = await admin('GET', `/keys?team=${team.id}`)
  expect(keys.map(({ id }: { id: string }) => id)).toEqual([inside.id])
  await expect
    .poll(async () =>
      (await admin('GET', `/requests?team=${team.id}`)).map((one: any) => one.key_id),
    )
    .toEqual([inside.id, inside.id])
  const [request] = await admin('GET', `/requests?team=${team.id}`)
  expect(request).toMatchObject({ team_id: team.id, account_id: 'acme' })
  const usage = async (query: string) => {
    const { json } = await gateway.ask('GET', `/admin/usage?${query}`, { key: TOKEN })
    return json
  }
  await expect.poll(async () => (await usage(`team=${team.id}`)).totals.calls).toBe(2)
  const spent = (await admin('GET', `/teams/${team.id}`)).spend.lifetime
  for (const rollup of ['hour', 'day', 'month']) {
    const grouped = await usage(`group=team,account&account=acme&rollup=${rollup}`)
    const cell = grouped.data.find((one: any) => one.group.team === team.id)
    expect([rollup, cell.calls, cell.cost_usd]).toEqual([rollup, 2, spent])
    expect(grouped.totals.calls).toBeGreaterThan(2)
    expect(grouped.ledger.agrees).toBe(true)
  }
  expect(await command(`usage --team ${team.id} --by key`)).toContain(inside.id)
})

it('turn in the zone of the account, and so do the days of usage: sums over zones are those of each', async () => {
  // In one of them the date is always another than in UTC.
  const zones = ['Pacific/Kiritimati', 'Etc/GMT+12']
  const dateIn = (timeZone: string) => new Intl.DateTimeFormat('sv-SE', { timeZone }).format()
  const usage = async (query: string) =>
    (await gateway.ask('GET', `/admin/usage?${query}&rollup=day`, { key: TOKEN })).json
  const own: any[] = []
  for (const [n, zone] of zones.entries()) {
    const account = `zone-${n}`
    await gateway.newAccount(account, '10')
    await admin('PATCH', `/accounts/${account}`, { time_zone: zone })
    const key = await gateway.newKey({ account, rpm: 2 })
    const statuses = []
    for (let call = 0; call < 3; call++) {
      statuses.push((await gateway.chat(hello, { key: key.secret })).status)
    }
    expect(statuses).toEqual([200, 200, 429])
    await expect.poll(async () => (await usage(`account=${account}`)).totals.refused).toBe(1)
    for (const group of ['account', 'code']) {
      const answer = await usage(`account=${account}&group=${group}`)
      expect(answer.time_zone).toBe(zone)
      const starts = new Set(answer.data.map(({ start }: { start: string }) => start))
      const offset = n === 0 ? '+14:00' : '-12:00'
      expect([...starts]).toEqual([`${dateIn(zone)}T00:00:00${offset}`])
      if (group === 'account') own.push(answer)
    }
    const { json } = await gateway.ask('GET', '/v1/key/usage?rollup=day', {
      key: (await gateway.newKey({ account })).secret,
    })
    expect(json.time_zone).toBe(zone)
    const [first] = await admin('GET', `/requests?key=${key.id}`)
    expect(first).toMatchObject({ day: dateIn(zone), limited_by: 'key.rpm' })
    // By hours, too: dates that are given are those of the zone.
    const today = dateIn(zone)
    const next = new Date(Date.parse(today) + 86_400_000).toISOString().slice(0, 10)
    const hours = `account=${account}&from=${today}&to=${next}&rollup=hour`
    const hourly = await gateway.ask('GET', `/admin/usage?${hours}`, { key: TOKEN })
    expect(hourly.json.totals).toMatchObject({ calls: 2, refused: 1 })
  }
  const both = await usage('account=zone-0&account=zone-1&group=account')
  expect(both.time_zone).toBe('mixed')
  const dayOf = ({ start, group, calls, cost_usd }: any) => [
    start.slice(0, 10),
    group.account,
    calls,
    cost_usd,
  ]
  expect(both.data.map(dayOf).toSorted()).toEqual(
    own.flatMap(({ data }) => data.map(dayOf)).toSorted(),
  )
  expect(both.ledger.agrees).toBe(true)
})

it('of an account without a zone turn in that of the configuration, which its view says', async () => {
  const defaults = { timeZone: 'Asia/Kolkata' }
  await using own = await createTestGateway({ ...MOCK_CONFIG, admin: { token: TOKEN }, defaults })
  const { json } = await own.ask('GET', '/admin/accounts/acme', { key: TOKEN })
  expect(json.data).toMatchObject({ time_zone: null, effective_time_zone: 'Asia/Kolkata' })
})
