/** Vendors and models are set up, tested, changed and removed in the console. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { createTestGateway } from '../_setup.ts'
import { configuration, PLANTED, vendor } from '../gateway/_managed.ts'
import { browsed, hasBrowser, overflowOf, settled, shoot, TOKEN, violationsOf } from './_browser.ts'

const both = browsed(async (cwd) => {
  const config = JSON.stringify(configuration({ admin: { token: TOKEN } }))
  writeFileSync(join(cwd, 'gateway.config.json'), config)
  return createTestGateway(await loadConfig({ cwd, env: {} }), cwd)
})

it('a vendor with its key and two models are added, tested, changed and removed', async (context) => {
  if (!hasBrowser) context.skip()
  const upstream = await vendor()
  const { gateway, visitors } = both
  const { page, faults } = await visitors.page()
  const statusOf = async (model: string) =>
    (await gateway.chat({ model, messages: [{ role: 'user', content: 'hi' }] })).status
  await page.goto('/console/models/vendors')
  await settled(page)

  await page.getByRole('button', { name: 'Add a vendor' }).click()
  const dialog = page.locator('dialog')
  await dialog.getByLabel('Search vendors').fill('openai-compatible')
  await page.keyboard.press('Enter')
  await dialog.getByLabel('Address').fill(`${upstream.url}/v1`)
  await dialog.getByLabel('API key').fill(PLANTED)
  await dialog.getByText('More', { exact: true }).click()
  await dialog.getByLabel('Name').fill('acme')
  await dialog.getByRole('button', { name: 'Continue' }).click()
  await dialog.getByText('answered with 2 models').waitFor()
  await dialog.getByRole('checkbox', { name: /^one/ }).check()
  await dialog.getByLabel('of the prompt').fill('1')
  await dialog.getByLabel('of the answer').fill('2.5')
  await dialog.getByText('Show as YAML and curl').click()
  await dialog.locator('pre').nth(1).waitFor()
  const shown = (await dialog.locator('pre').allInnerTexts()).join('\n')
  expect(shown).toContain('apiKey: "${ACME_API_KEY}"')
  expect(shown).toContain(`"apiKey":"'"$ACME_API_KEY"'"`)
  expect(shown).toContain('completion: "0.0000025"')
  expect(shown).not.toContain(PLANTED)
  await shoot(page, 'vendor-models')
  await dialog.getByRole('button', { name: 'Serve them' }).click()
  await dialog.waitFor({ state: 'detached' })
  expect(await statusOf('acme/one')).toBe(200)

  await page.getByRole('link', { name: 'acme', exact: true }).click()
  await dialog.getByRole('button', { name: 'Test' }).click()
  await dialog.getByText(/answered in \d+ ms, 2 models/).waitFor()
  await dialog.getByRole('button', { name: 'Ask the vendor' }).click()
  await dialog.getByText('Served 1').waitFor()
  await shoot(page, 'vendor')
  expect(await violationsOf(page)).toEqual([])
  await page.keyboard.press('Escape')

  await page.goto('/console/models')
  await page.getByRole('button', { name: 'Add a model' }).click()
  await dialog.getByLabel('Id').fill('house/fast')
  await dialog.getByRole('button', { name: 'Add a deployment' }).click()
  await dialog.getByLabel('Vendor').fill('acme')
  await dialog.getByLabel('Its name there').fill('two')
  await dialog.getByLabel('Other names').fill('fast')
  await dialog.getByLabel('Of the prompt').fill('nothing')
  await dialog.getByRole('button', { name: 'Check' }).click()
  await dialog.locator('.field.wrong .error').first().waitFor()
  await dialog.getByLabel('Of the prompt').fill('0.4')
  await dialog.getByLabel('Of the answer').fill('1.6')
  await dialog.getByRole('button', { name: 'Check' }).click()
  await dialog.getByText('added: house/fast').waitFor()
  await shoot(page, 'model-form')
  expect(await violationsOf(page)).toEqual([])
  expect(await overflowOf(page)).toBe(0)
  await dialog.getByRole('button', { name: 'Serve and test' }).click()
  await page.getByText(/house\/fast answered in \d+ ms/).waitFor()
  expect(await statusOf('fast')).toBe(200)

  await page.getByRole('link', { name: 'house/fast' }).click()
  await dialog.getByRole('button', { name: 'Edit' }).click()
  await page.getByLabel('Other names').fill('fast quick')
  await page.getByRole('button', { name: 'Save and test' }).click()
  await expect.poll(() => statusOf('quick')).toBe(200)

  await page.goto('/console/models/vendors?open=acme')
  await dialog.getByRole('button', { name: 'Remove' }).click()
  await page.getByText('These go with it').waitFor()
  await page
    .getByRole('dialog', { name: /^Remove acme/ })
    .getByRole('button', { name: 'Remove' })
    .click()
  await expect.poll(() => page.locator('dialog').count()).toBe(0)
  expect([await statusOf('acme/one'), await statusOf('fast')]).toEqual([404, 404])
  await page.getByRole('button', { name: 'Undo' }).click()
  await expect.poll(() => statusOf('fast')).toBe(200)
  expect(await page.content()).not.toContain(PLANTED)
  expect(faults).toEqual([])
})
