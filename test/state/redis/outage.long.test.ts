import { DatabaseSync } from 'node:sqlite'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Ledger, LedgerRow } from '../../../src/state/ledger/ledger.ts'
import { parsePico } from '../../../src/money/money.ts'
import { folder } from '../../_folder.ts'
import { collect, KEY, LIMITS, settlement } from '../sqlite/_engine.ts'
import { admit, FREE_TIER, needRedis, open, pay, serverForTest, sharedServer } from './_engine.ts'
import { Address, startReplica, type RedisServer } from './_redis.ts'
import { holdOf } from '../_hold.ts'

const HOUR_MS = 3_600_000
const AWAY = { status: 503, code: 'service_unavailable', headers: { 'retry-after': '1' } }

needRedis()

function enter(ledger: Ledger, request: string) {
  return ledger.enter({ ...KEY, request, revision: 1, freeTier: FREE_TIER })
}

async function usageRows(ledger: Ledger): Promise<LedgerRow[]> {
  const rows = await collect(ledger.usage('acct'))
  return rows.filter(({ kind }) => kind === 'usage')
}

/** Expects each request to be booked once, and the sums to match. */
async function expectBooked(ledger: Ledger, requests: readonly string[], cost: bigint) {
  const rows = await usageRows(ledger)
  expect(rows.map(({ request }) => request).sort()).toEqual([...requests].sort())
  const { balance, available } = await ledger.account('acct')
  expect(balance).toBe(parsePico('10') - cost * BigInt(requests.length))
  expect(available).toBe(balance)
  expect(await ledger.verify()).toEqual([])
}

function names(count: number, lead = 'req'): string[] {
  return Array.from({ length: count }, (_, i) => `${lead}_${i}`)
}

async function addressOf(server: RedisServer): Promise<Address> {
  const address = await Address.of(server)
  onTestFinished(() => address[Symbol.asyncDispose]())
  return address
}

async function replicaOf(primary: RedisServer | Address): Promise<RedisServer> {
  const replica = await startReplica(primary)
  onTestFinished(() => replica[Symbol.asyncDispose]())
  return replica
}

function promote(replica: RedisServer): Promise<unknown> {
  return replica.ask((client) => client.replicaof('NO', 'ONE'))
}

