/** Counts the tokens of a chat request, by the vendor. Costs nothing. */
import type { GuardAdapter } from '../../guard/adapter.ts'
import type { ChatInput } from '../../plugin.ts'
import type { Endpoint } from '../../pipeline/pipeline.ts'
import { chat } from './endpoint.ts'
import { guardAdapter } from './guard.ts'
import type { ChatRequest } from './request.ts'

export interface TokenCount {
  readonly tokens: number
}

/** A count has no text, and nothing in which a refusal could stand. */
const guard: GuardAdapter<ChatRequest, TokenCount> = {
  inputTexts: guardAdapter.inputTexts,
  withhold: guardAdapter.withhold!,
  choices: () => 1,
  outputCodec: () => ({
    split: (part, take) => take({ kind: 'finish', choice: 0, part }),
    cut: ({ part }) => part,
  }),
}

/** The count is not billed, and not limited by the policy's ceiling, as nothing is written. */
export const countTokens: Endpoint<ChatRequest, ChatInput, TokenCount> = {
  operation: 'countTokens',
  modality: chat.modality,
  errorField: chat.errorField,
  check: chat.check,
  toUpstream: chat.toUpstream,
  fit: chat.fit!,
  addresses: chat.addresses!,
  // Its stage asks for the count itself.
  normalize: () => {
    throw new Error('a count is no answer of a provider')
  },
  billing: { estimate: chat.billing.estimate, attach: () => ({}) },
  instructions: { apply: chat.instructions!.apply, limit: () => ({}) },
  guard,
  mask: async () => ({ map: (await import('./mask.ts')).chatMask.map }),
}
