/** Usage, overview, models, guard and settings: the figures of the page are those of the API, to the last decimal, in every state. */
import { litellmList } from '../import/_lists.ts'
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  hasBrowser,
  settled,
  shoot,
  Stage,
  VIEWER,
  violationsOf,
  type Watched,
} from './_browser.ts'
import { furnish } from './_furniture.ts'

let stage: Stage
let places: Readonly<Record<string, string>>
beforeAll(async () => {
  if (!hasBrowser) return
  stage = await Stage.open()
  places = await furnish(stage)
})
afterAll(async () => {
  if (hasBrowser) await stage[Symbol.asyncDispose]()
})

describe.skipIf(!hasBrowser)('usage', () => {
  it('says which sums differ from the ledger', async () => {
    const { page } = await stage.page()
    await change(page, '/admin/usage?*', (body) => ({
      ...body,
      ledger: {
        agrees: false,
        as_of: '2026-11-23T10:00:00Z',
        cost_usd: 1.5,
        differences: [{ account_id: 'acme', key_id: 'key_1', indexed_usd: 1, ledger_usd: 1.5 }],
      },
    }))
    await page.goto('/console/usage')
    await settled(page)
    const proof = () => page.locator('.proof').innerText()
    await expect.poll(proof).toContain('✕ Differs from the ledger, which says $1.5')
    await expect.poll(proof).toContain('acme/key_1: $1 here, $1.5 in the ledger')
    await page.context().close()
  })

  it('shows what is kept, and says so, where a link asks for groups that are not kept together', async () => {
    const { page, faults } = await stage.page()
    await page.goto('/console/usage?group=tag,model')
    await settled(page)
    await expect
      .poll(() => page.locator('.notice').innerText())
      .toBe('Usage is not kept by tag and model together. This is by tag alone.')
    await expect.poll(() => page.locator('thead').innerText()).toContain('Tag')
    expect(faults).toEqual([])
    await page.context().close()
  })

  it('is narrowed to days by the keyboard', async () => {
    const { page } = await stage.page()
    await page.goto('/console/usage')
    await settled(page)
    await page.locator('.plot').focus()
    for (const key of ['ArrowLeft', 'Shift+ArrowLeft', 'Shift+ArrowLeft', 'Enter']) {
      await page.keyboard.press(key)
    }
    await expect.poll(() => page.url()).toMatch(/from=\d{4}-\d\d-\d\d&to=\d{4}-\d\d-\d\d/)
    const { searchParams } = new URL(page.url())
    const days = ['to', 'from'].map((name) => Date.parse(searchParams.get(name)!) / 86_400_000)
    expect(days[0]! - days[1]!).toBe(3)
    await page.context().close()
  })

  it('leads from a group to what it is made of, and from its number of calls to them', async () => {
    const { page } = await stage.page()
    await page.goto('/console/usage?group=account&from=-30d')
    await settled(page)
    const row = page.locator('tbody tr', { hasText: 'weir' })
    // The range as it was counted, in whole days, and the calls that the ledger has charged.
    await expect
      .poll(() => row.locator('td').nth(1).locator('a').getAttribute('href'))
      .toMatch(/^\/console\/requests\?from=\d{4}-\d\d-\d\dT00.*&to=.*&account=weir&charged=true$/)
    await row.locator('.row-link').click()
    await expect.poll(() => page.url()).toMatch(/account=weir&group=key|group=key&.*account=weir/)
    await page.context().close()
  })
})

