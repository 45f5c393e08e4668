/** Splits bodies as a network may split them, and finds the boundaries of events. Pure functions. */

/** Returns a whole number from 0 to `below` - 1. */
type Random = (below: number) => number

/**
 * A random generator that repeats its numbers for the same seed: xorshift (G. Marsaglia, "Xorshift RNGs", 2003).
 * @param seed any whole number
 */
export function randomFrom(seed: number): Random {
  // Some rounds spread a small seed over all bits.
  let state = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) || 1
  const next = () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return state >>> 0
  }
  for (let i = 0; i < 8; i++) next()
  return (below) => next() % below
}

export function cutAt(body: Uint8Array, positions: readonly number[]): Uint8Array[] {
  const ends = [...new Set(positions)].filter((end) => end > 0 && end < body.length)
  ends.sort((a, b) => a - b)
  return [...ends, body.length].map((end, i) => body.subarray(ends[i - 1] ?? 0, end))
}

/**
 * Offsets at which the parts of a body end, by its content type: server-sent events, lines of JSON, or frames of a binary
 * event stream. Empty for a body without parts.
 */
export function boundariesOf(body: Uint8Array, contentType: string): number[] {
  if (contentType.includes('text/event-stream')) return eventEnds(body)
  if (contentType.includes('vnd.amazon.eventstream')) return frameEnds(body)
  if (/ndjson|jsonl|json-seq|stream\+json/.test(contentType)) return lineEnds(body)
  return []
}

/** Splits a body into single bytes; of a long one only the first and last bytes, `most` in all. */
export function splitBytewise(body: Uint8Array, most: number): Uint8Array[] {
  const positions = Array.from(body.keys())
  if (body.length <= most) return cutAt(body, positions)
  const half = Math.floor(most / 2)
  return cutAt(body, [...positions.slice(0, half), ...positions.slice(-half)])
}

export function splitRandomly(body: Uint8Array, random: Random, most: number): Uint8Array[] {
  const count = 1 + random(most)
  return cutAt(
    body,
    Array.from({ length: count }, () => 1 + random(Math.max(1, body.length - 1))),
  )
}

function eventEnds(body: Uint8Array): number[] {
  return endsOf(body, /\r\n\r\n|\n\n|\r\r/g)
}

function lineEnds(body: Uint8Array): number[] {
  return endsOf(body, /\n/g)
}

function endsOf(body: Uint8Array, border: RegExp): number[] {
  const text = Buffer.from(body.buffer, body.byteOffset, body.length).toString('latin1')
  return Array.from(text.matchAll(border), (match) => match.index + match[0].length)
}

/** Each frame begins with its length: four bytes, big-endian. */
function frameEnds(body: Uint8Array): number[] {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength)
  const ends: number[] = []
  for (let end = 0; end + 4 <= body.length;) {
    const length = view.getUint32(end)
    if (length < 4 || end + length > body.length) break
    ends.push((end += length))
  }
  return ends
}
