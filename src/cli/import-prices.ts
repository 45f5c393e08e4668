/** `models import`: compares the operator's price list with public ones, and takes their prices over. It works on files alone. */
import { hash } from 'node:crypto'
import { resolve } from 'node:path'
import { PACKAGED_PRICES, readPriceFile } from '../config/price-files.ts'
import { ConfigError } from '../errors/errors.ts'
import type { Origin } from '../config/origins.ts'
import { compare, ownDifferences, type Comparison, type PriceMove } from '../import/compare.ts'
import { replaceFile } from '../import/write.ts'
import {
  formatPriceList,
  mergePriceLists,
  NO_PRICES,
  readPriceList,
  type PriceList,
} from '../models/price-list.ts'
import { CommandError, type Arguments } from './command.ts'
import { configurationOf } from './configuration.ts'
import { table, toJson } from './output.ts'
import { DEFAULT_OUTPUT, priceSources, readList, type ReadList } from './price-sources.ts'

/** Models that a line names before it says how many more there are. */
const SHOWN = 3

/**
 * Without `--write` nothing is written.
 * @throws CommandError with status 1 if a source cannot be read, with status 3 if something was held back
 */
export async function importPrices(args: Arguments): Promise<void> {
  const { text, all, on } = args
  const names = all.from ?? []
  const sources = await priceSources()
  if (names.length === 0) {
    const known = [...sources.keys()].join(', ')
    throw new CommandError(`Name a list with --from: ${known}, a file, or an https address.`, 2)
  }
  const output = text.output ?? DEFAULT_OUTPUT
  const path = resolve(output)
  const own = await readPriceFile(path, output)
  const packaged =
    PACKAGED_PRICES === undefined
      ? NO_PRICES
      : await readPriceFile(PACKAGED_PRICES, PACKAGED_PRICES)
  const lists: ReadList[] = []
  for (const name of names) lists.push(await readList(name, text.format, sources))
  const now = new Date().toISOString()
  const present = { own: own.models, all: mergePriceLists(own, packaged) }
  const patterns = all.only ?? []
  const isWanted = (id: string) =>
    patterns.length === 0 || patterns.some((pattern) => matches(id, pattern))
  const accepted = new Set(all.accept)
  const result = compare(present, lists, { accepted, now, isWanted })
  const after = mergePriceLists({ ...own, models: result.models }, packaged)
  const differing = await ownPricesThatDiffer(args, after, isWanted)
  const written = on.has('write')
  if (written) await write(path, output, listOf(own, lists, result, now))
  process.stdout.write(
    on.has('json')
      ? toJson({ ...asJson(lists, result), ...differing, written })
      : report(lists, result) + ownReport(differing) + ending(written, output),
  )
  const { length } = result.held
  if (length > 0) {
    const changes = length === 1 ? '1 change is' : `${length} changes are`
    throw new CommandError(`${changes} held back; --accept takes one over.`, 3)
  }
}

function listOf(
  own: PriceList,
  lists: readonly ReadList[],
  { models }: Comparison,
  now: string,
): PriceList {
  const read = lists.map(({ name, url, licence, text }) => ({
    name,
    ...(url !== undefined && { url }),
    fetched_at: now,
    sha256: hash('sha256', text),
    ...(licence !== undefined && { licence }),
  }))
  const others = own.sources.filter(({ name }) => !lists.some((list) => list.name === name))
  return { format: 1, generated_at: now, sources: [...others, ...read], models }
}

/** Prices of the configuration that no import changes. */
interface OwnDifferences {
  readonly own_prices: readonly PriceMove[]
  /** Why they could not be compared. */
  readonly own_prices_unread?: string
}

/** Compares the prices that the configuration has itself with the list as it is after the import. */
async function ownPricesThatDiffer(
  args: Arguments,
  listed: PriceList['models'],
  isWanted: (id: string) => boolean,
): Promise<OwnDifferences> {
  try {
    const { config, origins } = (await configurationOf(args)).loaded
    const entries = Object.entries(config.models).flatMap(([id, { pricing, price_of }]) =>
      LISTS.has(origins.of(['models', id, 'pricing']).from) || !isWanted(id)
        ? []
        : [{ id, pricing, price_of }],
    )
    return { own_prices: ownDifferences(entries, listed) }
  } catch (error) {
    // An import may be what the configuration lacks to be valid.
    if (!(error instanceof ConfigError)) throw error
    return { own_prices: [], own_prices_unread: error.message.split('\n', 1)[0]! }
  }
}

