/** A member that manages an account buys credit in a browser: from its page to that of the provider, and back. */
import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { createTestGateway, hello, MOCK_CONFIG } from '../_setup.ts'
import { fakeProvider, paid, paymentsOf } from '../payments/_provider.ts'
import { browserOfTest, hasBrowser, TOKEN } from './_browser.ts'

it.skipIf(!hasBrowser)('is credited when the payment is confirmed', async () => {
  const provider = createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Pay here</h1>')
  }).listen(0, '127.0.0.1')
  await once(provider, 'listening')
  onTestFinished(() => void provider.close())
  const fake = fakeProvider(`http://127.0.0.1:${(provider.address() as AddressInfo).port}`)
  const gateway = await createTestGateway({
    ...MOCK_CONFIG,
    ...paymentsOf(fake),
    admin: { token: TOKEN },
  })
  onTestFinished(() => gateway.close())
  const invite = async (name: string, manages: boolean) => {
    const body = { account: 'acme', name, manages }
    const made = await gateway.ask('POST', '/admin/members', { key: TOKEN, body })
    return gateway.url + new URL(made.json.link).pathname + new URL(made.json.link).hash
  }
  const newPage = await browserOfTest()
  const page = await newPage()
  await page.goto(await invite('Ada', true))
  await page.getByRole('button', { name: '25 USD' }).click()
  await page.getByLabel('Amount in USD').fill('3')
  await page.getByRole('button', { name: 'Pay' }).click()
  await page.getByText('expected an amount from 5 to 1000').waitFor()
  await page.getByRole('button', { name: '25 USD' }).click()
  await page.getByRole('button', { name: 'Pay' }).click()
  await page.locator('h1:has-text("Pay here")').waitFor()
  const { reference, amount } = fake.orders[0]!
  expect(amount).toBe('23.00')
  await page.goto(`${gateway.url}/me?payment=${reference}`)
  await page.getByText('The payment is being confirmed.').waitFor()
  fake.found.set(`page_${reference}`, [paid(reference)])
  await page.getByText('$25 were added.').waitFor()
  expect(await gateway.balance()).toBe(125n * 10n ** 12n)
  // One that does not manage the account has no such panel.
  const other = await newPage()
  await other.goto(await invite('Bob', false))
  await other.locator('h1:has-text("Your keys")').waitFor()
  await other.locator('.tile:has-text("of the balance")').waitFor()
  await expect.poll(() => other.getByText('Add credits').count()).toBe(0)
  // The holder of a key buys for its account.
  const holder = await newPage()
  await holder.goto(`${gateway.url}/me`)
  await holder.getByLabel('API key').fill(gateway.key.secret)
  await holder.getByRole('button', { name: 'Show my key' }).click()
  await holder.getByRole('button', { name: '10 USD' }).click()
  await holder.getByRole('button', { name: 'Pay' }).click()
  await holder.locator('h1:has-text("Pay here")').waitFor()
  const { reference: second } = fake.orders[1]!
  fake.found.set(`page_${second}`, [paid(second, undefined, '9.20')])
  await holder.goto(`${gateway.url}/me?payment=${second}`)
  await holder.getByText('$10 were added.').waitFor()
  expect(await gateway.balance()).toBe(135n * 10n ** 12n)
  await holder.locator('.tile:has-text("Left")').getByText('$135').waitFor()
  // A call has its bill.
  const { headers } = await gateway.chat(hello)
  await holder.goto(`${gateway.url}/me/requests`)
  await holder.locator('table.rows tbody a').first().click()
  const sheet = holder.getByRole('dialog')
  await sheet.getByText('3 × $0.000001').waitFor()
  await expect.poll(() => sheet.innerText()).toContain(String(headers['x-request-id']))
})
