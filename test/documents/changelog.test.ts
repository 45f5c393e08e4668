import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, it } from 'vitest'
import { page } from './_markdown.ts'

const ROOT = resolve(import.meta.dirname, '../..')

it('the version of the package has a dated section in the changelog, or "Unreleased" stands on top', () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const changelog = readFileSync(join(ROOT, 'CHANGELOG.md'), 'utf8')
  const [first = ''] = /^## .*$/m.exec(changelog) ?? []
  expect(
    [`## ${version} - `, '## Unreleased'].some((text) => first.startsWith(text)),
    first,
  ).toBe(true)
})

it('pages say that nothing is released for as long as no section of the changelog has a date', () => {
  const isReleased = /^## \d+\.\d+\.\d+ - \d{4}-/m.test(page('CHANGELOG.md').text)
  const says = [
    [page('README.md').text, 'Not published yet'],
    [page('docs/install/npm.md').text, 'Not published yet'],
    [page('docs/trust.md').text, 'Nothing is released'],
  ] as const
  for (const [text, words] of says) expect(text.includes(words)).toBe(!isReleased)
})
