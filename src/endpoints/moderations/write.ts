/** `POST /v1/moderations`, as the client sees it. */
import { costJson, NO_COST } from '../../money/money.ts'
import type { WireFormat } from '../../pipeline/pipeline.ts'
import { parsedRequest } from '../shared/body.ts'
import { promptUsageJson } from '../shared/texts-billing.ts'
import { billedJson, errorWriter, writeJson } from '../shared/write.ts'
import type { ModerationAnswer } from './answer.ts'
import { moderationBody, readModeration, type ModerationRequest } from './read.ts'

/** One JSON body in, one JSON body out. */
export const moderationsFormat: WireFormat<ModerationRequest, ModerationAnswer> = {
  path: '/v1/moderations',
  body: moderationBody,

  read: async (incoming) => parsedRequest(incoming, await readModeration(incoming), false),

  async write(call, { parts }, out) {
    for await (const { model, results, receipt } of parts) {
      if (!receipt) call.headers['x-service-cost'] = NO_COST.text
      const body = {
        id: `modr-${call.id.slice('req_'.length)}`,
        model,
        results,
        ...(receipt ? billedJson(receipt, promptUsageJson(receipt)) : { usage: costJson(NO_COST) }),
      }
      await writeJson(call, out, JSON.stringify(body))
    }
  },

  writeError: errorWriter(promptUsageJson),
}
