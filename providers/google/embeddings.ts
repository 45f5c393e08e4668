/** Embeddings of Google's models: by the Gemini API, or by the older one of Vertex AI. */
import type { EmbeddingInput, EmbeddingResult, Host, Provider } from '../../src/plugin.ts'
import { embeddedInBatches } from '../shared/batches.ts'
import { countOrNone, notAnAnswer } from '../shared/http.ts'
import { readJson, type Client } from './client.ts'
import { inbandFailure } from './errors.ts'

/** Most texts of one request. */
const BATCH = 100
/** Models of Vertex AI that take one text at a time. */
const ONE_TEXT = /^gemini-embedding/
/** Google's own members of a request, by the names that clients may use for them. */
const OWN = { taskType: 'taskType', task_type: 'taskType', title: 'title' } as const

/** The embedding method of the provider. @param onVertex the models are on Vertex AI */
export function createEmbeddings(
  client: Client,
  host: Host,
  onVertex: boolean,
): Required<Pick<Provider, 'embed'>> {
  const { verb, toBody, read } = onVertex ? VERTEX : GEMINI
  return {
    embed: ({ input, model, signal }) =>
      embeddedInBatches(input, onVertex && ONE_TEXT.test(model) ? 1 : BATCH, async (part) => {
        const texts = part.input.map((one) => textIn(one, host))
        const response = await client.post(model, verb, toBody(texts, input, model), { signal })
        const answer = Object(await readJson(response, host))
        const result = read(answer)
        if (!result) throw inbandFailure(host.fail, answer) ?? notAnAnswer(host.fail)
        return result
      }),
  }
}

/** One of the two APIs. */
interface Api {
  readonly verb: string
  toBody(texts: readonly string[], input: EmbeddingInput, model: string): object
  /** It is undefined for what is no answer. */
  read(answer: any): EmbeddingResult | undefined
}

const GEMINI: Api = {
  verb: 'batchEmbedContents',
  toBody: (texts, input, model) => ({
    requests: texts.map((text) => ({
      model: model.includes('/') ? model : `models/${model}`,
      content: { parts: [{ text }] },
      ...(input.dimensions !== undefined && { outputDimensionality: input.dimensions }),
      ...ownMembers(input),
    })),
  }),
  read: ({ embeddings, usageMetadata }) =>
    Array.isArray(embeddings)
      ? resultOf(
          embeddings.map((one) => one?.values),
          countOrNone(usageMetadata?.promptTokenCount),
        )
      : undefined,
}

const VERTEX: Api = {
  verb: 'predict',
  toBody(texts, input) {
    const { taskType: task_type, title } = ownMembers(input)
    const own = {
      ...(task_type !== undefined && { task_type }),
      ...(title !== undefined && { title }),
    }
    return {
      instances: texts.map((content) => ({ content, ...own })),
      ...(input.dimensions !== undefined && {
        parameters: { outputDimensionality: input.dimensions },
      }),
    }
  },
  read({ predictions }) {
    if (!Array.isArray(predictions)) return undefined
    const all = predictions.map((one) => Object(one?.embeddings))
    const counts = all.map(({ statistics }) => countOrNone(statistics?.token_count))
    const sum = counts.reduce(
      (one, other) => (one === null || other === null ? null : one + other),
      0,
    )
    return resultOf(
      all.map(({ values }) => values),
      sum,
    )
  },
}

function resultOf(vectors: readonly any[], promptTokens: number | null): EmbeddingResult {
  return {
    data: vectors.map((embedding) => ({ embedding })),
    ...(promptTokens !== null && { usage: { promptTokens } }),
  }
}

function textIn(one: EmbeddingInput['input'][number], host: Host): string {
  if (typeof one === 'string') return one
  const message = 'The model takes no tokens: send text instead of tokens.'
  throw host.fail('bad_request', message, { code: 'unsupported_value', param: 'input' })
}

function ownMembers(input: EmbeddingInput): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(OWN).flatMap(([name, sent]) =>
      input[name] === undefined ? [] : [[sent, input[name]]],
    ),
  )
}
