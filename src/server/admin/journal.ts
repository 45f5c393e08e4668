/** The journal of the ledger: debits and credits for the bookkeeping of the operator. */
import { zoneOf } from '../../accounts/limits.ts'
import { checkParameters, readLimit, wrongQuery } from '../../errors/query.ts'
import { usdJson, type Usd } from '../../money/money.ts'
import type { Journal, JournalPlace, JournalQuery } from '../../observe/usage/journal.ts'
import { agreementView } from '../../observe/usage/view.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import { csvResponse } from './csv.ts'
import type { Agreement } from './resources/usage.ts'
import { needs, type AdminRequest, type Answer, type Routes } from './route.ts'
import { indexOf } from './usage.ts'

interface Leg {
  readonly leg: string
  readonly debit_usd: Usd
  readonly credit_usd: Usd
}

const JOURNAL_COLUMNS = [
  'account_id',
  'date',
  'kind',
  'seq',
  'reference',
  'leg',
  'debit_usd',
  'credit_usd',
]

/** An entry has equal debits and credits. `seq` and `reference` are null but by row; a month is a date such as `2027-02`. */
interface JournalAnswer {
  readonly data: readonly {
    readonly account_id: string
    readonly date: string
    readonly kind: string
    readonly seq: number | null
    readonly reference: string | null
    readonly legs: readonly Leg[]
  }[]
  readonly next: string | null
  /** Sums of the entries of the answer. */
  readonly trial_balance: readonly Leg[]
  readonly vendor_unknown_calls: number
  readonly ledger: Agreement
}

export const journalRoutes: Routes = {
  '/ledger/journal': { GET: needs('money', showJournal) },
}

const PARAMETERS = new Set(['from', 'to', 'by', 'account', 'format', 'limit', 'after'])
const WAYS = ['day', 'row', 'month'] as const
/** Entries by row that are read at a time for a file. */
const BATCH = 2000

async function showJournal({ runtime, query }: AdminRequest): Promise<Answer | Response> {
  checkParameters(query, PARAMETERS)
  const by = WAYS.find((one) => one === (query.get('by') ?? 'day'))
  if (!by) throw wrongQuery('by', `one of ${WAYS.join(', ')}`)
  const [from, to] = [readDate(query, 'from'), readDate(query, 'to')]
  if (from >= to) throw wrongQuery('from', "a day before 'to'")
  const after = query.get('after')
  const question: JournalQuery = {
    from,
    to,
    by,
    accounts: await accountsOf(runtime, query.get('account')),
    limit: readLimit(query.get('limit')),
    ...(after !== null && { after: readPlace(after) }),
  }
  const format = query.get('format') ?? 'json'
  if (format === 'csv') {
    const name = `journal-${query.get('from')}-${query.get('to')}`
    return csvResponse(name, JOURNAL_COLUMNS, linesOf(runtime, { ...question, limit: BATCH }))
  }
  if (format !== 'json') throw wrongQuery('format', 'json or csv')
  const { result, checked } = await indexOf(runtime).ask('journal', question)
  return { body: { ...viewOf(result), ledger: agreementView(checked) } }
}

/** All accounts, or one, with their time zones. */
async function accountsOf(
  { accounts, config }: Runtime,
  wanted: string | null,
): Promise<JournalQuery['accounts']> {
  const all = wanted === null ? await accounts.listAccounts() : await accounts.accountsOf([wanted])
  return all
    .map((account) => [account.id, zoneOf(account, config.defaults)] as const)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
}

function viewOf({ entries, balance, unknownCalls, next }: Journal): Omit<JournalAnswer, 'ledger'> {
  const legView = ({ leg, debit, credit }: Journal['balance'][number]) => ({
    leg,
    debit_usd: usdJson(debit),
    credit_usd: usdJson(credit),
  })
  return {
    data: entries.map(({ account, date, kind, seq, reference, legs }) => ({
      account_id: account,
      date,
      kind,
      seq,
      reference,
      legs: legs.map(legView),
    })),
    next: next ? [next.account, next.seq, next.spent].join('/') : null,
    trial_balance: balance.map(legView),
    vendor_unknown_calls: unknownCalls,
  }
}

/** A line for each leg, page by page. */
async function* linesOf(runtime: Runtime, query: JournalQuery): AsyncGenerator<object> {
  for (let after = query.after; ;) {
    const page = { ...query, ...(after && { after }) }
    const { result } = await indexOf(runtime).ask('journal', page)
    for (const { legs, ...entry } of viewOf(result).data) {
      for (const leg of legs) yield { ...entry, ...leg }
    }
    after = result.next
    if (!after) return
  }
}

function readDate(query: URLSearchParams, name: 'from' | 'to'): number {
  const text = query.get(name) ?? ''
  const at = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(text) : NaN
  if (Number.isNaN(at)) throw wrongQuery(name, 'a day such as 2026-10-01')
  return at
}

function readPlace(text: string): JournalPlace {
  const [, account, seq, spent] = /^([a-z0-9_-]{1,64})\/(\d{1,15})\/(\d{1,40})$/.exec(text) ?? []
  if (!account) throw wrongQuery('after', "'next' of the page before")
  return { account, seq: Number(seq), spent: BigInt(spent!) }
}
