/** Sink plugins take what has happened elsewhere: calls that have ended, what guards blocked, alerts. */
import { API_VERSION, type Closable, type Host, type Plugin, type Schema } from './base.ts'

/** A call that has ended, as `GET /admin/requests` shows it. null is "not known", of a quantity "not reported". */
export interface EndedCall {
  readonly id: string
  /** When the call arrived, ISO 8601. */
  readonly at: string
  readonly method: string
  /** Path of the endpoint. */
  readonly endpoint: string
  readonly account_id: string | null
  readonly key_id: string | null
  readonly model: string | null
  /** The deployment that was asked last: provider, slash, the vendor's name of the model. */
  readonly deployment: string | null
  /** 0 if the client left before the status was sent. */
  readonly status: number
  readonly code: string | null
  /** The limit that refused the call. */
  readonly limited_by: string | null
  readonly outcome: 'completed' | 'refused' | 'cancelled' | 'failed'
  readonly stream: boolean | null
  /** From the arrival until the money was held, guards had agreed to the input, the first part was sent, the charge was booked, and the last byte. */
  readonly times: {
    readonly admit_ms: number | null
    readonly guard_ms: number | null
    readonly first_ms: number | null
    readonly settled_ms: number | null
    readonly total_ms: number
  }
  /** By name, such as `prompt_tokens`. */
  readonly usage: Readonly<Record<string, number | null>>
  readonly estimated: boolean | null
  /** USD as exact decimal text. */
  readonly cost_usd: string | null
  /** Parts of the cost by name: USD as exact decimal text. */
  readonly cost_details: Readonly<Record<string, string>> | null
  readonly rate: { readonly limit: number; readonly left: number } | null
  /** `policy`: a hash, equal for equal policies of keys. */
  readonly guard: {
    readonly outcome: string
    readonly rules: readonly string[]
    readonly policy: string | null
  } | null
  readonly tag: string | null
  readonly user: string | null
  readonly gateway: string | null
  /** `play`: an operator called as the key. */
  readonly origin: 'api' | 'play'
  /** Hash of the session that the client named. */
  readonly session: string | null
  /** The client's library. */
  readonly agent: string | null
  /** Requests to deployments, if there was more than one or it failed; `result` is `ok` or the class of the failure. */
  readonly attempts: readonly {
    readonly deployment: string
    readonly ms: number
    readonly result: string
    /** The HTTP status of the vendor, where a failure had one. */
    readonly status: number | null
    /** What the vendor said of the failure, without credentials and long quotations. */
    readonly message: string | null
  }[]
  /** Questions to remote guards and to search engines, the first 32. */
  readonly questions: readonly {
    readonly to: 'guard' | 'search'
    readonly name: string
    /** What a guard was asked about; null for a search. */
    readonly side: 'input' | 'output' | null
    /** From the arrival of the call. */
    readonly at_ms: number
    readonly ms: number
    /** Of a guard `passed` or `blocked`, of a search `ok`; else why there was no answer, or `cancelled`. */
    readonly result: string
    /** Rules that the guard found violated. */
    readonly rules: readonly string[]
  }[]
  readonly retry: number | null
  /** The message of the error that the client got. */
  readonly error: string | null
  /** The W3C `traceparent` and `tracestate` that the client sent, and the id of the span that was named to it. */
  readonly trace: {
    readonly parent: string
    readonly span: string
    readonly state?: string
  } | null
  /** Parameters of a chat; null for other calls. */
  readonly request: {
    readonly max_tokens?: number
    readonly temperature?: number
    readonly top_p?: number
    readonly seed?: number
    readonly choices?: number
    readonly reasoning?: string
  } | null
  /** How the answer of a chat ended. */
  readonly response: {
    readonly id?: string
    readonly model?: string
    readonly finish_reasons: readonly string[]
  } | null
  /** What was asked and answered: only with `telemetry.content`, of keys with `log_content`. */
  readonly content: CallText | null
}

