import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { root, tablesOf } from '../documents/_markdown.ts'
import { withFigures } from './page.ts'
import { combined, show, tableOf, titleOf } from './table.ts'
import { runOf } from './_measured.ts'

const PAGE = readFileSync(join(root, 'docs/explain/numbers.md'), 'utf8')

it('figures have the digits that mean something', () => {
  expect([12_345.6, 123.4, 12.34, 1.234, 0.1234, 0, null].map(show)).toEqual([
    '12,346',
    '123',
    '12.3',
    '1.23',
    '0.123',
    '0',
    '',
  ])
})

it('the table of one setting has medians, the ratio with its quartiles, gate and target', () => {
  const text = tableOf(runOf({ file: 2.6 }).settings[0]!)
  expect(text.split('\n')[0]).toMatch(
    /^medians +direct +bare +gateway +to bare \(quartiles\) +gate +target$/,
  )
  expect(text).toMatch(
    /^JSON 2 -> 4 KB, c=32: CPU us\/request +50 +130 +2\.6 \(2\.6\.\.2\.6\) +2\.5 FAIL +1\.9 no$/m,
  )
  expect(text).toMatch(/^memory: idle MB +180 +180 \(180\.\.180\) +200 pass +150 no$/m)
})

it('the table of all settings has the states side by side, pinned and not, with their verdicts', () => {
  const text = combined(runOf({ file: 2.6, memory: 1.5, redis: 3 }))
  expect(text).toMatch(/^pinned: medians \(quartiles\) +bare +file +memory +redis$/m)
  expect(text).toMatch(/^shared cores: medians \(quartiles\) +bare +file +memory +redis$/m)
  const lines = text.split('\n')
  const at = lines.findIndex((line) => line.startsWith('JSON 2 -> 4 KB'))
  expect(lines[at]).toMatch(/ 50 \(.*\) +130 \(.*\) +75 \(.*\) +150 \(/)
  expect(lines[at + 1]).toMatch(
    /^ +to bare +\/ +2\.6 \(.*\) FAIL of 2\.5 +1\.5 \(.*\) target of 2\.2 +3 \(.*\) FAIL of 2\.5$/,
  )
})

it('a heading says how the systems ran', () => {
  expect(titleOf({ state: 'file', pinned: true })).toContain('the default')
  expect(titleOf({ state: 'redis', pinned: false })).toBe('state redis, shared cores')
})

it('the page gets the tables of a run, what was measured, and where', () => {
  const page = withFigures(PAGE, runOf({ file: 2.6 }))
  expect(page).toContain(
    'Sluicegate 1.2.3 (abcdef0) on 2026-01-31: A Processor <fast> & cool, 2 cores, 24 GB, Linux 6.1, Node.js 24.0.0, 3 rounds.',
  )
  const tables = tablesOf(page).filter(({ header }) => header[1] === 'proxy')
  expect(tables.map(({ header }) => header)).toEqual([
    ['on one core', 'proxy', 'default', 'state `memory`', 'state `redis`'],
    ['on two cores, shared', 'proxy', 'default', 'state `memory`', 'state `redis`'],
  ])
  expect(tables[0]!.rows[0]!.slice(0, 3)).toEqual([
    'processor time of a request, µs',
    '50 (47.5–55)',
    '130 (124–143), 2.6×',
  ])
  expect(page).toContain('91 %')
  // As test/documents.test.ts counts them.
  expect(page.split(/\s+/).filter(Boolean).length).toBeLessThanOrEqual(1200)
  // Everything else stays, and a second run replaces the first.
  expect(withFigures(page, runOf({ file: 2.6 }))).toBe(page)
  expect(page.endsWith(PAGE.slice(PAGE.indexOf('<!-- /measured -->')))).toBe(true)
})

it('a page without a place for figures is refused', () => {
  expect(() => withFigures('# Numbers\n', runOf())).toThrow('has no <!-- measured')
})
