/** `import`: what an installation of another gateway has becomes files of a gateway, and accounts and keys of a running one. */
import { readdir, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { randomBytes } from 'node:crypto'
import { toYaml } from '../../config/config.ts'
import { readPriceFiles } from '../../config/price-files.ts'
import { unservedReason, servedInWords } from '../../import/served.ts'
import { readYaml, UnreadableSource, columnsOf, readTable, type Row } from '../../import/source.ts'
import { isWildcard, type ListedModel } from '../../models/entry.ts'
import { parsePico } from '../../money/money.ts'
import type {
  Migration,
  MigrationNote,
  MigrationSource,
  MigratedKey,
  MigrationTable,
  Harm,
} from '../../plugin.ts'
import { connect, Refused, type Admin } from '../admin.ts'
import { routeOf } from '../configuration.ts'
import { CommandError, type Arguments } from '../command.ts'
import { cell, print, table } from '../output.ts'
import { comparePrices } from '../../catalog/price-import.ts'
import { ImportRefused, priceSources, readList } from '../../catalog/price-sources.ts'
import { ConfigError } from '../../errors/errors.ts'
import { formatPriceList, PRICE_LIST_FILE } from '../../models/price-list.ts'

/** The status of an import that could not map everything. */
const INCOMPLETE = 3
const TABLE_FILE = /\.(csv|json|jsonl|ndjson)$/i

/**
 * Maps the files; writes files with `--out`, and creates accounts and keys with `--apply`.
 * @throws CommandError with status 1 for a file that cannot be read, 3 if something is not as in the source
 */
export async function importFrom(source: MigrationSource, args: Arguments): Promise<void> {
  checkOptions(source, args)
  const { out, credits } = args.text
  const files = await filesOf(source, args)
  const { migration, listed, fetched } = await migrate(source, args, files)
  const unserved = new Map(
    [...migration.models].map(([id, model]) => [id, unservedReason(id, model, listed)] as const),
  )
  // A gateway that does not answer is found before a file is written.
  const { config: _, ...text } = args.text
  const admin = args.on.has('apply') ? await connect({ ...args, text }, true) : undefined
  await admin?.ask('GET', '/accounts?limit=1')
  const written =
    out === undefined
      ? []
      : await writeFiles(out, {
          config: migration.config,
          models: Object.fromEntries(migration.models),
          env: migration.env,
          prices: fetched?.text,
        })
  const applied = admin && (await apply(admin, source.name, migration, credits))
  const notes = [...migration.notes, ...withoutPrice(unserved), ...refusals(applied)]
  const accounts = [...migration.accounts.values()]
  const onFreeTier = credits === undefined && accounts.some(({ credit }) => credit === undefined)
  const report: Report = { migration, unserved, notes, written, applied, onFreeTier }
  print(args, toData(report), () => toText(report, args.on.has('all')))
  const count = notes.filter(isNotable).length
  if (count === 0) return
  const what = count === 1 ? '1 thing is' : `${count} things are`
  throw new CommandError(`${what} not as in ${source.title}; the list names each.`, INCOMPLETE)
}

/** Reads the configuration and the tables. */
async function filesOf(source: MigrationSource, args: Arguments) {
  const { config: file, tables: folder } = args.text
  const config = file === undefined ? undefined : await readSource(file, readYaml)
  const named = source.tables.flatMap(({ kind }) => {
    const path = args.text[kind]
    return path === undefined ? [] : [{ path, kind }]
  })
  const inFolder = folder === undefined ? [] : await tablesIn(folder)
  const texts: { name: string; text: string; kind?: string }[] = []
  for (const { path, kind } of [...inFolder, ...named]) {
    const text = await readText(path)
    texts.push({ name: path, text, ...(kind !== undefined && { kind }) })
  }
  const tables = readable(undefined, () => readTables(texts, source.tables))
  return { config, tables }
}

async function tablesIn(folder: string): Promise<{ path: string; kind?: string }[]> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    const reason = error.code === 'ENOENT' ? 'there is no such folder' : error.message
    throw new CommandError(`${folder} cannot be imported: ${reason}. Nothing was written.`)
  })
  const files = names.filter((name) => TABLE_FILE.test(name) && !basename(name).startsWith('.'))
  if (files.length > 0) return files.toSorted().map((name) => ({ path: join(folder, name) }))
  throw new CommandError(
    `${folder} has no tables: expected files that end in .csv, .json or .jsonl. Nothing was written.`,
  )
}

