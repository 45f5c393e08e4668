/** The columns of the request log, and how a record becomes a line that crosses to the thread of the log. */
import { hash } from 'node:crypto'
import type { Usage } from '../../plugin.ts'
import {
  retriesOf,
  type Attempt,
  type CallRecord,
  type DecidedRule,
  type Exchange,
  type Question,
} from '../record.ts'
import type { LogRow } from './query.ts'

type Value = string | number | bigint | boolean | undefined

interface Field {
  readonly name: string
  readonly type: 'INTEGER' | 'REAL' | 'TEXT'
  /** Characters of a text; {@link MAX_TEXT} by default. */
  readonly most?: number
  /** For sinks alone: the log does not keep it. */
  readonly isTold?: true
  of(record: CallRecord): Value
}

const MAX_TEXT = 300
/** Of the columns that few calls have. */
const MOST_DETAILS = 2000

/** Absent is "not reported", 0 is zero. */
const quantity = (name: string, member: keyof Usage): Field => ({
  name,
  type: member === 'seconds' ? 'REAL' : 'INTEGER',
  of: ({ usage }) => usage?.[member],
})

/** In the order of the line. Others are added at the end: gateways of two versions may share a log. */
export const FIELDS: readonly Field[] = [
  // Without its prefix, a ULID: rows are in the order of arrival.
  { name: 'id', type: 'TEXT', of: ({ requestId }) => requestId.slice(4) },
  { name: 'method', type: 'TEXT', of: ({ method }) => method },
  { name: 'endpoint', type: 'TEXT', of: ({ path }) => path },
  { name: 'account', type: 'TEXT', of: ({ account }) => account },
  { name: 'key', type: 'TEXT', of: ({ key }) => key },
  { name: 'model', type: 'TEXT', of: ({ model }) => model },
  { name: 'deployment', type: 'TEXT', of: ({ deployment }) => deployment },
  { name: 'status', type: 'INTEGER', of: ({ status }) => status },
  { name: 'code', type: 'TEXT', of: ({ code }) => code },
  { name: 'limited_by', type: 'TEXT', of: ({ limit }) => limit },
  { name: 'outcome', type: 'TEXT', of: ({ outcome }) => outcome },
  { name: 'stream', type: 'INTEGER', of: ({ stream }) => stream },
  { name: 'ms_admit', type: 'INTEGER', of: ({ admitMs }) => admitMs },
  { name: 'ms_first', type: 'INTEGER', of: ({ firstMs }) => firstMs },
  { name: 'ms_total', type: 'INTEGER', of: ({ ms }) => ms },
  quantity('prompt_tokens', 'promptTokens'),
  quantity('cached_tokens', 'cachedTokens'),
  quantity('cache_write_tokens', 'cacheWriteTokens'),
  quantity('completion_tokens', 'completionTokens'),
  quantity('reasoning_tokens', 'reasoningTokens'),
  quantity('images', 'images'),
  quantity('pages', 'pages'),
  quantity('seconds', 'seconds'),
  quantity('characters', 'characters'),
  {
    name: 'searches',
    type: 'INTEGER',
    of: ({ usage, searches }) =>
      usage?.searches === undefined ? searches : usage.searches + (searches ?? 0),
  },
  quantity('estimated', 'estimated'),
  // In 10⁻¹² USD.
  { name: 'cost', type: 'INTEGER', of: ({ bill }) => bill?.cost },
  {
    name: 'cost_details',
    type: 'TEXT',
    of: ({ bill }) =>
      bill?.details.map(({ member, amount }) => `${member}=${amount}`).join(',') || undefined,
  },
  { name: 'rate_limit', type: 'INTEGER', of: ({ rate }) => rate?.limit },
  { name: 'rate_left', type: 'INTEGER', of: ({ rate }) => rate?.remaining },
  { name: 'guard', type: 'TEXT', of: ({ guard }) => guard },
  { name: 'rules', type: 'TEXT', of: ({ rules }) => rules?.join(',') || undefined },
  // Clients may send texts of users as a session.
  {
    name: 'session',
    type: 'TEXT',
    of: ({ session }) => session && hash('sha256', session).slice(0, 16),
  },
  { name: 'agent', type: 'TEXT', of: ({ userAgent }) => agentOf(userAgent) },
  {
    name: 'attempts',
    type: 'TEXT',
    most: MOST_DETAILS,
    of: ({ attempts }) => attempts && attemptsText(attempts),
  },
  { name: 'retry', type: 'INTEGER', of: (record) => retriesOf(record) },
  { name: 'error', type: 'TEXT', of: ({ error }) => error },
  { name: 'tag', type: 'TEXT', of: ({ tag }) => tag },
  { name: 'user', type: 'TEXT', of: ({ user }) => user },
  { name: 'gateway', type: 'TEXT', of: ({ gateway }) => gateway },
  { name: 'origin', type: 'TEXT', of: ({ origin = 'api' }) => origin },
  { name: 'decided', type: 'TEXT', of: ({ decided }) => decided && decidedText(decided) },
  {
    name: 'trace',
    type: 'TEXT',
    of: ({ trace }) =>
      trace && [trace.parent, trace.span, ...(trace.state ? [trace.state] : [])].join(' '),
  },
  { name: 'ms_guard', type: 'INTEGER', of: ({ guardMs }) => guardMs },
  { name: 'ms_settled', type: 'INTEGER', of: ({ settledMs }) => settledMs },
  { name: 'limits', type: 'TEXT', of: ({ limits }) => limits },
  quantity('search_units', 'searchUnits'),
  {
    name: 'questions',
    type: 'TEXT',
    most: MOST_DETAILS,
    of: ({ questions }) => questions && questionsText(questions),
  },
  {
    name: 'exchange',
    type: 'TEXT',
    isTold: true,
    most: MOST_DETAILS,
    of: ({ exchange }) => exchange && exchangeText(exchange),
  },
]