describe('while Redis hangs', () => {
  it('admits nothing, settles running calls, and books each once when Redis is back', async () => {
    const server = await serverForTest()
    const { ledger, records, logged } = await open(server.url)
    await pay(ledger)
    await records.put('account:acct', { id: 'acct' })
    const requests = names(250)
    for (const request of requests) await admit(ledger, request, 5n)
    const pending = { ...KEY, request: 'req_pending' }
    const entered = await enter(ledger, pending.request)
    expect(entered.ok).toBe(true)
    server.pause()
    await Promise.all(
      [
        enter(ledger, 'req_new'),
        ledger.hold({ ...pending, at: 0, ...holdOf(1n), free: false }),
        records.get('account:acct'),
        ledger.account('acct'),
      ].map((asked) => expect(asked).rejects.toMatchObject(AWAY)),
    )
    const settled = await Promise.all(
      requests.map((request) => ledger.settle(settlement(request, 3n))),
    )
    expect(settled.every(({ state, cost }) => state === 'charged' && cost === 3n)).toBe(true)
    expect(ledger.health()).toMatchObject({ ok: false, outbox: 250 })
    await ledger.leave(pending)
    server.resume()
    await expect.poll(() => ledger.health()).toMatchObject({ ok: true, outbox: 0, oldestMs: 0 })
    await expectBooked(ledger, requests, 3n)
    await expect.poll(async () => (await ledger.key('acct', 'key')).inFlight).toBe(0)
    expect(await enter(ledger, 'req_new')).toMatchObject({ ok: true })
    expect(logged).toContain('warn the connection to Redis is lost')
    expect(logged).toContain('info Redis is back')
  })

  it('releases leases of calls that ended meanwhile, or whose admission was not heard', async () => {
    const server = await serverForTest()
    const { ledger } = await open(server.url)
    await pay(ledger, { ...LIMITS, concurrency: 2 })
    const call = await admit(ledger, 'req_left')
    server.pause()
    await expect(enter(ledger, 'req_unheard')).rejects.toMatchObject(AWAY)
    await ledger.leave(call)
    server.resume()
    // The leases themselves would last for 30 s.
    await expect.poll(async () => (await ledger.key('acct', 'key')).inFlight).toBe(0)
    expect(await ledger.verify()).toEqual([])
  })

  it('logs a refusal once while Redis refuses every write', async () => {
    const server = await serverForTest()
    const { ledger, logged } = await open(server.url)
    await pay(ledger)
    const running = await admit(ledger, 'req_1', 5n)
    await server.ask((client) => client.config('SET', 'min-replicas-to-write', '1'))
    const entry = { ...KEY, revision: 1, freeTier: FREE_TIER }
    for (let i = 0; i < 20; i++) {
      await expect(ledger.enter({ ...entry, request: `req_no_${i}` })).rejects.toThrow('ledger')
      await expect(ledger.renew([running])).rejects.toThrow('ledger')
      await ledger.account('acct')
    }
    await ledger.settle({ ...settlement('req_1', 3n), day: running.day })
    const refusals = () => logged.filter((line) => line.includes('Redis refuses'))
    expect(refusals()).toEqual([
      expect.stringMatching(/^error Redis refuses: NOREPLICAS .*write\.$/),
    ])
    await server.ask((client) => client.config('SET', 'min-replicas-to-write', '0'))
    await expect.poll(() => ledger.health().outbox).toBe(0)
    expect(await ledger.account('acct')).toMatchObject({ balance: parsePico('10') - 3n })
    expect(await ledger.verify()).toEqual([])
    expect(refusals()).toHaveLength(1)
  })

  it('charges once a settlement that Redis booked without an answer', async () => {
    const server = await serverForTest()
    const { ledger } = await open(server.url)
    await pay(ledger)
    await admit(ledger, 'req_1', 5n)
    server.pause()
    const settled = ledger.settle(settlement('req_1', 3n))
    // The settlement was sent: the server reads it when it resumes.
    await expect.poll(() => ledger.health().outbox).toBe(1)
    expect(await settled).toMatchObject({ state: 'charged', cost: 3n })
    server.resume()
    await expect.poll(() => ledger.health().outbox).toBe(0)
    await expectBooked(ledger, ['req_1'], 3n)
  })
})

describe('when Redis is killed', () => {
  it('continues after its restart, and books every settlement once', async () => {
    const server = await serverForTest({ appendfsync: 'always' })
    const { ledger } = await open(server.url)
    await pay(ledger)
    const requests: string[] = []
    for (let round = 0; round < 3; round++) {
      const before = names(40, `before_${round}`)
      const during = names(40, `during_${round}`)
      for (const request of [...before, ...during]) await admit(ledger, request, 2n)
      const settling = before.map((request) => ledger.settle(settlement(request, 7n)))
      await server.kill()
      settling.push(...during.map((request) => ledger.settle(settlement(request, 7n))))
      await Promise.all(settling)
      expect(ledger.health()).toMatchObject({ ok: false })
      await server.start()
      await expect.poll(() => ledger.health()).toMatchObject({ ok: true, outbox: 0 })
      // Before the rewrite, Redis itself may lose data when it is killed again.
      await server.wholeFile()
      requests.push(...before, ...during)
    }
    await expectBooked(ledger, requests, 7n)
  })

  it('books nothing twice after Redis left a script half written', async () => {
    const server = await serverForTest({ appendfsync: 'always' })
    const { ledger } = await open(server.url)
    await pay(ledger)
    for (const request of ['req_1', 'req_2']) await admit(ledger, request, 2n)
    await server.wholeFile()
    await ledger.settle(settlement('req_1', 7n))
    await server.kill()
    server.tearFile()
    await server.start()
    await expect.poll(async () => (await usageRows(ledger)).length).toBe(1)
    await server.wholeFile()
    await ledger.settle(settlement('req_2', 7n))
    await server.kill()
    await server.start()
    await expect.poll(() => ledger.health()).toMatchObject({ ok: true, outbox: 0 })
    await expectBooked(ledger, ['req_1', 'req_2'], 7n)
  })

  it('leaves the outbox to the next process when this one ends first', async () => {
    const server = await serverForTest()
    const outbox = await folder({})
    const first = await open(server.url, { outbox })
    await pay(first.ledger)
    await admit(first.ledger, 'req_1', 5n)
    // A server that is killed before has lost the top-up, and its ledger is in doubt.
    await server.wholeFile()
    await server.kill()
    await first.ledger.settle(settlement('req_1', 3n))
    await first.close()
    await server.start()
    const { ledger, logged } = await open(server.url, { outbox })
    await expect.poll(() => ledger.health().outbox).toBe(0)
    await expectBooked(ledger, ['req_1'], 3n)
    expect(logged).toContain('info 1 settlements of the outbox are booked')
  })
})

