import { expect, it } from 'vitest'
import { askMixed } from '../torture/_mixed.ts'

it('charges what clients of all forms of chat are told, however calls end', async () => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  const { outcomes, faults } = await askMixed(300, seed)
  expect(faults, `seed ${seed}`).toEqual([])
  for (const form of ['chat/completions', 'messages', 'responses', 'completions']) {
    expect(outcomes[`${form} told`], `${form}, seed ${seed}`).toBeGreaterThan(5)
  }
})
