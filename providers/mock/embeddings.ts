/** Vectors without a model: the same text has the same vector. */
import { createHash } from 'node:crypto'
import type { EmbeddingInput, EmbeddingResult } from '../../src/plugin.ts'

const DIMENSIONS = 8
const MOST_DIMENSIONS = 4096
const CHARACTERS_PER_TOKEN = 4

/** A vector of length 1 for each input; undefined where longer ones are asked for than there are. @param uncounted no usage is reported */
export function embed(
  { input, dimensions = DIMENSIONS }: EmbeddingInput,
  uncounted: boolean,
): EmbeddingResult | undefined {
  if (dimensions > MOST_DIMENSIONS) return undefined
  const promptTokens = input.reduce(
    (sum: number, one) =>
      sum + (typeof one === 'string' ? Math.ceil(one.length / CHARACTERS_PER_TOKEN) : one.length),
    0,
  )
  return {
    data: [...input].map((one, index) => ({ index, embedding: vectorOf(one, dimensions) })),
    ...(!uncounted && { usage: { promptTokens } }),
  }
}

function vectorOf(text: string | readonly number[], dimensions: number): number[] {
  const seed = createHash('sha256').update(JSON.stringify(text)).digest()
  const numbers = Array.from({ length: dimensions }, (_, at) => {
    const byte = seed[at % seed.length]! ^ Math.floor(at / seed.length)
    return ((byte & 0xff) - 127.5) / 127.5
  })
  const length = Math.hypot(...numbers)
  return numbers.map((one) => one / length)
}