describe('a booking that is sent again after its receipt has expired', () => {
  it('is known by its row, also by one that was folded, and booked where that is another one', async () => {
    const server = await serverForTest()
    const { ledger } = await open(server.url)
    await pay(ledger)
    const requests = names(3)
    for (const request of requests) {
      const { day } = await admit(ledger, request, 5n)
      await ledger.settle(settlement(request, 3n, day))
    }
    const [rows, ...receipts] = ['u', ...requests.map((request) => `r:${request}`)].map(
      (name) => `gw:{acct}:${name}`,
    )
    // As if the clock of the server had been set ahead by days.
    await server.ask(async (client) => {
      await client.del(receipts)
      await client.xdel(rows!, '3-0', '4-0')
      await client.call('XSETID', rows!, '3-0')
      await client.xadd(rows!, '4-0', 'kind', 'usage', 'request', 'other', 'cost', '0', 'at', '0')
      await client.call('CLIENT', 'KILL', 'TYPE', 'normal')
    })
    await expect.poll(() => server.ask((client) => client.exists(receipts[2]!))).toBe(1)
    const stored = await server.ask((client) => client.xrange(rows!, '-', '+'))
    expect(stored.map(([id, row]) => [id, row[3]])).toEqual([
      ['1-0', 'first'],
      ['2-0', 'req_0'],
      ['4-0', 'other'],
      ['5-0', 'req_2'],
    ])
    expect(await ledger.account('acct')).toMatchObject({ balance: parsePico('10') - 12n })
  })
})

describe('after a failover', () => {
  it('books again the settlements that the new primary lacks', async () => {
    const primary = await serverForTest()
    const link = await addressOf(primary)
    const replica = await replicaOf(link)
    const address = await addressOf(primary)
    const { ledger, logged } = await open(address.url)
    await pay(ledger)
    const [early, late] = [names(30, 'early'), names(300, 'late')]
    for (const request of [...early, ...late]) await admit(ledger, request, 2n)
    for (const request of early) await ledger.settle(settlement(request, 3n))
    const copied = async () => replica.ask((client) => client.xlen('gw:{acct}:u'))
    await expect.poll(copied).toBe(31)
    link.hold()
    await ledger.book({ kind: 'top-up', account: 'acct', amount: 900n, reference: 'second' })
    for (const request of late) await ledger.settle(settlement(request, 3n))
    await primary.kill()
    await promote(replica)
    expect(await copied()).toBe(31)
    address.leadTo(replica)
    await expect.poll(copied).toBe(332)
    await expect
      .poll(() => logged)
      .toContain('warn Redis had lost 301 bookings; they are booked again')
    expect(await ledger.account('acct')).toMatchObject({ balance: parsePico('10') + 900n - 990n })
    expect((await usageRows(ledger)).map(({ request }) => request).toSorted()).toEqual(
      [...early, ...late].toSorted(),
    )
    expect(await ledger.verify()).toEqual([])
  })

  it('waits for a replica to become the primary', async () => {
    const primary = await serverForTest()
    const replica = await replicaOf(primary)
    const address = await addressOf(primary)
    const { ledger } = await open(address.url)
    await pay(ledger)
    const requests = names(20)
    for (const request of requests) await admit(ledger, request, 2n)
    const copied = async () => replica.ask((client) => client.hlen('gw:{acct}:h'))
    await expect.poll(copied).toBe(20)
    address.leadTo(replica)
    await primary.kill()
    await Promise.all(requests.map((request) => ledger.settle(settlement(request, 3n))))
    await expect(enter(ledger, 'req_new')).rejects.toMatchObject(AWAY)
    expect(ledger.health()).toMatchObject({ ok: false, outbox: 20 })
    await promote(replica)
    await expect.poll(() => ledger.health()).toMatchObject({ ok: true, outbox: 0 })
    await expectBooked(ledger, requests, 3n)
  })
})

