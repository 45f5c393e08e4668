/** The base of all errors that a client can receive, and the headers with the time to wait. */
import type { Bill, UsageLine } from '../money/money.ts'

const BRAND = Symbol.for('gateway.error')

export interface ErrorOptions {
  /** Path of the request field that the error is about; null when it is about no field. */
  readonly param?: string | null
  readonly headers?: Readonly<Record<string, string>>
  readonly cause?: unknown
}

/** `{"error": {...}}`: the body of every response above 299, and of an error event in a stream. */
export interface ErrorBody {
  error: { message: string; type: string; code: string; param: string | null; usage?: object }
}

/** An error as a client receives it. The message is written for the client; the cause only goes to the log. */
export class GatewayError extends Error {
  readonly status: number
  readonly code: string
  readonly type: string
  readonly param: string | null
  readonly headers: Readonly<Record<string, string>>
  /** The bill and the quantities of a failure for which the client is charged. */
  receipt?: { readonly bill: Bill; readonly meter: readonly UsageLine[] }

  constructor(
    status: number,
    type: string,
    code: string,
    message: string,
    options: ErrorOptions = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = new.target.name
    this.status = status
    this.type = type
    this.code = code
    this.param = options.param ?? null
    this.headers = options.headers ?? {}
  }

  get [BRAND](): true {
    return true
  }

  /** Whether a value is a GatewayError. Tested by a brand and not by class: a plugin may bring its own copy of this module. */
  static is(error: unknown): error is GatewayError {
    return typeof error === 'object' && error !== null && BRAND in error
  }
}

/** Longest wait after which clients are told to ask again. */
export const MAX_WAIT_SECONDS = 60

/** Whole seconds, at least 1. */
export function secondsOf(ms = 1000): number {
  return Math.max(1, Math.ceil(ms / 1000))
}

/** Headers that tell clients when to ask again. @param ms the wait, where one is known */
export function retryHeaders(status: number, ms?: number): Record<string, string> {
  if (status === 504) return { 'x-should-retry': 'false' }
  const seconds = secondsOf(ms)
  if (status === 503) return { 'retry-after': String(Math.min(30, seconds)) }
  if (status !== 429) return {}
  const never = seconds > MAX_WAIT_SECONDS && { 'x-should-retry': 'false' }
  return { 'retry-after': String(seconds), ...never }
}
