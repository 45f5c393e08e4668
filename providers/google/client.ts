/** How Google is asked: where, with which headers, and what its refusals mean. */
import type { Host, UpstreamResponse } from '../../src/plugin.ts'
import { httpFailure, notAnAnswer } from './errors.ts'

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

const MAX_ERROR_BYTES = 1024 * 1024

export function createClient({ baseURL, apiKey, headers: own }: Access, host: Host): Client {
  const base = baseURL.replace(/\/+$/, '')
  const sent: Record<string, string> = { 'content-type': 'application/json' }
  // Never in the address: addresses end up in logs.
  if (apiKey) sent['x-goog-api-key'] = apiKey
  for (const [name, value] of Object.entries(own)) sent[name.toLowerCase()] = value
  return {
    async post(model, verb, body, { signal, stream = false }) {
      // Tuned models and other collections bring their own path.
      const path = encodeURI(model.includes('/') ? model : `models/${model}`)
      const response = await host.request({
        url: `${base}/${path}:${verb}`,
        headers: sent,
        body: JSON.stringify(body),
        signal,
        stream,
      })
      const { status, headers } = response
      if (status >= 200 && status < 300) return response
      throw httpFailure(host.fail, status, headers, await errorText(response, signal))
    },
  }
}

/** A whole answer. @throws the failure class `upstream_error` when it is not JSON */
export async function readJson(response: UpstreamResponse, host: Host): Promise<any> {
  const text = await response.text()
  try {
    return JSON.parse(text)
  } catch {
    // Without the cause: it quotes the body.
    throw notAnAnswer(host.fail)
  }
}

/** What Google says about its refusal; the status counts even when that cannot be read. */
async function errorText(response: UpstreamResponse, signal: AbortSignal): Promise<string> {
  try {
    return await response.text(MAX_ERROR_BYTES)
  } catch {
    signal.throwIfAborted()
    return ''
  }
}
