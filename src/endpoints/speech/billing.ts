/** What speech costs: by the character (Unicode code point), known before the first sound. */
import { codePointsIn } from '../../errors/checks.ts'
import { GatewayError } from '../../errors/errors.ts'
import { costJson } from '../../money/money.ts'
import type { Billing, Call, Charge, Receipt } from '../../pipeline/pipeline.ts'
import type { SpeechInput, Step } from '../../plugin.ts'
import { receiptOf, withReceipt } from '../shared/billing.ts'
import type { SpeechPart } from './answer.ts'
import type { SpeechRequest } from './read.ts'

/** Characters: known before, charged with the first sound. */
export const billing: Billing<SpeechRequest, SpeechPart> = {
  estimate({ input }) {
    const usage = charactersOf(input)
    return { least: usage, expected: usage, most: usage }
  },

  attach: (call, charge) => new ReceiptAtStart(call, charge),
}

/** Unicode code points of the input. */
export function charactersOf({ input }: SpeechInput): { readonly characters: number } {
  return { characters: codePointsIn(input) }
}

/** `usage` of an answer. Models that are paid by the character have no tokens. */
export function usageJson({ bill, meter }: Receipt): object {
  const consumed = meter.find(({ source }) => source === 'model')?.usage ?? {}
  const { promptTokens = 0, completionTokens = 0, characters = 0 } = consumed
  return {
    input_tokens: promptTokens,
    output_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    characters,
    ...costJson(bill),
  }
}

/** Charges when the first piece arrives, for good: the cost is in the head of the answer, before the sound. */
class ReceiptAtStart implements Step<SpeechPart, SpeechPart> {
  readonly #call: Call
  readonly #charge: Charge
  #receipt: Promise<Receipt> | undefined

  constructor(call: Call, charge: Charge) {
    this.#call = call
    this.#charge = charge
  }

  push(part: SpeechPart, emit: (part: SpeechPart) => void): void {
    if (this.#receipt) return emit(part)
    const receipt = receiptOf(this.#call, this.#charge())
    // The writer gets the failure; after the client has left, it is ignored.
    receipt.catch(() => {})
    this.#receipt = receipt
    emit({ ...part, receipt })
  }

  async fail(error: unknown): Promise<unknown> {
    return this.#receipt && GatewayError.is(error) ? withReceipt(error, this.#receipt) : error
  }
}
