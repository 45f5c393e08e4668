/** Sink plugins take what has happened elsewhere: calls that have ended, what guards blocked, alerts. */
import type { EndedCall } from './ended-call.ts'
import { API_VERSION, type Closable, type Host, type Plugin, type Schema } from './base.ts'

export type { CallText, EndedCall } from './ended-call.ts'

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
