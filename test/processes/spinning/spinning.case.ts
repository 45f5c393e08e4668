import { it } from 'vitest'

it('spins for ever', () => {
  for (;;);
})
