import { expect, it } from 'vitest'
import { judge, spread, type Measured } from './judge.ts'
import { turnsOf } from './_measured.ts'

const PINNED = { state: 'file', pinned: true } as const
const NONE = { answers: 0, events: 0 }

function judgedOf({ rows }: Measured, figure: string) {
  return rows.find((row) => row.figure === figure)!.judged!
}

it('the middle and the quartiles are those of the turns that have the figure', () => {
  expect(spread([5, undefined, 1, NaN, 3, 2, 4])).toEqual({ median: 3, from: 2, to: 4 })
  expect(spread([1, 2])).toEqual({ median: 1.5, from: 1.5, to: 1.5 })
  expect(spread([undefined, NaN])).toEqual({ median: null, from: null, to: null })
})

it.each([
  [1.8, 'pass', true],
  [2.4, 'pass', false],
  [2.6, 'FAIL', false],
])('a request that costs %s times the proxy: %s', (times, verdict, reached) => {
  const judged = judgedOf(judge(PINNED, turnsOf(times), NONE), 'json.cpuMicros')
  expect(judged).toMatchObject({ how: '/', verdict, reached, gate: 2.5, target: 1.9 })
  expect(judged.compared.median).toBeCloseTo(times)
})

it('with state in memory a request may cost less', () => {
  const measured = judge({ state: 'memory', pinned: true }, turnsOf(2.4), NONE)
  expect(judgedOf(measured, 'json.cpuMicros')).toMatchObject({ gate: 2.2, verdict: 'FAIL' })
})

it('requests per second have to be enough, and a lone request is compared by its difference', () => {
  const slow = judge(PINNED, turnsOf(3), NONE)
  expect(judgedOf(slow, 'json.perSecond')).toMatchObject({ how: '/', verdict: 'FAIL' })
  expect(judgedOf(slow, 'lone.p50Ms')).toMatchObject({ how: '-', verdict: 'pass' })
  expect(judgedOf(slow, 'lone.p50Ms').compared.median).toBeCloseTo(0.6)
})

it('a figure alone is held against its bound, and one that nothing was measured for has no row', () => {
  const measured = judge(PINNED, turnsOf(2), NONE)
  expect(judgedOf(measured, 'check.idleMb')).toMatchObject({ verdict: 'pass', reached: false })
  expect(measured.rows.some(({ figure }) => figure === 'large.cpuMicros')).toBe(false)
})

it('a figure that could not be measured here is unknown', () => {
  const turns = turnsOf(2).map((turn) => ({
    ...turn,
    gateway: { ...turn.gateway, 'json.cpuMicros': NaN },
  }))
  const judged = judgedOf(judge(PINNED, turns, NONE), 'json.cpuMicros')
  expect(judged).toMatchObject({ verdict: 'unknown', reached: false })
})

it('what is compared are the systems of one turn, not their medians', () => {
  const one = turnsOf(2)
  // Something else ran in this turn, beside both.
  const disturbed = turnsOf(2).map((turn) => ({
    ...turn,
    bare: { ...turn.bare, 'json.cpuMicros': 5000 },
    gateway: { ...turn.gateway, 'json.cpuMicros': 10_000 },
  }))
  const { compared } = judgedOf(judge(PINNED, [...one, ...disturbed], NONE), 'json.cpuMicros')
  for (const value of Object.values(compared)) expect(value).toBeCloseTo(2)
})

it('an upstream that is not twice as fast as the gateway is told', () => {
  expect(judge(PINNED, turnsOf(1.1), NONE).limited).toBe(false)
  const fast = turnsOf(1.1).map((turn) => ({
    ...turn,
    gateway: { ...turn.gateway, 'json.perSecond': 10_001 },
  }))
  expect(judge(PINNED, fast, NONE).limited).toBe(true)
})
