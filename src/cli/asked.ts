/** Commands that put one question to the admin API and show its answer: a row of the table, without code of its own. */
import type { Admin } from './admin.ts'
import {
  CommandError,
  type Arguments,
  type Command,
  type Kind,
  type Owner,
  type OptionSpecs,
} from './command.ts'
import type { Named } from './look-up.ts'
import { card, cell, table } from './output.ts'

/** A path that is read, or a request with its method and body. */
type Question =
  | string
  | readonly [method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, body?: object]

interface Asked extends Omit<Command, 'name' | 'help' | 'run'> {
  /** What the first argument names; the question gets its path. */
  readonly of?: Kind | Owner
  /** Whether the answer is a list that also comes as CSV. */
  readonly csv?: true
  /** Whether all pages of the list are asked for. */
  readonly all?: true | ((args: Arguments) => boolean)
  /** What JSON has of the answer; its data by default. */
  readonly json?: (answer: any, args: Arguments, named: Named) => unknown
  /** What is wrong in an answer that is printed; the command fails with it. */
  readonly wrong?: (data: any) => string | undefined
  /** Whether it begins a ledger where there is none. */
  readonly begins?: true
  /** The question to a person before something final is done; undefined where it is not final. */
  readonly final?: (named: Named, args: Arguments) => string | undefined
  ask(args: Arguments, path: string): Question
  /** The text of an answer for people. */
  show(answer: any, args: Arguments, named: Named): string | Promise<string>
}

const JSON_OUTPUT: OptionSpecs = { json: { help: 'print JSON' } }
export const CONFIG: OptionSpecs = {
  config: {
    value: 'file',
    help: 'the configuration (default: gateway.config.* here)',
  },
}
export const DATA: OptionSpecs = {
  data: { value: 'folder', help: 'the data folder (default: SLUICEGATE_DATA, else as configured)' },
}
export const LOCAL: OptionSpecs = { ...CONFIG, ...JSON_OUTPUT }
/** Options of commands that talk to a running gateway, or open a data folder themselves. */
export const REMOTE: OptionSpecs = {
  ...JSON_OUTPUT,
  url: { value: 'url', help: 'address of the gateway (default: as configured)' },
  token: {
    value: 'token',
    help: 'the admin token (default: as configured, or of the folder)',
  },
  data: {
    value: 'folder',
    help: 'open this data folder instead; no gateway runs on it',
  },
  ...CONFIG,
}
/** Options that every command takes. */
export const SHARED: OptionSpecs = {
  wide: { help: 'print whole tables, as wide as they are' },
}
export const RANGE: OptionSpecs = {
  from: { value: 'moment', time: 'ago', help: 'from this day or moment on, UTC, or such as 7d' },
  to: { value: 'moment', time: 'ago', help: 'before this day or moment, UTC' },
}
const YES: OptionSpecs = { yes: { help: 'do it without a question' } }
const CSV: OptionSpecs = { csv: { help: 'print CSV' } }

export function asked(name: string, help: string, spec: Asked): Command {
  const { of, csv, all, begins = false, final, ask, show, options = {}, ...row } = spec
  const { json = ({ data }) => data as unknown, wrong = () => undefined, ...rest } = row
  const more = { ...(csv && CSV), ...(final && YES) }
  const command = connected(name, help, { ...rest, options: { ...options, ...more } }, run, begins)
  return final
    ? { ...command, run: async (args) => guarded(args, () => command.run(args)) }
    : command

  /** Runs a command; a final one needs its word first where there is no terminal, before anything is looked up. */
  async function guarded(args: Arguments, go: () => Promise<void>): Promise<void> {
    const [id = ''] = args.positionals
    const isFinal = final!({ id, name: id, path: '' }, args) !== undefined
    if (isFinal) (await import('./terminal.ts')).needYes(args, name)
    await go()
  }

  async function run(admin: Admin, args: Arguments): Promise<void> {
    const { print } = await import('./output.ts')
    const [id = ''] = args.positionals
    // What is wrong in the command is reported before anything is looked up.
    if (of) ask(args, '')
    const named = of
      ? await (await import('./look-up.ts')).lookUp(admin, of, args)
      : { id, name: id, path: `/${encodeURIComponent(id)}` }
    const question = ask(args, named.path)
    if (args.on.has('csv')) return printCsv(admin, question as string)
    const consequence = final?.(named, args)
    if (consequence !== undefined) await (await import('./terminal.ts')).confirm(args, consequence)
    const answer = (typeof all === 'function' ? all(args) : all)
      ? { data: await admin.list(question as string) }
      : typeof question === 'string'
        ? await admin.ask('GET', question)
        : await admin.ask(...question)
    // Without a public URL of the gateway a link begins at the address that was asked; a folder serves no pages.
    if (typeof answer.link === 'string' && args.text.data === undefined)
      answer.link = new URL(answer.link, admin.url).href
    const isJson = args.on.has('json')
    const text = isJson ? '' : await show(answer, args, named)
    print(args, isJson && json(answer, args, named), () => text)
    const fault = wrong(answer.data)
    if (fault !== undefined) throw new CommandError(fault)
  }
}