/** Maps, with the prices of the lists in use, and of a public list where that is wanted. */
async function migrate(
  source: MigrationSource,
  args: Arguments,
  files: Awaited<ReturnType<typeof filesOf>>,
): Promise<{
  migration: Migration
  listed: Readonly<Record<string, ListedModel>>
  fetched: FetchedPrices | undefined
}> {
  const accept = new Set((args.text.accept ?? '').split(',').map((field) => field.trim()))
  const folder = args.text.out ?? '.'
  const present = (await readPriceFiles(folder, (path) => path)).models
  const read = (listed: Readonly<Record<string, ListedModel>>) =>
    readable(args.text.config ?? args.text.tables, () =>
      source.read({ ...files, accept, listed: new Set(Object.keys(listed)) }),
    )
  const migration = read(present)
  const { prices } = args.text
  if (prices === undefined) return { migration, listed: present, fetched: undefined }
  const wanted = [...migration.models].flatMap(([id, model]) =>
    unservedReason(id, model, present) === 'no price' || isWildcard(id)
      ? [model.price_of ?? id]
      : [],
  )
  const fetched = await fetchedPrices(prices, folder, wanted)
  return { migration: read(fetched.listed), listed: fetched.listed, fetched }
}

/** @throws CommandError */
function checkOptions(source: MigrationSource, { text, on }: Arguments): void {
  if (source.configured && text.config === undefined) {
    throw new CommandError(`Name the configuration of ${source.title}: --config <file>`, 2)
  }
  const hasTables = [text.tables, ...source.tables.map(({ kind }) => text[kind])].some(
    (path) => path !== undefined,
  )
  if (!source.configured && !hasTables) {
    throw new CommandError(`Name the exported tables of ${source.title}: --tables <folder>`, 2)
  }
  if (on.has('apply') && !hasTables && source.tables.length > 0) {
    throw new CommandError(
      '--apply creates accounts and keys: name the exported tables with --tables <folder>.',
      2,
    )
  }
  if (text.credits === undefined) return
  if (!on.has('apply')) throw new CommandError('--credits needs --apply.', 2)
  try {
    if (parsePico(text.credits) > 0n) return
  } catch {
    // The same message.
  }
  throw new CommandError('--credits takes an amount of USD such as 10.00.', 2)
}

function withoutPrice(unserved: Report['unserved']): MigrationNote[] {
  return [...unserved].flatMap(([where, reason]): MigrationNote[] => {
    if (reason !== 'no price') return []
    const message = 'not served: neither the source nor a price list has a price of it'
    const remedy = 'repeat with --prices fetch, or give its entry in models.yaml a "pricing"'
    return [{ harm: 'unserved', where, message, remedy }]
  })
}

function refusals(applied: Applied | undefined): MigrationNote[] {
  return (applied?.refusals ?? []).map(({ row, message }) => {
    return {
      harm: 'locked',
      where: `keys row ${row}`,
      message: `refused by the gateway: ${message}`,
    }
  })
}

// Prices of a public list for the models of an import.

/** The list that is fetched where none is named. */
const DEFAULT_LIST = 'litellm'

/** Prices after a list was read. */
interface FetchedPrices {
  /** All prices in use, those of the package included. */
  readonly listed: Readonly<Record<string, ListedModel>>
  /** Content of the list beside the configuration; undefined if nothing of it is wanted. */
  readonly text: string | undefined
}

/**
 * Reads a list and takes what the models lack.
 * @param from `fetch`, or what `models import --from` takes
 * @param folder the folder of the configuration
 * @param wanted ids in price lists
 * @throws CommandError
 */
async function fetchedPrices(
  from: string,
  folder: string,
  wanted: readonly string[],
): Promise<FetchedPrices> {
  try {
    const sources = await priceSources()
    const name = from === 'fetch' ? DEFAULT_LIST : from
    const lists = [await readList(name, undefined, sources, routeOf())]
    const now = new Date().toISOString()
    const path = join(folder, PRICE_LIST_FILE)
    const only = wanted.length === 0 ? [''] : wanted
    const compared = await comparePrices({ path, label: path, lists, only, accept: [], now })
    const isEmpty = Object.keys(compared.list.models).length === 0
    return { listed: compared.listed, text: isEmpty ? undefined : formatPriceList(compared.list) }
  } catch (error) {
    if (!(error instanceof ImportRefused || error instanceof ConfigError)) throw error
    throw new CommandError(`${error.message} Nothing was written.`)
  }
}

