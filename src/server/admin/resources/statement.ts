/** Statements of accounts. Amounts are decimal text in a record, and numbers of JSON in an answer. */
import * as v from 'valibot'
import { monthText, recordId, text } from './settings.ts'

export const partyText = text(200)
const ADDRESS = 'a list of at most 10 lines'
export const partyAddress = v.pipe(v.array(partyText, ADDRESS), v.maxLength(10, ADDRESS))
const RATE = 'a rate as decimal text, such as "0.19"'
export const taxRate = v.pipe(v.string(RATE), v.regex(/^(0|1)(\.\d{1,6})?$/, RATE))

/** `POST /statements` */
export const newStatement = v.strictObject({ account_id: recordId, month: monthText })
/** `POST /statements/:number/void` */
export const voiding = v.strictObject({ reason: text(1000) })

export const STATEMENT_TABLES = ['models', 'keys', 'teams', 'days', 'tags'] as const

interface Party {
  readonly name: string
  readonly address?: readonly string[]
  readonly email?: string
  readonly tax_id?: string
  readonly web?: string
}

export interface StatementLine {
  readonly id: string | null
  readonly name: string | null
  readonly calls: number
  readonly amount_usd: string
  readonly refunds_usd: string
  readonly total_usd: string
  readonly quantities?: Readonly<Record<string, number>>
}

interface StatementBooking {
  readonly seq: number
  readonly at: string
  readonly kind: string
  readonly reference: string
  readonly note: string | null
  readonly request_id: string | null
  readonly amount_usd: string
  readonly cash: object | null
}

interface StatementBlock {
  readonly name: string
  readonly left_usd: string
  readonly expires_at: string | null
}

/** The money of an account in a month: opening + late + bookings − usage = closing. */
export interface Statement {
  /** It is null for a draft. */
  readonly number: string | null
  readonly state: 'draft' | 'issued' | 'void'
  readonly issued_at: string | null
  readonly void_reason: string | null
  readonly account_id: string
  readonly month: string
  readonly time_zone: string
  readonly seller: Party | null
  readonly buyer: Party & { readonly id: string }
  readonly footer: string | null
  readonly opening_usd: string
  /** What calls before the month cost that were settled after the statement before was issued. */
  readonly late_usd: string
  readonly bookings_usd: string
  readonly usage_usd: string
  readonly closing_usd: string
  readonly bookings: readonly StatementBooking[]
  readonly usage: Readonly<Record<(typeof STATEMENT_TABLES)[number], readonly StatementLine[]>>
  /** What is left at the end of the month. */
  readonly credit: { readonly plain_usd: string; readonly blocks: readonly StatementBlock[] }
  /** Information: no amount of the statement depends on it. */
  readonly tax: {
    readonly name: string
    readonly rate: string
    readonly included: boolean
    readonly note: string | null
    readonly base_usd: string
    readonly tax_usd: string
  } | null
  readonly chain: { readonly n: number; readonly chain: string } | null
  readonly ledger: { readonly agrees: boolean }
}

/** A statement in lists. */
export interface StatementEntry extends Pick<
  Statement,
  'number' | 'state' | 'account_id' | 'month' | 'issued_at' | 'void_reason' | 'closing_usd'
> {}

export function statementEntry(statement: Statement): StatementEntry {
  const { number, state, account_id, month, issued_at, void_reason, closing_usd } = statement
  return { number, state, account_id, month, issued_at, void_reason, closing_usd }
}

/** A part of a statement as an answer has it: amounts are numbers with all their digits. */
export function withAmounts<Part extends object>(part: Part): Part {
  const entries = Object.entries(part).map(([name, value]) => {
    if (name.endsWith('_usd') && typeof value === 'string') return [name, JSON.rawJSON(value)]
    return [name, typeof value === 'object' && value !== null ? withAmounts(value) : value]
  })
  return (
    Array.isArray(part) ? entries.map(([, value]) => value) : Object.fromEntries(entries)
  ) as Part
}

const SECTIONS = { models: 'model', keys: 'key', teams: 'team', days: 'day', tags: 'tag' } as const

const CSV_COLUMNS = [
  'section',
  'name',
  'at',
  'kind',
  'reference',
  'note',
  'calls',
  'amount_usd',
  'refunds_usd',
  'total_usd',
]

/** A statement as lines, with the same figures. */
export function statementCsv(statement: Statement): {
  readonly columns: readonly string[]
  readonly rows: readonly object[]
} {
  const { number, month, issued_at, bookings, usage, credit, tax } = statement
  const sum = (name: 'opening' | 'late' | 'bookings' | 'usage' | 'closing') => ({
    section: 'sum',
    name,
    amount_usd: statement[`${name}_usd`],
  })
  const quantities = new Set(usage.models.flatMap((one) => Object.keys(one.quantities ?? {})))
  const rows: object[] = [
    { section: 'statement', name: number ?? 'DRAFT', at: issued_at ?? month },
    ...(['opening', 'late', 'bookings', 'usage', 'closing'] as const).map(sum),
    ...bookings.map(({ at, kind, reference, note, amount_usd }) => ({
      section: 'booking',
      at,
      kind,
      reference,
      note,
      amount_usd,
    })),
    ...STATEMENT_TABLES.flatMap((table) =>
      usage[table].map(({ quantities, ...line }) => ({
        section: SECTIONS[table],
        ...line,
        name: line.name ?? line.id,
        ...quantities,
      })),
    ),
    { section: 'credit', name: 'plain', amount_usd: credit.plain_usd },
    ...credit.blocks.map(({ name, left_usd, expires_at }) => ({
      section: 'credit',
      name,
      at: expires_at,
      amount_usd: left_usd,
    })),
    ...(tax
      ? [
          { section: 'tax', name: 'base', amount_usd: tax.base_usd },
          { section: 'tax', name: 'tax', amount_usd: tax.tax_usd },
        ]
      : []),
  ]
  return { columns: [...CSV_COLUMNS, ...quantities], rows: withAmounts(rows) }
}
