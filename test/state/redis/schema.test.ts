/** The move of a ledger in Redis to this release's schema, and releases of schema 8 beside it. */
import { expect, it } from 'vitest'
import type { Redis } from 'ioredis'
import { ConfigError } from '../../../src/errors/errors.ts'
import { parsePico } from '../../../src/money/money.ts'
import type { Admission } from '../../../src/state/ledger/ledger.ts'
import { eventually } from '../../_wait.ts'
import { settlement } from '../sqlite/_engine.ts'
import {
  admit,
  FREE_TIER,
  LIMITS_8,
  needRedis,
  open,
  pay,
  sharedServer,
  toSchema8,
} from './_engine.ts'

needRedis()

const ENTRY = { account: 'acct', key: 'key', revision: 1, freeTier: FREE_TIER }
const BOOK = 'gw:{acct}:book'

it('a ledger of schema 8 is moved once, with its sums, limits and identity', async () => {
  const server = await sharedServer()
  const first = await open(server.url)
  const counted = [{ id: 'cap.month', value: parsePico('3') }]
  await pay(first.ledger, {
    disabled: false,
    rpm: 1000,
    concurrency: 100,
    expiresAt: 4e12,
    counted,
  })
  await first.ledger.limits('acct', 'idle', { disabled: true, rpm: 7, concurrency: 8 }, 3)
  const days = ['20260513', '20260514', '20260517', '20260518', '20260519', '20260520']
  for (const day of days) await first.ledger.settle(settlement(`req_${day}`, 7n, day))
  // Of the day of the idle key, the other one has dropped what it spent.
  await first.ledger.settle({ ...settlement('req_idle', 5n, '20260514'), key: 'idle' })
  await first.ledger.book({
    kind: 'adjust',
    account: 'acct',
    amount: -2n,
    reference: 'a',
    note: 'why',
  })
  const before = await collected(first.ledger.export())
  await first.close()
  await server.ask(async (client) => {
    await toSchema8(client)
    await client.set('gw:identity', 'ledger_of_before')
    // Books of early releases have neither the spend of the account nor what was paid in.
    const fields = await client.hkeys(BOOK)
    await client.hdel(BOOK, 'in', ...fields.filter((field) => field.endsWith(':@account')))
  })

  const { ledger, logged } = await open(server.url)
  expect(logged.join()).toContain('the ledger of 1 accounts is moved from schema 8 to 9')
  const known = await server.ask((client) => client.hgetall('gw:ledger'))
  expect(known).toMatchObject({ id: 'ledger_of_before', epoch: '0', schema: '9' })
  expect(await ledger.verify()).toEqual([])
  const after = await collected(ledger.export())
  const account = { kind: 'limits', account: 'acct', key: '@account', revision: 0 }
  expect(after).toEqual(
    expect.arrayContaining([...before, { ...account, limits: { disabled: false } }]),
  )
  const call = await admit(ledger, 'req_held', 3n)
  await ledger.settle(settlement(call.request, 2n, '20260520'))
  expect(await ledger.verify()).toEqual([])
  expect((await open(server.url)).logged.join()).not.toContain('is moved')
})

it('a key is stale to a release of schema 8 from the move on, whatever it writes', async () => {
  const server = await sharedServer()
  const { ledger } = await open(server.url)
  await pay(ledger)
  const stored = await server.ask((client) => client.hget(BOOK, 'l:key'))
  // What such a release compares with the revision that it knows.
  expect(Number(stored!.split('|')[0])).toBeGreaterThan(Date.UTC(2200, 0))
  await server.ask((client) => client.hset(BOOK, 'l:@account', '5|0||||||'))
  const answer = await ledger.enter({ ...ENTRY, request: 'req_1', accountRevision: 5 })
  expect(answer).toEqual({ ok: false, why: 'stale' })
})

it('what such a release makes after the move is lifted within seconds', async () => {
  const server = await sharedServer()
  const { ledger, records } = await open(server.url)
  await pay(ledger)
  await server.ask((client) => client.hset(BOOK, 'l:new', LIMITS_8))
  const enter = (request: string): Promise<Admission> =>
    Promise.resolve(ledger.enter({ ...ENTRY, key: 'new', request }))
  expect(await enter('req_1')).toEqual({ ok: false, why: 'stale' })
  await records.put('key:new', { account: 'acct' })
  await records.touch('key:new')
  await eventually(async () => expect(await enter('req_2')).toMatchObject({ ok: true }))
})

it('a ledger of a newer schema is refused', async () => {
  const server = await sharedServer()
  await server.ask((client) => client.hset('gw:ledger', 'schema', '10'))
  const refused = await open(server.url).catch((error: unknown) => error)
  expect(refused).toBeInstanceOf(ConfigError)
  expect((refused as Error).message).toContain('the ledger has schema 10, this release knows 9')
})

it('several gateways that start at once move it once', async () => {
  const server = await sharedServer()
  const first = await open(server.url)
  await pay(first.ledger)
  await first.close()
  await server.ask((client: Redis) => toSchema8(client))
  const engines = await Promise.all(Array.from({ length: 4 }, () => open(server.url)))
  const moved = engines.filter(({ logged }) => logged.join().includes('is moved'))
  expect(moved).toHaveLength(1)
  expect(await engines[3]!.ledger.verify()).toEqual([])
})

async function collected<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = []
  for await (const item of items) all.push(item)
  return all
}
