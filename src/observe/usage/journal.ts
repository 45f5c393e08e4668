/**
 * The journal: every row of the ledger as debits and credits that are equal. The legs of `credits` are the effect of a row on the
 * balance of its customer, so that their sum is the balance at every moment.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { Pico } from '../../money/money.ts'
import {
  creditAfter,
  promotionalLeft,
  promotionalPart,
  toBlocks,
  type CreditState,
} from '../../state/ledger/blocks.ts'
import type { BookingDetails, LedgerReader, ReadRow } from '../../state/ledger/ledger.ts'
import { momentIn } from '../../state/ledger/zone.ts'
import { nextTurn } from './ledger-index.ts'
import { wholeOf } from './settled.ts'
import { AMOUNTS, startOf, unitOf } from './tables.ts'

export interface JournalQuery {
  /** Dates of the accounts, as midnights of UTC, half-open. */
  readonly from: number
  readonly to: number
  readonly by: 'row' | 'day' | 'month'
  /** Accounts with their time zones. */
  readonly accounts: readonly (readonly [id: string, zone: string | undefined])[]
  /** Entries of an answer by row. */
  readonly limit: number
  readonly after?: JournalPlace
}

/** The last row of an answer, with the lifetime spend of its account after it. */
export interface JournalPlace {
  readonly account: string
  readonly seq: number
  readonly spent: Pico
}

interface Leg {
  readonly leg: string
  readonly debit: Pico
  readonly credit: Pico
}

interface Entry {
  readonly account: string
  readonly date: string
  readonly kind: string
  readonly seq: number | null
  readonly reference: string | null
  readonly legs: readonly Leg[]
}

export interface Journal {
  readonly entries: readonly Entry[]
  /** Sums of the legs of the entries. */
  readonly balance: readonly Leg[]
  readonly unknownCalls: number
  readonly next?: JournalPlace
}

/** A row, or rows of one kind and day: effects on the credit of the customer, and what vendors are paid. */
interface Effect {
  readonly kind: string
  readonly paid: Pico
  readonly promotional: Pico
  readonly vendor?: Pico
  readonly details?: Pick<BookingDetails, 'facts'> | undefined
}

const PAYMENT_CAUSES: readonly string[] = [
  'payment_refund',
  'refund_failed',
  'dispute',
  'dispute_won',
]

/** What stands against the credits of a customer. */
function counterOf({ kind, details }: Effect): string {
  const { cash, cause } = details?.facts ?? {}
  const cashOf = cash ? `cash.${cash.by}` : 'cash'
  if (kind === 'usage') return 'revenue'
  if (kind === 'refund') return 'revenue.refunds'
  if (kind === 'expire') return 'revenue.expired'
  if (kind === 'top-up') return cause === 'seed' ? 'adjustments' : cashOf
  return PAYMENT_CAUSES.includes(cause ?? '') ? cashOf : 'adjustments'
}

/** Adds an effect to legs: names with their debit, of which a credit is the negative. */
function addLegs(legs: Map<string, Pico>, effect: Effect): void {
  const { kind, paid, promotional, vendor = 0n } = effect
  const add = (debit: string, credit: string, amount: Pico) => {
    legs.set(debit, (legs.get(debit) ?? 0n) + amount)
    legs.set(credit, (legs.get(credit) ?? 0n) - amount)
  }
  const counter = counterOf(effect)
  add(counter, 'credits.paid', paid)
  const promotionCounter = kind === 'usage' ? 'revenue.promotional' : 'promotion'
  add(promotionCounter, 'credits.promotional', promotional)
  add('vendor.cost', 'vendor.payable', vendor)
}

function legsIn(sums: ReadonlyMap<string, Pico>): Leg[] {
  return [...sums].flatMap(([leg, sum]) => {
    if (sum === 0n) return []
    return [{ leg, debit: sum > 0n ? sum : 0n, credit: sum < 0n ? -sum : 0n }]
  })
}

