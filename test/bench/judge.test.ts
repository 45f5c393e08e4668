import { expect, it } from 'vitest'
import { judge, spread, type Row, type Turn } from './judge.ts'
import { forPage, forTerminal } from './table.ts'

const CPU: Row = {
  label: 'CPU us a call',
  figure: 'cpu',
  bound: { against: 'floor', gate: 1.7, target: 1.4 },
}

/** Turns in which the floor takes 100 us and the gateway so many times as long, on a machine that is slower in each. */
function turnsOf(times: number): Turn[] {
  return [1, 1.2, 5].map((sway) => ({
    bare: { cpu: 40 * sway },
    floor: { cpu: 100 * sway },
    product: { cpu: 100 * times * sway },
  }))
}

it('the middle and the quartiles are those of the turns that have the figure', () => {
  expect(spread([5, undefined, 1, NaN, 3, 2, 4])).toEqual({ median: 3, from: 2, to: 4 })
  expect(spread([1, 2])).toEqual({ median: 1.5, from: 1.5, to: 1.5 })
  expect(spread([undefined, NaN])).toBeUndefined()
})

it.each([
  [1.3, '1.7 to floor: held'],
  [1.6, '1.7 to floor: held, target 1.4'],
  [1.8, '1.7 to floor: over'],
])('a call that costs %s times the floor: %s', (times, verdict) => {
  expect(judge(CPU, 'product', turnsOf(times)).verdict).toBe(verdict)
})

it('what is compared are the systems of one turn, not their medians', () => {
  const { medians, compared } = judge(CPU, 'product', turnsOf(2))
  expect(medians.floor!.median).toBe(120)
  for (const value of Object.values(compared.floor!)) expect(value).toBeCloseTo(2)
  expect(compared.bare!.median).toBeCloseTo(5)
})

it('a figure is compared by its difference, or judged alone, where its row says so', () => {
  const [turn] = turnsOf(1.5)
  const apart = judge({ ...CPU, how: '-' }, 'product', [turn!])
  expect(apart.compared.floor!.median).toBeCloseTo(50)
  const alone = judge({ ...CPU, bound: { gate: 140 } }, 'product', [turn!])
  expect(alone.verdict).toBe('140: over')
})

it('a figure that could not be measured has no verdict', () => {
  const turns = [{ floor: { cpu: 100 }, product: { cpu: NaN } }]
  expect(judge(CPU, 'product', turns)).not.toHaveProperty('verdict')
})

it('tables have medians, the ratio with its quartiles, and the gate', () => {
  const lines = [judge(CPU, 'product', turnsOf(2))]
  const panel = { subject: 'product', lines }
  expect(forTerminal(panel)).toBe(
    'medians        bare  floor  product  to bare  to floor                gate\n' +
      'CPU us a call    48    120      240  5 (5–5)   2 (2–2)  1.7 to floor: over\n',
  )
  expect(forPage(panel)).toContain('|CPU us a call|48|120|240|5|2|')
})
