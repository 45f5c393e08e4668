/** `import litellm`: what a LiteLLM proxy has becomes files of a gateway, and accounts and keys of a running one. */
import {
  looksLikeKeys,
  mapConfiguration,
  mapKeys,
  type Configuration,
  type Entry,
  type Keys,
  type Note,
} from '../../../plugins/import/litellm.ts'
import { readPriceFiles } from '../../config/price-files.ts'
import { readTable, readYaml, UnreadableSource, type Row } from '../../import/source.ts'
import { isWildcard } from '../../models/entry.ts'
import { parsePico } from '../../money/money.ts'
import { connect } from '../admin.ts'
import { CommandError, type Arguments } from '../command.ts'
import { table, toJson } from '../output.ts'
import { apply, type Applied } from './apply.ts'
import { readSource, UNPRICED_FILE, writeFiles } from './files.ts'

/** The status of an import that could not map everything. */
const INCOMPLETE = 3
const FREE_TIER =
  'Accounts are on the free tier until they get credits: repeat with --apply --credits <usd>, or use "credits add".'

/** Everything that a run has found and done. */
interface Report {
  readonly files: Readonly<Record<Note['source'], string | undefined>>
  readonly configuration: Configuration
  /** The models that can be charged. */
  readonly models: Configuration['models']
  /** Those that have a price neither in the source nor in a price list: a gateway refuses to start with them. */
  readonly unpriced: Configuration['models']
  readonly keys: Keys
  readonly notes: readonly Note[]
  readonly written: readonly string[]
  readonly applied: Applied | undefined
  readonly credited: boolean
}

/**
 * Maps the files; writes files with `--out`, and creates accounts and keys with `--apply`.
 * @throws CommandError with status 1 for a file that cannot be read, 3 if something has no counterpart
 */
export async function importLitellm(args: Arguments): Promise<void> {
  const { config: file, keys: keyFile, budgets: budgetFile, out, credits } = args.text
  checkOptions(args)
  const configuration = await readSource(file!, (text) => mapConfiguration(readYaml(text)))
  const rows = keyFile === undefined ? [] : await readSource(keyFile, readKeys)
  const budgets = budgetFile === undefined ? [] : await readSource(budgetFile, readTable)
  const accept = new Set((args.text.accept ?? '').split(',').map((field) => field.trim()))
  const keys = mapKeys(rows, { idOf: configuration.idOf, budgets, accept })
  const { models, unpriced } = await byPrice(configuration.models, out ?? '.')
  const written =
    out === undefined
      ? []
      : await writeFiles(out, {
          config: configuration.config,
          models: Object.fromEntries(models),
          unpriced: Object.fromEntries(unpriced),
          env: configuration.env,
        })
  // `--config` is that of the other program.
  const { config: _, ...text } = args.text
  const applied = args.on.has('apply')
    ? await apply(await connect({ ...args, text }, true), keys, credits)
    : undefined
  const report: Report = {
    files: { configuration: file, keys: keyFile, budgets: budgetFile },
    configuration,
    models,
    unpriced,
    keys,
    notes: [...configuration.notes, ...pricesWanted(unpriced), ...keys.notes, ...refusals(applied)],
    written,
    applied,
    credited: credits !== undefined,
  }
  process.stdout.write(args.on.has('json') ? toJson(toData(report)) : toText(report))
  const count = report.notes.length
  if (count === 0) return
  const what = count === 1 ? '1 thing was' : `${count} things were`
  throw new CommandError(`${what} not imported as in the source; the list names each.`, INCOMPLETE)
}

