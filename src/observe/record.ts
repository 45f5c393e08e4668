/** A call that has ended: one record, from which the access log, the request log and the metrics are made. */
import { hash } from 'node:crypto'
import type { Bill } from '../money/money.ts'
import type { Side, Usage } from '../plugin.ts'
import type { Outcome, RequestId } from '../state/ledger/ledger.ts'
import { InvalidRequest } from '../errors/errors.ts'
import type { LogRow } from './log/query.ts'

/** One request to a deployment. */
export interface Attempt {
  readonly deployment: string
  readonly ms: number
  /** `ok`, or the class of the failure. */
  readonly result: string
  /** The HTTP status of the vendor, where a failure had one. */
  readonly status?: number | undefined
  /** What the vendor said of the failure; see `vendorMessage`. */
  readonly said?: string | undefined
}

/** One question to a remote guard or to a search engine, for a call. */
export interface Question {
  readonly to: 'guard' | 'search'
  /** Name in the configuration. */
  readonly name: string
  /** What a guard was asked about. */
  readonly side?: Side
  /** From the arrival of the call, ms. */
  readonly from: number
  readonly ms: number
  /** Of a guard `passed` or `blocked`, of an engine `ok`, or why there was no answer. */
  readonly result: string
  /** Rules that a guard found violated. */
  readonly rules: readonly string[]
}

/** What a call asked of the model and how the answer ended, without any text of it. */
export interface Exchange {
  /** Hash of the key's policy, for a call that guards looked at. */
  readonly policy?: string | undefined
  readonly request?: ExchangeRequest | undefined
  readonly response?: ExchangeResponse | undefined
}

/** Parameters of a request. */
export interface ExchangeRequest {
  readonly max_tokens?: number | undefined
  readonly temperature?: number | undefined
  readonly top_p?: number | undefined
  readonly seed?: number | undefined
  readonly choices?: number | undefined
  readonly reasoning?: string | undefined
}

/** How an answer ended. */
export interface ExchangeResponse {
  readonly id?: string | undefined
  readonly model?: string | undefined
  readonly finish_reasons: readonly string[]
}

/** What links a call to a trace of its client. */
export interface TraceLink {
  /** The header that the client sent: version, id of the trace, id of its span, flags. */
  readonly parent: string
  /** 16 hexadecimal digits. */
  readonly span: string
  /** The `tracestate` of the client. */
  readonly state?: string
}

/** What became of the texts of one side that violate a rule. Side `all` and no rule: of a call that violates none. */
export interface DecidedRule {
  readonly mode: string
  readonly side: string
  readonly rule: string
  readonly outcome: string
}

/** A call that has ended. Ids, names and numbers; the only texts are those of the gateway itself, and labels that the client gave. */
export interface CallRecord {
  /** When the call arrived, ms since epoch. */
  readonly at: number
  readonly requestId: RequestId
  readonly method: string
  /** `play`: an operator called as the key; `api`, also where it is absent: everyone else. */
  readonly origin?: 'api' | 'play'
  /** Path of the endpoint, not the text that the client sent. */
  readonly path: string
  /** 0 if the client left before the status was sent. */
  readonly status: number
  readonly code?: string | undefined
  /** Which limit refused the call; see {@link LimitName}. */
  readonly limit?: LimitName | undefined
  readonly outcome: Outcome
  readonly stream?: boolean | undefined
  /** ms from arrival to the last byte. */
  readonly ms: number
  /** ms from arrival until the money was held. */
  readonly admitMs?: number | undefined
  /** ms from arrival until guards had agreed to the input. */
  readonly guardMs?: number | undefined
  /** ms from arrival until the first part of an answer that is sent as it comes. */
  readonly firstMs?: number | undefined
  /** ms from arrival until the charge was booked. */
  readonly settledMs?: number | undefined
  readonly account?: string | undefined
  readonly key?: string | undefined
  /** An id of the catalog. */
  readonly model?: string | undefined
  readonly deployment?: string | undefined
  /** What the model consumed. */
  readonly usage?: Usage | undefined
  /** Web searches of the gateway. */
  readonly searches?: number | undefined
  readonly bill?: Bill | undefined
  /** Limit and rest of the requests of this minute. */
  readonly rate?: { readonly limit: number; readonly remaining: number } | undefined
  /** Limits of key and account that were in force, beside the rate; see `limitsInForce`. */
  readonly limits?: string | undefined
  /** Outcome of the guards, and the rules that decided. */
  readonly guard?: string | undefined
  readonly rules?: readonly string[] | undefined
  /** What guards decided, by rule and side. */
  readonly decided?: readonly DecidedRule[] | undefined
  /** Labels of the client, or of the key; see `labelsOf`. */
  readonly tag?: string | undefined
  readonly user?: string | undefined
  /** The gateway that served the call. */
  readonly gateway?: string | undefined
  /** As the client gave it; see `sessionOf`. */
  readonly session?: string | undefined
  /** The `user-agent` of the client. */
  readonly userAgent?: string | undefined
  readonly attempts?: readonly Attempt[] | undefined
  readonly questions?: readonly Question[] | undefined
  /** Only while sinks are told of calls. */
  readonly exchange?: Exchange | undefined
  /** The W3C `traceparent` of the client, and the id of the span that was named to it. */
  readonly trace?: TraceLink | undefined
  /** Number of earlier tries, as the client's SDK reports it; anything but a small number is not logged. */
  readonly retryCount?: string | undefined
  /** The message of the error that the client got. */
  readonly error?: string | undefined
}

