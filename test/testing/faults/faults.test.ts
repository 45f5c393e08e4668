/** A sample of the plugins with a fault and of the unusual ones; `npm run torture -- faults` plays all of them. */
import { expect, it } from 'vitest'
import { filesOf, type Variant } from './bases.ts'
import { GUARDS } from './guards.ts'
import { SEARCHES, SINKS } from './others.ts'
import { failuresOf, isCaught } from './play.ts'
import { PROVIDERS } from './providers.ts'
import { UNUSUAL } from './unusual.ts'

const FAULTS: readonly Variant[] = [...PROVIDERS, ...GUARDS, ...SEARCHES, ...SINKS]

it.each([
  'usage with the first text',
  'usage in one place for all answers',
  'the kind of unnamed events in one place for all answers',
  'one set of calls for all answers, emptied at each beginning',
  'one set of calls for all answers, emptied at each end',
  'the id of a call is lost, and no case names it',
  'tool is sent as system',
  'the note of the vendor is the message',
  'lines that are no JSON are left out',
  'reads the first 15000 characters',
  'room for one form alone',
  'the wait of a refusal is lost',
  'the first 500 events alone',
])('is found by the check that is about it: %s', async (name) => {
  const variants = FAULTS.filter((one) => one.name === name)
  expect(variants).not.toEqual([])
  for (const variant of variants) {
    const failures = await failuresOf(variant)
    expect(failures, `${variant.base} ${name}`).toSatisfy((all: string[]) => isCaught(variant, all))
  }
})

it.each(['a time limit beside the signal of the call', 'arguments from objects, with every digit'])(
  'is right: %s',
  async (name) => {
    expect(await failuresOf(UNUSUAL.find((one) => one.name === name)!)).toEqual([])
  },
)

it('are as many as the kits are measured with, and each can be made', () => {
  expect(FAULTS.length).toBeGreaterThanOrEqual(120)
  expect(UNUSUAL.length).toBeGreaterThanOrEqual(40)
  for (const one of [...FAULTS, ...UNUSUAL]) expect(() => filesOf(one)).not.toThrow()
})