// What an import tells: the counts, the notes, and what it has written. Neither form shows a secret or a hash.

const FREE_TIER =
  'Accounts are on the free tier until they get credits: repeat with --apply --credits <usd>, or use "credits add".'
const NOTHING_WRITTEN =
  'Nothing was written. Repeat with --out <folder>, and with --apply for accounts and keys.'

/** Everything that a run has found and done. */
interface Report {
  readonly migration: Migration
  /** The reason, by id, why a model is not served. */
  readonly unserved: ReadonlyMap<string, string | undefined>
  readonly notes: readonly MigrationNote[]
  readonly written: readonly string[]
  readonly applied: Applied | undefined
  /** Accounts stay on the free tier where the source has no credit and none was given. */
  readonly onFreeTier: boolean
}

/** Models of a key that the table names. */
const MAX_MODELS = 4

/** The report as JSON has it. */
function toData(report: Report): object {
  const { migration, unserved, notes, written, applied } = report
  return {
    summary: firstLine(report),
    config: migration.config,
    models: Object.fromEntries(migration.models),
    unserved: Object.fromEntries([...unserved].filter(([, reason]) => reason !== undefined)),
    variables: [...migration.env.keys()],
    needs: migration.needs,
    accounts: [...migration.accounts].map(([id, { name, settings, credit }]) => {
      return { id, name, ...settings, ...(credit !== undefined && { credit }) }
    }),
    teams: [...(migration.teams ?? [])].map(([id, { account, name, disabled, settings }]) => {
      return { id, account_id: account, name, disabled, ...settings }
    }),
    keys: migration.keys.map(({ row, account, id, name, disabled, settings }) => {
      return { row, account_id: account, id, name, disabled, ...settings }
    }),
    notes,
    written,
    applied: applied && { accounts: applied.accounts, teams: applied.teams, keys: applied.keys },
  }
}

/** The report for people. @param all whether to name what has no effect */
function toText(report: Report, all: boolean): string {
  const { migration, notes, written, applied } = report
  const { models, needs, env, keys } = migration
  const lines = [
    firstLine(report),
    '',
    ...(notes.length === 0 ? ['Everything was mapped.'] : notesInWords(notes, all)),
    '',
    ...(models.size > 0 ? [modelTable(report)] : []),
    ...(keys.length > 0 ? [keyTable(keys)] : []),
    ...(needs.length > 0 ? [`Variables that the gateway needs: ${needs.join(', ')}`] : []),
    ...(env.size > 0 ? [`Secrets for .env: ${count(env.size, 'value')}`] : []),
    ...(report.onFreeTier && migration.accounts.size > 0 ? [FREE_TIER] : []),
    ...written.map((path) => `Wrote ${path}`),
    ...(applied ? [summaryOf(applied)] : []),
    ...(written.length === 0 && !applied ? [NOTHING_WRITTEN] : []),
  ]
  return `${lines.join('\n')}\n`
}

/** Text such as `21 of 23 models served, 2 not (no price); 10 keys: 8 active, 2 disabled`. */
function firstLine({ migration: { keys }, unserved }: Report): string {
  const models = servedInWords([...unserved.values()])
  if (keys.length === 0) return models
  const disabled = keys.filter((key) => key.disabled).length
  return `${models}; ${count(keys.length, 'key')}: ${keys.length - disabled} active, ${disabled} disabled`
}

function modelTable({ migration, unserved }: Report): string {
  const rows = [...migration.models].map(([id, { aliases, deployments = [] }]) => [
    id,
    unserved.get(id) ?? 'served',
    aliases,
    deployments.map(({ provider, model = '*' }) => `${String(provider)}/${String(model)}`),
  ])
  return table(['MODEL', 'STATE', 'ALIASES', 'DEPLOYMENTS'], rows)
}

