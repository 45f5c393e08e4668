/** Work that an operator does, from the first sign-in on, and what must never happen on the way. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Page } from 'playwright-core'
import { signInLink } from '../../src/server/admin/session.ts'
import { hasBrowser, keptOf, settled, shoot, Stage, TOKEN, VIEWER } from './_browser.ts'
import { Keyboard } from './_hands.ts'

let stage: Stage
beforeAll(async () => {
  if (hasBrowser) stage = await Stage.open()
})
afterAll(async () => {
  if (hasBrowser) await stage[Symbol.asyncDispose]()
})

/** All text of the page that is anywhere but in the gateway. */
function everything(page: Page): Promise<string> {
  return page.evaluate(() => {
    const global = globalThis as unknown as {
      document: {
        documentElement: { outerHTML: string }
        querySelectorAll(selector: string): Iterable<{ value: string }>
      }
      localStorage: object
      sessionStorage: object
      location: { href: string }
      history: { state: unknown }
    }
    const { document, localStorage, sessionStorage, location, history } = global
    const values = [...document.querySelectorAll('input,textarea')].map(({ value }) => value)
    return [
      document.documentElement.outerHTML,
      ...values,
      JSON.stringify(localStorage),
      JSON.stringify(sessionStorage),
      location.href,
      JSON.stringify(history.state),
    ].join('\n')
  })
}

describe.skipIf(!hasBrowser)('by the keyboard alone', () => {
  it('an operator makes an account and a key, writes its policy, finds what it refused, rotates and disables it', async () => {
    const { page, faults } = await stage.page({ token: undefined })
    await page.goto('/console/accounts')
    await page.locator('input[type=password]').first().waitFor()
    await page.keyboard.type(TOKEN)
    await page.keyboard.press('Enter')
    await page.locator('h1:has-text("Accounts")').first().waitFor()
    await settled(page)

    const keys = new Keyboard(page, 'journey/keys')
    await keys.press('New account')
    await keys.fill('Name', 'Museum kiosk')
    await keys.fill('Id', 'museum')
    await keys.press('Create account')
    await page.locator('h1:has-text("Museum kiosk")').first().waitFor()
    await settled(page)

    await keys.press('Add credits')
    await keys.fill('Amount, USD', '12.345678')
    await keys.press('Add credits')
    await page.locator('text=$12.345678').first().waitFor()

    await keys.place('Keys', 'k')
    await page.locator('h1:has-text("Keys")').first().waitFor()
    await settled(page)
    await keys.press('New key', 'n')
    await page.locator('dialog').first().waitFor()
    await keys.fill('Name', 'desk')
    await keys.choose('Account', 'Museum')
    await keys.press('Create key')
    await page.locator('.secret code').first().waitFor()
    const secret = (await page.textContent('.secret code'))!
    expect(secret).toMatch(/^sk-sluice-/)
    await keys.press('It is stored')
    await page.locator('.secret').waitFor({ state: 'detached' })
    expect(await everything(page)).not.toContain(secret)
    const { value: cookie } = (await page.context().cookies())[0]!
    expect(await keptOf(page, ['Museum kiosk', secret, TOKEN, cookie])).toEqual(['Museum kiosk'])

    await page.locator('h1:has-text("desk")').first().waitFor()
    await settled(page)
    await keys.press('Policy', 'e')
    await page.locator('section[aria-label=Form]').first().waitFor()
    await keys.press('Add pattern')
    await keys.fill('Pattern 1', 'ticket-(\\d{4,8}')
    await page.locator('.patterns .error').first().waitFor()
    await keys.fill('Pattern 1', 'project heron')
    await page.locator('.patterns .error').waitFor({ state: 'detached' })
    await keys.fill('Output', 'Ask about Project Heron today')
    await page.locator('mark').first().waitFor()
    await keys.press('Save…', 'Control+Enter')
    await page.locator('dialog').first().waitFor()
    await keys.press('Save policy')
    await page.locator('dialog').waitFor({ state: 'detached' })

    const refused = await stage.gateway.chat(
      { model: 'mock/echo', messages: [{ role: 'user', content: 'Tell me of project heron' }] },
      { key: secret },
    )
    expect(refused.json.choices[0].finish_reason).toBe('content_filter')
    await keys.press('', 'Escape')
    await keys.place('Requests', 'r')
    await page.locator('.row-link').first().waitFor()
    await keys.open('blocked')
    await page.locator('dialog.sheet .facts').first().waitFor()
    await expect.poll(() => page.textContent('dialog.sheet')).toContain('blocked')
    await keys.press('', 'Escape')
    await page.locator('dialog').waitFor({ state: 'detached' })

    await page.goBack()
    await page.goto('/console/keys?account=museum')
    await keys.open('desk')
    await page.locator('h1:has-text("desk")').first().waitFor()
    await settled(page)
    await keys.press('Rotate')
    await page.locator('dialog').first().waitFor()
    await keys.press('Rotate')
    await page.locator('.secret code').first().waitFor()
    const next = (await page.textContent('.secret code'))!
    expect(next).not.toBe(secret)
    await keys.press('It is stored')
    await page.locator('.secret').waitFor({ state: 'detached' })
    await keys.press('Disable')
    await page.locator('text=disabled').first().waitFor()
    const stopped = await stage.gateway.chat({ model: 'mock/echo', messages: [] }, { key: next })
    expect(stopped.status).toBe(401)
    expect(faults).toEqual([])
    await page.context().close()
  })
})

