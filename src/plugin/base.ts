/** What all plugins have in common: schemas of their options, quantities, failures, and the Host. */
import type { ConsolaInstance } from 'consola'
import type { $Fetch } from 'ofetch'
import type { Flow } from './flow.ts'

export const API_VERSION = 1

/** Any validator that speaks Standard Schema (valibot in the house). https://standardschema.dev */
export interface Schema<Output = unknown> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined
  }
}
export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] }
export interface SchemaIssue {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}
export type Output<S extends Schema> = NonNullable<S['~standard']['types']>['output']

/**
 * Quantities, never money. Every member counts what its name says; a vendor's habits are undone in its plugin.
 * Integers, at least 0.
 */
export interface Usage {
  /** Everything that went in: cached, written, audio and image tokens included. */
  readonly promptTokens?: number
  /** Of these, read from a prompt cache; written to one (of any lifetime). */
  readonly cachedTokens?: number
  readonly cacheWriteTokens?: number
  readonly audioInputTokens?: number
  readonly imageInputTokens?: number
  /** Everything that came out: reasoning, audio and image tokens included. */
  readonly completionTokens?: number
  readonly reasoningTokens?: number
  /** Tokens of a predicted output that were used, or thrown away; billed as output like the rest. */
  readonly acceptedPredictionTokens?: number
  readonly rejectedPredictionTokens?: number
  readonly audioOutputTokens?: number
  readonly imageOutputTokens?: number
  readonly images?: number
  readonly pages?: number
  /** Unicode code points. */
  readonly characters?: number
  readonly seconds?: number
  /** Searches the vendor ran itself; on the gateway's own search line, searches the gateway ran. */
  readonly searches?: number
  /** The vendor reported nothing: characters ÷ 4. */
  readonly estimated?: boolean
  /** USD as the vendor reports it: a cross-check for the operator, never the charge. */
  readonly vendorCost?: string
}

/**
 * What went wrong, in the plugin's judgement. Status, code, retry and fail-over follow from it:
 * the first four are the client's fault or nobody's, the others are tried on another deployment.
 */
export type FailureClass =
  | 'bad_request'
  | 'context_length'
  | 'content_blocked'
  | 'payload_too_large'
  | 'not_found'
  | 'upstream_auth'
  | 'upstream_balance'
  | 'upstream_rate'
  | 'overloaded'
  | 'upstream_error'
  | 'timeout'

/** A request on the hot path. */
export interface UpstreamRequest {
  readonly url: string
  /** Default `POST`. */
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  /** A list goes out piece by piece, without being joined. */
  readonly body?: string | Uint8Array | readonly Uint8Array[]
  readonly signal: AbortSignal
  /** Whether the answer is read as it comes: then the head must arrive within `firstPartTimeout`, else within `timeout`. */
  readonly stream?: boolean
}

export interface UpstreamResponse {
  readonly status: number
  /** Lower-case names; a repeated header is joined with `, `. */
  readonly headers: Readonly<Record<string, string>>
  /** Raw bytes with back-pressure, once. Leaving a loop over it early closes the connection. */
  readonly body: Flow<Uint8Array>
  /** The whole body as text. @throws the failure class `upstream_error` past `limit` bytes (default 64 MiB) */
  text(limit?: number): Promise<string>
}

/** One field of a form: a text, or a file. */
export interface FormField {
  readonly name: string
  readonly value:
    | string
    | {
        readonly bytes: Uint8Array | readonly Uint8Array[]
        readonly mediaType: string
        readonly filename: string
      }
}

/** A form that can be sent. */
export interface Form {
  /** Of the header; the boundary is in it. */
  readonly contentType: string
  readonly body: readonly Uint8Array[]
}

/** What was found at an address. */
export interface Download {
  readonly bytes: Uint8Array
  /** As the server says it, in lower case and without parameters; empty when it says nothing. */
  readonly contentType: string
}

export interface DownloadOptions {
  /** Below the limit of the configuration. */
  readonly limitBytes?: number
  /** What the content type has to begin with; any by default. */
  readonly types?: readonly string[]
  /** The field of the request that holds the address, for the error. */
  readonly param?: string
}

/** What the gateway offers a plugin. */
export interface Host {
  /** The instance name from the configuration. */
  readonly name: string
  /** The hot path: status, headers, bytes. Network errors and timeouts are thrown as failures, HTTP statuses are not. */
  request(request: UpstreamRequest): Promise<UpstreamResponse>
  /**
   * `JSON.stringify` of a plain object, for the body of {@link Host.request}. Messages that the client sent and nothing
   * changed are copied from the request as they are, with the digits of their numbers; a long conversation takes half the
   * time. Objects of the input must not be changed in place: what changes is a new object.
   */
  json(body: object): string
  /** A `multipart/form-data` body for {@link Host.request}, its fields in this order. Files are not copied. */
  form(fields: readonly FormField[]): Form
  /**
   * Fetches a document from an address that a client or a vendor supplied: https and public addresses only, bounded in size
   * and time, redirects followed with the same care. For addresses that a vendor cannot be given, and no others.
   * @throws an error that the client gets as 400 `fetch_failed`, whatever went wrong; the signal's reason when that is it
   */
  download(url: string, signal: AbortSignal, options?: DownloadOptions): Promise<Download>
  /** ofetch, for everything that is not hot; no retries. */
  readonly http: $Fetch
  readonly log: ConsolaInstance
  /**
   * The JSON payloads of a server-sent event stream, in order. `[DONE]` ends it, with a last `{ choices: [], endOfStream: true }`.
   * @throws the failure class `upstream_error` when a payload is not JSON
   */
  sse(body: AsyncIterable<Uint8Array>): Flow<any>
  /** An error to throw. The message is shown to the client: name no account, key or host in it. */
  fail(
    failure: FailureClass,
    message: string,
    options?: { code?: string; param?: string | null; retryAfterMs?: number; cause?: unknown },
  ): Error
}
