/** Tokens are made and ended, and members invited, in the forms of the console. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createTestGateway, MOCK_CONFIG, type TestGateway } from '../_setup.ts'
import {
  hasBrowser,
  overflowOf,
  settled,
  shoot,
  TOKEN,
  violationsOf,
  Visitors,
} from './_browser.ts'

let gateway: TestGateway
let visitors: Visitors

beforeAll(async () => {
  if (!hasBrowser) return
  gateway = await createTestGateway({ ...MOCK_CONFIG, admin: { token: TOKEN } })
  visitors = await Visitors.open(gateway.url)
})
afterAll(async () => {
  if (!hasBrowser) return
  await visitors[Symbol.asyncDispose]()
  await gateway.close()
})

it('a token is made and ended, and a member is invited', async (context) => {
  if (!hasBrowser) context.skip()
  const { page, faults } = await visitors.page()
  await page.goto('/console/settings/people')
  await settled(page)
  const tokens = page.locator('form').first()
  await tokens.getByLabel('Name').fill('ci')
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
  await members.getByLabel("Member's name").fill('Ada')
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
