/** Reads the server-sent events of model providers. Events may be cut anywhere into chunks. */
import { StringDecoder } from 'node:string_decoder'
import { createParser } from 'eventsource-parser'
import { brokenAnswer } from '../errors/errors.ts'
import { toFlow } from './flow.ts'
import type { Flow, Step } from '../plugin.ts'

/** The largest image, in base64, fits. */
const MAX_EVENT_CHARACTERS = 64 * 1024 * 1024

/**
 * The JSON payloads of an event stream; see {@link Host.sse}.
 * @throws UpstreamFailure `upstream_error` when an event is not JSON, or larger than 64 Mi characters
 */
export function readEvents(body: AsyncIterable<Uint8Array>): Flow<any> {
  return toFlow(body).through(new EventReader())
}

type Emit = (payload: any) => void

class EventReader implements Step<Uint8Array, any> {
  done = false
  readonly #decoder = new StringDecoder('utf8')
  readonly #parser = createParser({
    maxBufferSize: MAX_EVENT_CHARACTERS,
    onEvent: ({ data }) => this.#take(data),
    onError: ({ type }) => {
      // The parser also reports unknown fields, which the standard says to ignore.
      if (type !== 'max-buffer-size-exceeded') return
      throw brokenAnswer('The model provider sent an event that is too large.')
    },
  })
  #emit: Emit = () => {}

  push(chunk: Uint8Array, emit: Emit): void {
    this.#emit = emit
    this.#parser.feed(this.#decoder.write(chunk))
  }

  end(emit: Emit): void {
    this.#emit = emit
    // Accepts a last event without a blank line.
    this.#parser.feed(`${this.#decoder.end()}\n\n`)
  }

  #take(data: string): void {
    // The parser reports all events of a chunk, also those after the end mark.
    if (this.done) return
    this.done = data === '[DONE]'
    this.#emit(this.done ? { choices: [], endOfStream: true } : parse(data))
  }
}

function parse(payload: string): unknown {
  try {
    return JSON.parse(payload)
  } catch {
    // Without the cause: its message quotes the payload, and no body may be logged.
    throw brokenAnswer('The model provider sent an event that is not JSON.')
  }
}
