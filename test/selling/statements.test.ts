/** Statements: three forms with the same figures, numbers without gaps, and months that add up although calls are settled late. */
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest'
import type { UserConfig } from '../../src/config/config.ts'
import { createTestGateway, MOCK_CONFIG, type TestGateway } from '../_setup.ts'
import { USAGE } from '../state/sqlite/_engine.ts'

const TOKEN = 'the-token-of-an-operator'
const SELLER = { name: 'Seller & Sons', address: ['1 <Main> Street', 'Bern'], tax_id: 'CHE-1' }
const HIDDEN = '<script>alert(1)</script> \u202eevil'

type Tax = NonNullable<NonNullable<UserConfig['statements']>['tax']>

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.UTC(2026, 8, 3, 12) })
})
afterEach(() => {
  vi.useRealTimers()
})

async function openShop(tax: Tax = { name: 'VAT', rate: '0.19' }) {
  const gateway = await createTestGateway({
    ...MOCK_CONFIG,
    admin: { token: TOKEN },
    statements: { seller: SELLER, tax, footer: 'Thank you' },
  })
  onTestFinished(() => gateway.close())
  const admin = (method: string, path: string, body?: object) =>
    gateway.ask(method, `/admin${path}`, { key: TOKEN, body })
  let calls = 0
  /** Books the charge of a call, in the way of the gateway itself. */
  const charge = async (account: string, cost: bigint, day: string, model = 'mock/echo') => {
    const at = Date.parse(`${day}T12:00:00Z`)
    const request = `req_${String(calls++).padStart(26, '0')}`
    const usage = { ...USAGE, at, model, tag: HIDDEN }
    const key = gateway.key.id
    const settlement = { request, account, key, day: day.replaceAll('-', ''), cost, usage }
    await gateway.gateway.runtime.ledger.settle(settlement)
    gateway.gateway.runtime.usage!.settled(account)
  }
  /** Asks again while the index is behind. */
  const issue = async (account_id: string, month: string) => {
    for (;;) {
      const answer = await admin('POST', '/statements', { account_id, month })
      if (answer.json.error?.code !== 'not_level') return answer
    }
  }
  return { gateway, admin, charge, issue }
}

const october = () => vi.setSystemTime(Date.UTC(2026, 9, 1, 2, 0, 1))
const november = () => vi.setSystemTime(Date.UTC(2026, 10, 1, 3))

