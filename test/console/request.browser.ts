/** The sheet of a call: what the ledger says beside the log, the limits that were in force, and a call that the log has lost. */
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { hello, MOCK_CONFIG } from '../_setup.ts'
import { BRIDGE, pages } from '../search/_setup.ts'
import { json, startUpstream, type FakeUpstream } from '../upstream.ts'
import { hasBrowser, settled, shoot, Stage } from './_browser.ts'

let stage: Stage
let page: Page
let vendor: FakeUpstream
let engine: FakeUpstream
beforeAll(async () => {
  if (!hasBrowser) return
  vendor = await startUpstream(json({ error: { message: 'The model sleeps' } }, 503))
  engine = await startUpstream(pages(BRIDGE))
  const pricing = { prompt: '0.000001', completion: '0.000001' }
  const deployments = [
    { provider: 'gone', model: 'm' },
    { provider: 'mock', model: 'echo', priority: 1 },
  ]
  const baseURL = `${vendor.url}/v1`
  const options = { baseURL: engine.url, apiKey: 'k' }
  stage = await Stage.open({
    providers: {
      ...MOCK_CONFIG.providers,
      gone: { use: 'openai-compatible', options: { baseURL } },
    },
    models: { ...MOCK_CONFIG.models, 'mock/flaky': { pricing, deployments } },
    search: { engines: { web: { use: 'parallel', options, price: '0.005' } } },
  })
  page = (await stage.page()).page
})
afterAll(async () => {
  if (!hasBrowser) return
  await stage[Symbol.asyncDispose]()
  await vendor.close()
  await engine.close()
})

/** The text of the sheet of a call. */
async function sheetOf(id: string): Promise<string> {
  await page.goto(`/console/requests?open=${id}`)
  await settled(page)
  return page.locator('dialog.sheet').innerText()
}

async function called(): Promise<string> {
  const key = await stage.gateway.newKey({ spendCap: { usd: '2.50', scope: 'month' } })
  const { headers } = await stage.gateway.chat(hello, { key: key.secret })
  return String(headers['x-request-id'])
}

describe.skipIf(!hasBrowser)('the sheet of a call', () => {
  it('shows that the ledger agrees, and the limits that were in force', async () => {
    const id = await called()
    const { ledger } = (await stage.admin('GET', `/requests/${id}`)).json.data
    const sheet = await sheetOf(id)
    expect(sheet).toContain(`Row ${ledger.seq} of the ledger says the same.`)
    expect(sheet).toMatch(/USD a month of the key\s+at most 2\.50/)
    expect(sheet).not.toContain('The request log has lost this call')
  })

  it('shows what was asked of vendors that failed and of search engines, and what they said', async () => {
    const { headers } = await stage.gateway.chat({
      ...hello,
      model: 'mock/flaky',
      plugins: [{ id: 'web' }],
    })
    const sheet = await sheetOf(String(headers['x-request-id']))
    expect(sheet).toMatch(/search web: ok/)
    expect(sheet).toMatch(/gone\/m, no capacity\s+status 503: The model sleeps/)
    expect(sheet).toMatch(/mock\/echo, answered/)
  })

  it('shows the bill line by line, and what was refunded of it', async () => {
    const id = await called()
    const path = `/requests/${id}`
    await expect.poll(async () => (await stage.admin('GET', path)).json.data.bill).toBeTruthy()
    const { bill } = (await stage.admin('GET', path)).json.data
    const sheet = await sheetOf(id)
    const [{ quantity }] = bill.lines
    expect(sheet).toMatch(
      new RegExp(`prompt ${quantity} × \\$0\\.000001\\s+\\$0\\.00000${quantity}`),
    )
    await shoot(page, 'light/1440/request-bill')
    await stage.admin('POST', `${path}/refund`, { reason: 'cut off' })
    expect(await sheetOf(id)).toMatch(/Refunded: cut off\s+−\$0\.000009/)
  })

  it('comes from the ledger where the log has lost the call', async () => {
    const id = await called()
    const { data } = (await stage.admin('GET', `/requests/${id}`)).json
    const folder = stage.gateway.gateway.runtime.config.log.path!
    const days = readdirSync(folder).filter((name) => /^\d{4}-\d\d-\d\d$/.test(name))
    expect(days).not.toEqual([])
    for (const name of days) rmSync(join(folder, name), { recursive: true })
    const sheet = await sheetOf(id)
    expect(sheet).toContain('The request log has lost this call')
    expect(sheet).toContain(`Row ${data.ledger.seq} of the ledger says the same.`)
    expect(sheet).toContain('mock/echo')
    expect(sheet).toContain('completed')
  })
})
