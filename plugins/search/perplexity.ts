/** Perplexity's Search API, `POST /search`. It reports no cost; every request has the same price. */
import * as v from 'valibot'
import {
  defineSearch,
  type SearchResult,
  type SearchQuery,
  type OptionField,
} from '../../src/plugin.ts'
import { request, searchResult, hostsOf, listOf, wholeHostsOf } from './shared/engine.ts'

const QUERY = 400
const DOMAINS = 20
const CHARACTERS_PER_TOKEN = 4

const options = v.strictObject({
  apiKey: v.pipe(v.string(), v.minLength(1)),
  baseURL: v.optional(v.pipe(v.string(), v.url()), 'https://api.perplexity.ai'),
})

const fields: readonly OptionField[] = [
  { name: 'apiKey', label: 'API key', kind: 'secret', required: true },
  { name: 'baseURL', label: 'Address', kind: 'address' },
]

export default defineSearch({
  name: 'perplexity',
  narrows: { include: 'hosts', exclude: 'hosts' },
  options,
  fields,
  setup({ apiKey, baseURL }, host) {
    const url = `${baseURL.replace(/\/+$/, '')}/search`
    const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
    return {
      async search(query, signal) {
        const body = JSON.stringify({
          query: query.text(QUERY),
          max_results: query.maxResults,
          max_tokens_per_page: Math.ceil(query.maxCharacters / CHARACTERS_PER_TOKEN),
          search_domain_filter: filterOf(query),
        })
        const { results } = await request(host, { url, headers, body, signal })
        return { results: listOf(results).flat().map(toResult) }
      },
    }
  },
})

/** Includes and excludes cannot be combined. The gateway filters the results for the rest. */
function filterOf({ includeDomains, excludeDomains }: SearchQuery): string[] | undefined {
  const include = hostsOf(includeDomains)
  const filter =
    include.length > 0 ? include : wholeHostsOf(excludeDomains).map((host) => `-${host}`)
  return filter.length > 0 ? filter.slice(0, DOMAINS) : undefined
}

function toResult(result: any): SearchResult {
  const { url, title, snippet, date, last_updated } = result ?? {}
  return searchResult({ url, title, content: snippet, publishedAt: date ?? last_updated })
}
