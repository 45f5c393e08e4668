/** Reads calls in the forms of earlier releases: rows of day files of versions 1 and 2, and tab-separated lines of a shared Redis. */
import { formatPico } from '../../money/money.ts'
import { timeOf } from '../../state/ids.ts'
import { QUANTITIES } from '../../server/admin/resources/usage.ts'
import { type KnownCall } from '../record.ts'

/** A row by column. Numbers may be text. */
export type EarlierRow = Readonly<Record<string, string | number | bigint | null>>

const COLUMNS = `
  id method endpoint account key model deployment status code limited_by outcome stream ms_admit
  ms_first ms_total prompt_tokens cached_tokens cache_write_tokens completion_tokens reasoning_tokens
  images pages seconds characters searches estimated cost cost_details rate_limit rate_left guard
  rules session agent attempts retry error tag user gateway origin decided trace ms_guard ms_settled
  limits search_units questions
`
  .trim()
  .split(/\s+/)

/** The call of a line, in the present form or as tabs. */
export function callOfLine(line: string): KnownCall {
  if (line.startsWith('{')) return JSON.parse(line) as KnownCall
  const values = line.split('\t')
  return callOfRow(Object.fromEntries(COLUMNS.map((name, i) => [name, values[i] || null])))
}

export function callOfRow(row: EarlierRow): KnownCall {
  const text = (name: string) => (row[name] == null ? undefined : String(row[name]))
  const number = (name: string) => (row[name] == null ? undefined : Number(row[name]))
  const flag = (name: string) => (row[name] == null ? undefined : Number(row[name]) === 1)
  const listOf = (name: string, sign: string) => text(name)?.split(sign) ?? []
  const total_ms = number('ms_total')
  const outcome = text('guard')
  const [limit, left] = [number('rate_limit'), number('rate_left')]
  const usage = Object.fromEntries(QUANTITIES.map((name) => [name, number(name)]))
  return {
    id: `req_${text('id')}`,
    at: new Date(timeOf(text('id')!)).toISOString(),
    method: text('method') ?? '',
    endpoint: text('endpoint') ?? '',
    account_id: text('account'),
    key_id: text('key'),
    model: text('model'),
    deployment: text('deployment'),
    status: number('status'),
    code: text('code'),
    limited_by: text('limited_by'),
    outcome: text('outcome') as KnownCall['outcome'],
    stream: flag('stream'),
    times: total_ms === undefined ? undefined : timesOf(number, total_ms),
    usage,
    estimated: flag('estimated'),
    cost_usd: row.cost == null ? undefined : formatPico(BigInt(row.cost)),
    cost_details: text('cost_details') && pairsOf(listOf('cost_details', ','), usdOf),
    rate: limit === undefined || left === undefined ? undefined : { limit, left },
    // An amount of money is text, as in the settings of a key.
    limits:
      text('limits') &&
      pairsOf(listOf('limits', ','), (value, name) =>
        name.includes('.cap.') ? value : Number(value),
      ),
    guard: outcome === undefined ? undefined : { outcome, rules: listOf('rules', ',') },
    decided: text('decided') === undefined ? undefined : listOf('decided', ';').map(decidedIn),
    tag: text('tag'),
    user: text('user'),
    gateway: text('gateway'),
    origin: (['play', 'test'] as const).find((one) => one === text('origin')) ?? 'api',
    session: text('session'),
    agent: text('agent'),
    attempts: listOf('attempts', ';').flatMap(attemptIn),
    questions: listOf('questions', ';').flatMap(questionIn),
    retry: number('retry'),
    error: text('error'),
  } as KnownCall
}

function timesOf(number: (name: string) => number | undefined, total_ms: number) {
  return {
    admit_ms: number('ms_admit'),
    guard_ms: number('ms_guard'),
    first_ms: number('ms_first'),
    settled_ms: number('ms_settled'),
    total_ms,
  }
}

/** @param parts pairs such as `prompt=120` */
function pairsOf<Value>(parts: readonly string[], valueOf: (text: string, name: string) => Value) {
  const pairs = parts.map((part) => part.split('=') as [string, string])
  return Object.fromEntries(pairs.map(([name, value]) => [name, valueOf(value, name)]))
}

function usdOf(pico: string): string {
  return formatPico(BigInt(pico))
}

/** @param text mode, side, outcome and rule */
function decidedIn(text: string) {
  const [mode = '', side = '', outcome = '', ...rule] = text.split(' ')
  return { mode, side, outcome, rule: rule.join(' ') }
}

/** @param text deployment, ms, result, status and message, whose end may be cut off */
function attemptIn(text: string): KnownCall['attempts'] & object {
  const [deployment = '', ms = '', result = '', status = '', ...words] = text.split(' ')
  if (result === '') return []
  const message = words.join(' ') || undefined
  return [{ deployment, ms: Number(ms), result, status: Number(status) || undefined, message }]
}

/** @param text kind, name, side, start, ms, result and rules, whose end may be cut off */
function questionIn(text: string): KnownCall['questions'] & object {
  const [to, name = '', side, from, ms, result = '', rules = ''] = text.split(' ')
  if (to !== 'guard' && to !== 'search') return []
  return [
    {
      to,
      name,
      side: side === 'input' || side === 'output' ? side : undefined,
      at_ms: Number(from),
      ms: Number(ms),
      result,
      rules: rules === '' ? [] : rules.split(','),
    },
  ]
}
