/** `models import`: compares the operator's price list with public ones, and takes their prices over. It works on files alone. */
import { resolve } from 'node:path'
import {
  changesAsJson,
  comparePrices,
  ownPricesThatDiffer,
  wantedIn,
  writePrices,
} from '../catalog/price-import.ts'
import { ImportRefused, priceSources, readList, type ReadList } from '../catalog/price-sources.ts'
import { ConfigError } from '../errors/errors.ts'
import type { Comparison } from '../import/compare.ts'
import { PRICE_LIST_FILE, type PriceList } from '../models/price-list.ts'
import type { PriceMove } from '../server/admin/resources/model.ts'
import { CommandError, type Arguments } from './command.ts'
import { configurationOf, routeOf } from './configuration.ts'
import { print, table } from './output.ts'

/** What is read without `--from`; the first that has a model gives its prices. */
const PUBLIC_LISTS = ['litellm', 'models.dev']

/** Models that a line names before it says how many more there are. */
const SHOWN = 3

/**
 * Writes nothing without `--write`.
 * @throws CommandError with status 1 if a source cannot be read, with status 3 if something was held back
 */
export async function importPrices(args: Arguments): Promise<void> {
  try {
    await run(args)
  } catch (error) {
    if (!(error instanceof ImportRefused)) throw error
    throw new CommandError(error.message, error.what === 'name' ? 2 : 1)
  }
}

async function run(args: Arguments): Promise<void> {
  const { text, all, on } = args
  const names = all.from ?? PUBLIC_LISTS
  const sources = await priceSources()
  const label = text.output ?? PRICE_LIST_FILE
  const lists: ReadList[] = []
  // An import may be what the configuration lacks to be valid.
  const loaded = await configurationOf(args).then(
    (read) => read.loaded,
    () => undefined,
  )
  const route = routeOf(loaded)
  for (const name of names) lists.push(await readList(name, text.format, sources, route))
  const wanted = {
    path: resolve(label),
    label,
    lists,
    only: all.only ?? [],
    accept: all.accept ?? [],
    now: new Date().toISOString(),
  }
  const { comparison, list, listed } = await comparePrices(wanted)
  const differing = await ownDifferences(args, listed, wantedIn(wanted))
  const written = on.has('write')
  if (written) await writePrices(wanted, list)
  const value = { ...changesAsJson(lists, comparison), ...differing, written }
  print(
    args,
    value,
    () => report(lists, comparison) + ownReport(differing) + ending(written, label),
  )
  const { length } = comparison.held
  if (length > 0) {
    const changes = length === 1 ? '1 change is' : `${length} changes are`
    throw new CommandError(`${changes} held back; --accept takes one over.`, 3)
  }
}

/** Prices of the configuration that no import changes. */
interface OwnDifferences {
  readonly own_prices: readonly PriceMove[]
  /** Why they could not be compared. */
  readonly own_prices_unread?: string
}

async function ownDifferences(
  args: Arguments,
  listed: PriceList['models'],
  isWanted: (id: string) => boolean,
): Promise<OwnDifferences> {
  try {
    const { loaded } = await configurationOf(args)
    return { own_prices: ownPricesThatDiffer(loaded, listed, isWanted) }
  } catch (error) {
    // An import may be what the configuration lacks to be valid.
    if (!(error instanceof ConfigError)) throw error
    return { own_prices: [], own_prices_unread: error.message.split('\n', 1)[0]! }
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
  const moves = changed.map(moveOf)
  if (moves.length > 0) lines.push(`\n${table(['CHANGED', 'PRICE', 'FROM', '', 'TO', ''], moves)}`)
  const kept = held.map((one) => [...moveOf(one), `${one.reason}: --accept ${one.accept}`])
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

function moveOf({ model, price, from, to, move }: PriceMove): (string | undefined)[] {
  return [model, price, from, '→', to, move]
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

function some(ids: readonly string[]): string {
  const more = ids.length - SHOWN
  return ids.slice(0, SHOWN).join(', ') + (more > 0 ? ` and ${more} more` : '')
}

function counted(title: string, counts: ReadonlyMap<string, number>): string {
  if (counts.size === 0) return ''
  const parts = [...counts].map(([name, count]) => `${name} (${count})`)
  return `${title}: ${parts.join(', ')}\n`
}
