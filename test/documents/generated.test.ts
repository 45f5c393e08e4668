import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { generate, pageList, TABLES } from './_generated.ts'
import { filesBelow, page, pages, root, tablesOf } from './_markdown.ts'

it('tables of the documents are those of the code; `npm run docs:generate` writes them', () => {
  const stale = pages.filter(({ text }) => generate(text) !== text).map(({ path }) => path)
  expect(stale).toEqual([])
  const all = pages.map(({ text }) => text).join('')
  const unused = Object.keys(TABLES).filter((name) => !all.includes(`<!-- generated:${name} -->`))
  expect(unused).toEqual([])
})

it('docs/llms.txt lists every page; `npm run docs:generate` writes it', () => {
  const text = readFileSync(join(root, 'docs/llms.txt'), 'utf8')
  expect(text).toBe(pageList(pages))
  expect(text.match(/^- /gm)).toHaveLength(
    pages.filter(({ path }) => path.startsWith('docs/')).length,
  )
})

it('docs/environment.md has every variable that the code reads', () => {
  const { text } = page('docs/environment.md')
  const read = new Set(
    ['src', 'config', 'providers', 'plugins']
      .flatMap((folder) => filesBelow(folder, (name) => name.endsWith('.ts')))
      .filter((path) => !path.startsWith('src/console/'))
      .flatMap((path) => variablesIn(readFileSync(join(root, path), 'utf8'))),
  )
  expect(read.size).toBeGreaterThan(20)
  const isMember = (name: string) => name.startsWith('SLUICEGATE__')
  expect([...read].filter((name) => !isMember(name) && !text.includes(`\`${name}\``))).toEqual([])
})

it('docs/explain/architecture.svg names every stage and is at most 25 KB', () => {
  const text = readFileSync(join(root, 'docs/explain/architecture.svg'), 'utf8')
  const source = readFileSync(join(root, 'src/gateway/routes.ts'), 'utf8')
  const served = /const entered[^=]*= \[([^\]]*)\][^]*?const served[^=]*= \[([^\]]*)\]/.exec(
    source,
  )!
  const stages = `${served[1]},${served[2]}`
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '' && !name.startsWith('...'))
  expect(stages).toHaveLength(13)
  expect(stages.filter((name) => !text.includes(`data-box="${name}"`))).toEqual([])
  const order = stages.map((name) => text.indexOf(`data-box="${name}"`))
  expect(order).toEqual(order.toSorted((one, other) => one - other))
  expect(Buffer.byteLength(text)).toBeLessThan(25_000)
})

it('docs/troubleshooting.md has a heading for every error code, and for sentences that a start says', () => {
  const { text } = page('docs/troubleshooting.md')
  const headings = [...text.matchAll(/^### (`[^`]+`(?:, `[^`]+`)*)$/gm)].flatMap(([, heading]) =>
    heading!.slice(1, -1).split('`, `'),
  )
  const codes = headings.filter((heading) => /^[a-z0-9_]+$/.test(heading))
  const errors = page('docs/api/errors.md').text.split('\n## ')[0]!
  const known = tablesOf(errors).flatMap(({ rows }) =>
    rows.flatMap(([, cell]) => [...cell!.matchAll(/`(\w+)`/g)].map(([, code]) => code!)),
  )
  expect(codes.toSorted()).toEqual([...new Set(known)].toSorted())

  const sources = filesBelow('src', (name) => name.endsWith('.ts'))
    .map((path) => readFileSync(join(root, path), 'utf8'))
    .join('\n')
  const sentences = headings.filter((heading) => !codes.includes(heading))
  expect(sentences.length).toBeGreaterThan(10)
  expect(sentences.filter((sentence) => !sources.includes(sentence))).toEqual([])
})

/** Names that a source takes out of the environment: `env.NAME`, and `{ NAME } = process.env`. */
function variablesIn(source: string): string[] {
  const members = [...source.matchAll(/\benv\.([A-Z][A-Z0-9_]+|npm_execpath)\b/g)]
  const taken = [...source.matchAll(/\{([^{}]*)\}\s*=\s*(?:process\.)?env\b/g)].flatMap(
    ([, names]) => [...names!.matchAll(/\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b/g)],
  )
  return [...members, ...taken].map(([, name]) => name!)
}
