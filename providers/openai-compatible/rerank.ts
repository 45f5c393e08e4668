/** Orders of documents, from vendors with Jina's API or Cohere's. */
import type { Host, Provider, RerankInput, RerankResult, Usage } from '../../src/plugin.ts'
import { countOrNone, notAnAnswer, parseAnswer, send } from '../shared/http.ts'
import { httpFailure, inbandFailure } from './errors.ts'

/** The APIs that vendors have. */
export const RERANK_APIS = ['jina', 'cohere'] as const
type RerankApi = (typeof RERANK_APIS)[number]

/** Options of a deployment that matter here. */
interface Options {
  readonly omit?: readonly string[]
  readonly rerank: RerankApi
}

/** URL and headers of requests. */
interface RerankTarget {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

/**
 * The rerank method of a provider.
 * @param targetOf called for every request
 */
export function createRerank(
  host: Host,
  targetOf: (api: RerankApi) => RerankTarget,
): Required<Pick<Provider, 'rerank'>> {
  return {
    async rerank({ input, model, options, signal }) {
      const { rerank: api, omit = [] } = options as unknown as Options
      const body: Record<string, unknown> = { model, ...toBody(input, api) }
      for (const name of omit) delete body[name]
      const request = { ...targetOf(api), body: JSON.stringify(body), signal }
      const response = await send(host, request, httpFailure)
      return readResults(await response.text(), host)
    },
  }
}

/** Cohere takes texts only. Jina sends the documents back unless it is told not to. */
function toBody(input: RerankInput, api: RerankApi): object {
  if (api === 'jina') return { ...input, return_documents: false }
  const documents = input.documents.map((one) => (typeof one === 'string' ? one : one.text))
  return { ...input, documents }
}

function readResults(text: string, host: Host): RerankResult {
  const answer = Object(parseAnswer(text, host.fail))
  if (!Array.isArray(answer.results)) {
    throw inbandFailure(host.fail, answer)?.error ?? notAnAnswer(host.fail)
  }
  return { results: answer.results, usage: usageIn(answer) }
}

function usageIn({ usage, meta }: any): Usage {
  const { total_tokens: total, prompt_tokens: prompt } = usage ?? {}
  const promptTokens = countOrNone(prompt ?? total ?? meta?.tokens?.input_tokens)
  const searchUnits = countOrNone(meta?.billed_units?.search_units)
  return {
    ...(promptTokens !== null && { promptTokens }),
    ...(searchUnits !== null && { searchUnits }),
  }
}
