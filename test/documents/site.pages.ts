/** The site, as a reader finds it: built without a network, searched by any word, on a phone too. VitePress reports dead links. */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, globSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { extname, join } from 'node:path'
import { promisify } from 'node:util'
import { chromium } from 'playwright-core'
import { beforeAll, expect, it } from 'vitest'
import { pagesInOrder } from './_generated.ts'
import { pages, root } from './_markdown.ts'

const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium'
const SITE = join(root, 'site')
const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css',
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.svg': 'image/svg+xml',
}
const listed = pagesInOrder(pages)
const placeOf = (file: string) =>
  `/docs/${file.replace(/(^|\/)README\.md$/, '$1index.md').replace(/md$/, 'html')}`
const proseOf = (file: string) => pages.find(({ path }) => path === `docs/${file}`)!.prose
const wordsOf = (text: string) =>
  text
    .replaceAll(/!\[[^\]]*\]\([^)]*\)|\]\([^)]*\)|<!--[^]*?-->|^---\n[^]*?\n---/gm, ' ')
    .match(/(?<![\p{L}\d_])\p{L}{4,}(?![\p{L}\d_])/gu) ?? []

beforeAll(async () => {
  if (!existsSync(join(root, 'docs/node_modules')))
    throw new Error('VitePress is not installed: npm --prefix docs ci')
  rmSync(SITE, { recursive: true, force: true })
  await promisify(execFile)('npm', ['run', 'docs:site'], { cwd: root, maxBuffer: 2 ** 24 })
}, 600_000)

it('has every page, and the texts for programs', () => {
  expect(listed.length).toBeGreaterThan(50)
  const list = readFileSync(join(SITE, 'llms.txt'), 'utf8')
  const texts = readFileSync(join(SITE, 'llms-full.txt'), 'utf8')
  for (const { file, title } of listed) {
    expect(existsSync(join(SITE, placeOf(file)))).toBe(true)
    expect(existsSync(join(SITE, 'docs', file))).toBe(true)
    expect(list).toContain(`- [${title}](docs/${file})`)
    expect(texts).toContain(`<!-- docs/${file} -->`)
  }
  expect(existsSync(join(SITE, 'reference.html'))).toBe(true)
})

it('finds a page by each word of its text', async () => {
  const MiniSearch = createRequire(join(root, 'docs/package.json'))('minisearch')
  const [file] = globSync('assets/chunks/@localSearchIndexroot*.js', { cwd: SITE })
  const index = (await import(join(SITE, file!))).default
  const search = MiniSearch.loadJSON(index, { fields: ['title', 'titles', 'text'] })
  const placesOf = new Map<string, ReadonlySet<string>>()
  const missing = listed.flatMap(({ file }) =>
    [...new Set(wordsOf(proseOf(file)))].flatMap((word) => {
      const places =
        placesOf.get(word) ??
        new Set<string>(
          search.search(word, { prefix: true }).map(({ id }: { id: string }) => id.split('#')[0]!),
        )
      placesOf.set(word, places)
      const place = placeOf(file).replace(/(?<=\/)index\.html$/, '')
      return places.has(place) ? [] : [`${place}: ${word}`]
    }),
  )
  expect(missing).toEqual([])
})

it.skipIf(!existsSync(CHROMIUM))('is searched and read in a browser', async () => {
  const server = createServer((request, response) => {
    const path = join(
      SITE,
      decodeURI(request.url!.replace(/\?.*/, '').replace(/\/$/, '/index.html')),
    )
    if (!existsSync(path)) return response.writeHead(404).end()
    response.setHeader('Content-Type', TYPES[extname(path)] ?? 'application/octet-stream')
    return response.end(readFileSync(path))
  })
  await using browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  try {
    const page = await browser.newPage({ viewport: { width: 390, height: 800 } })
    const elsewhere: string[] = []
    page.on('request', (request) => {
      if (!/^(?:data|blob):/.test(request.url()) && !request.url().startsWith(url))
        elsewhere.push(request.url())
    })
    for (const { file } of listed) {
      await page.goto(url + placeOf(file))
      const width = await page.evaluate(() => (globalThis as any).document.body.scrollWidth)
      expect([file, width]).toEqual([file, 390])
    }
    const { file, title } = listed[0]!
    const words = wordsOf(proseOf(file))
    const middle = words.slice(words.length / 2, words.length / 2 + 12).join(' ')
    await page.goto(`${url}/docs/`)
    await page.locator('#local-search button').first().click()
    await page.locator('#localsearch-input').fill(middle)
    await page.locator('.result', { hasText: title }).first().click()
    await page.waitForURL(`**${placeOf(file)}*`)
    expect(elsewhere).toEqual([])
  } finally {
    server.close()
  }
})
