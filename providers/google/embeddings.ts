/** Embeddings of Gemini models. */
import type { EmbeddingInput, Host, Provider } from '../../src/plugin.ts'
import { embeddedInBatches } from '../shared/batches.ts'
import { countOrNone, notAnAnswer } from '../shared/http.ts'
import { readJson, type Client } from './client.ts'
import { inbandFailure } from './errors.ts'

/** Most texts of one request. */
const BATCH = 100
/** Google's own members of a request, by the names that clients may use for them. */
const OWN = { taskType: 'taskType', task_type: 'taskType', title: 'title' } as const

/** The embedding method of the provider. */
export function createEmbeddings(client: Client, host: Host): Required<Pick<Provider, 'embed'>> {
  return {
    embed: ({ input, model, signal }) =>
      embeddedInBatches(input, BATCH, async (part) => {
        const body = { requests: part.input.map((text) => toRequest(text, input, model, host)) }
        const response = await client.post(model, 'batchEmbedContents', body, { signal })
        const answer = Object(await readJson(response, host))
        const { embeddings, usageMetadata } = answer
        if (!Array.isArray(embeddings)) {
          throw inbandFailure(host.fail, answer) ?? notAnAnswer(host.fail)
        }
        const promptTokens = countOrNone(usageMetadata?.promptTokenCount)
        return {
          data: embeddings.map((one) => ({ embedding: one?.values })),
          ...(promptTokens !== null && { usage: { promptTokens } }),
        }
      }),
  }
}

function toRequest(
  text: EmbeddingInput['input'][number],
  input: EmbeddingInput,
  model: string,
  host: Host,
): object {
  if (typeof text !== 'string') {
    const message = 'The model takes no tokens: send text instead of tokens.'
    throw host.fail('bad_request', message, { code: 'unsupported_value', param: 'input' })
  }
  const own = Object.entries(OWN).flatMap(([name, sent]) =>
    input[name] === undefined ? [] : [[sent, input[name]]],
  )
  return {
    model: model.includes('/') ? model : `models/${model}`,
    content: { parts: [{ text }] },
    ...(input.dimensions !== undefined && { outputDimensionality: input.dimensions }),
    ...Object.fromEntries(own),
  }
}
