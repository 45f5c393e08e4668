/** Streams with something that cannot be read in them: events of unknown kinds, and events that are damaged. */
import { Buffer } from 'node:buffer'
import { crc32 } from 'node:zlib'

/** A stream, and what is wrong with it. */
type Damaged = readonly [what: string, events: readonly Uint8Array[]]

const UNKNOWN = '{"zq_unknown":"zq"}'
const BROKEN = '{"zq_unknown":"z'

/**
 * Puts what cannot be read between the events of an answer, and in the place of one.
 * @param isBinary whether the events are frames with checksums, and no texts
 */
export function damaged(events: readonly Uint8Array[], isBinary: boolean): readonly Damaged[] {
  const last = events.length - 1
  const middle = Math.max(1, last >> 1)
  const { unknown, broken, half } = isBinary ? framesLike(events[middle]!) : textsLike(events[0]!)
  const put = (event: Uint8Array) => events.toSpliced(middle, 0, event)
  const ways: Damaged[] = [
    ['an event of an unknown kind', put(unknown)],
    ['an event that is no JSON', put(broken)],
  ]
  for (const at of new Set([1, middle, last - 1])) {
    const part = at > 0 && at < last ? half(events[at]!) : undefined
    if (part) ways.push([`half of event ${at + 1}`, events.toSpliced(at, 1, part)])
    if (!isBinary || at <= 0 || at >= last) continue
    const bent = Buffer.from(events[at]!)
    bent[bent.length - CHECKSUM_BYTES - 1]! ^= 1
    ways.push([`a changed byte in event ${at + 1}`, events.toSpliced(at, 1, bent)])
  }
  return ways
}

function textsLike(first: Uint8Array) {
  const line = Buffer.from(first).includes('data:') ? 'data: ' : ''
  const event = (text: string) => Buffer.from(line + text + (line ? '\n\n' : '\n'))
  return { unknown: event(UNKNOWN), broken: event(BROKEN), half: halfOf }
}

/** An event whose JSON has lost its second half; undefined for one without JSON. */
function halfOf(event: Uint8Array): Uint8Array | undefined {
  const text = Buffer.from(event).toString()
  const [json = '', before = ''] = [/\{.*\}/.exec(text)?.[0], /^[^{]*/.exec(text)?.[0]]
  if (json.length < 2) return undefined
  // Letters may be cut, which the other text has as well.
  return Buffer.from(
    before + json.slice(0, json.length >> 1) + text.slice(before.length + json.length),
  )
}

// Frames: lengths of the whole and of the headers, their checksum, headers, payload, and the checksum of all.

const PRELUDE_BYTES = 12
const CHECKSUM_BYTES = 4
const KIND = ':event-type'

function framesLike(frame: Uint8Array) {
  const { headers } = partsOf(frame)
  const unknown = Buffer.from(headers)
  const at = unknown.indexOf(KIND)
  // Behind the name come the type of the value, its length, and the value.
  const value = at + KIND.length + 3
  if (at >= 0) unknown.fill('z', value, value + unknown.readUInt16BE(value - 2))
  return {
    unknown: frameOf(unknown, Buffer.from(UNKNOWN)),
    broken: frameOf(headers, Buffer.from(BROKEN)),
    half(event: Uint8Array) {
      const { headers, payload } = partsOf(event)
      return frameOf(headers, payload.subarray(0, payload.length >> 1))
    },
  }
}

/** A frame with another payload, which is right in all. */
export function withPayload(frame: Uint8Array, change: (payload: Buffer) => Buffer): Buffer {
  const { headers, payload } = partsOf(frame)
  return frameOf(headers, change(payload))
}

function partsOf(frame: Uint8Array) {
  const bytes = Buffer.from(frame)
  const end = PRELUDE_BYTES + bytes.readUInt32BE(4)
  const headers = bytes.subarray(PRELUDE_BYTES, end)
  return { headers, payload: bytes.subarray(end, bytes.length - CHECKSUM_BYTES) }
}

function frameOf(headers: Uint8Array, payload: Uint8Array): Buffer {
  const frame = Buffer.alloc(PRELUDE_BYTES + headers.length + payload.length + CHECKSUM_BYTES)
  frame.writeUInt32BE(frame.length, 0)
  frame.writeUInt32BE(headers.length, 4)
  frame.writeUInt32BE(crc32(frame.subarray(0, 8)), 8)
  frame.set(headers, PRELUDE_BYTES)
  frame.set(payload, PRELUDE_BYTES + headers.length)
  const end = frame.length - CHECKSUM_BYTES
  frame.writeUInt32BE(crc32(frame.subarray(0, end)), end)
  return frame
}
