import { Counter, type MetricFamily } from '../prometheus.ts'
import type { SinkCounts, SinkLoss } from './messages.ts'

export class SinkMetrics {
  readonly #events = new Counter({
    name: 'sluicegate_sink_events_total',
    help: 'Events of sinks: delivered, refused by the receiver, or failed and to be tried again.',
    labels: ['sink', 'result'],
  })
  readonly #lost = new Counter({
    name: 'sluicegate_sink_dropped_total',
    help: 'Events that did not reach a sink.',
    labels: ['sink', 'reason'],
  })
  readonly queued = new Map<string, number>()

  /** Counts the results of a sink's events. */
  counted({ name, results, lost, queued }: SinkCounts): void {
    this.queued.set(name, queued)
    for (const [result, events] of Object.entries(results)) this.#events.add(events, name, result)
    for (const [reason, events] of Object.entries(lost)) this.#lost.add(events, name, reason)
  }

  /** Counts lost events. @param why `thread`: the thread of sinks accepted no more */
  lost(name: string, reason: SinkLoss | 'thread', events: number): void {
    this.#lost.add(events, name, reason)
  }

  families(): MetricFamily[] {
    return [this.#events.family(), this.#lost.family()]
  }
}
