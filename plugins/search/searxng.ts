/**
 * A SearXNG server, asked over its JSON API (https://docs.searxng.org/dev/search_api.html). It needs no key, but `json`
 * in `search.formats` of its settings; otherwise it answers with status 403.
 */
import * as v from 'valibot'
import {
  defineSearch,
  type SearchResult,
  type SearchQuery,
  type OptionField,
} from '../../src/plugin.ts'
import { request, searchResult, hostsOf, listOf, wholeHostsOf } from './shared/engine.ts'

const QUERY = 400
/** Engines behind SearXNG evaluate only the first few operators. */
const DOMAINS = 5

const options = v.strictObject({
  baseURL: v.pipe(v.string(), v.url()),
  /** A language such as `en` or `de-CH`; the server's setting by default. */
  language: v.optional(v.string()),
  /** Categories such as `general` or `general,news`; the server's setting by default. */
  categories: v.optional(v.string()),
})

const fields: readonly OptionField[] = [
  { name: 'baseURL', label: 'Address', kind: 'address', required: true },
  { name: 'language', label: 'Language', kind: 'text', example: 'de-CH' },
  { name: 'categories', label: 'Categories', kind: 'text', example: 'general,news' },
]

export default defineSearch({
  name: 'searxng',
  narrows: { include: 'hosts', exclude: 'hosts' },
  options,
  fields,
  setup({ baseURL, language, categories }, host) {
    const address = `${baseURL.replace(/\/+$/, '')}/search`
    return {
      async search(query, signal) {
        const parameters = new URLSearchParams({ q: wordsOf(query), format: 'json' })
        if (language) parameters.set('language', language)
        if (categories) parameters.set('categories', categories)
        const headers = { accept: 'application/json' }
        const url = `${address}?${parameters}`
        const { results } = await request(host, { url, method: 'GET', headers, signal })
        return { results: listOf(results).map(toResult) }
      },
    }
  },
})

/** The query text, with the `site:` operators that most engines support. */
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

function toResult(result: any): SearchResult {
  const { url, title, content, publishedDate } = result ?? {}
  return searchResult({ url, title, content, publishedAt: publishedDate })
}
