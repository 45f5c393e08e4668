import { isIPv4, isIPv6 } from 'node:net'

/** How much of a client's address the log shows. */
type AddressDetail = 'none' | 'truncated' | 'full'

/** What the log shows of an address; undefined for nothing. */
export function shownAddress(address: string, detail: AddressDetail): string | undefined {
  if (detail === 'none') return undefined
  return detail === 'full' ? address || undefined : networkOf(address)
}

/** The network of an address: /24, or /48 of IPv6. Undefined for what is no address. */
function networkOf(address: string): string | undefined {
  const plain = address.replace(/^::ffff:(?=\d+\.)/i, '').replace(/%.*$/, '')
  if (isIPv4(plain)) return `${plain.split('.').slice(0, 3).join('.')}.0/24`
  if (!isIPv6(plain)) return undefined
  const [before = '', after] = plain.split('::')
  const groups = before === '' ? [] : before.split(':')
  const rest = after === undefined || after === '' ? [] : after.split(':')
  const filled =
    after === undefined ? groups : [...groups, ...zeros(8 - groups.length - rest.length), ...rest]
  return `${filled.slice(0, 3).join(':')}::/48`
}

function zeros(count: number): string[] {
  return Array.from({ length: Math.max(0, count) }, () => '0')
}
