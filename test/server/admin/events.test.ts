/** What a console sees while the gateway works: events, the overview, and the end of a running call. */
import { isDeepStrictEqual } from 'node:util'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { createTestGateway, hello, MOCK_CONFIG, type TestGateway } from '../../_setup.ts'
import { LiveEvents, type LiveEvent } from '../../../src/observe/live-events.ts'

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

const get = (path: string) => gateway.ask('GET', `/admin${path}`, { key: TOKEN })
const chat = (key: string, body: object = hello) =>
  gateway.ask('POST', '/v1/chat/completions', { key, body })
const long = {
  model: 'mock/slow',
  stream: true,
  messages: [{ role: 'user', content: 'one two three four five six seven eight nine ten' }],
}

/** Listens to events until the test ends. */
async function listen(query = '', headers: Record<string, string> = {}) {
  const ending = new AbortController()
  onTestFinished(() => ending.abort())
  const response = await fetch(`${gateway.url}/admin/events${query}`, {
    headers: { authorization: `Bearer ${TOKEN}`, ...headers },
    signal: ending.signal,
  })
  const events: { id: string; type: string; data: any }[] = []
  const read = async () => {
    let text = ''
    for await (const part of response.body!.pipeThrough(new TextDecoderStream())) {
      text += part
      const whole = text.split('\n\n')
      text = whole.pop()!
      for (const one of whole) {
        const fields = Object.fromEntries(one.split('\n').map((line) => line.split(/: (.*)/s)))
        if (fields.event === undefined) continue
        events.push({ id: fields.id, type: fields.event, data: JSON.parse(fields.data) })
      }
    }
  }
  read().catch(() => undefined)
  return { response, events, stop: () => ending.abort() }
}

describe('events', () => {
  it('tell of calls as they start, end and are refused, and of changes by the API', async () => {
    const { id, secret } = await gateway.newKey({ rpm: 1 })
    const { response, events } = await listen()
    expect(response.headers.get('content-type')).toBe('text/event-stream')
    const answer = await chat(secret)
    await chat(secret)
    await gateway.ask('PATCH', `/admin/keys/${id}`, { key: TOKEN, body: { name: 'renamed' } })
    await expect
      .poll(() => events.map(({ type }) => type))
      .toEqual(['call.started', 'call.ended', 'call.refused', 'audit'])
    expect(events[0]!.data).toMatchObject({ key_id: id, model: 'mock/echo', running: true })
    expect(events[1]!.data).toMatchObject({
      status: 200,
      running: false,
      cost_usd: answer.json.usage.cost,
    })
    expect(events[2]!.data).toMatchObject({ status: 429, limited_by: 'key.rpm' })
    expect(events[3]!.data).toMatchObject({
      actor: 'admin',
      action: 'key.update',
      object: `key:${id}`,
    })
  })

  it('are filtered as requests are, and go on where a client was', async () => {
    const [one, other] = [await gateway.newKey(), await gateway.newKey()]
    const first = await listen(`?key=${one.id}`)
    await chat(one.secret)
    await chat(other.secret)
    await expect.poll(() => first.events.length).toBe(2)
    first.stop()
    const last = first.events[1]!.id
    await chat(one.secret)
    const second = await listen(`?key=${one.id}`, { 'last-event-id': last })
    await expect
      .poll(() => second.events.map(({ type }) => type))
      .toEqual(['call.started', 'call.ended'])
    expect(second.events.every(({ data }) => data.key_id === one.id)).toBe(true)
    expect((await get('/events?colour=red')).status).toBe(400)
  })

  it('are of the types that are asked for', async () => {
    const { id, secret } = await gateway.newKey()
    const { events } = await listen('?type=audit&type=call.ended')
    await chat(secret)
    await gateway.ask('PATCH', `/admin/keys/${id}`, { key: TOKEN, body: { name: 'renamed' } })
    await expect.poll(() => events.map(({ type }) => type)).toEqual(['call.ended', 'audit'])
    const wrong = await get('/events?type=health&type=weather')
    expect([wrong.status, wrong.json.error.param]).toEqual([400, 'type'])
    expect(wrong.json.error.message).toContain('call.ended')
  })

  it('of a type that no watcher asks for are not made', () => {
    const events = new LiveEvents()
    const taken: LiveEvent[] = []
    const watcher = {
      wants: () => true,
      take: (event: LiveEvent) => taken.push(event) > 0,
      idle() {},
    }
    events.watch({ ...watcher, types: new Set(['health'] as const) })
    let made = 0
    const emit = (type: 'health' | 'call.ended') => events.emit(type, () => ({ number: ++made }))
    for (let i = 0; i < 30; i++) emit('call.ended')
    emit('health')
    expect([made, taken.map(({ type }) => type)]).toEqual([1, ['health']])
    events.tick(performance.now() + 1000)
    expect(taken).toHaveLength(1)
    const leave = events.watch(watcher)
    emit('call.ended')
    expect(taken.map(({ type }) => type)).toEqual(['health', 'call.ended'])
    leave()
    emit('call.ended')
    const [, { id }] = taken as [LiveEvent, LiveEvent]
    events.watch(watcher, id)
    expect(taken.map(({ data }) => data.number)).toEqual([1, 2, 3])
  })

  it('are made only while they are watched, and at most twenty a second', () => {
    const events = new LiveEvents()
    let made = 0
    const emit = () => events.emit('audit', () => ({ number: made++ }))
    emit()
    expect(made).toBe(0)
    const taken: LiveEvent[] = []
    events.watch({ wants: () => true, take: (event) => taken.push(event) > 0, idle() {} })
    for (let i = 0; i < 50; i++) emit()
    expect(taken).toHaveLength(20)
    events.tick(performance.now() + 1000)
    expect(taken.at(-1)).toMatchObject({ type: 'skipped', data: { count: 30 } })
  })
})

