/**
 * A figure is the length of the list that it leads to, in the page, in the API and in CSV. A dash stands where nothing was
 * reported, and never for zero. Numbers and moments are those of the browser's language, and of the zone that is chosen.
 */
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { hello } from '../_setup.ts'
import { hasBrowser, overflowOf, settled, Stage } from './_browser.ts'

const DASH = '–'
/** Its clocks are 10:30 or 11 hours before UTC: half an hour of daylight saving. */
const ZONE = 'Australia/Lord_Howe'

/** Calls that are made here. */
const CALLS = 24 + 5 + 3 + 4 + 2

let stage: Stage
let busy: string
beforeAll(async () => {
  if (!hasBrowser) return
  stage = await Stage.open()
  const { gateway } = stage
  await gateway.newAccount('kiosk', '25')
  const policy = { version: 1 as const, bannedPatterns: ['project heron'] }
  const desk = await gateway.newKey({ account: 'kiosk', policy })
  const slow = await gateway.newKey({ account: 'kiosk', rpm: 2 })
  busy = desk.id
  const say = (key: string, content: string, more: object = {}) =>
    gateway.chat({ model: 'mock/echo', messages: [{ role: 'user', content }], ...more }, { key })
  for (let i = 0; i < 24; i++) await say(gateway.key.secret, `Hello ${i}`, { stream: i % 2 === 0 })
  for (let i = 0; i < 5; i++) await say(slow.secret, 'Hello')
  for (let i = 0; i < 3; i++) await say(desk.secret, 'Tell me about project heron')
  for (const model of ['mock/large', 'mock/medium', 'mock/large', 'mock/none'])
    await say(desk.secret, 'Hello', { model, user: 'u_1882' })
  // A repetition is sent again and not charged again; a key that has done nothing.
  for (let i = 0; i < 2; i++)
    await stage.gateway.chat(hello, { headers: { 'idempotency-key': 'the-same' } })
  await stage.gateway.newKey({ account: 'kiosk', name: 'Idle' })
  // The list has all of them, and usage has counted them.
  const from = `${new Date().toISOString().slice(0, 10)}T00:00:00Z`
  const many = async (query: string) =>
    (await lengthsOf(`/console/requests?from=${from}${query}`))[0]
  const isThere = async () => {
    expect(await many('')).toBe(CALLS)
    const calls = await many('&charged=true')
    const errors = await many('&outcome=failed&end=blocked&end=rejected&end=failed')
    const { today } = (await stage.admin('GET', '/overview')).json.data
    expect(today).toMatchObject({ calls, errors })
  }
  await vi.waitFor(isThere, { timeout: 30_000, interval: 500 })
})
afterAll(async () => {
  if (hasBrowser) await stage[Symbol.asyncDispose]()
})

/** What the list of an address has, in the API and in CSV. @param address of the console */
async function lengthsOf(address: string): Promise<number[]> {
  const { pathname, searchParams } = new URL(address, stage.gateway.url)
  expect(pathname).toBe('/console/requests')
  searchParams.set('limit', '200')
  let many = 0
  for (let next: string | null = ''; next !== null;) {
    if (next !== '') searchParams.set('after', next)
    const { json } = await stage.admin('GET', `/requests?${searchParams}`)
    many += json.data.length
    next = json.next
  }
  searchParams.delete('limit')
  searchParams.delete('after')
  const csv = await stage.admin('GET', `/requests?${searchParams}&format=csv`)
  return [many, csv.text.trim().split('\r\n').length - 1]
}

/** Figures of a page that lead to a list: what they say, the number, and the address. */
function figuresOf(page: Page): Promise<{ text: string; value: number; href: string }[]> {
  return page.locator('[data-figure]').evaluateAll((all) =>
    (all as unknown as FigureElement[]).map((one) => ({
      text: one.innerText,
      value: Number(one.getAttribute('data-figure')),
      href: one.getAttribute('href')!,
    })),
  )
}

interface FigureElement {
  readonly innerText: string
  getAttribute(name: string): string | null
}

