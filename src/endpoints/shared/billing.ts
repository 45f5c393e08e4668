/** How answers are charged that are good for nothing before they are whole. */
import { GatewayError } from '../../errors/errors.ts'
import type { GuardReport } from '../../guard/decision.ts'
import type { Bill } from '../../money/money.ts'
import type { Call, Charge } from '../../pipeline/pipeline.ts'
import type { Step } from '../../plugin.ts'

export interface BilledInit<Part, End extends Part> {
  readonly call: Call
  readonly charge: Charge
  readonly isEnd: (part: Part) => part is End
  /** The quantities of a call in the form of the wire, with the cost once there is a bill. */
  readonly usageOf: (call: Call, bill?: Bill) => object
}

/** What is put on the last part. */
export interface Receipt {
  readonly usage: object
  /** What guards decided, where they were at work. */
  readonly guard?: GuardReport
}

/**
 * Holds the last part back until the answer is charged, and puts usage, cost and what guards decided on it. What breaks
 * before that is free, unless guards refuse what was made (wire contract, D53).
 */
export class ReceiptAtEnd<Part, End extends Part> implements Step<Part, Part | (End & Receipt)> {
  readonly #init: BilledInit<Part, End>
  #end: End | undefined

  constructor(init: BilledInit<Part, End>) {
    this.#init = init
  }

  push(part: Part, emit: (part: Part) => void): void {
    if (this.#init.isEnd(part)) this.#end = part
    else emit(part)
  }

  end(emit: (part: End & Receipt) => void): Promise<void> {
    const { call, charge, usageOf } = this.#init
    return charge().then((bill) => {
      const guard = call.decision?.report()
      emit({ ...this.#end!, usage: usageOf(call, bill), ...(guard && { guard }) })
    })
  }

  async fail(error: unknown): Promise<unknown> {
    const { call, charge, usageOf } = this.#init
    const violated = GatewayError.is(error) && error.code === 'policy_violation'
    if (!violated || call.meter.length === 0 || call.outcome === 'cancelled') return error
    const bill = await charge('refused', true)
    error.charged = { bill, usage: usageOf(call) }
    call.headers['x-service-cost'] = bill.text
    return error
  }
}
