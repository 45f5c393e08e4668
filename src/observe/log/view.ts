/** Rows of the request log as others see them: the admin API, and sinks. */
import { formatPico, type Pico } from '../../money/money.ts'
import type { EndedCall } from '../../plugin.ts'
import { timeOf } from '../../state/ids.ts'
import { QUANTITIES } from '../usage/tables.ts'
import { FIELDS, readAttempts } from './fields.ts'
import type { LogRow } from './query.ts'

/** Those that the log has a column for. */
const LOGGED = QUANTITIES.filter((name) => FIELDS.some((field) => field.name === name))

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
      first_ms: number('ms_first'),
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
    attempts: readAttempts(String(row.attempts ?? '')),
    retry: number('retry'),
    error: row.error,
  }
}

/** A row as sinks get it. */
export function endedCall(row: LogRow): EndedCall {
  const [parent = '', span, ...more] = String(row.trace ?? '').split(' ')
  const state = more.join(' ')
  const trace = span === undefined ? null : { parent, span, ...(state !== '' && { state }) }
  return { ...callView(row, formatPico), trace } as unknown as EndedCall
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
