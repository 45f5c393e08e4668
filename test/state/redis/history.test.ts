import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import type { LedgerItem, Settlement } from '../../../src/state/ledger/ledger.ts'
import { RedisHistory } from '../../../src/state/redis/history.ts'
import { scriptsWith } from '../../../src/state/redis/scripts.ts'
import { parsePico } from '../../../src/money/money.ts'
import { collect, LIMITS, openInMemory, settlement } from '../sqlite/_engine.ts'
import {
  admit,
  installed,
  needRedis,
  open,
  pay,
  serverForTest,
  sharedServer,
  STORED_CLOCK,
  type Engine,
} from './_engine.ts'
import type { RedisServer } from './_redis.ts'
import { eventually } from '../../_wait.ts'

const DAY_MS = 86_400_000
const START = Date.UTC(2026, 0, 30, 12)
const ROWS = 500
let server: RedisServer

needRedis()
beforeAll(async () => {
  if (installed) server = await sharedServer()
})

/** An engine on an emptied database of the server. */
async function openEmpty(database = 0): Promise<Engine> {
  await server.ask(async (client) => {
    await client.select(database)
    await client.flushdb()
    await client.set('now', START + 5 * DAY_MS)
  })
  return open(`${server.url}/${database}`, { clock: STORED_CLOCK })
}

function nth(i: number): Settlement {
  const at = START + Math.floor((i * 4 * DAY_MS) / ROWS)
  const day = new Date(at).toISOString().slice(0, 10).replaceAll('-', '')
  const { usage, ...rest } = settlement(`req_${i}`, BigInt(i) ** 2n, day)
  return { ...rest, key: `key${i % 3}`, usage: { ...usage, at } }
}

/** 500 rows over four days in one account, none in another. */
async function fill({ ledger }: Engine): Promise<void> {
  await pay(ledger)
  const counted = [{ id: 'cap.month', value: 5n }]
  await ledger.limits('acct', 'key2', { ...LIMITS, disabled: true, expiresAt: 9, counted }, 77)
  await ledger.limits('other', 'key', LIMITS, 1)
  for (let i = 0; i < ROWS; i++) await ledger.settle(nth(i))
  await ledger.book({
    kind: 'top-up',
    account: 'acct',
    amount: 7n,
    reference: 'a "second"',
    note: 'thanks',
  })
}

async function stateOf({ ledger }: Pick<Engine, 'ledger'>): Promise<unknown> {
  const keys = ['key', 'key0', 'key1', 'key2'].map((key) => ledger.key('acct', key))
  return { account: await ledger.account('acct'), keys: await Promise.all(keys) }
}

