/** `POST /v1/embeddings`, as the client sees it. */
import type { WireFormat } from '../../pipeline/pipeline.ts'
import { parsedRequest } from '../shared/body.ts'
import { promptUsageJson } from '../shared/texts-billing.ts'
import { billedJson, errorWriter, writeJson } from '../shared/write.ts'
import type { EmbeddingPart } from './answer.ts'
import { embeddingBody, readEmbeddings, type EmbeddingRequest } from './read.ts'

/** One JSON body in, one JSON body out. */
export const embeddingsFormat: WireFormat<EmbeddingRequest, EmbeddingPart> = {
  path: '/v1/embeddings',
  body: embeddingBody,

  read: async (incoming) => parsedRequest(incoming, await readEmbeddings(incoming), false),

  async write(call, { parts }, out) {
    for await (const { vectors, receipt } of parts) {
      const body = {
        object: 'list',
        model: call.model.id,
        data: vectors.map((embedding, index) => ({ object: 'embedding', index, embedding })),
        ...billedJson(receipt!, promptUsageJson(receipt!)),
      }
      await writeJson(call, out, JSON.stringify(body))
    }
  },

  writeError: errorWriter(promptUsageJson),
}
