import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { Timeouts, type Timeout } from '../../src/lifetime/scope.ts'

beforeEach(() => void vi.useFakeTimers({ now: 0, toFake: ['performance'] }))
afterEach(() => void vi.useRealTimers())

function fail(error: unknown): void {
  throw error
}

it('a timeout fires once, at the first tick after its delay', () => {
  const timeouts = new Timeouts(fail)
  const fired: number[] = []
  timeouts.set(100, (now) => fired.push(now))
  for (const now of [50, 99, 130, 400]) timeouts.tick(now)
  expect(fired).toEqual([130])
})

it('a restarted timeout counts from the last tick; a cleared one does not fire', () => {
  const timeouts = new Timeouts(fail)
  const fired: string[] = []
  const restarted = timeouts.set(100, () => fired.push('restarted'))
  const cleared = timeouts.set(100, () => fired.push('cleared'))
  timeouts.tick(90)
  restarted.restart()
  cleared.clear()
  timeouts.tick(189)
  expect(fired).toEqual([])
  timeouts.tick(190)
  expect(fired).toEqual(['restarted'])
})

it('a timeout that is restarted while it fires, fires again', () => {
  const timeouts = new Timeouts(fail)
  let fired = 0
  const repeated: Timeout = timeouts.set(100, () => {
    if (++fired < 3) repeated.restart()
  })
  for (let now = 100; now < 1000; now += 100) timeouts.tick(now)
  expect(fired).toBe(3)
})

it('a timeout that fires may clear others', () => {
  const timeouts = new Timeouts(fail)
  const fired: number[] = []
  const all: Timeout[] = Array.from({ length: 4 }, (_, i) =>
    timeouts.set(100, () => {
      fired.push(i)
      for (const one of all) one.clear()
    }),
  )
  timeouts.tick(100)
  expect(fired).toHaveLength(1)
})

it('a timeout that throws is reported, is over, and the others fire', () => {
  const events: string[] = []
  const timeouts = new Timeouts((error) => {
    events.push(`reported ${(error as Error).message}`)
    throw new Error('the report throws too')
  })
  timeouts.set(100, () => events.push('first'))
  timeouts.set(100, () => {
    throw new Error('thrown')
  })
  timeouts.set(100, () => events.push('third'))
  for (const now of [100, 300]) timeouts.tick(now)
  expect(events).toEqual(['third', 'reported thrown', 'first'])
})
