/** Recomputes the chains of accounts from the rows of an export, or from those in an archive of folded rows. */
import { open } from 'node:fs/promises'
import { parsePico, type Pico } from '../../money/money.ts'
import { readArchive } from '../../state/ledger/archive.ts'
import {
  beginChain,
  ChainCheck,
  type ChainFault,
  type NotedPoint,
} from '../../state/ledger/chain.ts'
import type { ChainPoint, RowItem } from '../../state/ledger/ledger.ts'
import { CommandError } from '../command.ts'
import { LineError, readItems } from './archive.ts'

/** A seal as the admin API shows it. */
interface Seal {
  readonly account_id: string
  readonly month: string
  readonly n: number
  readonly chain: string
}

/** @param seals the seals of the ledger that was exported. @throws CommandError for a file that is no export */
export async function checkExport(file: string, seals: readonly Seal[]) {
  const bySeal = placesIn(seals)
  const placesOf = (account: string) => bySeal.get(account) ?? []
  const checks = new Map<string, ChainCheck>()
  const checkOf = (account: string) => {
    let check = checks.get(account)
    check ??= new ChainCheck(account, beginChain(account), placesOf(account))
    checks.set(account, check)
    return check
  }
  for (const account of bySeal.keys()) checkOf(account)
  let rows = 0
  try {
    const source = await open(file)
    for await (const item of readItems(source.readLines())) {
      if (item.kind === 'limits' || item.kind === 'total' || item.kind === 'counter') continue
      const check = checkOf(item.account)
      if (item.kind === 'account') continue
      if (item.kind === 'base') {
        // The bookings before it stand without the calls that were folded between them.
        checks.set(item.account, new ChainCheck(item.account, item, placesOf(item.account)))
        continue
      }
      check.add(item)
      rows++
    }
  } catch (error) {
    const { message } = error as Error
    throw new CommandError(
      error instanceof LineError ? `${file}, ${message}.` : `${file}: ${message}.`,
    )
  }
  const faults = [...checks.values()].flatMap((check) => check.end() ?? [])
  return { accounts: checks.size, rows, faults: faults.map(faultView) }
}

/** Places by account. */
function placesIn(seals: readonly Seal[]): ReadonlyMap<string, NotedPoint[]> {
  const places = new Map<string, NotedPoint[]>()
  for (const { account_id, month: where, n, chain } of seals) {
    const own = places.get(account_id) ?? []
    // Numbers are kept as the gateway has written them.
    own.push({ where, n: Number(JSON.stringify(n)), chain })
    places.set(account_id, own)
  }
  return places
}

function faultView({ account: account_id, after, before, rows }: ChainFault) {
  return {
    account_id,
    after: { at: after.where, rows: after.n },
    before: { at: before.where, rows: before.n },
    rows,
  }
}

/** Brings the archived rows of one account into their order, which boundaries of months and repetitions after a kill disturb. */
class ArchivedAccount {
  readonly #last: number
  readonly #waiting = new Map<number, RowItem>()
  readonly #check: ChainCheck
  #next: number
  rows = 0
  /** Number of rows before the place at which it begins. */
  readonly unproven: number

  /** @param places seals, and the base, with which the archive ends. @param oldest number of the first row that is there */
  constructor(account: string, places: readonly NotedPoint[], oldest: number) {
    this.#last = Math.max(0, ...places.map(({ where, n }) => (where === 'base' ? n : 0)))
    const own = places.filter(({ n }) => n <= this.#last).toSorted((a, b) => a.n - b.n)
    // Where older files were removed, the first place behind them is the beginning.
    const begin = oldest > 1 ? own.find(({ n }) => n >= oldest - 1) : undefined
    this.unproven = begin?.n ?? 0
    this.#next = this.unproven + 1
    this.#check = new ChainCheck(account, begin ?? beginChain(account), own)
  }

  add(n: number, row: RowItem): void {
    if (n < this.#next || n > this.#last) return
    this.#waiting.set(n, row)
    for (let next; (next = this.#waiting.get(this.#next)); this.#next++) {
      this.#waiting.delete(this.#next)
      this.#check.add(next)
      this.rows++
    }
  }

  /** @returns the first interval that differs */
  end(): ChainFault | undefined {
    return this.#check.end()
  }
}

/** @param text decimal text in USD, which bookings have with a sign */
function amountOf(text: string): Pico {
  return text.startsWith('-') ? -parsePico(text.slice(1)) : parsePico(text)
}

async function* archivedRows(folder: string) {
  for await (const lines of readArchive(folder)) {
    for (const line of lines) {
      const { n, optional: _, ...row } = JSON.parse(line)
      if (row.kind === 'export') continue
      if (n === undefined) throw new Error('its rows have no numbers: an earlier release wrote it')
      yield { account: String(row.account), n: Number(n), row }
    }
  }
}

/**
 * @param bases where the folded rows of each account end
 * @throws CommandError for a folder that cannot be read, and rows without a number
 */
export async function checkArchive(
  folder: string,
  seals: readonly Seal[],
  bases: readonly (ChainPoint & { readonly account_id: string })[],
) {
  const places = placesIn([...seals, ...bases.map((base) => ({ ...base, month: 'base' }))])
  let accounts: ReadonlyMap<string, ArchivedAccount>
  try {
    const oldest = new Map<string, number>()
    for await (const { account, n } of archivedRows(folder)) {
      if (n < (oldest.get(account) ?? Infinity)) oldest.set(account, n)
    }
    accounts = new Map(
      bases.map(({ account_id: id }) => [
        id,
        new ArchivedAccount(id, places.get(id)!, oldest.get(id) ?? 1),
      ]),
    )
    for await (const { account, n, row } of archivedRows(folder)) {
      accounts.get(account)?.add(n, { ...row, cost: amountOf(row.cost) })
    }
  } catch (error) {
    throw new CommandError(`The archive ${folder} cannot be checked: ${(error as Error).message}.`)
  }
  const all = [...accounts.values()]
  const sum = (name: 'rows' | 'unproven') => all.reduce((total, one) => total + one[name], 0)
  const faults = all.flatMap((account) => account.end() ?? []).map(faultView)
  return { rows: sum('rows'), unproven: sum('unproven'), faults }
}