/** Those that the log keeps, with their place in a line. */
export const KEPT = FIELDS.flatMap(({ isTold, ...field }, place) =>
  isTold ? [] : [{ ...field, place }],
)

/** A line as the log keeps it. */
export function keptLine(line: string): string {
  const texts = line.split('\t')
  return FIELDS.map(({ isTold }, i) => (isTold ? '' : (texts[i] ?? ''))).join('\t')
}

/** The row that a record will be. */
export function rowOf(record: CallRecord): LogRow {
  const entries = FIELDS.map(({ name, of }) => {
    const value = of(record)
    return [name, typeof value === 'boolean' ? Number(value) : (value ?? null)]
  })
  return Object.fromEntries(entries) as LogRow
}

/** The row of a line. */
export function rowIn(line: string): LogRow {
  const texts = line.split('\t')
  const entries = FIELDS.map(({ name, type }, i) => [name, valueOf(type, texts[i] ?? '')])
  return Object.fromEntries(entries) as LogRow
}

function valueOf(type: Field['type'], text: string): LogRow[string] {
  if (text === '') return null
  return type === 'TEXT' ? text : type === 'REAL' ? Number(text) : BigInt(text)
}

function decidedText(decided: readonly DecidedRule[]): string {
  const texts = decided.map(
    ({ mode, side, outcome, rule }) => `${mode} ${side} ${outcome} ${rule.replaceAll(';', '')}`,
  )
  return asManyAsFit(texts, MAX_TEXT)
}

/** Ids of deployments have no blanks. */
function attemptsText(attempts: readonly Attempt[]): string {
  const texts = attempts.map(({ deployment, ms, result, status, said }) => {
    if (status === undefined && said === undefined) return `${deployment} ${ms} ${result}`
    const words = said?.slice(0, MAX_TEXT).replaceAll(';', ',') ?? ''
    return `${deployment} ${ms} ${result} ${status ?? ''} ${words}`
  })
  return asManyAsFit(texts, MOST_DETAILS)
}

