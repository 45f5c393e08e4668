/** Changes of one record at the same moment: one of them succeeds, in every engine and over two gateways. */
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Records } from '../../src/state/records.ts'
import { NOT_INSTALLED } from './redis/_redis.ts'
import { installed, open as openRedis, sharedServer } from './redis/_engine.ts'
import { open as openFile, openInMemory } from './sqlite/_engine.ts'

const MANY = 50

type Both = readonly [Records, Records]

const ENGINES: Readonly<Record<string, () => Promise<Both>>> = {
  memory: async () => {
    const { records, ledger } = openInMemory()
    onTestFinished(() => ledger.close())
    return [records, records]
  },
  file: async () => {
    const { records } = await openFile()
    return [records, records]
  },
  redis: async () => {
    const { url } = await sharedServer()
    return [(await openRedis(url)).records, (await openRedis(url)).records]
  },
}

describe.each(Object.keys(ENGINES))('records in %s', (name) => {
  /** How many of many calls at once, by both gateways, succeed. */
  const winners = async (both: Both, act: (records: Records, i: number) => Promise<boolean>) => {
    const done = Array.from({ length: MANY }, (_, i) => act(both[i % 2]!, i))
    return (await Promise.all(done)).filter(Boolean).length
  }

  it('have one winner of many changes at once', async (context) => {
    if (name === 'redis' && !installed) context.skip(NOT_INSTALLED)
    const both = await ENGINES[name]!()
    const [records] = both
    const life = { ttlSeconds: 60 }
    expect(await winners(both, (one, i) => one.create('ticket:a', { i, revision: 0 }, life))).toBe(
      1,
    )
    expect(await winners(both, (one) => one.replace('ticket:a', { revision: 1 }, 0, life))).toBe(1)
    expect(await winners(both, (one) => one.del('ticket:a'))).toBe(1)
    expect(await records.get('ticket:a')).toBeUndefined()
    expect(await records.replace('ticket:a', { revision: 2 }, 1)).toBe(false)
  })

  it('lose no update, and no change of an index', async (context) => {
    if (name === 'redis' && !installed) context.skip(NOT_INSTALLED)
    const both = await ENGINES[name]!()
    const [records] = both
    interface Count {
      readonly revision: number
      readonly count: number
    }
    await winners(both, async (one) => {
      const next = await one.update<Count>('counter', (stored) => ({
        count: (stored?.count ?? 0) + 1,
      }))
      return next !== undefined
    })
    expect(await records.get('counter')).toEqual({ revision: MANY, count: MANY })
    expect(await records.update<Count>('counter', () => undefined)).toBeUndefined()

    const ids = Array.from({ length: MANY }, (_, i) => `id_${i}`)
    await records.add('tokens', 'stays', ...ids)
    await Promise.all(ids.map((id, i) => both[i % 2]!.drop('tokens', id, 'never-there')))
    expect(await records.list('tokens')).toEqual(['stays'])
  })
})
