/** Speech and transcription for vendors with OpenAI's audio API. */
import type {
  FormField,
  Host,
  Provider,
  SpeechInput,
  UpstreamResponse,
  Step,
  Transcription,
  TranscriptionEvent,
  TranscriptSegment,
  TranscriptWord,
  Usage,
  TranscriptionInput,
} from '../../src/plugin.ts'
import {
  asSequence,
  notAnAnswer,
  parseAnswer,
  send,
  countOrNone,
  textOf,
  tokenCount,
  voiceName,
} from '../shared/http.ts'
import { httpFailure, inbandFailure } from './errors.ts'

/** URL, headers and quirks for requests to a model. */
interface AudioTarget {
  /** The complete URL, with any query. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly quirks: { readonly audio?: AudioQuirks }
}

/** Options of a deployment that matter here. */
interface Options {
  readonly omit?: readonly string[]
}

/**
 * The audio methods of a provider.
 * @param targetOf called for every request
 */
export function createAudio<Own extends Options>(
  host: Host,
  targetOf: (path: AudioPath, model: string, options: Own) => AudioTarget,
): Required<Pick<Provider, 'speech' | 'transcribe'>> {
  return {
    async speech({ input, model, options, signal }) {
      const own = options as Own
      const { url, headers, quirks } = targetOf('speech', model, own)
      const { audio = {} } = quirks
      const { response_format: format } = input
      if (audio.formats?.includes(format) === false) throw unsupportedFormat(host, format)
      const body = audio.toSpeech?.(input) ?? { model, ...pick(input, audio.speechMembers) }
      for (const name of own.omit ?? []) delete body[name]
      const response = await send(
        host,
        {
          url,
          headers: { ...headers, accept: '*/*' },
          body: JSON.stringify(body),
          signal,
          stream: true,
        },
        httpFailure,
      )
      return isText(response) ? soundIn(response, host) : { bytes: response.body }
    },

    async transcribe({ input, model, options, signal }) {
      const own = options as Own
      const { url, headers, quirks } = targetOf('transcriptions', model, own)
      const { audio = {} } = quirks
      const { file, ...rest } = input
      const fields = audio.toFields?.(input) ?? { model, ...pick(rest, audio.transcriptionMembers) }
      for (const name of own.omit ?? []) delete fields[name]
      const { bytes, mediaType, filename = 'audio' } = file
      // The file comes last, as some vendors require.
      const { contentType, body } = host.form([
        ...toFields(fields, audio.bareLists ? '' : '[]'),
        { name: 'file', value: { bytes, mediaType, filename } },
      ])
      const response = await send(
        host,
        {
          url,
          headers: { ...headers, 'content-type': contentType },
          body,
          signal,
          stream: input.stream === true,
        },
        httpFailure,
      )
      return transcriptionIn(response, host)
    },
  }
}

/** Events, an object, or plain text, which some servers always answer with. */
async function transcriptionIn(response: UpstreamResponse, host: Host) {
  const type = response.headers['content-type'] ?? ''
  if (type.includes('event-stream')) {
    return host.sse(response.body).through(new TranscriptEvents(host.fail))
  }
  const text = await response.text()
  if (type.startsWith('text/plain') && !/^\s*\{/.test(text)) return { text: text.trim() }
  return toTranscription(Object(parseAnswer(text, host.fail)), host.fail)
}

/** The known members, or all when none are listed. */
function pick(input: object, members: ReadonlySet<string> | undefined): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(input).filter(([name, value]) => {
      return value !== undefined && (!members || members.has(name))
    }),
  )
}

/** Form fields as OpenAI's SDKs write them: `name[]` per item, `name[member]` per member. */
function toFields(members: Readonly<Record<string, unknown>>, list: '[]' | ''): FormField[] {
  return Object.entries(members).flatMap(([name, value]) => {
    if (Array.isArray(value)) {
      return value.map((item) => ({ name: `${name}${list}`, value: toText(item) }))
    }
    if (typeof value !== 'object' || value === null) return [{ name, value: toText(value) }]
    return Object.entries(value).map(([member, inner]) => ({
      name: `${name}[${member}]`,
      value: toText(inner),
    }))
  })
}

