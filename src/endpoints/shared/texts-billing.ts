/** What work on texts costs whose answers have no text: by the token of the prompt. */
import { Buffer } from 'node:buffer'
import type { Estimate } from '../../money/holds.ts'
import { CHAT_SIDES, costJson } from '../../money/money.ts'
import { bounds, UNKNOWN_CONTEXT, type Expected } from '../../money/plausible.ts'
import type { Receipt } from '../../pipeline/pipeline.ts'
import type { Usage } from '../../plugin.ts'

const CHARACTERS_PER_TOKEN = 4
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
    tokens += isText ? Math.ceil(one.length / CHARACTERS_PER_TOKEN) : one.length
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
  return meter.find(({ source }) => source === 'model')?.usage ?? {}
}

export function promptUsageJson(receipt: Receipt): object {
  const { promptTokens = 0 } = consumedIn(receipt)
  return {
    prompt_tokens: promptTokens,
    total_tokens: promptTokens,
    ...costJson(receipt.bill, CHAT_SIDES),
  }
}
