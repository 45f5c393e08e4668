/** Requests with more inputs than a vendor takes at once. */
import type { EmbeddingInput, EmbeddingResult } from '../../src/plugin.ts'

/**
 * Asks in several requests, one after the other, where there are more inputs than one request may have.
 * @param size most inputs of one request; any number by default
 * @param ask one request
 */
export async function embeddedInBatches(
  input: EmbeddingInput,
  size: number | undefined,
  ask: (part: EmbeddingInput) => Promise<EmbeddingResult>,
): Promise<EmbeddingResult> {
  const { input: all } = input
  if (size === undefined || all.length <= size) return ask(input)
  const data: EmbeddingResult['data'][number][] = []
  let promptTokens: number | undefined = 0
  for (let start = 0; start < all.length; start += size) {
    const part = all.slice(start, start + size) as typeof all
    const answer = await ask({ ...input, input: part })
    for (const [position, one] of answer.data.entries()) {
      data.push({ ...one, index: start + (one.index ?? position) })
    }
    const counted: number | undefined = answer.usage?.promptTokens
    promptTokens =
      promptTokens === undefined || counted === undefined ? undefined : promptTokens + counted
  }
  return { data, ...(promptTokens !== undefined && { usage: { promptTokens } }) }
}
