/** What a call costs: its charge, and what its client is told of it. */
import type { GatewayError } from '../errors/errors.ts'
import type { GuardReport } from '../guard/decision.ts'
import type { Bill, UsageLine } from '../money/money.ts'

/** The charge of a call: priced when its answer ends, booked before the last bytes of it go out. */
export interface Charge {
  /**
   * Prices what is on the meter. Once it is booked, the price stays.
   * @param error what the client gets in place of an answer, or of its end
   * @param failed whether the call has failed
   * @returns undefined where no cost must be told, because it could not be booked
   */
  price(error?: GatewayError, failed?: boolean): Receipt | undefined
  /** Charges nothing: another gateway has taken the request over, and charges it. The client gets no answer. */
  giveUp(): void
  /** Books the price, once; later calls wait for the first. Never rejects. */
  book(): Promise<void>
}

/** The result of a charge, as data: each wire form writes it in its own way. */
export interface Receipt {
  readonly bill: Bill
  /** The id of the model that answered in place of the asked one; absent where that one did. */
  readonly answeredBy?: string | undefined
  /** Quantities of the call, by source. */
  readonly meter: readonly UsageLine[]
  readonly guard?: GuardReport
}