describe('the history of accounts in Redis', () => {
  it('is imported whole into another server, and a second import changes nothing', async () => {
    const from = await openEmpty()
    await fill(from)
    const items = await collect(from.ledger.export())
    const into = await openEmpty(1)
    for (let i = 0; i < items.length; i += 100) {
      expect(await into.ledger.import(items.slice(i, i + 100))).not.toHaveProperty('refused')
    }
    expect(await stateOf(into)).toEqual(await stateOf(from))
    expect(await collect(into.ledger.export())).toEqual(items)
    expect(await collect(into.ledger.usage('acct'))).toEqual(
      await collect(from.ledger.usage('acct')),
    )
    expect(await into.ledger.verify()).toEqual([])
    // Imported rows cannot be charged or imported again, not even after their receipts have expired.
    expect(await into.ledger.settle(nth(3))).toMatchObject({ state: 'duplicate', cost: 9n })
    const again = await open(`${server.url}/1`, { clock: STORED_CLOCK })
    await server.ask(async (client) => {
      await client.select(1)
      const receipts = await client.keys('gw:{acct}:r:*')
      expect(receipts).toHaveLength(ROWS)
      await client.del(receipts)
    })
    expect(await again.ledger.import(items)).toEqual({ stored: items.length, added: 0 })
    expect(await collect(into.ledger.export())).toEqual(items)
  })

  it('is imported into another engine and back', async () => {
    const from = await openEmpty()
    await fill(from)
    const items = await collect(from.ledger.export())
    const { ledger: memory } = openInMemory({ now: () => START + 5 * DAY_MS })
    onTestFinished(() => memory.close())
    expect(await memory.import(items)).toMatchObject({ stored: items.length })
    expect(await stateOf({ ledger: memory as unknown as Engine['ledger'] })).toEqual(
      await stateOf(from),
    )
    const into = await openEmpty(1)
    const back = await into.ledger.import(await collect(memory.export()))
    expect(back).toMatchObject({ stored: items.length })
    expect(await stateOf(into)).toEqual(await stateOf(from))
  })

  it('refuses an item that contradicts the ledger, and reads no further', async () => {
    const { ledger } = await openEmpty()
    await pay(ledger)
    await ledger.settle(nth(3))
    const row = (cost: bigint, request = 'req_3'): LedgerItem => {
      const { account, key, day } = nth(3)
      const { at } = nth(3).usage
      return { kind: 'usage', account, key, day, request, cost, at, usage: nth(3).usage }
    }
    expect(await ledger.import([row(9n), row(8n), row(1n, 'req_4')])).toEqual({
      stored: 1,
      added: 0,
      refused: 'request "req_3" of account acct is stored already, with another amount',
    })
    const { day } = nth(3)
    const total = { kind: 'total', account: 'acct', key: 'key0', day, rows: 1, cost: 9n } as const
    expect(await ledger.import([total])).toMatchObject({
      stored: 0,
      refused: expect.stringContaining('may contain stored rows'),
    })
    expect(await ledger.account('acct')).toMatchObject({ balance: parsePico('10') - 9n })
    expect(await ledger.verify()).toEqual([])
  })

  it('is folded by day and key once, by any gateway, without changing a sum', async () => {
    const engine = await openEmpty()
    const { ledger } = engine
    await fill(engine)
    const before = await stateOf(engine)
    const beside = await open(server.url, { clock: STORED_CLOCK })
    const bound = new Date(START + 10 * DAY_MS)
    const [folded, ...others] = await Promise.all([
      ledger.fold(bound),
      beside.ledger.fold(bound),
      ledger.verify(),
      beside.ledger.verify(),
    ])
    expect(others.slice(1)).toEqual([[], []])
    const old = Array.from({ length: ROWS }, (_, i) => nth(i)).filter(
      // Days that had ended everywhere when the last two days began.
      ({ day }) => day < '20260201',
    )
    expect(folded + (others[0] as number)).toBe(old.length)
    expect(await stateOf(engine)).toEqual(before)
    expect(await ledger.verify()).toEqual([])
    const rows = await collect(ledger.usage('acct'))
    expect(rows).toHaveLength(ROWS + 2 - old.length)
    const items = await collect(ledger.export())
    const totals = items.filter((item) => item.kind === 'total')
    expect(totals.reduce((sum, { rows }) => sum + rows, 0)).toBe(old.length)
    expect(totals.reduce((sum, { cost }) => sum + cost, 0n)).toBe(
      old.reduce((sum, { cost }) => sum + cost, 0n),
    )
    const into = await openEmpty(1)
    expect(await into.ledger.import(items)).toMatchObject({ stored: items.length })
    expect(await stateOf(into)).toEqual(before)
    expect(await into.ledger.import(items)).toEqual({ stored: items.length, added: 0 })
    expect(await into.ledger.verify()).toEqual([])
    expect(await collect(into.ledger.export())).toEqual(items)
  })

  it('is folded by another gateway where the first one was away for too long, and its lock stays', async () => {
    const engine = await openEmpty()
    await fill(engine)
    const before = await stateOf(engine)
    const client = server.client()
    onTestFinished(() => client.disconnect())
    await client.set('now', START + 9 * DAY_MS)
    const bound = new Date(START + 10 * DAY_MS)
    let pages = 0
    const lapse = async () => {
      if (pages++ === 0) await client.set('gw:folding', 'another', 'PX', 60_000)
    }
    expect(await engine.ledger.fold(bound, lapse)).toBeGreaterThan(0)
    expect([await client.get('gw:folding'), await engine.ledger.fold(bound)]).toEqual([
      'another',
      0,
    ])
    await client.del('gw:folding')
    expect(await engine.ledger.fold(bound)).toBeGreaterThan(0)
    expect(await client.exists('gw:folding')).toBe(0)
    expect(await stateOf(engine)).toEqual(before)
  })

  it('is folded by the gateway that starts with a retention', async () => {
    const engine = await openEmpty()
    await fill(engine)
    const before = await stateOf(engine)
    const keeper = await open(server.url, { clock: STORED_CLOCK, retentionDays: 2 })
    await expect.poll(() => keeper.logged).toContainEqual(expect.stringContaining('were folded'))
    expect(await stateOf(engine)).toEqual(before)
    expect((await collect(engine.ledger.usage('acct'))).length).toBeLessThan(ROWS)
  })

  it('lists orphans', async () => {
    const engine = await openEmpty()
    await pay(engine.ledger)
    await admit(engine.ledger, 'req_dead', 5n)
    await server.ask((client) => client.set('now', START + 6 * DAY_MS))
    expect(await engine.ledger.key('acct', 'key')).toMatchObject({ inFlight: 0 })
    const orphan = { kind: 'orphan', account: 'acct', key: 'key', request: 'req_dead', cost: 0n }
    expect(await collect(engine.ledger.orphans())).toMatchObject([orphan])
    expect(await collect(engine.ledger.orphans('acct'))).toMatchObject([orphan])
    expect(await collect(engine.ledger.orphans('other'))).toEqual([])
  })
})