/** Names and rules have no blanks. */
function questionsText(questions: readonly Question[]): string {
  const texts = questions.map(
    ({ to, name, side = '', from, ms, result, rules }) =>
      `${to} ${name} ${side} ${from} ${ms} ${result} ${rules.join(',').replaceAll(/[; ]/g, '')}`,
  )
  return asManyAsFit(texts, MOST_DETAILS)
}

/** A part of one would be something else. */
function asManyAsFit(texts: readonly string[], most: number): string {
  let all = ''
  for (const one of texts) {
    if (all.length + one.length >= most) break
    all += all === '' ? one : `;${one}`
  }
  return all
}

/** A part of it could not be read. */
function exchangeText(exchange: Exchange): string | undefined {
  const text = JSON.stringify(exchange)
  return text.length <= MOST_DETAILS ? text : undefined
}

/** The requests to deployments that a field of attempts holds; of a text that was cut, those that are whole. */
export function readAttempts(text: string): Attempt[] {
  return text.split(';').flatMap((one) => {
    const [deployment = '', ms = '', result = '', status = '', ...words] = one.split(' ')
    if (result === '') return []
    const said = words.join(' ')
    return [
      {
        deployment,
        ms: Number(ms),
        result,
        ...(status !== '' && { status: Number(status) }),
        ...(said !== '' && { said }),
      },
    ]
  })
}

/** The decisions that a field of decisions holds. */
export function readDecided(text: string): DecidedRule[] {
  if (text === '') return []
  return text.split(';').map((one) => {
    const [mode = '', side = '', outcome = '', ...rule] = one.split(' ')
    return { mode, side, outcome, rule: rule.join(' ') }
  })
}

/** The questions that a field of questions holds; of a text that was cut, those that are whole. */
export function readQuestions(text: string): Question[] {
  if (text === '') return []
  return text.split(';').flatMap((one) => {
    const [to, name = '', side, from, ms, result = '', rules = ''] = one.split(' ')
    if (to !== 'guard' && to !== 'search') return []
    return [
      {
        to,
        name,
        ...(side && { side: side as Question['side'] & string }),
        from: Number(from),
        ms: Number(ms),
        result,
        rules: rules === '' ? [] : rules.split(','),
      },
    ]
  })
}

/** One line without its end: the values, separated by tabs. */
export function lineOf(record: CallRecord): string {
  return FIELDS.map(({ of, most }) => textOf(of(record), most)).join('\t')
}

function textOf(value: Value, most = MAX_TEXT): string {
  if (value === undefined) return ''
  if (typeof value === 'boolean') return value ? '1' : '0'
  if (typeof value !== 'string') return String(value)
  return value.length <= most && PLAIN.test(value) ? value : printable(value, most)
}

/** Printable ASCII. */
const PLAIN = /^[\x20-\x7e]*$/

function printable(text: string, most: number): string {
  return text.slice(0, most).replace(/[^\x20-\x7e]/g, '?')
}

/** Client libraries by the beginning of their user agent. */
const AGENTS: readonly (readonly [RegExp, string])[] = [
  [/^claude-(cli|code)/i, 'claude-code'],
  [/^codex/i, 'codex'],
  [/^opencode/i, 'opencode'],
  [/^openai\/python/i, 'openai-python'],
  [/^openai\/js/i, 'openai-node'],
  [/^anthropic\/python/i, 'anthropic-python'],
  [/^anthropic\/js/i, 'anthropic-node'],
  [/^ai(-sdk)?\//i, 'ai-sdk'],
  [/langchain/i, 'langchain'],
  [/^python-requests|^python-httpx/i, 'python'],
  [/^(node|undici)/i, 'node'],
  [/^curl\//i, 'curl'],
  [/^mozilla\//i, 'browser'],
]

/** One name of a fixed list. */
function agentOf(userAgent: string | undefined): string | undefined {
  if (!userAgent) return undefined
  return AGENTS.find(([pattern]) => pattern.test(userAgent))?.[1] ?? 'other'
}
