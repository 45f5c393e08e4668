/** Tables on a terminal: which columns are left out, and what is never cut. */
import { afterEach, beforeEach, expect, it } from 'vitest'
import { card, table } from '../../src/cli/output.ts'

const { isTTY, columns } = process.stdout
beforeEach(() => void Object.assign(process.stdout, { isTTY: true }))
afterEach(() => void Object.assign(process.stdout, { isTTY, columns }))

const HEADINGS = ['WHO', 'ENDS', 'WHAT']
const ROWS = [['oidc:company/ada', '2999-12-06T16:17:00Z', 'a sentence that may be cut in it']]

it('shows no member without a value in a card, at any depth and on any output', () => {
  const value = { id: 'key_1', note: null, tag: '', limits: [], left: { unit: 'usd', at: null } }
  const text = 'id    key_1\nleft  unit usd\n'
  expect(card(value)).toBe(text)
  process.stdout.isTTY = false
  expect(card({ ...value, empty: { at: null } })).toBe(text)
})

it('leaves out a spare column of times, by its name', () => {
  process.stdout.columns = 60
  const text = table(HEADINGS, ROWS, ['ENDS'])
  expect(text).toContain('Not shown: ENDS. --wide shows all.')
  expect(text).toContain('oidc:company/ada  a sentence that may be cut in it')
})

it('shows the first moment of a day as its date', () => {
  const text = table(['START'], [[new Date().toISOString().slice(0, 10) + 'T00:00:00Z']])
  expect(text).toMatch(/\n\d{4}-\d\d-\d\d\n$/)
})

it('cuts texts, and never a time', () => {
  process.stdout.columns = 60
  const text = table(HEADINGS, ROWS)
  expect(text).toContain('  2999-12-06 16:17  ')
  expect(text).toMatch(/…/)
})

it('names the columns whose texts it cuts, and cuts none where each row becomes a card', () => {
  process.stdout.columns = 60
  expect(table(HEADINGS, ROWS)).toMatch(/\nCut: WHAT\. --wide shows all\.\n$/)
  expect(table(HEADINGS, [...ROWS, ['ada', '2999-12-06T16:17:00Z', 'short']], ['WHO'])).toMatch(
    /a sentence that may be cut in it\n[^]*\nNot shown: WHO\. --wide shows all\.\n$/,
  )
  process.stdout.columns = 40
  const id = 'req_01M836W9288QQ0XZ5GCMSVB8JC'
  const text = table(
    ['REQUEST', 'WHAT', 'WHO'],
    [[id, 'a sentence that wraps', 'oidc:company/ada']],
  )
  expect(text).toBe(`REQUEST  ${id}\nWHAT     a sentence that wraps\nWHO      oidc:company/ada\n`)
})
