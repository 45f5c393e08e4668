/** `POST /v1/audio/transcriptions`: a transcript in each format and as events, paid by the second, or by tokens. */
import { InvalidRequest, brokenAnswer } from '../../errors/errors.ts'
import { lackOf, lacks, type Capability } from '../../models/capabilities.ts'
import type { Model } from '../../models/catalog.ts'
import { costJson, isOfModel } from '../../money/money.ts'
import type { Call, Receipt, ProviderAnswer } from '../../pipeline/pipeline.ts'
import type {
  MediaFile,
  TranscriptionInput,
  TranscriptSegment,
  TranscriptWord,
  Transcription,
  TranscriptionEvent,
} from '../../plugin.ts'
import { outboundMembers } from '../shared/body.ts'
import { itemOf, labelItems, mediaOf, otherItems } from '../shared/guard.ts'
import { defineUnitEndpoint } from '../shared/unit.ts'
import { billedJson, typedErrorEvent } from '../shared/write.ts'
import { readTranscription, transcriptionBody, type TranscriptionRequest } from './request.ts'
import { billableSeconds, secondsOf } from '../audio/length.ts'
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
import type { Estimate } from '../../money/holds.ts'
import {
  bounds,
  MEDIA_TOKENS,
  readCount,
  UNKNOWN_CONTEXT,
  UNKNOWN_OUTPUT,
  type UsageReport,
  textTokens,
} from '../../money/plausible.ts'
import { Received, type Billed } from '../shared/billing.ts'
import type { ChainStep } from '../../stream/chain.ts'
import type { AtomicText, OutputCodec, OutputPiece, TextPiece } from '../../guard/adapter.ts'

// Segments of a transcript, made from words with times.

