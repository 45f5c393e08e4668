/** With which bytes of UTF-8 a match may begin. */
import { IDLE, type Machine } from './product-dfa.ts'

// How a match may begin with a byte.
export const NEVER = 0
export const ASCII = 1
export const LEADING = 2

const firstBytes = new WeakMap<Machine, Uint8Array>()
const firstPairs = new WeakMap<Machine, Uint8Array>()

/** By byte: {@link NEVER}, {@link ASCII}, or {@link LEADING} for the first of several, which may begin anything. */
export function firstBytesOf(machine: Machine): Uint8Array {
  let bytes = firstBytes.get(machine)
  if (bytes === undefined) {
    const state = machine.begin()
    const { table } = machine.forward
    bytes = Uint8Array.from({ length: 256 }, (_, byte) => {
      if (byte >= 0x80) return byte >= 0xc2 && byte <= 0xf4 ? LEADING : NEVER
      const codeClass = machine.classOf(byte)
      // Most bytes are of a few classes.
      const next = table.cells[state + codeClass]! || table.fill(state, codeClass)
      return next < 0 || table.marks[next >> table.shift] !== IDLE ? ASCII : NEVER
    })
    firstBytes.set(machine, bytes)
  }
  return bytes
}

/**
 * By two base64 characters side by side: may a match begin with the byte at the first bit, at the third, and at the fifth?
 * A bit for each.
 */
export function firstPairsOf(machine: Machine): Uint8Array {
  let pairs = firstPairs.get(machine)
  if (pairs === undefined) {
    const bytes = firstBytesOf(machine)
    pairs = Uint8Array.from({ length: 1 << 12 }, (_, pair) => {
      const first = bytes[pair >>> 4]!
      const second = bytes[(pair >>> 2) & 0xff]!
      // Of what does not begin with ASCII, the byte that follows is known as well, as far as it is there.
      const isFirst = first === ASCII || (first === LEADING && (pair & 0x0c) === 0x08)
      const isSecond = second === ASCII || (second === LEADING && (pair & 0x03) === 0x02)
      return (isFirst ? 1 : 0) | (isSecond ? 2 : 0) | (bytes[pair & 0xff] === NEVER ? 0 : 4)
    })
    firstPairs.set(machine, pairs)
  }
  return pairs
}
