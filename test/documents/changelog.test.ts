import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, it } from 'vitest'

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
