import { createStorage, type Storage } from 'unstorage'
import { beforeEach, expect, it } from 'vitest'
import { AnswerStorage, sealKey } from '../../src/answers/storage.ts'

const KEY = sealKey('a secret', 'salt', 'test')
const VALUE = Buffer.from('the marmot sleeps in winter'.repeat(20))

let storage: Storage
let answers: AnswerStorage
beforeEach(() => {
  storage = createStorage()
  answers = new AnswerStorage(storage)
})

it('gives back what was kept', async () => {
  await answers.put('a:1', VALUE, 60, KEY)
  expect(await answers.get('a:1', KEY)).toEqual(VALUE)
  expect(await answers.get('a:2', KEY)).toBeUndefined()
  await answers.drop('a:1')
  expect(await answers.get('a:1', KEY)).toBeUndefined()
})

it('stores nothing that can be read, and little', async () => {
  await answers.put('a:1', VALUE, 60, KEY)
  const stored = Buffer.from((await storage.getItemRaw('a:1')) as Uint8Array)
  expect(stored.includes('marmot')).toBe(false)
  expect(stored.length).toBeLessThan(VALUE.length / 2)
})

it.each([
  ['another secret', sealKey('b secret', 'salt', 'test')],
  ['another salt', sealKey('a secret', 'pepper', 'test')],
  ['another use', sealKey('a secret', 'salt', 'other')],
])('does not open an entry with %s', async (_, key) => {
  await answers.put('a:1', VALUE, 60, KEY)
  expect(await answers.get('a:1', key)).toBeUndefined()
})

it('does not open an entry under another name, a changed or cut one, or one whose time is over', async () => {
  await answers.put('a:1', VALUE, 60, KEY)
  const stored = Buffer.from((await storage.getItemRaw('a:1')) as Uint8Array)
  await storage.setItemRaw('a:2', stored)
  expect(await answers.get('a:2', KEY)).toBeUndefined()
  for (let at = 0; at < stored.length; at++) {
    const changed = Buffer.from(stored)
    changed[at]! ^= 1
    await storage.setItemRaw('a:1', changed)
    expect(await answers.get('a:1', KEY)).toBeUndefined()
    await storage.setItemRaw('a:1', stored.subarray(0, at))
    expect(await answers.get('a:1', KEY)).toBeUndefined()
  }
  // A storage that keeps entries longer than it was told to.
  await answers.put('a:3', VALUE, 0.001, KEY)
  await expect.poll(() => answers.get('a:3', KEY)).toBeUndefined()
  expect(await storage.getItemRaw('a:3')).not.toBeNull()
})
