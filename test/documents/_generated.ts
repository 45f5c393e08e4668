/** Tables of the documents that are made from the code. They stand between `<!-- generated:<name> -->` and `<!-- /generated:<name> -->`. */
import { readdirSync, readFileSync } from 'node:fs'
import { ENGINES } from '../../config/starter-search.ts'
import { VENDORS } from '../../providers/vendors.ts'
import { GROUPS } from '../../src/cli/commands.ts'
import { REMOTE } from '../../src/cli/asked.ts'
import { usageOf } from '../../src/cli/help.ts'
import type { Page } from './_markdown.ts'

/** The text of each table, by its name. */
export const TABLES: Readonly<Record<string, () => string>> = {
  vendors: () =>
    table(
      ['vendor', 'variable', 'address', 'makes its models'],
      VENDORS.filter(({ variables, address }) => variables.length > 0 || address).map((vendor) => [
        code(vendor.name),
        (vendor.address ?? vendor.variables).map(code).join(', '),
        vendor.baseURL === undefined ? '' : code(vendor.baseURL),
        vendor.maker ? 'yes' : '',
      ]),
    ),
  engines: () =>
    table(
      ['variable', 'engine', 'USD per search'],
      ENGINES.map(({ variable, name, price }) => [code(variable), code(name), price]),
    ),
  commands: () =>
    GROUPS.map(({ name, page, commands }) =>
      [
        `## ${name}`,
        `About these commands: [${page}](${page}.md).`,
        ...commands.map(({ name: of, ...command }) => {
          const options = Object.entries(command.options ?? {}).filter(
            ([option]) => !(option in REMOTE),
          )
          const shown = options.map(([option, { value, help }]) => [
            code(value ? `--${option} <${value.replaceAll('|', '\\|')}>` : `--${option}`),
            help.replaceAll('|', '\\|'),
          ])
          return [
            `### ${code(usageOf({ name: of, ...command }, ''))}`,
            command.help,
            ...(command.example ? [`Example: ${code(`sluicegate ${command.example}`)}`] : []),
            ...(shown.length > 0 ? [table(['option', 'what it does'], shown)] : []),
          ].join('\n\n')
        }),
      ].join('\n\n'),
    ).join('\n\n'),
  contract: () =>
    table(
      ['export', 'is'],
      contractExports().map(({ name, text }) => [code(name), text]),
    ),
}

const CONTRACT = new URL('../../src/plugin/', import.meta.url)
const EXPORT = /(?:\/\*\*((?:(?!\*\/)[^])*)\*\/\n)?export (?:const|type|interface|function) (\w+)/g

/** Files of what is built in alone: no configuration and no command loads one of a user. */
const OWN: ReadonlySet<string> = new Set(['exact-json.ts', 'migration.ts', 'price-source.ts'])

/** Everything that plugins import, with the first sentence of its comment. */
export function contractExports(): { readonly name: string; readonly text: string }[] {
  const files = readdirSync(CONTRACT).filter((name) => name.endsWith('.ts') && !OWN.has(name))
  const found = files.flatMap((file) => {
    const source = readFileSync(new URL(file, CONTRACT), 'utf8')
    return [...source.matchAll(EXPORT)].map(([, comment = '', name]) => {
      const text = comment.replaceAll(/\s*\n?\s*\*\s+|\s+/g, ' ').trim()
      const plain = text.replaceAll(/\{@link ([\w.]+)\}/g, '`$1`').replaceAll('|', '\\|')
      return { name: name!, text: /^.*?[.:;](?= [A-Z@]|$)/.exec(plain)?.[0] ?? plain }
    })
  })
  return found.toSorted((one, other) => one.name.localeCompare(other.name))
}

const MARKED = /<!-- generated:(\S+) -->\n[^]*?<!-- \/generated:\1 -->/g

/** A page with its tables made anew. @throws Error for a table that has no name here */
export function generate(text: string): string {
  return text.replace(MARKED, (_, name: string) => {
    const make = TABLES[name]
    if (!make) throw new Error(`there is no generated table "${name}"`)
    return `<!-- generated:${name} -->\n\n${make()}\n\n<!-- /generated:${name} -->`
  })
}

/** Folders of `docs/` in reading order, with what a reader calls them. */
export const FOLDERS: Readonly<Record<string, string>> = {
  tasks: 'Tasks',
  install: 'Install',
  clients: 'Clients',
  migrate: 'Come from another gateway',
  '': 'Guide and reference',
  api: 'API',
  operate: 'Operate',
  plugins: 'Plugins',
  explain: 'How it works',
  examples: 'Examples',
}

const PLACES = Object.keys(FOLDERS)

/** A page of `docs/` with what its head says. */
interface Listed {
  /** The folder of the page, below `docs/`. */
  readonly folder: string
  readonly file: string
  readonly title: string
  readonly description: string
  readonly text: string
}

/** The pages of `docs/` in reading order. */
export function pagesInOrder(pages: readonly Page[]): readonly Listed[] {
  const entries = pages.flatMap(({ path, text }) => {
    const head = /^---\ntitle: (.+)\ndescription: (.+)\norder: (\d+)\n---\n/.exec(text)
    if (!path.startsWith('docs/') || !head) return []
    const file = path.slice('docs/'.length)
    const folder = file.includes('/') ? file.slice(0, file.indexOf('/')) : ''
    return [{ folder, file, title: head[1]!, description: head[2]!, order: Number(head[3]), text }]
  })
  return entries.toSorted(
    (one, other) =>
      PLACES.indexOf(one.folder) - PLACES.indexOf(other.folder) ||
      one.order - other.order ||
      one.file.localeCompare(other.file),
  )
}

/** `docs/llms.txt`: title, address and description of every page in reading order, for programs that look for a page. */
export function pageList(pages: readonly Page[]): string {
  const entries = pagesInOrder(pages)
  const lines = entries.flatMap(({ folder, file, title, description }, index) => [
    ...(folder === entries[index - 1]?.folder ? [] : ['', `## ${FOLDERS[folder]}`, '']),
    `- [${title}](${file}): ${description}`,
  ])
  return `# Sluicegate\n\n> A self-hosted gateway between clients and model vendors: prepaid accounts, limits per key, policies that hold on streams.\n${lines.join('\n')}\n`
}

function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return [line(header), `|${'---|'.repeat(header.length)}`, ...rows.map(line)].join('\n')
}

function code(text: string): string {
  return `\`${text}\``
}
