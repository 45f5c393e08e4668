import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { filesBelow, page, root } from './_markdown.ts'

const FURTHER = ['state/sqlite', 'state/redis', 'pipeline/stages', 'endpoints/chat']
const folders = [
  ...readdirSync(join(root, 'src'), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name),
  ...FURTHER,
]

/** Folders whose README is the nearest one upward, by file. */
function readmeOf(path: string): string | undefined {
  for (let folder = dirname(path); folder.startsWith('src/'); folder = dirname(folder)) {
    const readme = `${folder}/README.md`
    if (existsSync(join(root, readme))) return readme
  }
  return undefined
}

const classes = filesBelow('src', (name) => name.endsWith('.ts')).flatMap((path) =>
  [...readFileSync(join(root, path), 'utf8').matchAll(/^export (?:abstract )?class (\w+)/gm)].map(
    ([, name]) => ({ path, name: name! }),
  ),
)

describe('folders of src/', () => {
  it.each(folders)('have a README: %s', (folder) => {
    expect(existsSync(join(root, `src/${folder}/README.md`))).toBe(true)
  })

  it.each(folders)('name every exported class in it: %s', (folder) => {
    const own = classes.filter(({ path }) => (readmeOf(path) ?? '') === `src/${folder}/README.md`)
    const without = classes
      .filter(({ path }) => path.startsWith(`src/${folder}/`) && readmeOf(path) === undefined)
      .map(({ name }) => name)
    const missing = own
      .filter(({ path, name }) => !new RegExp(`\\b${name}\\b`).test(page(readmeOf(path)!).text))
      .map(({ name }) => name)
    expect([...without, ...missing]).toEqual([])
  })
})
