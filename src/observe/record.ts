/** A call that has ended: one record, from which the access log, the request log and the metrics are made. */
import type { Bill } from '../money/money.ts'
import type { Side, Usage } from '../plugin.ts'
import type { Outcome, RequestId } from '../state/ledger/ledger.ts'

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