const LISTS: ReadonlySet<string> = new Set<Origin['from']>(['prices', 'built-in'])

/** Writes what a start can read, or nothing. @throws CommandError */
async function write(path: string, output: string, list: PriceList): Promise<void> {
  const text = formatPriceList(list)
  try {
    readPriceList(text, output)
    await replaceFile(path, text)
  } catch (error) {
    if (error instanceof ConfigError)
      throw new CommandError(`Nothing was written: ${error.message}`)
    const { syscall, message } = error as NodeJS.ErrnoException
    if (syscall === undefined) throw error
    throw new CommandError(`${output} could not be written: ${message}.`)
  }
}

function report(
  lists: readonly ReadList[],
  { added, changed, removed, held, same, disagreements }: Comparison,
): string {
  const lines = lists.map(
    ({ name, read }) =>
      `${name}: ${read.rows} models read, ${read.models.size} that can be served\n`,
  )
  const counts = [
    ['new', added.length, some(added)],
    ['changed', new Set(changed.map(({ model }) => model)).size, ''],
    ['removed', removed.length, some(removed)],
    ['held', new Set(held.map(({ model }) => model)).size, ''],
    ['same', same, ''],
  ]
  lines.push(table(['', 'MODELS', ''], counts))
  const moves = changed.map(({ model, price, from, to, move }) => [
    model,
    price,
    from,
    '→',
    to,
    move,
  ])
  if (moves.length > 0) lines.push(`\n${table(['CHANGED', 'PRICE', 'FROM', '', 'TO', ''], moves)}`)
  const kept = held.map(({ model, price, from, to, move, reason, accept }) => [
    model,
    price,
    from,
    '→',
    to,
    move,
    `${reason}: --accept ${accept}`,
  ])
  if (kept.length > 0) lines.push(`\n${table(['HELD', 'PRICE', 'FROM', '', 'TO', '', ''], kept)}`)
  const disputed = disagreements.map(({ model, price, source, from, other, to, move }) => [
    model,
    price,
    `${source} ${from}`,
    `${other} ${to}`,
    move,
  ])
  if (disputed.length > 0) {
    lines.push(`\n${table(['SOURCES DISAGREE', 'PRICE', 'TAKEN', 'NOT TAKEN', ''], disputed)}`)
  }
  for (const { name, read } of lists) {
    lines.push(
      counted(`\n${name}: left out`, read.skipped),
      counted(`${name}: not mapped`, read.unmapped),
    )
  }
  return lines.join('')
}

function ownReport({ own_prices: differing, own_prices_unread: reason }: OwnDifferences): string {
  if (reason !== undefined) return `\nOwn prices were not compared: ${reason}\n`
  if (differing.length === 0) return ''
  const rows = differing.map(({ model, price, from, to, move }) => [model, price, from, to, move])
  return `\n${table(['OWN PRICES THAT DIFFER', 'PRICE', 'LIST', 'OWN, NOT CHANGED', ''], rows)}`
}

function ending(written: boolean, output: string): string {
  return written ? `\nWrote ${output}.\n` : '\nNothing was written. Repeat with --write.\n'
}

function asJson(lists: readonly ReadList[], result: Comparison) {
  const { added, changed, removed, held, same, disagreements } = result
  const sources = lists.map(({ name, read }) => ({
    name,
    rows: read.rows,
    models: read.models.size,
    left_out: Object.fromEntries(read.skipped),
    not_mapped: Object.fromEntries(read.unmapped),
  }))
  return { sources, added, changed, removed, held, same, disagreements }
}

function some(ids: readonly string[]): string {
  const more = ids.length - SHOWN
  return ids.slice(0, SHOWN).join(', ') + (more > 0 ? ` and ${more} more` : '')
}

function counted(title: string, counts: ReadonlyMap<string, number>): string {
  if (counts.size === 0) return ''
  const parts = [...counts].map(([name, count]) => `${name} (${count})`)
  return `${title}: ${parts.join(', ')}\n`
}

/** Whether an id has the parts of a pattern, between which anything may stand. */
function matches(id: string, pattern: string): boolean {
  const parts = pattern.split('*')
  if (parts.length === 1) return id === pattern
  const [first, last] = [parts[0]!, parts.at(-1)!]
  if (!id.startsWith(first) || !id.endsWith(last) || id.length < first.length + last.length)
    return false
  let at = first.length
  for (const part of parts.slice(1, -1)) {
    const found = id.indexOf(part, at)
    if (found < 0 || found + part.length > id.length - last.length) return false
    at = found + part.length
  }
  return true
}
