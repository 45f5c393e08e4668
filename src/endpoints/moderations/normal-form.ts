/** Moderations in normal form, by a model or by guards: requests, and results. */
import { Buffer } from 'node:buffer'
import {
  either,
  filledText,
  isObject,
  list,
  object,
  problem,
  variant,
  wrongType,
  type Check,
  described,
  schemaOf,
} from '../../errors/checks.ts'
import { brokenAnswer } from '../../errors/errors.ts'
import type { Incoming } from '../../pipeline/http.ts'
import type { ModerationInput, ModerationPart, ModerationResult } from '../../plugin.ts'
import type { Policy } from '../../policy/policy.ts'
import type { Billed } from '../shared/billing.ts'
import { readValid } from '../shared/body.ts'

/** A valid request without members that are null. Unknown members are kept. */
export interface ModerationRequest extends ModerationInput {
  readonly model: string
  readonly policy?: Policy
}

/** The model that stands for the local guards of the configuration. */
export const LOCAL = 'guard'
/** The prefix of the name of one guard. */
export const BY_NAME = 'guard/'

/** The limit includes room for images. */
const LIMIT_BYTES = 10 * 1024 * 1024
const MAX_TEXT_BYTES = 1024 * 1024
const MAX_INPUTS = 128
const EXPECTED = 'a text, an array of texts, or an array of parts'

const part = variant('type', {
  text: object({ text: filledText }, ['text']),
  image_url: object({ image_url: object({ url: filledText }, ['url']) }, ['image_url']),
})
const texts = list(filledText, 1, MAX_INPUTS)
const parts = list(part, 1, MAX_INPUTS)

const input = described(
  (value) => {
    if (value === undefined || value === null) return wrongType(value, EXPECTED)
    const array: Check = (items) =>
      (typeof (items as unknown[])[0] === 'object' ? parts : texts)(items)
    const mistake = either(EXPECTED, { string: filledText, array })(value)
    if (mistake) return mistake
    const bytes = textsIn(inputsOf(value)).reduce((sum, text) => sum + Buffer.byteLength(text), 0)
    if (bytes <= MAX_TEXT_BYTES) return undefined
    return problem('string_above_max_length', 'at most 1 MiB of text', `${bytes} bytes`)
  },
  () => ({ anyOf: [filledText, texts, parts].map(schemaOf) }),
)

export const moderationBody = object({ model: filledText, input }, ['input'])

export async function readModeration(incoming: Incoming): Promise<ModerationRequest> {
  const defaults = { model: LOCAL }
  const request = await readValid<ModerationRequest>(
    incoming,
    LIMIT_BYTES,
    moderationBody,
    defaults,
  )
  return { ...request, input: inputsOf(request.input) }
}

export function isForGuards(model: string): boolean {
  return model === LOCAL || model.startsWith(BY_NAME)
}

/** Whether parts are one input together. */
export function isParts(input: ModerationInput['input']): input is readonly ModerationPart[] {
  return typeof input[0] === 'object'
}

export function textsIn(input: ModerationInput['input']): readonly string[] {
  if (!isParts(input)) return input as readonly string[]
  return input.flatMap((one) => (one.type === 'text' ? [one.text] : []))
}

function inputsOf(value: unknown): ModerationInput['input'] {
  return typeof value === 'string' ? [value] : (value as ModerationInput['input'])
}

/** The whole answer: it has one part. */
export interface ModerationAnswer extends Billed {
  /** The name as the client reads it. */
  readonly model: string
  /** The results for the inputs, in their order. */
  readonly results: readonly object[]
}

/** The answer of a model. @throws UpstreamFailure for an input without a result */
export function resultsOf(
  { results }: ModerationResult,
  { model, count }: { readonly model: string; readonly count: number },
): ModerationAnswer {
  if (!Array.isArray(results) || results.length !== count || !results.every(isObject)) {
    throw brokenAnswer('The model provider sent no result for some of the inputs.')
  }
  return { model, results }
}
