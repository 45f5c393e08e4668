import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Accounts } from '../../../src/accounts/accounts.ts'
import { hashSecret } from '../../../src/accounts/secrets.ts'
import { simpleForm } from '../../../src/server/admin/resources/limit.ts'
import { openRedis } from '../../../src/state/redis/engine.ts'
import type { Log } from '../../../src/state/ledger/ledger.ts'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sharedServer } from './_engine.ts'
import { hasRedis, NOT_INSTALLED, type RedisServer } from './_redis.ts'

const SILENT = { info() {}, warn() {}, error() {} } as unknown as Log
const SECRET = 'a-secret-of-a-seed'
const FREE_TIER = { rpm: 10, concurrency: 10 }
const present = hasRedis()
if (!present) process.stderr.write(`SKIPPED gateways that start together: ${NOT_INSTALLED}\n`)

describe.skipIf(!present)('gateways that start together', () => {
  let server: RedisServer
  const folder = mkdtempSync(join(tmpdir(), 'gateway-'))
  beforeAll(async () => void (server = await sharedServer()))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  async function instance(name: string) {
    const state = await openRedis({ url: server.url, outbox: join(folder, name), log: SILENT })
    const limits = { rpm: 60, concurrency: 10 }
    return { ...state, accounts: new Accounts({ ...state, defaults: () => ({ limits }) }) }
  }

  it('create an account and its key once, and all admit the key', async () => {
    const instances = await Promise.all(['a', 'b', 'c', 'd'].map(instance))
    for (let round = 0; round < 20; round++) {
      const account = `acct_${round}`
      const secret = `${SECRET}-${round}`
      const made = async <T>(make: () => Promise<T>) =>
        make().then(
          () => 1,
          () => 0,
        )
      const accounts = await Promise.all(
        instances.map((one) =>
          made(() => one.accounts.createAccount({ id: account, name: 'Seed' })),
        ),
      )
      expect(accounts.reduce((sum, count) => sum + count, 0)).toBe(1)
      const keys = await Promise.all(
        instances.map((one) =>
          made(() => one.accounts.createKey(account, { id: `key_${round}`, name: 'Seed', secret })),
        ),
      )
      expect(keys.reduce((sum, count) => sum + count, 0)).toBe(1)
      for (const { accounts, ledger } of instances) {
        const known = await accounts.find(hashSecret(secret))
        const entered = await ledger.enter({
          request: `req_${round}_${instances.findIndex((one) => one.accounts === accounts)}`,
          account,
          key: known!.key.id,
          revision: known!.key.revision,
          freeTier: FREE_TIER,
        })
        expect(entered).toMatchObject({ ok: true })
      }
    }
    await expectOneChange(instances.map(({ accounts }) => accounts))
    await expectSameLists(instances.map(({ accounts }) => accounts))
    for (const { ledger, records } of instances) {
      await ledger.close()
      await records.close()
    }
  })
})

/** Expects that of changes that name one revision one is made, and of those that name none each. */
async function expectOneChange(instances: readonly Accounts[]): Promise<void> {
  const { revision: expected } = (await instances[0]!.key('key_0'))!
  const changes = instances.map((one, i) => one.changeKey('key_0', { rpm: i + 1 }, { expected }))
  const results = await Promise.allSettled(changes)
  expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  for (const result of results) {
    if (result.status === 'rejected') expect(result.reason).toMatchObject({ status: 412 })
  }
  const members = [{ rpm: 9 }, { concurrency: 8 }, { tag: 'team' }, { note: 'of a test' }]
  await Promise.all(instances.map((one, i) => one.changeKey('key_0', members[i]!)))
  const key = (await instances[0]!.key('key_0'))!
  expect({ ...key, ...simpleForm(key) }).toMatchObject(Object.assign({}, ...members))
}

/** Lists of a gateway follow what another one creates, changes and archives. */
async function expectSameLists([first, second]: readonly Accounts[]): Promise<void> {
  const before = await second!.directory.view()
  expect([before.accounts.size, before.keys.size]).toEqual([20, 20])
  await first!.createAccount({ id: 'late', name: 'Late' })
  await first!.createKey('late', { id: 'key_late', name: 'Late' })
  await first!.changeKey('key_1', { name: 'Renamed' })
  await first!.archiveKey('key_2')
  const { accounts, keys, keyCounts } = await second!.directory.view()
  expect(accounts.get('late')).toMatchObject({ name: 'Late' })
  expect([keys.get('key_late')?.account, keyCounts.get('late')]).toEqual(['late', 1])
  expect(keys.get('key_1')?.name).toBe('Renamed')
  expect([keys.get('key_2')?.archived, keyCounts.get('acct_2')]).toEqual([true, 0])
}
