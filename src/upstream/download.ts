/**
 * Downloads files from addresses that clients or vendors supply. It cannot reach the operator's network: https only, public
 * addresses only, every redirect is checked again, and the connection goes to the address that was checked.
 */
import { lookup } from 'node:dns/promises'
import { BlockList, isIP, isIPv6 } from 'node:net'
import { Agent, type Dispatcher } from 'undici'
import { InvalidRequest } from '../errors/errors.ts'
import type { DownloadOptions, Download } from '../plugin.ts'

/** The member `fetch` of the configuration. */
interface DownloadSettings {
  readonly enabled: boolean
  /** Largest file, in bytes. */
  readonly limit: number
  /** Seconds for one file, redirects included. */
  readonly timeout: number
}

/** Implements {@link Host.download}. */
export type Downloader = (
  url: string,
  signal: AbortSignal,
  options?: DownloadOptions,
) => Promise<Download>

/** It is replaced by tests, which have no access to public addresses. */
interface DownloadEnvironment {
  /** All addresses of a host name; rejects when there is no such host. */
  readonly resolve?: (hostname: string) => Promise<readonly string[]>
  readonly isPublic?: (address: string) => boolean
  /** Certificates to trust instead of the usual ones, PEM. */
  readonly ca?: string
}

const MAX_REDIRECTS = 3

/**
 * Creates the downloader of a configuration. It throws the same error for every cause, so a client cannot use it to
 * explore a network.
 */
export function createDownloader(
  { enabled, limit, timeout }: DownloadSettings,
  environment: DownloadEnvironment = {},
): Downloader {
  return async (url, signal, { limitBytes = limit, types, param = null } = {}) => {
    const ended = AbortSignal.any([signal, AbortSignal.timeout(timeout * 1000)])
    const wanted = { signal: ended, limitBytes: Math.min(limitBytes, limit), types }
    try {
      if (!enabled) throw new Error('downloads are disabled')
      let next = url
      for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
        const result = await get(next, wanted, environment)
        if (typeof result !== 'string') return result
        next = result
      }
      throw new Error('too many redirects')
    } catch (cause) {
      signal.throwIfAborted()
      throw new InvalidRequest('fetch_failed', REFUSED, { param, cause })
    }
  }
}

interface Wanted {
  readonly signal: AbortSignal
  readonly limitBytes: number
  readonly types: DownloadOptions['types']
}

/** @returns the file, or the address of a redirect */
async function get(
  address: string,
  wanted: Wanted,
  environment: DownloadEnvironment,
): Promise<Download | string> {
  const { signal } = wanted
  const url = new URL(address)
  if (url.protocol !== 'https:' || url.username || url.password) throw new Error('not https')
  const addresses = await abortable(checked(url.hostname, environment), signal)
  const { ca } = environment
  const connect = { lookup: pinned(addresses), ...(ca !== undefined && { ca }) }
  const agent = new Agent({ connect, pipelining: 0 })
  try {
    const answer = await agent.request({
      origin: url.origin,
      path: url.pathname + url.search,
      method: 'GET',
      headers: { accept: '*/*', 'accept-encoding': 'identity', 'user-agent': 'sluicegate' },
      signal,
    })
    const { statusCode, headers, body } = answer
    // Destroying the agent breaks a body that was not read to its end.
    body.once('error', () => {})
    if (REDIRECTS.has(statusCode)) return new URL(String(headers.location), url).href
    if (statusCode !== 200) throw new Error(`status ${statusCode}`)
    return await read(answer, wanted)
  } finally {
    await agent.destroy()
  }
}

async function checked(
  hostname: string,
  { resolve = resolveAll, isPublic = isPublicAddress }: DownloadEnvironment,
): Promise<readonly string[]> {
  const literal = hostname.replace(/^\[|\]$/g, '')
  const addresses = isIP(literal) ? [literal] : await resolve(hostname)
  if (addresses.length > 0 && addresses.every((one) => isPublic(one))) return addresses
  throw new Error('not a public address')
}

const REFUSED =
  'The address could not be read, or may not be: expected an https address on the public internet ' +
  'that answers in time with a file of the right kind and of allowed size.'

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])

