/** `POST /v1/embeddings`: paid by the token of the input. */
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
import { InvalidRequest } from '../../errors/errors.ts'
import type { EmbeddingInput, EmbeddingResult } from '../../plugin.ts'
import type { Policy } from '../../policy/policy.ts'
import { readValid } from '../shared/body.ts'
import { exactItem, otherItems } from '../shared/guard.ts'
import {
  promptBounds,
  promptEstimate,
  promptSizeOf,
  promptUsageJson,
} from '../shared/texts-billing.ts'
import { defineUnitEndpoint, wholeAnswer } from '../shared/unit.ts'
import { embeddingsOf, type EmbeddingPart } from './answer.ts'

/** A valid request without members that are null. Unknown members are kept. */
interface EmbeddingRequest extends EmbeddingInput {
  readonly model: string
  readonly policy?: Policy
}

const LIMIT_BYTES = 10 * 1024 * 1024
const MAX_INPUTS = 2048
const EXPECTED = 'a text, an array of texts, an array of tokens, or an array of arrays of tokens'

const tokens = list(integer(0, Number.MAX_SAFE_INTEGER), 1)
const texts = list(filledText, 1, MAX_INPUTS)
const tokenLists = list(tokens, 1, MAX_INPUTS)

/** The first item decides the type of the others. */
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

const body = object(
  {
    model: filledText,
    input,
    encoding_format: oneOf(['float', 'base64']),
    dimensions: integer(1, Number.MAX_SAFE_INTEGER),
  },
  ['model', 'input'],
)

const READ_SEPARATELY = new Set(['input', 'encoding_format'])

/** The embeddings endpoint. Tokens are estimated by the characters, and charged as the vendor counts them. */
export const embeddings = defineUnitEndpoint<EmbeddingRequest, EmbeddingInput, EmbeddingPart>({
  path: '/v1/embeddings',
  operation: 'embed',
  modality: 'embedding',
  errorField: 'input',
  body,

  async toInput(incoming) {
    const valid = await readValid<EmbeddingRequest>(incoming, LIMIT_BYTES, body, {
      encoding_format: 'float',
    })
    return { ...valid, input: inputsOf(valid.input) }
  },

  content: { input: [] },
  estimate: ({ input }) => promptEstimate(promptSizeOf(input)),
  usage: promptUsageJson,

  answer({ outbound: { input, encoding_format: format } }) {
    const size = promptSizeOf(input)
    const expected = { count: input.length, format }
    return wholeAnswer(
      (result: EmbeddingResult) => [embeddingsOf(result, expected)],
      ({ usage }) => ({
        reported: usage && { ...usage },
        expected: { promptTokens: promptBounds(size) },
      }),
    )
  },

  // Nothing is asked and nothing is produced, so subjects and categories have no meaning: exact rules read every text.
  texts: (request) => [
    ...request.input.flatMap((text, index) =>
      typeof text === 'string' ? exactItem(`input[${index}]`, text) : [],
    ),
    ...otherItems(request, READ_SEPARATELY, 'annotation'),
  ],

  unreadable({ input }) {
    if (typeof input[0] === 'string') return undefined
    const message = "This key's rules cannot be checked on tokens: send text instead of tokens."
    return new InvalidRequest('unsupported_value', message, { param: 'input' })
  },

  json: ([part], { target }) => ({
    object: 'list',
    model: target.model.id,
    data: part!.vectors.map((embedding, index) => ({ object: 'embedding', index, embedding })),
  }),
})

function inputsOf(value: unknown): EmbeddingInput['input'] {
  if (typeof value === 'string') return [value]
  const listed = value as string[] | number[] | number[][]
  return typeof listed[0] === 'number' ? [listed as number[]] : (listed as string[] | number[][])
}
