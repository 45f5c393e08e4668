/**
 * A figure is the length of the list that it leads to, in the page, in the API and in CSV. A dash stands where nothing was
 * reported, and never for zero. Numbers and moments are those of the browser's language, and of the zone that is chosen.
 */
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { hello } from '../_setup.ts'
import { hasBrowser, overflowOf, settled, Stage } from './_browser.ts'

const DASH = '–'
const DAY = { numberingSystem: 'latn', year: 'numeric', month: 'short', day: 'numeric' } as const
const CLOCK = {
  numberingSystem: 'latn',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hourCycle: 'h23',
} as const

/** Calls that are made here. */
const CALLS = 24 + 5 + 3 + 4 + 2 + 4 + 1

let stage: Stage
let busy: string
let team: string
beforeAll(async () => {
  if (!hasBrowser) return
  stage = await Stage.open()
  const { gateway } = stage
  await gateway.newAccount('kiosk', '25')
  const policy = { version: 1 as const, bannedPatterns: ['project heron'] }
  const desk = await gateway.newKey({ account: 'kiosk', policy })
  const slow = await gateway.newKey({ account: 'kiosk', rpm: 2 })
  busy = desk.id
  team = (await stage.admin('POST', '/accounts/kiosk/teams', { name: 'Night' })).json.data.id
  await stage.admin('PATCH', `/keys/${slow.id}`, { team_id: team })
  const say = (key: string, content: string, more: object = {}) =>
    gateway.chat({ model: 'mock/echo', messages: [{ role: 'user', content }], ...more }, { key })
  for (let i = 0; i < 24; i++) await say(gateway.key.secret, `Hello ${i}`, { stream: i % 2 === 0 })
  for (let i = 0; i < 5; i++) await say(slow.secret, 'Hello')
  for (let i = 0; i < 3; i++) await say(desk.secret, 'Tell me about project heron')
  for (const model of ['mock/large', 'mock/medium', 'mock/large', 'mock/none'])
    await say(desk.secret, 'Hello', { model, user: 'u_1882' })
  // It is tomorrow already where this account is, for most of a day; one more call has no key.
  await gateway.newAccount('far', '5')
  await stage.admin('PATCH', '/accounts/far', { time_zone: 'Pacific/Kiritimati' })
  const watched = await gateway.newKey({
    account: 'far',
    policy: { ...policy, guard: { mode: 'monitor' } },
  })
  for (const project of ['heron', 'heron', 'egret', 'heron'])
    await say(watched.secret, `Tell me about project ${project}`)
  await say('key-of-nobody', 'Hello')
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
    const errors = await many('&keyed=true&outcome=failed&end=blocked&end=rejected&end=failed')
    const { today } = (await stage.admin('GET', '/overview')).json.data
    expect(today).toMatchObject({ calls, errors })
  }
  await vi.waitFor(isThere, { timeout: 240_000, interval: 500 })
})
afterAll(async () => {
  if (hasBrowser) await stage[Symbol.asyncDispose]()
})

