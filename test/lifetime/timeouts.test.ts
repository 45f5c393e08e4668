import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { Timeouts, type Timeout } from '../../src/lifetime/scope.ts'

beforeEach(() => void vi.useFakeTimers({ now: 0, toFake: ['performance'] }))
afterEach(() => void vi.useRealTimers())

it('a timeout fires once, at the first tick after its delay', () => {
  const timeouts = new Timeouts()
  const fired: number[] = []
  timeouts.set(100, (now) => fired.push(now))
  for (const now of [50, 99, 130, 400]) timeouts.tick(now)
  expect(fired).toEqual([130])
})

it('a restarted timeout counts from the last tick; a cleared one does not fire', () => {
  const timeouts = new Timeouts()
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
  const timeouts = new Timeouts()
  let fired = 0
  const repeated: Timeout = timeouts.set(100, () => {
    if (++fired < 3) repeated.restart()
  })
  for (let now = 100; now < 1000; now += 100) timeouts.tick(now)
  expect(fired).toBe(3)
})

it('a timeout that fires may clear others', () => {
  const timeouts = new Timeouts()
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
