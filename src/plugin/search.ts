/** Search engines look a question up in the web and hand over what they found. */
import { API_VERSION, type Host, type Output, type Schema } from './base.ts'

/** A part of the web. */
export interface DomainFilter {
  /** This host and all below it; lower case, international names in their ASCII form. */
  readonly host: string
  /** Only what is under this path, such as `/docs`. */
  readonly path?: string
}

/** One question to the web. */
export interface SearchQuery {
  /** What was asked, on one line, in at most so many characters (UTF-16 code units); at least one. */
  text(limit: number): string
  /** How many hits are wanted, 1 to 10; those beyond may fill in for others. */
  readonly maxResults: number
  /** Of `content`, for each hit: what is longer is cut. */
  readonly maxCharacters: number
  /**
   * Where to look; empty for everywhere. A hint: the gateway holds every hit against what the caller asked for, wildcards
   * included. An engine narrows its search as far as it can, and never further.
   */
  readonly includeDomains: readonly DomainFilter[]
  /** Where not to look; a hint too. */
  readonly excludeDomains: readonly DomainFilter[]
}

/** One page that was found. */
export interface SearchResult {
  /** http or https. Hits with the same address count once. */
  readonly url: string
  /** Empty when the engine has none. */
  readonly title: string
  /** What was found there, as plain text or Markdown. */
  readonly content: string
  /** As the engine says it. */
  readonly publishedAt?: string
}

/** What an engine found, best first. */
export interface SearchResponse {
  readonly results: readonly SearchResult[]
  /** USD as the engine reports it, decimal text: a cross-check for the operator, never the charge. */
  readonly vendorCost?: string
}

export interface SearchEngine {
  /** One request; no retries. @throws what `host.fail` makes */
  search(query: SearchQuery, signal: AbortSignal): Promise<SearchResponse>
  close?(): void | Promise<void>
}

export interface SearchPlugin<S extends Schema = Schema<any>> {
  readonly kind: 'search'
  readonly api: number
  readonly name: string
  /** Validates `search.engines.<name>.options`. */
  readonly options: S
  setup(options: Output<S>, host: Host): SearchEngine | Promise<SearchEngine>
}

/** Brands a search plugin. @example see `plugins/search/searxng.ts` */
export function defineSearch<S extends Schema>(
  plugin: Omit<SearchPlugin<S>, 'kind' | 'api'>,
): SearchPlugin<S> {
  return { kind: 'search', api: API_VERSION, ...plugin }
}