/** What the list of an address has, in the API and in CSV. @param address the address of a page of the console */
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
    ['/console/usage?group=key&team=TEAM', 2],
    ['/console/usage?group=team', 3],
    ['/console/usage?group=user', 1],
    ['/console/usage?group=user,key', 1],
    ['/console/usage?group=deployment', 1],
    ['/console/usage?group=code', 4],
    ['/console/usage?group=limit', 3],
    ['/console/usage?group=limit,key', 5],
    ['/console/guard', 5],
    ['/console/guard?key=KEY', 3],
    ['/console/keys/KEY/overview', 1],
  ])('of %s are the lengths of their lists', async (address, least) => {
    const { page, faults } = await stage.page()
    await page.goto(address.replace('KEY', busy).replace('TEAM', team))
    await settled(page)
    await page.locator('[data-figure]').first().waitFor()
    const figures = await figuresOf(page)
    expect(figures.length).toBeGreaterThanOrEqual(least)
    if (address.includes('TEAM')) {
      expect(figures.map(({ value }) => value)).toEqual([2, 2])
      await page.locator('.places').getByRole('link', { name: 'Requests' }).click()
      await page.locator('.chip:has-text("team")').waitFor()
      await page.goBack()
      await settled(page)
    }
    for (const { value, text, href } of figures) {
      expect(await lengthsOf(href), `${text}, ${href}`).toEqual([value, value])
      expect(text).toContain(value < 1000 ? String(value) : '')
    }
    const small = figures.findLast(({ value }) => value > 0 && value <= 50)!
    await page.goto(small.href)
    await settled(page)
    await expect
      .poll(() => page.locator('tbody tr').count(), { message: small.href })
      .toBe(small.value)
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

  it.each([
    ['de-DE', 'Australia/Lord_Howe'],
    ['ar-EG', 'Asia/Kolkata'],
    ['hi-IN', 'America/Los_Angeles'],
  ])('and moments are in the language %s, and in the zone %s', async (locale, zone) => {
    const { page, faults } = await stage.page({ locale, zone, width: 360 })
    await page.goto('/console/usage?group=account&from=-30d')
    await settled(page)
    expect(await overflowOf(page)).toBe(0)
    await page.setViewportSize({ width: 1440, height: 900 })
    const { json } = await stage.admin('GET', '/usage?group=account&from=2020-01-01&rollup=month')
    const { prompt_tokens, cost_usd } = json.totals
    const written = (value: number, options: Intl.NumberFormatOptions = {}) =>
      new Intl.NumberFormat(locale, { numberingSystem: 'latn', ...options }).format(value)
    const total = () => page.locator('tfoot').innerText()
    await expect.poll(total).toContain(written(prompt_tokens))
    const dollars = { style: 'currency', currency: 'USD', currencyDisplay: 'narrowSymbol' } as const
    // Each amount has the decimals that the longest of the column needs.
    const amounts = Array.from({ length: 11 }, (_, i) =>
      written(cost_usd, { ...dollars, minimumFractionDigits: i + 2, maximumFractionDigits: 12 }),
    )
    const shown = await total()
    expect(
      amounts.some((amount) => shown.includes(amount)),
      shown,
    ).toBe(true)
    // Text is English and from the left; numbers stand below each other at the end of their column.
    expect(await page.evaluate('getComputedStyle(document.body).direction')).toBe('ltr')
    expect(await page.locator('tbody td.end:has(> data)').evaluateAll(endsOf)).toHaveLength(1)

    await page.goto('/console/requests?from=-30d')
    await settled(page)
    const clocksIn = async (timeZone: string) => {
      const shown = await page
        .locator('tbody time')
        .evaluateAll((all) =>
          (all as unknown as TimeElement[]).map(({ dateTime, innerText }) => [dateTime, innerText]),
        )
      expect(shown.length).toBeGreaterThan(20)
      const clock = new Intl.DateTimeFormat(locale, { ...CLOCK, timeZone })
      return shown.filter(([at, text]) => !text!.includes(clock.format(new Date(at!))))
    }
    expect(await clocksIn('UTC')).toEqual([])
    await page.locator('.top').getByRole('button', { name: 'UTC' }).click()
    await page.locator('.top').getByRole('button', { name: 'Local' }).waitFor()
    expect(await clocksIn(zone)).toEqual([])

    // Days that are typed are those of UTC, whatever the language and the zone.
    await page.getByLabel('Range').selectOption('custom')
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('From', { exact: true }).fill('2026-01-02')
    await dialog.getByLabel('To', { exact: true }).fill('2026-03-04')
    await dialog.getByRole('button', { name: 'Show' }).click()
    await page.waitForURL((url) => url.search === '?from=2026-01-02&to=2026-03-04')
    const day = new Intl.DateTimeFormat(locale, { ...DAY, timeZone: 'UTC' })
    const [from, to] = ['2026-01-02', '2026-03-04'].map((text) => day.format(new Date(text)))
    await expect
      .poll(() => page.getByLabel('Range').locator('option:checked').innerText())
      .toBe(`${from} … ${to}`)
    expect(faults).toEqual([])
    await page.context().close()
  })

  it('that are cut have all digits while their row has the focus', async () => {
    const { page } = await stage.page()
    await page.goto('/console/accounts')
    await settled(page)
    await page.keyboard.press('j')
    const row = page.locator('tbody tr:focus-within')
    const amount = row.locator('[data-all]').first()
    const shown = await amount.evaluate((element) => {
      const { getComputedStyle } = globalThis as unknown as {
        getComputedStyle(element: unknown, part: string): { readonly content: string }
      }
      return getComputedStyle(element, '::after').content
    })
    expect(shown).toBe(JSON.stringify(await amount.getAttribute('data-all')))
    expect(await overflowOf(page)).toBe(0)
    await page.context().close()
  })
})

interface TimeElement {
  readonly dateTime: string
  readonly innerText: string
}

/** Runs in the page: the texts of the cells of rows. */
function cellsOf(rows: unknown[]): string[][] {
  return (rows as { readonly cells: Iterable<{ readonly innerText: string }> }[]).map(({ cells }) =>
    [...cells].map(({ innerText }) => innerText.trim()),
  )
}

/** Runs in the page: where the texts of cells end, without repetitions, in pixels. */
function endsOf(cells: unknown[]): number[] {
  const ends = (cells as CellElement[]).map((cell) => {
    const range = cell.ownerDocument.createRange()
    range.selectNodeContents(cell)
    return Math.round(range.getBoundingClientRect().right)
  })
  return [...new Set(ends)]
}

interface CellElement {
  readonly ownerDocument: {
    createRange(): {
      selectNodeContents(element: unknown): void
      getBoundingClientRect(): { readonly right: number }
    }
  }
}
