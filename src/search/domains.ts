/**
 * Domain patterns of a search: `example.com` (with subdomains), `*.example.com`, `example.com/docs`, `docs.*.org/v2/*`. Engines
 * read such filters differently, so every result is checked against the patterns here.
 */
import { domainToASCII } from 'node:url'
import type { DomainFilter } from '../plugin.ts'

export interface DomainRules {
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
    const found = text.indexOf(piece, at)
    if (found < 0 || found + piece.length > end) return false
    at = found + piece.length
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
