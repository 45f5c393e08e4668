/** What screens show of one thing, and what can be done with it there. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Page } from 'playwright-core'
import { hasBrowser, overflowOf, settled, Stage } from './_browser.ts'
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

/** A page of the operator that has done nothing wrong in the end. */
async function on(path: string, work: (page: Page) => Promise<void>): Promise<void> {
  const { page, faults } = await stage.page()
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
  await page.goto(path)
  await settled(page)
  await work(page)
  expect(faults).toEqual([])
  await page.context().close()
}

function copied(page: Page): Promise<string> {
  return page.evaluate('navigator.clipboard.readText()')
}

function isFocused(element: unknown): boolean {
  return (
    (element as { ownerDocument: { activeElement: unknown } }).ownerDocument.activeElement ===
    element
  )
}

describe.skipIf(!hasBrowser)('an alert', () => {
  it('is counted in the frame, and leads to what it is about', async () => {
    const { gateway } = stage
    await gateway.newAccount('poor', '0.5')
    const { secret } = await gateway.newKey({ account: 'poor' })
    const messages = [{ role: 'user', content: 'Hello' }]
    await gateway.chat({ model: 'mock/echo', messages }, { key: secret })
    const kinds = async () => {
      const { json } = await stage.admin('GET', '/status')
      return json.data.alerts.map(({ kind }: { kind: string }) => kind)
    }
    await expect.poll(kinds).toContain('balance.low')
    await on('/console', async (page) => {
      const many = (await kinds()).length
      await expect.poll(() => page.locator('.top .alerts').innerText()).toContain(`! ${many}`)
      await page.getByRole('link', { name: 'top up' }).click()
      await page.locator('h1:has-text("poor")').waitFor()
    })
  })
})

describe.skipIf(!hasBrowser)('a list', () => {
  it('is walked by arrows, and gives the id of a row', async () => {
    await on('/console/accounts?sort=name', async (page) => {
      const ids = await page
        .locator('tbody tr')
        .evaluateAll((rows) =>
          rows.map((row) => (row as unknown as { dataset: { id: string } }).dataset.id),
        )
      await page.keyboard.press('j')
      await page.keyboard.press('ArrowDown')
      await page.keyboard.press('c')
      await expect.poll(() => copied(page)).toBe(ids[1])
      await page.keyboard.press('ArrowUp')
      await page.keyboard.press('Enter')
      await expect.poll(() => page.url()).toContain(`/accounts/${ids[0]}/`)
    })
  })
})

describe.skipIf(!hasBrowser)('a row', () => {
  it('has the word for the end of its call, by which the list is filtered', async () => {
    const { page } = await stage.page()
    const ends = ['completed', 'blocked', 'left']
    await page.route('**/admin/requests?*', async (route) => {
      const { search } = new URL(route.request().url())
      const { json } = await stage.admin('GET', `/requests${search}`)
      const [one] = json.data
      const data = ends.map((end, at) => ({ ...one, id: `${one.id}${at}`, code: null, end }))
      await route.fulfill({ json: { ...json, data } })
    })
    await page.goto('/console/requests')
    await settled(page)
    const wordsOf = async () => {
      const shown = await page.locator('tbody .outcome').allInnerTexts()
      return shown.map((text) => text.replace(/^\d+ ?/, ''))
    }
    await expect.poll(wordsOf).toEqual(['', 'blocked', 'left'])
    await page.context().close()
  })

  it('names its moments where its columns have no heads', async () => {
    const { page } = await stage.page({ width: 360 })
    await page.goto('/console/accounts/kiosk/bookings')
    await settled(page)
    const cell = page.locator('td:has(> time)').first()
    const label = await cell.evaluate((element) => {
      const { getComputedStyle } = globalThis as unknown as {
        getComputedStyle(element: unknown, part: string): { readonly content: string }
      }
      return getComputedStyle(element, '::before').content
    })
    expect(label).toBe('"Time "')
    await page.context().close()
  })

  const stateOf = async (id: string) =>
    (await stage.admin('GET', `/keys/${id}`)).json.data.disabled as boolean

  it('has a menu of acts, for a pointer and for keys, and what was done is taken back', async () => {
    const { data } = (await stage.admin('POST', '/accounts/kiosk/keys', { name: 'Menu' })).json
    await on('/console/keys?q=Menu', async (page) => {
      await page.getByRole('button', { name: 'Acts: Menu' }).click()
      await page.getByRole('button', { name: 'Disable' }).click()
      await page.locator('tr:has-text("disabled")').waitFor()
      await page.keyboard.press('j')
      await page.keyboard.press('.')
      const first = page.locator('.acts-list button').first()
      await expect.poll(() => first.evaluate(isFocused)).toBe(true)
      await page.keyboard.press('ArrowDown')
      await page.keyboard.press('Enter')
      await page.locator('tr:has-text("active")').waitFor()
      await page.keyboard.press('z')
      await page.locator('tr:has-text("disabled")').waitFor()
      expect(await stateOf(data.id)).toBe(true)
      await page.keyboard.press('j')
      await page.keyboard.press('.')
      await page.keyboard.press('Escape')
      await page.locator('.acts-list').waitFor({ state: 'detached' })
      await page.getByRole('button', { name: 'Acts: Menu' }).click()
      await page.getByRole('button', { name: 'Copy link' }).click()
      await expect.poll(() => copied(page)).toContain(`/console/keys/${data.id}/overview`)
    })
  })

  it('narrows its list to a value that it has', async () => {
    await on('/console/requests', async (page) => {
      await page.keyboard.press('j')
      await page.keyboard.press('.')
      await page.getByRole('button', { name: 'Only this model' }).click()
      await page.locator('.chip:has-text("model: mock/")').waitFor()
    })
  })
})

