/** An order of documents without a model: by the share of the query's words that they have. */
import type { RerankInput, RerankResult } from '../../src/plugin.ts'

const DOCUMENTS_PER_UNIT = 100

/** @param uncounted no usage is reported */
export function rerank({ query, documents }: RerankInput, uncounted: boolean): RerankResult {
  const wanted = wordsOf(query)
  const results = documents.map((document, index) => {
    const found = new Set(wordsOf(typeof document === 'string' ? document : document.text))
    const shared = wanted.filter((word) => found.has(word)).length
    return { index, relevance_score: wanted.length === 0 ? 0 : shared / wanted.length }
  })
  const searchUnits = Math.ceil(documents.length / DOCUMENTS_PER_UNIT)
  const promptTokens = Math.ceil((query.length + JSON.stringify(documents).length) / 4)
  return { results, ...(!uncounted && { usage: { searchUnits, promptTokens } }) }
}

function wordsOf(text: string): readonly string[] {
  return text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []
}
