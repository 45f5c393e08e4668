/** `POST /v1/embeddings`: paid by the token of the input. */
import { Buffer } from 'node:buffer'
import { endianness } from 'node:os'
import {
  either,
  filledText,
  integer,
  list,
  object,
  oneOf,
  wrongType,
  type Check,
  described,
  schemaOf,
} from '../../errors/checks.ts'
import { InvalidRequest, brokenAnswer } from '../../errors/errors.ts'
import type { EmbeddingInput, EmbeddingResult, Embedding } from '../../plugin.ts'
import type { Policy } from '../../policy/policy.ts'
import { readValid } from '../shared/body.ts'
import { exactItem, otherItems } from '../shared/guard.ts'
import { defineUnitEndpoint, wholeAnswer } from '../shared/unit.ts'
import {
  type Billed,
  promptBounds,
  promptEstimate,
  promptSizeOf,
  promptUsageJson,
} from '../shared/billing.ts'

// Vectors of a provider, in the order of the inputs and in the form that the client asked for.

/** The whole answer: it has one part. */
interface EmbeddingPart extends Billed {
  /** The vectors of the inputs, in their order. */
  readonly vectors: readonly Embedding['embedding'][]
}

type Format = EmbeddingInput['encoding_format']

/** @throws UpstreamFailure for an input without a vector, or with an invalid one */
export function embeddingsOf(
  { data }: EmbeddingResult,
  { count, format }: { readonly count: number; readonly format: Format },
): EmbeddingPart {
  if (!Array.isArray(data)) throw brokenAnswer('The model provider sent no embeddings.')
  const vectors: (Embedding['embedding'] | undefined)[] = Array.from({ length: count })
  data.forEach((one: Partial<Embedding> | null, position) => {
    const index = Number.isInteger(one?.index) ? one!.index! : position
    if (index >= 0 && index < count) vectors[index] ??= inForm(one?.embedding, format)
  })
  const missing = vectors.indexOf(undefined)
  if (missing >= 0) {
    throw brokenAnswer(`The model provider sent no embedding for input ${missing}.`)
  }
  return { vectors: vectors as Embedding['embedding'][] }
}

function inForm(vector: unknown, format: Format): Embedding['embedding'] {
  if (typeof vector === 'string') {
    const bytes = bytesOf(vector)
    return format === 'base64' ? bytes.toString('base64') : numbersIn(bytes)
  }
  if (!Array.isArray(vector) || vector.length === 0 || !vector.every(Number.isFinite)) {
    throw brokenAnswer('The model provider sent an embedding that is no list of numbers.')
  }
  return format === 'float' ? vector : base64Of(vector)
}

const BYTES = Float32Array.BYTES_PER_ELEMENT
const SWAPS = endianness() === 'BE'

/** The bytes of 32-bit floats. @throws UpstreamFailure for a text that holds no whole numbers */
function bytesOf(text: string): Buffer {
  const bytes = Buffer.from(text, 'base64')
  if (bytes.length > 0 && bytes.length % BYTES === 0) return bytes
  throw brokenAnswer('The model provider sent an embedding that is no base64 of numbers.')
}

function numbersIn(bytes: Buffer): number[] {
  const own = SWAPS ? Buffer.from(bytes).swap32() : bytes
  // A copy begins where a list of floats may begin.
  const numbers = Array.from(new Float32Array(Uint8Array.from(own).buffer))
  if (numbers.every(Number.isFinite)) return numbers
  throw brokenAnswer('The model provider sent an embedding with values that are no numbers.')
}

function base64Of(vector: readonly number[]): string {
  const bytes = Buffer.from(Float32Array.from(vector).buffer)
  return (SWAPS ? bytes.swap32() : bytes).toString('base64')
}

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
  stored: true,
  mask: {},
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
