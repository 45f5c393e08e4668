/** Who looks at which texts of an answer. */
import type { Channel } from '../plugin.ts'
import type { Scout } from './scan-session.ts'

export class Readers {
  readonly all: readonly Scout[]
  readonly #byChannel = new Map<Channel, readonly Scout[]>()

  /** @param all local ones first */
  constructor(all: readonly Scout[]) {
    this.all = all
  }

  /** In the order of all. */
  of(channel: Channel): readonly Scout[] {
    let readers = this.#byChannel.get(channel)
    if (!readers) {
      readers = this.all.filter((scout) => scout.reads(channel))
      this.#byChannel.set(channel, readers)
    }
    return readers
  }
}
