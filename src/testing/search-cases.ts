/** Asks a search engine as the gateway does, and compares its results with its case. */
import { show } from './compare.ts'
import type {
  DomainFilter,
  FailureClass,
  SearchQuery,
  SearchResponse,
  SearchResult,
} from '../plugin.ts'

export interface SearchCase {
  readonly name: string
  /** The query; by default a question with every kind of special character. */
  readonly query?: {
    readonly text?: string
    readonly maxResults?: number
    readonly includeDomains?: readonly DomainFilter[]
    readonly excludeDomains?: readonly DomainFilter[]
  }
  /** The service's answer as a JSON value, or a recorded one. */
  readonly answer: unknown
  readonly expect: ExpectedSearch
}

/** The expected results. Members that are not named must be absent. */
interface ExpectedSearch {
  readonly results?: readonly SearchResult[]
  readonly vendorCost?: string
  /** Class of the failure with which the search ends, instead of results. */
  readonly failure?: FailureClass
  /** Wait in ms that the failure has to report. */
  readonly retry_after_ms?: number
  /** Members that the request has to have: parameters of its address, or members of its JSON body. */
  readonly sent?: Readonly<Record<string, unknown>>
}

export const WORDS = 'What does "A & B" cost in Grüße #1? 👋'

const FIELDS = ['url', 'title', 'content', 'publishedAt'] as const

export function queryOf({
  text = WORDS,
  ...others
}: NonNullable<SearchCase['query']>): SearchQuery {
  return {
    text: (limit) => text.slice(0, limit),
    maxResults: 7,
    maxCharacters: 1500,
    includeDomains: [],
    excludeDomains: [],
    ...others,
  }
}

export function differencesOf(expect: ExpectedSearch, found: SearchResponse): string[] {
  const { results, vendorCost } = found
  const wantedResults = expect.results ?? []
  const problems: string[] = []
  if (results.length !== wantedResults.length)
    problems.push(`expected ${wantedResults.length} results, found ${results.length}`)
  for (const [i, wanted] of wantedResults.entries()) {
    const result: Partial<SearchResult> = results[i] ?? {}
    for (const field of FIELDS) {
      if (result[field] === wanted[field]) continue
      const [is, not] = [result[field], wanted[field]].map((value) => JSON.stringify(value))
      problems.push(`results[${i}].${field}: expected ${not}, found ${is}`)
    }
  }
  if (vendorCost !== expect.vendorCost)
    problems.push(`vendorCost: expected ${show(expect.vendorCost)}, found ${show(vendorCost)}`)
  return problems
}