function keyTable(keys: readonly MigratedKey[]): string {
  const rows = keys.map(({ row, account, name, disabled, settings }) => {
    const shown = Object.entries(settings).map(
      ([member, value]) => `${member} ${cell(shortened(value))}`,
    )
    return [row, account, name, disabled ? 'disabled' : 'active', shown]
  })
  return table(['ROW', 'ACCOUNT', 'KEY', 'STATE', 'SETTINGS'], rows)
}

/** A long list with its first elements. */
function shortened(value: unknown): unknown {
  if (!Array.isArray(value) || value.length <= MAX_MODELS) return value
  return [...value.slice(0, MAX_MODELS), `and ${value.length - MAX_MODELS} more`]
}

function summaryOf({ accounts, teams, keys }: Applied): string {
  return (
    `Accounts: ${accounts.created} created, ${accounts.same} there already, ${accounts.credited} credited. ` +
    (teams.created + teams.same > 0
      ? `Teams: ${teams.created} created, ${teams.same} there already. `
      : '') +
    `Keys: ${keys.created} created, ${keys.same} there already, ${keys.refused} refused.`
  )
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`
}

// Creates accounts and keys of an import in a running gateway. Accounts and keys that exist stay as they are.

/** Counts of what an import has created or found, for its report. */
interface Applied {
  readonly accounts: { created: number; same: number; credited: number }
  readonly teams: { created: number; same: number }
  readonly keys: { created: number; same: number; refused: number }
  /** Rows that the gateway has refused, and why. */
  readonly refusals: { readonly row: number; readonly message: string }[]
}

/**
 * Creates accounts and keys that do not exist yet. May be repeated: ids are derived from those of the other program, and
 * credits have a reference.
 * @param source the name of the other program, which references of credits begin with
 * @param credits USD as decimal text, for each account that has no credit in the source
 * @throws CommandError when the gateway does not answer, or refuses more than a row
 */
async function apply(
  admin: Admin,
  source: string,
  { accounts, teams = new Map(), keys }: Pick<Migration, 'accounts' | 'teams' | 'keys'>,
  credits: string | undefined,
): Promise<Applied> {
  const done: Applied = {
    accounts: { created: 0, same: 0, credited: 0 },
    teams: { created: 0, same: 0 },
    keys: { created: 0, same: 0, refused: 0 },
    refusals: [],
  }
  const idsOf = async (path: string) => {
    return new Set((await admin.list(path)).map(({ id }: { id: string }) => id))
  }
  const [knownAccounts, knownKeys] = [await idsOf('/accounts'), await idsOf('/keys')]
  for (const [id, { name, settings, credit: own }] of accounts) {
    if (knownAccounts.has(id)) done.accounts.same++
    else {
      await admin.ask('POST', '/accounts', { id, name })
      if (Object.keys(settings).length > 0) await admin.ask('PATCH', `/accounts/${id}`, settings)
      done.accounts.created++
    }
    const usd = own ?? credits
    if (usd === undefined) continue
    if (await credit(admin, id, usd, `${source}-import:${id}`)) done.accounts.credited++
  }
  const knownTeams = teams.size > 0 ? await idsOf('/teams') : new Set()
  for (const [id, { account, name, disabled, settings }] of teams) {
    if (knownTeams.has(id)) done.teams.same++
    else {
      await admin.ask('POST', `/accounts/${account}/teams`, { id, name, disabled, ...settings })
      done.teams.created++
    }
  }
  for (const key of keys) {
    const outcome = knownKeys.has(key.id) ? 'same' : await create(admin, key)
    if (outcome === 'created' || outcome === 'same') done.keys[outcome]++
    else {
      done.keys.refused++
      done.refusals.push({ row: key.row, message: outcome.message })
    }
  }
  return done
}

/** It is false when an import has credited the account before, with whatever amount. */
async function credit(admin: Admin, id: string, usd: string, reference: string): Promise<boolean> {
  const body = { usd, reference, note: 'import' }
  try {
    return !(await admin.ask('POST', `/accounts/${id}/credits`, body)).data.duplicate
  } catch (error) {
    if (error instanceof Refused && error.status === 409) return false
    throw error
  }
}

async function create(admin: Admin, key: MigratedKey): Promise<'created' | 'same' | Refused> {
  const { account, settings, row: _, ...own } = key
  try {
    await admin.ask('POST', `/accounts/${account}/keys`, { ...own, ...settings })
    return 'created'
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 400) throw error
    // Another key has the same hash: the secret works already.
    return error.param === 'sha256' || error.param === 'id' ? 'same' : error
  }
}

// Files of an import: reads those of the other program, writes those of the gateway.

/** Larger files are no configuration and no table of keys. */
const MAX_BYTES = 256 * 1024 * 1024
const SECRET_MODE = 0o600
const TOKEN = 'SLUICEGATE_ADMIN_TOKEN'
const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'it is a folder',
  EACCES: 'it may not be read',
}

/** The text of a file. @throws CommandError that names the file */
async function readText(file: string): Promise<string> {
  try {
    const { size } = await stat(file)
    if (size <= MAX_BYTES) return await readFile(file, 'utf8')
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    return unreadable(file, REASONS[code] ?? `it cannot be read (${code})`)
  }
  return unreadable(file, 'it is larger than 256 MiB')
}

/**
 * What a file holds.
 * @param read makes it of the text
 * @throws CommandError that names the file and shows nothing of its content
 */
async function readSource<Content>(
  file: string,
  read: (text: string) => Content,
): Promise<Content> {
  const text = await readText(file)
  return readable(file, () => read(text))
}

/**
 * Runs what makes sense of files that were read.
 * @param file what a message begins with; undefined where the message names a file itself
 * @throws CommandError in place of an error that is about their content
 */
function readable<Content>(file: string | undefined, read: () => Content): Content {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof UnreadableSource || error instanceof TypeError)) throw error
    return unreadable(file, error.message)
  }
}

function unreadable(file: string | undefined, reason: string): never {
  const what = file === undefined ? reason : `${file} cannot be imported: ${reason}`
  throw new CommandError(`${what}. Nothing was written.`)
}

/** Files of a gateway. */
interface GatewayFiles {
  readonly config: object
  readonly models: object
  /** Secrets by variable. */
  readonly env: ReadonlyMap<string, string>
  /** Content of the price list; without it none is written. */
  readonly prices: string | undefined
}

/**
 * Writes them into a folder, with a new admin token; all or none.
 * @returns their paths
 * @throws CommandError if one of them exists or cannot be written
 */
async function writeFiles(folder: string, files: GatewayFiles): Promise<string[]> {
  const env = new Map([[TOKEN, randomBytes(24).toString('base64url')], ...files.env])
  const contents = [
    ['.env', [...env].map(([name, value]) => `${name}=${quoted(value)}\n`).join(''), SECRET_MODE],
    ['models.yaml', yaml('Models by id, see docs/models-and-prices.md.', files.models), 0o644],
    ...(files.prices === undefined ? [] : [[PRICE_LIST_FILE, files.prices, 0o644] as const]),
    [
      'gateway.config.yaml',
      yaml('Every member is described in docs/configuration.md.', files.config),
      0o644,
    ],
  ] as const
  const written: string[] = []
  let made: string | undefined
  try {
    made = await mkdir(folder, { recursive: true })
    for (const [name, text, mode] of contents) {
      const path = join(folder, name)
      await writeFile(path, text, { flag: 'wx', mode })
      written.push(path)
    }
    return written
  } catch (error) {
    await Promise.all(written.map((path) => rm(path, { force: true })))
    // The folders that were made for it are empty again.
    if (made !== undefined) await rm(made, { recursive: true, force: true })
    const { code, path } = error as NodeJS.ErrnoException
    const reason =
      code === 'EEXIST' ? `${path} exists already; choose another folder` : `${path}: ${code}`
    throw new CommandError(`Nothing was written: ${reason}.`)
  }
}

function yaml(comment: string, value: object): string {
  return `# ${comment}\n${toYaml(value)}`
}

