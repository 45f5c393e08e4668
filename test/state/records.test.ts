import { describe, expect, it, vi } from 'vitest'
import { createStorage } from 'unstorage'
import memory from 'unstorage/drivers/memory'
import { StoredRecords, type Records } from '../../src/state/records.ts'

function memoryRecords(): Records {
  return new StoredRecords(createStorage({ driver: memory() }))
}

describe('records', () => {
  it('return a copy of what was stored', async () => {
    const records = memoryRecords()
    const value = { usd: '9007199254740993', nested: { list: [1, 'two', null] } }
    await records.put('account:acct_1', value)
    const first = await records.get<typeof value>('account:acct_1')
    expect(first).toEqual(value)
    first!.nested.list.push(3)
    expect(await records.get('account:acct_1')).toEqual(value)
  })

  it('return nothing for a key that was never stored, or was deleted', async () => {
    const records = memoryRecords()
    expect(await records.get('account:none')).toBeUndefined()
    await records.put('account:acct_1', {})
    await records.del('account:acct_1')
    expect(await records.get('account:acct_1')).toBeUndefined()
  })

  it('are read together in the order of their keys', async () => {
    const records = memoryRecords()
    await records.put('account:acct_1', { id: 1 })
    await records.add('accounts', 'acct_1', 'acct_2')
    const keys = ['account:none', 'account:acct_1', 'account:none']
    expect(await records.getMany(keys)).toEqual([undefined, { id: 1 }, undefined])
    expect(await records.listMany(['none', 'accounts'])).toEqual([[], ['acct_1', 'acct_2']])
    await expect(records.getMany(['account:a', 'account:a/b'])).rejects.toThrow(TypeError)
  })

  it('accept objects only', async () => {
    const records = memoryRecords()
    for (const value of ['9007199254740993', 1, true, null, [1]]) {
      await expect(records.put('account:acct_1', value as never)).rejects.toThrow(TypeError)
    }
    await expect(records.put('account:acct_1', { amount: 1n })).rejects.toThrow(TypeError)
    expect(await records.get('account:acct_1')).toBeUndefined()
  })

  it('fail when a stored value is not an object', async () => {
    const storage = createStorage({ driver: memory() })
    const records = new StoredRecords(storage)
    for (const torn of ['', 'garbage', '12', '[1]']) {
      await storage.setItem('account:acct_1', torn)
      await expect(records.get('account:acct_1')).rejects.toThrow('account record is not an object')
    }
  })

  it.each([
    ['', 1],
    ['account:', 2],
    ['account:q?a=1', 2],
    ['account:a/b', 2],
    ['account:a\\b', 2],
    ['account:..', 2],
    ['account:meta$', 2],
    ['account:ü', 2],
    [`hash:${'a'.repeat(201)}`, 2],
  ])('refuse the key %j and point to segment %i', async (key, segment) => {
    const records = memoryRecords()
    const message = `segment ${segment} of a record key`
    await expect(records.put(key, {})).rejects.toThrow(message)
    await expect(records.get(key)).rejects.toThrow(message)
    await expect(records.del(key)).rejects.toThrow(message)
  })

  it('never repeat a refused key, which may be a secret by mistake', async () => {
    const error = await memoryRecords()
      .get('hash:sk-sluice-very secret')
      .catch((error: unknown) => error)
    expect(String(error)).not.toContain('very')
  })

  it('pass a time to live to the storage, in seconds', async () => {
    const seen: unknown[] = []
    const driver = { ...memory(), setItem: (...args: unknown[]) => void seen.push(args) }
    const records = new StoredRecords(createStorage({ driver }))
    await records.put('pin:1', { to: 'west' }, { ttlSeconds: 3600 })
    await records.put('pin:2', { to: 'east' })
    expect(seen).toEqual([
      ['pin:1', '{"to":"west"}', { ttl: 3600 }],
      ['pin:2', '{"to":"east"}', {}],
    ])
  })

  it('are created once, and replaced once, by callers at the same moment', async () => {
    const records = memoryRecords()
    const all = <T>(act: (i: number) => Promise<T>) =>
      Promise.all(Array.from({ length: 20 }, (_, i) => act(i)))
    const created = await all((i) => records.create('link:1', { i, revision: 0 }))
    expect(created.filter(Boolean)).toHaveLength(1)
    const replaced = await all((i) => records.replace('link:1', { revision: 1, i } as never, 0))
    expect(replaced.filter(Boolean)).toHaveLength(1)
    expect(await records.replace('link:1', { revision: 2 }, 1)).toBe(true)
    expect(await records.create('link:1', {})).toBe(false)
  })

  describe('an index', () => {
    it('starts empty, keeps the order, and holds each id once', async () => {
      const records = memoryRecords()
      expect(await records.list('accounts')).toEqual([])
      for (const id of ['b', 'a', 'b', 'c']) await records.add('accounts', id)
      expect(await records.list('accounts')).toEqual(['b', 'a', 'c'])
    })

    it('loses none of many added at once', async () => {
      const records = memoryRecords()
      const ids = Array.from({ length: 200 }, (_, i) => `key_${i}`)
      await Promise.all(ids.map((id) => records.add('keys:acct_1', id)))
      expect(await records.list('keys:acct_1')).toEqual(ids)
    })

    it('works after an add that failed', async () => {
      const driver = memory()
      const setItem = vi.fn(driver.setItem!).mockRejectedValueOnce(new Error('disk full'))
      const records = new StoredRecords(createStorage({ driver: { ...driver, setItem } }))
      const failed = records.add('accounts', 'a')
      const next = records.add('accounts', 'b')
      await expect(failed).rejects.toThrow('disk full')
      await next
      expect(await records.list('accounts')).toEqual(['b'])
    })
  })

  it('close their storage', async () => {
    let closed = 0
    const driver = { ...memory(), dispose: () => void closed++ }
    await new StoredRecords(createStorage({ driver })).close()
    expect(closed).toBe(1)
  })
})
