/** Every figure of usage and of a request is the text of the API, to the last decimal. */
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { formatPico, parsePico } from '../../src/money/money.ts'
import { hasBrowser, settled, Stage } from './_browser.ts'
import { furnish } from './_furniture.ts'

let stage: Stage
let page: Page
beforeAll(async () => {
  if (!hasBrowser) return
  stage = await Stage.open()
  await furnish(stage)
  // The call has so many tokens that tables write fewer digits.
  const messages = [{ role: 'user', content: 'word '.repeat(120_000) }]
  const large = await stage.gateway.chat({ model: 'mock/large', messages, max_tokens: 9 })
  expect(large.json.usage.prompt_tokens).toBeGreaterThan(100_000)
  page = (await stage.page()).page
})
afterAll(async () => {
  if (hasBrowser) await stage[Symbol.asyncDispose]()
})

/** The API's answer to what the page asked, every number as the text that was sent. */
async function opened(address: string, question: RegExp): Promise<any> {
  const asked = page.waitForResponse(question)
  await page.goto(address)
  const text = await (await asked).text()
  await settled(page)
  return JSON.parse(text, ((_: string, value: unknown, { source }: { source: string }) =>
    typeof value === 'number' ? source : value) as never)
}

/** The cells of each row, with the exact value that hovering shows where there is one. */
function cellsOf(rows: string): Promise<string[][]> {
  return page.locator(rows).evaluateAll((all) =>
    (all as unknown as RowElement[]).map(({ cells }) =>
      [...cells].map((cell) => {
        const exact = cell.title || cell.querySelector('[title]')?.title || cell.innerText
        return exact.trim()
      }),
    ),
  )
}

interface RowElement {
  readonly cells: Iterable<{
    readonly title: string
    readonly innerText: string
    querySelector(selector: string): { readonly title: string } | null
  }>
}

/** An amount of the API as a page writes it. */
function usd(text: string | null): string {
  if (text === null) return '–'
  const [whole, fraction] = text.replace('-', '').split('.')
  const sign = text.startsWith('-') ? '−' : ''
  return `${sign}$${grouped(whole!)}${fraction === undefined ? '' : `.${fraction}`}`
}

function number(text: string | null): string {
  return text === null ? '–' : grouped(text)
}

function grouped(digits: string): string {
  return digits.replaceAll(/\B(?=(?:\d{3})+$)/g, ',')
}

function usdSum(all: readonly string[]): string {
  const picoOf = (text: string) =>
    text.startsWith('-') ? -parsePico(text.slice(1)) : parsePico(text)
  return formatPico(all.reduce((sum, one) => sum + picoOf(one), 0n))
}

/** The sum of the parts that are known; null where none is. */
function sum(all: readonly (string | null)[]): string | null {
  const known = all.filter((one) => one !== null)
  return known.length === 0 ? null : String(known.reduce((total, one) => total + Number(one), 0))
}

