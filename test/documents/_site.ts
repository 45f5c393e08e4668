/** The documentation as a site: a page for each Markdown file of the repository, without anything from elsewhere. */
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import MarkdownIt, { type Token } from 'markdown-it'
import { pageList, pagesInOrder } from './_generated.ts'
import { brokenLink, exists, Page, pages, root } from './_markdown.ts'
import { referenceOf } from './_reference.ts'
import { SCRIPT, STYLE } from './_site-files.ts'

/** Where the site has the README. */
const INDEX = 'index.html'
const API = 'config/openapi.json'
const FRONT_MATTER = /^---\n[^]*?\n---\n/

/**
 * Writes the site: pages as HTML and as Markdown, the files that they link, and lists for programs.
 * @returns links that lead nowhere
 */
export function writeSite(folder: string): string[] {
  const broken: string[] = []
  const files = new Set<string>()
  const description = readFileSync(join(root, API), 'utf8')
  const reference = new Page('reference.md', referenceOf(JSON.parse(description)))
  for (const page of [...pages, reference]) {
    const html = rendered(page, { broken, files })
    write(folder, placeOf(page.path), html)
    write(folder, page.path, page.text.replace(FRONT_MATTER, ''))
  }
  for (const file of files) cpSync(join(root, file), join(folder, file), { recursive: true })
  write(folder, 'openapi.json', description)
  write(folder, 'site.css', STYLE)
  write(folder, 'site.js', SCRIPT)
  write(folder, 'pages.json', JSON.stringify(pages.map(found)))
  write(folder, 'llms.txt', pageList(pages).replaceAll('](', '](docs/'))
  const texts = pagesInOrder(pages).map(
    ({ file, text }) => `<!-- docs/${file} -->\n\n${text.replace(FRONT_MATTER, '').trim()}\n`,
  )
  write(folder, 'llms-full.txt', texts.join('\n'))
  return broken
}

/** What a search looks at. */
function found(page: Page): object {
  const text = page.text.replace(FRONT_MATTER, '')
  const headings = [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) => heading)
  return { path: placeOf(page.path), title: titleOf(page), headings }
}

function rendered(
  page: Page,
  seen: { readonly broken: string[]; readonly files: Set<string> },
): string {
  const markdown = new MarkdownIt({ html: true })
  const tokens = markdown.parse(page.text.replace(FRONT_MATTER, ''), {})
  const anchors = page.anchors.values()
  for (const token of flat(tokens)) {
    if (token.type === 'heading_open') token.attrSet('id', anchors.next().value ?? '')
    for (const name of ['href', 'src']) {
      const target = String(token.attrGet(name) ?? 'none:')
      if (/^[a-z]+:/.test(target)) continue
      const own = target.startsWith('#') && page.anchors.has(target.slice(1))
      const problem = own ? undefined : brokenLink(page.path, target)
      if (problem !== undefined) seen.broken.push(`${page.path}: ${target}: ${problem}`)
      else token.attrSet(name, placed(page.path, target, seen.files))
    }
  }
  const up = '../'.repeat(placeOf(page.path).split('/').length - 1)
  const body = markdown.renderer.render(tokens, markdown.options, {})
  return document({ title: titleOf(page), up, nav: navigation(page, up), body })
}

/** A link of the repository as one of the site. @param files gets what the site has to have beside its pages */
function placed(from: string, target: string, files: Set<string>): string {
  const [path = '', anchor] = target.split('#')
  const hash = anchor === undefined ? '' : `#${anchor}`
  if (path === '') return hash
  const file = relative(root, resolve(root, dirname(from), decodeURI(path)))
  const readme = join(file, 'README.md')
  const page = file.endsWith('.md') ? file : exists(readme) ? readme : undefined
  if (page === undefined) files.add(file)
  const place = page === undefined ? file : placeOf(page)
  return `${relative(dirname(placeOf(from)), place) || '.'}${hash}`
}

/** The pages of `docs/`, by folder. */
function navigation(page: Page, up: string): string {
  let folder: string | undefined
  const entries = pagesInOrder(pages).map((one) => {
    const heading = one.folder === folder ? '' : `<h2>${one.folder || 'Guide and reference'}</h2>`
    folder = one.folder
    const current = `docs/${one.file}` === page.path ? ' aria-current="page"' : ''
    return `${heading}<a href="${up}${placeOf(`docs/${one.file}`)}"${current}>${escaped(one.title)}</a>`
  })
  return `<a href="${up}${INDEX}">Sluicegate</a><a href="${up}reference.html">API reference</a>${entries.join('')}`
}

function document(page: Readonly<Record<'title' | 'up' | 'nav' | 'body', string>>): string {
  const { title, up, nav, body } = page
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escaped(title)} - Sluicegate</title>
<link rel="stylesheet" href="${up}site.css">
<script defer src="${up}site.js" data-up="${up}"></script>
<nav><label>Search <input type="search"></label><div id="found"></div>${nav}</nav>
<main>${body}</main>
</html>
`
}

function titleOf({ path, text }: Page): string {
  return (/^title: "?(.+?)"?$/m.exec(text) ?? /^# (.+)$/m.exec(text))?.[1] ?? path
}

function placeOf(path: string): string {
  return path === 'README.md' ? INDEX : path.replace(/\.md$/, '.html')
}

function* flat(tokens: readonly Token[]): Generator<Token> {
  for (const token of tokens) {
    yield token
    if (token.children) yield* flat(token.children)
  }
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
}

function write(folder: string, path: string, text: string): void {
  mkdirSync(join(folder, dirname(path)), { recursive: true })
  writeFileSync(join(folder, path), text)
}