describe.skipIf(!hasBrowser)('the manual', () => {
  it('opens at the page of a screen, and follows its links', async () => {
    await on('/console/accounts', async (page) => {
      await page.getByRole('button', { name: 'Manual of this screen' }).click()
      await page.getByRole('heading', { name: 'Keys and money', level: 2 }).waitFor()
      await expect.poll(() => page.locator('.manual table').count()).toBeGreaterThan(0)
      await page.locator('.manual a[href*="/console/help/"]').first().click()
      await page.keyboard.press('Escape')
      await page.locator('dialog').waitFor({ state: 'detached' })
      await page.keyboard.press('g')
      await page.keyboard.press('m')
      await page.locator('h1:has-text("Models")').waitFor()
      await page.keyboard.press('h')
      await page.getByRole('heading', { name: 'Models and prices', level: 2 }).waitFor()
    })
  })

  it('says at an error what it means', async () => {
    await on('/console/keys/key_none/overview', async (page) => {
      await page.getByRole('button', { name: 'What this means' }).click()
      await page.getByRole('heading', { name: 'Troubleshooting', level: 2 }).waitFor()
      await page.locator('#help-not_found').waitFor()
    })
  })
})

describe.skipIf(!hasBrowser)('an alert', () => {
  it('is muted, and this is taken back', async () => {
    const { gateway } = stage
    await gateway.newAccount('noisy', '0.5')
    await stage.admin('PATCH', '/accounts/noisy', { alert_below_usd: '1' })
    const { secret } = await gateway.newKey({ account: 'noisy' })
    const messages = [{ role: 'user', content: 'Hello' }]
    await gateway.chat({ model: 'mock/echo', messages }, { key: secret })
    await on('/console/settings/alerts', async (page) => {
      const line = page.locator('li:has-text("noisy")')
      await line.getByRole('button', { name: 'Mute a day' }).click()
      await line.getByText('silent until').waitFor()
      await page.getByRole('button', { name: 'Undo' }).click()
      await line.getByRole('button', { name: 'Mute a day' }).waitFor()
    })
  })
})

describe.skipIf(!hasBrowser)('settings', () => {
  it('get their former values back', async () => {
    const { id } = await stage.gateway.newKey()
    await on(`/console/keys/${id}/overview`, async (page) => {
      await page.getByRole('button', { name: 'Edit' }).click()
      await page.getByLabel('Note').fill('Night shift')
      await page.getByRole('button', { name: 'Save' }).click()
      await page.locator('.facts:has-text("Night shift")').waitFor()
      await page.getByRole('button', { name: 'Undo' }).click()
      await page.locator('.facts:has-text("Night shift")').waitFor({ state: 'detached' })
      expect((await stage.admin('GET', `/keys/${id}`)).json.data.note).toBeNull()
    })
  })

  it('of a policy are taken back in the editor, too', async () => {
    const { id } = await stage.gateway.newKey({ policy: { version: 1, maxOutputTokens: 300 } })
    await on(`/console/keys/${id}/policy`, async (page) => {
      const json = page.getByLabel('Policy as JSON')
      await json.fill('{"version": 1, "maxOutputTokens": 200}')
      await page.getByRole('button', { name: 'Save…' }).click()
      await page.getByRole('button', { name: 'Save policy' }).click()
      await page.locator('dialog').waitFor({ state: 'detached' })
      await page.getByRole('button', { name: 'Undo' }).click()
      await expect.poll(() => json.inputValue()).toContain('300')
    })
  })
})

