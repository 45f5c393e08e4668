/** Requests to search engines, and helpers for their results. */
import type {
  DomainFilter,
  FailureClass,
  SearchResult,
  Host,
  UpstreamRequest,
  UpstreamResponse,
} from '../../../src/plugin.ts'

const LIMIT_BYTES = 4 * 1024 * 1024

const CLASSES: Readonly<Record<number, FailureClass>> = {
  400: 'bad_request',
  401: 'upstream_auth',
  402: 'upstream_balance',
  403: 'upstream_auth',
  404: 'not_found',
  422: 'bad_request',
  429: 'upstream_rate',
  503: 'overloaded',
}

const MESSAGES: Partial<Record<FailureClass, string>> = {
  bad_request: 'The search engine rejected the request.',
  upstream_auth: 'The search engine refused the credentials.',
  upstream_balance: 'The account at the search engine has no credit left.',
  upstream_rate: 'The search engine is asked too often.',
  not_found: 'There is no search engine at this address.',
}

/**
 * Sends a request and returns the JSON object of the answer.
 * @throws the failure class for the status; `upstream_error` when the answer is not a JSON object
 */
export async function request(host: Host, init: UpstreamRequest): Promise<any> {
  const response = await host.request(init)
  const { status } = response
  if (status !== 200) {
    const failure = CLASSES[status] ?? 'upstream_error'
    const message = MESSAGES[failure] ?? `The search engine failed with status ${status}.`
    await response.body.close()
    throw host.fail(failure, message, waitOf(response))
  }
  const answer = parse(await response.text(LIMIT_BYTES))
  if (typeof answer === 'object' && answer !== null) return answer
  throw host.fail('upstream_error', 'The search engine did not answer with JSON.')
}

/** Hosts of a filter, for engines that do not support paths. */
export function hostsOf(domains: readonly DomainFilter[]): string[] {
  return [...new Set(domains.map(({ host }) => host))]
}

/** Hosts that are filtered as a whole. An excluded path must not exclude the rest of its host. */
export function wholeHostsOf(domains: readonly DomainFilter[]): string[] {
  return hostsOf(domains.filter(({ path }) => path === undefined))
}

/** The value if it is a list; otherwise an empty list. */
export function listOf(value: unknown): readonly any[] {
  return Array.isArray(value) ? value : []
}

/** A search result from an engine's members. Members that are not texts become empty. */
export function searchResult(sent: Readonly<Record<keyof SearchResult, unknown>>): SearchResult {
  const text = (value: unknown) => (typeof value === 'string' ? value : '')
  const publishedAt = text(sent.publishedAt)
  return {
    url: text(sent.url),
    title: text(sent.title),
    content: text(sent.content),
    ...(publishedAt && { publishedAt }),
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Milliseconds of `Retry-After`, in seconds or as a date (RFC 9110, section 10.2.3). */
function waitOf({ headers }: UpstreamResponse): { retryAfterMs?: number } {
  const text = headers['retry-after']
  if (!text) return {}
  const ms = /^\d+(\.\d+)?$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now()
  return ms >= 0 ? { retryAfterMs: ms } : {}
}
