/** The pages of the manual, as they are in the checkout or in the package. */
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'

const HEAD = /^---\ntitle: (.+)\ndescription: (.+)\n(?:.+\n)*?---\n\n?/
/** What tests read: how a block is run, and what holds a promise. */
const COMMENT = /^ *<!-- .* -->\n|(?<=.) ?<!-- held=.*? -->/gm

interface ManualPage {
  /** The name, such as `operate/alerts`. */
  readonly page: string
  /** The title; empty for a page that is not listed. */
  readonly title: string
  readonly description: string
  /** Markdown, without what stands before the first heading. */
  readonly text: string
}

/** The pages in `folder`, in the order of their names. What the site's builder keeps beside them, such as its copies of the pages, is none. */
export async function manualPages(folder = manualFolder()): Promise<readonly ManualPage[]> {
  const files = (await readdir(folder, { recursive: true }))
    .map((name) => name.replaceAll('\\', '/'))
    .filter((name) => name.endsWith('.md') && !/^node_modules\/|(?:^|\/)\./.test(name))
  return Promise.all(
    files.toSorted().map(async (file) => {
      const text = await readFile(join(folder, file), 'utf8')
      const [head = '', title = '', description = ''] = HEAD.exec(text) ?? []
      const page = file.slice(0, -'.md'.length)
      return { page, title, description, text: text.slice(head.length).replaceAll(COMMENT, '') }
    }),
  )
}

/** The folder of the checkout, or of the package, where this file is one folder deeper. */
function manualFolder(): string {
  let at = import.meta.dirname
  while (!existsSync(join(at, 'docs', 'index.md')) && dirname(at) !== at) at = dirname(at)
  return join(at, 'docs')
}
