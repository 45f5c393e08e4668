/** An invited member in a browser: signs in by the link, makes a key, and signs out. */
import { chromium } from 'playwright-core'
import { expect, it, onTestFinished } from 'vitest'
import { createTestGateway, hello, MOCK_CONFIG } from '../_setup.ts'
import { hasBrowser, TOKEN } from './_browser.ts'

it.skipIf(!hasBrowser)('makes a key of its own', async () => {
  const gateway = await createTestGateway({ ...MOCK_CONFIG, admin: { token: TOKEN } })
  onTestFinished(() => gateway.close())
  const body = { account: 'acme', name: 'Ada', manages: false }
  const made = await gateway.ask('POST', '/admin/members', { key: TOKEN, body })
  const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium'
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] })
  onTestFinished(() => browser.close())
  const page = await browser.newPage()
  await page.goto(`${gateway.url}${made.json.link}`)
  await page.locator('h1:has-text("Your keys")').waitFor()
  expect(page.url()).not.toContain('once.')
  await page.getByLabel('Name').fill('laptop')
  await page.getByRole('button', { name: 'Make key' }).click()
  const secret = await page.getByText('shown only now').locator('code').first().textContent()
  expect((await gateway.chat(hello, { key: secret! })).status).toBe(200)
  await page.getByRole('button', { name: 'Disable' }).first().click()
  await page.getByRole('button', { name: 'Enable' }).first().waitFor()
  expect((await gateway.chat(hello, { key: secret! })).status).toBe(401)
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.locator('h1:has-text("Your keys")').waitFor({ state: 'detached' })
})