describe.skipIf(!hasBrowser)('overview', () => {
  it('names what needs attention', async () => {
    const { page } = await stage.page()
    await change(page, '/admin/overview', ({ data }) => ({
      data: {
        ...data,
        incidents: [
          {
            id: 'model:mock/echo',
            kind: 'model.down',
            harm: 'errors',
            object: { kind: 'model', id: 'mock/echo', name: 'mock/echo' },
            cause: 'rate_limit',
            class: null,
            since: data.as_of,
            last_success: null,
            calls: { value: 3, of: 4, list: 'requests', where: { model: 'mock/echo' } },
            parts: [],
            act: 'test',
            page: 'operate/alerts',
          },
        ],
        incidents_total: 1,
      },
    }))
    await page.goto('/console')
    await settled(page)
    const text = () => page.locator('main').innerText()
    for (const part of ['mock/echo', 'rate_limit', '3 of 4'])
      await expect.poll(text).toContain(part)
    expect(await text()).not.toContain('Nothing needs attention')
    await page.context().close()
  })

  it('leads to the guided start where no vendor is set up', async () => {
    const { page } = await stage.page()
    await page.goto('/console')
    await settled(page)
    await page.getByText('Begin with its key').click()
    await expect.poll(() => new URL(page.url()).pathname).toBe('/console/start')
    await page.context().close()
  })
})