/** What a call asked and what its client got, without files and credentials. */
export interface CallText {
  /** The request in the gateway's own form. */
  readonly input: unknown
  /** Texts of the answer; `channel` is `content`, `reasoning`, `tool_call` or another of the contract with guards. */
  readonly output: readonly {
    readonly choice: number
    readonly channel: string
    readonly text: string
  }[]
  /** One of them was longer than 256 KiB. */
  readonly cut: boolean
}

/** A block that a policy wants to be told. */
export interface Escalation {
  readonly request_id: string
  readonly account_id: string
  readonly key_id: string
  readonly endpoint: string
  readonly model: string
  readonly mode: string
  readonly outcome: string
  readonly rules: readonly string[]
}

/** An alert was raised or has ended. */
export interface AlertNotice {
  /** Equal for the same alert of all gateways. */
  readonly id: string
  /** Such as `deployment.down`. */
  readonly kind: string
  /** What it is about, such as the id of a deployment; empty where there is only one. */
  readonly object: string
  readonly state: 'raised' | 'ended'
  readonly message: string
}

/** What the events of each name tell. */
export interface EventContents {
  'call.ended': EndedCall
  /** A call with text that a rule forbids. */
  'guard.blocked': EndedCall
  'guard.escalation': Escalation
  alert: AlertNotice
}

/** Name of a kind of events. */
export type EventName = keyof EventContents

/** One event. It has no secret, and no text of prompts and answers but {@link EndedCall.content}. */
export type GatewayEvent = {
  [Name in EventName]: {
    /** Equal whenever the event is sent again. */
    readonly id: string
    readonly event: Name
    /** ISO 8601 */
    readonly at: string
    /** The gateway that tells it. */
    readonly gateway: string
    readonly data: EventContents[Name]
  }
}[EventName]

/** Settings under `telemetry`, for sinks that send traces. */
export interface Telemetry {
  /** Which names attributes have. */
  readonly semconv: 'v1.41' | 'genai-dev'
  /** The name of this service. */
  readonly service: string
  /** Part of the calls that is traced, 0 to 1. Failed, refused, blocked and slow ones always are. */
  readonly ratio: number
  /** Seconds from which a call is slow. */
  readonly slow: number
  /** Vendors by the name of their provider in the configuration; see `telemetryName` of a provider plugin. */
  readonly providers: Readonly<Record<string, string>>
  /** Host and port of providers that have an address in the configuration, by their name there. */
  readonly addresses?: Readonly<Record<string, { readonly host: string; readonly port: number }>>
  /** Version of the gateway. */
  readonly version: string
}

/** What the gateway offers a sink. */
export interface SinkHost extends Pick<
  Host,
  'name' | 'request' | 'readJson' | 'failure' | 'fail' | 'http' | 'log' | 'mask'
> {
  readonly telemetry: Telemetry
}

/** What became of a batch that was sent. */
export interface SentEvents {
  /** How many events the receiver will never take. They are dropped, and counted as refused; 0 by default. */
  readonly refused?: number
}

/** A set-up sink. */
export interface Sink extends Closable {
  readonly takes: readonly EventName[]
  /** Most events of a batch, 1 to 1000; 512 by default. */
  readonly batch?: number
  /**
   * Sends events, oldest first: one batch after the other. A batch that failed is sent again, as the same objects, later and
   * later, up to five minutes apart; a failure that says when to ask again is heeded. `bad_request` and `payload_too_large` are
   * final: the events are dropped.
   * @param signal aborted after ten seconds: the batch has failed then, whether or not the promise ever settles
   * @throws what {@link Host.failure} and {@link Host.fail} make, or any error
   */
  send(events: readonly GatewayEvent[], signal: AbortSignal): Promise<SentEvents | void>
}

/** A sink plugin. It runs in a thread beside that of the calls. */
export type SinkPlugin<S extends Schema = Schema<any>> = Plugin<'sink', S, Sink, SinkHost>

/** Marks a plain object as a sink plugin. Example: `plugins/sinks/webhook.ts`. */
export function defineSink<S extends Schema>(
  plugin: Omit<SinkPlugin<S>, 'kind' | 'api'>,
): SinkPlugin<S> {
  return { kind: 'sink', api: API_VERSION, ...plugin }
}