/** A value as `.env` files have it. */
function quoted(value: string): string {
  if (/^[\w.:/@+=-]*$/.test(value)) return value
  const quote = ["'", '`', '"'].find((one) => !value.includes(one))
  if (quote === undefined || (quote === '"' && /\\/.test(value))) {
    throw new CommandError('A secret has all three kinds of quotes, which no .env file can hold.')
  }
  return quote + value + quote
}

// Exports of the tables of other programs, recognised by their columns.

/** A file with a table. */
interface TableFile {
  readonly name: string
  readonly text: string
  /** Its kind, where the operator named it. */
  readonly kind?: string
}

/**
 * The rows of each table.
 * @param kinds the tables of the program, in the order in which they are looked for
 * @throws UnreadableSource that names the file and shows nothing of its content
 */
function readTables(
  files: readonly TableFile[],
  kinds: readonly MigrationTable[],
): Map<string, readonly Row[]> {
  const tables = new Map<string, readonly Row[]>()
  const names = new Map<string, string>()
  for (const { name, text, kind: kindName } of files) {
    const { columns, rows } = read(name, text)
    const has = (wanted: MigrationTable) => wanted.columns.every((one) => columns.includes(one))
    const wanted =
      kindName === undefined ? kinds.find(has) : kinds.find(({ kind }) => kind === kindName)!
    if (!wanted) {
      const expected = kinds.map(({ kind, columns: by }) => `${kind} (${by.join(', ')})`).join('; ')
      throw new UnreadableSource(`${name}: its columns are those of no table: ${expected}`)
    }
    if (kindName !== undefined && columns.length > 0 && !has(wanted)) {
      const missing = wanted.columns.filter((one) => !columns.includes(one))
      throw new UnreadableSource(
        `${name}: its rows have no column ${missing.map((one) => JSON.stringify(one)).join(', ')}`,
      )
    }
    const other = names.get(wanted.kind)
    if (other !== undefined) {
      throw new UnreadableSource(`${name}: it has the table ${wanted.kind}, as ${other} has`)
    }
    names.set(wanted.kind, name)
    tables.set(wanted.kind, rows)
  }
  return tables
}

