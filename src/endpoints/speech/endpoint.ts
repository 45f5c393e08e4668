/** `POST /v1/audio/speech`: paid by the character (Unicode code point), which is known before the first sound. */
import {
  either,
  filledText,
  number,
  object,
  oneOf,
  shortText,
  codePointsIn,
  described,
} from '../../errors/checks.ts'
import { cannotBook, UpstreamFailure, brokenAnswer } from '../../errors/errors.ts'
import { costJson, isOfModel } from '../../money/money.ts'
import type { Call, Done, Receipt, Writer, ProviderAnswer } from '../../pipeline/pipeline.ts'
import type { Outgoing } from '../../pipeline/http.ts'
import type { SpeechInput, Speech, Step, Usage } from '../../plugin.ts'
import type { Policy } from '../../policy/policy.ts'
import type { ChainStep } from '../../stream/chain.ts'
import { Received } from '../shared/billing.ts'
import { readValid } from '../shared/body.ts'
import { itemOf, labelItems, otherItems } from '../shared/guard.ts'
import { toBase64, mediaTypeOf } from '../shared/media.ts'
import { defineUnitEndpoint } from '../shared/unit.ts'
import { BytesWriter, EventWriter, typedErrorEvent, type EventFormat } from '../shared/write.ts'
import { bounds, UNKNOWN_CONTEXT, UNKNOWN_OUTPUT, type UsageReport } from '../../money/plausible.ts'

// Sound as samples (16 bits, signed, little-endian, mono), converted to WAV or to another rate.

/** Samples per second of the format `pcm`. */
const PCM_RATE = 24_000

const HEADER_BYTES = 44
/** Bytes retained for a correct WAV header: 11 minutes at 24 kHz, 4 at the highest rates. */
const MAX_HELD_BYTES = 32 * 1024 * 1024
/** The length that streaming programs write where it is unknown. */
const UNKNOWN_LENGTH = 0xffffffff

/**
 * Makes a WAV file of samples. Its header holds the length, so samples are retained until the end; longer sound
 * follows a header without a length.
 */
export class ToWav implements Step<Uint8Array, Uint8Array> {
  readonly #rate: number
  #held: Uint8Array[] | undefined = []
  #bytes = 0

  constructor(rate: number) {
    this.#rate = rate
  }

