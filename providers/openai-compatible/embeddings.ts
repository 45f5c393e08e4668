/** Embeddings of vendors with OpenAI's API. */
import type { EmbeddingInput, EmbeddingResult, Host, Provider } from '../../src/plugin.ts'
import { countOrNone, notAnAnswer, parseAnswer, send } from '../shared/http.ts'
import { embeddedInBatches } from '../shared/batches.ts'
import { httpFailure, inbandFailure } from './errors.ts'

/** Differences between vendors. An absent member means that the vendor behaves like OpenAI. */
export interface EmbeddingQuirks {
  /** All members of the request that the vendor knows. Without it unknown members pass. */
  readonly knows?: ReadonlySet<string>
  /** OpenAI's member names, and the vendor's. */
  readonly renames?: Readonly<Record<string, string>>
  /** Most inputs of one request. */
  readonly batch?: number
}

/** URL, headers and quirks for requests to a model. */
interface EmbeddingTarget {
  /** The complete URL, with any query. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly quirks: { readonly embeddings?: EmbeddingQuirks }
}

/** Options of a deployment that matter here. */
interface Options {
  readonly omit?: readonly string[]
  readonly batch?: number | undefined
}

/** Room for 2,048 of the longest vectors, written as decimal numbers. */
const MAX_ANSWER_BYTES = 256 * 1024 * 1024

/**
 * The embedding method of a provider.
 * @param targetOf called for every request
 */
export function createEmbeddings<Own extends Options>(
  host: Host,
  targetOf: (model: string, options: Own) => EmbeddingTarget,
): Required<Pick<Provider, 'embed'>> {
  return {
    embed({ input, model, options, signal }) {
      const own = options as Own
      const { url, headers, quirks } = targetOf(model, own)
      const { embeddings = {} } = quirks
      const batch = own.batch ?? embeddings.batch
      return embeddedInBatches(input, batch, async (part) => {
        const body = { model, ...toBody(part, embeddings, own) }
        const request = { url, headers, body: JSON.stringify(body), signal }
        const response = await send(host, request, httpFailure)
        return readEmbeddings(await response.text(MAX_ANSWER_BYTES), host)
      })
    },
  }
}

function toBody(
  input: EmbeddingInput,
  { knows, renames = {} }: EmbeddingQuirks,
  { omit = [] }: Options,
): object {
  const members = Object.entries(input).flatMap(([name, value]) => {
    if (value === undefined || (knows && !knows.has(name))) return []
    const sent = Object.hasOwn(renames, name) ? renames[name]! : name
    return omit.includes(sent) ? [] : [[sent, value]]
  })
  return Object.fromEntries(members)
}

function readEmbeddings(text: string, host: Host): EmbeddingResult {
  const answer = Object(parseAnswer(text, host.fail))
  const { data, usage } = answer
  if (!Array.isArray(data)) {
    throw inbandFailure(host.fail, answer)?.error ?? notAnAnswer(host.fail)
  }
  const promptTokens = countOrNone(usage?.prompt_tokens ?? usage?.total_tokens)
  return { data, ...(promptTokens !== null && { usage: { promptTokens } }) }
}

/** OpenAI's own. */
export const OPENAI_EMBEDDINGS: EmbeddingQuirks = {
  knows: new Set(['input', 'encoding_format', 'dimensions', 'user']),
}

/** Mistral's own names. */
export const MISTRAL_EMBEDDINGS: EmbeddingQuirks = {
  knows: new Set(['input', 'encoding_format', 'dimensions', 'output_dimension', 'metadata']),
  renames: { dimensions: 'output_dimension' },
}
