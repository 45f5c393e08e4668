/** Reads transcripts in all JSON forms and events. */
import type {
  Host,
  Step,
  Transcription,
  TranscriptionEvent,
  TranscriptSegment,
  TranscriptWord,
  Usage,
} from '../../src/plugin.ts'
import { notAnAnswer, countOrNone, textOf, tokenCount } from '../shared/http.ts'
import { inbandFailure } from './errors.ts'

/**
 * A whole answer.
 * @throws the failure of an error in it; `upstream_error` when it is not a transcript
 */
export function toTranscription(payload: any, fail: Host['fail']): Transcription {
  const failed = inbandFailure(fail, payload)
  if (failed) throw failed.error
  const { text, language, duration, segments, words, logprobs } = payload
  if (typeof text !== 'string') throw notAnAnswer(fail)
  const usage = usageOf(payload.usage)
  return {
    text,
    ...(typeof language === 'string' && language && { language }),
    ...(typeof duration === 'number' && { duration }),
    ...(Array.isArray(segments) && segments.length > 0 && { segments: segments.map(toSegment) }),
    ...(Array.isArray(words) && { words: words.map(toWord) }),
    ...(Array.isArray(logprobs) && { logprobs }),
    ...(usage && { usage }),
  }
}

/** Events of OpenAI, and of servers that stream transcripts as chat chunks. */
export class TranscriptEvents implements Step<any, TranscriptionEvent> {
  readonly #fail: Host['fail']
  /** The text so far, empty for silence; undefined before the first event of a transcript. */
  #text: string | undefined
  #usage: Usage | undefined
  #ended = false

  constructor(fail: Host['fail']) {
    this.#fail = fail
  }

  push(payload: any, emit: (event: TranscriptionEvent) => void): void {
    if (typeof payload !== 'object' || payload === null) throw notAnAnswer(this.#fail)
    if (payload.endOfStream === true) return this.#end(emit)
    const failed = inbandFailure(this.#fail, payload)
    if (failed) throw failed.error
    const { type, delta, segment_id: segmentId, logprobs } = payload
    if (Array.isArray(payload.choices)) {
      this.#text ??= ''
      const text = payload.choices[0]?.delta?.content
      if (typeof text === 'string') this.#emitDelta({ type: 'delta', text }, emit)
      this.#usage = usageOf(payload.usage) ?? this.#usage
    } else if (type === 'transcript.text.delta') {
      const event = { type: 'delta', text: textOf(delta) } as const
      const details = { ...(segmentId && { segmentId }), ...(logprobs && { logprobs }) }
      this.#emitDelta({ ...event, ...details }, emit)
    } else if (type === 'transcript.text.segment') {
      emit({ type: 'segment', id: textOf(payload.id), segment: toSegment(payload) })
    } else if (type === 'transcript.text.done') {
      this.#ended = true
      const { languages, ...rest } = payload
      const language = languages?.[0]?.code
      emit({ type: 'done', ...toTranscription({ language, ...rest }, this.#fail) })
    }
  }

  #emitDelta(
    event: TranscriptionEvent & { readonly type: 'delta' },
    emit: (event: TranscriptionEvent) => void,
  ): void {
    this.#text = (this.#text ?? '') + event.text
    emit(event)
  }

  #end(emit: (event: TranscriptionEvent) => void): void {
    if (this.#ended || this.#text === undefined) return
    this.#ended = true
    const usage = this.#usage
    emit({ type: 'done', text: this.#text, ...(usage && { usage }) })
  }
}

function toSegment(segment: any): TranscriptSegment {
  const { type: _type, speaker_id, speaker = speaker_id, ...rest } = Object(segment)
  return {
    ...rest,
    start: secondsOf(rest.start),
    end: secondsOf(rest.end),
    text: textOf(rest.text),
    ...(speaker !== undefined && speaker !== null && { speaker: toSpeaker(speaker) }),
  }
}

function toWord(word: any): TranscriptWord {
  const { word: said, text = said, start, end, speaker } = Object(word)
  return {
    word: textOf(text),
    start: secondsOf(start),
    end: secondsOf(end),
    ...(speaker !== undefined && speaker !== null && { speaker: toSpeaker(speaker) }),
  }
}

function toSpeaker(speaker: unknown): string | number {
  return typeof speaker === 'number' ? speaker : textOf(speaker)
}

function secondsOf(value: unknown): number {
  return typeof value === 'number' && value >= 0 && Number.isFinite(value) ? value : 0
}

/** Usage by time or by tokens; some vendors report both. */
function usageOf(reported: any): Usage | undefined {
  if (typeof reported !== 'object' || reported === null) return undefined
  const seconds = reported.seconds ?? reported.prompt_audio_seconds
  const input = reported.input_tokens ?? reported.prompt_tokens
  const details = reported.input_token_details ?? reported.prompt_tokens_details ?? {}
  const output = reported.output_tokens ?? reported.completion_tokens
  const [promptTokens, completionTokens] = [countOrNone(input), countOrNone(output)]
  const usage: Usage = {
    ...(typeof seconds === 'number' && seconds > 0 && { seconds }),
    ...(promptTokens !== null && {
      promptTokens,
      audioInputTokens: Math.min(tokenCount(details.audio_tokens), promptTokens),
    }),
    ...(completionTokens !== null && { completionTokens }),
  }
  return Object.keys(usage).length > 0 ? usage : undefined
}
