/** What speech costs: by the character (Unicode code point), known before the first sound. */
import { codePointsIn } from '../../errors/checks.ts'
import { GatewayError } from '../../errors/errors.ts'
import { bounds, UNKNOWN_CONTEXT, UNKNOWN_OUTPUT, type UsageReport } from '../../money/plausible.ts'
import { costJson } from '../../money/money.ts'
import type { Billing, Call, Receipt } from '../../pipeline/pipeline.ts'
import type { SpeechInput, Usage } from '../../plugin.ts'
import type { ChainStep } from '../../stream/chain.ts'
import { receiptOf, withReceipt } from '../shared/billing.ts'
import type { SpeechPart } from './answer.ts'
import type { SpeechRequest } from './read.ts'

const CHARACTERS_PER_TOKEN = 4
/** Tokens of sound that one byte of text explains. */
const SOUND_TOKENS = 16

/** Characters: known before, charged with the first sound. */
export const billing: Billing<SpeechRequest, SpeechPart> = {
  estimate({ input }) {
    const usage = charactersOf(input)
    return { least: usage, expected: usage, most: usage }
  },

  attach: (call) => new ReceiptAtStart(call),
}

/** Unicode code points of the input. */
function charactersOf({ input }: SpeechInput): { readonly characters: number } {
  return { characters: codePointsIn(input) }
}

/** What the usage of an answer is compared with: figures of its request, whose text need not be there any more. */
export type Spoken = ReturnType<typeof spokenOf>

/** The figures of a request. */
export function spokenOf(input: SpeechInput) {
  const bytes = Buffer.byteLength(input.input) + Buffer.byteLength(input.instructions ?? '')
  return { ...charactersOf(input), bytes }
}

/** What an answer has consumed: characters by the gateway's own count, tokens where the vendor reports them. */
export function usageOf({ characters, bytes }: Spoken, usage: Usage | undefined): UsageReport {
  const tokens = Math.ceil(bytes / CHARACTERS_PER_TOKEN)
  return {
    reported: usage && { ...usage },
    counted: { characters },
    expected: {
      promptTokens: { ...bounds(tokens, bytes + 4096, UNKNOWN_CONTEXT), needed: false },
      completionTokens: {
        ...bounds(tokens, SOUND_TOKENS * bytes + 1024, UNKNOWN_OUTPUT),
        needed: false,
      },
    },
  }
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
class ReceiptAtStart implements ChainStep<SpeechPart, SpeechPart> {
  readonly #call: Call
  #receipt: Promise<Receipt> | undefined

  constructor(call: Call) {
    this.#call = call
  }

  push(part: SpeechPart, emit: (part: SpeechPart) => void): void | Promise<void> {
    if (this.#receipt) return emit(part)
    const charged = receiptOf(this.#call, this.#call.charge())
    this.#receipt = charged
    return charged.then((receipt) => {
      this.#call.headers['x-service-cost'] = receipt.bill.text
      emit({ ...part, receipt })
    })
  }

  async fail(error: unknown): Promise<unknown> {
    return this.#receipt && GatewayError.is(error) ? withReceipt(error, this.#receipt) : error
  }
}
