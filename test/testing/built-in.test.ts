/** Built-in guards, search engines and sinks pass the kits that authors get; `npm run torture -- seeds` with many seeds. */
import { expect, it } from 'vitest'
import { BUILT_IN } from '../conformance/built-in.ts'

it.each(Object.entries(BUILT_IN))('passes: %s', async (_name, kit) => {
  const { failed, checks } = await kit()
  expect(failed).toEqual([])
  const skipped = checks.filter(({ result }) => result === 'skipped').map(({ name }) => name)
  // Memory is measured in a process of its own, and a guard with one rule cannot use another.
  expect(skipped.filter((name) => name !== 'memory' && name !== 'in force')).toEqual([])
})