describe.skipIf(!hasBrowser)('models, guard and settings', () => {
  it('count a blocked call by rule and by key, and lead to it', async () => {
    const { page } = await stage.page()
    await page.goto('/console/guard')
    await settled(page)
    await expect.poll(() => page.locator('.halves').innerText()).toContain('bannedPatterns')
    await expect.poll(() => page.locator('.plot canvas').count()).toBe(1)
    const link = page.locator('section', { hasText: 'By key' }).locator('td a').first()
    const { searchParams } = new URL((await link.getAttribute('href'))!, stage.gateway.url)
    expect(searchParams.get('key')).toMatch(/^key_/)
    expect(searchParams.get('decided')).toBe('block input blocked bannedPatterns')
    await page.context().close()
  })

  it('show contents that are kept, and export what an operator says of decisions', async () => {
    const { page, faults } = await stage.page()
    // They are not kept by model: of one there is the list alone.
    await page.goto('/console/guard?model=mock/echo')
    await settled(page)
    await page.getByText('Decisions are not counted by model').waitFor()
    await expect.poll(() => page.getByRole('heading', { name: 'By rule' }).count()).toBe(0)
    await expect.poll(() => page.locator('table.rows tbody tr').count()).toBeGreaterThan(0)
    await page.goto(`/console/guard?key=${places.KEY!}`)
    await settled(page)
    await page.getByRole('button', { name: 'Review' }).click()
    await page.getByLabel('wrong').check()
    await settled(page)
    await shoot(page, 'review')
    expect(await violationsOf(page)).toEqual([])
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Export 1' }).click(),
    ])
    const lines = readFileSync(await file.path(), 'utf8')
    expect(JSON.parse(lines)).toEqual({
      side: 'input',
      text: 'Tell me about project heron',
      rule: 'bannedPatterns',
      expected: 'pass',
    })
    await page.goto(`/console/requests?open=${places.KEPT!}`)
    await page.getByRole('button', { name: 'Show content' }).click()
    await page.waitForSelector('text=Tell me about project heron')
    await page.goto(`/console/keys/${places.KEY!}/policy`)
    await settled(page)
    await page.getByRole('button', { name: 'Remove pattern 1' }).click()
    await page.getByRole('button', { name: 'Run' }).click()
    await page.waitForSelector('text=2 calls with content, 1 with another verdict')
    await shoot(page, 'replay')
    expect(faults).toEqual([])
    await page.context().close()
  })

  it('take prices of a list over, what is ticked and no more', async () => {
    const { page, faults } = await stage.page()
    await page.goto('/console/models')
    await settled(page)
    await page.getByRole('button', { name: 'Import prices' }).click()
    await page.getByLabel('From', { exact: true }).selectOption('file')
    const buffer = Buffer.from(litellmList(3))
    const chosen = { name: 'costs.json', mimeType: 'application/json', buffer }
    await page.locator('input[type=file]').setInputFiles(chosen)
    await page.getByRole('button', { name: 'Compare' }).click()
    await page.waitForSelector('text=3 new')
    await shoot(page, 'price-import')
    await page.locator('dialog input[type=checkbox]').first().uncheck()
    await page.getByRole('button', { name: 'Write 2' }).click()
    await page.waitForSelector('dialog', { state: 'detached' })
    const again = { from: 'costs.json', text: litellmList(3) }
    const { data } = (await stage.admin('POST', '/models/import', again)).json
    expect([data.added.length, data.same]).toEqual([1, 2])
    expect(faults).toEqual([])
    await page.context().close()
  })

  it('find what a setting is, and where it comes from', async () => {
    const { page } = await stage.page()
    await page.goto('/console/settings')
    await page.getByLabel('Search', { exact: true }).fill('state.driver')
    await expect
      .poll(() => page.locator('main').innerText())
      .toMatch(/state\.driver\s+where accounts, keys and money are kept\s+file\s+configuration/)
    // It is the first one, although an earlier section has a setting that is explained with its name.
    await expect
      .poll(() => page.locator('.settings th .mono').first().innerText())
      .toBe('state.driver')
    await expect.poll(() => page.locator('main').innerText()).not.toContain('token-of-the')
    // What the manual says of it, its unit, and its default where it is another value.
    await page.getByLabel('Search', { exact: true }).fill('body of a chat request')
    await expect
      .poll(() => page.locator('main').innerText())
      .toMatch(/server\.limits\.chat\s+body of a chat request, decoded\s+50 MiB\s+default/)
    await page.getByLabel('Search', { exact: true }).fill('server.requestTimeout')
    await expect.poll(() => page.locator('main').innerText()).toMatch(/590 s\s+default/)
    await page.getByLabel('Search', { exact: true }).fill('log.content.enabled')
    await expect
      .poll(() => page.locator('main').innerText())
      .toMatch(/true\s+configuration\s+default: false/)
    await page.context().close()
  })

  it('prove the index of usage on demand', async () => {
    const { page } = await stage.page()
    await page.goto('/console/settings/gateways')
    await page.getByRole('button', { name: 'Verify' }).click()
    await page.getByText('✓ Every sum equals the ledger').waitFor()
    await page.context().close()
  })

  it('give the audit log as CSV, and the policy of a key that is chosen from a list', async () => {
    const { page } = await stage.page()
    await page.goto('/console/settings/audit')
    await settled(page)
    const csv = page.getByRole('link', { name: 'CSV' })
    await expect.poll(() => csv.getAttribute('href')).toMatch(/^\/admin\/audit\?.*&format=csv$/)
    const { id } = await stage.gateway.newKey()
    await page.goto(`/console/keys/${id}/policy`)
    await settled(page)
    await page.getByRole('button', { name: 'Copy from key' }).click()
    await page.getByLabel('Keys with a policy').selectOption(places.KEY!)
    await page.locator('dialog').getByRole('button', { name: 'Copy from', exact: true }).click()
    await page.waitForSelector('dialog', { state: 'detached' })
    await expect
      .poll(() => page.getByLabel('Scope').inputValue())
      .toBe('Questions about our products')
    await page.context().close()
  })

  it('let a viewer look, and say what else is needed', async () => {
    const { page } = await stage.page({ token: VIEWER })
    await page.goto('/console/models?open=mock/large')
    await settled(page)
    const cool = page.getByRole('button', { name: 'Cool down (needs the role operator or admin)' })
    await expect.poll(() => cool.getAttribute('aria-disabled')).toBe('true')
    await page.goto('/console/settings/configuration')
    await page.getByText('The configuration is shown to the role admin.').waitFor()
    await page.goto('/console/play')
    await page.getByText('this needs the role operator or admin').waitFor()
    await page.context().close()
  })
})

/** Answers of the gateway, changed on their way: for states that a healthy gateway does not have. */
async function change(
  page: Watched['page'],
  url: string,
  edit: (body: any) => unknown,
): Promise<void> {
  await page.route(url, async (route) => {
    const asked = new URL(route.request().url())
    const path = asked.pathname.replace('/admin', '') + asked.search
    await route.fulfill({ json: edit((await stage.admin('GET', path)).json) })
  })
}
