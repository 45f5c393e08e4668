/** Members of accounts: invited, with keys of their own, and bounded by their account on every route. */
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ME_ROUTES } from '../../src/server/me/api.ts'
import { eventually } from '../_wait.ts'
import { createTestGateway, hello, MOCK_CONFIG, type TestGateway } from '../_setup.ts'
import { runs } from '../_runs.ts'

const TOKEN = 'token-of-the-first-admin'
const PAGE = { 'sec-fetch-site': 'same-origin', 'content-type': 'application/json' }

let gateway: TestGateway
beforeAll(async () => {
  gateway = await createTestGateway({
    ...MOCK_CONFIG,
    admin: { token: TOKEN, members: { keys: 2 }, contact: 'ops@example.com' },
  })
  await gateway.newAccount('other', '5')
})
afterAll(() => gateway.close())

const admin = (method: string, path: string, body?: object) =>
  gateway.ask(method, `/admin${path}`, { key: TOKEN, body })

async function invited(account: string, name: string, more = {}) {
  const made = await admin('POST', '/members', { account, name, ...more })
  expect(made.status).toBe(201)
  const [, ticket] = made.json.link.split('/me#invite=')
  return { id: made.json.data.id as string, ticket: ticket as string, data: made.json.data }
}

const post = (ticket: string) =>
  gateway.ask('POST', '/me/api/session', { key: null, headers: PAGE, body: { ticket } })

async function signedIn(account: string, name: string, more = {}) {
  const { id, ticket } = await invited(account, name, more)
  const answer = await post(ticket)
  expect(answer.status).toBe(200)
  const [set] = answer.headers['set-cookie']!
  expect(set).toMatch(/^sluice_me=session\.\w{46}; .*Path=\/me; HttpOnly; SameSite=Strict/)
  const cookie = set!.split(';')[0]!
  const ask = (method: string, path: string, body?: object, headers = {}) =>
    gateway.ask(method, `/me/api${path}`, {
      key: null,
      headers: { ...PAGE, cookie, ...headers },
      body,
    })
  return { id, ask, cookie }
}

