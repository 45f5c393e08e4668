/**
 * Where a search may look: `example.com` (and all below it), `*.example.com`, `example.com/docs`, `docs.*.org/v2/*`.
 * What engines make of such wishes differs; so every hit is held against them here.
 */
import { domainToASCII } from 'node:url'
import type { DomainFilter } from '../plugin.ts'

export interface DomainRules {
  /** What an engine may be told; wider than what was asked for where it has to be. */
  readonly include: readonly DomainFilter[]
  /** The same; narrower. */
  readonly exclude: readonly DomainFilter[]
  /** Whether there are any. */
  readonly any: boolean
  allow(url: URL): boolean
}

/** Reads patterns as callers write them: with or without a scheme, a port, a slash at the end. What is none matches nothing. */
export function domainRules(include: readonly string[], exclude: readonly string[]): DomainRules {
  const wanted = include.map(readPattern).filter((pattern) => pattern !== undefined)
  const unwanted = exclude.map(readPattern).filter((pattern) => pattern !== undefined)
  const hints = wanted.map(wider)
  return {
    include: hints.includes(undefined) ? [] : hints.filter((hint) => hint !== undefined),
    exclude: unwanted.map(narrower).filter((hint) => hint !== undefined),
    any: include.length > 0 || exclude.length > 0,
    allow: (url) =>
      (include.length === 0 || wanted.some((pattern) => matches(pattern, url))) &&
      !unwanted.some((pattern) => matches(pattern, url)),
  }
}

interface Pattern {
  readonly host: string
  /** `/docs`; without a slash at the end; empty for all. */
  readonly path: string
}

/** No address that is used is longer. */
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

/** A path as URLs have it. */
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

/** Whether the whole text is the pattern, `*` standing for anything. Each piece is looked for once. */
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

/** A domain that holds everything the pattern matches, if there is one worth naming. */
function wider({ host, path }: Pattern): DomainFilter | undefined {
  const fixed = host.slice(host.lastIndexOf('*') + 1)
  const whole = host.includes('*') ? fixed.slice(fixed.indexOf('.') + 1) : host
  if (!whole.includes('.') || (host.includes('*') && !fixed.includes('.'))) return undefined
  return path && !path.includes('*') && whole === host ? { host: whole, path } : { host: whole }
}

/** The pattern itself, if a domain can say it. */
function narrower({ host, path }: Pattern): DomainFilter | undefined {
  if (`${host}${path}`.includes('*') || !host.includes('.')) return undefined
  return path ? { host, path } : { host }
}
