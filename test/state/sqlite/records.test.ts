import { describe, expect, it } from 'vitest'
import { createStorage } from 'unstorage'
import { sqliteDriver } from '../../../src/state/sqlite/engine.ts'
import { startThread, WorkerClient } from '../../../src/state/sqlite/worker-client.ts'
import { folder } from '../../_folder.ts'
import { NOON, open, openPaid, settlement } from './_engine.ts'

describe('records in the file of a ledger', () => {
  it('return what was stored, also after the folder was opened again', async () => {
    const { path, ledger, records } = await open()
    const value = {
      usd: '9007199254740993',
      nested: { list: [1, 'two', null], text: 'ü \u{1f600}' },
    }
    await records.put('account:acct', value)
    expect(await records.get('account:acct')).toEqual(value)
    await records.put('account:acct', { ...value, usd: '0.0000000125' })
    await records.put('account:other', {})
    await records.del('account:other')
    for (const id of ['b', 'a', 'b']) await records.add('accounts', id)
    await records.close()
    await ledger.close()

    const again = await open(path)
    expect(await again.records.get('account:acct')).toEqual({ ...value, usd: '0.0000000125' })
    expect(await again.records.get('account:other')).toBeUndefined()
    expect(await again.records.list('accounts')).toEqual(['b', 'a'])
    const many = ['account:other', 'account:acct']
    expect(await again.records.getMany(many)).toEqual([
      undefined,
      await again.records.get('account:acct'),
    ])
    expect(await again.records.listMany(['none', 'accounts'])).toEqual([[], ['b', 'a']])
  })

  it('expire at their time, not before', async () => {
    let now = NOON
    const { path, ledger, records } = await open(undefined, () => now)
    await records.put('pin:1', { to: 'west' }, { ttlSeconds: 60 })
    await records.put('pin:2', { to: 'east' }, { ttlSeconds: 61 })
    now += 59_999
    expect(await records.get('pin:1')).toEqual({ to: 'west' })
    now += 1
    expect(await records.get('pin:1')).toBeUndefined()
    expect(await records.get('pin:2')).toEqual({ to: 'east' })
    await records.put('pin:2', { to: 'east' })
    await ledger.close()
    now += 3_600_000
    const again = await open(path, () => now)
    expect(await again.records.get('pin:1')).toBeUndefined()
    expect(await again.records.get('pin:2')).toEqual({ to: 'east' })
  })

  it('share the batches of the settlements beside them', async () => {
    const { ledger, records } = await openPaid()
    const { commits } = ledger
    await Promise.all([
      ...Array.from({ length: 50 }, (_, i) => records.put(`account:${i}`, { i })),
      ...Array.from({ length: 50 }, (_, i) => ledger.settle(settlement(`req_${i}`, 1n))),
    ])
    expect(ledger.commits - commits).toBeLessThan(10)
    expect(await records.get('account:49')).toEqual({ i: 49 })
  })

  it('do not close the file of the ledger', async () => {
    const { ledger, records } = await openPaid()
    await records.close()
    expect(await ledger.settle(settlement('req_1', 1n))).toMatchObject({ state: 'charged' })
  })

  it('fail when the ledger is closed', async () => {
    const { ledger, records } = await open()
    await ledger.close()
    await expect(records.get('account:acct')).rejects.toThrow('the ledger is closed')
  })
})

describe('the driver', () => {
  it('works with unstorage', async () => {
    await using opened = await createDriver()
    const storage = createStorage({ driver: opened.driver })
    await storage.setItem('a:1', { n: 1 })
    await storage.setItems([
      { key: 'a:2', value: { n: 2 } },
      { key: 'b:1', value: { n: 3 } },
    ])
    expect(await storage.hasItem('a:2')).toBe(true)
    expect(await storage.hasItem('a:3')).toBe(false)
    expect((await storage.getKeys()).sort()).toEqual(['a:1', 'a:2', 'b:1'])
    expect((await storage.getKeys('a')).sort()).toEqual(['a:1', 'a:2'])
    await storage.removeItem('a:1')
    expect((await storage.getKeys()).sort()).toEqual(['a:2', 'b:1'])
    await storage.clear()
    expect(await storage.getKeys()).toEqual([])
    expect(storage.getMount('').driver.getInstance!()).toBe(opened.client)
  })

  it('sets several items in one transaction, each with its own expiry', async () => {
    let now = NOON
    await using opened = await createDriver(() => now)
    const { driver, client } = opened
    const { commits } = client
    const items = Array.from({ length: 100 }, (_, i) => ({ key: `k:${i}`, value: `{"i":${i}}` }))
    await driver.setItems!([...items, { key: 'k:x', value: '{}', options: { ttl: 5 } }], { ttl: 9 })
    expect(client.commits).toBe(commits + 1)
    now += 5000
    expect(await driver.getItem('k:x')).toBeNull()
    expect(await driver.getKeys('k:', {})).toHaveLength(100)
    now += 4000
    expect(await driver.getKeys('k:', {})).toEqual([])
  })

  it('finds keys by any prefix', async () => {
    await using opened = await createDriver()
    const { driver } = opened
    for (const key of ['a', 'a%', 'a_', 'ab', 'a\u{1f600}', 'b'])
      await driver.setItem!(key, '{}', {})
    expect((await driver.getKeys('a', {})).sort()).toEqual(['a', 'a%', 'a_', 'ab', 'a\u{1f600}'])
    expect(await driver.getKeys('a%', {})).toEqual(['a%'])
    expect(await driver.getKeys('', {})).toHaveLength(6)
  })
})

async function createDriver(now: () => number = () => NOON) {
  const path = await folder({})
  const log = { info() {}, warn() {}, error() {} } as never
  const { worker } = await startThread({ path, from: '20260101' }, log)
  const client = new WorkerClient(worker, log)
  return {
    client,
    driver: sqliteDriver(client, now),
    async [Symbol.asyncDispose]() {
      await client.close()
    },
  }
}
