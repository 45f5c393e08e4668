/** With which bytes of UTF-8 a match may begin. */
import { IDLE, type Machine } from './machine.ts'

// How a match may begin with a byte.
export const NEVER = 0
export const ASCII = 1
export const LEADING = 2

const firstBytes = new WeakMap<Machine, Uint8Array>()

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
