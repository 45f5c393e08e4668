/**
 * The durable state of a gateway as lines of JSON: `ledger export` writes them and `ledger import` reads them. A header is
 * followed by the records of accounts and keys, the ledger account by account, and a last line with the number of lines.
 * Amounts are decimal text in USD, positive for costs and negative for top-ups; of an adjustment, negative for what was
 * added. Times are ms since epoch.
 */
import { isDeepStrictEqual } from 'node:util'
import { formatPico } from '../../money/money.ts'
import { PRICE_INDEX, priceKey } from '../../state/prices.ts'
import type { Records } from '../../state/records.ts'
import type { Ledger, LedgerItem } from '../../state/ledger/ledger.ts'
import { LineError, readLine, TornLine, VERSION, type Line, type RecordLine } from './lines.ts'

/** The state of a gateway: the source of an export, the target of an import. */
interface State {
  readonly ledger: Ledger
  readonly records: Records
}

interface Transferred {
  readonly lines: number
  /** The number of lines that changed the state. */
  readonly added: number
}

interface Ids {
  readonly ids: readonly string[]
}

interface KeyRecord {
  readonly account: string
  readonly sha256: string
  readonly previous?: { readonly sha256: string }
  readonly revision: number
}

const INDEX = 'index:'
/** Lines imported at a time, with one sync of the disk per batch. */
const BATCH_LINES = 500

/** Yields each line with its line feed. The ledger is as of one moment; records are read while they may change. */
export async function* exportLines({ ledger, records }: State): AsyncGenerator<string> {
  let lines = 0
  const write = (line: object) => {
    lines++
    return `${JSON.stringify(line, amountAsText)}\n`
  }
  yield write({ kind: 'export', version: VERSION, at: Date.now() })
  for await (const record of recordsOf(records)) yield write(record)
  for await (const item of ledger.export()) yield write(item)
  yield write({ kind: 'end', lines: lines + 1 })
}

/**
 * Imports an export. Lines that are in the state already change nothing, so an interrupted import can be repeated.
 * @param read yields the lines from the first. It is called twice, because an incomplete export must not be
 * imported.
 * @throws LineError for an invalid line, or one that contradicts the state; the lines before it are imported then
 */
export async function importLines(
  { ledger, records }: State,
  read: () => AsyncIterable<string>,
): Promise<Transferred> {
  for await (const _ of checkedLines(read()));
  let [lines, added] = [0, 0]
  let batch: LedgerItem[] = []
  const flush = async () => {
    if (batch.length === 0) return
    const first = lines - batch.length
    const { taken, refused, ...imported } = await ledger.import(batch)
    if (refused !== undefined) throw new LineError(first + taken + 1, refused)
    added += imported.added
    batch = []
  }
  for await (const line of checkedLines(read())) {
    if (batch.length === BATCH_LINES || !isItem(line)) await flush()
    lines++
    if (isItem(line)) batch.push(line)
    if (line.kind === 'record') added += Number(await importRecord(records, line, lines))
  }
  await flush()
  return { lines, added }
}

/** @throws LineError for a file that is not an export, or only a part of one */
async function* checkedLines(texts: AsyncIterable<string>): AsyncGenerator<Line> {
  let number = 0
  let [ended, rescued] = [false, false]
  let torn: TornLine | undefined
  for await (const text of texts) {
    number++
    if (torn) throw torn
    if (ended) throw new LineError(number, 'the export ended on the line before')
    let line: Line
    try {
      line = readLine(text, number)
    } catch (error) {
      // The gateway was killed while it wrote its last line, and has confirmed it to no client.
      if (!rescued || !(error instanceof TornLine)) throw error
      torn = error
      continue
    }
    rescued ||= line.kind === 'rescue'
    ended = line.kind === 'end'
    if (line.kind === 'end' && line.lines !== number) {
      throw new LineError(number, `the export had ${line.lines} lines, some are missing`)
    }
    yield line
  }
  if (!ended && !rescued)
    throw new LineError(number + 1, 'the export ends early, its last lines are missing')
}

const NO_ITEMS: ReadonlySet<Line['kind']> = new Set(['export', 'rescue', 'record', 'end'])

function isItem(line: Line): line is LedgerItem {
  return !NO_ITEMS.has(line.kind)
}

/** Records of prices, accounts and keys, in the order in which they were created. */
async function* recordsOf(records: Records): AsyncGenerator<RecordLine> {
  const versions = await records.list(PRICE_INDEX)
  yield* indexLine(PRICE_INDEX, versions)
  for (const version of versions) yield* await find(priceKey(version))
  const accounts = await records.list('accounts')
  yield* indexLine('accounts', accounts)
  for (const account of accounts) {
    yield* await find(`account:${account}`)
    const keys = await records.list(`keys:${account}`)
    yield* indexLine(`keys:${account}`, keys)
    for (const id of keys) {
      const key = await find<KeyRecord>(`key:${id}`)
      for (const sha256 of hashesOf(key[0]?.value)) yield* await find(`hash:${sha256}`)
      yield* key
    }
  }

  async function find<Value extends object>(key: string) {
    const value = await records.get<Value>(key)
    return value === undefined ? [] : [{ kind: 'record', key, value } as const]
  }
}

/** Hashes of a key's secrets: the present one, and one that it had before its last rotation. */
function hashesOf(key: KeyRecord | undefined): string[] {
  if (!key) return []
  return key.previous ? [key.previous.sha256, key.sha256] : [key.sha256]
}

/** A non-empty index as a record line; each storage keeps indexes in its own way. */
function indexLine(index: string, ids: readonly string[]): RecordLine[] {
  return ids.length > 0 ? [{ kind: 'record', key: `${INDEX}${index}`, value: { ids } }] : []
}

/** @returns whether it changed the state. @throws LineError when a different record has the same key */
async function importRecord(
  records: Records,
  { key, value }: RecordLine,
  number: number,
): Promise<boolean> {
  if (key.startsWith(INDEX)) return importIndex(records, key.slice(INDEX.length), value as Ids)
  const [kind] = key.split(':', 1)
  const stored = await records.get<object>(key)
  const next = stored === undefined ? value : MERGES[kind!]!(stored, value)
  if (next === undefined) throw new LineError(number, `another ${kind} with the same id exists`)
  if (isDeepStrictEqual(next, stored)) return false
  await records.put(key, next)
  return true
}

async function importIndex(records: Records, index: string, { ids }: Ids): Promise<boolean> {
  const stored = new Set(await records.list(index))
  const missing = ids.filter((id) => !stored.has(id))
  if (missing.length > 0) await records.add(index, ...missing)
  return missing.length > 0
}

/** Merges a stored record with one of an export; undefined when they contradict each other. */
const MERGES: Readonly<Record<string, (stored: any, value: any) => object | undefined>> = {
  account: (stored, value) => ((value.revision ?? 0) > (stored.revision ?? 0) ? value : stored),
  prices: (stored) => stored,
  hash: (stored, value) => (isDeepStrictEqual(stored, value) ? stored : undefined),
  key(stored: KeyRecord, value: KeyRecord) {
    const shared = hashesOf(stored).some((sha256) => hashesOf(value).includes(sha256))
    if (stored.account !== value.account || !shared) return undefined
    return value.revision > stored.revision ? value : stored
  },
}

function amountAsText(_: string, value: unknown): unknown {
  return typeof value === 'bigint' ? formatPico(value) : value
}
