/** Markdown files of the repository, as far as tests look at them: links, headings, fenced blocks, tables. */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'

export const root = resolve(import.meta.dirname, '../..')

/** Folders that are no part of the repository. */
const SKIPPED = new Set(['node_modules', 'dist', 'site', 'data', 'coverage'])

export interface Block {
  /** The word behind the fence; empty without one. */
  readonly language: string
  readonly text: string
  /** The line of the opening fence, counted from 1. */
  readonly line: number
  /**
   * What the comment on the line before says:
   * `copy-of=<file>` it is all of that file, `file=<name>` it is written there when the page runs,
   * `output` it is what the block before prints, `shape` that has the members which it shows, `given=<name>` a program of
   * `test/documents/given` runs before it, `with=client` it goes on after the page's first module, `schema=<name>` it is a
   * file of another program, `skip=<reason>` it is not run.
   */
  readonly directive?: string
}

export interface Table {
  readonly header: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

export interface Link {
  readonly target: string
  readonly line: number
}

export class Page {
  /** The path from the root of the repository. */
  readonly path: string
  readonly text: string
  readonly blocks: readonly Block[]
  /** The text with fenced blocks blanked, line by line. */
  readonly #prose: readonly string[]

  /** @param text the text that stands for that of the file */
  constructor(path: string, text = readFileSync(join(root, path), 'utf8')) {
    this.path = path
    this.text = text
    const prose: string[] = []
    const blocks: Block[] = []
    let open:
      | { language: string; lines: string[]; line: number; fence: string; indent: string }
      | undefined
    for (const [index, line] of this.text.split('\n').entries()) {
      const fence = /^( *)(`{3,})\s*(\S*)/.exec(line)
      if (open && fence && fence[2] === open.fence && !fence[3]) {
        const directive = /^ *<!-- (.*) -->$/.exec(prose.at(open.line - 2) ?? '')?.[1]
        const { language, line: at } = open
        const block = { language, text: open.lines.join('\n'), line: at }
        blocks.push(directive === undefined ? block : { ...block, directive })
        open = undefined
      } else if (open) {
        open.lines.push(line.startsWith(open.indent) ? line.slice(open.indent.length) : line)
      } else if (fence) {
        open = {
          language: fence[3]!,
          lines: [],
          line: index + 1,
          fence: fence[2]!,
          indent: fence[1]!,
        }
      }
      prose.push(open || fence ? '' : line)
    }
    if (open) throw new Error(`${path}:${open.line}: the block does not end`)
    this.blocks = blocks
    this.#prose = prose
  }

  get lines(): number {
    return this.text.trimEnd().split('\n').length
  }

  get words(): number {
    return this.text.split(/\s+/).filter(Boolean).length
  }

  /** The text without blocks and inline code. */
  get prose(): string {
    return this.#prose.join('\n').replace(/`[^`\n]*`/g, '')
  }

  get links(): readonly Link[] {
    return this.prose.split('\n').flatMap((line, index) =>
      [...line.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => ({
        target: target!,
        line: index + 1,
      })),
    )
  }

  /** Anchors of the headings, as repository pages make them. */
  get anchors(): ReadonlySet<string> {
    const anchors = new Set<string>()
    for (const line of this.#prose) {
      const heading = /^#{1,6} +(.*?) *#*$/.exec(line)?.[1]
      if (heading === undefined) continue
      const slug = slugOf(heading)
      let anchor = slug
      for (let count = 1; anchors.has(anchor); count++) anchor = `${slug}-${count}`
      anchors.add(anchor)
    }
    return anchors
  }

  get tables(): readonly Table[] {
    return tablesOf(this.#prose.join('\n'))
  }
}

export function tablesOf(text: string): readonly Table[] {
  const tables: { header: string[]; rows: string[][] }[] = []
  let table: { header: string[]; rows: string[][] } | undefined
  for (const line of text.split('\n')) {
    if (!line.startsWith('|')) table = undefined
    else if (!table) tables.push((table = { header: cellsOf(line), rows: [] }))
    else if (!/^\|[-|: ]+\|$/.test(line)) table.rows.push(cellsOf(line))
  }
  return tables
}

/** All Markdown files, sorted by path. */
export const pages: readonly Page[] = filesBelow('.', (name) => name.endsWith('.md')).map(
  (path) => new Page(path),
)

export function page(path: string): Page {
  const found = pages.find((one) => one.path === path)
  if (!found) throw new Error(`there is no ${path}`)
  return found
}

/** What is wrong with a link to a file of the repository, as in a page or a comment of `from`; nothing if it resolves. */
export function brokenLink(from: string, target: string): string | undefined {
  const [file = '', anchor] = target.split('#')
  const path = file === '' ? from : relative(root, resolve(root, dirname(from), decodeURI(file)))
  if (!exists(path)) return `there is no ${path}`
  if (anchor === undefined) return undefined
  const found = pages.find((one) => one.path === path)
  return found?.anchors.has(anchor) ? undefined : `${path} has no heading #${anchor}`
}

const files = new Set(filesBelow('.', () => true))
const folders = new Set([...files].flatMap((path) => parentsOf(path)))

/** Whether the repository has a file or a folder. */
export function exists(path: string): boolean {
  return files.has(path) || folders.has(path.replace(/\/$/, ''))
}

function parentsOf(path: string): string[] {
  const parent = dirname(path)
  return parent === '.' ? [] : [parent, ...parentsOf(parent)]
}

/** Paths from the root of the repository. */
export function filesBelow(folder: string, wanted: (name: string) => boolean): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true })
    .flatMap((entry) => {
      const path = join(folder, entry.name)
      if (entry.isDirectory()) {
        const skipped =
          SKIPPED.has(entry.name) || (entry.name.startsWith('.') && entry.name !== '.ci')
        return skipped ? [] : filesBelow(path, wanted)
      }
      return wanted(entry.name) ? [path] : []
    })
    .toSorted()
}

function slugOf(heading: string): string {
  return heading
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-')
}

function cellsOf(line: string): string[] {
  return line
    .trim()
    .slice(1, -1)
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim())
}
