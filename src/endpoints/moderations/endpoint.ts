/** Moderation by a model, in its one normal form. */
import type { Estimate } from '../../money/holds.ts'
import { MEDIA_TOKENS } from '../../money/plausible.ts'
import type { Billing, Endpoint } from '../../pipeline/pipeline.ts'
import type { Media, ModerationInput, ModerationResult } from '../../plugin.ts'
import { itemOf, otherItems, silentGuard } from '../shared/guard.ts'
import { attachWhole, promptBounds, promptEstimate, promptSizeOf } from '../shared/texts-billing.ts'
import { wholeAnswer } from '../shared/unit.ts'
import { resultsOf, type ModerationAnswer } from './answer.ts'
import {
  isForGuards,
  isParts,
  outboundModeration,
  textsIn,
  type ModerationRequest,
} from './read.ts'
import { addresses } from './addresses.ts'
import { questionsAsked } from './guards.ts'

const READ_SEPARATELY = new Set(['input'])
/** Guards are asked and no model: what they ask is in `questions`. */
const NOTHING: Estimate = { least: {}, expected: {}, most: {} }

const guardAdapter = silentGuard<ModerationRequest, ModerationAnswer>((input) => [
  ...textsIn(input.input).map((text, index) => itemOf(`input[${index}]`, 'prompt', text)),
  ...imagesIn(input.input).map((url, index) => itemOf(`image[${index}]`, 'prompt', '', [url])),
  ...otherItems(input, READ_SEPARATELY, 'annotation'),
])

const billing: Billing<ModerationRequest, ModerationAnswer> = {
  estimate: ({ model, input: { input } }) =>
    isForGuards(model) ? NOTHING : promptEstimate(sizeOf(input)),
  questions: (call) => (isForGuards(call.request.model) ? questionsAsked(call) : undefined),
  attach: attachWhole,
}

/** Moderation by a model of the catalog. */
export const moderations: Endpoint<ModerationRequest, ModerationInput, ModerationAnswer> = {
  operation: 'moderate',
  modality: 'moderation',
  errorField: 'input',
  billing,
  guard: guardAdapter,
  addresses,
  check: () => {},
  toUpstream: outboundModeration,
  withoutContent: (request) => ({ ...request, input: [] }),

  normalize({ target }) {
    const { model } = target
    const { input } = target.outbound as ModerationInput
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
}

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
