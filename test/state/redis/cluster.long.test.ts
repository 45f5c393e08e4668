import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { parsePico } from '../../../src/money/money.ts'
import { collect, LIMITS, settlement } from '../sqlite/_engine.ts'
import { admit, installed, needRedis, open, startedCluster } from './_engine.ts'
import { addReplica, startCluster, type RedisServer } from './_redis.ts'

const ACCOUNTS = Array.from({ length: 30 }, (_, i) => `acct_${i}`)
let cluster: RedisServer[] = []

needRedis()
beforeAll(async () => {
  if (installed) cluster = await startCluster(3)
})
afterAll(() => Promise.all(cluster.map((server) => server[Symbol.asyncDispose]())))

describe('the redis engine on a cluster', () => {
  it('books 600 calls of 30 accounts, each in one slot', async () => {
    const { ledger, records, logged } = await open([cluster[0]!.url])
    for (const account of ACCOUNTS) {
      await ledger.book({ kind: 'top-up', account, amount: parsePico('1'), reference: 'first' })
      await ledger.limits(account, 'key', LIMITS, 1)
      await records.put(`account:${account}`, { id: account })
      await records.add('accounts', account)
    }
    const run = async (i: number) => {
      const account = ACCOUNTS[i % ACCOUNTS.length]!
      const call = await admit(ledger, `req_${i}`, 5n, account)
      if (i % 20 === 7) await ledger.renew([call])
      return (await ledger.settle({ ...settlement(call.request, 3n, call.day), account })).state
    }
    const states: string[] = []
    // As many at once as a busy machine answers within the deadline of an admission.
    for (let i = 0; i < 600; i += 60) {
      states.push(...(await Promise.all(Array.from({ length: 60 }, (_, n) => run(i + n)))))
    }
    expect(new Set(states)).toEqual(new Set(['charged']))
    expect(ledger.health()).toMatchObject({ ok: true, outbox: 0, oldestMs: 0 })
    expect(await ledger.verify()).toEqual([])
    for (const account of ACCOUNTS) {
      expect(await ledger.account(account)).toMatchObject({ balance: parsePico('1') - 60n })
      expect(await collect(ledger.usage(account))).toHaveLength(21)
      expect(await records.get(`account:${account}`)).toEqual({ id: account })
    }
    expect((await records.list('accounts')).toSorted()).toEqual(ACCOUNTS.toSorted())
    const keys = [...ACCOUNTS, 'none'].map((id) => `account:${id}`)
    expect(await records.getMany(keys)).toEqual([...ACCOUNTS.map((id) => ({ id })), undefined])
    const books = await Promise.all(
      cluster.map((server) => server.ask((client) => client.keys('gw:{*}:book'))),
    )
    expect(books.every((own) => own.length > 0)).toBe(true)
    expect(books.flat()).toHaveLength(30)
    const old = { ...settlement('req_old', 3n), account: 'acct_old' }
    await ledger.settle({ ...old, day: '20200101', usage: { ...old.usage, at: Date.UTC(2020) } })
    expect(await ledger.fold(new Date(Date.UTC(2021)))).toBe(1)
    const items = await collect(ledger.export())
    expect(items.filter(({ kind }) => kind === 'total')).toHaveLength(1)
    expect(await ledger.import(items)).toEqual({ stored: items.length, added: 0 })
    expect(await ledger.verify()).toEqual([])
    expect(logged.filter((line) => line.startsWith('error'))).toEqual([])
  })

  it('books the settlements that a node missed while it was down', async () => {
    const { ledger } = await open(cluster.map(({ url }) => url))
    const accounts = ACCOUNTS.map((account) => `missed_${account}`)
    for (const account of accounts) await ledger.limits(account, 'key', LIMITS, 1)
    await cluster[1]!.kill()
    const settle = (account: string) =>
      ledger.settle({ ...settlement(`req_${account}`, 3n), account })
    const settled = await Promise.all(accounts.map(settle))
    expect(settled.every(({ state }) => state === 'charged')).toBe(true)
    const { outbox } = ledger.health()
    expect(outbox).toBeGreaterThan(0)
    expect(outbox).toBeLessThan(30)
    await cluster[1]!.start()
    await expect.poll(() => ledger.health().outbox).toBe(0)
    for (const account of accounts) {
      expect(await ledger.account(account)).toMatchObject({ balance: -3n })
    }
    expect(await ledger.verify()).toEqual([])
  })

  it('sends the bookings of the old primary to the new one', async () => {
    const servers = await startedCluster(2)
    const replica = await addReplica(servers)
    onTestFinished(() => replica[Symbol.asyncDispose]())
    const { ledger } = await open([servers[0]!.url])
    for (const account of ACCOUNTS) {
      await ledger.settle({ ...settlement('req_1', 3n), account })
    }
    const books = async (server: RedisServer) =>
      server.ask(async (client) => (await client.keys('gw:{*}:book')).length)
    const owned = await books(servers[0]!)
    expect(owned).toBeGreaterThan(0)
    await expect.poll(() => books(replica)).toBe(owned)
    await servers[0]!.kill()
    await replica.ask((client) => client.call('CLUSTER', 'FAILOVER', 'TAKEOVER'))
    const asked = async () => {
      const stats = await replica.ask((client) => client.info('commandstats'))
      const counts = [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)]
      return counts.reduce((sum, [, calls]) => sum + Number(calls), 0)
    }
    await expect.poll(asked).toBeGreaterThanOrEqual(owned)
    expect(await ledger.verify()).toEqual([])
  })
})
