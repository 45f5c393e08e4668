/** The console below a path, in a browser: its pages, its links and its requests stay there. */
import { expect, it, onTestFinished } from 'vitest'
import { hasNginx, startNginx } from '../_nginx.ts'
import { freePort } from '../_ports.ts'
import { createTestGateway, MOCK_CONFIG } from '../_setup.ts'
import { browserOfTest, hasBrowser, TOKEN } from './_browser.ts'

it.skipIf(!hasBrowser || !hasNginx).each([
  ['strips', '/'],
  ['keeps', ''],
])('works behind a proxy that %s the path', async (_, rest) => {
  const port = await freePort()
  const publicUrl = `http://127.0.0.1:${port}/ai/llm`
  const config = { ...MOCK_CONFIG, server: { publicUrl }, admin: { token: TOKEN } }
  const gateway = await createTestGateway(config)
  onTestFinished(() => gateway.close())
  const nginx = await startNginx(port!, `location /ai/llm/ { proxy_pass ${gateway.url}${rest}; }`)
  onTestFinished(() => nginx[Symbol.asyncDispose]())
  const page = await (await browserOfTest())()
  const faults: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'error') faults.push(message.text())
  })
  page.on('request', (request) => {
    if (!request.url().startsWith(publicUrl)) faults.push(`outside: ${request.url()}`)
  })
  await page.goto(`${publicUrl}/console/keys`)
  await page.getByLabel('Admin token').fill(TOKEN)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.locator('h1:has-text("Keys")').first().waitFor()
  await page.getByRole('link', { name: 'Accounts' }).first().click()
  await page.locator('h1:has-text("Accounts")').first().waitFor()
  expect(new URL(page.url()).pathname).toBe('/ai/llm/console/accounts')
  await page.getByRole('link', { name: 'acme' }).first().click()
  await page.waitForURL(
    ({ href }) => href.startsWith(`${publicUrl}/console/accounts`) && href.includes('acme'),
  )
  await page.goBack()
  await page.locator('h1:has-text("Accounts")').first().waitFor()
  await page.reload()
  await page.locator('h1:has-text("Accounts")').first().waitFor()
  expect(faults).toEqual([])
})
