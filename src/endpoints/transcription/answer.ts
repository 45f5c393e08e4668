/** What a provider heard, on its way in: in order, complete, and counted. */
import { secondsOf, billableSeconds } from '../audio/length.ts'
import { segmentsFromWords } from '../audio/segments.ts'
import { UpstreamFailure } from '../../errors/errors.ts'
import type { Model } from '../../models/catalog.ts'
import type {
  MediaFile,
  Step,
  Transcription,
  TranscriptionEvent,
  TranscriptSegment,
  Usage,
} from '../../plugin.ts'
import type { Receipt } from '../shared/billing.ts'
import type { TranscriptionRequest } from './request.ts'

/** What passes between the provider and the client. `done` is the last part, and the only one that is not streamed. */
export type TranscriptPart = Exclude<TranscriptionEvent, { type: 'done' }> | DonePart

export interface DonePart extends Omit<Transcription, 'usage'>, Partial<Receipt> {
  readonly type: 'done'
  /** Of the file, where nobody knows better. */
  readonly duration?: number
  /** As the vendor told it, and in the form of the wire once it is charged. */
  readonly usage?: object
}

/** Whether it is the last one. */
export function isDone(part: TranscriptPart): part is DonePart {
  return part.type === 'done'
}

const CHARACTERS_PER_TOKEN = 4
/** As vendors count that count sound in tokens. */
const TOKENS_PER_SECOND = 10
/** Of sound that nobody can measure: 32 kbit/s, which is speech at its smallest. */
const BYTES_PER_SECOND = 4000

/** Puts the parts of one answer in order, and reads the quantities. */
export class TranscriptIntake implements Step<TranscriptionEvent, TranscriptPart> {
  readonly #request: TranscriptionRequest
  #said = ''
  #segments = 0
  #done: DonePart | undefined

  constructor(request: TranscriptionRequest) {
    this.#request = request
  }

  push(event: TranscriptionEvent, emit: (part: TranscriptPart) => void): void {
    if (this.#done) return
    const { stream, include } = this.#request
    if (event.type === 'done') this.#done = this.#complete(event)
    else if (event.type === 'segment') {
      this.#segments++
      if (stream) emit({ ...event, segment: nameSpeakers(event.segment) })
    } else if (event.text !== '') {
      const { logprobs, ...delta } = event
      this.#said += event.text
      if (stream) emit(include && logprobs ? event : delta)
    }
    if (!this.#done) return
    if (stream) this.#tellRest(this.#done, emit)
    emit(this.#done)
  }

  end(): void {
    if (this.#done) return
    throw new UpstreamFailure('upstream_error', 'The model provider closed the stream early.')
  }

  /** Of what came so far. Quantities in tokens are estimated where they are what is paid for and nobody reported any. */
  usage({ prices }: Model): Usage {
    const { file, prompt } = this.#request
    const reported: Usage | undefined = this.#done?.usage
    const measured = secondsOf(file)
    const heard = this.#done?.duration ?? measured
    const exact = reported?.seconds ?? heard
    const seconds = billableSeconds(exact ?? file.bytes.length / BYTES_PER_SECOND)
    const byTokens = TOKEN_PRICES.some((name) => name in prices)
    const hasTokens = (reported?.promptTokens ?? reported?.completionTokens) !== undefined
    const guessed = (byTokens && !hasTokens) || (!byTokens && exact === undefined)
    return {
      ...(byTokens && !hasTokens && tokensFor(seconds, prompt, this.#done?.text ?? this.#said)),
      ...reported,
      seconds,
      ...(guessed && { estimated: true }),
    }
  }

  #complete(event: TranscriptionEvent & { type: 'done' }): DonePart {
    const { logprobs, segments: given, ...rest } = event
    const { words = [] } = rest
    const segments = given ?? (words.length > 0 ? segmentsFromWords(event.text, words) : undefined)
    const ends = [...(segments ?? []), ...words].map(({ end }) => end)
    const measured = secondsOf(this.#request.file)
    const known = rest.duration ?? measured
    // A file may say less of itself than was heard in it.
    const duration =
      rest.duration === undefined && ends.length > 0 ? Math.max(known ?? 0, ...ends) : known
    const sorted = segments?.toSorted((a, b) => a.start - b.start)
    this.#check(event.text, sorted)
    return {
      ...rest,
      ...(duration !== undefined && { duration }),
      ...(sorted && { segments: sorted }),
      ...(this.#request.include && logprobs && { logprobs }),
    }
  }

  /** An answer must not look as if somebody had told speakers apart when nobody did. */
  #check(text: string, segments: readonly TranscriptSegment[] | undefined): void {
    if (this.#request.response_format !== 'diarized_json' || this.#request.stream) return
    if (segments?.some(({ speaker }) => speaker !== undefined) || text.trim() === '') return
    const message = 'The model provider did not tell the speakers apart.'
    throw new UpstreamFailure('upstream_error', message)
  }

  /** What a client that wants a stream has not heard yet: of a model that has none, everything (D48). */
  #tellRest({ text, segments = [] }: DonePart, emit: (part: TranscriptPart) => void): void {
    const silent = this.#said === ''
    const apart = this.#request.response_format === 'diarized_json' && segments.length > 0
    if (!apart) {
      if (silent && text !== '') emit({ type: 'delta', text })
      return
    }
    if (this.#segments > 0) return
    segments.forEach((segment, index) => {
      const id = segmentId(index)
      if (silent && segment.text !== '') emit({ type: 'delta', text: segment.text, segmentId: id })
      emit({ type: 'segment', id, segment: nameSpeakers(segment) })
    })
  }
}

const TOKEN_PRICES = ['prompt', 'audio', 'completion'] as const

/** Lower and upper bound of what a file will cost: it is heard whole, whatever is said in it. */
export function estimateOf(
  file: MediaFile,
  prompt: string | undefined,
): { readonly least: Usage; readonly most: Usage } {
  const seconds = billableSeconds(secondsOf(file) ?? file.bytes.length / BYTES_PER_SECOND)
  const { completionTokens, ...heard } = tokensFor(seconds, prompt, '')
  // Nobody says more than a word or two a second.
  return {
    least: { seconds, ...heard },
    most: { seconds, ...heard, completionTokens: completionTokens + seconds * 4 },
  }
}

export function segmentId(index: number): string {
  return `seg_${String(index + 1).padStart(3, '0')}`
}

/** Speakers without a name are A, B and so on, after Z come AA and BB. */
export function nameSpeakers(segment: TranscriptSegment): TranscriptSegment {
  const { speaker = 0 } = segment
  if (typeof speaker === 'string' && speaker !== '') return segment
  const number = Number(speaker) || 0
  const letter = String.fromCharCode(65 + (number % 26))
  return { ...segment, speaker: letter.repeat(1 + Math.floor(number / 26)) }
}

function tokensFor(seconds: number, prompt: string | undefined, said: string) {
  const audioInputTokens = seconds * TOKENS_PER_SECOND
  return {
    promptTokens: audioInputTokens + Math.ceil((prompt?.length ?? 0) / CHARACTERS_PER_TOKEN),
    audioInputTokens,
    completionTokens: Math.ceil(said.length / CHARACTERS_PER_TOKEN),
  }
}
