/**
 * The access log: one line per call, written in batches, because one write per call would cost more than making the line.
 * Lines in memory are lost in a crash; charges do not depend on them.
 */
import type { RequestId } from '../state/ledger/ledger.ts'
import { retriesOf, type CallRecord } from './record.ts'

/** The decision of the guards about one call. Names and numbers; text only if the operator has configured evidence. */
interface DecisionRecord {
  /** When the decision became final, ms since epoch. */
  readonly at: number
  readonly requestId: RequestId
  readonly mode: string
  readonly outcome: string
  readonly rules: readonly string[]
  readonly [member: string]: unknown
}

/** Settings of the access log. */
interface AccessLogOptions {
  readonly format: 'pretty' | 'json'
  /** Receives batches; standard output by default. */
  readonly write?: (text: string) => void
}

/** A batch of this many characters is written at once. */
const BATCH_CHARACTERS = 65_536

/** Collects lines. The owner calls `flush` from time to time, and once at the end. */
export class AccessLog {
  /** True if a decision is logged with all members, false if only with its outcome. */
  readonly detailed: boolean
  #lines: string[] = []
  #length = 0
  readonly #line: (record: CallRecord) => string
  readonly #decision: (record: DecisionRecord) => string
  readonly #write: (text: string) => void

  constructor({ format, write = (text) => process.stdout.write(text) }: AccessLogOptions) {
    this.detailed = format === 'json'
    this.#line = format === 'json' ? jsonLine : prettyLine
    this.#decision = format === 'json' ? jsonDecision : prettyDecision
    this.#write = write
  }

  /** Logs a call that has ended. */
  add(record: CallRecord): void {
    this.#append(this.#line(record))
  }

  /** Logs a decision of guards, as the event `guard.decision`. */
  decided(record: DecisionRecord): void {
    this.#append(this.#decision(record))
  }

  #append(line: string): void {
    this.#lines.push(line)
    this.#length += line.length
    if (this.#length >= BATCH_CHARACTERS) this.flush()
  }

  /** Writes all collected lines at once. They are lost where they cannot be written. */
  flush(): void {
    if (this.#lines.length === 0) return
    const batch = this.#lines.join('')
    this.#lines = []
    this.#length = 0
    try {
      this.#write(batch)
    } catch {
      // Calls do not depend on their lines.
    }
  }
}

function jsonLine(record: CallRecord): string {
  const { requestId, method, path, status, code, outcome, ms } = record
  const { account, key, model, deployment, usage, bill } = record
  const line = {
    at: new Date(record.at).toISOString(),
    level: 'info',
    event: 'request',
    message: `${method} ${path} ${status || outcome}`,
    requestId,
    method,
    path,
    status,
    code,
    outcome,
    ms,
    account,
    key,
    model,
    deployment,
    promptTokens: usage?.promptTokens,
    completionTokens: usage?.completionTokens,
    cost: bill?.text,
    retryCount: retriesOf(record),
  }
  return `${JSON.stringify(line)}\n`
}

/**
 * Time (UTC), status, outcome and duration in columns; then path, model, tokens, cost, account and id where known.
 * @example 10:21:07.123 200 completed   1.234s POST /v1/chat/completions acme/swift 812+220 tokens $0.000855 …
 */
function prettyLine(record: CallRecord): string {
  const { at, status, outcome, ms, account, key, code, model, deployment } = record
  const { promptTokens, completionTokens } = record.usage ?? {}
  const cost = record.bill?.text
  const retries = retriesOf(record)
  let line = `${timeOf(at)} ${status || '---'} ${outcome.padEnd(9)} ${secondsOf(ms).padStart(9)}`
  line += ` ${record.method} ${record.path}`
  if (code) line += ` ${code}`
  if (model) line += ` ${model}`
  if (deployment) line += ` by ${deployment}`
  if (retries) line += ` retry ${retries}`
  if (promptTokens !== undefined || completionTokens !== undefined) {
    line += ` ${promptTokens ?? 0}+${completionTokens ?? 0} tokens`
  }
  if (cost) line += ` $${cost}`
  if (account) line += key ? ` ${account}/${key}` : ` ${account}`
  return `${line} ${record.requestId}\n`
}

function jsonDecision(record: DecisionRecord): string {
  const at = new Date(record.at).toISOString()
  const head = { at, level: 'info', event: 'guard.decision', message: `guard ${record.outcome}` }
  return `${JSON.stringify({ ...head, ...record, at })}\n`
}

/** @example 10:21:07.123 guard blocked deny:code req_… */
function prettyDecision({ at, mode, outcome, rules, requestId }: DecisionRecord): string {
  const seen = mode === 'monitor' ? ' (monitor)' : ''
  const found = rules.length > 0 ? ` ${rules.join(',')}` : ''
  return `${timeOf(at)} guard ${outcome}${seen}${found} ${requestId}\n`
}

let second = NaN
let clock = ''

/** `10:21:07.123`, UTC. The text up to the second is kept for further lines of the same second. */
function timeOf(at: number): string {
  const whole = Math.floor(at / 1000)
  if (whole !== second) {
    second = whole
    const [hours, minutes] = [Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60]
    clock = `${twoDigits(hours)}:${twoDigits(minutes)}:${twoDigits(whole % 60)}.`
  }
  return clock + String(at % 1000).padStart(3, '0')
}

function twoDigits(value: number): string {
  return value < 10 ? `0${value}` : String(value)
}

/** @param ms a whole number. @example 1.234s */
function secondsOf(ms: number): string {
  return `${Math.floor(ms / 1000)}.${String(ms % 1000).padStart(3, '0')}s`
}

// Keeps a flood of equal lines out of a log, and says how many were left out.

/** Lines of a subject per window, unless the owner wants fewer. */
const LINE_LIMIT = 10
const WINDOW_MS = 60_000
/** Subjects of one window that are told apart; further ones share what is left. */
const SUBJECT_LIMIT = 100
const OTHERS = 'other messages'

/** Lines of one subject since its window began. */
interface Window {
  readonly since: number
  count: number
}

/** So many lines a minute for each subject. The owner calls {@link LineLimit.tick} from time to time. */
export class LineLimit {
  readonly #windows = new Map<string, Window>()
  readonly #onLeftOut: (count: number, subject: string) => void

  readonly #limit: number

  /** @param onLeftOut told at the end of a window in which lines were left out. @param limit lines of a subject per minute */
  constructor(onLeftOut: (count: number, subject: string) => void, limit = LINE_LIMIT) {
    this.#onLeftOut = onLeftOut
    this.#limit = limit
  }

  /** Whether one more line may be written. @param subject what its lines have in common. @param now steady ms */
  admits(subject: string, now: number): boolean {
    this.tick(now)
    const known = this.#windows.has(subject) || this.#windows.size < SUBJECT_LIMIT
    const key = known ? subject : OTHERS
    const window = this.#windows.get(key) ?? { since: now, count: 0 }
    this.#windows.set(key, window)
    return ++window.count <= this.#limit
  }

  /** Ends the windows that are over. @param now steady ms */
  tick(now: number): void {
    for (const [subject, { since, count }] of this.#windows) {
      // Older windows come first.
      if (now - since < WINDOW_MS) return
      this.#windows.delete(subject)
      if (count > this.#limit) this.#onLeftOut(count - this.#limit, subject)
    }
  }
}
