/** Checks and bounds the results of search engines. */
import { domainToASCII } from 'node:url'
import { isObject, wholeCharacters } from '../errors/checks.ts'
import type { SearchResult, DomainFilter } from '../plugin.ts'

/** Checks search results before the model or the client sees them. */
export interface ResultFilter {
  /** @returns the results that may be shown to the model and cited */
  filterResults(
    results: readonly SearchResult[],
  ): readonly SearchResult[] | Promise<readonly SearchResult[]>
}

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
 * Gives at most `limit` results, in the order of the engine. Drops results without text, with an address that is not http(s) or
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

// Domain patterns of a search: `example.com` (with subdomains), `*.example.com`, `example.com/docs`, `docs.*.org/v2/*`. Engines
// read such filters differently, so every result is checked against the patterns here.

interface DomainRules {
  /** Filters for the engine; they may include more than the patterns. */
  readonly include: readonly DomainFilter[]
  /** Filters for the engine; they may exclude less than the patterns. */
  readonly exclude: readonly DomainFilter[]
  /** Whether there are any patterns. */
  readonly any: boolean
  /** Whether a result at this address may be used. */
  allow(url: URL): boolean
}

/** Reads patterns with or without scheme, port and trailing slash. A text that is no pattern matches nothing. */
export function domainRules(include: readonly string[], exclude: readonly string[]): DomainRules {
  const included = include.map(readPattern).filter((pattern) => pattern !== undefined)
  const excluded = exclude.map(readPattern).filter((pattern) => pattern !== undefined)
  const hints = included.map(wider)
  return {
    include: hints.includes(undefined) ? [] : hints.filter((hint) => hint !== undefined),
    exclude: excluded.map(narrower).filter((hint) => hint !== undefined),
    any: include.length > 0 || exclude.length > 0,
    allow: (url) =>
      (include.length === 0 || included.some((pattern) => matches(pattern, url))) &&
      !excluded.some((pattern) => matches(pattern, url)),
  }
}

interface Pattern {
  readonly host: string
  /** Path such as `/docs`, without a trailing slash; empty for all paths. */
  readonly path: string
}

/** Longer texts are no patterns. */
const MAX_LENGTH = 2048

function readPattern(text: string): Pattern | undefined {
  if (text.length > MAX_LENGTH) return undefined
  const match =
    /^(?:[a-z][a-z\d+.-]*:\/\/)?\.?([^/?#:\s]+)(?::\d+)?(\/[^?#\s]*)?(?:[?#].*)?$/i.exec(
      text.trim(),
    )
  if (!match) return undefined
  const [, host = '', path = ''] = match
  const ascii = domainToASCII(host) || host.toLowerCase()
  return { host: ascii.replace(/\.$/, ''), path: encodedPath(path).replace(/\/+$/, '') }
}

function encodedPath(path: string): string {
  return path && new URL(path, 'http://host').pathname
}

function matches({ host, path }: Pattern, { hostname, pathname }: URL): boolean {
  const here = host.includes('*')
    ? glob(host, hostname)
    : hostname === host || hostname.endsWith(`.${host}`)
  if (!here || !path) return here
  return path.includes('*')
    ? glob(path, pathname)
    : pathname === path || pathname.startsWith(`${path}/`)
}

/** Whether a text matches a pattern in which `*` stands for any characters. Linear: each piece is searched for once. */
function glob(pattern: string, text: string): boolean {
  const [head = '', ...pieces] = pattern.split('*')
  const tail = pieces.pop() ?? ''
  if (!text.startsWith(head) || text.length < head.length + tail.length) return false
  const end = text.length - tail.length
  let at = head.length
  for (const piece of pieces) {
    const index = text.indexOf(piece, at)
    if (index < 0 || index + piece.length > end) return false
    at = index + piece.length
  }
  return text.endsWith(tail)
}

/** A filter that covers every match of a pattern; undefined if it would be a whole top-level domain. */
function wider({ host, path }: Pattern): DomainFilter | undefined {
  const fixed = host.slice(host.lastIndexOf('*') + 1)
  const whole = host.includes('*') ? fixed.slice(fixed.indexOf('.') + 1) : host
  if (!whole.includes('.') || (host.includes('*') && !fixed.includes('.'))) return undefined
  return path && !path.includes('*') && whole === host ? { host: whole, path } : { host: whole }
}

/** The pattern as a filter; undefined if it has wildcards. */
function narrower({ host, path }: Pattern): DomainFilter | undefined {
  if (`${host}${path}`.includes('*') || !host.includes('.')) return undefined
  return path ? { host, path } : { host }
}
