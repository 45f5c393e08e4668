/** What engines hand over, checked: addresses that can be shown, text that can be read, nothing twice, nothing endless. */
import type { SearchResult } from '../plugin.ts'
import type { DomainRules } from './domains.ts'
import { singleLine, shorten, visible } from './texts.ts'

/** UTF-16 code units of one excerpt. */
export const EXCERPT_CHARACTERS = 2000
/** UTF-16 code units of all excerpts of one search: some 3,000 tokens. */
export const ALL_CHARACTERS = 12_000

const URL_CHARACTERS = 2048
const TITLE_CHARACTERS = 200
const DATE_CHARACTERS = 40

/**
 * At most `limit` hits, best first. Left out is what is no hit, has an address that is not http(s) or holds a password,
 * comes from elsewhere than was asked for, says nothing, or was there before.
 */
export function cleanResults(
  hits: readonly unknown[],
  rules: DomainRules,
  limit: number,
): SearchResult[] {
  const kept = new Map<string, SearchResult>()
  for (const hit of hits) {
    const url = addressOf(hit)
    if (!url || !rules.allow(url) || kept.has(urlKey(url))) continue
    const { title, content, publishedAt } = hit as Partial<Record<keyof SearchResult, unknown>>
    const text = visible(asText(content))
    if (!text) continue
    const date = shorten(singleLine(asText(publishedAt)), DATE_CHARACTERS)
    kept.set(urlKey(url), {
      url: url.href,
      title: shorten(singleLine(asText(title)), TITLE_CHARACTERS, '…') || url.hostname,
      content: text,
      ...(date && { publishedAt: date }),
    })
    if (kept.size === limit) break
  }
  return fitted([...kept.values()])
}

/** The same for addresses that lead to the same page: no scheme, no `www.`, no fragment, nothing that tracks. */
export function urlKey({ hostname, port, pathname, search }: URL): string {
  const query = search
    .slice(1)
    .split('&')
    .filter((pair) => pair && !pair.startsWith('utm_'))
    .join('&')
  const host = hostname.replace(/^www\./, '') + (port && `:${port}`)
  return `${host}${pathname.replace(/\/+$/, '')}${query && `?${query}`}`
}

function addressOf(hit: unknown): URL | undefined {
  const address: unknown = typeof hit === 'object' && hit !== null && 'url' in hit ? hit.url : ''
  if (typeof address !== 'string' || address.length > URL_CHARACTERS) return undefined
  const url = URL.parse(address.trim())
  if (!url || !/^https?:$/.test(url.protocol)) return undefined
  return url.username || url.password || url.href.length > URL_CHARACTERS ? undefined : url
}

/** Cuts what is too long; what short hits leave is for those after them. */
function fitted(hits: readonly SearchResult[]): SearchResult[] {
  let left = ALL_CHARACTERS
  return hits.map((hit, i) => {
    const share = Math.floor(left / (hits.length - i))
    const content = shorten(hit.content, Math.min(EXCERPT_CHARACTERS, share), ' …')
    left -= content.length
    return { ...hit, content }
  })
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
