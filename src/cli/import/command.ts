/** `import`: what an installation of another gateway has becomes files of a gateway, and accounts and keys of a running one. */
import { readdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { readPriceFiles } from '../../config/price-files.ts'
import { isNotable } from '../../import/notes.ts'
import { unservedReason } from '../../import/served.ts'
import { readYaml } from '../../import/source.ts'
import { readTables } from '../../import/tables.ts'
import { isWildcard, type ListedModel } from '../../models/entry.ts'
import { parsePico } from '../../money/money.ts'
import type { Migration, MigrationNote, MigrationSource } from '../../plugin.ts'
import { connect } from '../admin.ts'
import { CommandError, type Arguments } from '../command.ts'
import { toJson } from '../output.ts'
import { apply, type Applied } from './apply.ts'
import { readable, readSource, readText, writeFiles } from './files.ts'
import { fetchedPrices, type FetchedPrices } from './prices.ts'
import { toData, toText, type Report } from './report.ts'

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
  process.stdout.write(
    args.on.has('json') ? toJson(toData(report)) : toText(report, args.on.has('all')),
  )
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
    throw new CommandError(`${folder} cannot be imported: ${error.code}. Nothing was written.`)
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
