/** `POST /v1/audio/speech`: all of its wire knowledge (wire contract, 5.8). */
import { codePointsIn } from '../../errors/checks.ts'
import { GatewayError } from '../../errors/errors.ts'
import { flowFrom, toFlow } from '../../stream/flow.ts'
import { toBase64 } from '../shared/media.ts'
import { costJson, type Bill } from '../../money/money.ts'
import type { Call, Charge, Endpoint } from '../../pipeline/pipeline.ts'
import type { Batch, Flow, Speech, SpeechInput, Step } from '../../plugin.ts'
import { typedErrorEvent, writeBytes, writeEvents } from '../shared/write.ts'
import { guarding } from './guard.ts'
import { outboundSpeech, readSpeech, type SpeechRequest } from './request.ts'
import { toRequestedFormat, type SpeechPart } from './answer.ts'

export const speech: Endpoint<SpeechRequest, SpeechPart> = {
  operation: 'speech',
  path: '/v1/audio/speech',
  modality: 'speech',
  // Of a WAV file that is made of samples: its head says how many there are.
  slowStart: true,
  errorField: 'input',
  guard: guarding,

  read: readSpeech,
  modelOf: (input) => input.model,
  sessionOf: () => undefined,
  policyOf: (input) => input.policy,
  streams: () => true,
  check: () => {},
  estimate(input) {
    const usage = { characters: codePointsIn(input.input) }
    return { least: usage, most: usage }
  },
  toUpstream: outboundSpeech,
  // What is said is the client's to say, and there are no tokens to count.
  instruct: (outbound) => outbound,

  normalize(call, { bytes, pcmSampleRate: samples, usage }: Speech) {
    const { input, response_format: format }: SpeechInput = call.outbound
    const characters = codePointsIn(input)
    return {
      parts: toRequestedFormat(toFlow(bytes), samples, format).through({
        push: (piece: Uint8Array, emit: (part: SpeechPart) => void) => emit({ bytes: piece }),
      }),
      usage: () => ({ ...usage, characters }),
      chargeAtFirstPart: true,
    }
  },

  billed: (call, charge) => new AttachReceipt(call, charge),

  async write(call, { parts }, out) {
    const opening = await parts.next()
    const bill = await opening.parts[0]!.charged!
    call.headers['x-service-cost'] = bill.text
    const sound = resumed(opening, parts)
    if (call.input.stream_format !== 'sse') {
      const bytes = sound.through<Uint8Array>({ push: (part, emit) => emit(part.bytes) })
      const type = CONTENT_TYPES[(call.outbound as SpeechInput).response_format]
      return writeBytes(call, bytes, out, { 'content-type': type })
    }
    const done = { type: 'speech.audio.done', usage: { ...usageOf(call), ...costJson(bill) } }
    const events = { parts: sound.through(new SpeechEvents(done)) }
    return writeEvents(call, events, out, { encode: eventOf, last: '', fail: typedErrorEvent })
  },
}

/** D43 */
const CONTENT_TYPES: Readonly<Record<SpeechInput['response_format'], string>> = {
  mp3: 'audio/mpeg',
  opus: 'audio/opus',
  aac: 'audio/aac',
  flac: 'audio/flac',
  wav: 'audio/wav',
  pcm: 'audio/pcm',
}

/** Charges when the first piece is there, and does so for good (D44): the cost goes out before the sound. */
class AttachReceipt implements Step<SpeechPart, SpeechPart> {
  readonly #call: Call
  readonly #charge: Charge
  #charged: Promise<Bill> | undefined

  constructor(call: Call, charge: Charge) {
    this.#call = call
    this.#charge = charge
  }

  push(part: SpeechPart, emit: (part: SpeechPart) => void): void {
    if (this.#charged) return emit(part)
    const charged = this.#charge()
    // Whoever waits for it hears of a failure; a client that has left does not wait.
    charged.catch(() => {})
    this.#charged = charged
    emit({ ...part, charged })
  }

  async fail(error: unknown): Promise<unknown> {
    if (this.#charged && GatewayError.is(error)) {
      error.charged = { bill: await this.#charged, usage: usageOf(this.#call) }
    }
    return error
  }
}

/** Models that are paid by the character have no tokens, as images have none (D40). */
function usageOf({ meter }: Call): object {
  const consumed = meter.find(({ source }) => source === 'model')?.usage ?? {}
  const { promptTokens = 0, completionTokens = 0, characters = 0 } = consumed
  return {
    input_tokens: promptTokens,
    output_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    characters,
  }
}

/** A flow of which the beginning has been read. */
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

/** Sound as events. Each piece can be decoded on its own: all but the last have whole groups of three bytes. */
class SpeechEvents implements Step<SpeechPart, object> {
  readonly #done: object
  #left: Uint8Array = new Uint8Array(0)

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
