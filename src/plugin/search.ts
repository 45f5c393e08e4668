/** Search plugins run web searches whose results are given to the model. */
import { API_VERSION, type Closable, type Plugin, type Schema } from './base.ts'

/** A host with its subdomains, or a path on it. */
export interface DomainFilter {
  /** Lower case; international names in their ASCII form (`xn--…`). Subdomains are included. */
  readonly host: string
  /** Only addresses below this path, such as `/docs`. */
  readonly path?: string
}

/** One web search. */
export interface SearchQuery {
  /** The query on one line, not empty. @param limit most characters, in UTF-16 code units */
  text(limit: number): string
  /** Number of results, 1 to 10. Further results may replace some that the gateway drops. */
  readonly maxResults: number
  /** Most characters of `content` per result. The gateway cuts longer ones. */
  readonly maxCharacters: number
  /**
   * Domains to search; empty for all. The gateway drops results from elsewhere, so an engine applies what it supports and
   * must not narrow the search further.
   */
  readonly includeDomains: readonly DomainFilter[]
  /** Domains to leave out, treated in the same way. */
  readonly excludeDomains: readonly DomainFilter[]
}

/** One page. */
export interface SearchResult {
  /** http or https. Of results with the same address the first is used. */
  readonly url: string
  /** It may be empty. */
  readonly title: string
  /** The relevant text of the page, plain or Markdown. */
  readonly content: string
  /** Moment in any format of the engine. */
  readonly publishedAt?: string
}

/** The outcome of a search. */
export interface SearchResponse {
  /** Results, the best first. */
  readonly results: readonly SearchResult[]
  /** The engine's figure of the cost, USD as decimal text. Shown to the operator as a check, never charged. */
  readonly vendorCost?: string
}

/** A set-up search engine. */
export interface SearchEngine extends Closable {
  /**
   * Runs one search, without retries.
   * @throws what {@link Host.fail} makes; the configuration's `search.onError` decides whether the call fails
   */
  search(query: SearchQuery, signal: AbortSignal): Promise<SearchResponse>
}

/**
 * How exactly an engine narrows a search: `paths`, by hosts and paths on them; `hosts`, by hosts alone. An excluded path does
 * not leave its whole host out.
 */
export interface Narrowing {
  readonly include?: 'hosts' | 'paths'
  readonly exclude?: 'hosts' | 'paths'
}

/** A search plugin. */
export interface SearchPlugin<S extends Schema = Schema<any>> extends Plugin<
  'search',
  S,
  SearchEngine
> {
  /** The domain filters that the engine applies; the kit holds it to them. */
  readonly narrows?: Narrowing
}

/** Marks a plain object as a search plugin. Example: `plugins/search/searxng.ts`. */
export function defineSearch<S extends Schema>(
  plugin: Omit<SearchPlugin<S>, 'kind' | 'api'>,
): SearchPlugin<S> {
  return { kind: 'search', api: API_VERSION, ...plugin }
}
