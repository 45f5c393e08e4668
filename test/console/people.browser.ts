/** Tokens are made and ended, and members invited, in the forms of the console. */
import { expect, it } from 'vitest'
import { createTestGateway, MOCK_CONFIG } from '../_setup.ts'
import { browsed, hasBrowser, overflowOf, settled, shoot, TOKEN, violationsOf } from './_browser.ts'

const both = browsed(() => createTestGateway({ ...MOCK_CONFIG, admin: { token: TOKEN } }))

it('a token is made and ended, and a member is invited', async (context) => {
  if (!hasBrowser) context.skip()
  const { gateway, visitors } = both
  const { page, faults } = await visitors.page()
  await page.goto('/console/settings/people')
  await settled(page)
  await page.getByText('There are no members yet. To invite one, choose the account').waitFor()
  const tokens = page.locator('form').first()
  await tokens.getByLabel('Name').fill('ci')
  await tokens.getByText('Show as YAML and curl').click()
  await expect
    .poll(() => tokens.locator('pre').allInnerTexts())
    .toEqual([
      'admin:\n  tokens:\n    - name: ci\n      role: viewer\n      token: "${SLUICEGATE_TOKEN}"',
      expect.stringContaining('-d \'{"name":"ci","role":"viewer"}\''),
    ])
  await tokens.getByRole('button', { name: 'Make token' }).click()
  const secret = (await page.getByText(/^sat-sluice-\w{46}$/).textContent())!
  const status = async () => (await gateway.ask('GET', '/admin/status', { key: secret })).status
  expect(await status()).toBe(200)
  const row = page.getByRole('row', { name: /^ci / })
  await row.getByRole('button', { name: 'End' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'End token' }).click()
  await row.waitFor({ state: 'detached' })
  expect(await status()).toBe(401)
  const members = page.locator('form', { has: page.getByLabel("Member's name") })
  await members.getByLabel('Account', { exact: true }).fill('acme')
  await members.getByRole('option', { name: 'acme' }).click()
  await members.getByLabel("Member's name").fill('Ada')
  await members.getByText('Show as curl').click()
  await expect
    .poll(() => members.locator('pre').innerText())
    .toContain('"account":"acme","name":"Ada"')
  await members.getByRole('button', { name: 'Invite' }).click()
  const link = (await page.getByText(/\/me#invite=once\./).textContent())!
  await page.getByRole('row', { name: /^Ada / }).waitFor()
  await shoot(page, 'people')
  expect(await violationsOf(page)).toEqual([])
  expect(await overflowOf(page)).toBe(0)
  expect(faults).toEqual([])
  const ticket = link.split('#invite=')[1]
  const headers = { 'sec-fetch-site': 'same-origin' }
  const invited = await gateway.ask('POST', '/me/api/session', {
    key: null,
    headers,
    body: { ticket },
  })
  expect(invited.status).toBe(200)
})
