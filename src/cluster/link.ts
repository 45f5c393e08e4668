/** A worker's side of the channel: what it asks the other workers for, and what it is told. */
import type { MetricFamily } from '../observe/prometheus.ts'
import type { Reason, Siblings } from '../server/siblings.ts'
import type { Channel } from '../threads/channel.ts'

/** What a worker is asked for. */
interface Duties {
  /** Its metrics. */
  families(): readonly MetricFamily[]
  /** Why it cannot take work. */
  reasons(): readonly Reason[]
}

const LOOK_MS = 250

/** The other workers, for the server of one of them. */
export class Link implements Siblings {
  readonly #channel: Channel
  reasons: readonly Reason[] = []
  #told = ''

  constructor(channel: Channel) {
    this.#channel = channel
    channel.on('others', (reasons: readonly Reason[]) => (this.reasons = reasons))
  }

  metrics(own: readonly MetricFamily[]): Promise<readonly MetricFamily[]> {
    return this.#channel.ask<readonly MetricFamily[]>('total', own).catch(() => own)
  }

  /** Answers for this worker from now on. @returns ends it, after it has told its metrics a last time */
  answerFor({ families, reasons }: Duties): () => void {
    this.#channel.on('metrics', families)
    const timer = setInterval(() => this.#tell(reasons()), LOOK_MS)
    timer.unref()
    return () => {
      clearInterval(timer)
      this.#channel.tell('counted', families())
    }
  }

  #tell(reasons: readonly Reason[]): void {
    if (reasons.join() === this.#told) return
    this.#told = reasons.join()
    this.#channel.tell('reasons', reasons)
  }
}
