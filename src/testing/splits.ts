/** Where a network may cut a body, and where its format has borders. Pure. */

/** Numbers from 0 up to but not including `below`, the same ones for the same seed. */
export type Random = (below: number) => number

/** @param seed any whole number; see G. Marsaglia, "Xorshift RNGs" (2003), for the generator */
export function randomFrom(seed: number): Random {
  // A few rounds spread what little a small seed has over all bits.
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

/** Pieces that end at these positions, in any order. */
export function cutAt(body: Uint8Array, positions: readonly number[]): Uint8Array[] {
  const ends = [...new Set(positions)].filter((end) => end > 0 && end < body.length)
  ends.sort((a, b) => a - b)
  return [...ends, body.length].map((end, i) => body.subarray(ends[i - 1] ?? 0, end))
}

/** Pieces that end where server-sent events do, whichever line ends the stream uses. */
export function cutAtEvents(body: Uint8Array): Uint8Array[] {
  return cutAt(body, eventEnds(body))
}

/**
 * Where the parts of a body end, by its content type: server-sent events, lines of JSON, frames of an event stream in
 * binary form. Nothing for a body that has no parts.
 */
export function bordersOf(body: Uint8Array, contentType: string): number[] {
  if (contentType.includes('text/event-stream')) return eventEnds(body)
  if (contentType.includes('vnd.amazon.eventstream')) return frameEnds(body)
  if (/ndjson|jsonl|json-seq|stream\+json/.test(contentType)) return lineEnds(body)
  return []
}

/** The body byte by byte where it is short, else its first and last bytes one by one, as many as `most`. */
export function bytewise(body: Uint8Array, most: number): Uint8Array[] {
  const positions = Array.from(body.keys())
  if (body.length <= most) return cutAt(body, positions)
  const half = Math.floor(most / 2)
  return cutAt(body, [...positions.slice(0, half), ...positions.slice(-half)])
}

/** Up to `most` cuts, at random. */
export function randomly(body: Uint8Array, random: Random, most: number): Uint8Array[] {
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

/** Each frame begins with its length in four bytes, most significant first. */
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
