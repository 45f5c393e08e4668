/** The length of sound in WebM and Matroska (RFC 9559). */

const SEGMENT = 0x18538067
const INFO = 0x1549a966
const CLUSTER = 0x1f43b675
const BLOCK_GROUP = 0xa0
const TIMESTAMP_SCALE = 0x2ad7b1
const DURATION = 0x4489
const CLUSTER_TIME = 0xe7
const SIMPLE_BLOCK = 0xa3
const BLOCK = 0xa1
/** The upper bound on elements read; a file of the largest size has less than half as many. */
const MAX_ELEMENTS = 1_000_000
const OPEN: ReadonlySet<number> = new Set([SEGMENT, INFO, CLUSTER, BLOCK_GROUP])

/**
 * Seconds: the duration in the header, or the time of the last block if that is later. Browsers record without a
 * duration, and without sizes of elements that they are still writing.
 */
export function secondsOfMatroska(bytes: Buffer): number | undefined {
  let scale = 1_000_000
  let duration = 0
  let clusterTime = 0
  let last = 0
  for (let at = 0, elements = 0; at + 2 <= bytes.length && elements < MAX_ELEMENTS; elements++) {
    const id = idAt(bytes, at)
    if (!id) break
    const size = sizeAt(bytes, at + id.length)
    if (!size) break
    const start = at + id.length + size.length
    if (OPEN.has(id.value)) {
      at = start
      continue
    }
    // Only these elements may have an unknown size.
    if (size.value === undefined) break
    switch (id.value) {
      case TIMESTAMP_SCALE:
        scale = unsigned(bytes, start, size.value)
        break
      case DURATION:
        duration = size.value === 4 ? bytes.readFloatBE(start) : bytes.readDoubleBE(start)
        break
      case CLUSTER_TIME:
        clusterTime = unsigned(bytes, start, size.value)
        break
      case SIMPLE_BLOCK:
      case BLOCK: {
        const track = sizeAt(bytes, start)
        if (track) last = Math.max(last, clusterTime + bytes.readInt16BE(start + track.length))
      }
    }
    at = start + size.value
  }
  return (Math.max(duration, last) * scale) / 1e9
}

/** The id of an element, its marker bit included. */
function idAt(
  bytes: Buffer,
  at: number,
): { readonly value: number; readonly length: number } | undefined {
  const length = Math.clz32(bytes[at]!) - 23
  if (length > 4 || at + length > bytes.length) return undefined
  return { value: bytes.readUIntBE(at, length), length }
}

/** The size of an element; without a value if it is unknown. */
function sizeAt(
  bytes: Buffer,
  at: number,
): { readonly value: number | undefined; readonly length: number } | undefined {
  if (at >= bytes.length) return undefined
  const length = Math.clz32(bytes[at]!) - 23
  if (length > 8 || at + length > bytes.length) return undefined
  let value = bytes[at]! & (0xff >> length)
  let unknown = value === 0xff >> length
  for (let i = 1; i < length; i++) {
    const next = bytes[at + i]!
    unknown &&= next === 0xff
    value = value * 256 + next
  }
  return { value: unknown ? undefined : value, length }
}

function unsigned(bytes: Buffer, at: number, length: number): number {
  if (length < 1 || length > 8) return 0
  return length > 6
    ? bytes.readUIntBE(at, length - 6) * 2 ** 48 + bytes.readUIntBE(at + length - 6, 6)
    : bytes.readUIntBE(at, length)
}
