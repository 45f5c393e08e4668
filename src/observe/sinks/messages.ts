import type { ConfigIssue } from '../../errors/errors.ts'
import type { EventName, GatewayEvent } from '../../plugin.ts'
import type { CallContent } from '../content/content.ts'

/** An event: lines of the request log, the content of a call before its line, or an event in its final form. */
export type SinkNotice =
  | { readonly calls: string }
  | { readonly content: CallContent }
  | { readonly event: GatewayEvent }

/** Asks for the sinks when all are set up, or whether the thread can answer at all. */
export type SinkQuestion = 'ready' | 'alive'

export interface SinksReady {
  readonly issues: readonly ConfigIssue[]
  readonly sinks: readonly ReadySink[]
}

export interface ReadySink {
  readonly name: string
  readonly takes: readonly EventName[]
  /** Position in the configuration. */
  readonly index: number
}

/** Result of sending events: delivered, refused by the receiver, or to be tried again. */
export type SinkResult = 'delivered' | 'refused' | 'failed'

export type SinkLoss = 'queue' | 'disabled' | 'closed'

export interface SinkCounts {
  readonly name: string
  readonly results: Readonly<Partial<Record<SinkResult, number>>>
  readonly lost: Readonly<Partial<Record<SinkLoss, number>>>
  readonly queued: number
  /** Whether it has failed for so long that it gets no events any more. */
  readonly disabled: boolean
}

/** Messages that the thread sends unasked. */
export type SinkReport =
  /** The next notice was accepted. */
  | { readonly took: true }
  | { readonly counts: readonly SinkCounts[] }
  | { readonly level: 'error' | 'warn' | 'info' | 'debug'; readonly line: string }
  | { readonly sink: string; readonly secrets: readonly string[] }
