/** `docs`: the manual in the package. */
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { CommandError, type Arguments } from './command.ts'
import { print, table } from './output.ts'

const HEAD = /^---\ntitle: (.+)\ndescription: (.+)\n(?:.+\n)*?---\n\n?/

/** Lists the pages, or those with a word; a page by its name is printed. @throws CommandError where no page has the word */
export async function showDocs(args: Arguments): Promise<void> {
  const [wanted] = args.positionals
  const folder = manualFolder()
  const files = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith('.md'))
  const pages = await Promise.all(
    files.toSorted().map(async (file) => {
      const text = await readFile(join(folder, file), 'utf8')
      const [, title = '', description = ''] = HEAD.exec(text) ?? []
      return { page: file.replaceAll('\\', '/').slice(0, -'.md'.length), title, description, text }
    }),
  )
  const page = pages.find((one) => one.page === wanted?.replace(/\.md$/, ''))
  if (page) return void process.stdout.write(page.text.replace(HEAD, ''))
  const word = wanted?.toLowerCase()
  const found = pages.filter(
    ({ title, text }) => title !== '' && (!word || text.toLowerCase().includes(word)),
  )
  if (found.length === 0) throw new CommandError(`No page has ${JSON.stringify(wanted)}.`)
  const list = found.map(({ text: _text, ...one }) => one)
  print(args, list, () =>
    table(
      ['PAGE', 'ABOUT'],
      list.map((one) => [one.page, one.description]),
    ),
  )
}

/** The folder of the manual: that of the checkout, or of the package, where this file is one folder deeper. */
function manualFolder(): string {
  let at = import.meta.dirname
  while (!existsSync(join(at, 'docs', 'index.md')) && dirname(at) !== at) at = dirname(at)
  return join(at, 'docs')
}