describe('the holder of a key', () => {
  const signIn = (key: string, more = {}) =>
    gateway.ask('POST', '/me/api/session', { key: null, headers: PAGE, body: { key, ...more } })
  const holding = (answer: Awaited<ReturnType<typeof signIn>>) => {
    expect(answer.status, answer.text).toBe(200)
    const set = answer.headers['set-cookie']![0]!
    const cookie = set.split(';')[0]!
    const ask = (method: string, path: string, body?: object) =>
      gateway.ask(method, `/me/api${path}`, { key: null, headers: { ...PAGE, cookie }, body })
    return { set, ask }
  }

  it('signs in with its secret, sees and plays this key alone, and changes nothing', async () => {
    await gateway.newAccount('held', '5')
    const [own, other] = [
      await gateway.newKey({ account: 'held', name: 'own' }),
      await gateway.newKey({ account: 'held', name: 'other' }),
    ]
    const call = await gateway.chat(hello, { key: other.secret })
    await gateway.chat(hello, { key: own.secret })
    const { set, ask } = holding(await signIn(own.secret))
    expect(set).toMatch(/^sluice_me=session\.\w{46}; /)
    expect(set).not.toMatch(/max-age/i)
    expect(holding(await signIn(own.secret, { keep: true })).set).toMatch(/max-age/i)
    const session = await ask('GET', '/session')
    expect(session.json.data).toMatchObject({
      key_id: own.id,
      member_id: null,
      how: 'key',
      places: [],
    })
    expect(session.text).not.toContain(own.secret)
    const place = (await ask('GET', '/place')).json.data
    expect(place).toMatchObject({ account_id: 'held', manages: false, contact: 'ops@example.com' })
    expect(place.limits.length).toBeGreaterThan(0)
    expect((await ask('GET', '/keys')).json.data.map((one: any) => one.id)).toEqual([own.id])
    expect((await ask('GET', '/models')).json.data.length).toBeGreaterThan(0)
    await eventually(async () => expect((await ask('GET', '/requests')).json.data).toHaveLength(1))
    expect((await ask('GET', `/requests/${String(call.headers['x-request-id'])}`)).status).toBe(404)
    const played = await ask('POST', `/keys/${own.id}/play`, {})
    expect((await gateway.chat(hello, { key: played.json.data.token })).status).toBe(200)
    const refused = new Set<string>()
    for (const [path, methods] of Object.entries(ME_ROUTES)) {
      for (const method of Object.keys(methods)) {
        const id = path.startsWith('/keys') ? other.id : 'x'
        const body = method === 'GET' || method === 'DELETE' ? undefined : {}
        const { status } = await ask(method, path.replace(':id', id), body)
        if (path.startsWith('/keys/')) expect([403, 404], `${method} ${path}`).toContain(status)
        if (status === 403) refused.add(`${method} ${path}`)
      }
    }
    expect([...refused]).toEqual(
      expect.arrayContaining([
        'POST /keys',
        'PATCH /keys/:id',
        'DELETE /keys/:id',
        'POST /keys/:id/rotate',
        'GET /members',
        'POST /members',
      ]),
    )
    expect((await ask('POST', '/session', { member: 'mem_x' })).status).toBe(404)
    const audit = (await admin('GET', `/audit?actor=key:${own.id}`)).json.data
    expect(audit.map((one: any) => one.action)).toEqual(
      expect.arrayContaining(['session.create', 'key.play']),
    )
  })

  it('is signed out with the secret, and when the key is disabled', async () => {
    const { id, secret } = await gateway.newKey({ account: 'held', name: 'short' })
    const { ask } = holding(await signIn(secret))
    expect((await ask('GET', '/place')).status).toBe(200)
    await admin('PATCH', `/keys/${id}`, { disabled: true })
    expect((await ask('GET', '/place')).status).toBe(401)
    await admin('PATCH', `/keys/${id}`, { disabled: false })
    expect((await ask('GET', '/place')).status).toBe(200)
    await admin('POST', `/keys/${id}/rotate`, { overlap: 0 })
    expect((await ask('GET', '/place')).status).toBe(401)
    expect((await signIn(secret)).status).toBe(401)
  })

  it('reads of the last call without an answer, until its model answers again', async () => {
    const { id, secret } = await gateway.newKey({ account: 'held', name: 'stopped' })
    const { ask } = holding(await signIn(secret))
    const last = async () => (await ask('GET', '/place')).json.data.last_unanswered
    expect(await last()).toBeNull()
    await admin('PATCH', `/keys/${id}`, { models: ['mock/none'] })
    const refused = await gateway.chat(hello, { key: secret })
    expect(refused.status).toBeGreaterThanOrEqual(400)
    await eventually(async () => expect(await last()).not.toBeNull())
    expect(await last()).toMatchObject({
      end: 'rejected',
      code: refused.json.error.code,
      message: refused.json.error.message,
    })
    await admin('PATCH', `/keys/${id}`, { models: null })
    expect((await gateway.chat(hello, { key: secret })).status).toBe(200)
    await eventually(async () => expect(await last()).toBeNull())
  })

  it('cannot guess: after ten wrong secrets of an address others are 429, and the right one passes', async () => {
    await using own = await createTestGateway({ ...MOCK_CONFIG, admin: { token: TOKEN } })
    const signIn = (key: string) =>
      own.ask('POST', '/me/api/session', { key: null, headers: PAGE, body: { key } })
    const statuses: number[] = []
    for (let i = 0; i < 14; i++) statuses.push((await signIn(`sk-sluice-wrong-${i}`)).status)
    expect(statuses.slice(-3)).toEqual([429, 429, 429])
    expect(statuses[0]).toBe(401)
    expect((await signIn(own.key.secret)).status).toBe(200)
  })
})