/** A command that asks a gateway with code of its own. @param begins whether it begins a ledger where there is none */
export function connected(
  name: string,
  help: string,
  row: Omit<Command, 'name' | 'help' | 'run'>,
  run: (admin: Admin, args: Arguments) => Promise<void>,
  begins = false,
): Command {
  return {
    name,
    help,
    ...row,
    options: { ...row.options, ...REMOTE },
    run: async (args) => {
      const { connect, asGiven } = await import('./admin.ts')
      const admin = await connect(args, begins)
      try {
        await run(admin, await (await import('./look-up.ts')).withIds(admin, args))
      } catch (error) {
        throw asGiven(error, row, args)
      } finally {
        await admin.close()
      }
    },
  }
}

/** The commands that refuse an object, accept it again and archive it. @param example the object of their examples @param consequence the consequence of archiving, after its name */
export function switches(
  of: Kind,
  example: string,
  helps: { readonly disable: string; readonly enable: string; readonly archive?: string },
  consequence = '',
): Command[] {
  const kind = of[0]!.toUpperCase() + of.slice(1)
  const row = { arguments: [of], of }
  const turns = (['disable', 'enable'] as const).map((verb) =>
    asked(`${of}s ${verb}`, helps[verb], {
      ...row,
      example: `${of}s ${verb} ${example}`,
      ask: (_, path) => ['PATCH', path, { disabled: verb === 'disable' }],
      show: changed(kind, `${verb}d`),
    }),
  )
  if (helps.archive === undefined) return turns
  const archive = asked(`${of}s archive`, helps.archive, {
    ...row,
    example: `${of}s archive ${example}`,
    final: (one) => `${kind} ${calledOf(one)} ${consequence}. Archive it?`,
    ask: (_, path) => ['DELETE', path],
    show: changed(kind, 'archived'),
  })
  return [...turns, archive]
}

/** Prints a list as CSV, as it comes. @param path the path with the filters */
async function printCsv(admin: Pick<Admin, 'open'>, path: string): Promise<void> {
  const { pipeline } = await import('node:stream/promises')
  const { body } = await admin.open(`${path}${path.includes('?') ? '&' : '?'}format=csv`)
  try {
    await pipeline(body!.pipeThrough(new TextDecoderStream()), process.stdout, { end: false })
  } catch (error) {
    // The reader may leave before the end, as `head` does.
    if ((error as NodeJS.ErrnoException).code !== 'EPIPE') throw error
  }
}

/** JSON with the whole answer. */
export const whole = (answer: unknown): unknown => answer

// Texts of answers

/** A column: a member of a row, with dots for members of it, or what is made of the row. */
type Columns = Readonly<Record<string, string | ((row: any) => unknown)>>

/** The text of a list. @param spare columns that a narrow terminal leaves out, the first of them first */
export function list(
  columns: Columns,
  spare: readonly string[] = [],
  foot?: (answer: any) => string,
) {
  return (answer: { readonly data: readonly any[] }): string => {
    const rows = answer.data.map((row) => rowOf(columns, row))
    const text = rows.length > 0 ? table(Object.keys(columns), rows, spare) : 'There are none.\n'
    return foot ? text + foot(answer) : text
  }
}

function rowOf(columns: Columns, row: any): unknown[] {
  return Object.values(columns).map((of) => (typeof of === 'string' ? member(row, of) : of(row)))
}

function member(value: any, path: string): unknown {
  return path.split('.').reduce((one, name) => one?.[name], value)
}

/** The card of an object, with its warnings below. @param shown further members, or others in their place; undefined leaves one out */
export function cardOf(shown: (data: any) => object = () => ({})) {
  return ({ data }: { readonly data: any }): string => {
    const { warnings = [], limit_status: _, ...members } = data
    return card({ ...members, ...shown(data) }) + warned(warnings)
  }
}

/** One line after a change, such as `Key laptop (key_1) updated: rpm_limit 5 → 10.` */
export function changed(kind: string, verb: string) {
  return ({ data, changes = [] }: any): string => {
    const members = changes.map(
      ({ member: name, before, after }: any) =>
        `${name} ${cell(before ?? 'none')} → ${cell(after ?? 'none')}`,
    )
    const what = verb === 'updated' && members.length > 0 ? `: ${members.join(', ')}` : ''
    return `${kind} ${calledOf(data)} ${verb}${what}.\n${warned(data.warnings ?? [])}`
  }
}

/** A secret alone on its line, below the sentence that says what it is. */
export function secretBelow(sentence: string, secret: unknown): string {
  return secret === undefined
    ? sentence
    : `${sentence}The secret is shown only now:\n\n${cell(secret)}\n`
}

export function calledOf({ id, name }: any): string {
  return name === undefined || name === id ? cell(id) : `${cell(name)} (${cell(id)})`
}

function warned(warnings: readonly any[]): string {
  return warnings.map((one) => `warning: ${cell(one.message ?? one)}\n`).join('')
}
