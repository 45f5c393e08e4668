/** Rows of the request log as others see them: the admin API, and sinks. */
import { formatPico, type Pico } from '../../money/money.ts'
import type { EndedCall } from '../../plugin.ts'
import { timeOf } from '../../state/ids.ts'
import { type Exchange, FIELDS, readAttempts, readQuestions } from '../record.ts'
import { QUANTITIES } from '../usage/tables.ts'
import type { LogRow } from './query.ts'

/** Quantities that the log has a column for. */
export const LOGGED = QUANTITIES.filter((name) => FIELDS.some((field) => field.name === name))

/**
 * A row as JSON: null is "not known", of a quantity "not reported".
 * @param amount what becomes of amounts
 */
export function callView<Amount>(row: LogRow, amount: (pico: Pico) => Amount) {
  const number = (name: string) => ((row[name] ?? null) === null ? null : Number(row[name]))
  const flag = (name: string) => ((row[name] ?? null) === null ? null : Number(row[name]) === 1)
  const { cost, guard, rate_limit } = row
  return {
    id: `req_${String(row.id)}`,
    at: new Date(timeOf(String(row.id))).toISOString(),
    method: row.method,
    endpoint: row.endpoint,
    account_id: row.account,
    key_id: row.key,
    model: row.model,
    deployment: row.deployment,
    status: number('status'),
    code: row.code,
    limited_by: row.limited_by,
    outcome: row.outcome,
    stream: flag('stream'),
    times: {
      admit_ms: number('ms_admit'),
      guard_ms: number('ms_guard'),
      first_ms: number('ms_first'),
      settled_ms: number('ms_settled'),
      total_ms: number('ms_total'),
    },
    usage: Object.fromEntries(LOGGED.map((name) => [name, number(name)])),
    estimated: flag('estimated'),
    cost_usd: cost === null ? null : amount(BigInt(cost!)),
    cost_details: row.cost_details === null ? null : detailsOf(String(row.cost_details), amount),
    rate: rate_limit === null ? null : { limit: number('rate_limit'), left: number('rate_left') },
    guard: guard === null ? null : { outcome: guard, rules: partsOf(row.rules!, ',') },
    tag: row.tag ?? null,
    user: row.user ?? null,
    gateway: row.gateway ?? null,
    origin: row.origin ?? 'api',
    session: row.session,
    agent: row.agent,
    attempts: readAttempts(String(row.attempts ?? '')).map(
      ({ deployment, ms, result, status = null, said: message = null }) => ({
        deployment,
        ms,
        result,
        status,
        message,
      }),
    ),
    questions: readQuestions(String(row.questions ?? '')).map(
      ({ to, name, side, from, ms, result, rules }) => ({
        to,
        name,
        side: side ?? null,
        at_ms: from,
        ms,
        result,
        rules,
      }),
    ),
    retry: number('retry'),
    error: row.error,
  }
}

/** A row as sinks get it. */
export function endedCall(row: LogRow): EndedCall {
  const [parent = '', span, ...more] = String(row.trace ?? '').split(' ')
  const state = more.join(' ')
  const trace = span === undefined ? null : { parent, span, ...(state !== '' && { state }) }
  const view = callView(row, formatPico)
  const { policy = null, request = null, response = null } = exchangeIn(row)
  const guard = view.guard && { ...view.guard, policy }
  const ended = { ...view, guard, trace, request, response, content: null }
  return ended as unknown as EndedCall
}

function exchangeIn({ exchange }: LogRow): Exchange {
  try {
    return exchange ? (JSON.parse(String(exchange)) as Exchange) : {}
  } catch {
    return {}
  }
}

/**
 * The limits that were in force for a call: its rate as it was answered, with what was used of it, and others.
 * @param row of a log that has them
 */
export function limitsView({ rate_limit, rate_left, limits }: LogRow): readonly object[] | null {
  if ((rate_limit ?? null) === null) return null
  const [value, left] = [Number(rate_limit), Number(rate_left)]
  const others = limits ? String(limits).split(',') : []
  return [
    { limit: 'rpm', value, used: value - left, left },
    ...others.map((one) => {
      const [limit, amount] = one.split('=')
      // An amount of money is text, as in the settings of a key.
      const isMoney = limit!.includes('.cap.')
      return { limit, value: isMoney ? amount : Number(amount), used: null, left: null }
    }),
  ]
}

/** The rows of lines of the request log, separated by line feeds. Numbers are text. */
export function rowsOf(lines: string): LogRow[] {
  return lines.split('\n').map((line) => {
    const values = line.split('\t')
    return Object.fromEntries(FIELDS.map(({ name }, i) => [name, values[i] || null]))
  })
}

function partsOf(value: LogRow[string], separator: string): string[] {
  return value === null ? [] : String(value).split(separator)
}

/** @param text `prompt=120,completion=88`, in 10⁻¹² USD */
function detailsOf<Amount>(text: string, amount: (pico: Pico) => Amount): Record<string, Amount> {
  const parts = text.split(',').map((part) => part.split('='))
  return Object.fromEntries(parts.map(([member, pico]) => [member!, amount(BigInt(pico!))]))
}