it('is a draft, then issued once, with the same figures as page, CSV and JSON', async () => {
  const { admin, charge, issue } = await openShop()
  await admin('PATCH', '/accounts/acme', { billing: { name: HIDDEN, address: ['Here'] } })
  await charge('acme', 1_234_567_890_123n, '2026-09-03')
  await charge('acme', 1n, '2026-09-04', 'mock/other')
  const draft = (await admin('GET', '/accounts/acme/statement?month=2026-09')).json.data
  expect(draft).toMatchObject({ number: null, state: 'draft', usage_usd: 1.234567890124 })
  const early = await issue('acme', '2026-09')
  expect([early.status, early.json.error.code]).toEqual([409, 'period_open'])
  october()
  const issued = await issue('acme', '2026-09')
  expect([issued.status, issued.json.data.number]).toEqual([201, 'S-2026-00001'])
  expect((await issue('acme', '2026-09')).status).toBe(200)
  const { text } = await admin('GET', '/statements/S-2026-00001')
  const { data } = JSON.parse(text)
  expect(data).toMatchObject({
    opening_usd: 0,
    bookings_usd: 100,
    usage_usd: 1.234567890124,
    closing_usd: 98.765432109876,
    seller: SELLER,
    buyer: { id: 'acme', name: HIDDEN },
    tax: { base_usd: 1.234567890124, tax_usd: 0.23 },
    ledger: { agrees: true },
    chain: { n: 3 },
  })
  const page = await admin('GET', '/statements/S-2026-00001?format=html')
  expect(page.headers['content-security-policy']).toMatch(/^default-src 'none'; style-src 'sha256-/)
  expect(page.text).not.toMatch(/<script|<Main>/)
  expect(page.text).toContain(`<bdi>&#60;script&#62;alert(1)&#60;/script&#62; \u202eevil</bdi>`)
  const csv = (await admin('GET', '/statements/S-2026-00001?format=csv')).text
  const lines = csv.split('\r\n').map((line) => line.split(','))
  const amountOf = (name: string) => lines.find((line) => line[1] === name)![7]
  for (const name of ['opening', 'late', 'bookings', 'usage', 'closing']) {
    expect(Number(amountOf(name))).toBe(data[`${name}_usd`])
  }
  const shown = [...page.text.matchAll(/class="end">(-?[\d.]+)</g)].map(([, amount]) => amount)
  expect(shown).toContain('98.765432109876')
  expect(shown).toContain('0.000000000001')
  const models = lines.filter(([section]) => section === 'model').map((line) => [line[1], line[7]])
  expect(models).toEqual([
    ['mock/echo', '1.234567890123'],
    ['mock/other', '0.000000000001'],
  ])
  const { data: audit } = (await admin('GET', '/audit?action=statement.issue')).json
  expect(audit).toHaveLength(1)
})

it('goes on from the statement before: what was settled late is a line of its own', async () => {
  const { admin, charge, issue } = await openShop({ name: 'VAT', rate: '0.25', included: true })
  await charge('acme', 2_000_000_000_000n, '2026-09-05')
  october()
  const first = (await issue('acme', '2026-09')).json.data
  await charge('acme', 500_000_000_000n, '2026-09-30')
  await charge('acme', 1_000_000_000_000n, '2026-10-02')
  await admin('POST', '/accounts/acme/credits', { usd: '10', reference: 'october' })
  november()
  const second = (await issue('acme', '2026-10')).json.data
  expect(second).toMatchObject({
    number: 'S-2026-00002',
    opening_usd: first.closing_usd,
    late_usd: -0.5,
    bookings_usd: 10,
    usage_usd: 1,
    closing_usd: 106.5,
    tax: { base_usd: 1, tax_usd: 0.2 },
  })
  expect((await admin('GET', '/accounts/acme')).json.data.balance_usd).toBe(106.5)
})

it('is issued in the order of months, and the newest can be voided and issued again', async () => {
  const { admin, issue } = await openShop()
  november()
  const code = async (month: string) => (await issue('acme', month)).json.error?.code
  expect(await code('2026-07')).toBe('period_empty')
  expect(await code('2026-09')).toBeUndefined()
  expect(await code('2026-08')).toBe('period_empty')
  vi.setSystemTime(Date.UTC(2027, 1, 5))
  expect(await code('2026-11')).toBe('earlier_month_open')
  expect(await code('2026-10')).toBeUndefined()
  const voiding = (number: string) =>
    admin('POST', `/statements/${number}/void`, { reason: 'the wrong name' })
  expect((await voiding('S-2026-00001')).json.error.code).toBe('not_newest')
  expect((await voiding('S-2027-00001')).json.data).toMatchObject({ state: 'void' })
  expect((await issue('acme', '2026-10')).json.data.number).toBe('S-2027-00002')
  const { data } = (await admin('GET', '/statements?account=acme')).json
  expect(data.map(({ number, state }: any) => [number, state])).toEqual([
    ['S-2027-00002', 'issued'],
    ['S-2027-00001', 'void'],
    ['S-2026-00001', 'issued'],
  ])
  expect((await admin('GET', '/statements/S-2027-00001?format=html')).text).toContain('VOID')
})

async function numbersIn({ gateway }: { readonly gateway: TestGateway }) {
  const { records } = gateway.gateway.runtime
  const numbers: number[] = []
  for (let n = 1; await records.get(`statement:S-2026-${String(n).padStart(5, '0')}`); n++)
    numbers.push(n)
  return numbers.length
}

it('numbers have no gap and no double: eight issuers at once, and a crash before or after each write', async () => {
  const shop = await openShop()
  const accounts = ['a1', 'a2', 'a3', 'a4', 'a5']
  for (const id of accounts) await shop.gateway.newAccount(id, '1')
  october()
  const { records } = shop.gateway.gateway.runtime
  const all = accounts.flatMap((id) => Array.from({ length: 8 }, () => shop.issue(id, '2026-09')))
  const answers = await Promise.all(all)
  expect(answers.filter(({ status }) => status > 201).map(({ text }) => text)).toEqual([])
  const numbers = answers.map(({ json }) => json.data.number as string)
  expect(new Set(numbers).size).toBe(5)
  expect(await numbersIn(shop)).toBe(5)
  for (let crash = 0; crash < 12; crash++) {
    const id = `b${crash}`
    vi.setSystemTime(Date.UTC(2026, 8, 20))
    await shop.gateway.newAccount(id, '1')
    october()
    let writes = 0
    const spies = (['create', 'put', 'add', 'replace'] as const).map((name) => {
      const write = records[name].bind(records) as (...values: any[]) => Promise<any>
      return vi.spyOn(records, name).mockImplementation(async (...values: any[]) => {
        const nth = writes++
        if (nth === Math.floor(crash / 2) && crash % 2 === 0) throw new Error('killed')
        const result = await write(...values)
        if (nth === Math.floor(crash / 2)) throw new Error('killed')
        return result
      })
    })
    await shop.issue(id, '2026-09')
    for (const spy of spies) spy.mockRestore()
    const again = await shop.issue(id, '2026-09')
    expect([200, 201]).toContain(again.status)
    const { data } = (await shop.admin('GET', `/statements?account=${id}`)).json
    expect(data).toMatchObject([{ number: again.json.data.number, state: 'issued' }])
  }
  expect(await numbersIn(shop)).toBe(17)
})

it('is seen on /me by who manages the account, and by no other member, team, key or account', async () => {
  const shop = await openShop()
  await shop.gateway.newAccount('other', '1')
  await shop.charge('acme', 5n, '2026-09-03')
  october()
  for (const id of ['acme', 'other']) expect((await shop.issue(id, '2026-09')).status).toBe(201)
  vi.useRealTimers()
  const page = { 'sec-fetch-site': 'same-origin', 'content-type': 'application/json' }
  const signIn = async (body: object) => {
    const options = { key: null, headers: page, body }
    const answer = await shop.gateway.ask('POST', '/me/api/session', options)
    expect(answer.status, answer.text).toBe(200)
    const cookie = answer.headers['set-cookie']![0]!.split(';')[0]!
    return (path: string) =>
      shop.gateway.ask('GET', `/me/api${path}`, { key: null, headers: { ...page, cookie } })
  }
  const invited = async (member: object) => {
    const { json } = await shop.admin('POST', '/members', { account: 'acme', ...member })
    return signIn({ ticket: json.link.split('/me#invite=')[1] })
  }
  const boss = await invited({ name: 'Ada', manages: true })
  const { data } = (await boss('/statements')).json
  expect(data.map((one: any) => [one.number, one.month, one.closing_usd])).toEqual([
    ['S-2026-00001', '2026-09', 99.999999999995],
  ])
  const [own, operators] = [
    await boss('/statements/S-2026-00001'),
    await shop.admin('GET', '/statements/S-2026-00001'),
  ]
  expect(own.text).toBe(operators.text)
  const html = await boss('/statements/S-2026-00001?format=html')
  expect(html.headers['content-security-policy']).toContain(`default-src 'none'`)
  expect(html.text).toContain('99.999999999995')
  expect((await boss('/statements/S-2026-00001?format=csv')).headers['content-type']).toContain(
    'text/csv',
  )
  expect((await boss('/statements/S-2026-00002')).status).toBe(404)
  const team = (await shop.admin('POST', '/accounts/acme/teams', { name: 'blue' })).json.data.id
  for (const ask of [
    await invited({ name: 'Bea', manages: false }),
    await invited({ name: 'Cleo', manages: true, team }),
    await signIn({ key: shop.gateway.key.secret }),
  ]) {
    for (const path of ['/statements', '/statements/S-2026-00001']) {
      const answer = await ask(path)
      expect([answer.status, answer.json.error?.code], path).toEqual([403, 'forbidden'])
    }
  }
})
