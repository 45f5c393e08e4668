/** `POST /v1/audio/transcriptions`: a transcript in each format and as events, paid by the second, or by tokens. */
import { InvalidRequest } from '../../errors/errors.ts'
import { lackOf, lacks, type Capability } from '../../models/capabilities.ts'
import type { Model } from '../../models/catalog.ts'
import { costJson } from '../../money/money.ts'
import type { Call, Receipt } from '../../pipeline/pipeline.ts'
import type {
  MediaFile,
  TranscriptionInput,
  TranscriptSegment,
  TranscriptWord,
} from '../../plugin.ts'
import { outboundMembers } from '../shared/body.ts'
import { itemOf, mediaOf, otherItems } from '../shared/guard.ts'
import { defineUnitEndpoint } from '../shared/unit.ts'
import { billedJson, typedErrorEvent } from '../shared/write.ts'
import {
  estimateTranscript,
  isDone,
  isPaidByToken,
  nameSpeakers,
  segmentId,
  TranscriptAnswer,
  TranscriptCodec,
  type DonePart,
  type TranscriptPart,
} from './answer.ts'
import { readTranscription, transcriptionBody, type TranscriptionRequest } from './request.ts'

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
  toUpstream(request, model) {
    const outbound = outboundMembers(request, ['stream'])
    const { response_format: format, stream } = request
    if (stream && !lacks(model, 'STREAMING')) outbound.stream = true
    if (format === 'text') outbound.response_format = 'json'
    if (format === 'srt' || format === 'vtt') {
      outbound.response_format = 'verbose_json'
      outbound.timestamp_granularities = ['segment']
    }
    // Other formats have no times.
    if (outbound.response_format !== 'verbose_json') delete outbound.timestamp_granularities
    return outbound as TranscriptionInput
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

function usageJson({ bill, meter }: Receipt, { target: { model } }: Call): object {
  const consumed = meter.find(({ source }) => source === 'model')?.usage ?? {}
  const { promptTokens = 0, audioInputTokens = 0, completionTokens = 0, seconds = 0 } = consumed
  const cost = costJson(bill)
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
      return { text, ...said(done) }
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
        ...said(part),
        ...billedJson(part.receipt!, usageJson(part.receipt!, call)),
      }
  }
}

/** Language and log probabilities, if known. Names of languages are left out: clients expect a code. */
function said({ language, logprobs }: DonePart): object {
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

const names = new Intl.DisplayNames('en', { type: 'language' })

function languageName(language: string | undefined): string {
  if (!language) return 'unknown'
  if (language.length > 3 && !language.includes('-')) return language.toLowerCase()
  try {
    // Codes without a language, such as `und`.
    const name = names.of(language) ?? 'unknown'
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

function timeOf(seconds: number, point: string): string {
  const ms = Math.max(0, Math.round(seconds * 1000))
  const two = (value: number) => String(Math.floor(value) % 60).padStart(2, '0')
  const hours = String(Math.floor(ms / 3_600_000)).padStart(2, '0')
  const rest = String(ms % 1000).padStart(3, '0')
  return `${hours}:${two(ms / 60_000)}:${two(ms / 1000)}${point}${rest}`
}
