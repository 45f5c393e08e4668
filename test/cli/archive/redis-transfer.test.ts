import { describe, expect, it } from 'vitest'
import { Accounts } from '../../../src/accounts/accounts.ts'
import { hashSecret } from '../../../src/accounts/secrets.ts'
import { exportLines, importLines } from '../../../src/cli/archive/archive.ts'
import { collect, KEY, LIMITS, open as openSqlite, settlement } from '../../state/sqlite/_engine.ts'
import { admit, needRedis, open, pay, sharedServer } from '../../state/redis/_engine.ts'
import { eventually } from '../../_wait.ts'

type State = Parameters<typeof exportLines>[0]

needRedis()

function accountsOf(state: State): Accounts {
  return new Accounts({ ...state, defaults: () => ({ limits: LIMITS }) })
}

async function linesOf(state: State): Promise<string[]> {
  return (await collect(exportLines(state))).map((line) => line.slice(0, -1))
}

function take(state: State, lines: readonly string[]) {
  return importLines(state, async function* () {
    yield* lines
  })
}

describe('what is in Redis', () => {
  it('moves to a file and to another Redis, keys and their order included', async () => {
    const { url } = await sharedServer()
    const redis = await open(url)
    const accounts = accountsOf(redis)
    await accounts.createAccount({ id: 'acct', name: 'Acme' })
    // Not in alphabetical order, and created within a millisecond.
    const ids = ['zoe', 'key', 'amy', 'bob', 'ann']
    let secret = ''
    for (const id of ids) ({ secret } = await accounts.createKey('acct', { id, name: id }))
    await pay(redis.ledger)
    await redis.ledger.settle(settlement('req_1', 5n))

    const file = await openSqlite()
    const other = await open(`${url}/1`)
    let from: State = redis
    for (const to of [file, other]) {
      const lines = await linesOf(from)
      expect(await take(to, lines)).toEqual({ lines: lines.length, added: lines.length - 2 })
      expect(await take(to, lines)).toEqual({ lines: lines.length, added: 0 })
      expect((await accountsOf(to).listKeys('acct')).map(({ id }) => id)).toEqual(ids)
      expect(await to.ledger.verify()).toEqual([])
      expect((await to.ledger.state()).id).toBe((await from.ledger.state()).id)
      await eventually(() => to.ledger.assertOpen())
      from = to
    }
    const moved = accountsOf(other)
    expect(await moved.find(hashSecret(secret))).toMatchObject({ account: { id: 'acct' } })
    await moved.createAccount({ id: 'new', name: 'New' })
    expect((await moved.listAccounts()).map(({ id }) => id)).toEqual(['acct', 'new'])
  })

  it('can be imported while gateways work on it, and nothing is booked twice or lost', async () => {
    const server = await sharedServer()
    const source = await openSqlite()
    await source.ledger.book({
      kind: 'top-up',
      account: 'acct',
      amount: 10n ** 13n,
      reference: 'moved',
    })
    await source.ledger.limits('acct', 'key', LIMITS, 1)
    for (let i = 0; i < 300; i++) await source.ledger.settle(settlement(`old_${i}`, 3n))
    const lines = await linesOf(source)

    const gateways = [await open(server.url), await open(server.url)]
    await pay(gateways[0]!.ledger)
    const work = gateways.map(async ({ ledger }, i) => {
      for (let n = 0; n < 100; n++) {
        // A busy machine has no answer within the time of an admission; the same request can be tried again.
        const call = await eventually(() => admit(ledger, `new_${i}_${n}`, 7n))
        await ledger.settle({ ...settlement(call.request, 2n), day: call.day })
        // A settlement that both have.
        await ledger.settle(settlement(`old_${n}`, 3n))
      }
    })
    const importers = [await open(server.url), await open(server.url)]
    await Promise.all([...work, ...importers.map((importer) => take(importer, lines))])
    const { ledger } = gateways[0]!
    expect(await ledger.verify()).toEqual([])
    const spent = 300n * 3n + 200n * 2n
    expect(await ledger.account('acct')).toMatchObject({
      balance: 2n * 10n ** 13n - spent,
      available: 2n * 10n ** 13n - spent,
    })
    expect(await ledger.key(KEY.account, KEY.key)).toMatchObject({ lifetime: spent, inFlight: 0 })
  })
})
