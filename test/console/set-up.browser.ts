/** Vendors and models are set up, tested and removed in the forms of the console. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { createTestGateway, type TestGateway } from '../_setup.ts'
import { configuration, PLANTED, vendor } from '../gateway/_managed.ts'
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
const cwd = mkdtempSync(join(tmpdir(), 'console-'))

beforeAll(async () => {
  if (!hasBrowser) return
  const config = JSON.stringify(configuration({ admin: { token: TOKEN } }))
  writeFileSync(join(cwd, 'gateway.config.json'), config)
  gateway = await createTestGateway(await loadConfig({ cwd, env: {} }), cwd)
  visitors = await Visitors.open(gateway.url)
})
afterAll(async () => {
  if (hasBrowser) {
    await visitors[Symbol.asyncDispose]()
    await gateway.close()
  }
  rmSync(cwd, { recursive: true, force: true })
})

it('a vendor with its key and a model are added, tested and removed', async (context) => {
  if (!hasBrowser) context.skip()
  const upstream = await vendor()
  const { page, faults } = await visitors.page()
  await page.goto('/console/settings/set-up')
  await settled(page)
  const form = page.locator('form').first()
  await form.getByLabel('Vendor or plugin').selectOption('openai-compatible')
  await form.getByLabel('Name').fill('acme')
  await form.getByLabel('Address').fill(`${upstream.url}/v1`)
  await form.getByLabel('API key').fill(PLANTED)
  await form.getByRole('button', { name: 'Test' }).click()
  await page.getByText(/answered in \d+ ms, 2 models/).waitFor()
  await form.getByRole('button', { name: 'Add' }).click()
  await page.getByRole('rowheader', { name: 'acme', exact: true }).waitFor()
  const second = page.locator('form').nth(1)
  await second.getByLabel('Id').fill('acme/one')
  await second.getByLabel('Price of a token of the prompt').fill('0.000001')
  await second.getByLabel('Price of a token of the answer').fill('0.000002')
  await second.getByRole('button', { name: 'Add' }).click()
  const row = page.getByRole('row', { name: /acme\/one/ })
  await row.getByRole('button', { name: 'Test' }).click()
  await row.getByText(/answered in \d+ ms/).waitFor()
  const chat = { model: 'acme/one', messages: [{ role: 'user', content: 'hi' }] }
  expect((await gateway.chat(chat)).status).toBe(200)
  await shoot(page, 'set-up')
  expect(await violationsOf(page)).toEqual([])
  expect(await overflowOf(page)).toBe(0)
  expect(await page.content()).not.toContain(PLANTED)
  await row.getByRole('button', { name: 'Remove' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click()
  await row.waitFor({ state: 'detached' })
  expect((await gateway.chat(chat)).status).toBe(404)
  expect(faults).toEqual([])
})
