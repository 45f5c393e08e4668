/** `POST /v1/audio/speech`, as the client sees it. */
import { flowFrom } from '../../stream/flow.ts'
import { toBase64 } from '../shared/media.ts'
import type { WireFormat } from '../../pipeline/pipeline.ts'
import type { Batch, Flow, SpeechInput, Step } from '../../plugin.ts'
import { parsedRequest } from '../shared/body.ts'
import { errorWriter, typedErrorEvent, writeBytes, writeEvents } from '../shared/write.ts'
import type { SpeechPart } from './answer.ts'
import { usageJson } from './billing.ts'
import { readSpeech, speechBody, type SpeechRequest } from './read.ts'

/** Raw sound, or events with base64. */
export const speechFormat: WireFormat<SpeechRequest, SpeechPart> = {
  path: '/v1/audio/speech',
  body: speechBody,

  // Sound is always sent as it comes, in events or not.
  read: async (incoming) => parsedRequest(incoming, await readSpeech(incoming), true),

  async write(call, { parts }, out) {
    const opening = await parts.next()
    const receipt = (await opening.parts[0]!.receipt)!
    call.headers['x-service-cost'] = receipt.bill.text
    const sound = resumed(opening, parts)
    const { stream_format } = call.request.input as SpeechRequest
    if (stream_format !== 'sse') {
      const bytes = sound.through<Uint8Array>({ push: (part, emit) => emit(part.bytes) })
      const type = CONTENT_TYPES[(call.outbound as SpeechInput).response_format]
      return writeBytes(call, bytes, out, { 'content-type': type })
    }
    const done = { type: 'speech.audio.done', usage: usageJson(receipt) }
    const events = { parts: sound.through(new SpeechEvents(done)) }
    return writeEvents(call, events, out, { encode: eventOf, last: '', fail: typedErrorEvent })
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

/** A flow whose first batch has been read. */
function resumed<Part>(opening: Batch<Part>, rest: Flow<Part>): Flow<Part> {
  let first: Batch<Part> | undefined = opening
  return flowFrom({
    next() {
      const batch = first
      first = undefined
      return batch ? Promise.resolve(batch) : rest.next()
    },
    close: () => rest.close(),
  })
}

/** Sound as events. Each can be decoded on its own: all but the last have whole groups of three bytes. */
class SpeechEvents implements Step<SpeechPart, object> {
  readonly #done: object
  #left: Uint8Array = new Uint8Array(0)

  /** @param done the last event */
  constructor(done: object) {
    this.#done = done
  }

  push({ bytes }: SpeechPart, emit: (event: object) => void): void {
    const all = this.#left.length > 0 ? Buffer.concat([this.#left, bytes]) : bytes
    const whole = all.length - (all.length % 3)
    this.#left = all.subarray(whole)
    if (whole > 0) emit(deltaOf(all.subarray(0, whole)))
  }

  end(emit: (event: object) => void): void {
    if (this.#left.length > 0) emit(deltaOf(this.#left))
    emit(this.#done)
  }
}

function deltaOf(bytes: Uint8Array): object {
  return { type: 'speech.audio.delta', audio: toBase64(bytes) }
}

function eventOf(event: object): string {
  return `data: ${JSON.stringify(event)}\n\n`
}
