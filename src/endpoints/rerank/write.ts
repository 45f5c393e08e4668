/** `POST /v1/rerank`, as the client sees it: the common form of Cohere and Jina. */
import type { WireFormat } from '../../pipeline/pipeline.ts'
import { parsedRequest } from '../shared/body.ts'
import { billedJson, errorWriter, jsonWriter } from '../shared/write.ts'
import type { RerankPart } from './answer.ts'
import { unitsIn, usageJson } from './billing.ts'
import { readRerank, rerankBody, type RerankRequest } from './read.ts'

/** One JSON body in, one JSON body out. */
export const rerankFormat: WireFormat<RerankRequest, RerankPart> = {
  path: '/v1/rerank',
  body: rerankBody,

  read: async (incoming) => parsedRequest(incoming, await readRerank(incoming), false),

  write: jsonWriter(([part], { id, target }) => {
    const { results, receipt } = part!
    return {
      id: `rrk-${id.slice('req_'.length)}`,
      object: 'list',
      model: target.model.id,
      results,
      meta: { billed_units: { search_units: unitsIn(receipt!) } },
      ...billedJson(receipt!, usageJson(receipt!)),
    }
  }),

  writeError: errorWriter(usageJson),
}
