import {
  combineFamilies,
  gaugeFamily,
  type Gauge,
  type MetricFamily,
} from '../observe/prometheus.ts'
import type { Channel } from '../threads/channel.ts'

type Families = readonly MetricFamily[]

/** Time limit of an answer; a later worker is counted with its previous figures. */
const ANSWER_MS = 2000

/** Adds up the metrics of workers. Those of ended workers stay, so that no counter goes back. */
export class Totals {
  /** Last metrics of the running workers. */
  readonly #latest = new Map<Channel, Families>()
  #ended: Families = []
  readonly #own: () => Gauge[]

  /** @param own further metrics, of the process that starts the workers */
  constructor(own: () => Gauge[]) {
    this.#own = own
  }

  joined(channel: Channel): void {
    this.#latest.set(channel, [])
  }

  tell(channel: Channel, families: Families): void {
    if (this.#latest.has(channel)) this.#latest.set(channel, families)
  }

  /** Adds the last metrics of a worker that has ended. */
  left(channel: Channel): void {
    const counted = (this.#latest.get(channel) ?? []).filter(({ type }) => type !== 'gauge')
    this.#latest.delete(channel)
    this.#ended = combineFamilies([this.#ended, counted])
  }

  async of(asking: Channel, families: Families): Promise<Families> {
    this.tell(asking, families)
    const others = [...this.#latest.keys()].filter((one) => one !== asking)
    await Promise.all(
      others.map(async (one) => {
        const answer = await one
          .ask<Families>('metrics', undefined, ANSWER_MS)
          .catch(() => undefined)
        if (answer) this.tell(one, answer)
      }),
    )
    const own = this.#own().map(gaugeFamily)
    return combineFamilies([
      families,
      ...others.map((one) => this.#latest.get(one) ?? []),
      own,
      this.#ended,
    ])
  }
}
