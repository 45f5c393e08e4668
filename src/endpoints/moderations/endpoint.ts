/** `POST /v1/moderations`: by a model of the catalog, or by guards of the configuration. */
import type { Estimate } from '../../money/holds.ts'
import { costJson, isOfModel } from '../../money/money.ts'
import { MEDIA_TOKENS } from '../../money/plausible.ts'
import type { ClientAddress, Endpoint } from '../../pipeline/pipeline.ts'
import type { Media, ModerationInput, ModerationResult } from '../../plugin.ts'
import { itemOf, otherItems } from '../shared/guard.ts'
import { toBase64 } from '../shared/media.ts'
import { promptBounds, promptEstimate, promptSizeOf, promptUsageJson } from '../shared/billing.ts'
import { defineUnitEndpoint, wholeAnswer } from '../shared/unit.ts'
import { questionsAsked } from './guards.ts'
import {
  isForGuards,
  isParts,
  moderationBody,
  readModeration,
  resultsOf,
  textsIn,
  type ModerationAnswer,
  type ModerationRequest,
} from './normal-form.ts'

const READ_SEPARATELY = new Set(['input'])
/** The estimate where guards are asked and no model: their questions are in `questions`. */
const NOTHING: Estimate = { least: {}, expected: {}, most: {} }

const addresses: NonNullable<Endpoint<unknown, ModerationInput>['addresses']> = {
  of({ input }: ModerationInput): ClientAddress[] {
    if (!isParts(input)) return []
    return input.flatMap((one, index) =>
      one.type === 'image_url' && !/^data:/i.test(one.image_url.url.slice(0, 5))
        ? [{ url: one.image_url.url, param: `input[${index}].image_url.url` }]
        : [],
    )
  },

  replace(outbound: ModerationInput, files): ModerationInput {
    if (!isParts(outbound.input)) return outbound
    const input = outbound.input.map((one) => {
      const file = one.type === 'image_url' ? files.get(one.image_url.url) : undefined
      if (one.type !== 'image_url' || !file) return one
      const url = `data:${file.contentType};base64,${toBase64(file.bytes)}`
      return { ...one, image_url: { ...one.image_url, url } }
    })
    return { ...outbound, input }
  },
}

export const moderations = defineUnitEndpoint<ModerationRequest, ModerationInput, ModerationAnswer>(
  {
    path: '/v1/moderations',
    operation: 'moderate',
    stored: true,
    mask: {},
    modality: 'moderation',
    errorField: 'input',
    body: moderationBody,
    toInput: readModeration,
    content: { input: [] },
    addresses,
    estimate: ({ model, input }) => (isForGuards(model) ? NOTHING : promptEstimate(sizeOf(input))),
    questions: (call) => (isForGuards(call.request.model) ? questionsAsked(call) : undefined),

    // Guards have no tokens of their own; those of a model that they ask are on the bill.
    usage(receipt) {
      const isByModel = receipt.meter.some(isOfModel)
      return isByModel ? promptUsageJson(receipt) : costJson(receipt)
    },

    answer({ outbound: { input }, model }) {
      const count = isParts(input) ? 1 : input.length
      const size = sizeOf(input)
      const needed = model.prices.prompt !== undefined
      return wholeAnswer(
        (result: ModerationResult) => [resultsOf(result, { model: model.id, count })],
        ({ usage }) => ({
          reported: usage && { ...usage },
          expected: { promptTokens: { ...promptBounds(size), needed } },
        }),
      )
    },

    texts: (request) => [
      ...textsIn(request.input).map((text, index) => itemOf(`input[${index}]`, 'prompt', text)),
      ...imagesIn(request.input).map((url, index) =>
        itemOf(`image[${index}]`, 'prompt', '', [url]),
      ),
      ...otherItems(request, READ_SEPARATELY, 'annotation'),
    ],

    json: ([part], { id }) => ({
      id: `modr-${id.slice('req_'.length)}`,
      model: part!.model,
      results: part!.results,
    }),
  },
)

/** Vendors count an image as many tokens. */
function sizeOf(input: ModerationInput['input']) {
  const { tokens, most } = promptSizeOf(textsIn(input))
  return { tokens, most: most + imagesIn(input).length * MEDIA_TOKENS }
}

function imagesIn(input: ModerationInput['input']): readonly Media[] {
  if (!isParts(input)) return []
  return input.flatMap((one) =>
    one.type === 'image_url' ? [{ kind: 'image' as const, url: one.image_url.url }] : [],
  )
}
