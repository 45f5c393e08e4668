/** Checks and bounds the results of search engines. */
import { isObject } from '../errors/checks.ts'
import type { SearchResult } from '../plugin.ts'
import type { DomainRules } from './domains.ts'
import { singleLine, shorten, visible } from './texts.ts'

/** Limit of one excerpt, in UTF-16 code units. */
export const EXCERPT_CHARACTERS = 2000
/** Limit of all excerpts of one search together, in UTF-16 code units: about 3,000 tokens. */
export const ALL_CHARACTERS = 12_000

const URL_CHARACTERS = 2048
const TITLE_CHARACTERS = 200
const DATE_CHARACTERS = 40

interface CleanResults {
  readonly results: SearchResult[]
  /** Number of results without text or without an address that can be shown. */
  readonly dropped: number
  /** Number of the others, outside the domain rules or not. */
  readonly used: number
}

/** Most results of an engine that are read. */
const MOST_READ = 20

/**
 * At most `limit` results, in the order of the engine. Drops results without text, with an address that is not http(s) or
 * contains a password, outside the domain rules, or for a page that is in the list already.
 */
export function cleanResults(
  results: readonly unknown[],
  rules: DomainRules,
  limit: number,
): CleanResults {
  let [dropped, used] = [0, 0]
  const kept = new Map<string, SearchResult>()
  for (const result of results.slice(0, MOST_READ)) {
    const url = addressOf(result)
    const { title, content, publishedAt } = Object(result) as Record<string, unknown>
    const text = url && visible(asText(content))
    if (!url || !text) {
      dropped++
      continue
    }
    used++
    if (!rules.allow(url) || kept.has(urlKey(url))) continue
    const date = shorten(singleLine(asText(publishedAt)), DATE_CHARACTERS)
    kept.set(urlKey(url), {
      url: url.href,
      title: shorten(singleLine(asText(title)), TITLE_CHARACTERS, '…') || url.hostname,
      content: text,
      ...(date && { publishedAt: date }),
    })
    if (kept.size === limit) break
  }
  return { results: fitted([...kept.values()]), dropped, used }
}

/** A key that is equal for addresses of the same page: without scheme, `www.`, fragment and tracking parameters. */
export function urlKey({ hostname, port, pathname, search }: URL): string {
  const query = search
    .slice(1)
    .split('&')
    .filter((pair) => pair && !pair.startsWith('utm_'))
    .join('&')
  const host = hostname.replace(/^www\./, '') + (port && `:${port}`)
  return `${host}${pathname.replace(/\/+$/, '')}${query && `?${query}`}`
}

function addressOf(result: unknown): URL | undefined {
  const address: unknown = isObject(result) ? result.url : ''
  if (typeof address !== 'string' || address.length > URL_CHARACTERS) return undefined
  const url = URL.parse(address.trim())
  if (!url || !/^https?:$/.test(url.protocol)) return undefined
  return url.username || url.password || url.href.length > URL_CHARACTERS ? undefined : url
}

/** Cuts excerpts to their share of {@link ALL_CHARACTERS}; the unused share of short excerpts goes to later ones. */
function fitted(results: readonly SearchResult[]): SearchResult[] {
  let left = ALL_CHARACTERS
  return results.map((result, i) => {
    const share = Math.floor(left / (results.length - i))
    const content = shorten(result.content, Math.min(EXCERPT_CHARACTERS, share), ' …')
    left -= content.length
    return { ...result, content }
  })
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