describe('a running call', () => {
  it('is ended by an operator: the client is told, and what was produced is charged', async () => {
    const { id, secret } = await gateway.newKey()
    const answer = chat(secret, long)
    const running = async () => (await get(`/requests?key=${id}&running=true`)).json.data
    await expect.poll(async () => (await running())[0]?.times.first_ms ?? null).not.toBeNull()
    const [{ id: request }] = await running()
    const end = () => gateway.ask('POST', `/admin/requests/${request}/end`, { key: TOKEN })
    expect(await end()).toMatchObject({ status: 202, json: { data: { id: request, ended: true } } })
    expect((await answer).text).toContain('service_unavailable')
    await expect.poll(running).toEqual([])
    expect((await end()).status).toBe(404)
    const [row] = (await get(`/accounts/acme/ledger?limit=1`)).json.data
    expect(row).toMatchObject({ request_id: request, key_id: id })
    expect(row.amount_usd).toBeLessThan(0)
  })
})

describe('the overview', () => {
  it('has today, the last hours, refusals, running calls and the state of the books', async () => {
    const { id, secret } = await gateway.newKey({ rpm: 1 })
    await chat(secret)
    await chat(secret)
    const overview = async () => (await get('/overview')).json.data
    await expect
      .poll(async () => (await overview()).refused[0]?.keys.map((one: any) => one.key_id))
      .toContain(id)
    // An answer is shared for a moment, in which a call may be charged.
    const sums = ({ calls, cost_usd }: any) => ({ calls, cost_usd })
    await expect
      .poll(async () => {
        const { totals } = (await get('/usage')).json
        return [sums((await overview()).today), sums(totals)]
      })
      .toSatisfy(([shown, charged]) => isDeepStrictEqual(shown, charged))
    const shown = await overview()
    expect(shown).toMatchObject({
      yesterday: { calls: 0 },
      models: [{ model: 'mock/echo' }, { model: 'mock/slow' }],
      refused: [{ limit: 'key.rpm' }],
      usage: { agrees: true, differences: 0, indexed: 1 },
      running: { count: 0, calls: [] },
      deployments: [],
      alerts: [],
      books: { ok: true, outbox: 0 },
      log: { dropped: {} },
    })
    expect(shown.hours.length).toBeGreaterThan(0)
  })

  it('counts the running calls that it lists, though another one begins meanwhile', async () => {
    const { secret } = await gateway.newKey()
    const { running, runtime } = gateway.gateway
    const ask = runtime.usage!.ask.bind(runtime.usage)
    const [asked, begun] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const spy = vi.spyOn(runtime.usage!, 'ask').mockImplementation((async (...args: any) => {
      asked.resolve()
      await begun.promise
      return (ask as any)(...args)
    }) as never)
    onTestFinished(() => void spy.mockRestore())
    // An answer is shared for a moment: that of another test may be given first.
    let answer = get('/overview')
    const isAsked = async () => {
      if ((await Promise.race([asked.promise, answer])) === undefined) return true
      answer = get('/overview')
      return false
    }
    await expect.poll(isAsked).toBe(true)
    const call = chat(secret, long)
    await expect.poll(() => running.size).toBe(1)
    begun.resolve()
    const shown = (await answer).json.data.running
    expect(shown).toEqual({ count: shown.calls.length, calls: shown.calls })
    await call
  })
})
