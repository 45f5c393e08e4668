/** The overview says what is wrong, why and how often; its figures are their lists, and its acts mend it. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { hello, MOCK_CONFIG } from '../_setup.ts'
import { json, startUpstream, type FakeUpstream } from '../upstream.ts'
import { hasBrowser, overflowOf, settled, shoot, Stage, violationsOf } from './_browser.ts'

let stage: Stage
let vendor: FakeUpstream
beforeAll(async () => {
  if (!hasBrowser) return
  vendor = await startUpstream(json({ error: { message: 'Slow down' } }, 429))
  const options = (baseURL: string) => ({ baseURL: `${baseURL}/v1`, apiKey: 'key-of-the-vendor' })
  const price = { pricing: { prompt: '0.000001', completion: '0.000002' } }
  stage = await Stage.open({
    providers: {
      ...MOCK_CONFIG.providers,
      dead: { use: 'openai-compatible', options: options('http://127.0.0.1:9') },
      busy: { use: 'openai-compatible', options: options(vendor.url) },
    },
    models: {
      ...MOCK_CONFIG.models,
      'x/dead': { ...price, deployments: [{ provider: 'dead', model: 'm' }] },
      'x/busy': { ...price, deployments: [{ provider: 'busy', model: 'm' }] },
    },
  })
})
afterAll(async () => {
  if (!hasBrowser) return
  await stage[Symbol.asyncDispose]()
  await vendor.close()
})

it('a dead port and a busy vendor are lines with their cause, whose figures are lists', async (context) => {
  if (!hasBrowser) context.skip()
  const { page, faults } = await stage.page()
  await page.goto('/console')
  await page.getByText('Nothing needs attention').waitFor()
  for (const model of ['x/dead', 'x/dead', 'x/busy', 'x/busy', 'x/busy'])
    await stage.gateway.chat({ ...hello, model })
  const line = (model: string) => page.locator('.incident', { hasText: model })
  await line('x/dead').getByText('ECONNREFUSED 127.0.0.1:9: nothing listens there').waitFor()
  await line('x/busy').getByText('429 Slow down').waitFor()
  await settled(page)
  await shoot(page, 'incidents')
  expect(await violationsOf(page)).toEqual([])
  expect(await overflowOf(page)).toBe(0)
  await line('x/dead').getByRole('button', { name: 'What this means' }).click()
  const meaning = page.locator('.manual td:first-child code', { hasText: /^model\.down$/ })
  await meaning.waitFor()
  await expect.poll(() => meaning.evaluate(isInView)).toBe(true)
  await page.keyboard.press('Escape')
  await line('x/busy').locator('[data-figure]').click()
  await page.locator('tbody tr').nth(2).waitFor()
  await expect.poll(() => page.locator('tbody tr').count()).toBe(3)
  await page.goBack()

  // Keys alone lead to the second line, and to its act.
  await line('x/busy').getByRole('button', { name: 'Cool down' }).waitFor()
  await page.keyboard.press('j')
  await page.keyboard.press('j')
  const act = await page.evaluate('document.activeElement.textContent')
  expect(['Cool down', 'Test now']).toContain(act)
  await line('x/busy').getByRole('button', { name: 'Cool down' }).click()
  await page.getByText('No call goes to busy/m for 5 minutes').waitFor()
  await page.keyboard.press('z')
  await page.getByText('Undone').waitFor()
  await line('x/dead').getByRole('button', { name: 'Test now' }).click()
  await page.getByText(/x\/dead failed: .*ECONNREFUSED/).waitFor()
  expect(faults).toEqual([])
})

/** Runs in the page: whether an element is in the part of its sheet that can be seen. */
function isInView(element: unknown): boolean {
  const { top, bottom } = (
    element as { getBoundingClientRect(): { top: number; bottom: number } }
  ).getBoundingClientRect()
  return top >= 0 && bottom <= (globalThis as unknown as { innerHeight: number }).innerHeight
}
