/** The site, as a browser finds it: each link leads to a page and its place, and nothing is loaded from elsewhere. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { expect, it } from 'vitest'
import { folder } from '../_folder.ts'
import { pagesInOrder } from './_generated.ts'
import { pages } from './_markdown.ts'
import { writeSite } from './_site.ts'

it('is written whole, and its links lead to what there is', async () => {
  const site = await folder({})
  expect(writeSite(site)).toEqual([])
  const files = readdirSync(site, { recursive: true, encoding: 'utf8' })
  const html = new Map(
    files
      .filter((name) => name.endsWith('.html'))
      .map((name) => [join(site, name), readFileSync(join(site, name), 'utf8')]),
  )
  expect(html.size).toBe(pages.length + 1)
  const ids = new Map(
    [...html].map(([file, text]) => [
      file,
      new Set([...text.matchAll(/ id="(.*?)"/g)].map(([, id]) => id)),
    ]),
  )
  const wrong: string[] = []
  for (const [file, text] of html) {
    for (const [, name, target] of text.matchAll(/ (href|src)="(.*?)"/g)) {
      if (name === 'href' && target!.startsWith('https://')) continue
      const [path, anchor] = target!.split('#')
      const to = path === '' ? file : resolve(dirname(file), path!)
      const isThere = existsSync(to) && (anchor === undefined || ids.get(to)?.has(anchor))
      if (!isThere) wrong.push(`${file}: ${target}`)
    }
  }
  expect(wrong).toEqual([])
})

it('has the texts for programs', async () => {
  const site = await folder({})
  writeSite(site)
  const list = readFileSync(join(site, 'llms.txt'), 'utf8')
  const texts = readFileSync(join(site, 'llms-full.txt'), 'utf8')
  const listed = pagesInOrder(pages)
  expect(listed.length).toBeGreaterThan(50)
  for (const { file, title } of listed) {
    expect(list).toContain(`- [${title}](docs/${file})`)
    expect(texts).toContain(`<!-- docs/${file} -->`)
    expect(existsSync(join(site, 'docs', file))).toBe(true)
  }
})
