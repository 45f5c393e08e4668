/** The charge of answers that are of no use before they are complete. */
import { cannotBook, GatewayError, toGatewayError, brokenAnswer } from '../../errors/errors.ts'
import type { Call, Charged, Receipt } from '../../pipeline/pipeline.ts'
import type { ChainStep } from '../../stream/chain.ts'

/**
 * The receipt of a call.
 * @param sent whether the client has any of the answer. One without costs nothing where the charge is deferred.
 * @throws Unavailable when the charge is deferred: a cost that a client is told is durable
 */
export function receiptIn(call: Call, { bill, state, waive }: Charged, sent = false): Receipt {
  if (state !== 'deferred') return call.receipt(bill)
  if (!sent) waive()
  throw cannotBook()
}

/** The receipt once the call is charged, as {@link receiptIn}. */
export async function receiptOf(
  call: Call,
  charged: Promise<Charged>,
  sent = false,
): Promise<Receipt> {
  return receiptIn(call, await charged, sent)
}

/** Puts the receipt on an error that is charged. @returns the error for the client: another one where that failed */
export async function withReceipt(
  error: GatewayError,
  receipt: Promise<Receipt>,
): Promise<GatewayError> {
  try {
    error.receipt = await receipt
    return error
  } catch (unbooked) {
    return toGatewayError(unbooked)
  }
}

export interface Billed {
  readonly receipt?: Receipt
}

/**
 * Retains the last part until the answer is charged, and puts the receipt on it. A failure before that is free, unless a
 * guard refuses the answer: the receipt is on the error then.
 */
export class ReceiptAtEnd<Part, End extends Part & Billed> implements ChainStep<Part, Part | End> {
  readonly #call: Call
  readonly #isEnd: (part: Part) => part is End
  #end: End | undefined

  constructor(call: Call, isEnd: (part: Part) => part is End) {
    this.#call = call
    this.#isEnd = isEnd
  }

  push(part: Part, emit: (part: Part) => void): void {
    if (this.#isEnd(part)) this.#end = part
    else emit(part)
  }

  end(emit: (part: End) => void): Promise<void> {
    const call = this.#call
    return call.charge().then((charged) => {
      emit({ ...this.#end!, receipt: receiptIn(call, charged) })
    })
  }

  fail(error: unknown): unknown {
    const call = this.#call
    const { meter, outcome } = call.answer
    const violated = GatewayError.is(error) && error.code === 'policy_violation'
    if (!violated || meter.length === 0 || outcome === 'cancelled') return error
    return withReceipt(error, receiptOf(call, call.charge('refused', true)))
  }
}

// Counts the content of a provider, so that an answer without content comes to an end.

/** More keep-alives in a row than any vendor sends. */
const MAX_EMPTY_PARTS = 10_000

export class Received {
  /** Characters and bytes. */
  amount = 0
  #empty = 0

  /** @param amount the content of one part @throws UpstreamFailure for the 10,001st part in a row without content */
  add(amount: number): void {
    this.amount += amount
    if (amount > 0) this.#empty = 0
    else if (++this.#empty > MAX_EMPTY_PARTS) {
      throw brokenAnswer('The model provider sent an answer without content.')
    }
  }
}
