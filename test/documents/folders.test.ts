import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { page, root } from './_markdown.ts'

const FURTHER = ['state/sqlite', 'state/redis', 'pipeline/stages', 'endpoints/chat']
const folders = [
  ...readdirSync(join(root, 'src'), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name),
  ...FURTHER,
]

describe('folders of src/', () => {
  it.each(folders)('have a README: %s', (folder) => {
    expect(existsSync(join(root, `src/${folder}/README.md`))).toBe(true)
  })

  it.each(folders)('have it in four parts: purpose, drawing, invariants, tests: %s', (folder) => {
    const { text } = page(`src/${folder}/README.md`)
    const [purpose = '', ...parts] = text.split(/^## /m)
    expect(purpose.replace(/^# .*$/m, '').trim()).not.toBe('')
    expect(text).toContain('```')
    const headings = parts.map((part) => part.slice(0, part.indexOf('\n')))
    expect(headings).toEqual(expect.arrayContaining(['Invariants', 'Tests']))
    // Doc comments say what a word means.
    expect(headings).not.toContain('Words')
    expect(text.split('\n').length).toBeLessThanOrEqual(81)
  })
})
