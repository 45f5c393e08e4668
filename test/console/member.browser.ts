/** An invited member in a browser: signs in by the link, makes a key, and signs out. */
import { expect, it, onTestFinished } from 'vitest'
import { createTestGateway, hello, MOCK_CONFIG } from '../_setup.ts'
import { browserOfTest, hasBrowser, overflowOf, TOKEN } from './_browser.ts'

/** A member of `acme` who has opened the link of an invitation. @param manages whether it manages the account */
async function signedIn(manages: boolean) {
  const gateway = await createTestGateway({ ...MOCK_CONFIG, admin: { token: TOKEN } })
  onTestFinished(() => gateway.close())
  const body = { account: 'acme', name: 'Ada', manages }
  const made = await gateway.ask('POST', '/admin/members', { key: TOKEN, body })
  const page = await (await browserOfTest())()
  await page.goto(`${gateway.url}${made.json.link}`)
  return { gateway, page }
}

it.skipIf(!hasBrowser)(
  'that manages an account invites another one, and has its statements',
  async () => {
    const { page } = await signedIn(true)
    await page.getByRole('link', { name: 'People' }).click()
    await page.getByLabel('Name').fill('Grace')
    await page.getByRole('button', { name: 'Invite' }).click()
    await page.locator('code:has-text("once.")').waitFor()
    await page.getByRole('rowheader', { name: 'Grace' }).waitFor()
    await page.getByRole('link', { name: 'Statements' }).click()
    await page.getByText('No statement is issued yet.').waitFor()
  },
)

it.skipIf(!hasBrowser)('makes a key of its own', async () => {
  const { gateway, page } = await signedIn(false)
  await page.locator('h1:has-text("Your keys")').waitFor()
  expect(page.url()).not.toContain('once.')
  // What is left for all its keys, and where to go for the first of them.
  await page.locator('.tile', { hasText: 'of the balance' }).waitFor()
  const size = page.viewportSize()!
  await page.setViewportSize({ width: 360, height: 900 })
  expect(await overflowOf(page)).toBe(0)
  await page.setViewportSize(size)
  await page.getByRole('link', { name: 'Playground' }).click()
  await page.getByText('There is no key to try models with.').waitFor()
  await page.locator('main').getByRole('link', { name: 'Keys' }).last().click()
  await page.getByRole('button', { name: 'New key' }).click()
  await page.getByLabel('Name').fill('laptop')
  await page.getByRole('button', { name: 'Make key' }).click()
  const secret = await page.getByText('shown only now').locator('code').first().textContent()
  expect((await gateway.chat(hello, { key: secret! })).status).toBe(200)
  // It is tried in the Playground, and charged as that key.
  await page.getByRole('link', { name: 'Playground' }).click()
  await page.getByLabel('Message').fill('Hello')
  await page.getByRole('button', { name: 'Send' }).click()
  await page.getByText(/^done ·/).waitFor()
  // A program is copied whole: it imports what it uses, and calls.
  await page.getByRole('link', { name: 'Connect', exact: true }).click()
  const python = await page.locator('pre', { hasText: 'from openai' }).textContent()
  expect(python).toMatch(
    /^import os\nfrom openai import OpenAI\n[^]*api_key=os\.environ\["API_KEY"\],\n\)/,
  )
  expect(python).toMatch(/\nprint\(answer\.choices\[0\]\.message\.content\)$/)
  await page.getByRole('link', { name: 'Keys', exact: true }).click()
  // Another secret is asked for twice, and is another one.
  await page.getByRole('button', { name: 'Rotate' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Rotate' }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  const next = page.getByText('shown only now').locator('code').first()
  expect((await gateway.chat(hello, { key: (await next.textContent())! })).status).toBe(200)
  // It is narrowed to fewer models, and its calls are listed.
  await page.getByRole('button', { name: 'Narrow' }).click()
  await page.getByRole('dialog').getByLabel('Models', { exact: true }).fill('mock/echo')
  await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await page.locator('td:has-text("mock/echo")').waitFor()
  await page.getByRole('link', { name: 'Calls' }).click()
  await page.locator('tbody tr').first().waitFor()
  await page.getByRole('link', { name: 'Usage' }).click()
  await page.getByRole('radio', { name: 'key' }).check()
  await page.locator('th:has-text("Key")').waitFor()
  await expect.poll(() => page.getByRole('link', { name: 'People' }).count()).toBe(0)
  await page.getByRole('link', { name: 'Keys', exact: true }).click()
  await page.getByRole('button', { name: 'Disable' }).first().click()
  await page.getByRole('button', { name: 'Enable' }).first().waitFor()
  expect((await gateway.chat(hello, { key: secret! })).status).toBe(401)
  await page.keyboard.press('h')
  await page.getByRole('dialog').getByText('A member of an account has the same').waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.locator('h1:has-text("Your keys")').waitFor({ state: 'detached' })
})
