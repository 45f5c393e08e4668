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
  readonly #told = new Map<Channel, Families>()
  #ended: Families = []
  readonly #own: () => Gauge[]

  /** @param own further metrics, of the process that starts the workers */
  constructor(own: () => Gauge[]) {
    this.#own = own
  }

  joined(channel: Channel): void {
    this.#told.set(channel, [])
  }

  /** Takes the metrics of a worker that is about to end. */
  tell(channel: Channel, families: Families): void {
    if (this.#told.has(channel)) this.#told.set(channel, families)
  }

  /** Adds the last metrics of a worker that has ended. */
  left(channel: Channel): void {
    const counted = (this.#told.get(channel) ?? []).filter(({ type }) => type !== 'gauge')
    this.#told.delete(channel)
    this.#ended = combineFamilies([this.#ended, counted])
  }

  async of(asking: Channel, families: Families): Promise<Families> {
    this.tell(asking, families)
    const others = [...this.#told.keys()].filter((one) => one !== asking)
    await Promise.all(
      others.map(async (one) => {
        const told = await one.ask<Families>('metrics', undefined, ANSWER_MS).catch(() => undefined)
        if (told) this.tell(one, told)
      }),
    )
    const own = this.#own().map(gaugeFamily)
    return combineFamilies([
      families,
      ...others.map((one) => this.#told.get(one) ?? []),
      own,
      this.#ended,
    ])
  }
}
