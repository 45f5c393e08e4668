/** A sample of the mutants; `npm run torture -- mutants` plays all of them. */
import { expect, it } from 'vitest'
import { CHECKS, STREAMS } from './guards.ts'
import { STREAMING_PROVIDERS } from './other-providers.ts'
import { LOCAL_GUARDS, SCORING_GUARDS, SEARCHES_BY_ADDRESS } from './others.ts'
import { codeOf, judge, play, type Family } from './play.ts'
import { PROVIDERS } from './providers.ts'
import { SEARCHES } from './searches.ts'
import { SERVICES } from './services.ts'
import { SINKS } from './sinks.ts'

const FAMILIES: readonly (readonly [string, Family, sample: string])[] = [
  ['providers', PROVIDERS, 'leaves out a text that another answer had'],
  ['guards of one function', CHECKS, 'has a global expression'],
  ['guards of streams', STREAMS, 'releases one too many'],
  ['guards with a service', SERVICES, 'takes what is missing for a pass'],
  ['search engines', SEARCHES, 'does not narrow'],
  ['sinks', SINKS, 'remembers what it has tried'],
  ['providers of another shape', STREAMING_PROVIDERS, 'drops tools of conversations'],
  ['local guards of another shape', LOCAL_GUARDS, 'counts code points'],
  ['services of another shape', SCORING_GUARDS, 'remembers verdicts by length'],
  ['search engines of another shape', SEARCHES_BY_ADDRESS, 'leaves whole hosts out'],
]

it.each(FAMILIES)('%s: the right one passes, and a fault is named', async (_, family, sample) => {
  expect((await play(family.original)).failed).toEqual([])
  const one = family.mutants.find(({ name }) => name === sample)!
  expect(await judge(family, one)).toMatchObject({ caught: true })
})

it('are as many as the kits are measured with, and each differs from its original', () => {
  const all = FAMILIES.flatMap(([, { original, mutants }]) =>
    mutants.map((one) => ({ one, original })),
  )
  expect(all.filter(({ one, original }) => codeOf(original, one) === original.code)).toEqual([])
  const counts = FAMILIES.map(([, { mutants }]) => mutants.length)
  const [providers = 0, simple = 0, streams = 0, services = 0, searches = 0, sinks = 0] = counts
  expect(providers).toBeGreaterThanOrEqual(40)
  expect(simple + streams).toBeGreaterThanOrEqual(25)
  expect(services).toBeGreaterThanOrEqual(10)
  expect(searches).toBeGreaterThanOrEqual(10)
  expect(sinks).toBeGreaterThanOrEqual(10)
})