describe.skipIf(!hasBrowser)('an account', () => {
  it('shows what was booked in the course of its balance', async () => {
    await on('/console/accounts/weir/overview', async (page) => {
      await page.locator('.plot canvas').waitFor()
      await expect
        .poll(() => page.locator('[aria-label="Balance over 30 days"]').innerText())
        .toMatch(/booked: \d{4}-\d\d-\d\d \$50\./)
    })
  })

  it('that two operators change keeps both changes', async () => {
    await on('/console/accounts/weir/overview', async (page) => {
      await page.keyboard.press('e')
      await page.getByLabel('Note').fill('Invoices to the harbour')
      await stage.admin('PATCH', '/accounts/weir', { rpm_limit: 900 })
      await page.getByRole('button', { name: 'Save' }).click()
      await page.locator('text=Another operator changed this meanwhile.').waitFor()
      await expect.poll(() => page.locator('dialog').innerText()).toContain('900')
      await page.getByRole('button', { name: 'Apply mine on top' }).click()
      await page.locator('dialog').waitFor({ state: 'detached' })
      const { json } = await stage.admin('GET', '/accounts/weir')
      expect(json.data).toMatchObject({ note: 'Invoices to the harbour', rpm_limit: 900 })
    })
  })
})

describe.skipIf(!hasBrowser)('a key', () => {
  it('shows the course of its spend and calls, and its limits', async () => {
    await on(`/console/keys/${places.KEY!}/overview`, async (page) => {
      await page.locator('.tiles .spark').nth(1).waitFor()
      await expect
        .poll(() => page.locator('.tile:has-text("Calls, 30 days") .tile-figure').innerText())
        .toBe('2')
      await expect
        .poll(() => page.locator('.limits').innerText())
        .toMatch(/USD a month[\s\S]*of \$5\.00/)
      await expect.poll(() => page.title()).toMatch(/ · key · Sluicegate$/)
      // The answer had the status 200.
      await page.locator('section:has(h2:text("Last refusals")) tbody tr').first().waitFor()
      await page.keyboard.press('c')
      await expect.poll(() => copied(page)).toBe(places.KEY)
    })
  })

  it('is stopped at once, and this is taken back by a button or a key', async () => {
    const { id } = await stage.gateway.newKey()
    await on(`/console/keys/${id}/overview`, async (page) => {
      await page.getByRole('button', { name: 'Disable' }).click()
      await page.locator('.screen-head:has-text("disabled")').waitFor()
      await page.getByRole('button', { name: 'Undo' }).click()
      await page.locator('.screen-head:has-text("active")').waitFor()
      await page.getByRole('button', { name: 'Disable' }).click()
      await page.locator('.screen-head:has-text("disabled")').waitFor()
      await page.keyboard.press('z')
      await page.locator('.screen-head:has-text("active")').waitFor()
    })
  })

  it('gets its models from the catalog, by kind, by vendor or one by one', async () => {
    await on('/console/keys?new=kiosk', async (page) => {
      await page.locator('.picker summary').click()
      await page.getByRole('button', { name: '+ ocr (1)' }).click()
      const field = page.getByLabel('Models', { exact: true })
      await expect.poll(() => field.inputValue()).toBe('mock/ocr')
      await page.getByLabel('mock/large').check()
      await expect.poll(() => field.inputValue()).toBe('mock/ocr mock/large')
      await page.getByRole('checkbox', { name: /^mock\/\* / }).check()
      await expect.poll(() => page.getByLabel('mock/speech').isDisabled()).toBe(true)
      await page.getByRole('checkbox', { name: /^mock\/\* / }).uncheck()
      await page.getByLabel('mock/large').uncheck()
      await page.locator('text=Matches 1 of').waitFor()
    })
  })
})

