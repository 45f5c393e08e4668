/** `POST /v1/moderations`, as the client sees it. */
import { costJson } from '../../money/money.ts'
import type { Receipt, WireFormat } from '../../pipeline/pipeline.ts'
import { parsedRequest } from '../shared/body.ts'
import { promptUsageJson } from '../shared/texts-billing.ts'
import { billedJson, errorWriter, jsonWriter } from '../shared/write.ts'
import type { ModerationAnswer } from './answer.ts'
import { moderationBody, readModeration, type ModerationRequest } from './read.ts'

/** One JSON body in, one JSON body out. */
export const moderationsFormat: WireFormat<ModerationRequest, ModerationAnswer> = {
  path: '/v1/moderations',
  body: moderationBody,

  read: async (incoming) => parsedRequest(incoming, await readModeration(incoming), false),

  write: jsonWriter(([part], { id }) => {
    const { model, results, receipt } = part!
    return {
      id: `modr-${id.slice('req_'.length)}`,
      model,
      results,
      ...billedJson(receipt!, usageJson(receipt!)),
    }
  }),

  writeError: errorWriter(usageJson),
}

/** Guards have no tokens of their own; those of a model that they ask are on the bill. */
function usageJson(receipt: Receipt): object {
  const isByModel = receipt.meter.some(({ source }) => source === 'model')
  return isByModel ? promptUsageJson(receipt) : costJson(receipt.bill)
}
