/** Requests for embeddings: validated, and in the form that providers get. */
import { described, schemaOf } from '../../errors/check-schema.ts'
import {
  either,
  filledText,
  integer,
  list,
  object,
  oneOf,
  wrongType,
  type Check,
} from '../../errors/checks.ts'
import type { Incoming } from '../../pipeline/pipeline.ts'
import type { EmbeddingInput } from '../../plugin.ts'
import type { Policy } from '../../policy/policy.ts'
import { outboundMembers, readValid } from '../shared/body.ts'

/** A valid request without members that are null. Unknown members are kept. */
export interface EmbeddingRequest extends EmbeddingInput {
  readonly model: string
  readonly policy?: Policy
}

const LIMIT_BYTES = 10 * 1024 * 1024
const MAX_INPUTS = 2048
const EXPECTED = 'a text, an array of texts, an array of tokens, or an array of arrays of tokens'

const tokens = list(integer(0, Number.MAX_SAFE_INTEGER), 1)
const texts = list(filledText, 1, MAX_INPUTS)
const tokenLists = list(tokens, 1, MAX_INPUTS)

/** The first item decides what the others have to be. */
const items: Check = (value) => {
  const [first] = value as unknown[]
  if (Array.isArray(first)) return tokenLists(value)
  return typeof first === 'number' ? tokens(value) : texts(value)
}

const anyInput = either(EXPECTED, { string: filledText, array: items })
const input = described(
  (value) => (value === undefined || value === null ? wrongType(value, EXPECTED) : anyInput(value)),
  () => ({ anyOf: [filledText, texts, tokens, tokenLists].map(schemaOf) }),
)

/** The members of a body. */
export const embeddingBody = object(
  {
    model: filledText,
    input,
    encoding_format: oneOf(['float', 'base64']),
    dimensions: integer(1, Number.MAX_SAFE_INTEGER),
  },
  ['model', 'input'],
)

/** @throws InvalidRequest */
export async function readEmbeddings(incoming: Incoming): Promise<EmbeddingRequest> {
  const asked = await readValid<EmbeddingRequest>(incoming, LIMIT_BYTES, embeddingBody, {
    encoding_format: 'float',
  })
  return { ...asked, input: inputsOf(asked.input) }
}

/** The request for providers. */
export function outboundEmbeddings(request: EmbeddingRequest): EmbeddingInput {
  return outboundMembers(request) as EmbeddingInput
}

/** One input is a list of one. */
function inputsOf(given: unknown): EmbeddingInput['input'] {
  if (typeof given === 'string') return [given]
  const listed = given as string[] | number[] | number[][]
  return typeof listed[0] === 'number' ? [listed as number[]] : (listed as string[] | number[][])
}
