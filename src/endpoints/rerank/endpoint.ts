/** Rerank in its one normal form. */
import type { Endpoint } from '../../pipeline/pipeline.ts'
import type { RerankResult } from '../../plugin.ts'
import { rankedOf, type RerankPart } from './answer.ts'
import { billing, sizeOf, usageOf } from './billing.ts'
import { guardAdapter } from './guard.ts'
import { outboundRerank, type RerankRequest } from './read.ts'

/** The rerank endpoint. */
export const rerank: Endpoint<RerankRequest, RerankPart> = {
  operation: 'rerank',
  modality: 'rerank',
  errorField: 'documents',
  billing,
  guard: guardAdapter,
  check: () => {},
  toUpstream: outboundRerank,
  withoutContent: (request) => ({ ...request, query: '', documents: [] }),

  normalize({ outbound, request, model }, answer: RerankResult) {
    const { return_documents = false } = request.input as RerankRequest
    const size = sizeOf(outbound)
    const parts = [rankedOf(answer, outbound, return_documents)]
    return { parts, usage: () => usageOf(size, answer, model) }
  },
}