function read(name: string, text: string): { columns: readonly string[]; rows: readonly Row[] } {
  try {
    const rows = readTable(text, name)
    return { columns: columnsOf(rows, text, name), rows }
  } catch (error) {
    if (error instanceof UnreadableSource) throw new UnreadableSource(`${name}: ${error.message}`)
    throw error
  }
}

// Notes of an import, for people: the most harmful first, equal ones as one line.

/** The kinds of harm, the worst first, with what each means. */
const HARMS: Readonly<Record<Harm, string>> = {
  unserved: 'Models that are not served',
  locked: 'Keys that are created disabled, or left out',
  wider: 'Allowed here and not in the source',
  differs: 'Served in another way than in the source',
  elsewhere: 'Set in another place here',
  lost: 'Without a counterpart here',
  none: 'Without effect',
}
/** Places that one line names. */
const MAX_PLACES = 3

/** Notes that say the same. */
interface NoteGroup extends Pick<MigrationNote, 'harm' | 'message' | 'remedy'> {
  readonly places: string[]
}

/** The notes that an operator has to read: those without effect are only counted unless all are wanted. */
function isNotable({ harm }: MigrationNote): boolean {
  return harm !== 'none'
}

/** Lines under headings. @param all whether to name what has no effect, in place of its number */
function notesInWords(notes: readonly MigrationNote[], all: boolean): string[] {
  const byHarm = Map.groupBy(grouped(notes), ({ harm }) => harm)
  return (Object.keys(HARMS) as Harm[]).flatMap((harm) => {
    const groups = byHarm.get(harm) ?? []
    if (groups.length === 0) return []
    const count = groups.reduce((sum, { places }) => sum + places.length, 0)
    const heading = `${HARMS[harm]} (${count})`
    if (harm === 'none' && !all) return [`${heading}: repeat with --all to see them.`]
    return [`${heading}:`, ...groups.flatMap(linesOf)]
  })
}

function grouped(notes: readonly MigrationNote[]): NoteGroup[] {
  const groups = new Map<string, NoteGroup>()
  for (const { harm, where, message, remedy } of notes) {
    const key = JSON.stringify([harm, message, remedy])
    const group = groups.get(key)
    if (group) group.places.push(where)
    else
      groups.set(key, { harm, message, ...(remedy !== undefined && { remedy }), places: [where] })
  }
  return [...groups.values()]
}

function linesOf({ places, message, remedy }: NoteGroup): string[] {
  const named = places.slice(0, MAX_PLACES).join('; ')
  const rest = places.length - MAX_PLACES
  const where = rest > 0 ? `${named} and ${rest} more` : named
  return [`  ${where}: ${message}`, ...(remedy === undefined ? [] : [`    → ${remedy}`])]
}
