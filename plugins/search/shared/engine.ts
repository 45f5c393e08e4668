/** Requests to search engines, and helpers for their results. */
import type { DomainFilter, FailureClass, SearchResult, Host } from '../../../src/plugin.ts'

/**
 * Sends a request and returns the JSON object of the answer.
 * @throws the failure class for the status; `upstream_error` when the answer is not a JSON object
 */
export async function request(
  host: Host,
  { url, method = 'POST', headers, body, signal }: SearchRequest,
): Promise<any> {
  const answer: unknown = await host
    .http(url, { method, headers, body: body ?? null, signal, responseType: 'json' })
    .catch(
      (error: { failure?: FailureClass; retryAfterMs?: number; cause?: { status?: number } }) => {
        const { failure, retryAfterMs, cause } = error
        if (failure === undefined || cause?.status === undefined) throw error
        const message = `The search engine failed with status ${cause.status}.`
        throw host.fail(failure, message, { cause, retryAfterMs })
      },
    )
  if (typeof answer === 'object' && answer !== null) return answer
  throw host.fail('upstream_error', 'The search engine did not answer with a JSON object.')
}

interface SearchRequest {
  readonly url: string
  readonly method?: string
  readonly headers: Record<string, string>
  readonly body?: string
  readonly signal: AbortSignal
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