/** @throws CommandError */
function checkOptions({ text, on }: Arguments): void {
  if (text.config === undefined) {
    throw new CommandError('Name the configuration of LiteLLM: --config <file>', 2)
  }
  if (on.has('apply') && text.keys === undefined) {
    throw new CommandError(
      '--apply creates accounts and keys: name their rows with --keys <file>.',
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

/** Splits models by whether they have a price. @param folder of the price list beside the configuration */
async function byPrice(
  all: Configuration['models'],
  folder: string,
): Promise<Pick<Report, 'models' | 'unpriced'>> {
  const listed = Object.keys((await readPriceFiles(folder, (path) => path)).models)
  const isPriced = ([id, { pricing, price_of = id }]: [string, Entry]) =>
    pricing !== undefined ||
    (isWildcard(id)
      ? listed.some((one) => one.startsWith(id.slice(0, -1)))
      : listed.includes(price_of))
  const { true: models = [], false: unpriced = [] } = Object.groupBy(all, (model) =>
    isPriced(model) ? 'true' : 'false',
  )
  return { models: new Map(models), unpriced: new Map(unpriced) }
}

function pricesWanted(unpriced: Report['unpriced']): Note[] {
  return [...unpriced.keys()].map((where) => {
    const message = `it has no price in the source or in a price list: kept apart in ${UNPRICED_FILE}`
    return { source: 'configuration', where, message }
  })
}

function readKeys(text: string, name: string): readonly Row[] {
  const rows = readTable(text, name)
  if (looksLikeKeys(rows)) return rows
  throw new UnreadableSource('its rows have no column "token"')
}

function refusals(applied: Applied | undefined): Note[] {
  return (applied?.refusals ?? []).map(({ row, message }) => {
    return { source: 'keys', where: `row ${row}`, message: `refused by the gateway: ${message}` }
  })
}

/** Without hashes, and without the values of `.env`. */
function toData(report: Report): object {
  const { files, configuration, models, unpriced, keys, notes, written, applied } = report
  return {
    config: configuration.config,
    models: Object.fromEntries(models),
    unpriced: [...unpriced.keys()],
    variables: [...configuration.env.keys()],
    needs: configuration.needs,
    accounts: [...keys.accounts].map(([id, name]) => ({ id, name })),
    keys: keys.keys.map(({ row, account, id, name, disabled, settings }) => {
      return { row, account_id: account, id, name, disabled, ...settings }
    }),
    notes: notes.map(({ source, ...note }) => ({ file: files[source], ...note })),
    written,
    applied: applied && { accounts: applied.accounts, keys: applied.keys },
  }
}

function toText(report: Report): string {
  const { configuration, keys, notes, files, written, applied } = report
  const onFreeTier = keys.accounts.size > 0 && !report.credited
  const { models, providers, env, needs } = configuration
  const listed = [...report.models.values()].filter(({ pricing }) => !pricing).length
  const disabled = keys.keys.filter((key) => key.disabled).length
  const lines = [
    ...(onFreeTier ? [FREE_TIER, ''] : []),
    `${files.configuration}: ${count(models.size, 'model')}, ${count(providers.size, 'provider')}, ` +
      `${count(env.size, 'secret')} for .env`,
    ...(files.keys === undefined
      ? []
      : [
          `${files.keys}: ${count(keys.keys.length, 'key')}, ${count(keys.accounts.size, 'account')}, ` +
            `${disabled} disabled`,
        ]),
    '',
    table(
      ['MODEL', 'ALIASES', 'DEPLOYMENTS'],
      [...models].map(([id, { aliases, deployments }]) => [
        id,
        aliases,
        deployments.map(({ provider, model = '*' }) => `${provider}/${model}`),
      ]),
    ),
    ...(listed > 0
      ? [
          `${count(listed, 'model')} without a price in the source: a price list has it, see "check".`,
          '',
        ]
      : []),
    ...(needs.length > 0 ? [`Variables that the gateway needs: ${needs.join(', ')}`, ''] : []),
    ...(keys.keys.length === 0 ? [] : [keyTable(keys)]),
    ...(notes.length === 0
      ? ['Everything was mapped.']
      : [`Not as in the source (${notes.length}):`, ...notes.map((note) => noteLine(note, files))]),
    '',
    ...written.map((path) => `Wrote ${path}`),
    ...(applied ? [summaryOf(applied)] : []),
    ...(written.length === 0 && !applied
      ? ['Nothing was written. Repeat with --out <folder>, and with --apply for accounts and keys.']
      : []),
  ]
  return `${lines.join('\n')}\n`
}

function keyTable({ keys }: Keys): string {
  const rows = keys.map(({ row, account, name, disabled, settings }) => {
    const shown = Object.entries(settings).map(([member, value]) => {
      return `${member} ${typeof value === 'string' ? value : JSON.stringify(value)}`
    })
    return [row, account, name, disabled ? 'disabled' : 'active', shown]
  })
  return table(['ROW', 'ACCOUNT', 'KEY', 'STATE', 'SETTINGS'], rows)
}

function noteLine({ source, where, message }: Note, files: Report['files']): string {
  return `  ${files[source]}  ${where}  ${message}`
}

function summaryOf({ accounts, keys }: Applied): string {
  return (
    `Accounts: ${accounts.created} created, ${accounts.same} there already, ${accounts.credited} credited. ` +
    `Keys: ${keys.created} created, ${keys.same} there already, ${keys.refused} refused.`
  )
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`
}
