/** Texts of calls, usage and statements for people. */
import { list } from './asked.ts'
import { CommandError, type Arguments } from './command.ts'
import { aligned, card, cell, table } from './output.ts'

/** How a call ended, in the words that all lists have. */
export function endOf({ running, outcome, status, code, limited_by, guard }: any): string {
  if (running) return 'running'
  if (outcome === 'cancelled') return 'left'
  if (limited_by) return `limited ${limited_by}`
  if (guard?.outcome === 'blocked') return 'blocked'
  const isRejected = outcome === 'refused' || (outcome === 'failed' && Number(cell(status)) < 500)
  if (isRejected) return `rejected ${code ?? ''}`.trim()
  return outcome === 'failed' && code ? `failed ${code}` : cell(outcome)
}

export function requestCard(call: any): string {
  return card(flat({ ...call, bill: null, bill_missing: null }))
}

/** Nested members under names such as `times.total_ms`; without unknown ones. */
function flat(value: object, prefix = ''): Record<string, unknown> {
  const members = Object.entries(value).flatMap(([name, member]): [string, unknown][] => {
    if (member === null) return []
    const path = prefix + name
    if (name === 'attempts') return attemptLines(path, member)
    if (typeof member !== 'object' || Array.isArray(member) || JSON.isRawJSON(member)) {
      return [[path, member]]
    }
    return Object.entries(flat(member, `${path}.`))
  })
  return Object.fromEntries(members)
}

function attemptLines(path: string, attempts: any[]): [string, unknown][] {
  return attempts.map(({ deployment, ms, result, status, message, model, skipped }, i) => {
    if (skipped) return [`${path}.${i + 1}`, `${model} not asked: ${skipped}`]
    const reason = [status && `status ${cell(status)}`, message].filter(Boolean).join(': ')
    const end = reason === '' ? '' : ` (${reason})`
    return [`${path}.${i + 1}`, `${deployment} ${result} after ${cell(ms)} ms${end}`]
  })
}

/** The terms of a bill, a line each, whose amounts sum to the cost. @throws CommandError where there is none */
export function billText({ bill, bill_missing: missing }: any, id: string): string {
  if (!bill) {
    const why =
      missing === 'folded'
        ? 'its row was folded into a total'
        : missing === 'prices'
          ? 'the prices of its row are not stored'
          : 'it was not charged'
    throw new CommandError(`There is no bill of ${id}: ${why}.`)
  }
  const rows = bill.lines.map((line: any) => {
    const name = line.price === line.priced_as ? line.price : `${line.price} (${line.priced_as})`
    return [line.source, name, line.quantity, '×', line.unit_price_usd, '=', line.amount_usd]
  })
  const others = [
    ['rounding', '', bill.rounding_usd],
    [`waived${bill.waived_because ? `, ${bill.waived_because}` : ''}`, '-', bill.waived_usd],
    ['cut', '-', bill.cut_usd],
  ].filter(([, , amount]) => cell(amount) !== '0')
  const sums = [
    ...others.map(([name, sign, amount]) => [name, '', '', '', '', sign, amount]),
    ['cost', '', '', '', '', '', bill.cost_usd],
    ...(bill.refund ? [['refund', '', '', '', '', '-', bill.refund.usd]] : []),
  ]
  return aligned([...rows, ...sums])
}

/** The name of a group, which is that of the calls without one where there is none. */
const named = (name: unknown) => name ?? '(none)'

const SUMS = ['calls', 'cost_usd', 'prompt_tokens', 'completion_tokens']
const EARNED = ['calls', 'cost_usd', 'refunded_usd', 'vendor_cost_usd', 'margin_usd']
/** Sums under the names that lists of calls have for them. */
const ENDS = { BLOCKED: 'blocked', LIMITED: 'refused', FAILED: 'errors' }

export function usageText(
  { data, other, totals, ledger }: any,
  { text: { metric } }: Arguments,
): string {
  const shown = metric === 'margin_usd' ? EARNED : SUMS
  const groups = Object.keys(data[0]?.group ?? {})
  const line = (one: any, names: unknown[]) => [
    one.start ?? (names.length > 0 ? '' : 'total'),
    ...names,
    ...[...shown, ...Object.values(ENDS)].map((name) => one[name]),
  ]
  const rows = [
    ...data.map((one: any) => line(one, Object.values(one.group).map(named))),
    ...other.map((one: any) => line(one, Array(groups.length).fill('(other)'))),
    // The column of the start may be left out, and with it its word.
    line(
      totals,
      groups.map((_, at) => (at === 0 ? 'total' : '')),
    ),
  ]
  const headings = [...groups, ...shown].map((name) => name.replaceAll('_', ' ').toUpperCase())
  const spare = ['FAILED', 'LIMITED', 'BLOCKED', 'COMPLETION TOKENS', 'PROMPT TOKENS', 'START']
  return table(['START', ...headings, ...Object.keys(ENDS)], rows, spare) + proofOf(ledger)
}

export function statementText({ data }: any): string {
  const bookings = data.bookings.map(({ at, kind, reference, amount_usd }: any) => [
    at,
    kind,
    reference,
    amount_usd,
  ])
  const line = (name: string, amount: unknown) => [null, name, null, amount]
  const sums = [
    line('opening', data.opening_usd),
    ...(cell(data.late_usd) === '0' ? [] : [line('late', data.late_usd)]),
    ...bookings,
    line('usage', cell(data.usage_usd) === '0' ? '0' : `-${cell(data.usage_usd)}`),
    line('closing', data.closing_usd),
  ]
  const used = (of: any[]) =>
    of.map(({ name, calls, amount_usd, refunds_usd }) => [
      named(name),
      calls,
      amount_usd,
      refunds_usd,
    ])
  const heads = ['CALLS', 'USD', 'REFUNDED USD']
  return [
    `${cell(data.buyer.name)} (${cell(data.account_id)}), ${data.month}, ${data.number ?? 'DRAFT'}\n\n`,
    table(['AT', 'BOOKING', 'REFERENCE', 'USD'], sums, ['REFERENCE']),
    `\n${table(['MODEL', ...heads], used(data.usage.models))}`,
    `\n${table(['TAG', ...heads], used(data.usage.tags))}`,
    data.ledger.agrees ? '\nEquals the ledger.\n' : '\nSome calls may be missing.\n',
  ].join('')
}

export function proofOf({ agrees, as_of, differences }: any): string {
  if (agrees === null) return 'The ledger is being read: some calls are missing.\n'
  if (agrees) return `Equals the ledger, as of ${as_of}.\n`
  const rows = differences.map(({ account_id, key_id, indexed_usd, ledger_usd }: any) => [
    account_id,
    key_id,
    indexed_usd,
    ledger_usd,
  ])
  return `Differs from the ledger:\n${table(['ACCOUNT', 'KEY', 'USAGE USD', 'LEDGER USD'], rows)}`
}

export const limitsText = list(
  {
    LIMIT: 'limit',
    VALUE: ({ value, models }) => (models ? `${cell(value)} for ${models.join(', ')}` : value),
    FROM: 'source',
    USED: 'used',
    HELD: 'held',
    LEFT: 'left',
    'RESETS AT': 'resets_at',
    RAISED: ({ raised }) => raised && `from ${cell(raised.from)} until ${raised.until}`,
  },
  ['RAISED', 'HELD', 'RESETS AT'],
)
