/**
 * A SearXNG of your own, asked over its JSON API (https://docs.searxng.org/dev/search_api.html). It needs no key, but
 * `json` among `search.formats` of its settings; it refuses with status 403 otherwise.
 */
import * as v from 'valibot'
import { defineSearch, type SearchResult, type SearchQuery } from '../../src/plugin.ts'
import { ask, hitOf, hostsOf, listOf, wholeHostsOf } from './shared/ask.ts'

const QUERY = 400
/** Engines behind it look at the first few only. */
const DOMAINS = 5

const options = v.strictObject({
  baseURL: v.pipe(v.string(), v.url()),
  /** Such as `en` or `de-CH`; by default what the server is set to. */
  language: v.optional(v.string()),
  /** Such as `general` or `general,news`; by default what the server is set to. */
  categories: v.optional(v.string()),
})

export default defineSearch({
  name: 'searxng',
  options,
  setup({ baseURL, language, categories }, host) {
    const address = `${baseURL.replace(/\/+$/, '')}/search`
    return {
      async search(query, signal) {
        const asked = new URLSearchParams({ q: wordsOf(query), format: 'json' })
        if (language) asked.set('language', language)
        if (categories) asked.set('categories', categories)
        const headers = { accept: 'application/json' }
        const url = `${address}?${asked}`
        const { results } = await ask(host, { url, method: 'GET', headers, signal })
        return { results: listOf(results).map(toHit) }
      },
    }
  },
})

/** The question, with the operators that most engines know. */
function wordsOf(query: SearchQuery): string {
  const sites = hostsOf(query.includeDomains)
    .slice(0, DOMAINS)
    .map((host) => `site:${host}`)
  const others = wholeHostsOf(query.excludeDomains)
    .slice(0, DOMAINS)
    .map((host) => `-site:${host}`)
  const where = sites.length > 1 ? [`(${sites.join(' OR ')})`] : sites
  return [query.text(QUERY), ...where, ...others].join(' ')
}

function toHit(result: any): SearchResult {
  const { url, title, content, publishedDate } = result ?? {}
  return hitOf({ url, title, content, publishedAt: publishedDate })
}
