/** HTTP client for the Gemini API. */
import type { Host, OfferedModel, UpstreamResponse } from '../../src/plugin.ts'
import { mergeHeaders, parseAnswer, send, countOrNone, notAnAnswer } from '../shared/http.ts'
import { isName, listPages, offerOf, rowsOf } from '../shared/offers.ts'
import { httpFailure } from './errors.ts'

/** Address and credentials. */
interface ClientOptions {
  /** The address without `/models/…`. */
  readonly baseURL: string
  readonly apiKey?: string | undefined
  /** Path before `models/` of models that are named without a path. */
  readonly publisher?: string
  /** It is sent with every request. They win over the client's own. */
  readonly headers: Readonly<Record<string, string>>
}

/** Sends requests. */
export interface Client {
  /**
   * Sends `POST {baseURL}/models/{model}:{verb}`.
   * @param verb the verb with its query, such as `streamGenerateContent?alt=sse`
   * @throws the failure for an answer with another status than 2xx
   */
  post(model: string, verb: string, body: object, options: PostOptions): Promise<UpstreamResponse>
  /** The models that Google names. @throws as {@link Client.post} */
  models(signal: AbortSignal): Promise<readonly OfferedModel[]>
}

/** See `UpstreamRequest`. */
interface PostOptions {
  readonly signal: AbortSignal
  readonly stream?: boolean
}

/** A client with these credentials. */
export function createClient(
  { baseURL, apiKey, publisher = '', headers: own }: ClientOptions,
  host: Host,
): Client {
  const base = baseURL.replace(/\/+$/, '')
  const sent = mergeHeaders(
    {
      'content-type': 'application/json',
      // Not in the URL, because URLs appear in logs.
      ...(apiKey && { 'x-goog-api-key': apiKey }),
    },
    own,
  )
  return {
    models(signal) {
      const url = `${base}/models?pageSize=1000`
      return listPages(
        host,
        { url, headers: sent, httpFailure, signal },
        (page) => rowsOf(host, page).map(namedOf),
        ({ nextPageToken: token }) =>
          typeof token === 'string' && token !== ''
            ? `${url}&pageToken=${encodeURIComponent(token)}`
            : undefined,
      )
    },
    post(model, verb, body, { signal, stream = false }) {
      // Names of tuned models and other collections contain their path.
      const path = encodeURI(model.includes('/') ? model : `${publisher}models/${model}`)
      const url = `${base}/${path}:${verb}`
      const request = { url, headers: sent, body: JSON.stringify(body), signal, stream }
      return send(host, request, httpFailure)
    },
  }
}

/** A row whose name is `models/…`. */
function namedOf({ name, displayName, ...row }: Readonly<Record<string, any>>) {
  if (!isName(name)) return undefined
  return offerOf({ ...row, id: name.replace(/^models\//, ''), name: displayName })
}

/** Reads a whole answer. @throws the failure class `upstream_error` when it is not JSON */
export async function readJson(response: UpstreamResponse, host: Host): Promise<any> {
  return parseAnswer(await response.text(), host.fail)
}

// Counts of prompts, by Google.

/** A request whose prompt is counted. */
interface Counted {
  /** The body of the request for the answer. */
  readonly body: Readonly<Record<string, unknown>>
  readonly model: string
  readonly isVertex: boolean
  readonly signal: AbortSignal
}

/** Has Google count the tokens of a request. Vertex AI takes its members bare, the Gemini API as a whole request. */
export async function countTokens(
  { body, model, isVertex, signal }: Counted,
  client: Client,
  host: Host,
): Promise<number> {
  const { contents, systemInstruction, tools } = body
  const read = { contents, systemInstruction, tools }
  const name = model.includes('/') ? model : `models/${model}`
  const requestBody = isVertex ? read : { generateContentRequest: { model: name, ...read } }
  const response = await client.post(model, 'countTokens', requestBody, { signal })
  const { totalTokens } = Object(await readJson(response, host))
  const tokens = countOrNone(totalTokens)
  if (tokens === null) throw notAnAnswer(host.fail)
  return tokens
}
