/** A worker's side of the channel: its questions to the other workers, and their reports. */
import type { UnservedName } from '../models/unserved.ts'
import type { MetricFamily } from '../observe/prometheus.ts'
import type { Reason, Siblings } from '../server/siblings.ts'
import type { Channel } from '../threads/channel.ts'

interface Duties {
  unserved(): readonly UnservedName[]
  families(): readonly MetricFamily[]
  /** Why it cannot take work. */
  reasons(): readonly Reason[]
}

const LOOK_MS = 250

/** The other workers, for the server of one of them. */
export class Link implements Siblings {
  readonly #channel: Channel
  reasons: readonly Reason[] = []
  #reported = ''

  constructor(channel: Channel) {
    this.#channel = channel
    channel.on('others', (reasons: readonly Reason[]) => (this.reasons = reasons))
  }

  metrics(own: readonly MetricFamily[]): Promise<readonly MetricFamily[]> {
    return this.#channel.ask<readonly MetricFamily[]>('total', own).catch(() => own)
  }

  /** The names that the other workers were asked for and do not serve. */
  unserved(): Promise<readonly (readonly UnservedName[])[]> {
    return this.#channel
      .ask<readonly (readonly UnservedName[])[]>('unserved of others')
      .catch(() => [])
  }

  /** Answers for this worker. @returns a function that ends it, after a last report of its metrics */
  answerFor({ unserved, families, reasons }: Duties): () => void {
    this.#channel.on('metrics', families)
    this.#channel.on('unserved', unserved)
    const timer = setInterval(() => this.#report(reasons()), LOOK_MS)
    timer.unref()
    return () => {
      clearInterval(timer)
      this.#channel.tell('counted', families())
    }
  }

  #report(reasons: readonly Reason[]): void {
    if (reasons.join() === this.#reported) return
    this.#reported = reasons.join()
    this.#channel.tell('reasons', reasons)
  }
}
