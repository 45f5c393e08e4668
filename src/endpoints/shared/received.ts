/** Counts what a provider sends, so that an answer without content comes to an end. */
import { brokenAnswer } from '../../errors/errors.ts'

/** More keep-alives in a row than any vendor sends. */
const MAX_EMPTY_PARTS = 10_000

/** The content of one answer so far. */
export class Received {
  /** Characters and bytes. */
  amount = 0
  #empty = 0

  /** @param amount of one part @throws UpstreamFailure for the 10,001st part in a row without content */
  add(amount: number): void {
    this.amount += amount
    if (amount > 0) this.#empty = 0
    else if (++this.#empty > MAX_EMPTY_PARTS) {
      throw brokenAnswer('The model provider sent an answer without content.')
    }
  }
}