/** The end of a sentence, in any script that marks it. */
const SENTENCE_END = /[.!?…。！？।؟]["'”’»)\]]*$/
/** Seconds of silence that end a segment. */
const PAUSE = 1.5
const LONGEST = 12

/** Segments of a text whose words have times. They end with sentences, pauses and speakers. */
export function segmentsFromWords(
  text: string,
  words: readonly TranscriptWord[],
): TranscriptSegment[] {
  const segments: TranscriptSegment[] = []
  const places = placesOf(text, words)
  let first = 0
  words.forEach((word, index) => {
    const next = words[index + 1]
    const goesOn =
      next !== undefined &&
      next.speaker === word.speaker &&
      next.start - word.end < PAUSE &&
      word.end - words[first]!.start < LONGEST &&
      !SENTENCE_END.test(word.word)
    if (goesOn) return
    const { start, speaker } = words[first]!
    const segmentText = places
      ? text.slice(places[first], places[index]! + word.word.length)
      : words
          .slice(first, index + 1)
          .map((one) => one.word)
          .join(' ')
    segments.push({
      start,
      end: word.end,
      text: segmentText,
      ...(speaker !== undefined && { speaker }),
    })
    first = index + 1
  })
  return segments
}

/** The offset of each word in the text, whose blanks and punctuation count; undefined if a word is missing. */
function placesOf(text: string, words: readonly TranscriptWord[]): number[] | undefined {
  const places: number[] = []
  let from = 0
  for (const { word } of words) {
    const place = text.indexOf(word, from)
    if (place < 0) return undefined
    places.push(place)
    from = place + word.length
  }
  return places
}

// Transcripts of providers: put in order, completed, and counted; and what guards read of them.

/** `done` is the last part, and the only one of an answer that is not streamed. */
export type TranscriptPart = Exclude<TranscriptionEvent, { type: 'done' }> | DonePart

export interface DonePart extends Transcription, Billed {
  readonly type: 'done'
}

export function isDone(part: TranscriptPart): part is DonePart {
  return part.type === 'done'
}

/** @param index the index of the segment, from 0 */
function segmentId(index: number): string {
  return `seg_${String(index + 1).padStart(3, '0')}`
}

/** Names speakers without a name A, B and so on; AA and BB follow Z. */
function nameSpeakers(segment: TranscriptSegment): TranscriptSegment {
  const { speaker = 0 } = segment
  if (typeof speaker === 'string' && speaker !== '') return segment
  const number = Number(speaker) || 0
  const letter = String.fromCharCode(65 + (number % 26))
  return { ...segment, speaker: letter.repeat(1 + Math.floor(number / 26)) }
}

export class TranscriptAnswer
  implements ProviderAnswer<TranscriptPart>, ChainStep<TranscriptionEvent, TranscriptPart>
{
  readonly steps = [this]
  readonly #received = new Received()
  readonly #model: Model
  readonly #hearing: Hearing
  readonly #request: Pick<TranscriptionRequest, 'stream' | 'include' | 'response_format'>
  #text = ''
  #segments = 0
  #done: DonePart | undefined

  constructor(request: TranscriptionRequest, model: Model) {
    this.#model = model
    this.#hearing = hearingOf(request)
    const { stream, include, response_format } = request
    this.#request = { stream, include, response_format }
  }

  push(raw: TranscriptionEvent, emit: (part: TranscriptPart) => void): void {
    if (this.#done) return
    const event = wellFormed(raw)
    this.#received.add(event.type === 'segment' ? 1 : event.text.length)
    const { stream, include } = this.#request
    if (event.type === 'done') this.#done = this.#complete(event)
    else if (event.type === 'segment') {
      this.#segments++
      if (stream) emit({ ...event, segment: nameSpeakers(event.segment) })
    } else if (event.text !== '') {
      const { logprobs, ...delta } = event
      this.#text += event.text
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
    return usageOf(this.#hearing, this.#model, this.#done, this.#text)
  }

  received(): number {
    return this.#received.amount
  }

  #complete(event: TranscriptionEvent & { type: 'done' }): DonePart {
    const { logprobs, segments: reported, ...rest } = event
    const { words = [] } = rest
    const segments =
      reported ?? (words.length > 0 ? segmentsFromWords(event.text, words) : undefined)
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

  /** Emits what a streaming client has not got yet: everything, from a model that cannot stream. */
  #tellRest({ text, segments = [] }: DonePart, emit: (part: TranscriptPart) => void): void {
    const silent = this.#text === ''
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
const OPTIONAL: Readonly<Record<string, Check>> = {
  language: text,
  duration: seconds,
  logprobs: list(token),
  segmentId: filledText,
}

/** @throws UpstreamFailure for an event without text or times */
function wellFormed(raw: TranscriptionEvent): TranscriptionEvent {
  if (event(raw)) throw brokenAnswer('The model provider sent a malformed transcript.')
  return withoutInvalid(raw, OPTIONAL)
}

// What a transcript costs: by the second, or by tokens.

const TOKENS_PER_SECOND = 10
const SOUND_TOKENS = 64
/** The rate assumed for sound of unknown length: 32 kbit/s, the smallest of speech. */
const BYTES_PER_SECOND = 4000
/** The rates of a hold for it: 128 kbit/s, and 8 kbit/s for the bound. */
const [HELD_BYTES_PER_SECOND, LEAST_BYTES_PER_SECOND] = [16_000, 1000]
/** Speech has fewer tokens a second. */
const SPOKEN_TOKENS_PER_SECOND = 4
const TOKEN_PRICES = ['prompt', 'audio', 'completion'] as const

/** The estimate of a request, by the length of its file. */
function estimateTranscript({ file, prompt }: TranscriptionRequest): Estimate {
  const heardIn = (seconds: number) => {
    const { completionTokens: _, ...heard } = tokensFor(seconds, textTokens(prompt ?? ''), '')
    return { seconds, ...heard }
  }
  // The file is heard whole, whatever is said in it.
  const least = heardIn(secondsFor(file))
  const measured = secondsOf(file) !== undefined
  const expected = measured ? least : heardIn(secondsBy(file, HELD_BYTES_PER_SECOND))
  const most = measured ? least : heardIn(secondsBy(file, LEAST_BYTES_PER_SECOND))
  return {
    least,
    expected,
    most: {
      seconds: most.seconds,
      promptTokens: 2 * most.promptTokens,
      audioInputTokens: 2 * most.audioInputTokens,
    },
    output: { limit: most.seconds * SPOKEN_TOKENS_PER_SECOND, choices: 1 },
  }
}

/** The figures of a request with which the usage of an answer is compared. Its sound need not be there any more. */
interface Hearing {
  /** Seconds of the file; undefined where it does not state them. */
  readonly measured: number | undefined
  /** Seconds of the file, by its size where it does not state them. */
  readonly length: number
  readonly promptTokens: number
  readonly promptBytes: number
}

function hearingOf({ file, prompt }: TranscriptionRequest): Hearing {
  const measured = secondsOf(file)
  return {
    measured,
    length: measured ?? file.bytes.length / HELD_BYTES_PER_SECOND,
    promptTokens: textTokens(prompt ?? ''),
    promptBytes: Buffer.byteLength(prompt ?? ''),
  }
}

/** Usage of an answer; tokens are needed where they have a price. @param text the deltas so far */
function usageOf(
  { measured, length, promptTokens, promptBytes }: Hearing,
  { prices, maxOutputTokens, contextLength }: Model,
  done: DonePart | undefined,
  text: string,
): UsageReport {
  const reported = done?.usage
  const reportedSeconds = reported?.seconds ?? done?.duration
  const known = reportedSeconds ?? measured
  const seconds = billableSeconds(readCount(known) === undefined ? length : known!)
  const needed = isPaidByToken({ prices })
  const transcript = done?.text ?? text
  const tokens = tokensFor(seconds, promptTokens, transcript)
  const sound = Math.max(MEDIA_TOKENS, SOUND_TOKENS * Math.ceil(length))
  const most = Math.max(Buffer.byteLength(transcript), SOUND_TOKENS * Math.ceil(length)) + 1024
  return {
    parts: { audioInputTokens: tokens.audioInputTokens },
    reported: {
      ...reported,
      // A length that was measured is as good as one that the vendor has billed.
      seconds: readCount(known) === undefined && !needed ? known : seconds,
    },
    expected: {
      seconds: {
        estimate: billableSeconds(length),
        soft: 1.2 * length + 60,
        hard: 3600 + 8 * length,
      },
      promptTokens: {
        ...bounds(
          tokens.promptTokens,
          promptBytes + 4096 + sound,
          contextLength ?? UNKNOWN_CONTEXT,
        ),
        needed,
      },
      completionTokens: {
        ...bounds(tokens.completionTokens, most, maxOutputTokens ?? UNKNOWN_OUTPUT),
        needed,
      },
    },
  }
}

function isPaidByToken({ prices }: Pick<Model, 'prices'>): boolean {
  return TOKEN_PRICES.some((name) => name in prices)
}

function secondsFor(file: MediaFile): number {
  return billableSeconds(secondsOf(file) ?? file.bytes.length / BYTES_PER_SECOND)
}

function secondsBy(file: MediaFile, bytesPerSecond: number): number {
  return billableSeconds(file.bytes.length / bytesPerSecond)
}

function tokensFor(seconds: number, promptTokens: number, text: string) {
  const audioInputTokens = seconds * TOKENS_PER_SECOND
  return {
    promptTokens: audioInputTokens + promptTokens,
    audioInputTokens,
    completionTokens: textTokens(text),
  }
}

type Take = (piece: OutputPiece<TranscriptPart>) => void

const CHANNEL = 'transcript'

/** Segments, words and the whole text repeat the text of the deltas. */
class TranscriptCodec implements OutputCodec<TranscriptPart> {
  #text = ''
  #segments = 0

  split(part: TranscriptPart, take: Take, removed: (field: string) => void): void {
    const shown = withoutLogprobs(part, removed)
    const base = { choice: 0, channel: CHANNEL, part: shown } as const
    switch (shown.type) {
      case 'delta':
        this.#text += shown.text
        return take({ ...base, kind: 'text', text: shown.text })
      case 'segment':
        return take({
          ...base,
          kind: 'whole',
          index: ++this.#segments,
          texts: [shown.segment.text, ...speakersOf([shown.segment])].map((text) => ({
            text,
            duplicate: true,
          })),
        })
      case 'done':
        return take({ ...base, kind: 'whole', index: 0, texts: this.#textsOf(shown) })
    }
  }

  cut(piece: TextPiece<TranscriptPart>, start: number, end: number): TranscriptPart {
    return { ...piece.part, text: piece.text.slice(start, end) } as TranscriptPart
  }

  #textsOf({ text, segments = [], words = [], language = '' }: DonePart): readonly AtomicText[] {
    const again = [
      language,
      segments.map((one) => one.text).join(' '),
      words.map(({ word }) => word).join(' '),
      ...speakersOf([...segments, ...words]),
    ]
    return [
      { text, duplicate: text === this.#text },
      ...again.filter((one) => one !== '').map((one) => ({ text: one, duplicate: true })),
    ]
  }
}

function speakersOf(
  segments: readonly { readonly speaker?: string | number }[],
): readonly string[] {
  const names = segments.flatMap(({ speaker }) => (typeof speaker === 'string' ? speaker : []))
  return [...new Set(names)].filter((name) => !/^([A-Z])\1*$/.test(name))
}

function withoutLogprobs(part: TranscriptPart, removed: (field: string) => void): TranscriptPart {
  if (part.type === 'segment' || part.logprobs === undefined) return part
  removed('logprobs')
  const { logprobs: _removed, ...rest } = part
  return rest
}

const NO_FILE: MediaFile = { bytes: new Uint8Array(), mediaType: '' }

const NO_TEXT = new Set([
  'file',
  'language',
  'languages',
  'response_format',
  'include',
  'timestamp_granularities',
  'chunking_strategy',
  'known_speaker_references',
])

export const transcription = defineUnitEndpoint<
  TranscriptionRequest,
  TranscriptionInput,
  TranscriptPart
>({
  path: '/v1/audio/transcriptions',
  operation: 'transcribe',
  modality: 'transcription',
  // Models that cannot stream give their first part at the end.
  slowStart: true,
  errorField: null,
  body: transcriptionBody,
  files: ['file'],
  toInput: readTranscription,
  streams: ({ stream }) => stream === true,
  check: checkCapabilities,

  // Subtitles are made by the gateway, from segments.
  toUpstream(request) {
    const outbound = outboundMembers(request, ['stream'])
    const { response_format: format, stream } = request
    if (stream) outbound.stream = true
    if (format === 'text') outbound.response_format = 'json'
    if (format === 'srt' || format === 'vtt') {
      outbound.response_format = 'verbose_json'
      outbound.timestamp_granularities = ['segment']
    }
    // Other formats have no times.
    if (outbound.response_format !== 'verbose_json') delete outbound.timestamp_granularities
    return outbound as TranscriptionInput
  },

  fit(outbound, model) {
    if (!outbound.stream || !lacks(model, 'STREAMING')) return outbound
    const { stream: _, ...whole } = outbound
    return whole
  },

  content: { file: NO_FILE, prompt: undefined },
  estimate: estimateTranscript,
  usage: usageJson,
  answer: ({ input, model }) => new TranscriptAnswer(input, model),
  isEnd: isDone,

  // Guards cannot read the sound itself.
  texts: (input) => [
    itemOf('file', 'prompt', '', [mediaOf('audio', input.file)]),
    ...otherItems(input, NO_TEXT, 'prompt'),
    ...labelItems('language', input.language),
    ...labelItems('languages', input.languages),
  ],
  codec: () => new TranscriptCodec(),

  json: (parts, { request }) => jsonOf(parts.find(isDone)!, request.input as TranscriptionRequest),
  text: (parts, { request }) => textOf(parts.find(isDone)!, request.input as TranscriptionRequest),
  events: (call) => ({
    encode: (part) => `data: ${JSON.stringify(payloadOf(part, call))}\n\n`,
    last: '',
    fail: typedErrorEvent,
  }),
})

const CAPABILITIES: Readonly<Record<string, Capability>> = {
  srt: 'TIMESTAMPS',
  vtt: 'TIMESTAMPS',
  verbose_json: 'TIMESTAMPS',
  diarized_json: 'DIARIZATION',
}

function checkCapabilities(input: TranscriptionRequest, model: Model): void {
  const { response_format: format, include } = input
  const capability = CAPABILITIES[format]
  if (capability && lacks(model, capability)) {
    throw new InvalidRequest(
      'unsupported_value',
      `${model.id} cannot make transcripts in the format ${format}: ${lackOf(capability)}.`,
      { param: 'response_format' },
    )
  }
  if (include?.length && lacks(model, 'LOGPROBS')) {
    throw new InvalidRequest(
      'unsupported_parameter',
      `${model.id} cannot honour include: ${lackOf('LOGPROBS')}.`,
      { param: 'include' },
    )
  }
}

function usageJson(receipt: Receipt, { target: { model } }: Call): object {
  const { meter } = receipt
  const consumed = meter.find(isOfModel)?.usage ?? {}
  const { promptTokens = 0, audioInputTokens = 0, completionTokens = 0, seconds = 0 } = consumed
  const cost = costJson(receipt)
  if (!isPaidByToken(model)) {
    return { type: 'duration', seconds, ...cost }
  }
  return {
    type: 'tokens',
    input_tokens: promptTokens,
    input_token_details: {
      text_tokens: Math.max(0, promptTokens - audioInputTokens),
      audio_tokens: audioInputTokens,
    },
    output_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    ...('second' in model.prices && { seconds }),
    ...cost,
  }
}

function jsonOf(done: DonePart, request: TranscriptionRequest): object {
  const { text } = done
  switch (request.response_format) {
    case 'verbose_json':
      return { task: 'transcribe', ...verbose(done, request) }
    case 'diarized_json': {
      const segments = (done.segments ?? []).map((segment, index) => ({
        type: 'transcript.text.segment',
        ...spoken(segmentId(index), segment),
      }))
      return { task: 'transcribe', duration: done.duration ?? 0, text, segments }
    }
    default:
      return { text, ...optionalMembers(done) }
  }
}

function textOf(done: DonePart, request: TranscriptionRequest): string | undefined {
  switch (request.response_format) {
    case 'srt':
      return cuesOf(done)
        .map(({ start, end, text }, index) => {
          return `${index + 1}\n${timeOf(start, ',')} --> ${timeOf(end, ',')}\n${text}\n\n`
        })
        .join('')
    case 'vtt':
      return `WEBVTT\n\n${cuesOf(done)
        .map(({ start, end, text }) => `${timeOf(start, '.')} --> ${timeOf(end, '.')}\n${text}\n\n`)
        .join('')}`
    case 'text':
      return `${done.text}\n`
    default:
      return undefined
  }
}

function payloadOf(part: TranscriptPart, call: Call): object {
  switch (part.type) {
    case 'delta': {
      const { text: delta, segmentId: segment_id, logprobs } = part
      return { type: 'transcript.text.delta', delta, segment_id, logprobs }
    }
    case 'segment':
      return { type: 'transcript.text.segment', ...spoken(part.id, part.segment) }
    case 'done':
      return {
        type: 'transcript.text.done',
        text: part.text,
        ...optionalMembers(part),
        ...billedJson(part.receipt!, usageJson(part.receipt!, call)),
      }
  }
}

/** Language and log probabilities, if known. Names of languages are left out: clients expect a code. */
function optionalMembers({ language, logprobs }: DonePart): object {
  const code = language !== undefined && /^[a-z]{2}$/.test(language)
  return { ...(code && { languages: [{ code: language }] }), ...(logprobs && { logprobs }) }
}

function spoken(id: string, segment: TranscriptSegment): object {
  const { start, end, text, speaker } = nameSpeakers(segment)
  return { id, start, end, text, speaker }
}

function verbose(done: DonePart, request: TranscriptionRequest): object {
  const { text, segments, words, duration = 0 } = done
  const wanted = request.timestamp_granularities ?? ['segment']
  return {
    language: languageName(done.language ?? request.language),
    duration,
    text,
    ...(wanted.includes('segment') && segments && { segments: segments.map(whole(request)) }),
    ...(wanted.includes('word') && words && { words: words.map(timed) }),
  }
}

function timed({ word, start, end }: TranscriptWord): TranscriptWord {
  return { word, start, end }
}

/** All ten members: readers of these segments refuse partial ones. */
function whole({ temperature = 0 }: TranscriptionRequest) {
  return (segment: TranscriptSegment, index: number): object => ({
    id: index,
    seek: 0,
    tokens: [],
    temperature,
    avg_logprob: 0,
    compression_ratio: 1,
    no_speech_prob: 0,
    ...membersOf(segment),
  })
}

const NUMBERS = ['id', 'seek', 'start', 'end', 'temperature', 'avg_logprob']
const SHARES = ['compression_ratio', 'no_speech_prob']

function membersOf(segment: TranscriptSegment): Record<string, unknown> {
  const members: Record<string, unknown> = { text: segment.text }
  for (const name of [...NUMBERS, ...SHARES]) {
    if (typeof segment[name] === 'number') members[name] = segment[name]
  }
  if (Array.isArray(segment.tokens)) members.tokens = segment.tokens
  return members
}

/** The names of languages, which are made when the first one is asked for, because their data takes 10 MB. */
let languages: Intl.DisplayNames | undefined

function languageName(language: string | undefined): string {
  if (!language) return 'unknown'
  if (language.length > 3 && !language.includes('-')) return language.toLowerCase()
  languages ??= new Intl.DisplayNames('en', { type: 'language' })
  try {
    // Codes without a language, such as `und`.
    const name = languages.of(language) ?? 'unknown'
    return name === 'root' ? 'unknown' : name.toLowerCase()
  } catch {
    return language.toLowerCase()
  }
}

interface Cue {
  readonly start: number
  readonly end: number
  readonly text: string
}

/** Cues by segment; one for the whole text where the times are unknown. */
function cuesOf({ segments, text, duration = 0 }: DonePart): readonly Cue[] {
  const parts = segments?.length ? segments : [{ start: 0, end: duration, text }]
  return parts
    .map((part) => ({ start: part.start, end: part.end, text: cueText(part.text) }))
    .filter((part) => part.text !== '')
}

/**
 * The text of a cue without blank lines, which would end it, and without arrows, which would begin one. The look-behind
 * keeps long runs of blanks linear.
 */
function cueText(text: string): string {
  return text
    .trim()
    .replace(/(?<!\s)\s*[\r\n]\s*/g, '\n')
    .replaceAll('-->', '->')
}

/** Subtitles have two digits for hours. */
const LATEST_MS = 100 * 3_600_000 - 1

function timeOf(seconds: number, point: string): string {
  const ms = Math.min(Math.max(0, Math.round(seconds * 1000)), LATEST_MS)
  const two = (value: number) => String(Math.floor(value) % 60).padStart(2, '0')
  const hours = String(Math.floor(ms / 3_600_000)).padStart(2, '0')
  const rest = String(ms % 1000).padStart(3, '0')
  return `${hours}:${two(ms / 60_000)}:${two(ms / 1000)}${point}${rest}`
}
