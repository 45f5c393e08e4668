/** Commands over vendors, models, search engines and sinks that are set up at run time. */
import { readFileSync } from 'node:fs'
import type { OptionField } from '../plugin.ts'
import type { Admin } from './admin.ts'
import { CommandError, type Arguments } from './command.ts'
import { card, cell, print, table } from './output.ts'
import { askedFor, hiddenText } from './terminal.ts'

/** Entries that have a plugin, and models. */
export type Noun = 'providers' | 'engines' | 'sinks' | 'models'

const KINDS: Readonly<Record<Noun, string>> = {
  providers: 'provider',
  engines: 'search',
  sinks: 'sink',
  models: 'model',
}
/** Members of an entry beside its options, and how their text is read. */
const MEMBERS: Readonly<Record<string, (text: string) => unknown>> = {
  timeout: Number,
  firstPartTimeout: Number,
  idleTimeout: Number,
  connections: Number,
  forwardTrace: (text) => text === 'true',
  maxAnswer: String,
  maxStream: String,
  price: String,
}

interface Value {
  readonly [member: string]: unknown
  readonly use?: string
  readonly options?: Readonly<Record<string, unknown>>
}

export async function showEntry(noun: Noun, admin: Admin, args: Arguments): Promise<void> {
  const entry = await entryOf(noun, admin, args.positionals[0]!)
  print(args, entry, () => {
    const { section: _, value, warnings, ...members } = entry
    return card({ ...members, ...value }) + warningsIn(warnings)
  })
}

/** `add`: also tests a vendor whose models are chosen, and shows what it would serve. */
export async function addEntry(noun: Noun, admin: Admin, args: Arguments): Promise<void> {
  const [name = ''] = args.positionals
  const { use, models } = args.text
  if (noun === 'models')
    return change(admin, args, [{ section: noun, name, value: modelOf(args, {}) }])
  if (use === undefined) throw new CommandError(`Name a plugin or a vendor: --use <plugin>.`, 2)
  const fields = await fieldsOf(noun, use, admin)
  const value = await valueOf(args, fields, { use })
  const chosen = models === undefined || models === 'none' ? [] : models.split(',')
  const added = chosen.map((one) => ({
    section: 'models',
    name: `${name}/${one === 'all' ? '*' : one}`,
    value: {},
  }))
  const changes = [{ section: noun, name, value }, ...added]
  if (added.length > 0) {
    const { data } = await admin.ask('POST', '/providers/test', { use, options: value.options })
    if (data.ok === false) throw new CommandError(failureOf(data))
    if (process.stdin.isTTY && !args.on.has('dry-run') && !(await isWanted(admin, changes))) return
  }
  await change(admin, args, changes)
}

/** Shows what changes would serve, and asks once. */
async function isWanted(admin: Admin, changes: readonly object[]): Promise<boolean> {
  const { data } = await admin.ask('POST', '/managed', { changes, dry_run: true })
  process.stderr.write(`${data.models.added.map((id: string) => `  ${id}\n`).join('')}`)
  const answer = await askedFor(`Serve ${data.models.added.length} models? [y/N] `, false)
  return /^y(es)?$/i.test(answer.trim())
}

export async function updateEntry(noun: Noun, admin: Admin, args: Arguments): Promise<void> {
  const [name = ''] = args.positionals
  const { value: stored, revision } = await entryOf(noun, admin, name)
  const use = args.text.use ?? stored.use
  const value =
    noun === 'models'
      ? modelOf(args, stored)
      : await valueOf(args, await fieldsOf(noun, use, admin), { ...stored, use }, false)
  await change(admin, args, [{ section: noun, name, value, revision }])
}

/** Tests an entry in force. @throws CommandError where the other side does not answer as it should */
export async function testEntry(noun: Noun, admin: Admin, args: Arguments): Promise<void> {
  const isModel = noun === 'models'
  const body = isModel ? { deployment: args.text.deployment } : { name: args.positionals[0] }
  const path = isModel
    ? `/models/${encodeURIComponent(args.positionals[0]!)}/test`
    : `/${noun}/test`
  const { data } = await admin.ask('POST', path, body)
  if (data.ok === false) throw new CommandError(failureOf(data))
  print(args, data, () => {
    const { ok, message, ms, models, usage: _, ...shown } = data
    const what = `${noun[0]!.toUpperCase()}${noun.slice(1, -1)} ${cell(args.positionals[0])}`
    if (ok === null) return `${what}: ${cell(message)}\n`
    const outcome = message ?? (models && `${models.length} models`)
    const line = `${what} answered after ${cell(ms)} ms${outcome ? `: ${cell(outcome)}` : ''}.\n`
    return line + card(shown)
  })
}

export async function listOffers(admin: Admin, args: Arguments): Promise<void> {
  const answer = await admin.ask('POST', '/providers/offers', { name: args.positionals[0] })
  if (answer.ok === false || answer.message) throw new CommandError(failureOf(answer))
  print(args, answer.data, () => {
    const rows = answer.data.map((one: any) => [
      one.id,
      one.modality,
      one.pricing && cell(one.pricing),
      one.served_as,
    ])
    return rows.length === 0
      ? 'The vendor names no models.\n'
      : table(['ID', 'KIND', 'PRICES', 'SERVED AS'], rows)
  })
}

function failureOf({ message, cause }: any): string {
  return `The test failed: ${cause ?? message}${cause && message !== cause ? ` (${message})` : ''}`
}

// The layer as a whole

