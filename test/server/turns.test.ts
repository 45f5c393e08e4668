import { setImmediate as turn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { turns } from '../../src/server/turns.ts'

it('bodies share a turn of the event loop until it was long enough, and go on in later turns, first come, first served', async () => {
  expect(turns.spend(1)).toBeUndefined()
  expect(turns.spend(1)).toBeUndefined()
  const order: number[] = []
  // Each of them takes a whole turn.
  for (let body = 0; body < 20; body++) {
    const waiting = turns.spend(5)
    expect(waiting).toBeInstanceOf(Promise)
    void waiting!.then(() => order.push(body))
  }
  expect(order).toEqual([])
  let before = 0
  for (let passed = 0; order.length < 20; passed++) {
    expect(passed).toBeLessThan(20)
    await turn()
    expect(order.length - before).toBeLessThanOrEqual(8)
    before = order.length
  }
  expect(order).toEqual(Array.from({ length: 20 }, (_, body) => body))
  await turn()
  expect(turns.spend(1)).toBeUndefined()
})
