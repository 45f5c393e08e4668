import { BlockList, isIP } from 'node:net'

/** Whether an address is one of this machine. */
export function isLoopback({ hostname }: URL): boolean {
  return ['localhost', '127.0.0.1', '[::1]'].includes(hostname)
}

/** Addresses at which clouds tell a machine its secrets. */
const LINK_LOCAL = new BlockList()
LINK_LOCAL.addSubnet('169.254.0.0', 16, 'ipv4')
LINK_LOCAL.addSubnet('fe80::', 10, 'ipv6')
LINK_LOCAL.addAddress('fd00:ec2::254', 'ipv6')

/** Whether a host is an address that is only valid on its link. A name is not resolved. */
export function isLinkLocal(host: string): boolean {
  const address = host.replace(/^\[|\]$/g, '')
  const family = isIP(address)
  // A mapped address of version 4 is compared as one.
  return family !== 0 && LINK_LOCAL.check(address, family === 4 ? 'ipv4' : 'ipv6')
}