describe('a member', () => {
  it('signs in by an invitation, once; a new link ends the one before', async () => {
    const { id, ticket, data } = await invited('acme', 'Ada', { email: 'ada@example.com' })
    expect(data).toMatchObject({ account_id: 'acme', manages: true, disabled: false })
    const second = await admin('POST', `/members/${id}/link`, {})
    expect((await post(ticket)).status).toBe(401)
    const [, next] = second.json.link.split('#invite=')
    const uses = await Promise.all(Array.from({ length: 20 }, () => post(next)))
    expect(uses.filter(({ status }) => status === 200)).toHaveLength(1)
    await admin('DELETE', `/members/${id}`)
  })

  it('makes, renames, rotates, disables and archives its own keys, within its bound', async () => {
    const { id, ask } = await signedIn('acme', 'Bea', { manages: false })
    const made = await ask('POST', '/keys', { name: 'laptop', models: ['mock/*'] })
    expect(made.status).toBe(201)
    const key = made.json.data.id as string
    expect(made.json.data).toMatchObject({ owner: id, models: ['mock/*'] })
    expect((await gateway.chat(hello, { key: made.json.key })).status).toBe(200)
    const rotated = await ask('POST', `/keys/${key}/rotate`, { overlap: 0 })
    expect((await gateway.chat(hello, { key: made.json.key })).status).toBe(401)
    expect((await gateway.chat(hello, { key: rotated.json.key })).status).toBe(200)
    const played = await ask('POST', `/keys/${key}/play`, {})
    expect((await gateway.chat(hello, { key: played.json.data.token })).status).toBe(200)
    for (const wider of [{ rpm_limit: 10_000 }, { policy: null }, { owner: 'x' }]) {
      expect((await ask('PATCH', `/keys/${key}`, wider)).status).toBe(400)
    }
    expect((await ask('PATCH', `/keys/${key}`, { disabled: true })).json.data.disabled).toBe(true)
    expect((await gateway.chat(hello, { key: rotated.json.key })).status).toBe(401)
    expect((await ask('PATCH', `/keys/${key}`, { disabled: false })).status).toBe(200)
    await admin('PATCH', `/keys/${key}`, { disabled: true })
    expect((await ask('PATCH', `/keys/${key}`, { disabled: false })).status).toBe(403)
    expect((await ask('POST', '/keys', { name: 'phone' })).status).toBe(201)
    expect((await ask('POST', '/keys', { name: 'tablet' })).status).toBe(403)
    expect((await ask('DELETE', `/keys/${key}`)).status).toBe(200)
    expect((await ask('POST', '/keys', { name: 'tablet' })).status).toBe(201)
    const listed = await ask('GET', '/keys')
    expect(listed.json.data.map((one: any) => one.name)).toEqual(['phone', 'tablet'])
    expect(listed.text).not.toContain('file:')
    const { data } = (await admin('GET', `/audit?actor=member:${id}&limit=200`)).json
    const actions = new Set(data.map((one: any) => one.action))
    const expected = [
      'session.create',
      'key.create',
      'key.rotate',
      'key.play',
      'key.update',
      'key.archive',
    ]
    expect(actions).toEqual(new Set(expected))
    expect(data.every((one: any) => one.session?.startsWith('ses_'))).toBe(true)
  })

  it('gets 404 for every id that is not of its account, and 403 for what it may only see', async () => {
    const boss = await signedIn('acme', 'Cleo', { manages: true })
    const plain = await signedIn('acme', 'Dan', { manages: false })
    const foreign = await signedIn('other', 'Eve')
    const theirs = (await foreign.ask('POST', '/keys', { name: 'secret-key' })).json.data.id
    const dans = (await plain.ask('POST', '/keys', { name: 'of-dan' })).json.data.id
    const called = await foreign.ask('POST', `/keys/${theirs}/play`, {})
    const call = await gateway.chat(hello, { key: called.json.data.token })
    expect(call.status).toBe(200)
    const [session] = (await foreign.ask('GET', '/sessions')).json.data
    const ids: Record<string, string[]> = {
      keys: [theirs, 'key_none', foreign.id],
      members: [foreign.id, 'mem_none', theirs],
      requests: [call.headers['x-request-id'] as string, 'req_none'],
      sessions: [session.id, 'ses_none'],
      payments: ['pay_none'],
      statements: ['S-2026-00001'],
    }
    for (const [path, methods] of Object.entries(ME_ROUTES)) {
      if (!path.includes(':id')) continue
      for (const method of Object.keys(methods)) {
        for (const id of ids[path.split('/')[1]!]!) {
          const body = method === 'GET' || method === 'DELETE' ? undefined : { disabled: true }
          const sent = path.endsWith('rotate') || path.endsWith('play') ? {} : body
          const answer = await boss.ask(method, path.replace(':id', id), sent)
          expect(
            [answer.status, answer.text.includes('secret-key')],
            `${method} ${path} ${id}`,
          ).toEqual([404, false])
        }
      }
    }
    expect((await plain.ask('GET', `/keys/${gateway.key.id}`)).status).toBe(404)
    expect((await plain.ask('GET', '/members')).status).toBe(403)
    expect((await plain.ask('POST', '/members', { name: 'x' })).status).toBe(403)
    expect((await boss.ask('GET', `/keys/${dans}`)).status).toBe(200)
    expect((await boss.ask('PATCH', `/keys/${dans}`, { name: 'mine' })).status).toBe(403)
    expect((await boss.ask('POST', `/keys/${dans}/rotate`, {})).status).toBe(403)
    expect((await boss.ask('PATCH', `/keys/${dans}`, { disabled: true })).status).toBe(200)
    expect((await plain.ask('PATCH', `/keys/${dans}`, { disabled: false })).status).toBe(403)
    // The session of a member is none of the console, and the other way round.
    const asAdmin = { ...PAGE, cookie: boss.cookie.replace('sluice_me', 'sluice_console') }
    const refused = await gateway.ask('GET', '/admin/accounts', { key: null, headers: asAdmin })
    expect(refused.status).toBe(401)
    expect(
      (await boss.ask('GET', '/keys', undefined, { 'sec-fetch-site': 'cross-site' })).status,
    ).toBe(403)
  })

  it('sees what is left, its models, usage, calls and sessions; one that manages those of the account', async () => {
    await gateway.newAccount('third', '5')
    const boss = await signedIn('third', 'Gus')
    const plain = await signedIn('third', 'Hal')
    const ownKey = async (one: typeof boss, name: string) =>
      (await one.ask('POST', '/keys', { name })).json.key as string
    const [ofBoss, ofPlain] = [await ownKey(boss, 'b'), await ownKey(plain, 'p')]
    const calls = [
      await gateway.chat(hello, { key: ofBoss }),
      await gateway.chat(hello, { key: ofPlain }),
    ]
    expect(calls.map(({ status }) => status)).toEqual([200, 200])
    const place = async (one: typeof boss) => (await one.ask('GET', '/place')).json.data
    const cost = calls.reduce((sum, { json }) => sum + json.usage.cost, 0)
    const left = expect.closeTo(5 - cost, 12)
    expect(await place(boss)).toMatchObject({
      account_id: 'third',
      left_usd: left,
      balance_usd: left,
    })
    expect(await place(plain)).not.toHaveProperty('balance_usd')
    const models = (await plain.ask('GET', '/models')).json.data
    expect(models.map(({ id }: { id: string }) => id)).toContain('mock/echo')
    const seen = async (one: typeof boss) => {
      const { data } = (await one.ask('GET', '/requests')).json
      return data.map(({ id }: { id: string }) => id).toSorted()
    }
    const [first, second] = calls.map(({ headers }) => headers['x-request-id'] as string)
    await eventually(async () => expect(await seen(boss)).toEqual([first, second].toSorted()))
    expect(await seen(plain)).toEqual([second])
    expect((await plain.ask('GET', `/requests/${first}`)).status).toBe(404)
    const one = await plain.ask('GET', `/requests/${second}`)
    expect(one.json.data).toMatchObject({ id: second, cost_usd: calls[1]!.json.usage.cost })
    expect(one.json.data).not.toHaveProperty('deployment')
    await eventually(async () => {
      const sums = [boss, plain].map(
        async (each) => (await each.ask('GET', '/usage')).json.totals.calls,
      )
      expect(await Promise.all(sums)).toEqual([2, 1])
    })
    const sessions = (await plain.ask('GET', '/sessions')).json.data
    expect(sessions).toEqual([expect.objectContaining({ how: 'invitation', current: true })])
    expect((await plain.ask('DELETE', `/sessions/${sessions[0].id}`)).status).toBe(200)
    expect((await plain.ask('GET', '/place')).status).toBe(401)
  })

  it('that manages invites others, and cannot leave its account without one', async () => {
    const boss = await signedIn('other', 'Fay', { manages: true })
    const listed = await boss.ask('GET', '/members')
    for (const { id, manages } of listed.json.data) {
      if (manages && id !== boss.id) await boss.ask('PATCH', `/members/${id}`, { manages: false })
    }
    expect((await boss.ask('PATCH', `/members/${boss.id}`, { manages: false })).status).toBe(403)
    expect((await boss.ask('PATCH', `/members/${boss.id}`, { disabled: true })).status).toBe(403)
    const made = await boss.ask('POST', '/members', { name: 'Gus' })
    expect([made.status, made.json.data.manages]).toEqual([201, false])
    expect(made.json.link).toContain('#invite=once.')
  })

  it('that is disabled is signed out, and its keys with it', async () => {
    const { id, ask } = await signedIn('acme', 'Hal', { manages: false })
    const made = await ask('POST', '/keys', { name: 'laptop' })
    expect((await admin('PATCH', `/members/${id}`, { disabled: true })).status).toBe(200)
    expect((await ask('GET', '/keys')).status).toBe(401)
    expect((await gateway.chat(hello, { key: made.json.key })).status).toBe(401)
    await admin('PATCH', `/members/${id}`, { disabled: false })
    expect((await gateway.chat(hello, { key: made.json.key })).status).toBe(401)
  })

  it('never has a key that is wider than the place allows, whatever it asks for', async () => {
    await gateway.newAccount('bounded', '5')
    const new_keys = {
      limits: [
        { unit: 'usd', window: 'month', value: '5' },
        { unit: 'requests', window: 'minute', value: 60 },
      ],
      models: ['mock/*'],
      deny_models: ['mock/vision'],
      expires_in: 3600,
    }
    await admin('PATCH', '/accounts/bounded', { new_keys, member_keys: 3 })
    const future = (seconds: number) => new Date(Date.now() + seconds * 1000).toISOString()
    const settings = fc.record(
      {
        rpm_limit: fc.constantFrom(null, 1, 60, 61, 5000),
        concurrency_limit: fc.constantFrom(null, 1, 30, 31),
        spend_cap: fc.constantFrom(
          null,
          { usd: '5', scope: 'month' },
          { usd: '5.000000000001', scope: 'month' },
          { usd: '1', scope: 'day' },
        ),
        models: fc.constantFrom(null, ['mock/echo'], ['mock/*'], ['mock/echo', 'other/x'], ['*/*']),
        deny_models: fc.constantFrom(null, ['mock/vision'], ['mock/*'], ['mock/echo']),
        expires_at: fc.constantFrom(null, future(60), future(3000), future(100_000)),
      },
      { requiredKeys: [] },
    )
    const step = fc.record({ settings, act: fc.constantFrom('make', 'change', 'change', 'rotate') })
    const walks = fc.array(step, { minLength: 6, maxLength: 12 })
    let members = 0
    let made = 0
    const property = fc.asyncProperty(walks, async (steps) => {
      const { ask } = await signedIn('bounded', `M${members++}`, { manages: false })
      let key: string | undefined
      for (const { act, settings: wanted } of steps) {
        const answer =
          act === 'make' || key === undefined
            ? await ask('POST', '/keys', { name: 'k', ...wanted })
            : act === 'change'
              ? await ask('PATCH', `/keys/${key}`, wanted)
              : await ask('POST', `/keys/${key}/rotate`, { overlap: 0 })
        expect([200, 201, 400, 403]).toContain(answer.status)
        if (answer.status >= 300) continue
        const { data } = answer.json
        key = data.id as string
        made++
        const cap = data.limits.find((one: any) => one.unit === 'usd' && one.window === 'month')
        expect(Number(cap.value)).toBeLessThanOrEqual(5)
        expect(data.rpm_limit).toBeLessThanOrEqual(60)
        expect(data.concurrency_limit ?? 30).toBeLessThanOrEqual(30)
        expect(data.models.every((one: string) => one.startsWith('mock/'))).toBe(true)
        expect(
          data.deny_models.some((one: string) => ['mock/vision', 'mock/*'].includes(one)),
        ).toBe(true)
        expect(Date.parse(data.expires_at) - Date.parse(data.created_at)).toBeLessThanOrEqual(
          3_600_000,
        )
      }
      expect((await ask('GET', '/keys')).json.data.length).toBeLessThanOrEqual(3)
    })
    // An account has at most 200 members.
    const numRuns = Math.min(runs(12), 150)
    await fc.assert(property, { numRuns })
    expect(made).toBeGreaterThan(numRuns / 2)
    const { ask } = await signedIn('bounded', 'Named', { manages: false })
    const narrow = await ask('POST', '/keys', {
      name: 'k',
      spend_cap: { usd: '2', scope: 'month' },
    })
    expect(narrow.json.data).toMatchObject({ rpm_limit: 60, spend_cap: { usd: '2' } })
    const refused = await ask('POST', '/keys', {
      name: 'k',
      spend_cap: { usd: '6', scope: 'month' },
    })
    expect(refused.json.error).toMatchObject({
      param: 'limits',
      message: "Invalid 'limits': the limit cap.month of such a key is at most 5.",
    })
    // An operator is bound by no ceiling, and may give a key to another.
    const own = (await ask('POST', '/keys', { name: 'k' })).json.data.id as string
    const wide = await admin('PATCH', `/keys/${own}`, { rpm_limit: 5000, owner: null })
    expect([wide.status, wide.json.data.owner]).toEqual([200, null])
    expect((await admin('PATCH', `/keys/${own}`, { owner: 'mem_none' })).status).toBe(400)
    expect((await ask('GET', `/keys/${own}`)).status).toBe(404)
  })

  it('makes no more keys at once than it may have', async () => {
    const { ask } = await signedIn('acme', 'Ian', { manages: false })
    const made = await Promise.all(
      Array.from({ length: 10 }, (_, i) => ask('POST', '/keys', { name: `k${i}` })),
    )
    expect(made.filter(({ status }) => status === 201)).toHaveLength(2)
  })

  it('of a team sees and makes keys of the team alone', async () => {
    await gateway.newAccount('teamed', '5')
    const settings = {
      id: 'web',
      name: 'Web',
      new_keys: { limits: [{ unit: 'requests', window: 'minute', value: 9 }] },
    }
    expect((await admin('POST', '/accounts/teamed/teams', settings)).status).toBe(201)
    const boss = await signedIn('teamed', 'Jo', { team: 'web' })
    const over = await signedIn('teamed', 'Kim')
    const made = await boss.ask('POST', '/keys', { name: 'of-team' })
    expect(made.json.data).toMatchObject({ team_id: 'web', rpm_limit: 9, owner: boss.id })
    const theirs = (await over.ask('POST', '/keys', { name: 'of-account' })).json.data.id
    expect((await boss.ask('GET', `/keys/${theirs}`)).status).toBe(404)
    expect((await over.ask('GET', `/keys/${made.json.data.id}`)).status).toBe(200)
    const place = (await boss.ask('GET', '/place')).json.data
    expect(place).toMatchObject({ team_id: 'web', name: 'Web', manages: true, member_keys: 2 })
    expect(place).not.toHaveProperty('balance_usd')
    const invited = await boss.ask('POST', '/members', { name: 'Lea' })
    expect(invited.json.data).toMatchObject({ team_id: 'web', manages: false })
    expect((await boss.ask('PATCH', `/members/${over.id}`, { disabled: true })).status).toBe(404)
    expect((await boss.ask('PATCH', `/members/${boss.id}`, { manages: false })).status).toBe(403)
    expect((await boss.ask('GET', '/members')).json.data).toHaveLength(2)
    expect((await over.ask('GET', '/members')).json.data).toHaveLength(3)
  })
})