it('is verified from where it was right the last time, and whole in between', async () => {
  const server = await serverForTest()
  const { ledger } = await open(server.url)
  const counted = [{ id: 'cap.month', value: parsePico('1') }]
  await pay(ledger, { ...LIMITS, counted })
  const client = server.client()
  onTestFinished(() => client.disconnect())
  for (const [name, script] of Object.entries(scriptsWith('local now = 0'))) {
    client.defineCommand(name, script)
  }
  const history = new RedisHistory({ client, ask: (send: () => unknown) => send() } as never)
  const verify = async (isWhole: boolean) => {
    await client.del('gw:verifying')
    return history.verifyInTurn(isWhole)
  }
  const call = async (request: string) => {
    await ledger.settle(settlement(request, 3n))
  }
  for (let i = 0; i < 1200; i += 100) {
    await Promise.all(Array.from({ length: 100 }, (_, n) => call(`req_${i + n}`)))
  }
  expect(await verify(true)).toEqual([])
  await call('new_1')
  expect(await verify(false)).toEqual([])
  // The oldest call is gone, which a look at the rows after the last time does not see.
  await client.xdel('gw:{acct}:u', '2-0')
  await call('new_2')
  expect(await verify(false)).toEqual([])
  expect(await verify(true)).not.toEqual([])
})

it('is verified once a day by one of its gateways', async () => {
  const server = await serverForTest()
  const first = await open(server.url)
  await pay(first.ledger)
  const differs = (logged: readonly string[]) =>
    logged.filter((line) => line.includes('does not add up'))
  await eventually(async () =>
    expect(await server.ask((client) => client.pttl('gw:verifying'))).toBeGreaterThan(0),
  )
  // The next day, as if it was.
  await server.ask((client) =>
    client.hset('gw:{acct}:book', 'bal', '17').then(() => client.del('gw:verifying')),
  )
  const [second, third] = [await open(server.url), await open(server.url)]
  await eventually(() =>
    expect([...differs(second.logged), ...differs(third.logged)]).toEqual([
      expect.stringContaining('the ledger of account acct does not add up: balance'),
      expect.stringContaining('the ledger of account acct does not add up: held'),
    ]),
  )
})