/** Sums of the legs of entries: debits and credits apart. */
function trialBalance(entries: readonly Entry[]): Leg[] {
  const sums = new Map<string, Leg>()
  for (const { leg, debit, credit } of entries.flatMap(({ legs }) => legs)) {
    const sum = sums.get(leg) ?? { leg, debit: 0n, credit: 0n }
    sums.set(leg, { leg, debit: sum.debit + debit, credit: sum.credit + credit })
  }
  return [...sums.values()].toSorted((a, b) => (a.leg < b.leg ? -1 : 1))
}

export async function journalOf(
  db: DatabaseSync,
  reader: LedgerReader,
  query: JournalQuery,
): Promise<Journal> {
  if (query.by === 'row') return journalByRow(db, reader, query)
  const entries: Entry[] = []
  let unknownCalls = 0
  for (const [account, zone] of query.accounts) {
    const usage = usageIn(db, account, query)
    for (const { unknown } of usage) unknownCalls += unknown
    const bookings = bookingsIn(db, account, zone, query)
    const days = Map.groupBy([...usage, ...bookings], ({ date, kind }) => `${date} ${kind}`)
    for (const effects of days.values()) {
      const sums = new Map<string, Pico>()
      for (const effect of effects) addLegs(sums, effect)
      const { date, kind } = effects[0]!
      const legs = legsIn(sums)
      if (legs.length > 0) entries.push({ account, date, kind, seq: null, reference: null, legs })
    }
    await nextTurn()
  }
  entries.sort((a, b) => (a.account === b.account && a.date < b.date ? -1 : 0))
  return { entries, balance: trialBalance(entries), unknownCalls }
}

interface Dated extends Effect {
  readonly date: string
}

/** Dates of an answer: days, or months. */
function dateOf(at: number, by: JournalQuery['by']): string {
  return new Date(at).toISOString().slice(0, by === 'month' ? 7 : 10)
}

function usageIn(
  db: DatabaseSync,
  account: string,
  { from, to, by }: JournalQuery,
): (Dated & { readonly unknown: number })[] {
  const amounts = AMOUNTS.flatMap((name) => [`${name}_billions`, `${name}_rest`]).join(', ')
  const select = db.prepare(
    `SELECT unit, calls - known_calls AS unknown, billions, rest, ${amounts}
     FROM settled_account_day JOIN settled_account_group ON id = group_id
     WHERE account = ? AND unit >= ? AND unit < ? ORDER BY unit`,
  )
  const rows = select.all(account, unitOf('day', from), unitOf('day', to))
  return (rows as unknown as Record<string, number>[]).map((row) => {
    const half = (name: string) =>
      wholeOf({ billions: row[`${name}billions`]!, rest: row[`${name}rest`]! })
    const promotional = half('promotional_')
    return {
      date: dateOf(startOf('day', row.unit!), by),
      kind: 'usage',
      paid: promotional - half(''),
      promotional: -promotional,
      vendor: half('vendor_'),
      unknown: row.unknown!,
    }
  })
}

const MARGIN_MS = 2 * 86_400_000

function bookingsIn(
  db: DatabaseSync,
  account: string,
  zone: string | undefined,
  { from, to, by }: JournalQuery,
): Dated[] {
  const select = db.prepare(
    `SELECT at, kind, details, amount, promotional FROM booking
     WHERE account = ? AND at >= ? AND at < ? ORDER BY seq`,
  )
  select.setReadBigInts(true)
  const [first, end] = [dateOf(from, 'day'), dateOf(to, 'day')]
  // Dates of a zone begin up to a day before or after those of UTC.
  return select.all(account, from - MARGIN_MS, to + MARGIN_MS).flatMap((row) => {
    const date = momentIn(zone, Number(row.at)).slice(0, 10)
    if (date < first || date >= end) return []
    const promotional = row.promotional as bigint
    return [
      {
        date: by === 'month' ? date.slice(0, 7) : date,
        kind: String(row.kind),
        paid: (row.amount as bigint) - promotional,
        promotional,
        details: row.details === null ? undefined : JSON.parse(String(row.details)),
      },
    ]
  })
}

