/**
 * One line per call, written in batches: a write per call would cost more than everything else that is logged.
 * Lines that are still in memory may be lost in a crash; money never depends on them.
 */
import type { Outcome, RequestId } from '../state/ledger/ledger.ts'

/** One call that has ended. Ids, names and numbers only, never text of a user. */
export interface AccessRecord {
  /** When the call arrived, ms since epoch. */
  readonly at: number
  readonly requestId: RequestId
  readonly method: string
  /** The endpoint's own path, not what the client wrote. */
  readonly path: string
  /** 0 when the client left before it got one. */
  readonly status: number
  readonly code?: string | undefined
  readonly outcome: Outcome
  /** From arrival to the last byte. */
  readonly ms: number
  readonly account?: string | undefined
  readonly key?: string | undefined
  readonly model?: string | undefined
  readonly deployment?: string | undefined
  readonly promptTokens?: number | undefined
  readonly completionTokens?: number | undefined
  /** USD as plain decimal text. */
  readonly cost?: string | undefined
  /** How often the client's SDK says it has tried before; what is not a small number is left out. */
  readonly retryCount?: string | undefined
}

/** What guards decided about one call (guard design, 6). Names and numbers; text only where the operator wants evidence. */
export interface DecisionRecord {
  /** When it was decided for good, ms since epoch. */
  readonly at: number
  readonly requestId: RequestId
  readonly mode: string
  readonly outcome: string
  readonly rules: readonly string[]
  readonly [member: string]: unknown
}

export interface AccessLogOptions {
  readonly format: 'pretty' | 'json'
  /** Where batches go; standard output by default. */
  readonly write?: (text: string) => void
}

/** A batch of this many characters does not wait for the next flush. */
const BATCH_CHARACTERS = 65_536

/** Collects lines; somebody has to call `flush` from time to time, and once at the end. */
export class AccessLog {
  /** Everything that is known of a decision is written; else its outcome. */
  readonly detailed: boolean
  #batch = ''
  readonly #line: (record: AccessRecord) => string
  readonly #decision: (record: DecisionRecord) => string
  readonly #write: (text: string) => void

  constructor({ format, write = (text) => process.stdout.write(text) }: AccessLogOptions) {
    this.detailed = format === 'json'
    this.#line = format === 'json' ? jsonLine : prettyLine
    this.#decision = format === 'json' ? jsonDecision : prettyDecision
    this.#write = write
  }

  add(record: AccessRecord): void {
    this.#append(this.#line(record))
  }

  /** The event `guard.decision`. */
  decided(record: DecisionRecord): void {
    this.#append(this.#decision(record))
  }

  #append(line: string): void {
    this.#batch += line
    if (this.#batch.length >= BATCH_CHARACTERS) this.flush()
  }

  /** Writes what there is, at once. */
  flush(): void {
    if (!this.#batch) return
    const batch = this.#batch
    this.#batch = ''
    this.#write(batch)
  }
}

function jsonLine(record: AccessRecord): string {
  const at = new Date(record.at).toISOString()
  return `${JSON.stringify({ ...record, at, retryCount: retriesOf(record) })}\n`
}

/**
 * Time (UTC), status, outcome, duration in columns; then what is there of path, model, tokens, cost, owner, id.
 * @example 10:21:07.123 200 completed   1.234s POST /v1/chat/completions acme/swift 812+220 tokens $0.000855 …
 */
function prettyLine(record: AccessRecord): string {
  const { at, status, outcome, ms, promptTokens, completionTokens, account, key, code } = record
  const { model, deployment, cost } = record
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
  return `${JSON.stringify({ event: 'guard.decision', ...record, at })}\n`
}

/** @example 10:21:07.123 guard blocked deny:code req_… */
function prettyDecision({ at, mode, outcome, rules, requestId }: DecisionRecord): string {
  const seen = mode === 'monitor' ? ' (monitor)' : ''
  const found = rules.length > 0 ? ` ${rules.join(',')}` : ''
  return `${timeOf(at)} guard ${outcome}${seen}${found} ${requestId}\n`
}

let second = NaN
let clock = ''

/** `10:21:07.123`, UTC. The clock of a second is kept; a call that takes long has lines of two seconds. */
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

/** @param ms whole ones. @example 1.234s */
function secondsOf(ms: number): string {
  return `${Math.floor(ms / 1000)}.${String(ms % 1000).padStart(3, '0')}s`
}

/** A header is text of a user until it is shown to be a number. */
function retriesOf({ retryCount }: AccessRecord): number | undefined {
  return retryCount && /^\d{1,3}$/.test(retryCount) ? Number(retryCount) : undefined
}
