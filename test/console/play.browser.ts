/** The Playground: a call of each modality as a key, with what was sent, received and charged. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Page } from 'playwright-core'
import { pngOfPixels } from '../_documents.ts'
import { hasBrowser, overflowOf, settled, shoot, Stage, violationsOf } from './_browser.ts'
import { furnish } from './_furniture.ts'

let stage: Stage
let places: Readonly<Record<string, string>>
beforeAll(async () => {
  if (!hasBrowser) return
  stage = await Stage.open()
  places = await furnish(stage)
})
afterAll(async () => {
  if (hasBrowser) await stage[Symbol.asyncDispose]()
})

/** Opens the Playground as a key, by default as that of the test gateway. */
async function open(
  model: string,
  options: { width?: number; theme?: 'light' | 'dark'; key?: string } = {},
) {
  const { key = stage.gateway.key.id } = options
  const watched = await stage.page(options)
  await watched.page.goto(`/console/play?key=${key}&model=${model}`)
  await settled(watched.page)
  return watched
}

async function send(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Send' }).click()
  await page.getByText(/^done ·/).waitFor()
}

describe.skipIf(!hasBrowser)('the playground', { concurrent: true }, () => {
  it.for(['light', 'dark'] as const)(
    'shows a conversation, its cost and its events, %s',
    async (theme, { expect }) => {
      const { page, faults } = await open('mock/echo', {
        theme,
        width: theme === 'dark' ? 360 : 1440,
      })
      await page.getByLabel('Message').fill('Hello from the <b>console</b>')
      await send(page)
      await expect
        .poll(() => page.locator('.answer .said').innerText())
        .toBe('Hello from the <b>console</b>')
      await page.getByRole('tab', { name: 'Cost' }).click()
      const total = await page.locator('.cost tfoot td').innerText()
      const id = await page.locator('.afterwards a').getAttribute('href')
      await expect
        .poll(async () => {
          const { json } = await stage.admin('GET', `/requests/${id!.split('=')[1]}`)
          return json.data && exact(json.data.cost_usd)
        })
        .toBe(total)
      await page.getByRole('tab', { name: 'Events' }).click()
      await expect
        .poll(() => page.locator('.events').textContent())
        .toContain('chat.completion.chunk')
      await page.getByRole('tab', { name: 'Request' }).click()
      await expect
        .poll(() => page.locator('.bench').innerText())
        .toContain('Authorization: Bearer $API_KEY')
      await page.getByLabel('Message').fill('And again')
      await page.keyboard.press('Control+Enter')
      await page.getByText('And again').nth(2).waitFor()
      await expect.poll(() => page.locator('.turns li').count()).toBe(3)
      await settled(page)
      await shoot(page, `${theme}/${theme === 'dark' ? 360 : 1440}/play-conversation`)
      expect([await violationsOf(page), await overflowOf(page), faults]).toEqual([[], 0, []])
      await page.context().close()
    },
  )

  it.for([
    ['light', 1440],
    ['dark', 360],
  ] as const)(
    'compares two models over two turns, %s at %i px',
    async ([theme, width], { expect }) => {
      const { page, faults } = await open('mock/echo', { theme, width })
      await page.getByLabel('Compare with').fill('large')
      await page.getByRole('option', { name: 'mock/large' }).waitFor()
      await page.keyboard.press('Enter')
      for (const [turn, text] of ['Hello', 'And again'].entries()) {
        await page.getByLabel('Message').fill(text)
        await page.getByRole('button', { name: 'Send 2 calls' }).click()
        // The answers of the turn before are shown until the new ones begin.
        await expect.poll(() => page.locator('.lane .turns li').count()).toBe(turn * 4 + 2)
        await expect.poll(() => page.getByText(/^done ·/).count()).toBe(2)
      }
      await expect.poll(() => page.locator('.lane .said').allInnerTexts()).toHaveLength(8)
      const rows = page.locator('.bench table tbody tr')
      await expect.poll(() => rows.count()).toBe(2)
      await expect.poll(() => page.getByText('cheapest').count()).toBe(1)
      await expect.poll(() => page.getByText('fastest').count()).toBe(1)
      // The cost of each is that of its call, which the log has soon after.
      const costs = async () => {
        const { json } = await stage.admin('GET', '/requests?model=mock/large&status=200')
        return json.data.map(({ cost_usd }: { cost_usd: number }) => exact(cost_usd))
      }
      const isShown = async () => {
        const shown = await rows.nth(1).innerText()
        return (await costs()).some((one: string) => shown.includes(one))
      }
      await expect.poll(isShown).toBe(true)
      await settled(page)
      await shoot(page, `${theme}/${width}/play-compare`)
      expect([await violationsOf(page), await overflowOf(page), faults]).toEqual([[], 0, []])
      await page.context().close()
    },
  )

  it('compares two keys, whose policies differ', async ({ expect }) => {
    const { page, faults } = await open('mock/echo')
    await page.getByLabel('Compare as').fill(places.KEY!)
    await page.getByRole('option').first().waitFor()
    await page.keyboard.press('Enter')
    await page.getByLabel('Message').fill('Tell me about project heron')
    await page.keyboard.press('Control+Enter')
    await page.getByText('The policy of the key ended this answer.').waitFor()
    await expect.poll(() => page.getByText(/^done ·/).count()).toBe(2)
    await shoot(page, 'light/1440/play-compare-keys')
    expect([await violationsOf(page), faults]).toEqual([[], []])
    await page.context().close()
  })

  it('sends a kept call again, with every member of its body', async ({ expect }) => {
    const content = 'What do you sell in winter?'
    const body = { model: 'mock/echo', temperature: 0.5, seed: 7, stop: ['x'] }
    const messages = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content },
    ]
    const desk = await stage.gateway.newKey({ account: 'kiosk', logContent: true })
    await stage.gateway.chat({ ...body, messages }, { key: desk.secret })
    const { page, faults } = await stage.page()
    await page.goto(`/console/requests?key=${desk.id}`)
    await page.locator('tbody .row-link').click()
    await page.getByRole('link', { name: 'Open in Playground' }).click()
    await page.getByLabel('Message').waitFor()
    await expect.poll(() => page.getByLabel('Message').inputValue()).toBe(content)
    const sent = page.waitForRequest((request) => request.url().endsWith('/v1/chat/completions'))
    await page.locator('[type=submit]:focus').waitFor()
    await page.keyboard.press('Enter')
    expect((await sent).postDataJSON()).toEqual({ ...body, messages })
    await page.getByText(/^done ·/).waitFor()
    await shoot(page, 'light/1440/play-resent')
    expect(faults).toEqual([])
    await page.context().close()
  })

  it.each([
    ['mock/image', 'Prompt', '.pictures img'],
    ['mock/speech', 'Text to be said', 'audio'],
    ['mock/embedding', 'Text', '.answer pre'],
  ])('shows the answer of %s', async (model, label, answer) => {
    const { page, faults } = await open(model)
    await page.getByLabel(label, { exact: true }).fill('A weir')
    await send(page)
    await page.locator(answer).waitFor({ state: 'attached' })
    await shoot(page, `light/1440/play-${model.split('/')[1]}`)
    expect(faults).toEqual([])
    await page.context().close()
  })

  it('reads a picture', async ({ expect }) => {
    const { page } = await open('mock/ocr')
    await page.getByRole('button', { name: 'Send' }).click()
    await page.getByText('Choose a PDF or a picture.').waitFor()
    const buffer = pngOfPixels({ width: 2, height: 2 }, Buffer.alloc(4))
    await page
      .locator('input[type=file]')
      .setInputFiles({ name: 'scan.png', mimeType: 'image/png', buffer })
    await page.getByText('scan.png').waitFor()
    await send(page)
    await expect.poll(() => page.locator('.answer').innerText()).toContain('Page 1')
    await page.context().close()
  })

  it('marks an answer that the policy of the key refused', async () => {
    const { page } = await open('mock/echo', { key: places.KEY! })
    await page.getByLabel('Message').fill('Tell me about project heron')
    await send(page)
    await page.getByText('The policy of the key ended this answer.').waitFor()
    await page.context().close()
  })

  it('is there for the holder of a key, with the own key', async ({ expect }) => {
    const { page, faults } = await stage.page({ token: undefined })
    await page.goto('/me')
    await page.getByLabel('API key').fill(stage.gateway.key.secret)
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: 'Playground' }).click()
    await page.getByLabel('Message').fill('Hello as myself')
    await send(page)
    await expect.poll(() => page.locator('.answer .said').innerText()).toBe('Hello as myself')
    await shoot(page, 'light/1440/me-play')
    expect([await violationsOf(page), faults]).toEqual([[], []])
    await page.context().close()
  })

  it('keeps no credential where a script could find it', async () => {
    const { page } = await open('mock/echo')
    await page.getByLabel('Message').fill('Hello')
    await send(page)
    const found = await page.evaluate(
      'document.documentElement.outerHTML + JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + location.href',
    )
    expect(found).not.toMatch(/play\.key_|sk-sluice-[A-Za-z0-9]{20}/)
    await page.context().close()
  })
})

function exact(usd: number): string {
  return `$${usd.toFixed(12).replace(/0+$/, '')}`
}
