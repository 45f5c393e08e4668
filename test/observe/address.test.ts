import { expect, it } from 'vitest'
import { shownAddress } from '../../src/observe/address.ts'

it.each([
  ['203.0.113.77', '203.0.113.0/24'],
  ['::ffff:203.0.113.77', '203.0.113.0/24'],
  ['2001:db8:85a3::8a2e:370:7334', '2001:db8:85a3::/48'],
  ['2001:db8::1', '2001:db8:0::/48'],
  ['fe80::1%eth0', 'fe80:0:0::/48'],
  ['::1', '0:0:0::/48'],
  ['1:2:3:4:5:6:7:8', '1:2:3::/48'],
  ['nonsense', undefined],
  ['', undefined],
])('of %s only the network is shown', (address, network) => {
  expect(shownAddress(address, 'truncated')).toBe(network)
  expect(shownAddress(address, 'none')).toBeUndefined()
  expect(shownAddress(address, 'full')).toBe(address || undefined)
})
