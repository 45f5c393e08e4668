/** Sink plugins send events elsewhere: calls that have ended, blocks of guards, alerts. */
import type { EndedCall } from './ended-call.ts'
import { API_VERSION, type Closable, type Host, type Plugin, type Schema } from './base.ts'

export type { CallText, EndedCall } from './ended-call.ts'

/** A block that a policy wants to be reported. */
interface Escalation {
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
  /** Kind such as `deployment.down`. */
  readonly kind: string
  /** Its object, such as the id of a deployment; empty where there is only one. */
  readonly object: string
  readonly state: 'raised' | 'ended'
  readonly message: string
  /** Figures of the message as decimal text, such as `balance_usd` and `threshold_usd`, or `spent_usd` and `cap_usd`. */
  readonly figures?: Readonly<Record<string, string>>
}

/** A booking of an account: amounts are decimal text of USD. */
interface BookedCredit {
  readonly account_id: string
  readonly account_name: string
  readonly seq: number
  /** `top-up`, `promo`, `adjust`, `refund` or `expire` */
  readonly kind: string
  readonly amount_usd: string
  /** The balance after the booking, exact decimal text. */
  readonly balance_usd: string
  readonly reference: string
  readonly note: string | null
  readonly expires_at: string | null
  /** The call of a refund. */
  readonly request_id: string | null
  /** What a customer has paid. */
  readonly cash: {
    readonly amount: string
    readonly currency: string
    readonly by: string
    readonly payment: string
  } | null
}

/** The balance of an account is below that of its `auto_top_up`. It is told again after a day while that is so. */
interface TopUpWanted {
  readonly account_id: string
  readonly balance_usd: string
  readonly below_usd: string
  readonly amount_usd: string | null
  /** Changes with each credit: booking by it twice is once. */
  readonly reference: string
}

/** Contents of the events by name. */
export interface EventContents {
  'call.ended': EndedCall
  /** A call with text that a rule forbids. */
  'guard.blocked': EndedCall
  /** The block of a policy that escalates, in place of `guard.blocked` for a sink that takes both; the ids of the two are equal. */
  'guard.escalation': Omit<EndedCall, 'outcome'> & Escalation
  alert: AlertNotice
  /** Credit that was paid or given. */
  'credit.booked': BookedCredit
  /** A correction, a refund, or the end of credit. */
  'credit.adjusted': BookedCredit
  'topup.wanted': TopUpWanted
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
    /** Id of the gateway that sends it. */
    readonly gateway: string
    readonly data: EventContents[Name]
  }
}[EventName]

/** Settings under `telemetry`, for sinks that send traces. */
export interface Telemetry {
  /** Names of attributes. */
  readonly semconv: 'v1.41' | 'genai-dev'
  /** The name of this service. */
  readonly service: string
  /** Share of the calls that is traced, 0 to 1. Failed, refused, blocked and slow ones always are. */
  readonly ratio: number
  /** Seconds from which a call is slow. */
  readonly slow: number
  /** Vendors by the name of their provider in the configuration; see `telemetryName` of a provider plugin. */
  readonly providers: Readonly<Record<string, string>>
  /** Host and port of providers that have an address in the configuration, by their name there. */
  readonly addresses?: Readonly<Record<string, { readonly host: string; readonly port: number }>>
  readonly version: string
}

/** The gateway's functions for a sink. */
export interface SinkHost extends Pick<
  Host,
  'name' | 'request' | 'readJson' | 'failure' | 'fail' | 'http' | 'log' | 'mask'
> {
  readonly telemetry: Telemetry
}

/** Result of sending a batch. */
export interface SentEvents {
  /** Number of events that the receiver will never accept. They are dropped, and counted as refused; 0 by default. */
  readonly refused?: number
}

/** A set-up sink. */
export interface Sink extends Closable {
  readonly takes: readonly EventName[]
  /** Most events of a batch, 1 to 1000; 512 by default. */
  readonly batch?: number
  /**
   * Sends events, oldest first: one batch after the other. A batch that failed is sent again, as the same objects, with growing
   * pauses of up to five minutes; a wait in the failure is respected. `bad_request` and `payload_too_large` are final: the
   * events are dropped.
   * @param signal aborted after ten seconds: the batch has failed then, whether or not the promise ever settles
   * @throws errors of {@link Host.failure} and {@link Host.fail}, or any other
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
