/** The indexes of several gateways on one ledger in Redis. */
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { folder } from '../../_folder.ts'
import { needRedis, open, pay, sharedServer } from '../../state/redis/_engine.ts'
import { requestId } from '../../../src/state/ids.ts'
import { NOON, USAGE } from '../../state/sqlite/_engine.ts'
import { bookedBy, DAY_MS, openIndex, settle } from './_index.ts'
import { eventually } from '../../_wait.ts'

describe('the index of usage in Redis', () => {
  needRedis()

  it('is the same at every gateway, whichever has settled a call', async () => {
    const { url } = await sharedServer()
    const [{ ledger: one }, { ledger: other }] = [await open(url), await open(url)]
    await pay(one)
    const source = { driver: 'redis', url } as const
    const [first, second] = [
      await openIndex(source, await folder({})),
      await openIndex(source, await folder({})),
    ]
    for (let i = 1; i <= 12; i++) {
      const at = NOON - (i % 3) * DAY_MS
      await settle(i % 2 ? one : other, BigInt(i) * 1_000_003n, { key: `key${i % 4}`, at })
    }
    await one.book({ kind: 'adjust', account: 'acct', amount: -7n, reference: 'a', note: 'test' })
    expect(await first.check()).toMatchObject({ agrees: true, indexed: 1 })
    expect(await second.check()).toMatchObject({ agrees: true, indexed: 1 })
    expect(first.usage(['key', 'model'])).toEqual(second.usage(['key', 'model']))
    expect(first.usage().totals).toMatchObject({ calls: 12, cost: 78n * 1_000_003n })
    expect(await one.fold(new Date(NOON + 5 * DAY_MS))).toBe(12)
    const later = await openIndex(source, await folder({}))
    expect(await later.check()).toMatchObject({ agrees: true })
    expect(later.usage(['model']).totals.cost).toBe(78n * 1_000_003n)
    expect([...first.told, ...second.told, ...later.told]).toEqual([])
  })

  it('keeps what the ledger has lost, tells it, and doubts the ledger unless it comes back soon', async () => {
    const server = await sharedServer()
    const { ledger } = await open(server.url)
    await pay(ledger)
    await ledger.book({
      kind: 'top-up',
      account: 'acct',
      amount: 5n,
      reference: 'a',
      note: 'n',
      actor: 'token:t',
    })
    const source = { driver: 'redis', url: server.url } as const
    const { index, proof, check, lacking, told } = await openIndex(source, await folder({}))
    await settle(ledger, 7n)
    expect(await check()).toMatchObject({ agrees: true })
    expect(await proof.missing()).toEqual([])
    // One shard of a cluster is put back to before the credit.
    await server.ask(async (client) => {
      const [book, rows] = ['gw:{acct}:book', 'gw:{acct}:u']
      expect(await client.exists(book, rows)).toBe(2)
      const balance = BigInt((await client.hget(book, 'bal'))!) - 5n + 7n
      await client.hset(book, { seq: 1, bal: `${balance}`, 's:L:key': '0' })
      await client.xdel(rows, '2-0', '3-0')
    })
    await check()
    expect(await proof.missing()).toEqual([{ account: 'acct', credits: 5n, costs: 7n }])
    expect(await proof.missingBookings()).toMatchObject([
      { kind: 'top-up', account: 'acct', request: 'a', cost: -5n, note: 'n', actor: 'token:t' },
    ])
    expect([lacking, told]).toEqual([[], []])
    vi.useFakeTimers({ toFake: ['performance'] })
    onTestFinished(() => void vi.useRealTimers())
    vi.advanceTimersByTime(1_000_000)
    index.lookAgain()
    await eventually(() => expect(lacking).toEqual(['acct']))
    ledger.suspect('acct')
    await eventually(() => expect(ledger.health().doubt).toContain('ledger accept'))
  })

  it('keeps what it has read while it is not known yet that another ledger is in the place of its own', async () => {
    const server = await sharedServer()
    const { ledger } = await open(server.url)
    await pay(ledger)
    const source = { driver: 'redis', url: server.url } as const
    const { proof, check, usage, told } = await openIndex(source, await folder({}))
    for (const cost of [7n, 8n]) await settle(ledger, cost)
    expect(await check()).toMatchObject({ agrees: true })
    await server.ask(async (client) => {
      await client.hset('gw:ledger', 'id', 'ledger_other')
      await client.hset('gw:{acct}:book', { seq: 9, bal: '0', 's:L:key': '0' })
      await client.del('gw:{acct}:u')
      const row = [
        'kind',
        'usage',
        'request',
        'other',
        'key',
        'key',
        'cost',
        '0',
        'day',
        '20260101',
      ]
      for (let seq = 1; seq <= 9; seq++) {
        await client.xadd(
          'gw:{acct}:u',
          `${seq}-0`,
          ...row,
          'at',
          '1',
          'body',
          JSON.stringify(USAGE),
        )
      }
    })
    await check()
    expect(usage().totals).toMatchObject({ calls: 2, cost: 15n })
    expect(await proof.missing()).toMatchObject([{ account: 'acct', costs: 15n }])
    expect(told).toEqual([])
  })

  it('does not read the rows that its own gateway brings, but those of others', async () => {
    const { url } = await sharedServer()
    const [{ ledger: one }, { ledger: other }] = [await open(url), await open(url)]
    await pay(one)
    const taken = bookedBy(one)
    const source = { driver: 'redis', url } as const
    const { index, check, usage, reads, told } = await openIndex(source, await folder({}))
    expect(await check()).toMatchObject({ agrees: true })
    reads.length = 0
    for (let i = 0; i < 5; i++) await settle(one, 10n)
    index.book(taken())
    expect(usage().totals).toMatchObject({ calls: 5, cost: 50n })
    expect(await check()).toMatchObject({ agrees: true, indexed: 1 })
    expect(reads).toEqual([])
    await settle(other, 100n)
    await settle(one, 10n)
    index.book(taken())
    expect(await check()).toMatchObject({ agrees: true, indexed: 1 })
    expect(usage().totals).toMatchObject({ calls: 7, cost: 160n })
    expect(told).toEqual([])
  })

  it('finds the row of one call among many, whichever account it is of', async () => {
    const { url } = await sharedServer()
    const { ledger } = await open(url)
    await pay(ledger)
    const source = { driver: 'redis', url } as const
    const from = NOON - 3 * DAY_MS
    const calls = Array.from({ length: 3000 }, (_, i) => {
      const at = from + i * 60_000
      return { at, request: requestId(at), cost: BigInt(i + 1) }
    })
    const day = (at: number) => new Date(at).toISOString().slice(0, 10).replaceAll('-', '')
    const settle = ({ at, request, cost }: (typeof calls)[number], i: number) => {
      const usage = { ...USAGE, at }
      const account = i % 100 === 7 ? 'other' : 'acct'
      return ledger.settle({ request, account, key: 'key', day: day(at), cost, usage })
    }
    // Some are booked late, as after an outage.
    const isLate = (i: number) => i >= 1200 && i < 2000
    for (const part of [(i: number) => i < 2200 && !isLate(i), isLate, (i: number) => i >= 2200]) {
      const some = [...calls.entries()].filter(([i]) => part(i))
      for (let at = 0; at < some.length; at += 100) {
        await Promise.all(some.slice(at, at + 100).map(([i, call]) => settle(call, i)))
        // On a busy machine one may have waited in the outbox: it is booked before those after it.
        await eventually(() => expect(ledger.health().outbox).toBe(0))
      }
    }
    const { check, charge } = await openIndex(source, await folder({}), 1000)
    await check()
    for (const i of [0, 7, 1100, 1200, 1207, 1999, 2000, 2199, 2200, 2999]) {
      const { request, cost } = calls[i]!
      const account = i % 100 === 7 ? 'other' : 'acct'
      for (const known of [account, undefined]) {
        expect(await charge(request, known)).toMatchObject({ account, row: { request, cost } })
      }
    }
    expect(await charge(calls[7]!.request, 'acct')).toBeUndefined()
    expect(await charge(requestId(from), undefined)).toBeUndefined()
  })

  it('is emptied where Redis holds another ledger', async () => {
    const server = await sharedServer()
    const source = { driver: 'redis', url: server.url } as const
    const tables = await folder({})
    const { ledger } = await open(server.url)
    await pay(ledger)
    await settle(ledger, 5n)
    const first = await openIndex(source, tables)
    await first.check()
    await first.close()
    await server.ask((client) => client.flushall())
    const second = await openIndex(source, tables)
    expect(await second.check()).toMatchObject({ agrees: true, indexed: 1 })
    expect(second.usage().totals.calls).toBe(0)
  })
})
