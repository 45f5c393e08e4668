/** Addresses of clients that a vendor may be asked to fetch, judged by their spelling. */
import { isIP } from 'node:net'
import { isPublicAddress } from './download.ts'

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
