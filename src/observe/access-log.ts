/**
 * The access log: one line per call, written in batches, because one write per call would cost more than making the line.
 * Lines in memory are lost in a crash; charges do not depend on them.
 */
import type { KnownCall } from './record.ts'

/** The decision of the guards about one call. Names and numbers; text only if the operator has configured evidence. */
interface DecisionRecord {
  readonly at: number
  readonly outcome: string
  readonly [member: string]: unknown
}

interface AccessLogOptions {
  readonly format: 'pretty' | 'json'
  /** Receives batches; standard output by default. */
  readonly write?: (text: string) => void
}

const BATCH_CHARACTERS = 65_536

export class AccessLog {
  /** Whether decisions of guards have a line of their own; otherwise they are in the line of their call. */
  readonly detailed: boolean
  #lines: string[] = []
  #length = 0
  readonly #line: (call: KnownCall) => string
  readonly #write: (text: string) => void

  constructor({ format, write = (text) => process.stdout.write(text) }: AccessLogOptions) {
    this.detailed = format === 'json'
    this.#line = format === 'json' ? jsonLine : prettyLine
    this.#write = write
  }

  add(call: KnownCall): void {
    this.#append(this.#line(call))
  }

  decided(record: DecisionRecord): void {
    this.#append(jsonDecision(record))
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

function jsonLine(call: KnownCall): string {
  const { id, at, method, endpoint, status, code, outcome, times, account_id, key_id } = call
  const { model, deployment, usage, cost_usd, retry } = call
  const line = {
    at,
    level: 'info',
    event: 'request',
    message: `${method} ${endpoint} ${status || outcome}`,
    requestId: id,
    method,
    path: endpoint,
    status,
    code,
    outcome,
    ms: times?.total_ms,
    account: account_id,
    key: key_id,
    model,
    deployment,
    promptTokens: usage?.prompt_tokens,
    completionTokens: usage?.completion_tokens,
    cost: cost_usd,
    retryCount: retry,
  }
  return `${JSON.stringify(line)}\n`
}

/**
 * Time (UTC), status, outcome and duration in columns; then path, model, guards, tokens, cost, account and id where known.
 * @example 10:21:07.123 200 completed   1.234s POST /v1/chat/completions acme/swift 812+220 tokens $0.000855 …
 */
function prettyLine(call: KnownCall): string {
  const {
    at,
    status,
    outcome = '',
    times,
    account_id,
    key_id,
    code,
    model,
    deployment,
    guard,
  } = call
  const [prompt, completion] = [call.usage?.prompt_tokens, call.usage?.completion_tokens]
  const seconds = secondsOf(times?.total_ms ?? 0)
  let line = `${timeOf(at)} ${status || '---'} ${outcome.padEnd(9)} ${seconds.padStart(9)}`
  line += ` ${call.method} ${call.endpoint}`
  if (code) line += ` ${code}`
  if (model) line += ` ${model}`
  if (deployment) line += ` by ${deployment}`
  if (call.retry) line += ` retry ${call.retry}`
  if (guard) line += ` guard ${[guard.outcome, guard.rules.join(',')].join(' ').trim()}`
  if (prompt !== undefined || completion !== undefined) {
    line += ` ${prompt ?? 0}+${completion ?? 0} tokens`
  }
  if (call.cost_usd) line += ` $${call.cost_usd}`
  if (account_id) line += key_id ? ` ${account_id}/${key_id}` : ` ${account_id}`
  return `${line} ${call.id}\n`
}

function jsonDecision(record: DecisionRecord): string {
  const at = new Date(record.at).toISOString()
  const head = { at, level: 'info', event: 'guard.decision', message: `guard ${record.outcome}` }
  return `${JSON.stringify({ ...head, ...record, at })}\n`
}

/** `10:21:07.123`, UTC. @param at ISO 8601 */
export function timeOf(at: string): string {
  return at.slice(11, 23)
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

interface Window {
  readonly since: number
  count: number
}

/** A limit of lines a minute for each subject. The owner calls {@link LineLimit.tick} from time to time. */
export class LineLimit {
  readonly #windows = new Map<string, Window>()
  readonly #onLeftOut: (count: number, subject: string) => void

  readonly #limit: number

  /** @param onLeftOut called at the end of a window in which lines were left out. @param limit lines of a subject per minute */
  constructor(onLeftOut: (count: number, subject: string) => void, limit = LINE_LIMIT) {
    this.#onLeftOut = onLeftOut
    this.#limit = limit
  }

  admits(subject: string, now: number): boolean {
    this.tick(now)
    const isOwn = this.#windows.has(subject) || this.#windows.size < SUBJECT_LIMIT
    const key = isOwn ? subject : OTHERS
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
