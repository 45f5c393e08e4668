/** Reduces declaration files to what the entries of a package reach: files, and statements in them. */
import { existsSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** A statement of a declaration file, with the comment before it. */
interface Statement {
  readonly text: string
  /** What it declares or imports; none for an export of something else. */
  readonly names: readonly string[]
  /** The file that an import or export names, if it is one of the package. */
  readonly from?: string
  /** Local name to the name in `from`; undefined where all names are meant. */
  readonly members?: ReadonlyMap<string, string>
  readonly exports: boolean
}

const START = /\n(?=\/\*\*|export\b|declare\b|import\b|interface\b|type\b)/
const COMMENT = /^(?:\s*\/\*\*(?:[^*]|\*(?!\/))*\*\/\s*)+/
const ENDED = /[;}]\s*$/
const LINK =
  /^(?:import|export)\s+(?:type\s+)?(\*(?: as [\w$]+)?|\{[^}]*\})(?:\s*from\s*['"]([^'"]+)['"])?/
const DECLARED =
  /^(?:export )?(?:declare )?(?:abstract )?(?:const|let|function|class|interface|type)\s+([\w$]+)/
const NAME = /[\w$]+/g
const INLINE = /\bimport\(['"](\.[^'"]+)['"]\)\.([\w$]+)/g

/** Rewrites the declaration files below a folder. @param entries those of the package, relative to it */
export function keepDeclarations(folder: string, entries: readonly string[]): void {
  const reached = new Reached()
  for (const entry of entries) reached.addFile(join(folder, entry))
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!name.endsWith('.d.ts')) continue
    const file = join(folder, name)
    const texts = reached.textsOf(file)
    if (texts.length > 0) writeFileSync(file, `${texts.join('\n')}\n`)
    else rmSync(file)
  }
}

/** The statements that are needed, and those that they need. */
class Reached {
  readonly #files = new Map<string, readonly Statement[]>()
  readonly #statements = new Set<Statement>()
  /** File and name. */
  readonly #names = new Set<string>()

  /** Adds everything that a file exports. */
  addFile(file: string): void {
    for (const statement of this.#statementsOf(file)) {
      if (!statement.exports) continue
      this.#add(file, statement)
      for (const name of statement.names) this.#addName(file, name)
      if (isAll(statement)) this.addFile(statement.from)
    }
  }

  /** What is left of a file. */
  textsOf(file: string): string[] {
    const isNeeded = (name: string) => this.#names.has(`${file}\n${name}`)
    return this.#statementsOf(file)
      .filter((one) => this.#statements.has(one))
      .map((one) => written(one, isNeeded))
  }

  #add(file: string, statement: Statement): void {
    if (this.#statements.has(statement)) return
    this.#statements.add(statement)
    if (statement.from !== undefined) return
    for (const [name] of statement.text.matchAll(NAME)) this.#addName(file, name)
    for (const [, path, name] of statement.text.matchAll(INLINE))
      this.#addName(resolved(file, path!), name!)
  }

  /** Adds what declares a name in a file, or brings it there. */
  #addName(file: string, name: string): void {
    if (this.#names.has(`${file}\n${name}`)) return
    this.#names.add(`${file}\n${name}`)
    for (const statement of this.#statementsOf(file)) {
      const { names, from, members } = statement
      if (isAll(statement) ? !this.#offers(statement.from, name) : !names.includes(name)) continue
      this.#add(file, statement)
      if (from !== undefined) this.#addName(from, members?.get(name) ?? name)
    }
  }

  #offers(file: string, name: string): boolean {
    return this.#statementsOf(file).some((one) => {
      if (isAll(one)) return this.#offers(one.from, name)
      return one.exports && one.names.includes(name)
    })
  }

  #statementsOf(file: string): readonly Statement[] {
    const known = this.#files.get(file) ?? (existsSync(file) ? parse(file) : [])
    this.#files.set(file, known)
    return known
  }
}

/** Whether a statement exports everything of another file of the package. */
function isAll(statement: Statement): statement is Statement & { readonly from: string } {
  const { exports, names, from, members } = statement
  return exports && from !== undefined && !members && names.length === 0
}

function parse(file: string): Statement[] {
  const found: Statement[] = []
  let text = ''
  for (const part of readFileSync(file, 'utf8').split(START)) {
    text += text === '' ? part : `\n${part}`
    // The members of a type may have comments at the beginning of a line.
    if (!ENDED.test(text.replace(COMMENT, ''))) continue
    found.push(statement(file, text.trimEnd()))
    text = ''
  }
  return found
}

function statement(file: string, text: string): Statement {
  const part = text.replace(COMMENT, '')
  const exports = part.startsWith('export')
  const [, clause, path] = LINK.exec(part) ?? []
  if (clause === undefined) {
    const name = DECLARED.exec(part)?.[1]
    return { text, names: name === undefined ? [] : [name], exports }
  }
  const all = /^\*(?: as ([\w$]+))?$/.exec(clause)
  const own = path?.startsWith('.') ? { from: resolved(file, path) } : {}
  if (all) return { text, names: all[1] === undefined ? [] : [all[1]], ...own, exports }
  const members = new Map(
    clause
      .replaceAll(/[{}]/g, '')
      .split(',')
      .map((one) => one.trim().replace(/^type /, ''))
      .filter((one) => one !== '')
      .map((one): [string, string] => {
        const [name, local = name] = one.split(' as ')
        return [local!, name!]
      }),
  )
  return { text, names: [...members.keys()], ...own, members, exports }
}

/** The text of a statement, of a list of names only those that are needed. */
function written({ text, members }: Statement, isNeeded: (name: string) => boolean): string {
  if (!members || [...members.keys()].every(isNeeded)) return text
  const names = [...members].filter(([local]) => isNeeded(local))
  const list = names.map(([local, name]) => (local === name ? name : `${name} as ${local}`))
  const [comment = ''] = COMMENT.exec(text) ?? []
  return comment + text.slice(comment.length).replace(/\{[^}]*\}/, `{ ${list.join(', ')} }`)
}

function resolved(file: string, path: string): string {
  return join(dirname(file), path.replace(/\.[jt]s$/, '.d.ts'))
}
