/** The reserve of a disk, with databases that report what a test says. */
import { existsSync, statSync } from 'node:fs'
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, describe, expect, it, type TestContext } from 'vitest'
import { Reserve } from '../../../src/state/sqlite/folder.ts'
import { openMemoryDatabase } from '../../../src/state/sqlite/file.ts'
import { Store } from '../../../src/state/sqlite/store.ts'
import { folder } from '../../_folder.ts'
import { mountDisk } from '../_disk.ts'
import { hindrance } from '../_tmpfs.ts'

/** An error as SQLite reports it. */
const failure = (errcode: number) => Object.assign(new Error('it failed'), { errcode })
const FULL = failure(13)

/** Writes that fail with some errors first. @returns how often they were tried, and what they said */
function attempt(reserve: Reserve, ...errors: Error[]): readonly [number, string] {
  let tried = 0
  const write = () => {
    const error = errors[tried++]
    if (error) throw error
    return 'written'
  }
  try {
    return [tried, reserve.lend(write)].with(0, tried) as [number, string]
  } catch (error) {
    return [tried, (error as Error).message]
  }
}

describe('a reserve', () => {
  it('is made once, and again after it was used', async () => {
    const path = join(await folder({}), 'reserve')
    const reserve = new Reserve(path)
    expect([existsSync(path), reserve.used]).toEqual([false, false])
    await Promise.all([reserve.make(), reserve.make()])
    expect(statSync(path)).toMatchObject({ size: 8 * 2 ** 20 })
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(attempt(reserve, FULL)).toEqual([2, 'written'])
    expect([existsSync(path), reserve.used]).toEqual([false, true])
    await reserve.make()
    expect([existsSync(path), reserve.used]).toEqual([true, false])
    // The next process takes it as it is.
    expect(attempt(new Reserve(path), FULL)).toEqual([2, 'written'])
  })

  it('is given once, and to a full disk only', async () => {
    const path = join(await folder({}), 'reserve')
    const reserve = new Reserve(path)
    expect(attempt(reserve, FULL)).toEqual([1, 'it failed'])
    await reserve.make()
    expect(attempt(reserve)).toEqual([1, 'written'])
    for (const error of [new Error('it failed'), failure(8), failure(10), failure(11)]) {
      expect(attempt(reserve, error)).toEqual([1, 'it failed'])
    }
    expect([existsSync(path), reserve.used]).toEqual([true, false])
    expect(attempt(reserve, FULL, FULL)).toEqual([2, 'it failed'])
    expect(attempt(reserve, FULL)).toEqual([1, 'it failed'])
  })

  it('is made anew where a crash has left a part of it', async () => {
    const path = join(await folder({}), 'reserve')
    await writeFile(path, 'a part')
    await chmod(path, 0o600)
    const reserve = new Reserve(path)
    expect(attempt(reserve, FULL)).toEqual([1, 'it failed'])
    await reserve.make()
    expect(statSync(path).size).toBe(8 * 2 ** 20)
  })

  it('is not made in a folder that is gone', async () => {
    const reserve = new Reserve(join(await folder({}), 'gone', 'reserve'))
    await reserve.make()
    expect(attempt(reserve, FULL)).toEqual([1, 'it failed'])
  })

  it('lets a store write a batch that found no room, once', () => {
    const db = openMemoryDatabase()
    const reserve = {
      lent: 0,
      lend<Result>(write: () => Result): Result {
        db.exec('PRAGMA max_page_count = 1')
        try {
          return write()
        } catch {
          this.lent++
          db.exec('PRAGMA max_page_count = 10000')
          return write()
        }
      },
    }
    const store = new Store(db, reserve)
    const note = 'x'.repeat(100_000)
    const kind = 'top-up' as const
    const credit = { kind, account: 'acct', amount: 5n, reference: 'first', note }
    const { outcomes } = store.run({ writes: [{ name: 'book', args: [credit, 0] }], reads: [] })
    expect(outcomes).toEqual([{ fresh: true, cost: -5n }])
    expect(reserve.lent).toBe(1)
    expect(store.rows('acct', Infinity, 10)).toHaveLength(1)
  })
})

describe('a reserve on a small disk', () => {
  beforeEach((context: TestContext) => {
    const reason = hindrance()
    if (reason !== undefined) context.skip(reason)
  })

  it('is made where 64 MiB are free, and not before', async () => {
    const disk = await mountDisk(96)
    const path = join(disk.path, 'reserve')
    const reserve = new Reserve(path)
    disk.fill(63)
    await reserve.make()
    expect(existsSync(path)).toBe(false)
    disk.empty()
    disk.fill(65)
    await reserve.make()
    expect(statSync(path).size).toBe(8 * 2 ** 20)
    // What a sync or shared memory says of a full disk.
    disk.fill()
    expect(attempt(reserve, failure(10))).toEqual([2, 'written'])
    disk.empty()
    disk.fill(63)
    await reserve.make()
    expect(reserve.used).toBe(true)
    disk.empty()
    await reserve.make()
    expect(reserve.used).toBe(false)
  })
})
