/** Parallel's Search API, `POST /v1/search`. Its answers tell no cost: that is the rate of the mode. */
import * as v from 'valibot'
import { defineSearch, type SearchResult, type SearchQuery } from '../../src/plugin.ts'
import { ask, hitOf, hostsOf, listOf, wholeHostsOf } from './shared/ask.ts'

/** Documented limits, in characters and domains. */
const OBJECTIVE = 5000
const KEYWORDS = 200
const DOMAINS = 200

const options = v.strictObject({
  apiKey: v.pipe(v.string(), v.minLength(1)),
  baseURL: v.optional(v.pipe(v.string(), v.url()), 'https://api.parallel.ai'),
  /** Of speed and price: `advanced` takes longer than a chat may wait. */
  mode: v.optional(v.picklist(['turbo', 'basic', 'advanced']), 'basic'),
})

export default defineSearch({
  name: 'parallel',
  options,
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
        const { results } = await ask(host, { url, headers, body, signal })
        return { results: listOf(results).map(toHit) }
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

function toHit(result: any): SearchResult {
  const { url, title, publish_date, excerpts } = result ?? {}
  return hitOf({ url, title, content: listOf(excerpts).join('\n\n'), publishedAt: publish_date })
}
