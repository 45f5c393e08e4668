/** Payments of customers on the operator's screens: what was paid for no order is booked, links are made, the provider is asked. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { formatPico } from '../../src/money/money.ts'
import { deliver, fakeProvider, paid, paymentsOf, reversal } from '../payments/_provider.ts'
import { hasBrowser, overflowOf, settled, shoot, Stage, TOKEN, violationsOf } from './_browser.ts'

const fake = fakeProvider()
let stage: Stage
const orders: string[] = []

beforeAll(async () => {
  if (!hasBrowser) return
  const admin = { token: TOKEN }
  stage = await Stage.open({ ...paymentsOf(fake), admin, models: {} })
  const { url } = stage.gateway
  for (const usd of ['25', '25', '100', '12.5']) {
    const { json } = await stage.admin('POST', '/accounts/acme/checkout', { usd })
    orders.push(json.data.reference)
  }
  await deliver(url, [paid(orders[0]!), paid(orders[2]!, undefined, '92.00')])
  await deliver(url, [reversal('refunded', orders[2]!, '9.20')])
  await deliver(url, [paid('an-order-of-another-shop', 'pi_3QkUnknown', '46.00')])
})
afterAll(async () => {
  if (hasBrowser) await stage[Symbol.asyncDispose]()
})

const usdOf = async () => formatPico(await stage.gateway.balance())

describe.skipIf(!hasBrowser)('payments', () => {
  it.each([
    ['light', 1440],
    ['dark', 1440],
    ['light', 760],
    ['dark', 760],
    ['light', 360],
    ['dark', 360],
  ] as const)('can be read and used in the theme %s at %i px', async (theme, width) => {
    const { page, faults } = await stage.page({ theme, width })
    const screens = {
      payments: '/console/payments',
      'payments-filtered': '/console/payments?state=lapsed',
      payment: `/console/payments?open=${orders[2]}`,
      'payment-open': `/console/payments?open=${orders[1]}`,
      'payment-unmatched': '/console/payments?open=pi_3QkUnknown',
      'account-payments': '/console/accounts/acme/payments',
      'account-statement': '/console/accounts/acme/statement',
    }
    for (const [name, address] of Object.entries(screens)) {
      await page.goto(address)
      await settled(page)
      await shoot(page, `${theme}/${width}/${name}`)
      expect([name, await violationsOf(page), await overflowOf(page), faults]).toEqual([
        name,
        [],
        0,
        [],
      ])
    }
    await page.goto('/console/accounts/acme/payments')
    await page.getByRole('button', { name: 'Payment link' }).click()
    await shoot(page, `${theme}/${width}/payment-link`)
    expect(await violationsOf(page)).toEqual([])
    await page.context().close()
  })

  it('are asked for, and one for no order is booked to the account that is chosen', async () => {
    const { page } = await stage.page()
    await page.goto('/console/payments')
    await page.getByRole('link', { name: orders[1]! }).click()
    const sheet = page.getByRole('dialog')
    await sheet.getByRole('button', { name: 'Ask the provider' }).click()
    await page.getByText('The provider tells nothing new').waitFor()
    fake.found.set(`page_${orders[1]}`, [paid(orders[1]!)])
    await sheet.getByRole('button', { name: 'Ask the provider' }).click()
    await page.getByText('The payment is booked').waitFor()
    expect(await usdOf()).toBe('240')
    await page.goto('/console/payments?state=unmatched')
    await page.getByRole('link', { name: 'pi_3QkUnknown' }).click()
    await sheet.getByRole('button', { name: 'Book' }).click()
    await sheet.getByText('Choose the account of this customer.').waitFor()
    await sheet.getByLabel('Account').fill('acme')
    await sheet.getByRole('option').first().click()
    await sheet.getByRole('button', { name: 'Book' }).click()
    await page.getByText('Booked $50 to acme').waitFor()
    expect(await usdOf()).toBe('290')
    await page.context().close()
  })

  it('are ordered by a link that is sent', async () => {
    const { page } = await stage.page()
    await page.goto('/console/accounts/acme/payments')
    await page.getByRole('button', { name: 'Payment link' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Credit, USD').fill('1')
    await page.keyboard.press('Enter')
    await dialog.getByText('expected an amount from 5 to 1000').waitFor()
    await dialog.getByLabel('Credit, USD').fill('50')
    await page.keyboard.press('Enter')
    await dialog.getByText('46.00 EUR').waitFor()
    const { reference } = fake.orders.at(-1)!
    await dialog.getByText(`https://pay.example/${reference}`).waitFor()
    await dialog.getByRole('button', { name: 'Done' }).click()
    await page.getByRole('link', { name: reference }).waitFor()
    await page.context().close()
  })
})