// Entries by row are read from the ledger. What paid a call follows from all rows before it.

const PAGE_ROWS = 2000

async function journalByRow(
  db: DatabaseSync,
  reader: LedgerReader,
  query: JournalQuery,
): Promise<Journal> {
  const { after, limit } = query
  const entries: Entry[] = []
  let [unknownCalls, next] = [0, undefined as JournalPlace | undefined]
  for (const [account, zone] of query.accounts) {
    if (after && account < after.account) continue
    const place = after?.account === account ? after : undefined
    for await (const { row, credit } of rowsOf(db, reader, account, place)) {
      const [date, isIn] = dateOfRow(row, zone, query)
      if (!isIn) continue
      if (entries.length === limit) return finish()
      const sums = new Map<string, Pico>()
      const promotional =
        row.kind === 'usage'
          ? -promotionalPart(credit, row.cost)
          : promotionalLeft(creditAfter(credit, row)) - promotionalLeft(credit)
      const { vendor } = row.usage ?? {}
      if (row.kind === 'usage' && vendor === undefined) unknownCalls++
      addLegs(sums, {
        kind: row.kind,
        paid: -row.cost - promotional,
        promotional,
        vendor: BigInt(vendor ?? 0),
        details: row.booking,
      })
      const { seq, kind, request: reference } = row
      entries.push({ account, date, kind, seq, reference, legs: legsIn(sums) })
      next = { account, seq, spent: creditAfter(credit, row).spent }
    }
  }
  next = undefined
  return finish()

  function finish(): Journal {
    const balance = trialBalance(entries)
    return { entries, balance, unknownCalls, ...(next && { next }) }
  }
}

function dateOfRow(
  { kind, at, day }: ReadRow,
  zone: string | undefined,
  { from, to }: JournalQuery,
): [date: string, isIn: boolean] {
  const date =
    kind === 'usage' && day !== undefined
      ? `${day.slice(0, 4)}-${day.slice(4, 6)}-${day.slice(6)}`
      : momentIn(zone, at).slice(0, 10)
  return [date, date >= dateOf(from, 'day') && date < dateOf(to, 'day')]
}

/** Rows with the credit before each. @param place the row after which to go on */
async function* rowsOf(
  db: DatabaseSync,
  reader: LedgerReader,
  account: string,
  place: JournalPlace | undefined,
): AsyncGenerator<{ readonly row: ReadRow; readonly credit: CreditState }> {
  let credit = place
    ? { spent: place.spent, blocks: blocksAt(db, account, place.seq) }
    : await begunOf(reader, account)
  for (let from = (place?.seq ?? 0) + 1; ;) {
    const page = await reader.rows(account, from, PAGE_ROWS)
    for (const row of page) {
      if (row.kind !== 'orphan') yield { row, credit }
      credit = creditAfter(credit, row)
    }
    if (page.length < PAGE_ROWS) return
    from = page.at(-1)!.seq + 1
    await nextTurn()
  }
}

/** Folded calls come before the first row. */
async function begunOf(reader: LedgerReader, account: string): Promise<CreditState> {
  const totals = await reader.totals(account)
  return { spent: totals.reduce((sum, { cost }) => sum + cost, 0n), blocks: [] }
}

/** The blocks of an account after a row. */
function blocksAt(db: DatabaseSync, account: string, seq: number): CreditState['blocks'] {
  const row = db
    .prepare(
      `SELECT details FROM booking WHERE account = ? AND seq <= ? AND details LIKE '%"blocks":%'
       ORDER BY seq DESC LIMIT 1`,
    )
    .get(account, seq)
  return toBlocks(row ? JSON.parse(String(row.details)).blocks : [])
}
