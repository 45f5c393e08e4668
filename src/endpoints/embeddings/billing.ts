/** What embeddings cost: by the token of the input. */
import type { UsageReport } from '../../money/plausible.ts'
import type { Billing } from '../../pipeline/pipeline.ts'
import type { EmbeddingResult } from '../../plugin.ts'
import {
  attachWhole,
  promptBounds,
  promptEstimate,
  promptSizeOf,
  type PromptSize,
} from '../shared/texts-billing.ts'
import type { EmbeddingPart } from './answer.ts'
import type { EmbeddingRequest } from './read.ts'

/** Tokens: estimated by the characters, charged as the vendor counts them. */
export const billing: Billing<EmbeddingRequest, EmbeddingPart> = {
  estimate: ({ input: { input } }) => promptEstimate(promptSizeOf(input)),
  attach: attachWhole,
}

/** What an answer has consumed. */
export function usageOf(size: PromptSize, { usage }: EmbeddingResult): UsageReport {
  return { reported: usage && { ...usage }, expected: { promptTokens: promptBounds(size) } }
}
