/**
 * The pages of the site, before VitePress builds it (`npm run docs:site`): every Markdown file of the repository with links
 * that hold there, the reference of the API, the files that pages link to, and the texts for programs.
 */
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { FOLDERS, pageList, pagesInOrder } from './_generated.ts'
import { exists, Page, pages, root } from './_markdown.ts'
import { referenceOf } from './_reference.ts'

const API = 'config/openapi.json'
const REFERENCE = 'reference.md'
const BUILT = join(root, 'docs/.vitepress/pages')
const PUBLIC = join(BUILT, 'public')
const FRONT_MATTER = /^---\n[^]*?\n---\n/
/** A link, code in which nothing is one, or a `<` that VitePress would take for an element. */
const LINK_OR_CODE =
  /^ *(`{3,})[^]*?^ *\1$|`[^`\n]*`|<(?!!--)|(\[(?:[^\][]|\[[^\]]*\])*\])\(([^)\s]+)\)/gm

rmSync(BUILT, { recursive: true, force: true })
const description = readFileSync(join(root, API), 'utf8')
const reference = new Page(REFERENCE, referenceOf(JSON.parse(description)))
for (const { path, text } of [...pages, reference]) {
  write(join(BUILT, placeOf(path)), text.replaceAll(LINK_OR_CODE, linkOf(path)))
  write(join(PUBLIC, path), text.replace(FRONT_MATTER, ''))
}
write(join(PUBLIC, 'openapi.json'), description)
write(join(PUBLIC, 'llms.txt'), pageList(pages).replaceAll('](', '](docs/'))
const listed = pagesInOrder(pages)
write(
  join(PUBLIC, 'llms-full.txt'),
  listed
    .map(({ file, text }) => `<!-- docs/${file} -->\n\n${text.replace(FRONT_MATTER, '').trim()}\n`)
    .join('\n'),
)
const groups = Object.entries(FOLDERS).map(([folder, text]) => ({
  text,
  collapsed: true,
  items: listed
    .filter((one) => one.folder === folder)
    .map(({ title, file }) => ({ text: title, link: `/docs/${placeOf(file)}` })),
}))
write(
  join(BUILT, '../navigation.json'),
  JSON.stringify([...groups, { text: 'API reference', link: `/${REFERENCE}` }]),
)

/** A link of a page as one of the site; what is linked and no page is copied there, and a name without an ending is text. */
function linkOf(from: string) {
  return (whole: string, _fence?: string, text?: string, target = '') => {
    if (whole === '<') return '&lt;'
    if (text === undefined || /^(?:[a-z]+:|#)/.test(target)) return whole
    const [path = '', hash] = target.split('#')
    const file = relative(root, resolve(root, dirname(from), decodeURI(path)))
    const page = exists(join(file, 'README.md')) ? join(file, 'README.md') : file
    if (page.endsWith('.md')) {
      const link = relative(dirname(placeOf(from)), placeOf(page))
      return `${text}(${link.startsWith('.') ? link : `./${link}`}${hash === undefined ? '' : `#${hash}`})`
    }
    if (!basename(file).includes('.')) return text
    const isPicture = /\.(?:svg|webp)$/.test(file)
    cpSync(join(root, file), join(isPicture ? BUILT : PUBLIC, file))
    return whole
  }
}

function placeOf(path: string): string {
  return path.replace(/(^|\/)README\.md$/, '$1index.md')
}

function write(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
}
