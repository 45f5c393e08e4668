/** What crosses between the thread of calls and that of sinks. */
import type { ConfigIssue } from '../../errors/errors.ts'
import type { EventName, GatewayEvent } from '../../plugin.ts'
import type { CallContent } from '../content/content.ts'

/** What has happened: lines of the request log, the content of a call before its line, or an event that is made already. */
export type SinkNotice =
  | { readonly calls: string }
  | { readonly content: CallContent }
  | { readonly event: GatewayEvent }

/** Asks for the sinks when all are set up, or whether the thread can answer at all. */
export type SinkQuestion = 'ready' | 'alive'

/** What is wrong with the configured sinks, or those that are set up. */
export interface SinksReady {
  readonly issues: readonly ConfigIssue[]
  readonly sinks: readonly ReadySink[]
}

/** A sink that is set up. */
export interface ReadySink {
  readonly name: string
  readonly takes: readonly EventName[]
  /** In the configuration. */
  readonly index: number
}

/** What became of events: delivered, refused by the receiver, or to be tried again. */
export type SinkResult = 'delivered' | 'refused' | 'failed'

/** Why events are lost: too many waited, the receiver was away for too long, or the gateway has ended. */
export type SinkLoss = 'queue' | 'disabled' | 'closed'

/** Changes of one sink since its last report. */
export interface SinkCounts {
  readonly name: string
  readonly results: Readonly<Partial<Record<SinkResult, number>>>
  readonly lost: Readonly<Partial<Record<SinkLoss, number>>>
  /** Events that wait. */
  readonly queued: number
  /** It has failed for so long that it is not asked any more. */
  readonly disabled: boolean
}

/** What the thread tells by itself. */
export type SinkReport =
  /** The next notice was taken. */
  | { readonly took: true }
  | { readonly counts: readonly SinkCounts[] }
  | { readonly level: 'error' | 'warn' | 'info' | 'debug'; readonly line: string }
  | { readonly sink: string; readonly secrets: readonly string[] }