function toText(value: unknown): string {
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

function isText({ headers }: UpstreamResponse): boolean {
  return /^(text\/|application\/json)/.test(headers['content-type'] ?? '')
}

/** The sound in a JSON answer, which some vendors send. */
async function soundIn(response: UpstreamResponse, host: Host) {
  const payload = Object(parseAnswer(await response.text(), host.fail))
  const failed = inbandFailure(host.fail, payload)
  if (failed) throw failed.error
  if (typeof payload.audio_data !== 'string') throw notAnAnswer(host.fail)
  return { bytes: asSequence([Buffer.from(payload.audio_data, 'base64')]) }
}

function unsupportedFormat(host: Host, format: SpeechInput['response_format']): Error {
  return host.fail(
    'bad_request',
    `The model cannot make sound in the format ${format}. Ask for another response_format.`,
    { code: 'unsupported_value', param: 'response_format' },
  )
}

// Reads transcripts in all JSON forms and events.

/**
 * A whole answer.
 * @throws the failure of an error in it; `upstream_error` when it is not a transcript
 */
function toTranscription(payload: any, fail: Host['fail']): Transcription {
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
class TranscriptEvents implements Step<any, TranscriptionEvent> {
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
  const { word: plain, text = plain, start, end, speaker } = Object(word)
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

// Differences between vendors in speech and transcription.

/** Paths of the audio API. */
type AudioPath = 'speech' | 'transcriptions'

/** An absent member means that the vendor behaves like OpenAI. */
export interface AudioQuirks {
  /** Paths below the vendor's address, instead of `audio/…`. */
  readonly paths?: Readonly<Partial<Record<AudioPath, string>>>
  /** Members of a speech request that the vendor accepts; all when absent. */
  readonly speechMembers?: ReadonlySet<string>
  /** Members of a transcription request that the vendor accepts; all when absent. */
  readonly transcriptionMembers?: ReadonlySet<string>
  /** Audio formats that the vendor makes; all when absent. */
  readonly formats?: readonly string[]
  /** The body of a speech request, for vendors with other names. */
  readonly toSpeech?: (input: SpeechInput) => Record<string, unknown>
  /** The form fields of a transcription request, except the file, for vendors with other names. */
  readonly toFields?: (input: TranscriptionInput) => Record<string, unknown>
  /** List items repeat the field name without brackets. */
  readonly bareLists?: true
}

/** OpenAI's audio API. */
export const OPENAI_AUDIO: AudioQuirks = {
  speechMembers: new Set(['input', 'voice', 'instructions', 'response_format', 'speed']),
  transcriptionMembers: new Set([
    'language',
    'languages',
    'keywords',
    'prompt',
    'response_format',
    'temperature',
    'include',
    'timestamp_granularities',
    'chunking_strategy',
    'known_speaker_names',
    'known_speaker_references',
    'stream',
  ]),
}

/** xAI has one model each, which requests do not name. */
export const XAI_AUDIO: AudioQuirks = {
  paths: { speech: 'tts', transcriptions: 'stt' },
  bareLists: true,
  formats: ['mp3', 'wav', 'pcm'],
  toSpeech: ({ input, voice, response_format: codec }) => ({
    text: input,
    voice_id: voiceName(voice),
    language: 'auto',
    output_format: { codec, sample_rate: 24_000 },
  }),
  // With a language, numbers and units are written as digits and symbols; without one they are spelled out.
  toFields: ({ language, keywords, response_format }) => ({
    ...(language !== undefined && { language, format: true }),
    ...(Array.isArray(keywords) && { keyterm: keywords }),
    ...(response_format === 'diarized_json' && { diarize: true }),
  }),
}
