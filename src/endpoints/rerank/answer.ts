/** The documents in a provider's order: best first, as many as the client wants. */
import { brokenAnswer } from '../../errors/errors.ts'
import type { RerankDocument, RerankInput, RerankResult } from '../../plugin.ts'
import type { Billed } from '../shared/billing.ts'

/** The whole answer: it has one part. */
export interface RerankPart extends Billed {
  readonly results: readonly Ranked[]
}

interface Ranked {
  readonly index: number
  readonly relevance_score: number
  /** The document as the client sent it; only where it wants it back. */
  readonly document?: { readonly text: string }
}

/** The answer to a request, each document once at most. @throws UpstreamFailure for none, or unknown documents */
export function rankedOf(
  { results }: RerankResult,
  { documents, top_n = documents.length }: RerankInput,
  returnsDocuments: boolean,
): RerankPart {
  if (!Array.isArray(results) || results.length === 0) {
    throw brokenAnswer('The model provider sent no order of the documents.')
  }
  const ranked = new Map<number, Ranked>()
  for (const one of results) {
    const { index, relevance_score: score } = Object(one)
    const document: RerankDocument | undefined = documents[index]
    if (!Number.isInteger(index) || document === undefined || !Number.isFinite(score)) {
      throw brokenAnswer('The model provider sent an order with a result that is no document.')
    }
    if (ranked.has(index)) continue
    const text = typeof document === 'string' ? document : document.text
    const shown = returnsDocuments && { document: { text } }
    ranked.set(index, { index, relevance_score: score, ...shown })
  }
  const best = [...ranked.values()].toSorted((a, b) => b.relevance_score - a.relevance_score)
  return { results: best.slice(0, top_n) }
}
