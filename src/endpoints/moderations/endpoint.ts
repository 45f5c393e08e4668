/** Moderation by a model, in its one normal form. */
import type { Billing, Endpoint } from '../../pipeline/pipeline.ts'
import type { Media, ModerationInput, ModerationResult } from '../../plugin.ts'
import { itemOf, oneTurnGuard, otherItems, silentAnswer } from '../shared/guard.ts'
import { MEDIA_TOKENS } from '../../money/plausible.ts'
import { attachWhole, promptBounds, promptEstimate, promptSizeOf } from '../shared/texts-billing.ts'
import { resultsOf, type ModerationAnswer } from './answer.ts'
import { isParts, outboundModeration, textsIn, type ModerationRequest } from './read.ts'
import { addresses } from './addresses.ts'

const READ_SEPARATELY = new Set(['input'])

const guardAdapter = oneTurnGuard<ModerationRequest, ModerationAnswer>(
  (input) => [
    ...textsIn(input.input).map((text, index) => itemOf(`input[${index}]`, 'prompt', text)),
    ...imagesIn(input.input).map((url, index) => itemOf(`image[${index}]`, 'prompt', '', [url])),
    ...otherItems(input, READ_SEPARATELY, 'annotation'),
  ],
  silentAnswer,
)

const billing: Billing<ModerationRequest, ModerationAnswer> = {
  estimate: ({ input }) => promptEstimate(sizeOf(input.input)),
  attach: attachWhole,
}

/** Moderation by a model of the catalog. */
export const moderations: Endpoint<ModerationRequest, ModerationAnswer> = {
  operation: 'moderate',
  modality: 'moderation',
  errorField: 'input',
  billing,
  guard: guardAdapter,
  addresses,
  check: () => {},
  toUpstream: outboundModeration,
  withoutContent: (request) => ({ ...request, input: [] }),

  normalize({ outbound, model }, answer: ModerationResult) {
    const { input }: ModerationInput = outbound
    const count = isParts(input) ? 1 : input.length
    const size = sizeOf(input)
    const needed = model.prices.prompt !== undefined
    const { usage } = answer
    return {
      parts: [resultsOf(answer, { model: model.id, count })],
      usage: () => ({
        reported: usage && { ...usage },
        expected: { promptTokens: { ...promptBounds(size), needed } },
      }),
    }
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