async function read(
  { headers, body }: Dispatcher.ResponseData,
  { limitBytes, types }: Wanted,
): Promise<Download> {
  const contentType = String(headers['content-type'] ?? '')
  const media = contentType.split(';', 1)[0]!.trim().toLowerCase()
  if (types && !types.some((type) => media.startsWith(type))) throw new Error('of another type')
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') throw new Error('encoded')
  if (Number(headers['content-length'] ?? 0) > limitBytes) throw new Error('too large')
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of body) {
    size += chunk.length
    if (size > limitBytes) throw new Error('too large')
    chunks.push(chunk)
  }
  return { bytes: Buffer.concat(chunks, size), contentType: media }
}

type Lookup = (
  hostname: string,
  options: { readonly all?: boolean },
  callback: (error: Error | null, address: any, family?: number) => void,
) => void

/** Resolves every name to the addresses that were checked: the DNS may answer differently by now. */
function pinned(addresses: readonly string[]): Lookup {
  const all = addresses.map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }))
  return (_hostname, options, callback) => {
    if (options.all) callback(null, all)
    else callback(null, all[0]!.address, all[0]!.family)
  }
}

async function resolveAll(hostname: string): Promise<readonly string[]> {
  const records = await lookup(hostname, { all: true, verbatim: true })
  return records.map(({ address }) => address)
}

/** Stops waiting for a promise when the signal is aborted. A DNS request itself cannot be cancelled. */
function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason)
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort)
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}

/** https://www.iana.org/assignments/iana-ipv4-special-registry, multicast and reserved addresses. */
const SPECIAL_V4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.31.196.0/24',
  '192.52.193.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '192.175.48.0/24',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/3',
]
/** The entries of https://www.iana.org/assignments/iana-ipv6-special-registry within the block of public addresses. */
const SPECIAL_V6 = ['2001::/23', '2001:db8::/32', '2002::/16', '2620:4f:8000::/48', '3fff::/20']
const PUBLIC_V6 = '2000::/3'

const special = new BlockList()
for (const subnet of SPECIAL_V4) addTo(special, subnet, 'ipv4')
for (const subnet of SPECIAL_V6) addTo(special, subnet, 'ipv6')
const assigned = new BlockList()
addTo(assigned, PUBLIC_V6, 'ipv6')

/**
 * Whether an address belongs to the public internet. IPv4 addresses that are mapped or translated to IPv6 do not: they are
 * a known way around such checks.
 */
export function isPublicAddress(address: string): boolean {
  const family = isIP(address)
  if (family === 4) return !special.check(address, 'ipv4')
  return family === 6 && assigned.check(address, 'ipv6') && !special.check(address, 'ipv6')
}

function addTo(list: BlockList, subnet: string, family: 'ipv4' | 'ipv6'): void {
  const [address, prefix] = subnet.split('/')
  list.addSubnet(address!, Number(prefix), family)
}

// Addresses of clients that a vendor may be asked to fetch, judged by their spelling.

/** Names of hosts inside a network: of one label, or in a domain that the public DNS does not have. */
const INSIDE =
  /^[^.]*$|\.(?:local|localhost|internal|localdomain|lan|intranet|corp|home|home\.arpa)$/

/** Two slashes, then a host. A vendor may read another host in other spellings, which browsers take for the same. */
const PLAIN = /^https:\/\/[^/\\?#\s]+(?:[/?#][^\\\t\r\n]*)?$/i

/**
 * Whether an address is https on the public internet, without user information and on the usual port. Its name is
 * not resolved: the vendor that fetches it may see other addresses.
 */
export function isPublicUrl(address: string): boolean {
  // This also brings all forms of IPv4 addresses, such as 0x7f.1, into the dotted one.
  const url = PLAIN.test(address) ? URL.parse(address) : null
  if (url?.protocol !== 'https:' || url.username !== '' || url.password !== '') return false
  return url.port === '' && isPublicHost(url.hostname)
}

/** Whether a text is an address of a host inside a network. */
export function isPrivateUrl(text: string): boolean {
  const url = /^https?:/i.test(text) ? URL.parse(text) : null
  return url !== null && !isPublicHost(url.hostname)
}

function isPublicHost(hostname: string): boolean {
  const name = hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')
  return isIP(name) ? isPublicAddress(name) : !INSIDE.test(name)
}
