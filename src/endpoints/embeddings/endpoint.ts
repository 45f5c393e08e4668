/** Embeddings in their one normal form. */
import type { Endpoint } from '../../pipeline/pipeline.ts'
import type { EmbeddingInput, EmbeddingResult } from '../../plugin.ts'
import { promptSizeOf } from '../shared/texts-billing.ts'
import { wholeAnswer } from '../shared/unit.ts'
import { embeddingsOf, type EmbeddingPart } from './answer.ts'
import { billing, usageOf } from './billing.ts'
import { guardAdapter } from './guard.ts'
import { outboundEmbeddings, type EmbeddingRequest } from './read.ts'

/** The embeddings endpoint. */
export const embeddings: Endpoint<EmbeddingRequest, EmbeddingInput, EmbeddingPart> = {
  operation: 'embed',
  modality: 'embedding',
  errorField: 'input',
  billing,
  guard: guardAdapter,
  check: () => {},
  toUpstream: outboundEmbeddings,
  withoutContent: (request) => ({ ...request, input: [] }),

  normalize({ target }) {
    const { input, encoding_format: format } = target.outbound as EmbeddingInput
    const size = promptSizeOf(input)
    const asked = { count: input.length, format }
    return wholeAnswer(
      (result: EmbeddingResult) => [embeddingsOf(result, asked)],
      (result) => usageOf(size, result),
    )
  },
}
