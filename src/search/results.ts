/** Checks and bounds the results of search engines. */
import { isObject, wholeCharacters } from '../errors/checks.ts'
import type { SearchResult } from '../plugin.ts'
import type { DomainRules } from './domains.ts'

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

// Cleans and shortens texts from the web, and queries.

/**
 * Control characters, bidirectional marks, zero-width spaces and "tag" characters: invisible, without information, and able to
 * hide an instruction from a reader. Joiners stay, because scripts and emoji need them.
 */
const INVISIBLE =
  /(?![\t\n])\p{Cc}|[\u00ad\u200b\u202a-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu

/** The look-behind lets a match start only at the first blank of a run; otherwise long runs take quadratic time. */
const BLANKS_AT_END = /(?<![ \t])[ \t]+\n/g

/** Well-formed text without invisible characters, with line feeds as line ends and at most one empty line in a row. */
export function visible(text: string): string {
  return text
    .toWellFormed()
    .replace(/\r\n?|[\u2028\u2029]/g, '\n')
    .replace(INVISIBLE, '')
    .replace(BLANKS_AT_END, '\n')
    .replace(/\n{3,}/g, '\n\n')
    .trim()
}

/** {@link visible} text on one line. */
export function singleLine(text: string): string {
  return visible(text).replace(/\s+/g, ' ')
}

/**
 * The beginning of a text. Cut between words if that loses less than a fifth, and never inside a character.
 * @param limit UTF-16 code units, `mark` included. @param mark appended to a text that was cut
 */
export function shorten(text: string, limit: number, mark = ''): string {
  if (text.length <= limit) return text
  const room = Math.max(0, limit - mark.length)
  const blank = text.lastIndexOf(' ', room)
  const end = blank > room * 0.8 ? blank : room
  return text.slice(0, wholeCharacters(text, end)).trimEnd() + mark
}
