/** Word lists of the categories, read from the files in `lexicon/`, whose README has their shape. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { CATEGORIES, type Category } from '../../../src/plugin.ts'
import { SCRIPTS, type Script } from './languages.ts'

/** Roles of cues. */
export const ROLES = [
  'asks',
  'leads',
  'topics',
  'loose',
  'strong',
  'against',
  'declines',
  'address',
  'common',
] as const
/** What a cue contributes. */
export type Role = (typeof ROLES)[number]

/** One entry of a list. */
export interface Cue {
  /** Such as `en.code.topics.python`, shown to the operator. */
  readonly id: string
  /** Undefined for cues of every category. */
  readonly category: Category | undefined
  readonly role: Role
}

/** Word lists of one language. */
export interface Lexicon {
  readonly language: string
  readonly script: Script
  readonly cues: readonly { readonly text: string; readonly cue: Cue }[]
  /** Words for arithmetic operations between numbers. */
  readonly operators: readonly string[]
}

/** Sections for every category, by the role of their entries. */
const COMMON: Readonly<Record<string, Role>> = {
  asks: 'leads',
  against: 'against',
  declines: 'declines',
  address: 'address',
  common: 'common',
}
const EXTENSION = '.txt'
/** Beside this file in a checkout; a build leaves the lists where they are. */
const FOLDER = ['./lexicon/', '../../../../plugins/guards/categories/lexicon/']
  .map((path) => new URL(path, import.meta.url))
  .find((folder) => existsSync(folder))

/** The lexicons that ship, one at a time. @throws Error for a file that cannot be read, with its line */
export function* readLexicons(): Generator<Lexicon> {
  if (!FOLDER) throw new Error('the folder with the lexicons is missing')
  const files = readdirSync(FOLDER).filter((name) => name.endsWith(EXTENSION))
  for (const file of files.sort()) {
    yield parseLexicon(
      file.slice(0, -EXTENSION.length),
      readFileSync(new URL(file, FOLDER), 'utf8'),
    )
  }
}

/** Reads one lexicon. @throws Error that names the line and what would be right */
export function parseLexicon(language: string, text: string): Lexicon {
  const cues: { text: string; cue: Cue }[] = []
  const operators: string[] = []
  let script: Script | undefined
  let add: ((entry: string, fail: (what: string) => Error) => void) | undefined
  const opened = new Set<string>()
  for (const [index, line] of text.split('\n').entries()) {
    const fail = (what: string) => new Error(`${language}${EXTENSION}, line ${index + 1}: ${what}`)
    const content = line.trim()
    if (content === '' || content.startsWith('#')) continue
    const name = /^\[(.*)\]$/.exec(content)?.[1]
    if (name === undefined) {
      if (!add) throw fail('an entry before the first section')
      for (const entry of content.split(',')) if (entry.trim()) add(entry.trim(), fail)
      continue
    }
    if (opened.has(name)) throw fail(`there is a section [${name}] already`)
    opened.add(name)
    if (name === 'operators') add = (entry) => operators.push(entry)
    else if (name === 'script') {
      add = (entry, wrong) => {
        script = SCRIPTS.find((one) => one === entry)
        if (!script) throw wrong(`there is no script ${entry}; such as ${SCRIPTS.join(', ')}`)
      }
    } else {
      const { category, role } = sectionOf(name) ?? {}
      if (!role) throw fail(`there is no section [${name}]; such as [code topics]`)
      const prefix = `${language}.${name.replace(' ', '.')}`
      add = (entry) => cues.push({ text: entry, cue: { id: `${prefix}.${entry}`, category, role } })
    }
  }
  if (!script) throw new Error(`${language}${EXTENSION}: the section [script] is missing`)
  return { language, script, cues, operators }
}

function sectionOf(name: string): { category: Category | undefined; role: Role } | undefined {
  const common = COMMON[name]
  if (common) return { category: undefined, role: common }
  const [first, second] = name.split(' ')
  const category = CATEGORIES.find((one) => one === first)
  const role = ROLES.find((one) => one === second)
  return category && role && { category, role }
}
