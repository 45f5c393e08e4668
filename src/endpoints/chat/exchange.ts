/** What logs and traces say of a chat: numbers, and words of a fixed list. */
import type { ExchangeRequest, ExchangeResponse } from '../../observe/record.ts'
import type { ChatChunk } from '../../plugin.ts'
import type { ChatRequest } from './request.ts'

/** Choices whose reasons are told. */
const MOST_CHOICES = 8
/** Vendors make these up: longer ones, and those with other characters, are left out. */
const NAME = /^[\w.:/@-]{1,100}$/

/** The parameters of a request. */
export function exchangeRequest(input: ChatRequest): ExchangeRequest {
  return {
    max_tokens: numberIn(input.max_completion_tokens ?? input.max_tokens),
    temperature: numberIn(input.temperature),
    top_p: numberIn(input.top_p),
    seed: numberIn(input.seed),
    choices: numberIn(input.n),
    reasoning: input.reasoning?.effort ?? undefined,
  }
}

/** How an answer ended. @param finishes its chunks with a finish reason */
export function exchangeResponse(finishes: readonly ChatChunk[]): ExchangeResponse {
  const [first] = finishes
  return {
    id: nameIn(first?.id),
    model: nameIn(first?.model),
    finish_reasons: finishes
      .slice(0, MOST_CHOICES)
      .map(({ choices }) => nameIn(choices[0]?.finish_reason) ?? 'other'),
  }
}

function numberIn(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined
}

function nameIn(value: unknown): string | undefined {
  return typeof value === 'string' && NAME.test(value) ? value : undefined
}
