/** Server-sent events of model providers: bytes in, JSON payloads out, in whatever way the bytes are cut. */
import { StringDecoder } from 'node:string_decoder'
import { createParser } from 'eventsource-parser'
import { UpstreamFailure } from '../errors/errors.ts'
import { toFlow } from './flow.ts'
import type { Flow, Step } from '../plugin.ts'

/** An image of the largest size, in base64, fits. */
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
      // Lines with unknown fields are errors of the parser too; the standard says to ignore them.
      if (type !== 'max-buffer-size-exceeded') return
      throw failure('The model provider sent an event that is too large.')
    },
  })
  #emit: Emit = () => {}

  push(chunk: Uint8Array, emit: Emit): void {
    this.#emit = emit
    this.#parser.feed(this.#decoder.write(chunk))
  }

  end(emit: Emit): void {
    this.#emit = emit
    // A last event without its blank line still counts when it is whole.
    this.#parser.feed(`${this.#decoder.end()}\n\n`)
  }

  #take(data: string): void {
    // The parser goes on to the end of what it was fed.
    if (this.done) return
    this.done = data === '[DONE]'
    this.#emit(this.done ? { choices: [], done: true } : parse(data))
  }
}

function parse(payload: string): unknown {
  try {
    return JSON.parse(payload)
  } catch {
    // Without the cause: its message quotes the payload, and no body may reach a log.
    throw failure('The model provider sent an event that is not JSON.')
  }
}

function failure(message: string): UpstreamFailure {
  return new UpstreamFailure('upstream_error', message)
}
