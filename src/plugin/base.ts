/** It is shared by all plugins: option schemas, usage, failures, and the Host. */
import type { ConsolaInstance } from 'consola'
import type { $Fetch } from 'ofetch'
import type { OptionField } from './fields.ts'
import type { Flow } from './flow.ts'

/** Version of this contract. `define…` puts it into the plugin; the gateway refuses other versions. */
export const API_VERSION = 1

/** A validator with the Standard Schema interface, such as a valibot or zod schema. https://standardschema.dev */
export interface Schema<Output = unknown> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined
  }
}

/** Result of a {@link Schema}: the converted value, or the issues of the value. */
export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] }

/** One issue of a value. */
export interface SchemaIssue {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

/** The type of the values that a schema produces. */
export type Output<S extends Schema> = NonNullable<S['~standard']['types']>['output']

/** Members of every plugin; a plugin is the default export of its module. `I` is the instance that it makes, `H` the host that it gets. */
export interface Plugin<K extends string, S extends Schema, I, H = Host> {
  readonly kind: K
  readonly api: number
  /** Name of the plugin, for messages and a guard's own rules. */
  readonly name: string
  /** Validates the options of a configured instance. */
  readonly options: S
  /**
   * Options that may be set at run time, by the API, the command line or a form. A plugin without them is configured in the file.
   * None may be a path, a command or code.
   */
  readonly fields?: readonly OptionField[]
  /** It is called once for each configured instance; has ten seconds. An error refuses the configuration. */
  setup(options: Output<S>, host: H): I | Promise<I>
}

/** The instance that a plugin makes of its configuration. */
export interface Closable {
  /** Releases what `setup` acquired. Called once, after the last use. */
  close?(): void | Promise<void>
}

/**
 * Consumption of a request: quantities, never money. Integers, at least 0. Leave out what the vendor did not report: the
 * gateway then estimates what it needs. The plugin converts its vendor's figures to these definitions.
 */
export interface Usage {
  /** All input tokens: those of the next seven members are included. */
  readonly promptTokens?: number
  /** Tokens read from the vendor's prompt cache. */
  readonly cachedTokens?: number
  /** The audio tokens among `cachedTokens`. */
  readonly cachedAudioTokens?: number
  /** The image tokens among `cachedTokens`. */
  readonly cachedImageTokens?: number
  /** Tokens written to the vendor's prompt cache, whatever its lifetime. */
  readonly cacheWriteTokens?: number
  /** Tokens among `cacheWriteTokens` that the cache keeps for an hour. */
  readonly cacheWrite1hTokens?: number
  /** Audio tokens that were not read from a cache. */
  readonly audioInputTokens?: number
  /** Image tokens that were not read from a cache. */
  readonly imageInputTokens?: number
  /** All output tokens: those of the next five members are included. */
  readonly completionTokens?: number
  readonly reasoningTokens?: number
  /** Tokens of a predicted output that the answer contains. */
  readonly acceptedPredictionTokens?: number
  /** Tokens of a predicted output that the answer does not contain. */
  readonly rejectedPredictionTokens?: number
  readonly audioOutputTokens?: number
  readonly imageOutputTokens?: number
  /** Images made. */
  readonly images?: number
  /** Document pages processed. */
  readonly pages?: number
  /** Characters of text, in Unicode code points. */
  readonly characters?: number
  /** Seconds of audio. */
  readonly seconds?: number
  /** Web searches that the vendor ran. On the gateway's own search line: searches that the gateway ran. */
  readonly searches?: number
  /** Units in which vendors bill an order of documents. */
  readonly searchUnits?: number
  /** It is set where the vendor reported nothing, so tokens are estimated as characters ÷ 4. */
  readonly estimated?: boolean
  /** The vendor's figure of the cost, USD as decimal text. Shown to the operator as a check; charged with `unpriced: vendor_price_required` alone. */
  readonly vendorCost?: string
}

/**
 * Class of a failure, in the plugin's judgement. It decides the client's status and error code, and whether another deployment
 * is tried: not for the first four, which every deployment would answer the same way.
 */
export type FailureClass =
  /** The vendor refuses the request: a parameter is invalid. */
  | 'bad_request'
  /** The input is longer than the model's context. */
  | 'context_length'
  /** The vendor's own filter refused the input or the output. */
  | 'content_blocked'
  /** The vendor refuses the size of the body or of a file. */
  | 'payload_too_large'
  /** The vendor does not know the model or the address. */
  | 'not_found'
  /** The vendor refuses the operator's key. */
  | 'upstream_auth'
  /** The operator's balance or quota at the vendor is used up. */
  | 'upstream_balance'
  /** The vendor limits the rate. */
  | 'upstream_rate'
  /** The vendor has no capacity. */
  | 'overloaded'
  /** Any other fault of the vendor, including answers that cannot be read. */
  | 'upstream_error'
  /** The vendor did not answer in time. */
  | 'timeout'

/** An HTTP request to a vendor, for {@link Host.request}. */
export interface UpstreamRequest {
  /** Absolute, http or https, with query string. */
  readonly url: string
  /** Default `POST`. */
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Text is sent as UTF-8. The segments of a list are sent one after the other, without being joined in memory. */
  readonly body?: string | Uint8Array | readonly Uint8Array[]
  /** Ends the request when it is aborted. Pass on the signal of the {@link ProviderRequest} or search: it has its time limits. */
  readonly signal: AbortSignal
  /**
   * Whether the answer is a stream. Its head then has to arrive within the provider's `firstPartTimeout`, and no pause may be
   * longer than `idleTimeout`; any other answer has `timeout` for its head and for each pause.
   */
  readonly stream?: boolean
}

/** The response to an {@link UpstreamRequest}. Read `body` or call `text`, not both. */
export interface UpstreamResponse {
  /** Any HTTP status from 200 on. */
  readonly status: number
  /** Lower-case names; a repeated header is joined with `, `. */
  readonly headers: Readonly<Record<string, string>>
  /** The bytes as they are read, with back-pressure. Can be read once; leaving a loop over it early closes the connection. */
  readonly body: Flow<Uint8Array>
  /**
   * The whole body, decoded as UTF-8.
   * @param limit most bytes, 64 MiB by default
   * @throws a failure of class `upstream_error` for a longer or broken body, and `timeout` for one that does not arrive
   */
  text(limit?: number): Promise<string>
}

/** One field of a form: text or a file. */
export interface FormField {
  readonly name: string
  readonly value:
    | string
    | {
        readonly bytes: Uint8Array | readonly Uint8Array[]
        /** Media type such as `image/png`. */
        readonly mediaType: string
        readonly filename: string
      }
}

/** An encoded form, to be sent with {@link Host.request}. */
export interface Form {
  /** The value of the header `content-type`, with the boundary. */
  readonly contentType: string
  readonly body: readonly Uint8Array[]
}

/** A file that {@link Host.download} fetched. */
export interface Download {
  readonly bytes: Uint8Array
  /** The declaration of the server, in lower case and without parameters; empty when it declares none. */
  readonly contentType: string
}

/** Options of {@link Host.download}. */
export interface DownloadOptions {
  /** Most bytes. Can only lower the limit of the configuration. */
  readonly limitBytes?: number
  /** Accepted content types, as prefixes such as `image/`; all by default. */
  readonly types?: readonly string[]
  /** The field of the client's request that holds the address, such as `document.url`; becomes `param` of the error. */
  readonly param?: string
}

/** Options of {@link Host.readJson}. */
export interface ReadJsonOptions {
  /** Most bytes, 8 MiB by default. */
  readonly limitBytes?: number
}

/** Options of {@link Host.failure}. */
export interface FailureOptions {
  /** Classes of statuses that mean something else to this vendor. */
  readonly classes?: Readonly<Record<number, FailureClass>>
  /**
   * Decides by the parsed body, where status and headers do not tell. Its class and its wait, in ms, win.
   * @param body undefined for a body that is not JSON
   */
  readonly classify?: (
    body: unknown,
    status: number,
  ) => FailureClass | { failure?: FailureClass; retryAfterMs?: number | undefined } | undefined
  /** Message for the client; see {@link Host.fail}. */
  readonly message?: string
}

/** The gateway's functions for a plugin. One Host belongs to one configured instance. */
export interface Host {
  /** The name of the instance in the configuration. */
  readonly name: string
  /**
   * Sends an HTTP request and resolves with the head of the response. Any HTTP status is a response, not an error; nothing
   * is retried and no redirect is followed.
   * @throws a failure of class `timeout` or `upstream_error` when no response arrives; the reason of an aborted signal
   */
  request(request: UpstreamRequest): Promise<UpstreamResponse>
  /**
   * Serialises the body of a request: a plain object, with the result of `JSON.stringify`. Messages that the client sent and
   * nothing changed are copied from the client's text, in half the time and with all digits of their numbers. This works by
   * object identity, so do not change objects of the input in place: make a new object.
   */
  json(body: object): string
  /** Encodes `multipart/form-data` for {@link Host.request}, in the order of the fields. The bytes of files are not copied. */
  form(fields: readonly FormField[]): Form
  /**
   * Downloads a file from an address that a client or a vendor supplied, if the vendor cannot take the address itself. Only
   * https and public addresses, with bounded size and time; up to 3 redirects, each checked in the same way.
   * @throws an error that the client receives as 400 `fetch_failed`, whatever the reason; the reason of an aborted signal
   */
  download(url: string, signal: AbortSignal, options?: DownloadOptions): Promise<Download>
  /** ofetch without retries, for requests that are not made for every call, such as token endpoints. */
  readonly http: $Fetch
  /** Logs with the name of the instance. Never log bodies or keys. */
  readonly log: ConsolaInstance
  /**
   * Keeps texts that are secret out of errors and logs, such as an access token. Secrets of the configuration are kept out
   * anyway.
   * @param secrets replace those of the call before
   */
  mask(secrets: readonly string[]): void
  /**
   * Parses a stream of server-sent events and gives the JSON value of each event. `[DONE]` ends it: the last value is then
   * `{ choices: [], endOfStream: true }`, which is missing when the stream was cut. With `as: 'exact'` a number that JavaScript
   * cannot hold becomes an opaque object that {@link Host.json} and `JSON.stringify` write with its digits; other numbers are numbers.
   * @throws a failure of class `upstream_error` for an event that is not JSON or longer than 64 Mi characters
   */
  sse(body: AsyncIterable<Uint8Array>, options?: { readonly as?: 'json' | 'exact' }): Flow<any>
  /**
   * Parses a stream of lines, each of which is JSON. Lines may end with `\n` or `\r\n`, the last one also without; empty lines
   * are left out. With `as: 'text'` it gives the lines themselves; `as: 'exact'` is that of {@link Host.sse}.
   * @throws a failure of class `upstream_error` for a line that is not JSON, or longer than 16 Mi characters
   */
  lines(body: AsyncIterable<Uint8Array>, options?: { readonly as?: 'json' | 'exact' }): Flow<any>
  lines(body: AsyncIterable<Uint8Array>, options: { readonly as: 'text' }): Flow<string>
  /**
   * Reads a whole answer as JSON.
   * @throws what {@link Host.failure} makes for another status than 2xx; a failure of class `upstream_error` for a body that is
   * not JSON or too long, and `timeout` for one that does not arrive
   */
  readJson(response: UpstreamResponse, options?: ReadJsonOptions): Promise<any>
  /**
   * Makes the error that a plugin throws for an answer that is a refusal, and reads the rest of the body. The status gives the
   * class: 400 and 422 `bad_request`; 401 and 403 `upstream_auth`; 402 `upstream_balance`; 404 `not_found`; 408 `timeout`; 413
   * `payload_too_large`; 429 `upstream_rate`; 503 and 529 `overloaded`; any other `upstream_error`. The wait is that of
   * `retry-after-ms` or `retry-after`. Resolves with the error: `throw await host.failure(response)`.
   */
  failure(response: UpstreamResponse, options?: FailureOptions): Promise<Error>
  /**
   * Makes the error that a plugin throws when the vendor fails.
   * @param message the message for the client: must not name accounts, keys or hosts. Without one, or with an empty one, the client gets a
   * sentence of the gateway for the class.
   * @param options `code` and `param` of the client's error; `retryAfterMs`: when the vendor wants to be asked again;
   * `cause`: for the operator's log
   */
  fail(
    failure: FailureClass,
    message?: string,
    options?: {
      code?: string | undefined
      param?: string | null | undefined
      retryAfterMs?: number | undefined
      cause?: unknown
    },
  ): Error
}