describe.skipIf(!hasBrowser)('the figures', () => {
  it.each([
    ['account', ''],
    ['model', '&from=-30d&rollup=day'],
    ['key,model', '&from=-30d&metric=calls'],
  ])('of usage by %s are those of the API', async (group, rest) => {
    const answer = await opened(`/console/usage?group=${group}${rest}`, /\/admin\/usage\?/)
    expect(answer.data.length).toBeGreaterThan(3)
    const groups = Map.groupBy<string, any>(answer.data, (cell) =>
      Object.values(cell.group)
        .map((name) => name ?? '(none)')
        .join(' · '),
    )
    const names = ['calls', 'errors', 'refused', 'prompt', 'cached', 'completion'] as const
    const expected = [...groups].map(([name, cells]) => {
      const of = (member: string) => number(sum(cells.map((cell) => cell[member])))
      const [calls, failed, refused] = names.slice(0, 3).map(of)
      const tokens = names.slice(3).map((kind) => of(`${kind}_tokens`))
      const cost = usd(usdSum(cells.map((cell) => cell.cost_usd)))
      return [name, calls, `${failed} failed, ${refused} refused`, ...tokens, cost]
    })
    const shown = await cellsOf('table.rows tbody tr')
    const heads = (await cellsOf('table.rows thead tr'))[0]!
    expect(heads.slice(1, 7)).toEqual(['Calls', 'Failed', 'Prompt', 'Cached', 'Completion', 'Cost'])
    expect(shown.map((cells) => cells.slice(0, 7)).toSorted()).toEqual(expected.toSorted())

    const { totals } = answer
    const [total] = await cellsOf('table.rows tfoot tr')
    expect([total![1], ...total!.slice(3, 7)]).toEqual([
      number(totals.calls),
      ...names.slice(3).map((kind) => number(totals[`${kind}_tokens`])),
      usd(totals.cost_usd),
    ])
    await expect.poll(() => page.locator('tfoot').innerText()).toContain(usd(totals.cost_usd))
    const proof = `✓ Equals the ledger: ${usd(totals.cost_usd)}`
    await expect.poll(() => page.locator('.proof').innerText()).toContain(proof)
    expect(answer.ledger.cost_usd).toBe(totals.cost_usd)
  })

  it('of requests and of each of their sheets are those of the API', async () => {
    const list = await opened('/console/requests?from=-30d&limit=20', /\/admin\/requests\?/)
    const heads = (await cellsOf('table.rows thead tr'))[0]!
    const costs = (await cellsOf('table.rows tbody tr')).map((row) => row[heads.indexOf('Cost')])
    expect(costs).toEqual(list.data.map(({ cost_usd: cost }: any) => usd(cost)))
    const dear = list.data.filter(({ model }: any) => model === 'mock/large').slice(0, 2)
    for (const { id } of dear) {
      const question = new RegExp(`/admin/requests/${id}`)
      const { data } = await opened(`/console/requests?open=${id}`, question)
      const lines = data.bill.lines.map((line: any) => [
        `${line.price.replaceAll('_', ' ')} ${grouped(line.quantity)} × ${usd(line.unit_price_usd)}`,
        usd(line.amount_usd),
      ])
      expect(usdSum(data.bill.lines.map((line: any) => line.amount_usd))).toBe(data.cost_usd)
      expect(lines.length).toBeGreaterThan(1)
      expect(await cellsOf('table.cost tbody tr')).toEqual(lines)
      expect(await cellsOf('table.cost tfoot tr')).toEqual([['Total', usd(data.cost_usd)]])
      const sheet = await page.locator('dialog.sheet').innerText()
      for (const [name, tokens] of Object.entries<string | null>(data.usage))
        if (tokens !== null)
          expect(sheet).toContain(`${name.replaceAll('_', ' ')} ${grouped(tokens)}`)
      expect(sheet).toContain(`${grouped(data.rate.left)} of ${grouped(data.rate.limit)} left`)
      expect(sheet.match(/requests a minute/g)).toHaveLength(1)
    }
    expect(dear.length).toBeGreaterThan(0)
  })

  it.each([
    ['/console/accounts', ['Balance', 'Available', 'Spent this month']],
    ['/console/keys', ['Spent in all']],
    ['/console/requests?from=-30d', ['Cost']],
    ['/console/usage?group=key', ['Cost']],
    ['/console/accounts/acme/bookings', ['Amount']],
  ])(
    'of each column on %s have the same decimals, and are copied exactly',
    async (address, names) => {
      await page.goto(address)
      await settled(page)
      for (const name of names) {
        const amounts = page.locator(`td[data-label="${name}"] data`)
        const shown = await amounts.allInnerTexts()
        expect(shown.length).toBeGreaterThan(1)
        expect(new Set(shown.map((one) => one.split('.')[1]?.length)).size, name).toBe(1)
        const [plain, copied] = await amounts.first().evaluate((amount) => {
          const { document, getSelection, addEventListener } = globalThis as any
          getSelection().selectAllChildren(amount)
          let text = ''
          addEventListener('copy', (event: any) => (text = event.clipboardData.getData('text')), {
            once: true,
          })
          document.execCommand('copy')
          return [amount.getAttribute('value'), text]
        })
        expect(copied).toBe(plain)
        const exact = await amounts.first().getAttribute('title')
        expect(exact!.split('\n')[0]).toBe(usd(plain))
      }
    },
  )

  it('of several rows are copied as lines with a tab between cells', async () => {
    await page.goto('/console/accounts')
    await settled(page)
    const copied = await page.locator('table.rows').evaluate((table) => {
      const { document, getSelection, addEventListener } = globalThis as any
      getSelection().selectAllChildren((table as any).tBodies[0])
      let text = ''
      addEventListener('copy', (event: any) => (text = event.clipboardData.getData('text')), {
        once: true,
      })
      document.execCommand('copy')
      return text
    })
    const { json } = await stage.admin('GET', '/accounts?limit=200')
    const balanceOf = (id: string) =>
      json.data.find((one: any) => one.id === id).balance_usd as number
    const lines = copied.split('\n').map((line) => line.split('\t'))
    const kiosk = lines.find((cells) => cells[1] === 'kiosk')!
    expect(Number(kiosk[3])).toBe(balanceOf('kiosk'))
    expect(kiosk.at(-2)).toMatch(/^\d{4}-\d\d-\d\dT/)
  })
})
