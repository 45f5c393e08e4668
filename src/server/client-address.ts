/** The address of a client, also where proxies stand before the gateway. */
import type { IncomingMessage } from 'node:http'
import { BlockList, isIP } from 'node:net'

/** A list as it is configured, as an object that can be asked. */
const lists = new WeakMap<readonly string[], BlockList>()

/** Whether an address is one of these, or in one of these networks. */
export function isIn(address: string, networks: readonly string[]): boolean {
  const family = isIP(address)
  if (family === 0 || networks.length === 0) return false
  let list = lists.get(networks)
  if (!list) {
    list = new BlockList()
    for (const network of networks) {
      const [base = '', bits] = network.split('/')
      const kind = isIP(base) === 6 ? 'ipv6' : 'ipv4'
      if (bits === undefined) list.addAddress(base, kind)
      else list.addSubnet(base, Number(bits), kind)
    }
    lists.set(networks, list)
  }
  return list.check(address, family === 6 ? 'ipv6' : 'ipv4')
}

/** The address at the other end of the connection; empty where it is unknown. */
export function peerOf({ socket }: Pick<IncomingMessage, 'socket'>): string {
  // A socket for both families shows IPv4 addresses in the form of IPv6.
  return (socket?.remoteAddress ?? '').replace(/^::ffff:(?=\d+\.)/i, '')
}

/** The address of the client: of the peer, or what the proxies that are trusted say of it. */
export function clientAddress(
  request: Pick<IncomingMessage, 'socket' | 'headers'>,
  trusted: readonly string[],
): string {
  const peer = peerOf(request)
  if (!isIn(peer, trusted)) return peer
  const header = request.headers['x-forwarded-for']
  const hops = String(header ?? '')
    .split(',')
    .map((hop) => hop.trim())
  // Each proxy adds its peer at the end; what stands before the first that is not trusted may be invented.
  const client = hops.findLast((hop) => isIP(hop) !== 0 && !isIn(hop, trusted))
  return client ?? peer
}

/** Whether a trusted proxy says that the client's way to it is encrypted. */
export function isForwardedHttps(
  request: Pick<IncomingMessage, 'socket' | 'headers'>,
  trusted: readonly string[],
): boolean {
  const scheme = String(request.headers['x-forwarded-proto'] ?? '')
    .split(',')
    .at(-1)
  return isIn(peerOf(request), trusted) && scheme?.trim().toLowerCase() === 'https'
}
