/**
 * Amazon's binary event stream (`application/vnd.amazon.eventstream`): splits bytes into frames and verifies their
 * checksums.
 */
import { EventStreamCodec } from '@smithy/eventstream-codec'
import type { Host, Step } from '../../src/plugin.ts'

/** One frame of a stream. */
export interface Frame {
  readonly kind: 'event' | 'exception' | 'error'
  /** Name of the event or the exception. */
  readonly name: string
  /** The payload; for an `error`, an object with its message. */
  readonly payload: any
}

/** Frame length, header length and their checksum: enough to know where a frame ends. */
const PRELUDE_BYTES = 12
/** The prelude and the checksum of the frame. */
const MIN_BYTES = 16
/** Amazon's limits: headers of 128 KiB, a payload of 24 MiB. */
const MAX_BYTES = MIN_BYTES + 128 * 1024 + 24 * 1024 * 1024

const codec = new EventStreamCodec(
  (bytes) => (typeof bytes === 'string' ? bytes : Buffer.from(bytes).toString()),
  (text) => Buffer.from(text),
)

/**
 * Reads frames. A frame that the end of the stream cuts off is dropped.
 * @throws the failure class `upstream_error` for a damaged frame
 */
export function readFrames(fail: Host['fail']): Step<Uint8Array, Frame> {
  let pieces: Uint8Array[] = []
  let held = 0
  /** Bytes needed before the next frame can be read. */
  let needed = PRELUDE_BYTES
  return {
    push(bytes, emit) {
      pieces.push(bytes)
      held += bytes.length
      if (held < needed) return
      const buffer = pieces.length === 1 ? bytes : Buffer.concat(pieces, held)
      const view = new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength)
      let start = 0
      needed = PRELUDE_BYTES
      while (held - start >= PRELUDE_BYTES) {
        const length = view.getUint32(start)
        if (length < MIN_BYTES || length > MAX_BYTES) throw damaged(fail)
        if (held - start < length) {
          needed = length
          break
        }
        emit(decode(buffer.subarray(start, start + length), fail))
        start += length
      }
      held -= start
      pieces = held > 0 ? [buffer.subarray(start)] : []
    },
  }
}

function decode(bytes: Uint8Array, fail: Host['fail']): Frame {
  try {
    const { headers, body } = codec.decode(bytes)
    const text = (name: string) => String(headers[name]?.value ?? '')
    switch (text(':message-type')) {
      case 'exception':
        return { kind: 'exception', name: text(':exception-type'), payload: parse(body) }
      case 'error': {
        const payload = { message: text(':error-message') }
        return { kind: 'error', name: text(':error-code'), payload }
      }
      default:
        return { kind: 'event', name: text(':event-type'), payload: parse(body) }
    }
  } catch {
    // The cause is left out because it may quote the payload.
    throw damaged(fail)
  }
}

function parse(body: Uint8Array): any {
  if (body.length === 0) return {}
  return JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString())
}

function damaged(fail: Host['fail']): Error {
  return fail('upstream_error', 'The model provider sent a damaged stream.')
}