describe.skipIf(!hasBrowser)('an account', () => {
  it('says what its new keys get, and each setting that is left empty is theirs', async () => {
    const new_keys = {
      limits: [{ unit: 'usd', window: 'week', value: '5' }],
      models: ['mock/echo'],
      policy: { version: 1, bannedPatterns: ['heron'] },
      expires_in: 30 * 86_400,
    }
    await stage.admin('POST', '/accounts', { id: 'frugal', name: 'Frugal' })
    await stage.admin('PATCH', '/accounts/frugal', { new_keys })
    await on('/console/keys?account=frugal&new=frugal', async (page) => {
      const dialog = page.locator('dialog')
      await dialog
        .getByText(
          'New keys of Frugal get what is left empty here: at most $5.00 a week; the models mock/echo; a policy of 1 rule; an end after 30 days.',
        )
        .waitFor()
      await dialog.getByLabel('Name').fill('desk')
      await expect
        .poll(() => dialog.getByLabel('Policy').locator('option:checked').innerText())
        .toBe('as for new keys, 1 rule')
      await dialog.getByRole('button', { name: 'Create key' }).click()
      await dialog.locator('.secret code').waitFor()
    })
    const { json } = await stage.admin('GET', '/keys?account=frugal')
    expect(json.data[0]).toMatchObject({ models: ['mock/echo'], policy: new_keys.policy })
  })

  it('shows the alerts on it and its keys', async () => {
    await stage.gateway.newAccount('thin', '2')
    await stage.admin('POST', '/accounts/thin/adjust', { usd: '-1.5', reason: 'a correction' })
    const alerts = async () => (await stage.admin('GET', '/accounts/thin')).json.data.alerts
    await expect.poll(async () => (await alerts())[0]?.kind).toBe('balance.low')
    await on('/console/accounts/thin/overview', async (page) => {
      const panel = page.locator('section', { has: page.locator('h2:text-is("Alerts")') })
      await panel.getByText('Low balance').waitFor()
      await panel.getByRole('button', { name: 'Mute a day' }).click()
      await panel.getByText('silent until').waitFor()
    })
  })
})

describe.skipIf(!hasBrowser)('a form', () => {
  it('asks before what was typed is thrown away', async () => {
    await on('/console/keys', async (page) => {
      await page.getByRole('button', { name: 'New key' }).click()
      const dialog = page.locator('dialog')
      await dialog.getByLabel('Name').fill('Night desk')
      await page.keyboard.press('Escape')
      await dialog.getByText('What was typed here is not saved.').waitFor()
      expect(await dialog.getByRole('button', { name: 'Keep editing' }).evaluate(isFocused)).toBe(
        true,
      )
      await page.keyboard.press('Enter')
      await expect.poll(() => dialog.getByLabel('Name').inputValue()).toBe('Night desk')
      await dialog.getByRole('button', { name: 'Close' }).click()
      await dialog.getByRole('button', { name: 'Discard' }).click()
      await dialog.waitFor({ state: 'detached' })
    })
  })

  it('in which nothing was typed closes at once', async () => {
    await on('/console/keys', async (page) => {
      await page.getByRole('button', { name: 'New key' }).click()
      await page.locator('dialog').waitFor()
      await page.keyboard.press('Escape')
      await page.locator('dialog').waitFor({ state: 'detached' })
    })
  })
})

describe.skipIf(!hasBrowser)('a price list', () => {
  it('of which nothing can be taken says so, and what it left out', async () => {
    const row = { litellm_provider: 'acme', mode: 'chat', input_cost_per_token: 1e-6 }
    const list = JSON.stringify({ 'acme/plain': row })
    await on('/console/models', async (page) => {
      await page.getByRole('button', { name: 'Import prices' }).click()
      await page.locator('dialog').getByLabel('From', { exact: true }).selectOption('file')
      const file = { name: 'list.json', mimeType: 'application/json', buffer: Buffer.from(list) }
      await page.locator('input[type=file]').setInputFiles(file)
      await page.getByRole('button', { name: 'Compare' }).click()
      await page.getByText('1 row of the vendor acme').waitFor()
      await page.getByText('This list has no price that could be taken over.').waitFor()
      await expect.poll(() => page.getByText('up to date').count()).toBe(0)
    })
  })
})

describe.skipIf(!hasBrowser)('a policy', () => {
  it('says beside each pattern what it matches, and what a client would get', async () => {
    const policy = { version: 1, bannedPatterns: ['heron', 'egret'], guard: { onBlock: 'error' } }
    const { id } = (await stage.admin('POST', '/accounts/kiosk/keys', { name: 'bird', policy }))
      .json.data
    await on(`/console/keys/${id}/policy`, async (page) => {
      await page.getByLabel('Input', { exact: true }).fill('Where does the heron nest?')
      await page.locator('.patterns li:has-text("“heron” in the input")').waitFor()
      await expect
        .poll(() => page.locator('.patterns li').nth(1).innerText())
        .not.toContain('matches')
      const sees = page.locator('section:has(> h3:text("Client sees"))')
      await expect.poll(() => sees.innerText()).toContain('400 policy_violation')
      await page.getByLabel('Input', { exact: true }).fill('')
      await page.getByLabel('Output', { exact: true }).fill('It is a small white egret')
      await page.locator('.patterns li:has-text("“egret” in the output")').waitFor()
      await sees.getByText('an error event: policy_violation').waitFor()
      await expect.poll(() => sees.innerText()).toContain('X-Service-Guard: outcome=blocked')
    })
  })

  it('is compared with that of another key', async () => {
    const { id } = await stage.gateway.newKey({ policy: { version: 1, maxOutputTokens: 300 } })
    await on(`/console/keys/${id}/policy`, async (page) => {
      await page.getByRole('button', { name: 'To another key…' }).click()
      await page.getByLabel('Key to compare with').fill(places.KEY!)
      await page.getByRole('button', { name: 'Compare with' }).click()
      const panel = page.locator('section[aria-label=Difference]')
      await panel.getByText('maxOutputTokens').waitFor()
      await expect.poll(() => panel.innerText()).toMatch(/400\s+300\s+tighter/)
      await page.getByRole('button', { name: 'To saved' }).click()
      await panel.getByText('It is the saved one.').waitFor()
    })
  })
})