describe.skipIf(!hasBrowser)('figures', () => {
  it.each([
    ['/console', 3],
    ['/console/usage?group=model&from=-30d', 3],
    ['/console/usage?group=key,model', 3],
    ['/console/usage?group=outcome', 1],
    ['/console/usage?group=user', 1],
    ['/console/keys/KEY/overview', 1],
  ])('of %s are the lengths of their lists', async (address, least) => {
    const { page, faults } = await stage.page()
    await page.goto(address.replace('KEY', busy))
    await settled(page)
    await page.locator('[data-figure]').first().waitFor()
    const figures = await figuresOf(page)
    expect(figures.length).toBeGreaterThanOrEqual(least)
    for (const { value, text, href } of figures) {
      expect(await lengthsOf(href), `${text}, ${href}`).toEqual([value, value])
      expect(text).toContain(value < 1000 ? String(value) : '')
    }
    const small = figures.findLast(({ value }) => value > 0 && value <= 50)!
    await page.goto(small.href)
    await settled(page)
    expect(await page.locator('tbody tr').count(), small.href).toBe(small.value)
    expect(faults).toEqual([])
    await page.context().close()
  })

  it('are a dash where nothing was reported, and zero where it is zero', async () => {
    const { page } = await stage.page()
    const columns: Readonly<Record<string, Readonly<Record<string, (row: any) => unknown>>>> = {
      keys: { 'Spent in all': (row) => row.spend_usd, Running: (row) => row.running },
      accounts: { Balance: (row) => row.balance_usd },
      models: {
        Calls: (row) => row.last_24h?.calls ?? null,
        Cost: (row) => row.last_24h?.cost_usd ?? null,
      },
      requests: {
        Cost: (row) => row.cost_usd,
        First: (row) => row.times.first_ms,
        Guard: (row) => row.guard,
      },
    }
    const seen = { dash: 0, zero: 0 }
    for (const [list, members] of Object.entries(columns)) {
      const question = page.waitForResponse(
        (one) => new URL(one.url()).pathname === `/admin/${list}`,
      )
      await page.goto(`/console/${list}`)
      const { data } = await (await question).json()
      await settled(page)
      const texts = (await page
        .locator('table.rows')
        .first()
        .locator('tr')
        .evaluateAll(cellsOf)) as string[][]
      const [heads, ...rows] = texts
      for (const [label, valueOf] of Object.entries(members)) {
        const at = heads!.findIndex((head) => head.startsWith(label))
        expect(at, `${label} of ${list}: ${heads!.join()}`).toBeGreaterThanOrEqual(0)
        // Rows are not always in the order of the answer.
        const values = data.map(valueOf) as unknown[]
        const dashes = rows.filter((cells) => cells[at] === DASH).length
        expect(dashes, `${label} of ${list}`).toBe(values.filter((one) => one === null).length)
        seen.dash += dashes
        seen.zero += values.filter((one) => one === 0).length
      }
    }
    expect(seen.dash).toBeGreaterThan(0)
    expect(seen.zero).toBeGreaterThan(0)
    await page.context().close()
  })

  it('and moments are in the language of the browser, and in the zone that is chosen', async () => {
    const { page, faults } = await stage.page({ locale: 'de-DE', zone: ZONE, width: 360 })
    await page.goto('/console/usage?group=account&from=-30d')
    await settled(page)
    expect(await overflowOf(page)).toBe(0)
    await page.setViewportSize({ width: 1440, height: 900 })
    const { json } = await stage.admin('GET', '/usage?group=account&from=2020-01-01&rollup=month')
    const total = await page.locator('tfoot').innerText()
    expect(total).toContain(new Intl.NumberFormat('de-DE').format(json.totals.prompt_tokens))
    expect(total).toMatch(/\d,\d+\s\$/)

    await page.goto('/console/requests?from=-30d')
    await settled(page)
    const clocksIn = async (timeZone: string) => {
      const shown = await page
        .locator('tbody time')
        .evaluateAll((all) =>
          (all as unknown as TimeElement[]).map(({ dateTime, innerText }) => [dateTime, innerText]),
        )
      expect(shown.length).toBeGreaterThan(20)
      const clock = new Intl.DateTimeFormat('de-DE', { timeZone, timeStyle: 'medium' })
      return shown.filter(([at, text]) => !text!.includes(clock.format(new Date(at!))))
    }
    expect(await clocksIn('UTC')).toEqual([])
    const zone = page.locator('.top').getByRole('button', { name: 'UTC' })
    await zone.click()
    await page.locator('.top').getByRole('button', { name: 'Local' }).waitFor()
    expect(await clocksIn(ZONE)).toEqual([])
    expect(faults).toEqual([])
    await page.context().close()
  })
})

interface TimeElement {
  readonly dateTime: string
  readonly innerText: string
}

/** In the page: the texts of the cells of rows. */
function cellsOf(rows: unknown[]): string[][] {
  return (rows as { readonly cells: Iterable<{ readonly innerText: string }> }[]).map(({ cells }) =>
    [...cells].map(({ innerText }) => innerText.trim()),
  )
}
