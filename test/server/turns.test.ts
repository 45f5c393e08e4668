import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { Turns } from '../../src/server/node-http.ts'

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] })
})
afterEach(() => vi.useRealTimers())

const turns = new Turns()

/** Work that takes so long. */
const taking = (ms: number, then: () => void) => () => {
  vi.advanceTimersByTime(ms)
  then()
}

it('bodies share a turn of the event loop until it was long enough, and go on in later turns, first come, first served', async () => {
  const order: number[] = []
  const done = Array.from({ length: 30 }, (_, piece) =>
    turns.run(taking(2, () => order.push(piece))),
  )
  // Three pieces fill a turn; what arrived with them is not looked at.
  expect(done).toEqual(Array.from({ length: 30 }, (_, piece) => piece < 3))
  expect(order).toEqual([0, 1, 2])
  let before = order.length
  for (let passed = 0; order.length < 30; passed++) {
    expect(passed).toBeLessThan(30)
    await turn()
    expect(order.length - before).toBeLessThanOrEqual(3)
    before = order.length
  }
  expect(order).toEqual(Array.from({ length: 30 }, (_, piece) => piece))
})

it('a piece that arrives while others wait comes after them', async () => {
  const order: string[] = []
  turns.run(taking(5, () => order.push('long')))
  turns.run(taking(5, () => order.push('waits')))
  turns.run(taking(1, () => order.push('waits too')))
  await turn()
  expect(turns.run(taking(1, () => order.push('late')))).toBe(false)
  while (order.length < 4) await turn()
  expect(order).toEqual(['long', 'waits', 'waits too', 'late'])
  while (!turns.run(() => {})) await turn()
})
