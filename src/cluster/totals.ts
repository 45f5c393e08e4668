/** The metrics of all workers as those of one process. */
import {
  combineFamilies,
  gaugeFamily,
  type Gauge,
  type MetricFamily,
} from '../observe/prometheus.ts'
import type { Channel } from '../threads/channel.ts'

type Families = readonly MetricFamily[]

/** A worker that answers later is counted with its previous figures. */
const ANSWER_MS = 2000

/** Adds up what workers tell. What ended workers have counted stays, so that no counter goes back. */
export class Totals {
  /** What was told last, by those that run. */
  readonly #told = new Map<Channel, Families>()
  #ended: Families = []
  readonly #own: () => Gauge[]

  /** @param own further metrics, of the process that starts the workers */
  constructor(own: () => Gauge[]) {
    this.#own = own
  }

  /** A worker has started. */
  joined(channel: Channel): void {
    this.#told.set(channel, [])
  }

  /** A worker tells its metrics unasked, because it is about to end. */
  tell(channel: Channel, families: Families): void {
    if (this.#told.has(channel)) this.#told.set(channel, families)
  }

  /** A worker has ended. */
  left(channel: Channel): void {
    const counted = (this.#told.get(channel) ?? []).filter(({ type }) => type !== 'gauge')
    this.#told.delete(channel)
    this.#ended = combineFamilies([this.#ended, counted])
  }

  /** The sums. @param asking a worker, and its own metrics */
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
