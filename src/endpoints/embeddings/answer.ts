/** Vectors of a provider, in the order of the inputs and in the form that the client asked for. */
import { Buffer } from 'node:buffer'
import { endianness } from 'node:os'
import { brokenAnswer } from '../../errors/errors.ts'
import type { Embedding, EmbeddingInput, EmbeddingResult } from '../../plugin.ts'
import type { Billed } from '../shared/billing.ts'

/** The whole answer: it has one part. */
export interface EmbeddingPart extends Billed {
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
