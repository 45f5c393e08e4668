/** Embeddings in their one normal form. */
import type { Endpoint } from '../../pipeline/pipeline.ts'
import type { EmbeddingInput, EmbeddingResult } from '../../plugin.ts'
import { promptSizeOf } from '../shared/texts-billing.ts'
import { embeddingsOf, type EmbeddingPart } from './answer.ts'
import { billing, usageOf } from './billing.ts'
import { guardAdapter } from './guard.ts'
import { outboundEmbeddings, type EmbeddingRequest } from './read.ts'

/** The embeddings endpoint. */
export const embeddings: Endpoint<EmbeddingRequest, EmbeddingPart> = {
  operation: 'embed',
  modality: 'embedding',
  errorField: 'input',
  billing,
  guard: guardAdapter,
  check: () => {},
  toUpstream: outboundEmbeddings,
  withoutContent: (request) => ({ ...request, input: [] }),

  normalize({ outbound }, answer: EmbeddingResult) {
    const { input, encoding_format: format }: EmbeddingInput = outbound
    const size = promptSizeOf(input)
    const parts = [embeddingsOf(answer, { count: input.length, format })]
    return { parts, usage: () => usageOf(size, answer) }
  },
}
