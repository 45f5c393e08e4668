import { expect, it } from 'vitest'
import { endedCall } from '../../src/observe/record.ts'
import { allHints } from '../../src/testing/report.ts'
import { sampleEvent } from '../../src/testing/sink-cases.ts'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { contractExports } from './_generated.ts'
import { page, pages, root } from './_markdown.ts'

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

it('docs/api/call.md has every member of a call that sinks get, and which may be null', () => {
  const table = page('docs/api/call.md').tables.find(({ rows }) =>
    rows.some(([names]) => names === '`method`, `endpoint`'),
  )!
  const namesIn = (text: string) => [...text.matchAll(/`(\w+)`/g)].map(([, name]) => name!)
  const members = table.rows.flatMap(([names = '', type = '', meaning = '']) =>
    namesIn(names).map((name) => ({ name, isNullable: type.includes('null'), meaning })),
  )
  const call = endedCall({ id: 'req_1', at: '', method: 'POST', endpoint: '/v1/chat/completions' })
  expect(members.map(({ name }) => name)).toEqual(Object.keys(call))
  expect(Object.keys(sampleEvent('call.ended').data).toSorted()).toEqual(
    Object.keys(call).toSorted(),
  )
  for (const part of ['times', 'usage'] as const) {
    const { meaning } = members.find(({ name }) => name === part)!
    expect(namesIn(meaning)).toEqual(expect.arrayContaining(Object.keys(call[part])))
  }
  const source = readFileSync(join(root, 'src/plugin/ended-call.ts'), 'utf8')
  const type = /interface EndedCall \{(.*?)\n\}/s
    .exec(source)![1]!
    .replaceAll(/\/\*\*.*?\*\//gs, '')
  const nullable = [...type.matchAll(/\n {2}readonly (\w+):(.*?)(?=\n {2}readonly|$)/gs)]
    .filter(([, , of]) => of!.trimEnd().endsWith('| null'))
    .map(([, name]) => name)
  expect(members.filter(({ isNullable }) => isNullable).map(({ name }) => name)).toEqual(nullable)
})
