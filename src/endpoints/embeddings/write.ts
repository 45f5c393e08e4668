/** `POST /v1/embeddings`, as the client sees it. */
import type { WireFormat } from '../../pipeline/pipeline.ts'
import { parsedRequest } from '../shared/body.ts'
import { promptUsageJson } from '../shared/texts-billing.ts'
import { billedJson, errorWriter, jsonWriter } from '../shared/write.ts'
import type { EmbeddingPart } from './answer.ts'
import { embeddingBody, readEmbeddings, type EmbeddingRequest } from './read.ts'

/** One JSON body in, one JSON body out. */
export const embeddingsFormat: WireFormat<EmbeddingRequest, EmbeddingPart> = {
  path: '/v1/embeddings',
  body: embeddingBody,

  read: async (incoming) => parsedRequest(incoming, await readEmbeddings(incoming), false),

  write: jsonWriter(([part], { target }) => {
    const { vectors, receipt } = part!
    return {
      object: 'list',
      model: target.model.id,
      data: vectors.map((embedding, index) => ({ object: 'embedding', index, embedding })),
      ...billedJson(receipt!, promptUsageJson(receipt!)),
    }
  }),

  writeError: errorWriter(promptUsageJson),
}
