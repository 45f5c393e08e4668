import { expect, it } from 'vitest'
import { askMixed } from '../torture/_mixed.ts'
import { SEED } from '../_seed.ts'

it('charges what clients of all endpoints of texts are told, however calls end', async () => {
  const { outcomes, faults } = await askMixed(300, SEED)
  expect(faults, `seed ${SEED}`).toEqual([])
  const chats = ['chat/completions', 'messages', 'responses', 'completions']
  for (const form of [...chats, 'embeddings', 'moderations', 'rerank']) {
    expect(outcomes[`${form} told`], `${form}, seed ${SEED}`).toBeGreaterThan(5)
  }
})
