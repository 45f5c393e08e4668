import { expect, it } from 'vitest'
import { allHints } from '../../src/testing/hints.ts'
import { contractExports } from './_generated.ts'
import { page, pages } from './_markdown.ts'

it('docs/plugins/testing.md has a heading for every check, with what to change', () => {
  const { text } = page('docs/plugins/testing.md')
  const missing = Object.entries(allHints()).filter(
    ([name, hint]) => !text.includes(`\n### ${name}\n`) || !text.includes(`\n${hint}\n`),
  )
  expect(missing).toEqual([])
})

it('the guides of plugins name every type of the contract, and import nothing by a path into the gateway', () => {
  const guides = pages.filter(({ path }) => path.startsWith('docs/plugins/'))
  const all = guides.map(({ text }) => text).join('\n')
  expect(contractExports().length).toBeGreaterThan(80)
  expect(
    contractExports().filter(({ name, text }) => !all.includes(`\`${name}\``) || text === ''),
  ).toEqual([])
  expect(all).not.toMatch(/from '\.\.?\/.*(?:src|plugin)\.?/)
})
