/** Statements in the console, and their page on paper: the figures are those of the API, and a printed page cuts nothing. */
import { inflateSync } from 'node:zlib'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { parsePico } from '../../src/money/money.ts'
import { eventually } from '../_wait.ts'
import { USAGE } from '../state/sqlite/_engine.ts'
import { hasBrowser, overflowOf, settled, Stage, violationsOf } from './_browser.ts'

const ROWS = 120
const LONG = 'a-reference-without-any-place-to-break-it-'.repeat(4)
const MONTH = new Date().toISOString().slice(0, 7)

let stage: Stage
let page: Page
beforeAll(async () => {
  if (!hasBrowser) return
  stage = await Stage.open({
    statements: {
      seller: { name: 'Weir & Sons', address: ['1 <Main> Street'] },
      tax: { name: 'VAT', rate: '0.19' },
    },
  })
  for (let i = 0; i < ROWS; i++) {
    const note = i === 7 ? '\u202eright to left <b>' : `note ${i}`
    const reference = i === 9 ? LONG : `row-${i}`
    await stage.admin('POST', '/accounts/acme/credits', { usd: `${i + 1}.5`, reference, note })
  }
  const promotional = { usd: '50000', reference: 'spring', kind: 'promotional', unlock: true }
  await stage.admin('POST', '/accounts/acme/credits', promotional)
  const { ledger, usage } = stage.gateway.gateway.runtime
  const key = stage.gateway.key.id
  const day = new Date().toISOString().slice(0, 10).replaceAll('-', '')
  for (let i = 0; i < ROWS; i++) {
    const request = `req_${String(i).padStart(26, '0')}`
    const row = { ...USAGE, at: Date.now(), model: `mock/model-${i}`, tag: `tag ${i}` }
    const cost = 1_000_000_000_001n * BigInt(i + 1)
    await ledger.settle({ request, account: 'acme', key, day, cost, usage: row })
  }
  usage!.settled('acme')
  page = (await stage.page()).page
})
afterAll(async () => {
  if (hasBrowser) await stage[Symbol.asyncDispose]()
})

/** The draft of the month as JSON, every number as the text that was sent, when all calls are in it. */
async function draft(): Promise<any> {
  return eventually(async () => {
    const { text } = await stage.admin('GET', `/accounts/acme/statement?month=${MONTH}`)
    const { data } = JSON.parse(text, ((
      _: string,
      value: unknown,
      { source }: { source: string },
    ) => (typeof value === 'number' ? source : value)) as never)
    expect(data.usage.models).toHaveLength(ROWS)
    return data
  })
}

/** The tables of the page: the texts of the cells of each row. */
function tablesOf(from: Page): Promise<string[][][]> {
  return from
    .locator('table')
    .evaluateAll((tables) =>
      (tables as unknown as { rows: Iterable<{ cells: Iterable<{ textContent: string }> }> }[]).map(
        ({ rows }) => [...rows].map(({ cells }) => [...cells].map((one) => one.textContent)),
      ),
    )
}

interface Element {
  removeAttribute(name: string): void
}

const sumOf = (rows: readonly string[][], column: number) =>
  rows.reduce((sum, cells) => sum + parsePico(cells[column]!), 0n)

