/** Sound of a provider, in the format that the client asked for, and what it consumes. */
import { PCM_RATE, Resample, ToWav } from '../audio/samples.ts'
import { codePointsIn } from '../../errors/checks.ts'
import { UpstreamFailure, brokenAnswer } from '../../errors/errors.ts'
import { mediaTypeOf } from '../shared/media.ts'
import { bounds, UNKNOWN_CONTEXT, UNKNOWN_OUTPUT, type UsageReport } from '../../money/plausible.ts'
import type { ProviderAnswer, Receipt } from '../../pipeline/pipeline.ts'
import type { Speech, SpeechInput, Step, Usage } from '../../plugin.ts'
import type { ChainStep } from '../../stream/chain.ts'
import { Received } from '../shared/billing.ts'

export interface SpeechPart {
  readonly bytes: Uint8Array
  /** On the first piece: the charge for the whole answer. */
  readonly receipt?: Receipt
}

type Format = SpeechInput['response_format']

const CHARACTERS_PER_TOKEN = 4
const SOUND_TOKENS = 16

export function charactersOf({ input }: SpeechInput): { readonly characters: number } {
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
  /** Set by {@link open}. */
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
