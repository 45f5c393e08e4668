/** Transcripts of providers: put in order, completed, and counted. */
import { segmentsFromWords } from '../audio/segments.ts'
import {
  filledText,
  integer,
  list,
  number,
  object,
  text,
  variant,
  withoutInvalid,
  type Check,
} from '../../errors/checks.ts'
import { brokenAnswer } from '../../errors/errors.ts'
import type { Model } from '../../models/catalog.ts'
import type { UsageReport } from '../../money/plausible.ts'
import { Received } from '../shared/billing.ts'
import type { ProviderAnswer } from '../../pipeline/pipeline.ts'
import type { ChainStep } from '../../stream/chain.ts'
import type { Transcription, TranscriptionEvent, TranscriptSegment } from '../../plugin.ts'
import { hearingOf, usageOf, type Hearing } from './billing.ts'
import { nameSpeakers, segmentId, type DonePart, type TranscriptPart } from './parts.ts'
import type { TranscriptionRequest } from './read.ts'

/** Brings a provider's transcript into normal form, and counts its quantities. */
export class TranscriptAnswer
  implements ProviderAnswer<TranscriptPart>, ChainStep<TranscriptionEvent, TranscriptPart>
{
  readonly steps = [this]
  readonly #received = new Received()
  readonly #model: Model
  readonly #hearing: Hearing
  readonly #request: Pick<TranscriptionRequest, 'stream' | 'include' | 'response_format'>
  #said = ''
  #segments = 0
  #done: DonePart | undefined

  constructor(request: TranscriptionRequest, model: Model) {
    this.#model = model
    this.#hearing = hearingOf(request)
    const { stream, include, response_format } = request
    this.#request = { stream, include, response_format }
  }

  push(given: TranscriptionEvent, emit: (part: TranscriptPart) => void): void {
    if (this.#done) return
    const event = wellFormed(given)
    this.#received.add(event.type === 'segment' ? 1 : event.text.length)
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
    throw brokenAnswer('The model provider closed the stream early.')
  }

  whole(transcription: Transcription): readonly TranscriptPart[] {
    const parts: TranscriptPart[] = []
    this.push({ type: 'done', ...transcription }, (part) => parts.push(part))
    return parts
  }

  usage(): UsageReport {
    return usageOf(this.#hearing, this.#model, this.#done, this.#said)
  }

  received(): number {
    return this.#received.amount
  }

  #complete(event: TranscriptionEvent & { type: 'done' }): DonePart {
    const { logprobs, segments: given, ...rest } = event
    const { words = [] } = rest
    const segments = given ?? (words.length > 0 ? segmentsFromWords(event.text, words) : undefined)
    const ends = [...(segments ?? []), ...words].map(({ end }) => end)
    const known = rest.duration ?? this.#hearing.measured
    // The length in a file's head may be too small.
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

  /** @throws UpstreamFailure when the client asked for speakers and the provider did not tell them apart */
  #check(text: string, segments: readonly TranscriptSegment[] | undefined): void {
    if (this.#request.response_format !== 'diarized_json' || this.#request.stream) return
    if (segments?.some(({ speaker }) => speaker !== undefined) || text.trim() === '') return
    const message = 'The model provider did not tell the speakers apart.'
    throw brokenAnswer(message)
  }

  /** Sends what a streaming client has not got yet: everything, from a model that cannot stream. */
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

const seconds = number(0)
const segment = object({ start: seconds, end: seconds, text }, ['start', 'end', 'text'])
const word = object({ start: seconds, end: seconds, word: text }, ['start', 'end', 'word'])
const token = object({ token: text, logprob: number(), bytes: list(integer(0, 255)) })
const event = variant('type', {
  delta: object({ text }, ['text']),
  segment: object({ id: filledText, segment }, ['id', 'segment']),
  done: object({ text, segments: list(segment), words: list(word) }, ['text']),
})
/** Members that clients can do without: those they could not read are left out. */
const OPTIONAL: Readonly<Record<string, Check>> = {
  language: text,
  duration: seconds,
  logprobs: list(token),
  segmentId: filledText,
}

/** @throws UpstreamFailure for an event without text or times */
function wellFormed(given: TranscriptionEvent): TranscriptionEvent {
  if (event(given)) throw brokenAnswer('The model provider sent a malformed transcript.')
  return withoutInvalid(given, OPTIONAL)
}
