import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { chromium } from 'playwright-core'
import { expect, it } from 'vitest'
import { root } from './_markdown.ts'

const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium'

const SOURCES = {
  'the drawing': () => readFileSync(join(root, 'docs/explain/architecture.svg'), 'utf8'),
}
const DRAWINGS = Object.entries(SOURCES).flatMap(([name, source]) =>
  (['light', 'dark'] as const).map((colorScheme) => ({ name, source, colorScheme })),
)

it.skipIf(!existsSync(CHROMIUM)).each(DRAWINGS)(
  'no text of $name leaves its box or the paper: $colorScheme',
  async ({ source, colorScheme }) => {
    await using browser = await chromium.launch({
      executablePath: CHROMIUM,
      args: ['--no-sandbox'],
    })
    const sheet = await browser.newPage({ colorScheme, viewport: { width: 900, height: 700 } })
    await sheet.setContent(source())
    const outside = await sheet.evaluate(() => {
      const { document } = globalThis as unknown as { document: any }
      const inside = (text: any, box: any) => {
        const [one, other] = [text.getBBox(), box.getBBox()]
        return one.x >= other.x && one.x + one.width <= other.x + other.width
      }
      const paper = document.querySelector('.paper')
      return [...document.querySelectorAll('text')]
        .filter(
          (text) => !inside(text, text.parentNode.querySelector(':scope > rect[rx]') ?? paper),
        )
        .map((text) => text.textContent)
    })
    expect(outside).toEqual([])
    const [paper, ink] = await sheet.evaluate(() => {
      const { document, getComputedStyle } = globalThis as any
      return ['.paper', 'text'].map((name) => getComputedStyle(document.querySelector(name)).fill)
    })
    expect(paper).not.toBe(ink)
    expect(paper).toBe(colorScheme === 'light' ? 'rgb(255, 255, 255)' : 'rgb(18, 23, 28)')
  },
)