describe.skipIf(!hasBrowser)('a sign-in link', () => {
  it('signs in, leaves the address, and works once', async () => {
    const { page, faults } = await stage.page({ token: undefined })
    const { credentials } = stage.gateway.gateway.runtime
    const link = await signInLink(stage.gateway.url, { token: TOKEN }, credentials)
    const once = link.split('#token=')[1]!
    await page.goto(link.replace('/console#', '/console/requests#'))
    await page.locator('h1:has-text("Requests")').first().waitFor()
    await settled(page)
    expect(await everything(page)).not.toContain(once)
    expect(faults).toEqual([])
    await page.context().clearCookies()
    const second = await stage.page({ token: undefined })
    await second.page.goto(link)
    await second.page.locator('text=This sign-in link was used').first().waitFor()
    await page.context().close()
    await second.page.context().close()
  })
})

describe.skipIf(!hasBrowser)('a viewer', () => {
  it('sees every button and what it lacks, and the gateway refuses what is tried all the same', async () => {
    const { page } = await stage.page({ token: VIEWER })
    await page.goto('/console/accounts')
    await settled(page)
    const button = page.locator('button:has-text("New account")')
    await expect.poll(() => button.getAttribute('aria-disabled')).toBe('true')
    await expect.poll(() => button.getAttribute('title')).toBe('needs the role operator or admin')
    await button.click({ force: true })
    await expect.poll(() => page.locator('dialog').count()).toBe(0)
    const status = await page.evaluate(async () => {
      const init = {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: '{"name":"mine"}',
      }
      return (await fetch('/admin/accounts', init)).status
    })
    expect(status).toBe(403)
    await page.context().close()
  })
})

describe.skipIf(!hasBrowser)('live', () => {
  it('says when its stream is refused, asks again, and keeps new calls back from a reader of the list', async () => {
    const key = await stage.gateway.newKey({ rpm: 1 })
    const chat = { model: 'mock/echo', messages: [{ role: 'user', content: 'Hello' }] }
    const call = () => stage.gateway.chat(chat, { key: key.secret })
    await call()
    const { page } = await stage.page()
    let isRefused = true
    await page.route('/admin/events?*', (route) =>
      isRefused ? route.fulfill({ status: 503 }) : route.continue(),
    )
    await page.goto(`/console/requests?key=${key.id}&live=on`)
    await page.getByRole('button', { name: 'Live lost, trying again' }).waitFor()
    isRefused = false
    await page.getByRole('button', { name: 'Live on' }).waitFor()
    await call()
    const rows = page.locator('tbody tr')
    await rows.filter({ hasText: '429' }).waitFor()
    await expect.poll(() => rows.count()).toBe(2)
    await page.keyboard.press('j')
    await call()
    await page.getByRole('button', { name: '1 new' }).click()
    await expect.poll(() => rows.count()).toBe(3)
    await page.context().close()
  })
})

