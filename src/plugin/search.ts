import { API_VERSION, type Host, type Output, type Schema } from './base.ts'

/** One question to the web. */
export interface Query {
  /** At least one character. */
  readonly text: string
  /** 1 to 10 */
  readonly maxResults: number
  /** Hosts, with `*` for any part of one, and a path if it matters: `example.com`, `*.example.com/docs`. */
  readonly includeDomains: readonly string[]
  readonly excludeDomains: readonly string[]
}

export interface Hit {
  readonly url: string
  readonly title: string
  /** What was found there, as plain text or Markdown. */
  readonly content: string
  /** As the engine says it. */
  readonly publishedAt?: string
}

/** What an engine found. */
export interface Found {
  readonly hits: readonly Hit[]
  /** USD as the engine reports it, decimal text: a cross-check for the operator, never the charge. */
  readonly vendorCost?: string
}

export interface SearchEngine {
  /** One request; no retries. @throws what `host.fail` makes */
  search(query: Query, signal: AbortSignal): Promise<Found>
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

/** Brands a search plugin. */
export function defineSearch<S extends Schema>(
  plugin: Omit<SearchPlugin<S>, 'kind' | 'api'>,
): SearchPlugin<S> {
  return { kind: 'search', api: API_VERSION, ...plugin }
}
