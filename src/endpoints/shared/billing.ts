/** Receipts, content and prompts: what the billing of endpoints shares. */
import { Buffer } from 'node:buffer'
import { brokenAnswer } from '../../errors/errors.ts'
import type { Receipt } from '../../pipeline/pipeline.ts'
import type { Estimate } from '../../money/holds.ts'
import { CHAT_SIDES, costJson, isOfModel } from '../../money/money.ts'
import { bounds, textTokens, UNKNOWN_CONTEXT, type Expected } from '../../money/plausible.ts'
import type { Usage } from '../../plugin.ts'

export interface Billed {
  readonly receipt?: Receipt
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

// What work on texts costs whose answers have no text: by the token of the prompt.

/** Tokens that a vendor may add to a text, such as its own marks. */
const TOKENS_BESIDE = 16

export interface PromptSize {
  /** The probable count. */
  readonly tokens: number
  /** The bound: no vendor counts more. */
  readonly most: number
}

/** The figures of texts and lists of tokens. A text has no more tokens than bytes. */
export function promptSizeOf(inputs: readonly (string | readonly unknown[])[]): PromptSize {
  let [tokens, most] = [0, 0]
  for (const one of inputs) {
    const isText = typeof one === 'string'
    tokens += isText ? textTokens(one) : one.length
    most += (isText ? Buffer.byteLength(one) : one.length) + TOKENS_BESIDE
  }
  return { tokens, most }
}

export function promptEstimate({ tokens, most }: PromptSize, units: Usage = {}): Estimate {
  const expected = { ...units, promptTokens: tokens }
  return { least: expected, expected, most: { ...units, promptTokens: most } }
}

/** The bounds with which a vendor's count of a prompt is compared. */
export function promptBounds({ tokens, most }: PromptSize): Expected {
  return bounds(tokens, most, UNKNOWN_CONTEXT)
}

export function consumedIn({ meter }: Pick<Receipt, 'meter'>): Usage {
  return meter.find(isOfModel)?.usage ?? {}
}

export function promptUsageJson(receipt: Receipt): object {
  const { promptTokens = 0 } = consumedIn(receipt)
  return {
    prompt_tokens: promptTokens,
    total_tokens: promptTokens,
    ...costJson(receipt, CHAT_SIDES),
  }
}
