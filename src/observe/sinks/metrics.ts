/** Metrics of sinks. */
import { Counter, type MetricFamily } from '../prometheus.ts'
import type { SinkCounts, SinkLoss } from './messages.ts'

/** What is counted of the events of sinks. */
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
  /** Events that wait, by sink. */
  readonly queued = new Map<string, number>()

  /** A sink has told what became of its events. */
  counted({ name, results, lost, queued }: SinkCounts): void {
    this.queued.set(name, queued)
    for (const [result, events] of Object.entries(results)) this.#events.add(events, name, result)
    for (const [why, events] of Object.entries(lost)) this.#lost.add(events, name, why)
  }

  /** Events are lost. @param why `thread`: the thread of sinks took no more */
  lost(name: string, why: SinkLoss | 'thread', events: number): void {
    this.#lost.add(events, name, why)
  }

  /** These metrics with their values. */
  families(): MetricFamily[] {
    return [this.#events.family(), this.#lost.family()]
  }
}
