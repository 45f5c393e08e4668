import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { AlertFindings } from '../../../src/gateway/alert-findings.ts'
import { LEASE_MS } from '../../../src/state/ledger/ledger.ts'
import { createTestGateway, hello, MOCK_CONFIG, type TestGateway } from '../../_setup.ts'
import { holdOf } from '../../state/_hold.ts'

const TOKEN = 'admin-token-of-the-test'
const FREE_TIER = { rpm: 1, concurrency: 1 }

let gateway: TestGateway
beforeEach(async () => {
  gateway = await createTestGateway({ ...MOCK_CONFIG, admin: { token: TOKEN } })
})
afterEach(async () => {
  vi.useRealTimers()
  await gateway.close()
})

const get = (path: string, key: string | null = TOKEN) =>
  gateway.ask('GET', `/admin/ledger${path}`, { key })

/** Calls that are let in, and whose gateway is never heard of again. */
async function orphans(account: string, ...requests: string[]): Promise<void> {
  const { ledger } = gateway.gateway.runtime
  vi.useFakeTimers({ toFake: ['Date'] })
  for (const request of requests) {
    const call = { account, key: `key-of-${account}`, request, revision: 1 }
    await ledger.limits(account, call.key, { disabled: false, rpm: 99, concurrency: 9 }, 1)
    const entered = await ledger.enter({ ...call, freeTier: FREE_TIER })
    if (!entered.ok) throw new Error(entered.why)
    await ledger.hold({ ...call, at: entered.at, ...holdOf(0n), free: true })
  }
  vi.setSystemTime(Date.now() + LEASE_MS)
  await ledger.account(account)
  vi.useRealTimers()
}

it('says how large it is, and by how much it grows a day', async () => {
  const sizeOf = async () => (await get('/state')).json.data
  const before = await sizeOf()
  for (let i = 0; i < 3; i++) expect((await gateway.chat(hello)).status).toBe(200)
  await expect.poll(async () => (await sizeOf()).growth_bytes).toBeGreaterThan(0)
  const { rows, bytes, free_bytes, growth_bytes } = await sizeOf()
  expect([rows, free_bytes]).toEqual([before.rows + 3, expect.any(Number)])
  expect(growth_bytes).toBeLessThanOrEqual(bytes)
})

describe('orphans', () => {
  it('are calls that were never settled, newest first', async () => {
    const { ledger } = gateway.gateway.runtime
    await ledger.book({ kind: 'top-up', account: 'other', amount: 1n, reference: 'r' })
    await gateway.newAccount('other')
    const before = new Date().toISOString()
    await orphans('acme', 'req_a1', 'req_a2')
    await orphans('other', 'req_b1')
    const { status, json } = await get('/orphans')
    expect([status, json.next]).toEqual([200, null])
    expect(json.data).toEqual(
      [
        ['req_b1', 'other'],
        ['req_a2', 'acme'],
        ['req_a1', 'acme'],
      ].map(([request_id, account_id]) => ({
        request_id,
        account_id,
        key_id: `key-of-${account_id}`,
        at: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      })),
    )
    expect(json.data[0].at >= before).toBe(true)
    const own = (await get('/orphans?account=other')).json.data
    expect(own).toEqual(json.data.slice(0, 1))
  })

  it('come in pages', async () => {
    await orphans('acme', 'req_1', 'req_2', 'req_3')
    const first = (await get('/orphans?limit=2')).json
    expect(first.data.map((one: any) => one.request_id)).toEqual(['req_3', 'req_2'])
    expect(first.next).toBe('req_2')
    const second = (await get(`/orphans?limit=2&after=${first.next}`)).json
    expect(second.data.map((one: any) => one.request_id)).toEqual(['req_1'])
    expect(second.next).toBe(null)
    expect((await get('/orphans?after=req_1')).json).toEqual({ data: [], next: null })
  })

  it('are none where every call was settled', async () => {
    await gateway.chat({ model: 'mock/echo', messages: [{ role: 'user', content: 'hello' }] })
    expect((await get('/orphans')).json).toEqual({ data: [], next: null })
  })

  it('are not looked for where there is nothing to look', async () => {
    for (const [query, status, param] of [
      ['account=nobody', 404, null],
      ['after=req_0', 400, 'after'],
      ['limit=0', 400, 'limit'],
    ] as const) {
      const answer = await get(`/orphans?${query}`)
      expect([answer.status, answer.json.error.param], answer.text).toEqual([status, param])
    }
  })
})

describe('the outbox', () => {
  it('is empty when all that was settled is confirmed', async () => {
    const { status, json } = await get('/outbox')
    expect([status, json]).toEqual([
      200,
      { data: { ok: true, outbox: 0, oldest_ms: 0, quarantined: [] } },
    ])
  })

  it('shows how much waits, for how long, and why and since when; the status and the alert too', async () => {
    const { ledger } = gateway.gateway.runtime
    const outage = { why: 'Redis refuses: OOM', since: Date.UTC(2026, 10, 28, 10, 21, 4, 512) }
    const health = { ok: false, outbox: 3, oldestMs: 1500, ...outage }
    vi.spyOn(ledger, 'health').mockReturnValue(health)
    const shown = {
      ok: false,
      outbox: 3,
      oldest_ms: 1500,
      why: 'Redis refuses: OOM',
      since: '2026-11-28T10:21:04.512Z',
    }
    expect((await get('/outbox')).json.data).toEqual({ ...shown, quarantined: [] })
    expect((await gateway.ask('GET', '/admin/status', { key: TOKEN })).json.data.ledger).toEqual(
      shown,
    )
    const findings = new AlertFindings().of(gateway.gateway.runtime)
    expect(findings.find(({ kind }) => kind === 'ledger.down')).toMatchObject({
      state: 'wrong',
      message: 'the ledger cannot book: Redis refuses: OOM',
    })
  })
})

it('both need the token', async () => {
  for (const path of ['/orphans', '/outbox']) expect((await get(path, null)).status).toBe(401)
})
