import { createStorage, type Storage } from 'unstorage'
import { beforeEach, expect, it } from 'vitest'
import { ItemMemory } from '../../src/answers/items.ts'
import { AnswerStorage } from '../../src/answers/storage.ts'

const OWNER = { key: 'key_a', secret: 'sk-a' }
const SECONDS = 60

let storage: Storage
let warned: string[]
let memory: ItemMemory
beforeEach(() => {
  storage = createStorage()
  warned = []
  memory = new ItemMemory(new AnswerStorage(storage), (message) => void warned.push(message))
})

const itemOf = (id: string, text = 'Hi') => ({ id, type: 'message', text })
const known = async (ids: readonly string[], owner = OWNER, of = memory) => [
  ...(await of.recall(owner, ids)).keys(),
]

it('knows items of the caller alone, also while they are written, and after a restart', async () => {
  memory.keep(OWNER, [itemOf('m1'), itemOf('m2'), { type: 'message' }], SECONDS)
  expect(await memory.recall(OWNER, ['m2', 'm1', 'm3'])).toEqual(
    new Map([itemOf('m2'), itemOf('m1')].map((one) => [one.id, one])),
  )
  await memory.close()
  expect(await known(['m1', 'm2'])).toHaveLength(2)
  expect(await known(['m1'], { ...OWNER, key: 'key_b' })).toEqual([])
  const next = new ItemMemory(new AnswerStorage(storage), () => {})
  expect(await known(['m1'], OWNER, next)).toEqual(['m1'])
  expect(await known(['m1'], { ...OWNER, secret: 'sk-rotated' }, next)).toEqual([])
})

/** Names of entries: what a memory keeps and drops is the same, whatever holds the entries. */
class Names extends Set<string> {
  async put(name: string): Promise<boolean> {
    this.add(name)
    return true
  }
  async get(name: string): Promise<Buffer | undefined> {
    return this.has(name) ? Buffer.from('{}') : undefined
  }
  async drop(name: string): Promise<void> {
    this.delete(name)
  }
}
const bounded = () => new ItemMemory(new Names() as unknown as AnswerStorage, () => {})

it('keeps at most 400 items and 8 MiB of a key, and none above 256 KiB', async () => {
  const memory = bounded()
  const ids = Array.from({ length: 405 }, (_, i) => `m${i}`)
  for (const id of ids) memory.keep(OWNER, [itemOf(id)], SECONDS)
  const other = { key: 'key_b', secret: 'sk-b' }
  const large = ids.slice(0, 40).map((id) => itemOf(id, 'x'.repeat(255 * 1024)))
  memory.keep(other, [...large, itemOf('huge', 'x'.repeat(256 * 1024))], SECONDS)
  await memory.close()
  await expect.poll(() => known(ids.slice(0, 5), OWNER, memory)).toEqual([])
  // A read that takes too long on a busy machine tells what it has.
  await expect.poll(() => known(ids, OWNER, memory)).toHaveLength(400)
  await expect.poll(() => known(['m0', 'm7'], other, memory)).toEqual([])
  await expect.poll(() => known([...ids, 'huge'], other, memory)).toHaveLength(32)
})

it('makes room for new items of others', async () => {
  const memory = bounded()
  const items = Array.from({ length: 31 }, (_, i) => itemOf(`m${i}`, 'x'.repeat(255 * 1024)))
  for (let key = 0; key < 9; key++) {
    memory.keep({ key: `key_${key}`, secret: 's' }, items, SECONDS)
  }
  await memory.close()
  const left = async (key: string) => (await known(['m0'], { key, secret: 's' }, memory)).length
  await expect.poll(() => left('key_0')).toBe(0)
  expect(await left('key_8')).toBe(1)
})

it('forgets, and fails no call, where the storage fails', async () => {
  const away = () => Promise.reject(new Error('away'))
  Object.assign(storage, { setItemRaw: away, getItemRaw: away })
  memory.keep(OWNER, [itemOf('m1')], SECONDS)
  await memory.close()
  expect(await known(['m1'])).toEqual([])
  expect(warned).toEqual([
    expect.stringContaining('could not be remembered'),
    expect.stringContaining('could not be read'),
  ])
})