/** `config export`: the file on standard output, the variables to set on standard error; as JSON both. */
export async function exportConfig(admin: Admin, args: Arguments): Promise<void> {
  const text = await (await admin.open('/managed/export')).text()
  const variables = [...text.matchAll(/^# set (\w+)$/gm)].map(([, name]) => name)
  const yaml = text.replaceAll(/^# set \w+\n/gm, '')
  if (args.on.has('json')) return print(args, { yaml, variables }, () => '')
  process.stdout.write(yaml)
  if (variables.length > 0) process.stderr.write(`Set these variables: ${variables.join(', ')}\n`)
}

async function change(admin: Admin, args: Arguments, changes: readonly object[]): Promise<void> {
  const body = { changes, dry_run: args.on.has('dry-run'), note: args.text.note }
  const { data } = await admin.ask('POST', '/managed', body)
  print(args, data, () => outcomeOf(data))
}

/** What a change has done, or would do. */
export function outcomeOf({ revision, applied, models, prices, warnings }: any): string {
  const lines = [
    applied ? `Revision ${cell(revision)} is in force.` : 'This is a dry run: nothing was changed.',
    ...(['added', 'changed', 'removed'] as const).flatMap((what) =>
      models[what].length > 0 ? [`${what}: ${models[what].join(', ')}`] : [],
    ),
    ...prices.map(({ text }: any) => `price: ${text}`),
  ]
  return lines.map((line) => `${line}\n`).join('') + warningsIn(warnings)
}

function warningsIn(warnings: readonly { readonly message: string }[]): string {
  return warnings.map(({ message }) => `warning: ${message}\n`).join('')
}

// Entries from options

async function entryOf(noun: Noun, admin: Admin, name: string): Promise<any> {
  const { data } = await admin.ask('GET', '/managed')
  const entry = data.entries.find((one: any) => one.section === noun && one.name === name)
  if (entry) return entry
  throw new CommandError(
    `No ${noun.slice(0, -1)} ${JSON.stringify(name)} is set up at run time; one of the configuration file is changed there.`,
  )
}

async function fieldsOf(noun: Noun, use: string, admin: Admin): Promise<readonly OptionField[]> {
  const { data } = await admin.ask('GET', '/plugins')
  const plugin = data.find((one: any) => one.kind === KINDS[noun] && one.name === use)
  return plugin?.fields ?? []
}

/** An entry with the options of `--set` and the secrets of `--secret`. @param asks whether a terminal asks for missing secrets */
async function valueOf(
  { all }: Arguments,
  fields: readonly OptionField[],
  stored: Value,
  asks = true,
): Promise<Value> {
  let value: Record<string, unknown> = { ...stored }
  const options: Record<string, any> = { ...stored.options }
  const put = (name: string, option: unknown) => {
    const [first = '', second] = name.split('.')
    if (second === undefined) options[first] = option
    else options[first] = { ...options[first], [second]: option }
  }
  for (const pair of all.set ?? []) {
    const [name, text] = parted(pair, '--set')
    const field = fields.find((one) => one.name === name)
    if (field?.kind === 'secret') {
      throw new CommandError(
        `${name} is a secret: give it by --secret ${name}=-, which reads standard input.`,
        2,
      )
    }
    const read = field ? undefined : MEMBERS[name]
    if (read) value = { ...value, [name]: read(text) }
    else put(name, field ? typed(text, field) : text)
  }
  for (const pair of all.secret ?? []) {
    const [name, source] = parted(pair, '--secret')
    put(name, await secretOf(name, source))
  }
  for (const { name, kind, required } of fields) {
    if (
      asks &&
      kind === 'secret' &&
      required &&
      options[name] === undefined &&
      process.stdin.isTTY
    ) {
      put(name, await secretOf(name, '-'))
    }
  }
  return Object.keys(options).length > 0 ? { ...value, options } : value
}

function typed(text: string, { kind }: OptionField): unknown {
  if (kind === 'number') return Number(text)
  if (kind === 'flag') return text === 'true'
  return kind === 'list' ? text.split(',').map((one) => one.trim()) : text
}

/** The members of a model that options name, over those that it has. */
function modelOf({ all, text }: Arguments, stored: Value): Value {
  const deployments = all.deployment?.map((one) => {
    const [provider, ...model] = one.split('/')
    if (model.length === 0) throw new CommandError('--deployment takes provider/model.', 2)
    return { provider, model: model.join('/') }
  })
  const pricing = all.price && Object.fromEntries(all.price.map((pair) => parted(pair, '--price')))
  return {
    ...stored,
    ...(text.name !== undefined && { name: text.name }),
    ...(deployments && { deployments }),
    ...(pricing && { pricing: { ...(stored.pricing as object), ...pricing } }),
    ...(all.alias && { aliases: all.alias }),
  }
}

function parted(pair: string, option: string): [name: string, value: string] {
  const at = pair.indexOf('=')
  if (at > 0) return [pair.slice(0, at), pair.slice(at + 1)]
  throw new CommandError(`${option} takes name=value, not ${JSON.stringify(pair.slice(0, 20))}.`, 2)
}

/** A secret that is in no argument: other users of a machine read arguments. @throws CommandError */
async function secretOf(name: string, source: string): Promise<string> {
  if (source === '-') return hiddenText(name)
  const [, kind, place = ''] = /^(env|file):(.+)$/s.exec(source) ?? []
  try {
    const text =
      kind === 'env'
        ? process.env[place]
        : kind === 'file'
          ? readFileSync(place, 'utf8')
          : undefined
    if (text !== undefined && text.trim() !== '') return text.trim()
  } catch {
    // The message below says what is expected.
  }
  const expected = `--secret ${name}=-, =env:NAME of a variable that is set, or =file:path`
  throw new CommandError(`The secret ${name} cannot be read: expected ${expected}.`, 2)
}
