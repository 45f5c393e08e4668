/** Exa's search, `POST /search`, with highlights of the pages. Exa reports the cost of each search. */
import * as v from 'valibot'
import {
  defineSearch,
  type DomainFilter,
  type SearchResult,
  type OptionField,
} from '../../src/plugin.ts'
import { request, searchResult, listOf } from './shared/engine.ts'

const QUERY = 400
const DOMAINS = 1200

const options = v.strictObject({
  apiKey: v.pipe(v.string(), v.minLength(1)),
  baseURL: v.optional(v.pipe(v.string(), v.url()), 'https://api.exa.ai'),
  type: v.optional(v.picklist(['auto', 'neural', 'fast', 'instant']), 'auto'),
})

const fields: readonly OptionField[] = [
  { name: 'apiKey', label: 'API key', kind: 'secret', required: true },
  { name: 'baseURL', label: 'Address', kind: 'address' },
  {
    name: 'type',
    label: 'Kind of search',
    kind: 'choice',
    choices: ['auto', 'neural', 'fast', 'instant'],
  },
]

export default defineSearch({
  name: 'exa',
  narrows: { include: 'paths', exclude: 'paths' },
  options,
  fields,
  setup({ apiKey, baseURL, type }, host) {
    const url = `${baseURL.replace(/\/+$/, '')}/search`
    const headers = { 'x-api-key': apiKey, 'content-type': 'application/json' }
    return {
      async search(query, signal) {
        const body = JSON.stringify({
          query: query.text(QUERY),
          type,
          numResults: query.maxResults,
          includeDomains: pathsOf(query.includeDomains),
          excludeDomains: pathsOf(query.excludeDomains),
          contents: { highlights: { maxCharacters: query.maxCharacters } },
        })
        const { results, costDollars } = await request(host, { url, headers, body, signal })
        const cost: unknown = costDollars?.total
        const items = listOf(results).map(toResult)
        // Twelve digits remove the rounding errors of floating point sums.
        return typeof cost === 'number'
          ? { results: items, vendorCost: cost.toFixed(12) }
          : { results: items }
      },
    }
  },
})

function pathsOf(domains: readonly DomainFilter[]): string[] | undefined {
  if (domains.length === 0) return undefined
  return domains.slice(0, DOMAINS).map(({ host, path = '' }) => host + path)
}

function toResult(result: any): SearchResult {
  const { url, title, publishedDate, highlights, text, summary } = result ?? {}
  const content = listOf(highlights).join('\n\n') || text || summary
  return searchResult({ url, title, content, publishedAt: publishedDate })
}
