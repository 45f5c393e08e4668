/** Rerank in its one normal form. */
import type { Endpoint } from '../../pipeline/pipeline.ts'
import type { RerankInput, RerankResult } from '../../plugin.ts'
import { wholeAnswer } from '../shared/unit.ts'
import { rankedOf, type RerankPart } from './answer.ts'
import { billing, sizeOf, usageOf } from './billing.ts'
import { guardAdapter } from './guard.ts'
import { outboundRerank, type RerankRequest } from './read.ts'

/** The rerank endpoint. */
export const rerank: Endpoint<RerankRequest, RerankInput, RerankPart> = {
  operation: 'rerank',
  modality: 'rerank',
  errorField: 'documents',
  billing,
  guard: guardAdapter,
  check: () => {},
  toUpstream: outboundRerank,
  withoutContent: (request) => ({ ...request, query: '', documents: [] }),

  normalize({ target, request }) {
    const { return_documents = false } = request.input as RerankRequest
    const { model } = target
    const outbound = target.outbound as RerankInput
    const size = sizeOf(outbound)
    return wholeAnswer(
      (result: RerankResult) => [rankedOf(result, outbound, return_documents)],
      (result) => usageOf(size, result, model),
    )
  },
}
