/**
 * Server-sent events of vendors. Nearly all come as `data: <JSON>` and a blank line, one or several whole in each read:
 * these are read here. What comes otherwise goes through a parser of the whole format.
 */
import { StringDecoder } from 'node:string_decoder'
import { createParser } from 'eventsource-parser'
import { UpstreamFailure } from '../errors/errors.ts'
import { toFlow } from './flow.ts'
import type { Flow, Step } from '../plugin.ts'
import { templateOf, type Template } from './template.ts'

/** An image of the largest size, in base64, fits. */
const MAX_EVENT_CHARACTERS = 64 * 1024 * 1024
const LINE_FEED = 10
const SPACE = 32
const FIELD = 'data:'
const END = '\n\n'

/** The JSON payloads of an event stream; see {@link Host.sse}. */
export function readEvents(body: AsyncIterable<Uint8Array>): Flow<any> {
  return toFlow(body).through(new Events())
}

class Events implements Step<Uint8Array, any> {
  done = false
  readonly #payloads = new Payloads()
  /** What was read ends where an event does. */
  #apart = true
  #begun = false
  #parser: Parser | undefined

  push(chunk: Uint8Array, emit: (payload: any) => void): void {
    const apart = this.#apart
    const { length } = chunk
    this.#apart = length > 1 && chunk[length - 1] === LINE_FEED && chunk[length - 2] === LINE_FEED
    if (apart && this.#apart) this.#readWhole(toText(chunk), emit)
    else this.#take(this.#anyForm().write(chunk), emit)
  }

  end(emit: (payload: any) => void): void {
    // A last event without its blank line still counts when it is whole.
    if (!this.#apart) this.#take(this.#anyForm().end(), emit)
  }

  /** A text that begins and ends where events do. */
  #readWhole(text: string, emit: (payload: any) => void): void {
    const payloads = this.#payloads
    let at = 0
    while (at < text.length) {
      let payload = payloads.known(text, at)
      if (payload === undefined) {
        const from = at + (text.charCodeAt(at + FIELD.length) === SPACE ? 6 : 5)
        const to = text.indexOf('\n', from)
        const data = text.slice(from, to)
        const plain =
          text.startsWith(FIELD, at) &&
          text.charCodeAt(to + 1) === LINE_FEED &&
          !data.includes('\r')
        if (!plain) return this.#take(this.#anyForm().read(text.slice(at)), emit)
        if (data === '[DONE]') return this.#finish(emit)
        payload = parse(data)
        payloads.learn(text, at, from, to, payload)
        at = to + END.length
      } else {
        at = payloads.end
      }
      this.#begun = true
      emit(payload)
    }
  }

  #take(payloads: readonly string[], emit: (payload: any) => void): void {
    for (const payload of payloads) {
      if (payload === '[DONE]') return this.#finish(emit)
      emit(parse(payload))
    }
  }

  #finish(emit: (payload: any) => void): void {
    this.done = true
    emit({ choices: [], done: true })
  }

  #anyForm(): Parser {
    return (this.#parser ??= new Parser(this.#begun))
  }
}

/** Events of any form, cut anywhere. */
class Parser {
  #payloads: string[] = []
  readonly #decoder = new StringDecoder('utf8')
  readonly #parser = createParser({
    maxBufferSize: MAX_EVENT_CHARACTERS,
    onEvent: (event) => this.#payloads.push(event.data),
    onError: (error) => {
      if (error.type === 'max-buffer-size-exceeded') {
        throw new UpstreamFailure(
          'upstream_error',
          'The model provider sent an event that is too large.',
        )
      }
    },
  })

  /** @param begun something was read already: a byte order mark would be none here */
  constructor(begun: boolean) {
    if (begun) this.#parser.feed('\n')
  }

  write(chunk: Uint8Array): readonly string[] {
    return this.read(this.#decoder.write(chunk))
  }

  end(): readonly string[] {
    return this.read(this.#decoder.end() + END)
  }

  read(text: string): readonly string[] {
    this.#payloads = []
    this.#parser.feed(text)
    return this.#payloads
  }
}

/** Hits pay for attempts to find a template: a stream whose events have nothing in common costs a few of them. */
const CREDIT = 32
const PRICE = 8
/** Parsing a large one is cheap for its size. */
const MAX_LEARNED = 4096

/** The template of one stream. */
class Payloads {
  #template: Template | undefined
  /** An event without a template, where the next one may show what they have in common. */
  #last = ''
  #credit = CREDIT

  /** Where the event ends that was known. */
  get end(): number {
    return this.#template!.end
  }

  /** What the event says that begins here, where it fits the template; else undefined. */
  known(text: string, at: number): unknown {
    const payload = this.#template?.read(text, at)
    if (payload !== undefined && this.#credit < CREDIT) this.#credit++
    return payload
  }

  /** Compares an event that did not fit with the last one that did not. */
  learn(text: string, at: number, from: number, to: number, payload: unknown): void {
    const last = this.#last
    const wanted = this.#credit >= PRICE && to - at < MAX_LEARNED
    const event = wanted ? owned(text.slice(at, to + END.length), text) : ''
    this.#last = event
    if (!last || !event) return
    this.#credit -= PRICE
    const template = templateOf(last, event, [from - at, END.length], payload)
    if (template) this.#template = template
  }
}

/** A slice keeps all that it was cut from in memory. */
function owned(slice: string, whole: string): string {
  return slice.length * 2 > whole.length ? slice : Buffer.from(slice).toString()
}

function toText(chunk: Uint8Array): string {
  const { buffer, byteOffset, byteLength } = chunk
  const bytes = Buffer.isBuffer(chunk) ? chunk : Buffer.from(buffer, byteOffset, byteLength)
  return bytes.toString('utf8')
}

function parse(payload: string): unknown {
  try {
    return JSON.parse(payload)
  } catch {
    // Without the cause: its message quotes the payload, and no body may reach a log.
    throw new UpstreamFailure(
      'upstream_error',
      'The model provider sent an event that is not JSON.',
    )
  }
}