describe('settlements older than half the life of a receipt', () => {
  /** Leaves settlements in an outbox that seem to be more than a day old. */
  async function leaveOld(outbox: string, requests: readonly string[]): Promise<void> {
    const server = await serverForTest()
    const { ledger, close } = await open(server.url, { outbox })
    await server.kill()
    await Promise.all(requests.map((request) => ledger.settle(settlement(request, 3n))))
    await close()
    using db = new DatabaseSync(join(outbox, 'outbox-1.db'))
    db.prepare('UPDATE waiting SET at = ?, ledger = NULL').run(Date.now() - 25 * HOUR_MS)
    // As if it was another ledger's: the server that they were meant for is gone.
    await rm(join(outbox, 'outbox-1.memory.json'))
  }

  it('are booked unless the rows show that they were', async () => {
    const outbox = await folder({})
    await leaveOld(outbox, ['req_booked', 'req_new'])
    const server = await sharedServer()
    const before = await open(server.url)
    await pay(before.ledger)
    await before.ledger.settle(settlement('req_booked', 3n))
    await server.ask((client) => client.del('gw:{acct}:r:req_booked'))
    const { ledger } = await open(server.url, { outbox })
    await expect.poll(() => ledger.health().outbox).toBe(0)
    await expectBooked(ledger, ['req_booked', 'req_new'], 3n)
  })

  it('are quarantined when rows are missing', async () => {
    const outbox = await folder({})
    await leaveOld(outbox, ['req_1', 'req_2'])
    const server = await sharedServer()
    const before = await open(server.url)
    await pay(before.ledger)
    await before.ledger.settle(settlement('req_2', 3n))
    await server.ask((client) => client.xtrim('gw:{acct}:u', 'MAXLEN', 1))
    const engine = await open(server.url, { outbox })
    await expect.poll(() => engine.ledger.health().outbox).toBe(0)
    expect((await usageRows(engine.ledger)).map(({ request }) => request)).toEqual(['req_2'])
    const quarantine = expect.stringMatching(/^error 1 settlements in .*outbox-1\.db are too old/)
    expect(engine.logged).toContainEqual(quarantine)
    await engine.close()
    // Every start reports it again.
    const { logged } = await open(server.url, { outbox })
    expect(logged).toContainEqual(quarantine)
    using db = new DatabaseSync(join(outbox, 'outbox-1.db'), { readOnly: true })
    const rows = db.prepare('SELECT request, quarantined FROM waiting').all()
    expect(rows).toEqual([{ request: 'req_1', quarantined: 1 }])
  })

  it('are booked or dropped by an operator, once', async () => {
    const outbox = await folder({})
    await leaveOld(outbox, ['req_1', 'req_2', 'req_3'])
    const server = await sharedServer()
    const before = await open(server.url)
    await pay(before.ledger)
    await before.ledger.settle(settlement('req_3', 3n))
    await server.ask((client) => client.xtrim('gw:{acct}:u', 'MAXLEN', 0))
    const { ledger, logged } = await open(server.url, { outbox })
    const left = () => ledger.quarantined().map(({ request }) => request)
    await expect.poll(left).toEqual(['req_1', 'req_2', 'req_3'])
    expect(await ledger.bookQuarantined('req_1')).toMatchObject({ state: 'charged', cost: 3n })
    expect(await ledger.bookQuarantined('req_1')).toBeUndefined()
    // Its receipt is still there.
    expect(await ledger.bookQuarantined('req_3')).toMatchObject({ state: 'duplicate' })
    expect(ledger.dropQuarantined('req_2', 'the invoice lacks it')).toMatchObject({ cost: 3n })
    expect(ledger.dropQuarantined('req_2', 'again')).toBeUndefined()
    expect(left()).toEqual([])
    const line = expect.stringMatching(/dropped by an operator: the invoice lacks it.*"req_2"/)
    expect(logged).toContainEqual(line)
    expect(await ledger.account('acct')).toMatchObject({ balance: parsePico('10') - 6n })
  })
})
