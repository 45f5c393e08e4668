/** `POST /v1/audio/transcriptions`, as the client sees it: a transcript in each format and as events. */
import type { Call, WireFormat } from '../../pipeline/pipeline.ts'
import type { TranscriptSegment, TranscriptWord } from '../../plugin.ts'
import { parsedRequest } from '../shared/body.ts'
import {
  billedJson,
  errorWriter,
  EventWriter,
  typedErrorEvent,
  WholeWriter,
} from '../shared/write.ts'
import { usageJson } from './billing.ts'
import { isDone, nameSpeakers, segmentId, type DonePart, type TranscriptPart } from './parts.ts'
import { readTranscription, transcriptionBody, type TranscriptionRequest } from './read.ts'

/** Formats that are plain text. */
const TEXTS: ReadonlySet<string> = new Set(['text', 'srt', 'vtt'])

/** JSON, plain text, subtitles, or events. */
export const transcriptionFormat: WireFormat<TranscriptionRequest, TranscriptPart> = {
  path: '/v1/audio/transcriptions',
  body: transcriptionBody,
  files: ['file'],

  async read(incoming, limits) {
    const input = await readTranscription(incoming, limits)
    return parsedRequest(incoming, input, input.stream === true)
  },

  write(call, out, done) {
    if (call.request.stream) {
      const encode = (part: TranscriptPart) => `data: ${JSON.stringify(payloadOf(part, call))}\n\n`
      return new EventWriter(call, out, done, { encode, last: '', fail: typedErrorEvent })
    }
    return new WholeWriter<TranscriptPart>(call, out, done, (parts) => {
      const input = call.request.input as TranscriptionRequest
      const transcript = parts.find(isDone)!
      return TEXTS.has(input.response_format)
        ? { text: textOf(transcript, input), type: 'text/plain; charset=utf-8' }
        : { text: JSON.stringify(jsonOf(transcript, input, call)) }
    })
  },

  writeError: errorWriter(usageJson),
}

/** The JSON body of a transcript, for the formats that are JSON. */
function jsonOf(done: DonePart, request: TranscriptionRequest, call: Call): object {
  const { text } = done
  const rest = billed(done, call)
  switch (request.response_format) {
    case 'verbose_json':
      return { task: 'transcribe', ...verbose(done, request), ...rest }
    case 'diarized_json': {
      const segments = (done.segments ?? []).map((segment, index) => ({
        type: 'transcript.text.segment',
        ...spoken(segmentId(index), segment),
      }))
      return { task: 'transcribe', duration: done.duration ?? 0, text, segments, ...rest }
    }
    default:
      return { text, ...said(done), ...rest }
  }
}

/** The text of a transcript, for the formats that are text. */
function textOf(done: DonePart, request: TranscriptionRequest): string {
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
    default:
      return `${done.text}\n`
  }
}

function billed({ receipt }: DonePart, call: Call): object {
  return billedJson(receipt!, usageJson(receipt!, call))
}

/** The payload of an event. */
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
        ...billed(part, call),
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

/** Members that the vendor gave with the right type. */
function membersOf(segment: TranscriptSegment): Record<string, unknown> {
  const members: Record<string, unknown> = { text: segment.text }
  for (const name of [...NUMBERS, ...SHARES]) {
    if (typeof segment[name] === 'number') members[name] = segment[name]
  }
  if (Array.isArray(segment.tokens)) members.tokens = segment.tokens
  return members
}

const names = new Intl.DisplayNames('en', { type: 'language' })

/** An English name in lower case, of a code or a name. */
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