/** The limit that refused a call: of the key, of the free tier, or of the account's money. */
export type LimitName =
  | `${'key' | 'account' | 'tier'}.${'rpm' | 'concurrency'}`
  | `${'key' | 'account'}.cap.${'lifetime' | 'day' | 'month'}`
  | 'tier.day'
  | 'tier.model'
  | 'balance'
  | 'held'

/** The header may hold any text of a client: only a small number is logged. */
export function retriesOf({ retryCount }: Pick<CallRecord, 'retryCount'>): number | undefined {
  return retryCount && /^\d{1,3}$/.test(retryCount) ? Number(retryCount) : undefined
}

// Labels of a call in usage and log: what it was for, and for whom. They are the client's own words, and nothing else depends on them.

/** What a call was for, and for whom. */
export interface CallLabels {
  readonly tag?: string
  readonly user?: string
}

/** How end users are kept: as the client names them, as a hash, or not at all. */
type UserForm = 'plain' | 'hash' | 'none'

/** Header in which a client labels a call. It is for the gateway alone. */
export const TAG_HEADER = 'x-service-tag'
const TAG = /^[A-Za-z0-9_.:-]{1,64}$/
/** Printable ASCII without a blank at either end. */
const PLAIN_LABEL = /^[\x21-\x7e](?:[\x20-\x7e]{0,62}[\x21-\x7e])?$/
const NO_LABELS: CallLabels = {}

/** Members of a request that label it. */
export interface Labelled {
  readonly metadata?: unknown
  readonly safety_identifier?: unknown
  readonly user?: unknown
}

/**
 * The labels of a request.
 * @param fixed the tag of the key, in whose place no other counts
 * @throws InvalidRequest for a header that is no tag
 */
export function labelsOf(
  input: Labelled,
  header: string | undefined,
  fixed: string | undefined,
  users: UserForm,
): CallLabels {
  const { metadata, safety_identifier: identifier, user } = input
  const members = isObject(metadata) ? metadata : {}
  const tag = fixed ?? tagOf(header, members.tag)
  const name = [identifier, user, members.user_id].find((one) => typeof one === 'string' && one)
  const known = users === 'none' ? undefined : (name as string | undefined)
  if (tag === undefined && known === undefined) return NO_LABELS
  return {
    ...(tag !== undefined && { tag }),
    ...(known !== undefined && { user: userOf(known, users) }),
  }
}

function tagOf(header: string | undefined, member: unknown): string | undefined {
  if (header !== undefined) {
    if (TAG.test(header)) return header
    const message = 'Invalid X-Service-Tag: expected 1 to 64 letters, digits, "_", ".", ":" or "-".'
    throw new InvalidRequest('invalid_value', message)
  }
  return typeof member === 'string' && TAG.test(member) ? member : undefined
}

function userOf(name: string, users: UserForm): string {
  // A name that looks like a hash is hashed too, so that none can be taken for another's.
  if (users === 'plain' && PLAIN_LABEL.test(name) && !name.startsWith('h:')) return name
  return `h:${hash('sha256', name).slice(0, 16)}`
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}

// The columns of the request log, and how a record becomes a line that crosses to the thread of the log.

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
  return value.length <= most && PRINTABLE.test(value) ? value : printable(value, most)
}

/** Printable ASCII. */
const PRINTABLE = /^[\x20-\x7e]*$/

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
