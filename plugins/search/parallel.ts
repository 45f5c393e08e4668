/** Parallel's Search API, `POST /v1/search`. It reports no cost; the price depends on the mode. */
import * as v from 'valibot'
import {
  defineSearch,
  type SearchResult,
  type SearchQuery,
  type OptionField,
} from '../../src/plugin.ts'
import { request, searchResult, hostsOf, listOf, wholeHostsOf } from './shared/engine.ts'

/** Documented limits, in characters and in domains. */
const OBJECTIVE = 5000
const KEYWORDS = 200
const DOMAINS = 200

const options = v.strictObject({
  apiKey: v.pipe(v.string(), v.minLength(1)),
  baseURL: v.optional(v.pipe(v.string(), v.url()), 'https://api.parallel.ai'),
  /** Trades speed and price for depth. `advanced` takes longer than a chat should wait. */
  mode: v.optional(v.picklist(['turbo', 'basic', 'advanced']), 'basic'),
})

const fields: readonly OptionField[] = [
  { name: 'apiKey', label: 'API key', kind: 'secret', required: true },
  { name: 'baseURL', label: 'Address', kind: 'address' },
  {
    name: 'mode',
    label: 'Kind of search',
    kind: 'choice',
    choices: ['turbo', 'basic', 'advanced'],
  },
]

export default defineSearch({
  name: 'parallel',
  narrows: { include: 'hosts', exclude: 'hosts' },
  options,
  fields,
  setup({ apiKey, baseURL, mode }, host) {
    const url = `${baseURL.replace(/\/+$/, '')}/v1/search`
    const headers = { 'x-api-key': apiKey, 'content-type': 'application/json' }
    return {
      async search(query, signal) {
        const body = JSON.stringify({
          objective: query.text(OBJECTIVE),
          search_queries: [query.text(KEYWORDS)],
          mode,
          max_chars_total: query.maxCharacters * query.maxResults,
          advanced_settings: settingsOf(query),
        })
        const { results } = await request(host, { url, headers, body, signal })
        return { results: listOf(results).map(toResult) }
      },
    }
  },
})

function settingsOf(query: SearchQuery): object {
  const include_domains = hostsOf(query.includeDomains).slice(0, DOMAINS)
  const exclude_domains = wholeHostsOf(query.excludeDomains).slice(
    0,
    DOMAINS - include_domains.length,
  )
  return {
    max_results: query.maxResults,
    excerpt_settings: { max_chars_per_result: query.maxCharacters },
    source_policy:
      include_domains.length + exclude_domains.length > 0
        ? { include_domains, exclude_domains }
        : undefined,
  }
}

function toResult(result: any): SearchResult {
  const { url, title, publish_date, excerpts } = result ?? {}
  return searchResult({
    url,
    title,
    content: listOf(excerpts).join('\n\n'),
    publishedAt: publish_date,
  })
}
