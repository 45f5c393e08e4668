/** The manual in the package: it is read without a network and without a checkout. */
import { expect, it, onTestFinished } from 'vitest'
import { deadLinks, shippedFiles } from '../../.ci/links.ts'
import { call } from '../_cli.ts'
import { exists, pages, root } from './_markdown.ts'

it('has no link to a file that the package does not ship', () => {
  const shipped = shippedFiles(root)
  expect(shipped).toContain('docs/quickstart.md')
  expect(deadLinks(root, shipped)).toEqual([])
  const fewer = new Set([...shipped].filter((file) => file !== 'docs/quickstart.md'))
  expect(deadLinks(root, fewer)).toContainEqual('README.md: docs/quickstart.md')
})

it('is printed by its pages, and searched by a word', async () => {
  const page = await call(['docs', 'install/npm'])
  expect([page.code, page.out]).toEqual([0, expect.stringMatching(/^# /)])
  expect((await call(['docs', 'proxy'])).out).toMatch(/^install\/proxy /m)
  // On a terminal the sentences about the pages are whole.
  const { isTTY, columns } = process.stdout
  onTestFinished(() => void Object.assign(process.stdout, { isTTY, columns }))
  Object.assign(process.stdout, { isTTY: true, columns: 80 })
  expect((await call(['docs'])).out).not.toContain('…')
  expect((await call(['docs', 'no-such-word-in-it'])).code).toBe(1)
})

it('has commands that exist for what the page of trust claims', () => {
  const { text } = pages.find(({ path }) => path === 'docs/trust.md')!
  const tests = [...text.matchAll(/`npx vitest run (\S+)`/g)].map(([, path]) => path!)
  expect(tests.length).toBeGreaterThan(3)
  expect(tests.filter((path) => !exists(path))).toEqual([])
})