describe.skipIf(!hasBrowser)('a statement', () => {
  it('opens from the tab of its account, with the figures of JSON and CSV', async () => {
    const data = await draft()
    await page.goto('/console/accounts/acme/statement')
    await settled(page)
    const opening = page.context().waitForEvent('page')
    await page.getByRole('link', { name: 'Open' }).click()
    const opened = await opening
    await opened.waitForLoadState()
    const tables = await tablesOf(opened)
    const exact = (text: string) => text.replace(/\.?0+$/, '')
    const shown = (rows: readonly string[][]) => rows.map((cells) => exact(cells.at(-1)!))
    expect(shown(tables[0]!)).toEqual(
      [data.opening_usd, data.bookings_usd, `-${data.usage_usd}`, data.closing_usd].map((one) =>
        one === '0' ? '0' : one,
      ),
    )
    expect(shown(tables[1]!.slice(1))).toEqual(data.bookings.map((one: any) => one.amount_usd))
    expect(
      tables[2]!.slice(1).map(([name, calls, ...usd]) => [name, calls, ...usd.map(exact)]),
    ).toEqual(
      data.usage.models.map((one: any) => [
        one.name,
        one.calls,
        one.amount_usd,
        one.refunds_usd,
        one.total_usd,
      ]),
    )
    expect(sumOf(tables[2]!.slice(1), 4)).toBe(parsePico(data.usage_usd))
    const csv = await stage.admin('GET', `/accounts/acme/statement?month=${MONTH}&format=csv`)
    const lines = csv.text
      .trim()
      .split('\r\n')
      .map((line) => line.split(','))
    const amounts = (section: string) =>
      lines.filter(([one]) => one === section).map((cells) => cells[7])
    expect(amounts('model')).toEqual(data.usage.models.map((one: any) => one.amount_usd))
    expect(amounts('booking')).toEqual(data.bookings.map((one: any) => one.amount_usd))
    expect(amounts('tax')).toEqual([data.tax.base_usd, data.tax.tax_usd])
    expect(amounts('credit')).toEqual([data.credit.plain_usd, data.credit.blocks[0].left_usd])
    expect(await violationsOf(page)).toEqual([])
    await opened.close()
  })

  it.each([
    ['A4', 595, 842, 182],
    ['Letter', 612, 792, 187],
  ] as const)('prints on %s, and nothing is cut', async (format, width, height, printedMm) => {
    const data = await draft()
    const { page: printed } = await stage.page({ width: Math.floor((printedMm / 25.4) * 96) })
    await printed.goto('/console/accounts/acme/statement')
    const link = printed.getByRole('link', { name: 'Open' })
    await link.evaluate((element) => (element as unknown as Element).removeAttribute('target'))
    await link.click()
    await printed.locator('table.sums').waitFor()
    await printed.emulateMedia({ media: 'print' })
    expect(await overflowOf(printed)).toBe(0)
    const file = await printed.pdf({ format })
    const { pages, text } = readPdf(file)
    expect(pages.length).toBeGreaterThan(5)
    for (const [w, h] of pages) {
      expect(Math.abs(w - width)).toBeLessThan(2)
      expect(Math.abs(h - height)).toBeLessThan(2)
    }
    const names = data.bookings.map((one: any) => one.reference)
    const missing = [...names, ...data.usage.models.map((one: any) => one.name)].filter(
      (name: string) => !text.includes(name),
    )
    expect(missing).toEqual([])
    expect(text).toContain(data.closing_usd)
    // The head of a table is repeated on each of its pages.
    expect(text.split('Refunded').length - 1).toBeGreaterThan(5)
    await printed.context().close()
  })

  it('is issued for the months that are over, in their order, and the newest alone is voided', async () => {
    const [year, number] = MONTH.split('-').map(Number) as [number, number]
    const later = Date.UTC(year, number + 1, 3)
    const months = [0, 1].map((more) =>
      new Date(Date.UTC(year, number - 1 + more)).toISOString().slice(0, 7),
    )
    vi.useFakeTimers({ toFake: ['Date'], now: later })
    onTestFinished(() => void vi.useRealTimers())
    const { page: issuing } = await stage.page()
    await issuing.clock.setFixedTime(later)
    await issuing.goto('/console/accounts/acme/statement?month=' + months[0])
    const issue = issuing.getByRole('button', { name: 'Issue' })
    await issue.click()
    // Without a month in the address the next one is offered.
    await expect.poll(() => issuing.getByLabel('Month').inputValue()).toBe(months[1])
    await issue.click()
    await issuing.getByText('It can be issued two hours after').waitFor()
    await expect.poll(() => issue.count()).toBe(0)
    const row = (month: string) => issuing.locator(`tr:has-text("${month}")`)
    await row(months[1]!).getByRole('button', { name: 'Void' }).waitFor()
    await expect.poll(() => row(months[0]!).getByRole('button', { name: 'Void' }).count()).toBe(0)
    await issuing.context().close()
  })
})

/** Sizes of the pages of a PDF in points, and its text without any space. */
function readPdf(pdf: Buffer) {
  const source = pdf.toString('latin1')
  const objects = new Map(
    [...source.matchAll(/(?:^|\n)(\d+) 0 obj\n?([\s\S]*?)endobj/g)].map(([, id, body]) => [
      id!,
      body!,
    ]),
  )
  const streamOf = (id: string) => {
    const body = objects.get(id) ?? ''
    const head = /\/Length (\d+)[\s\S]*?stream\r?\n/.exec(body)
    if (!head) return ''
    const from = head.index + head[0].length
    const bytes = Buffer.from(body.slice(from, from + Number(head[1])), 'latin1')
    return inflateSync(bytes).toString('latin1')
  }
  const fonts = new Map<string, Map<number, string>>()
  for (const [id, body] of objects) {
    const [, unicode] = /\/ToUnicode (\d+) 0 R/.exec(body) ?? []
    if (unicode) fonts.set(id, charactersIn(streamOf(unicode)))
  }
  const all = [...objects.values()].filter((body) => /\/Type \/Page\b/.test(body))
  const pages = all.map((body) => {
    const [, w, h] = /\/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]/.exec(body)!
    return [Number(w), Number(h)] as const
  })
  const text = all.map((body) => {
    const named = new Map(
      [...body.matchAll(/\/(F\d+) (\d+) 0 R/g)].map(([, name, id]) => [name!, id!]),
    )
    const [, content] = /\/Contents (\d+) 0 R/.exec(body)!
    let font: Map<number, string> | undefined
    let written = ''
    for (const [, name, hex] of streamOf(content!).matchAll(
      /\/(F\d+) [\d.]+ Tf|<([0-9A-Fa-f]+)>/g,
    )) {
      if (name) font = fonts.get(named.get(name)!)
      else
        for (const [code] of hex!.matchAll(/.{4}/g)) written += font?.get(parseInt(code, 16)) ?? ''
    }
    return written
  })
  return { pages, text: text.join('').replaceAll(/\s/g, '') }
}

/** The characters of a font's codes. */
function charactersIn(map: string): Map<number, string> {
  const characters = new Map<number, string>()
  const number = (hex: string) => parseInt(hex, 16)
  for (const [, section] of map.matchAll(/beginbfchar([\s\S]*?)endbfchar/g))
    for (const [, code, to] of section!.matchAll(/<(\w+)> <(\w+)>/g))
      characters.set(number(code!), String.fromCharCode(...to!.match(/.{4}/g)!.map(number)))
  for (const [, section] of map.matchAll(/beginbfrange([\s\S]*?)endbfrange/g))
    for (const [, from, end, to] of section!.matchAll(/<(\w+)> <(\w+)> <(\w+)>/g))
      for (let code = number(from!); code <= number(end!); code++)
        characters.set(code, String.fromCharCode(number(to!) + code - number(from!)))
  return characters
}
