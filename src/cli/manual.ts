/** `docs`: the manual in the package. */
import { manualPages } from '../server/manual.ts'
import { CommandError, type Arguments } from './command.ts'
import { card, print } from './output.ts'

/** Lists the pages, or those with a word; a page by its name is printed. @throws CommandError where no page has the word */
export async function showDocs(args: Arguments): Promise<void> {
  const [wanted] = args.positionals
  const pages = await manualPages()
  const page = pages.find((one) => one.page === wanted?.replace(/\.md$/, ''))
  if (page) {
    if (args.on.has('json')) return print(args, page, () => '')
    return void process.stdout.write(page.text)
  }
  const word = wanted?.toLowerCase()
  const matches = pages.filter(
    ({ title, text }) => title !== '' && (!word || `${title} ${text}`.toLowerCase().includes(word)),
  )
  if (matches.length === 0) throw new CommandError(`No page has ${JSON.stringify(wanted)}.`)
  const list = matches.map(({ text: _text, ...one }) => one)
  // Sentences are wrapped, not cut.
  print(args, list, () => card(Object.fromEntries(list.map((one) => [one.page, one.description]))))
}
