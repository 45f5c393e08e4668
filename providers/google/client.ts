/** How Google is asked: where, with which headers, and what its refusals mean. */
import type { Host, UpstreamResponse } from '../../src/plugin.ts'
import { mergeHeaders, parseAnswer, send } from '../shared/http.ts'
import { httpFailure } from './errors.ts'

/** What has to be known to ask. */
export interface Access {
  /** Up to and without `/models/…`. */
  readonly baseURL: string
  readonly apiKey?: string | undefined
  /** Sent with every request; they win over the others. */
  readonly headers: Readonly<Record<string, string>>
}

export interface Client {
  /**
   * `POST {baseURL}/models/{model}:{verb}`.
   * @param verb with its query, such as `streamGenerateContent?alt=sse`
   * @throws the failure that a status other than 2xx stands for
   */
  post(model: string, verb: string, body: object, how: How): Promise<UpstreamResponse>
}

/** As {@link UpstreamRequest} says. */
export interface How {
  readonly signal: AbortSignal
  readonly stream?: boolean
}

export function createClient({ baseURL, apiKey, headers: own }: Access, host: Host): Client {
  const base = baseURL.replace(/\/+$/, '')
  const sent = mergeHeaders(
    {
      'content-type': 'application/json',
      // Never in the address: addresses end up in logs.
      ...(apiKey && { 'x-goog-api-key': apiKey }),
    },
    own,
  )
  return {
    post(model, verb, body, { signal, stream = false }) {
      // Tuned models and other collections bring their own path.
      const path = encodeURI(model.includes('/') ? model : `models/${model}`)
      const url = `${base}/${path}:${verb}`
      const request = { url, headers: sent, body: JSON.stringify(body), signal, stream }
      return send(host, request, ({ status, headers }, text) =>
        httpFailure(host.fail, status, headers, text),
      )
    },
  }
}

/** A whole answer. @throws the failure class `upstream_error` when it is not JSON */
export async function readJson(response: UpstreamResponse, host: Host): Promise<any> {
  return parseAnswer(await response.text(), host.fail)
}
