/**
 * All that a gateway knows for good, as lines of JSON: what `ledger export` writes and `ledger import` reads. A header,
 * records of accounts and keys, the ledger account by account, and an end that says how many lines there are. Amounts are
 * decimal text in USD, costs positive and top-ups negative; moments are ms since epoch.
 */
import { isDeepStrictEqual } from 'node:util'
import { formatPico } from '../../money/money.ts'
import type { Records } from '../../state/records.ts'
import type { Ledger, LedgerItem } from '../../state/ledger/ledger.ts'
import { LineError, readLine, VERSION, type Line, type RecordLine } from './lines.ts'

/** What is moved. */
export interface State {
  readonly ledger: Ledger
  readonly records: Records
}

export interface Transferred {
  /** Of the file. */
  readonly lines: number
  /** Those of them that said something new. */
  readonly added: number
}

interface Ids {
  readonly ids: readonly string[]
}

interface KeyRecord {
  readonly account: string
  readonly sha256: string
  readonly revision: number
}

/** What keys of records begin with that are indexes. */
const INDEX = 'index:'
/** Lines that are taken in at a time: one sync of the disk for each such batch. */
const BATCH_LINES = 500

/** Every line with its line feed. As of one moment while nobody changes records. */
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
 * Takes an export in. What is there already is left as it is, so that it can be done again, whatever became of it the
 * first time.
 * @param read the lines, from the first: twice, because nothing is taken from an export that is not whole
 * @throws LineError for a line that is none, or contradicts what is there; those before it are taken then
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
    if (line.kind === 'record') added += Number(await takeRecord(records, line, lines))
  }
  return { lines, added }
}

/** @throws LineError for what is no export, or only a part of one */
async function* checkedLines(texts: AsyncIterable<string>): AsyncGenerator<Line> {
  let number = 0
  let ended = false
  for await (const text of texts) {
    number++
    if (ended) throw new LineError(number, 'the export ended on the line before')
    const line = readLine(text, number)
    ended = line.kind === 'end'
    if (line.kind === 'end' && line.lines !== number) {
      throw new LineError(number, `the export had ${line.lines} lines, some are missing`)
    }
    yield line
  }
  if (!ended) throw new LineError(number + 1, 'the export ends early, its last lines are missing')
}

function isItem(line: Line): line is LedgerItem {
  return line.kind !== 'export' && line.kind !== 'record' && line.kind !== 'end'
}

/** Accounts and keys; a record before the ones it names, as they were made. */
async function* recordsOf(records: Records): AsyncGenerator<RecordLine> {
  const accounts = await records.list('accounts')
  yield* indexLine('accounts', accounts)
  for (const account of accounts) {
    yield* await find(`account:${account}`)
    const keys = await records.list(`keys:${account}`)
    yield* indexLine(`keys:${account}`, keys)
    for (const id of keys) {
      const key = await find<KeyRecord>(`key:${id}`)
      if (key[0]) yield* await find(`hash:${key[0].value.sha256}`)
      yield* key
    }
  }

  /** None or one. */
  async function find<Value extends object>(key: string) {
    const value = await records.get<Value>(key)
    return value === undefined ? [] : [{ kind: 'record', key, value } as const]
  }
}

/** An index as a record: storages keep indexes each in their own way. None of one that is empty. */
function indexLine(index: string, ids: readonly string[]): RecordLine[] {
  return ids.length > 0 ? [{ kind: 'record', key: `${INDEX}${index}`, value: { ids } }] : []
}

/** @returns whether it said something new. @throws LineError when another record is there that means someone else */
async function takeRecord(
  records: Records,
  { key, value }: RecordLine,
  number: number,
): Promise<boolean> {
  if (key.startsWith(INDEX)) return takeIndex(records, key.slice(INDEX.length), value as Ids)
  const [kind] = key.split(':', 1)
  const stored = await records.get<object>(key)
  const next = stored === undefined ? value : MERGES[kind!]!(stored, value)
  if (next === undefined) throw new LineError(number, `another ${kind} is there with the same id`)
  if (isDeepStrictEqual(next, stored)) return false
  await records.put(key, next)
  return true
}

async function takeIndex(records: Records, index: string, { ids }: Ids): Promise<boolean> {
  const there = new Set(await records.list(index))
  const missing = ids.filter((id) => !there.has(id))
  if (missing.length > 0) await records.add(index, ...missing)
  return missing.length > 0
}

/** What becomes of a record and one from an export; undefined when they contradict each other. */
const MERGES: Readonly<Record<string, (stored: any, value: any) => object | undefined>> = {
  account: (stored) => stored,
  hash: (stored, value) => (isDeepStrictEqual(stored, value) ? stored : undefined),
  key(stored: KeyRecord, value: KeyRecord) {
    if (stored.account !== value.account || stored.sha256 !== value.sha256) return undefined
    return value.revision > stored.revision ? value : stored
  },
}

function amountAsText(_: string, value: unknown): unknown {
  return typeof value === 'bigint' ? formatPico(value) : value
}
