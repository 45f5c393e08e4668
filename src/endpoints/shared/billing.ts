/** The charge of answers that are of no use before they are complete. */
import { GatewayError } from '../../errors/errors.ts'
import type { Call, Charge, Receipt } from '../../pipeline/pipeline.ts'
import type { Step } from '../../plugin.ts'

/** The last part of an answer, with its receipt once it is charged. */
export interface Billed {
  readonly receipt?: Receipt
}

/**
 * Retains the last part until the answer is charged, and puts the receipt on it. A failure before that is free, unless a
 * guard refuses the answer: the receipt is on the error then.
 */
export class ReceiptAtEnd<Part, End extends Part & Billed> implements Step<Part, Part | End> {
  readonly #call: Call
  readonly #charge: Charge
  readonly #isEnd: (part: Part) => part is End
  #end: End | undefined

  constructor(call: Call, charge: Charge, isEnd: (part: Part) => part is End) {
    this.#call = call
    this.#charge = charge
    this.#isEnd = isEnd
  }

  push(part: Part, emit: (part: Part) => void): void {
    if (this.#isEnd(part)) this.#end = part
    else emit(part)
  }

  async end(emit: (part: End) => void): Promise<void> {
    const bill = await this.#charge()
    emit({ ...this.#end!, receipt: this.#call.receipt(bill) })
  }

  async fail(error: unknown): Promise<unknown> {
    const call = this.#call
    const violated = GatewayError.is(error) && error.code === 'policy_violation'
    if (!violated || call.meter.length === 0 || call.outcome === 'cancelled') return error
    error.receipt = call.receipt(await this.#charge('refused', true))
    return error
  }
}
