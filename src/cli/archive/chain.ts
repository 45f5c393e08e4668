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

/** @param seals of the ledger that was exported. @throws CommandError for a file that is no export */
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
  readonly #account: string
  readonly #places: readonly NotedPoint[]
  readonly #last: number
  readonly #waiting = new Map<number, RowItem>()
  #check: ChainCheck
  #next = 1
  rows = 0
  unproven = 0

  /** @param places seals and the base, with which the archive ends */
  constructor(account: string, places: readonly NotedPoint[]) {
    this.#account = account
    this.#last = Math.max(0, ...places.map(({ where, n }) => (where === 'base' ? n : 0)))
    this.#places = places.filter(({ n }) => n <= this.#last).toSorted((a, b) => a.n - b.n)
    this.#check = new ChainCheck(account, beginChain(account), this.#places)
  }

  add(n: number, row: RowItem): void {
    if (n < this.#next || n > this.#last) return
    this.#waiting.set(n, row)
    this.#takeNext()
  }

  /** Called after the oldest file: where older ones were removed, the first place in it is the beginning. */
  begin(): void {
    if (this.rows > 0 || this.#waiting.size === 0) return
    const oldest = Math.min(...this.#waiting.keys())
    const place = this.#places.find(({ n }) => n >= oldest - 1)
    if (!place) return
    this.#check = new ChainCheck(this.#account, place, this.#places)
    this.#next = place.n + 1
    this.unproven = place.n
    for (const n of this.#waiting.keys()) if (n <= place.n) this.#waiting.delete(n)
    this.#takeNext()
  }

  /** @returns the first interval that differs */
  end(): ChainFault | undefined {
    return this.#check.end()
  }

  #takeNext(): void {
    for (let row; (row = this.#waiting.get(this.#next)); this.#next++) {
      this.#waiting.delete(this.#next)
      this.#check.add(row)
      this.rows++
    }
  }
}

/** @param text decimal text in USD, which bookings have with a sign */
function amountOf(text: string): Pico {
  return text.startsWith('-') ? -parsePico(text.slice(1)) : parsePico(text)
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
  const accounts = new Map(
    bases.map(({ account_id: id }) => [id, new ArchivedAccount(id, places.get(id)!)]),
  )
  try {
    for await (const lines of readArchive(folder)) {
      for (const line of lines) {
        const { n, optional: _, cost, ...row } = JSON.parse(line)
        if (row.kind === 'export') continue
        if (n === undefined)
          throw new Error('its rows have no numbers: an earlier release wrote it')
        accounts.get(row.account)?.add(n, { ...row, cost: amountOf(cost) })
      }
      for (const account of accounts.values()) account.begin()
    }
  } catch (error) {
    throw new CommandError(`The archive ${folder} cannot be checked: ${(error as Error).message}.`)
  }
  const all = [...accounts.values()]
  const sum = (name: 'rows' | 'unproven') => all.reduce((total, one) => total + one[name], 0)
  const faults = all.flatMap((account) => account.end() ?? []).map(faultView)
  return { rows: sum('rows'), unproven: sum('unproven'), faults }
}
