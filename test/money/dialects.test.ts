import { expect, it } from 'vitest'
import { askMixed } from '../torture/_mixed.ts'

it('charges what clients of all endpoints of texts are told, however calls end', async () => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  const { outcomes, faults } = await askMixed(300, seed)
  expect(faults, `seed ${seed}`).toEqual([])
  const chats = ['chat/completions', 'messages', 'responses', 'completions']
  for (const form of [...chats, 'embeddings', 'moderations', 'rerank']) {
    expect(outcomes[`${form} told`], `${form}, seed ${seed}`).toBeGreaterThan(5)
  }
})