describe.skipIf(!hasBrowser)('the holder of a key', () => {
  it('sees the last 30 days, and why a call was refused', async () => {
    const { page, faults } = await stage.page({ token: undefined })
    await page.goto('/me')
    await page.fill('input[type=password]', stage.gateway.key.secret)
    await page.keyboard.press('Enter')
    const panel = page.locator('section:has(h2:text("Last 30 days"))')
    await panel.getByText('Equals the ledger').waitFor()
    await panel.getByText('Last refusal: rejected (404, model not found)').waitFor()
    await panel.getByText('What does that mean?').click()
    await panel.getByText('The gateway has no model of that name.').waitFor()
    expect(faults).toEqual([])
    await page.context().close()
  })
})

describe.skipIf(!hasBrowser)('a narrow window', () => {
  it('keeps a value of the configuration in one piece', async () => {
    const { page } = await stage.page({ width: 760 })
    await page.goto('/console/settings/configuration')
    await settled(page)
    const broken = await page.locator('.settings td.mono').evaluateAll(brokenOf)
    expect(broken).toEqual([])
    await page.context().close()
  })

  it('has the parts of a screen in one line, which is scrolled to the one that is shown', async () => {
    const { page } = await stage.page({ width: 360 })
    await page.goto('/console/settings/gateways')
    await settled(page)
    const tabs = page.locator('.tabs a')
    const boxes = await Promise.all((await tabs.all()).map((one) => one.boundingBox()))
    expect(new Set(boxes.map((box) => box!.y)).size).toBe(1)
    const shown = (await page.locator('.tabs [aria-current]').boundingBox())!
    expect(shown.x).toBeGreaterThanOrEqual(0)
    expect(shown.x + shown.width).toBeLessThanOrEqual(360)
    expect(await overflowOf(page)).toBe(0)
    await page.context().close()
  })

  it('shows the word of the search whole, or a sign in its place', async () => {
    const { page } = await stage.page({ width: 360 })
    // What else the line has takes its room.
    await page.route('**/admin/session', async (route) => {
      const { data } = (await stage.admin('GET', '/session')).json
      const alerts = Array.from({ length: 12 }, () => ({ kind: 'balance.low' }))
      const status = { ...data.status, alerts }
      await route.fulfill({ json: { data: { ...data, demo: true, status } } })
    })
    await page.goto('/console/settings/gateways')
    await settled(page)
    const sign = page.locator('.search .glass')
    for (const width of [360, 390, 480, 759]) {
      await page.setViewportSize({ width, height: 800 })
      const field = (await page.locator('.search input').boundingBox())!
      expect([width, await sign.isVisible()]).toEqual([width, field.width < 88])
      expect(field.width).toBeGreaterThanOrEqual(40)
      expect([width, await overflowOf(page)]).toEqual([width, 0])
    }
    await page.locator('.search input').focus()
    await expect.poll(() => sign.isVisible()).toBe(false)
    await page.context().close()
  })
})

/** Runs in the page: short texts that take more than one line. */
function brokenOf(elements: unknown[]): string[] {
  return (elements as BrokenElement[])
    .filter((element) => {
      const range = element.ownerDocument.createRange()
      range.selectNodeContents(element)
      const lines = new Set([...range.getClientRects()].map(({ y }) => y))
      return element.innerText.length < 16 && lines.size > 1
    })
    .map(({ innerText }) => innerText)
}

interface BrokenElement {
  readonly innerText: string
  readonly ownerDocument: {
    createRange(): {
      selectNodeContents(element: unknown): void
      getClientRects(): Iterable<{ readonly y: number }>
    }
  }
}
