/** A store that is not the one that was used until now: nothing is admitted, nothing is sent, no key is unknown. */
import { copyFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { Unavailable } from '../../../src/errors/errors.ts'
import type { Ledger } from '../../../src/state/ledger/ledger.ts'
import { folder } from '../../_folder.ts'
import { createTestGateway, MOCK_CONFIG } from '../../_setup.ts'
import { eventually } from '../../_wait.ts'
import { settlement } from '../sqlite/_engine.ts'
import { admit, FREE_TIER, needRedis, open, pay, serverForTest } from './_engine.ts'

needRedis()

const ENTRY = { account: 'acct', key: 'key', revision: 1, freeTier: FREE_TIER }

it('an emptied store admits nothing within a second, and no key is unknown', async () => {
  const server = await serverForTest()
  const { ledger, logged } = await open(server.url)
  await pay(ledger)
  const running = await admit(ledger, 'req_1', 5n)
  const { id } = await ledger.state()
  await server.ask((client) => client.flushall())
  await expect(ledger.confirm()).rejects.toThrow(Unavailable)
  expect(() => ledger.assertOpen()).toThrow(Unavailable)
  await expect(enter(ledger, 'req_2')).rejects.toThrow(Unavailable)
  const topUp = { kind: 'top-up' as const, account: 'acct', amount: 1n, reference: 'more' }
  await expect(ledger.book(topUp)).rejects.toThrow(Unavailable)
  const { ok, doubt } = ledger.health()
  expect([ok, doubt]).toEqual([
    false,
    expect.stringContaining(`holds no ledger; this gateway has used ${id}`),
  ])
  expect(logged.filter((line) => line.includes('holds no ledger'))).toHaveLength(1)
  // Its settlement waits.
  expect(await ledger.settle(settlement(running.request, 3n))).toMatchObject({ state: 'charged' })
  expect(ledger.health().outbox).toBe(1)
  expect(await server.ask((client) => client.keys('gw:{*'))).toEqual([])
  // A gateway without a memory admits nothing either.
  const other = await open(server.url)
  expect(() => other.ledger.assertOpen()).toThrow(Unavailable)

  const { doubt: told } = await ledger.state()
  expect(told).toMatchObject({ kind: 'emptied', known: { id } })
  await expect(ledger.accept({ id: 'another', kind: 'emptied' })).rejects.toThrow(
    'It is emptied now',
  )
  await ledger.accept({ id: told!.known.id, kind: told!.kind })
  ledger.assertOpen()
  await eventually(async () => expect(ledger.health()).toMatchObject({ ok: true, outbox: 0 }))
  expect(await ledger.account('acct')).toMatchObject({ balance: 10n ** 13n - 3n })
  await eventually(async () => expect(other.ledger.health().ok).toBe(true))
  expect(await ledger.state()).not.toHaveProperty('doubt')
})

it('an older snapshot is known while the gateway runs, and after its restart', async () => {
  const server = await serverForTest({ args: ['--appendonly', 'no'] })
  const first = await open(server.url)
  await pay(first.ledger)
  await server.ask((client) => client.save())
  const dump = join(server.folder, 'dump.rdb')
  const older = join(await folder({}), 'older.rdb')
  await copyFile(dump, older)
  const outbox = first.outbox
  // As if the snapshot was ten minutes old.
  await server.ask(async (client) => {
    const known = await client.hgetall('gw:ledger')
    const [beat = ''] = Object.keys(known).filter((name) => name.startsWith('m:'))
    await client.hset('gw:ledger', beat, String(Number(known[beat]) - 600_000))
  })
  await eventually(async () => expect(first.ledger.health().ok).toBe(false))
  expect((await first.ledger.state()).doubt).toMatchObject({ kind: 'older' })
  expect(first.ledger.health().doubt).toMatch(/is as of .*; this gateway has seen it at /)
  await first.close()
  const again = await open(server.url, { outbox })
  expect(() => again.ledger.assertOpen()).toThrow(Unavailable)
  // The right data is back: it has no doubt.
  await server.kill()
  await copyFile(older, dump)
  await server.start()
  await eventually(async () => expect(again.ledger.health().ok).toBe(true))
  expect(await enter(again.ledger, 'req_9')).toMatchObject({ ok: true })
})

it('a store that goes back to a moment ago, behind a connection that stays, gets again what it lost', async () => {
  const server = await serverForTest()
  const { ledger, logged } = await open(server.url)
  await pay(ledger)
  const saved = await server.ask(async (client) => {
    const keys = await client.keys('*')
    return Promise.all(keys.map(async (key) => [key, (await client.dumpBuffer(key))!] as const))
  })
  const beat = async () => (await server.ask((client) => client.hvals('gw:ledger'))).join()
  const before = await beat()
  await ledger.settle(settlement('req_1', 5n))
  await eventually(async () => expect(await beat()).not.toBe(before))
  await server.ask((client) => {
    const step = client.multi().flushall()
    for (const [key, value] of saved) step.restore(key, 0, value)
    return step.exec()
  })
  await eventually(async () =>
    expect(await ledger.account('acct')).toMatchObject({ balance: 10n ** 13n - 5n }),
  )
  expect(logged.filter((line) => line.includes('had lost'))).toHaveLength(1)
  expect(await ledger.verify()).toEqual([])
})

it('another store is foreign, and nothing is written to it', async () => {
  const [one, two] = [await serverForTest(), await serverForTest()]
  const first = await open(one.url)
  await pay(first.ledger)
  const { id } = await first.ledger.state()
  const strange = await open(two.url)
  await pay(strange.ledger)
  await strange.close()
  await one.kill()
  await first.ledger.settle(settlement('req_late', 7n))
  await first.close()
  const before = await two.ask((client) => client.hgetall('gw:ledger'))
  const moved = await open(two.url, { outbox: first.outbox })
  expect(() => moved.ledger.assertOpen()).toThrow(Unavailable)
  const state = await moved.ledger.state()
  expect(state.doubt).toMatchObject({ kind: 'foreign', known: { id }, found: { id: before.id } })
  expect(await two.ask((client) => client.hgetall('gw:ledger'))).toEqual(before)
  expect(moved.ledger.health().outbox).toBe(1)
  expect(await moved.ledger.account('acct')).toMatchObject({ balance: 10n ** 13n })
  await moved.close()
  // Back at its own store, the settlement is sent.
  await one.start()
  const home = await open(one.url, { outbox: first.outbox })
  await eventually(async () => expect(home.ledger.health()).toMatchObject({ ok: true, outbox: 0 }))
  expect(await home.ledger.account('acct')).toMatchObject({ balance: 10n ** 13n - 7n })
})

it('an account that was made just now and is missing makes the store older', async () => {
  const server = await serverForTest()
  const { ledger, records } = await open(server.url)
  await pay(ledger)
  await records.put('account:new', { id: 'new' })
  await records.put('account:gone', { id: 'gone' })
  await records.del('account:gone')
  const clients = () =>
    server.ask((client) => client.client('KILL', 'TYPE', 'normal', 'SKIPME', 'yes'))
  await clients()
  await eventually(async () => expect(ledger.health().ok).toBe(true))
  await server.ask((client) => client.del('gw:account:new'))
  await clients()
  await eventually(async () =>
    expect((await ledger.state()).doubt).toMatchObject({ kind: 'older' }),
  )
})

it('after FLUSHALL no client is told that its key is invalid, and one command goes on', async () => {
  const server = await serverForTest()
  const token = 'token-of-the-admin-of-this-test'
  const state = { driver: 'redis', url: server.url, outbox: await folder({}) } as const
  const gateway = await createTestGateway({ ...MOCK_CONFIG, state, admin: { token } })
  onTestFinished(() => gateway.close())
  const { secret } = gateway.key
  const body = { model: 'mock/free', messages: [{ role: 'user', content: 'hello' }] }
  const call = async (key: string) =>
    (await gateway.ask('POST', '/v1/chat/completions', { key, body })).status
  const admin = (method: string, path: string, sent?: object) =>
    gateway.ask(method, `/admin${path}`, { key: token, body: sent })
  expect(await call(secret)).toBe(200)
  await server.ask((client) => client.flushall())
  const end = performance.now() + 1500
  const statuses = new Set<number>()
  while (performance.now() < end) statuses.add(await call(secret))
  statuses.add(await call(secret.replace(/.$/, 'x')))
  expect([...statuses].filter((status) => status !== 200 && status !== 503)).toEqual([])
  expect(await call(secret)).toBe(503)
  expect((await gateway.ask('GET', '/readyz')).status).toBe(503)
  const credit = await admin('POST', '/accounts/acme/credits', { usd: '1' })
  expect([credit.status, credit.json.error?.code]).toEqual([409, 'ledger_in_doubt'])
  const account = await admin('POST', '/accounts', { id: 'strange', name: 'Strange' })
  expect([account.status, account.json.error?.code]).toEqual([503, 'service_unavailable'])
  expect(await server.ask((client) => client.keys('gw:*strange*'))).toEqual([])

  const { data } = (await admin('GET', '/ledger/state')).json
  expect(data).toMatchObject({ engine: 'redis', doubt: { kind: 'emptied', found: { id: null } } })
  const { kind, known } = data.doubt
  const wrong = await admin('POST', '/ledger/accept', { id: known.id, kind: 'older' })
  expect([wrong.status, wrong.json.error.code]).toEqual([409, 'state_changed'])
  const accepted = await admin('POST', '/ledger/accept', { id: known.id, kind })
  expect([accepted.status, accepted.json.data.doubt]).toEqual([200, null])
  expect(accepted.json.data.rows).toEqual(expect.any(Number))
  const [entry] = (await admin('GET', '/audit')).json.data
  expect(entry).toMatchObject({ actor: 'admin', action: 'ledger.accept', object: 'ledger' })
  expect((await gateway.ask('GET', '/readyz')).status).toBe(200)
  // Its data is gone, and that is accepted.
  await eventually(async () => expect(await call(secret)).toBe(401))
})

function enter(ledger: Ledger, request: string) {
  return Promise.resolve().then(() => ledger.enter({ ...ENTRY, request }))
}