describe.skipIf(!hasBrowser)('limits', () => {
  it('of a team are set as rows, raised and set back at their bars', async () => {
    const { page, faults } = await stage.page()
    const account = `crew-${Date.now()}`
    await stage.admin('POST', '/accounts', { id: account, name: 'Crew' })
    await stage.admin('PATCH', `/accounts/${account}`, { time_zone: 'Europe/Berlin' })
    await page.goto(`/console/accounts/${account}/teams`)
    await page.locator('button:has-text("New team")').click()
    await page.getByLabel('Name').fill('Field')
    await page.locator('button:has-text("Create team")').click()
    await page.locator('tbody a:has-text("Field")').click()
    await page.locator('section[aria-label=Field] button:has-text("Edit")').click()
    const dialog = page.locator('dialog')
    await dialog.locator('button:has-text("Add a limit")').click()
    await dialog.getByLabel('At most, USD').fill('5')
    await dialog.getByLabel('Per', { exact: true }).selectOption('week')
    await dialog.locator('button:has-text("Save")').click()
    await dialog.waitFor({ state: 'detached' })
    await page.locator('text=$0 of $5.00').first().waitFor()
    await page.locator('text=00:00 Europe/Berlin').first().waitFor()
    await page.locator('button:has-text("Raise until…")').click()
    await dialog.getByLabel('At most, USD').fill('50')
    await dialog
      .getByLabel('Until (UTC)')
      .fill(new Date(Date.now() + 86_400_000).toISOString().slice(0, 16))
    await dialog.locator('button:has-text("Raise")').last().click()
    await page.locator('text=$0 of $50.00').first().waitFor()
    await shoot(page, 'journey/team')
    await page.locator('button:has-text("Set back…")').click()
    await dialog.getByLabel('Reason').fill('a new week')
    await dialog.locator('button:has-text("Set back")').last().click()
    await dialog.waitFor({ state: 'detached' })
    const { json } = await stage.admin('GET', '/audit?limit=5')
    const actions = json.data.map(({ action }: { action: string }) => action)
    expect(actions).toEqual(expect.arrayContaining(['limit.raise', 'limit.reset']))
    expect(faults.map(String)).toEqual([])
    await page.context().close()
  })
})

describe.skipIf(!hasBrowser)('two operators', () => {
  it('who change one policy: the second one sees both changes, and nothing is lost', async () => {
    const key = await stage.gateway.newKey({ policy: { version: 1, maxOutputTokens: 400 } })
    const { page } = await stage.page()
    await page.goto(`/console/keys/${key.id}/policy`)
    await page.locator('section[aria-label=Form]').first().waitFor()
    await page.getByLabel('Answer limit, tokens').fill('300')
    const other = { policy: { version: 1, maxOutputTokens: 400, deny: ['math'] } }
    expect((await stage.admin('PATCH', `/keys/${key.id}`, other)).status).toBe(200)
    await page.locator('button:has-text("Save…")').click()
    await page.locator('dialog button:has-text("Save")').first().click()
    await page.locator('text=Another operator changed this meanwhile.').first().waitFor()
    const conflict = () => page.textContent('dialog')
    await expect.poll(conflict).toContain('deny')
    await expect.poll(conflict).toContain('["math"]')
    await shoot(page, 'journey/conflict')
    const stored = await stage.admin('GET', `/keys/${key.id}`)
    expect(stored.json.data.policy.deny).toEqual(['math'])
    await page.locator('button:has-text("Apply mine on top")').click()
    await page.locator('dialog').waitFor({ state: 'detached' })
    const after = await stage.admin('GET', `/keys/${key.id}`)
    // Each has changed another member, and both changes hold.
    expect(after.json.data.policy).toEqual({ version: 1, maxOutputTokens: 300, deny: ['math'] })
    await page.context().close()
  })
})

describe.skipIf(!hasBrowser)('the page of a key', () => {
  it('keeps the key out of everything, and forgets it', async () => {
    const { secret } = stage.gateway.key
    const { page, faults } = await stage.page({ token: undefined })
    await page.goto('/me')
    await page.fill('input[type=password]', secret)
    await page.keyboard.press('Enter')
    await page.locator('text=Requests a minute').first().waitFor()
    expect(await everything(page)).not.toContain(secret)
    await page.reload()
    await page.locator('text=Requests a minute').first().waitFor()
    await page.locator('button:has-text("Sign out")').click()
    await page.locator('input[type=password]').first().waitFor()
    expect(await everything(page)).not.toContain(secret)
    expect(await keptOf(page, [secret])).toEqual([])
    const { json } = await stage.admin(
      'GET',
      `/requests?key=${stage.gateway.key.id}&endpoint=/v1/key`,
    )
    expect(json.data, 'looking is in no list').toEqual([])
    expect(faults).toEqual([])
    await page.context().close()
  })
})