  push(bytes: Uint8Array, emit: (bytes: Uint8Array) => void): void {
    if (!this.#held) return emit(bytes)
    this.#held.push(bytes)
    this.#bytes += bytes.length
    if (this.#bytes > MAX_HELD_BYTES) this.#letGo(UNKNOWN_LENGTH, emit)
  }

  end(emit: (bytes: Uint8Array) => void): void {
    if (this.#bytes > 0) this.#letGo(this.#bytes, emit)
  }

  #letGo(bytes: number, emit: (bytes: Uint8Array) => void): void {
    if (!this.#held) return
    emit(wavHeader(this.#rate, bytes))
    for (const held of this.#held) emit(held)
    this.#held = undefined
  }
}

function wavHeader(rate: number, bytes: number): Uint8Array {
  const header = Buffer.alloc(HEADER_BYTES)
  header.write('RIFF', 0, 'latin1')
  header.writeUInt32LE(Math.min(bytes + HEADER_BYTES - 8, UNKNOWN_LENGTH), 4)
  header.write('WAVEfmt ', 8, 'latin1')
  header.writeUInt32LE(16, 16)
  header.writeUInt16LE(1, 20)
  header.writeUInt16LE(1, 22)
  header.writeUInt32LE(rate, 24)
  header.writeUInt32LE(rate * 2, 28)
  header.writeUInt16LE(2, 32)
  header.writeUInt16LE(16, 34)
  header.write('data', 36, 'latin1')
  header.writeUInt32LE(bytes, 40)
  return header
}

/** Zero crossings of the filter on either side of a sample; more are steeper. */
const CROSSINGS = 16
/** Shape of Kaiser's window: unwanted frequencies are attenuated by about 80 dB. */
const WINDOW_BETA = 8
/** Share of the common band that passes; the rest is the slope of the filter. */
const PASSED = 0.95

/**
 * Converts sound to another rate with a windowed-sinc filter for each phase between two samples. The length stays the
 * same, however the sound is cut into pieces.
 */
export class Resample implements Step<Uint8Array, Uint8Array> {
  /** Output samples for each group of input samples, in lowest terms. */
  readonly #up: number
  readonly #down: number
  /** Samples around a position that count. */
  readonly #width: number
  readonly #weights: Float64Array
  /** Input samples from number `#from` on that are still needed. */
  #held: Float64Array
  #from: number
  #count = 0
  /** Number of the next output sample. */
  #next = 0
  /** The first byte of a sample that was cut. */
  #odd: number | undefined

  constructor(from: number, to: number) {
    const divisor = greatestCommonDivisor(from, to)
    this.#up = to / divisor
    this.#down = from / divisor
    const band = Math.min(1, to / from)
    this.#width = 2 * Math.ceil(CROSSINGS / band)
    this.#weights = filterOf(this.#up, this.#width, band * PASSED)
    this.#held = new Float64Array(4096)
    // Silence before the first sample.
    this.#from = 1 - this.#width / 2
    this.#count = this.#width / 2 - 1
  }

  push(bytes: Uint8Array, emit: (bytes: Uint8Array) => void): void {
    this.#take(bytes)
    this.#make(this.#from + this.#count - this.#width / 2, emit)
  }

  end(emit: (bytes: Uint8Array) => void): void {
    const end = this.#from + this.#count
    this.#grow(this.#width)
    this.#held.fill(0, this.#count, this.#count + this.#width)
    this.#count += this.#width
    this.#make(end, emit)
  }

  #take(bytes: Uint8Array): void {
    this.#grow(bytes.length)
    let i = 0
    if (this.#odd !== undefined && bytes.length > 0) {
      this.#add(this.#odd, bytes[i++]!)
      this.#odd = undefined
    }
    for (; i + 1 < bytes.length; i += 2) this.#add(bytes[i]!, bytes[i + 1]!)
    if (i < bytes.length) this.#odd = bytes[i]
  }

  #add(low: number, high: number): void {
    this.#held[this.#count++] = ((low | (high << 8)) << 16) >> 16
  }

  #grow(by: number): void {
    if (this.#count + by <= this.#held.length) return
    const held = new Float64Array(2 * (this.#count + by))
    held.set(this.#held.subarray(0, this.#count))
    this.#held = held
  }

  #make(end: number, emit: (bytes: Uint8Array) => void): void {
    const total = Math.ceil((end * this.#up) / this.#down)
    if (total <= this.#next) return
    const out = new Int16Array(total - this.#next)
    const width = this.#width
    for (let i = 0; i < out.length; i++) {
      const place = (this.#next + i) * this.#down
      const whole = Math.floor(place / this.#up)
      const first = whole + 1 - width / 2 - this.#from
      const phase = (place - whole * this.#up) * width
      let sum = 0
      for (let j = 0; j < width; j++) sum += this.#weights[phase + j]! * this.#held[first + j]!
      out[i] = Math.max(-32_768, Math.min(32_767, Math.round(sum)))
    }
    this.#next = total
    this.#forget()
    emit(new Uint8Array(out.buffer))
  }

  #forget(): void {
    const needed = Math.floor((this.#next * this.#down) / this.#up) + 1 - this.#width / 2
    const done = Math.min(needed - this.#from, this.#count)
    if (done <= 0) return
    this.#held.copyWithin(0, done, this.#count)
    this.#count -= done
    this.#from += done
  }
}

/** Weights by [phase][neighbour]; those of a phase add up to one. */
function filterOf(places: number, width: number, band: number): Float64Array {
  const weights = new Float64Array(places * width)
  for (let place = 0; place < places; place++) {
    let sum = 0
    for (let j = 0; j < width; j++) {
      const distance = j + 1 - width / 2 - place / places
      const weight = sinc(band * distance) * kaiser(distance / (width / 2))
      weights[place * width + j] = weight
      sum += weight
    }
    for (let j = 0; j < width; j++) weights[place * width + j]! /= sum
  }
  return weights
}

function sinc(x: number): number {
  return x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x)
}

function kaiser(x: number): number {
  return bessel(WINDOW_BETA * Math.sqrt(Math.max(0, 1 - x * x))) / bessel(WINDOW_BETA)
}

/** The modified Bessel function of the first kind, of order zero, by its series. */
function bessel(x: number): number {
  let sum = 1
  let term = 1
  for (let n = 1; term > sum * 1e-12; n++) {
    term *= (x / 2 / n) ** 2
    sum += term
  }
  return sum
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b)
}

// Sound of a provider, in the format that the client asked for, and what it consumes.

interface SpeechPart {
  readonly bytes: Uint8Array
  /** The charge for the whole answer, on the first piece. */
  readonly receipt?: Receipt
}

type Format = SpeechInput['response_format']

const CHARACTERS_PER_TOKEN = 4
const SOUND_TOKENS = 16

function charactersOf({ input }: SpeechInput): { readonly characters: number } {
  return { characters: codePointsIn(input) }
}

/** The figures of a request with which the usage of an answer is compared. Its text need not be there any more. */
type Spoken = ReturnType<typeof spokenOf>

function spokenOf(input: SpeechInput) {
  const bytes = Buffer.byteLength(input.input) + Buffer.byteLength(input.instructions ?? '')
  return { ...charactersOf(input), bytes }
}

/** Usage of an answer: characters by the gateway's own count, tokens where the vendor reports them. */
function usageOf({ characters, bytes }: Spoken, usage: Usage | undefined): UsageReport {
  const tokens = Math.ceil(bytes / CHARACTERS_PER_TOKEN)
  return {
    reported: usage && { ...usage },
    counted: { characters },
    expected: {
      promptTokens: { ...bounds(tokens, bytes + 4096, UNKNOWN_CONTEXT), needed: false },
      completionTokens: {
        ...bounds(tokens, SOUND_TOKENS * bytes + 1024, UNKNOWN_OUTPUT),
        needed: false,
      },
    },
  }
}

/** The state of one answer. Its sound comes in the format that the client asked for. */
export class SpeechAnswer implements ProviderAnswer<SpeechPart> {
  /** It is set by {@link open}. */
  steps: readonly ChainStep[] = []
  readonly chargeAtFirstPart = true
  readonly #format: Format
  readonly #spoken: Spoken
  readonly #received = new Received()
  #usage: Usage | undefined

  constructor(request: SpeechInput) {
    this.#format = request.response_format
    this.#spoken = spokenOf(request)
  }

  /** @throws UpstreamFailure `unsupported_value` when samples cannot become the format that was asked for */
  open({ bytes, pcmSampleRate, usage }: Speech): AsyncIterable<Uint8Array> {
    this.#usage = usage
    this.steps = [
      { push: this.#count.bind(this) },
      ...toFormat(pcmSampleRate, this.#format),
      { push: (piece: Uint8Array, emit) => emit({ bytes: piece }) },
    ]
    return bytes
  }

  whole(): readonly SpeechPart[] {
    throw new TypeError('the bytes of speech are no sequence')
  }

  usage(): UsageReport {
    return usageOf(this.#spoken, this.#usage)
  }

  received(): number {
    return this.#received.amount
  }

  /** @throws UpstreamFailure for a piece that is not bytes: nothing is charged if it is the first */
  #count(piece: unknown, emit: (bytes: Uint8Array) => void): void {
    if (!(piece instanceof Uint8Array)) {
      throw brokenAnswer('The model provider sent something that is not bytes.')
    }
    this.#received.add(piece.length)
    emit(piece)
  }
}

/**
 * Steps that bring sound into the requested format. They fail where the sound has another format, or none.
 * @param rate samples per second, where the provider gives samples
 * @throws UpstreamFailure `unsupported_value` when samples cannot become that format
 */
function toFormat(rate: number | undefined, format: Format): readonly ChainStep[] {
  const check = new ContainerCheck(format)
  if (rate === undefined) return [check]
  if (format === 'wav') return [new ToWav(rate), check]
  if (format !== 'pcm') throw cannotMake(format)
  return rate === PCM_RATE ? [check] : [new Resample(rate, PCM_RATE), check]
}

/** Media types by the first bytes. `pcm` has no signature. */
const TYPES: Readonly<Record<Format, string | undefined>> = {
  mp3: 'audio/mpeg',
  opus: 'audio/ogg',
  aac: 'audio/aac',
  flac: 'audio/flac',
  wav: 'audio/wav',
  pcm: undefined,
}
/** Signatures that other data does not have. */
const SURE = new Set(['audio/wav', 'audio/flac', 'audio/ogg', 'audio/mp4', 'audio/webm'])
const HEAD_BYTES = 12

class ContainerCheck implements Step<Uint8Array, Uint8Array> {
  readonly #format: Format
  #head: Uint8Array | undefined = new Uint8Array(0)

  constructor(format: Format) {
    this.#format = format
  }

  push(bytes: Uint8Array, emit: (bytes: Uint8Array) => void): void {
    if (!this.#head) return bytes.length > 0 ? emit(bytes) : undefined
    this.#head = this.#head.length > 0 ? Buffer.concat([this.#head, bytes]) : bytes
    if (this.#head.length >= HEAD_BYTES) this.#open(this.#head, emit)
  }

  end(emit: (bytes: Uint8Array) => void): void {
    if (this.#head) this.#open(this.#head, emit)
  }

  #open(head: Uint8Array, emit: (bytes: Uint8Array) => void): void {
    if (head.length === 0) {
      throw brokenAnswer('The model provider answered without sound.')
    }
    const mediaType = mediaTypeOf(head)
    const expected = TYPES[this.#format]
    if (
      mediaType &&
      mediaType !== expected &&
      (expected || SURE.has(mediaType) || isTagged(head))
    ) {
      throw cannotMake(this.#format)
    }
    // These two formats may begin anywhere in a stream, but not with text.
    const isLoose = this.#format === 'mp3' || this.#format === 'aac'
    if (!mediaType && expected && !(isLoose && !isText(head))) {
      throw brokenAnswer(
        'The model provider sent something that is no sound of the format it was asked for.',
      )
    }
    this.#head = undefined
    emit(head)
  }
}

function isTagged(head: Uint8Array): boolean {
  return Buffer.from(head.buffer, head.byteOffset, 3).toString('latin1') === 'ID3'
}

function isText(head: Uint8Array): boolean {
  return head.every((byte) => (byte >= 0x20 && byte < 0x7f) || (byte >= 0x09 && byte <= 0x0d))
}

function cannotMake(format: Format): UpstreamFailure {
  return new UpstreamFailure(
    'bad_request',
    `The model cannot make sound in the format ${format}. Ask for another response_format.`,
    { code: 'unsupported_value', param: 'response_format' },
  )
}

/** A valid request without members that are null. Unknown members are kept. */
interface SpeechRequest extends SpeechInput {
  readonly model: string
  readonly stream_format?: 'audio' | 'sse'
  readonly policy?: Policy
}

const LIMIT_BYTES = 1024 * 1024
const MAX_CHARACTERS = 4096

const CONTENT_TYPES: Readonly<Record<SpeechInput['response_format'], string>> = {
  mp3: 'audio/mpeg',
  opus: 'audio/opus',
  aac: 'audio/aac',
  flac: 'audio/flac',
  wav: 'audio/wav',
  pcm: 'audio/pcm',
}

const input = described(
  (value) => filledText(value) ?? shortText(MAX_CHARACTERS)(value),
  () => ({ type: 'string', minLength: 1, maxLength: MAX_CHARACTERS }),
)

const body = object(
  {
    model: filledText,
    input,
    voice: either('the name of a voice, or an object with its id', {
      string: filledText,
      object: object({ id: filledText }, ['id']),
    }),
    instructions: shortText(MAX_CHARACTERS),
    response_format: oneOf(Object.keys(CONTENT_TYPES)),
    speed: number(0.25, 4),
    stream_format: oneOf(['audio', 'sse']),
  },
  ['model', 'input', 'voice'],
)

const READ_SEPARATELY = new Set(['input', 'voice', 'response_format', 'stream_format'])

export const speech = defineUnitEndpoint<SpeechRequest, SpeechInput, SpeechPart>({
  path: '/v1/audio/speech',
  operation: 'speech',
  modality: 'speech',
  // A WAV file made of samples starts late: its head says how many there are.
  slowStart: true,
  errorField: 'input',
  body,
  toInput: (incoming) =>
    readValid<SpeechRequest>(incoming, LIMIT_BYTES, body, { response_format: 'mp3' }),
  // Sound is always sent as it comes, in events or not.
  streams: () => true,
  // Providers give sound; the gateway makes events of it.
  own: ['stream_format'],
  content: { input: '', instructions: undefined },

  estimate(request) {
    const usage = charactersOf(request)
    return { least: usage, expected: usage, most: usage }
  },

  usage: usageJson,
  answer: ({ outbound }) => new SpeechAnswer(outbound),
  attach: (call) => new ReceiptAtStart(call),

  texts: (request) => [
    itemOf('input', 'speech', request.input),
    ...labelItems('voice', request.voice),
    ...otherItems(request, READ_SEPARATELY, 'speech'),
  ],
  codec: () => ({
    split: (part, take) => take({ kind: 'mark', choice: 0, part }),
    cut: ({ part }) => part,
  }),
  outputRepeatsInput: true,
  write: writeSpeech,
})

/** `usage` of an answer. Models that are paid by the character have no tokens. */
function usageJson(receipt: Receipt): object {
  const { meter } = receipt
  const consumed = meter.find(isOfModel)?.usage ?? {}
  const { promptTokens = 0, completionTokens = 0, characters = 0 } = consumed
  return {
    input_tokens: promptTokens,
    output_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    characters,
    ...costJson(receipt),
  }
}

/** Charges when the first piece arrives, for good: the cost is in the head of the answer, before the sound. */
class ReceiptAtStart implements ChainStep<SpeechPart, SpeechPart> {
  readonly #call: Call
  #isPriced = false

  constructor(call: Call) {
    this.#call = call
  }

  push(part: SpeechPart, emit: (part: SpeechPart) => void): void | Promise<void> {
    if (this.#isPriced) return emit(part)
    this.#isPriced = true
    const { answer, charge, headers } = this.#call
    const receipt = charge!.price()!
    return charge!.book().then(() => {
      if (answer.unbooked) throw cannotBook()
      headers['x-service-cost'] = receipt.bill.text
      answer.produced = true
      emit({ ...part, receipt })
    })
  }
}

function writeSpeech(call: Call, out: Outgoing, done: Done): Writer<SpeechPart> {
  if ((call.request.input as SpeechRequest).stream_format === 'sse') {
    return new EventWriter(call, out, done, new SpeechEvents())
  }
  const { response_format: format } = call.target.outbound as SpeechInput
  return new BytesWriter(call, out, done, CONTENT_TYPES[format])
}

/** Sound as events. Each can be decoded on its own: all but the last have whole groups of three bytes. */
class SpeechEvents implements EventFormat<SpeechPart> {
  readonly last = ''
  readonly fail = typedErrorEvent
  /** The head has the cost. */
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
