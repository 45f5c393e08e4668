/** One of very many is found and chosen as itself; a pasted secret is in no request; acts are found by their verb. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { hello } from '../_setup.ts'
import { hasBrowser, settled, shoot, Stage, violationsOf } from './_browser.ts'

const ACCOUNTS = 505

let stage: Stage
beforeAll(async () => {
  if (!hasBrowser) return
  stage = await Stage.open()
  for (let i = 0; i < ACCOUNTS; i++) await stage.gateway.newAccount(`cust-${i}`)
})
afterAll(async () => {
  if (hasBrowser) await stage[Symbol.asyncDispose]()
})

it('the last of 505 accounts is chosen as the payer of a key', async (context) => {
  if (!hasBrowser) context.skip()
  const { page, faults } = await stage.page()
  await page.goto('/console/accounts/cust-504/keys')
  await page.getByRole('button', { name: 'New key' }).first().click()
  const dialog = page.getByRole('dialog')
  const account = dialog.getByLabel('Account')
  await expect.poll(() => account.inputValue()).toBe('cust-504')
  await page.goto('/console/keys')
  await page.getByRole('button', { name: 'New key' }).first().click()
  await expect.poll(() => account.inputValue()).toBe('')
  await dialog.getByLabel('Name').fill('Harbor')
  await dialog.getByRole('button', { name: 'Create key' }).click()
  await dialog.getByText('Choose the account that pays.').waitFor()
  await account.click()
  await account.pressSequentially('504')
  await dialog.getByRole('option', { name: 'cust-504' }).waitFor()
  await shoot(page, 'choose')
  expect(await violationsOf(page)).toEqual([])
  await page.keyboard.press('Enter')
  await dialog.getByRole('button', { name: 'Create key' }).click()
  await page.locator('.secret code').waitFor()
  const secret = (await page.textContent('.secret code'))!
  await dialog.getByRole('button', { name: 'It is stored' }).click()
  await page.locator('h1:has-text("Harbor")').waitFor()
  const { json } = await stage.admin('GET', '/keys?account=cust-504')
  expect(json.data.map(({ name }: { name: string }) => name)).toEqual(['Harbor'])

  // The whole secret finds the key, and is in no request.
  const sent: string[] = []
  page.on('request', (request) => sent.push(`${request.url()} ${request.postData() ?? ''}`))
  await page.keyboard.press('/')
  await page.keyboard.insertText(secret)
  await page.getByRole('option', { name: /Harbor/ }).waitFor()
  await expect.poll(() => page.getByRole('combobox', { name: /Search/ }).inputValue()).toBe('')
  await shoot(page, 'leaked')
  expect(await violationsOf(page)).toEqual([])
  await page.getByRole('button', { name: 'It has leaked' }).click()
  await page.getByRole('button', { name: 'End it now, and rotate' }).click()
  await page.locator('.secret code').waitFor()
  expect(sent.filter((one) => one.includes(secret))).toEqual([])
  expect((await stage.gateway.chat(hello, { key: secret })).status).toBe(401)
  expect(faults).toEqual([])
})

it('a key is disabled by a word and its name from anywhere, and enabled again', async (context) => {
  if (!hasBrowser) context.skip()
  const { id } = await stage.gateway.newKey({ name: 'Kiosk' })
  const { page, faults } = await stage.page()
  await page.goto('/console/guard')
  await settled(page)
  await page.keyboard.press('/')
  await page.keyboard.type('dis kiosk')
  await page.getByRole('option', { name: 'Disable: key Kiosk' }).waitFor()
  await page.keyboard.press('Enter')
  await page.getByText('Disabled Kiosk').waitFor()
  const stateOf = async () => (await stage.admin('GET', `/keys/${id}`)).json.data.disabled
  expect(await stateOf()).toBe(true)
  await page.keyboard.press('z')
  await page.getByText('Undone').waitFor()
  expect(await stateOf()).toBe(false)
  expect(faults).toEqual([])
})

it('a page of the manual is found by a word of its title', async (context) => {
  if (!hasBrowser) context.skip()
  const { page, faults } = await stage.page()
  await page.goto('/console/usage')
  await settled(page)
  await page.keyboard.press('/')
  await page.keyboard.type('leaked')
  await page.getByRole('option', { name: 'Manual: A key has leaked' }).waitFor()
  await page.keyboard.press('Enter')
  await page.locator('dialog .manual').waitFor()
  await expect.poll(() => page.locator('dialog h2').first().innerText()).toBe('A key has leaked')
  expect(faults).toEqual([])
})

it('a vendor is found with what belongs to it, and a command from the screen that it opens', async (context) => {
  if (!hasBrowser) context.skip()
  const { page, faults } = await stage.page()
  await page.goto('/console/models')
  await settled(page)
  await page.keyboard.press('/')
  await page.keyboard.type('mock')
  await page.getByRole('option', { name: 'vendor mock' }).waitFor()
  await page.getByRole('option', { name: 'model mock/large' }).waitFor()
  await page.keyboard.press('Enter')
  await page.locator('dialog.sheet').getByText('Models that it offers').waitFor()
  expect(new URL(page.url()).search).toBe('?open=mock')
  await page.keyboard.press('Escape')

  // A command opens its dialog again where the screen is open already, and no address keeps it.
  await page.goto('/console/models')
  await settled(page)
  for (let i = 0; i < 2; i++) {
    await page.keyboard.press('/')
    await page.keyboard.type('import')
    await page.getByRole('option', { name: 'Import prices' }).waitFor()
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').getByLabel('From', { exact: true }).waitFor()
    expect(new URL(page.url()).search).toBe('')
    await page.keyboard.press('Escape')
    await page.locator('dialog').waitFor({ state: 'detached' })
  }
  expect(faults).toEqual([])
  await page.context().close()
})

it('an end user leads to their calls', async (context) => {
  if (!hasBrowser) context.skip()
  await stage.gateway.chat({ ...hello, user: 'visitor-7' })
  const { page } = await stage.page()
  await page.goto('/console')
  await settled(page)
  await page.keyboard.press('/')
  await page.keyboard.type('visitor-7')
  await page.getByRole('option', { name: 'user visitor-7' }).waitFor()
  await page.keyboard.press('Enter')
  await page.locator('tbody tr').first().waitFor()
  await expect.poll(() => page.locator('tbody tr').count()).toBe(1)
})

it('what was typed while the gateway could not be reached is sent afterwards', async (context) => {
  if (!hasBrowser) context.skip()
  const { page } = await stage.page()
  await page.goto('/console/keys')
  await settled(page)
  await page.getByRole('button', { name: 'New key' }).first().click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Name').fill('Tunnel')
  await dialog.getByLabel('Account').click()
  await dialog.getByLabel('Account').pressSequentially('cust-7')
  await dialog.getByRole('option', { name: 'cust-7' }).first().waitFor()
  await page.keyboard.press('Enter')
  await page.context().setOffline(true)
  await dialog.getByRole('button', { name: 'Create key' }).click()
  await dialog.getByText('The gateway cannot be reached.').waitFor()
  await page.context().setOffline(false)
  await expect.poll(() => dialog.getByLabel('Name').inputValue()).toBe('Tunnel')
  await dialog.getByRole('button', { name: 'Create key' }).click()
  await page.locator('.secret code').waitFor()
  await page.context().close()

  // A screen whose file did not come is shown by itself when the gateway answers.
  const other = (await stage.page()).page
  await other.goto('/console')
  await settled(other)
  await other.context().setOffline(true)
  await other.locator('.places').getByRole('link', { name: 'Guard' }).click()
  await other.getByText('The gateway cannot be reached.').first().waitFor()
  await expect.poll(() => other.getByText('guard.ts').count()).toBe(0)
  await other.context().setOffline(false)
  await other.locator('h1:has-text("Guard")').waitFor()
  await other.context().close()
})
