/** `POST /v1/audio/speech`, as the client sees it. */
import { toBase64 } from '../shared/media.ts'
import type { Receipt, WireFormat } from '../../pipeline/pipeline.ts'
import type { SpeechInput } from '../../plugin.ts'
import { parsedRequest } from '../shared/body.ts'
import {
  BytesWriter,
  errorWriter,
  EventWriter,
  typedErrorEvent,
  type EventFormat,
} from '../shared/write.ts'
import type { SpeechPart } from './answer.ts'
import { usageJson } from './billing.ts'
import { readSpeech, speechBody, type SpeechRequest } from './read.ts'

/** Raw sound, or events with base64. */
export const speechFormat: WireFormat<SpeechRequest, SpeechPart> = {
  path: '/v1/audio/speech',
  body: speechBody,

  // Sound is always sent as it comes, in events or not.
  read: async (incoming) => parsedRequest(incoming, await readSpeech(incoming), true),

  write(call, out, done) {
    if ((call.request.input as SpeechRequest).stream_format === 'sse') {
      return new EventWriter(call, out, done, new SpeechEvents())
    }
    const { response_format } = call.target.outbound as SpeechInput
    const headers = { 'content-type': CONTENT_TYPES[response_format] }
    return new BytesWriter<SpeechPart>(
      call,
      out,
      done,
      ({ bytes }) => bytes,
      () => headers,
    )
  },

  writeError: errorWriter(usageJson),
}

const CONTENT_TYPES: Readonly<Record<SpeechInput['response_format'], string>> = {
  mp3: 'audio/mpeg',
  opus: 'audio/opus',
  aac: 'audio/aac',
  flac: 'audio/flac',
  wav: 'audio/wav',
  pcm: 'audio/pcm',
}

/** Sound as events. Each can be decoded on its own: all but the last have whole groups of three bytes. */
class SpeechEvents implements EventFormat<SpeechPart> {
  readonly last = ''
  readonly fail = typedErrorEvent
  /** The head tells the cost. */
  readonly headWaits = true
  #receipt: Receipt | undefined
  #left: Uint8Array = new Uint8Array(0)

  encode({ bytes, receipt }: SpeechPart): string {
    this.#receipt ??= receipt
    const all = this.#left.length > 0 ? Buffer.concat([this.#left, bytes]) : bytes
    const whole = all.length - (all.length % 3)
    this.#left = all.subarray(whole)
    return whole > 0 ? deltaOf(all.subarray(0, whole)) : ''
  }

  closing(): string {
    const rest = this.#left.length > 0 ? deltaOf(this.#left) : ''
    return rest + eventOf({ type: 'speech.audio.done', usage: usageJson(this.#receipt!) })
  }
}

function deltaOf(bytes: Uint8Array): string {
  return eventOf({ type: 'speech.audio.delta', audio: toBase64(bytes) })
}

function eventOf(event: object): string {
  return `data: ${JSON.stringify(event)}\n\n`
}
