/** ElevenLabs: speech and transcription. */
import * as v from 'valibot'
import {
  defineProvider,
  type UpstreamRequest,
  type UpstreamResponse,
  type FailureClass,
  type Host,
  type SpeechInput,
  type FormField,
  type Transcription,
  type TranscriptionInput,
  type TranscriptWord,
  type OptionField,
} from '../src/plugin.ts'
import {
  joinUrl,
  mergeHeaders,
  send,
  tryParse,
  voiceName,
  notAnAnswer,
  parseAnswer,
} from './shared/http.ts'
import { isName, listPage, rowsOf } from './shared/offers.ts'
import {
  ADDRESS_FIELD,
  KEY_FIELD,
  apiKey,
  baseURL,
  headersOption,
  voicesOption,
} from './shared/options.ts'
import { audioFailure, classOfStatus } from './shared/error-messages.ts'

// ElevenLabs' names of voices and formats, and the body of a speech request.

/** OpenAI's voices, and similar default voices that every ElevenLabs account has. */
const VOICES: Readonly<Record<string, string>> = {
  alloy: 'EXAVITQu4vr4xnSDxMaL',
  ash: 'cjVigY5qzO86Huf0OWal',
  ballad: 'JBFqnCBsd6RMkjVDRZzb',
  cedar: 'nPczCjzI2devNBz1zQrb',
  coral: 'cgSgspJ2msm6clMCkdW9',
  echo: 'TX3LPaxmHKxFdv7VOQHJ',
  fable: 'onwK4e9ZLuTAKqWW03F9',
  marin: 'XrExE9yKIg1WjnnlVkGX',
  nova: 'FGY2WhTYpPnrIDTdsKH5',
  onyx: 'pqHfZKP75CvOlQylNhV4',
  sage: 'Xb7hH8MSUJpSbSDYk0k2',
  shimmer: 'pFZP5JQG7iQjIQuC4Bku',
  verse: 'IKne3meq5aSn9XLyUdCD',
}

/**
 * The id of a voice. It becomes part of a URL, so only text of the form of an id is accepted.
 * @throws the failure class `bad_request` for an unknown voice
 */
function voiceId(
  requested: SpeechInput['voice'],
  own: Readonly<Record<string, string>>,
  fail: Host['fail'],
): string {
  const name = voiceName(requested)
  const id = own[name] ?? VOICES[name] ?? name
  if (/^[A-Za-z0-9]{20}$/.test(id)) return id
  throw fail(
    'bad_request',
    'The voice is not known here. Ask for a voice of the configuration, or for an id of 20 letters and digits.',
    { code: 'invalid_value', param: 'voice' },
  )
}

/**
 * The vendor's name of a format. `pcm` and `wav` are both requested as raw samples.
 * @throws the failure class `bad_request` for a format that ElevenLabs does not make
 */
function formatOf(
  format: SpeechInput['response_format'],
  fail: Host['fail'],
): { readonly format: string; readonly pcmSampleRate?: number } {
  switch (format) {
    case 'mp3':
      return { format: 'mp3_44100_128' }
    case 'opus':
      return { format: 'opus_48000_64' }
    case 'wav':
    case 'pcm':
      return { format: 'pcm_24000', pcmSampleRate: 24_000 }
    default:
      throw fail(
        'bad_request',
        `The model cannot make sound in the format ${format}. Ask for mp3, opus, wav or pcm.`,
        { code: 'unsupported_value', param: 'response_format' },
      )
  }
}

const MIN_SPEED = 0.7
const MAX_SPEED = 1.2

/** Only the newer, faster models accept a language. */
const TAKES_LANGUAGE = /flash|turbo/

/** The body of a speech request. ElevenLabs takes no instructions. */
function speechBody(input: SpeechInput, model: string): object {
  const { input: text, speed, language, seed } = input
  return {
    text,
    model_id: model,
    ...(speed !== undefined && {
      voice_settings: { speed: Math.min(MAX_SPEED, Math.max(MIN_SPEED, speed)) },
    }),
    ...(typeof language === 'string' && TAKES_LANGUAGE.test(model) && { language_code: language }),
    ...(Number.isInteger(seed) && { seed }),
  }
}

// Maps ElevenLabs' errors to failure classes.

/** Names in the body that are more exact than the HTTP status. */
const BY_NAME: Readonly<Record<string, FailureClass>> = {
  quota_exceeded: 'upstream_balance',
  too_many_concurrent_requests: 'upstream_rate',
  rate_limit_exceeded: 'upstream_rate',
  system_busy: 'overloaded',
  model_not_found: 'not_found',
}

/** ElevenLabs answers with 404 when the voice does not exist. */
const CLASSES: Readonly<Record<number, FailureClass>> = { 404: 'bad_request' }

/** Errors of the client that have their own message, code and parameter. */
const FAULTS: readonly (readonly [status: RegExp, message: string, code: string, param: string])[] =
  [
    [/voice/, 'The model provider does not know the voice.', 'invalid_value', 'voice'],
    [
      /max_character_limit|text_too_long/,
      'The input is too long for this model.',
      'string_above_max_length',
      'input',
    ],
    [
      /audio|file_format|corrupt/,
      'The model provider could not decode the file.',
      'invalid_audio',
      'file',
    ],
  ]

/** The failure for an answer with an error status. */
function httpFailure(fail: Host['fail'], response: UpstreamResponse, body: string): Error {
  const { status } = response
  const name = statusNameIn(body)
  const failure = BY_NAME[name] ?? classOfStatus(status, CLASSES)
  const cause = new Error(`HTTP ${status}${name ? `, ${name}` : ''}`)
  const fault = failure === 'bad_request' && FAULTS.find(([pattern]) => pattern.test(name))
  if (fault) {
    const [, message, code, param] = fault
    return fail(failure, message, { code, param, cause })
  }
  return audioFailure(fail, failure, response, cause)
}

/** The name in `{detail: {status, message}}`; empty when `detail` is a text or a list of fields. */
function statusNameIn(body: string): string {
  const { detail } = Object(tryParse(body))
  const name = detail?.status ?? detail?.code
  return typeof name === 'string' && /^[\w-]{1,64}$/.test(name) ? name : ''
}

const options = v.strictObject({
  apiKey,
  /** The address, without `/v1`, of another region of ElevenLabs. */
  baseURL: v.optional(baseURL, 'https://api.elevenlabs.io'),
  headers: headersOption,
  voices: voicesOption,
})

const fields: readonly OptionField[] = [KEY_FIELD, ADDRESS_FIELD]

export default defineProvider({
  name: 'elevenlabs',
  options,
  fields,
  setup({ apiKey, baseURL: base, headers, voices }, host) {
    const api = joinUrl(base, 'v1')
    const sent = mergeHeaders({ 'xi-api-key': apiKey }, headers)
    const post = (request: UpstreamRequest): Promise<UpstreamResponse> =>
      send(host, request, httpFailure)
    return {
      async models(signal) {
        const request = { url: `${api}/models`, headers: sent, httpFailure, signal }
        return rowsOf(host, await listPage(host, request)).flatMap(
          ({ model_id: id, name, can_do_text_to_speech: speaks }) =>
            isName(id) && speaks === true
              ? [{ id, modality: 'speech', ...(typeof name === 'string' && { name }) }]
              : [],
        )
      },

      async speech({ input, model, signal }) {
        const voice = voiceId(input.voice, voices, host.fail)
        const { format, pcmSampleRate } = formatOf(input.response_format, host.fail)
        const response = await post({
          url: `${api}/text-to-speech/${voice}/stream?output_format=${format}`,
          headers: { ...sent, 'content-type': 'application/json' },
          body: JSON.stringify(speechBody(input, model)),
          signal,
          stream: true,
        })
        return { bytes: response.body, ...(pcmSampleRate !== undefined && { pcmSampleRate }) }
      },

      async transcribe({ input, model, signal }) {
        const { contentType, body } = host.form(toFields(input, model))
        const response = await post({
          url: `${api}/speech-to-text`,
          headers: { ...sent, 'content-type': contentType },
          body,
          signal,
        })
        return toTranscription(await response.text(), input, host.fail)
      },
    }
  },
})

// Requests and answers of ElevenLabs' transcription.

/** The form of `/v1/speech-to-text`. ElevenLabs takes no prompt. */
function toFields(input: TranscriptionInput, model: string): FormField[] {
  const { file, language, temperature, response_format: format } = input
  const { bytes, mediaType, filename = 'audio' } = file
  const fields: FormField[] = [
    { name: 'model_id', value: model },
    { name: 'timestamps_granularity', value: format === 'json' ? 'none' : 'word' },
    // Laughter and other sounds are not part of a transcript.
    { name: 'tag_audio_events', value: 'false' },
  ]
  if (language !== undefined) fields.push({ name: 'language_code', value: language })
  if (temperature !== undefined) fields.push({ name: 'temperature', value: String(temperature) })
  if (format === 'diarized_json') fields.push({ name: 'diarize', value: 'true' })
  fields.push({ name: 'file', value: { bytes, mediaType, filename } })
  return fields
}

/**
 * Reads the answer. It contains neither the length of the audio nor a usage count.
 * @throws the failure class `upstream_error` when the body is not an answer
 */
function toTranscription(
  body: string,
  { response_format: format }: TranscriptionInput,
  fail: Host['fail'],
): Transcription {
  const { text, language_code: language, words } = Object(parseAnswer(body, fail))
  if (typeof text !== 'string') throw notAnAnswer(fail)
  const spoken = Array.isArray(words) ? words.filter((word) => word?.type === 'word') : []
  return {
    text,
    ...(typeof language === 'string' && { language: shortest(language) }),
    ...(spoken.length > 0 && { words: spoken.map(toWord(format === 'diarized_json')) }),
  }
}

function toWord(withSpeaker: boolean) {
  return ({ text, start, end, speaker_id }: any): TranscriptWord => ({
    word: String(text ?? ''),
    start: Number(start) || 0,
    end: Number(end) || 0,
    ...(withSpeaker && speaker_id !== undefined && { speaker: speakerOf(String(speaker_id)) }),
  })
}

/** `speaker_0` is a number, not a name. */
function speakerOf(id: string): string | number {
  const number = /^speaker_(\d+)$/.exec(id)?.[1]
  return number === undefined ? id : Number(number)
}

/** The two-letter code of a language, where there is one: `eng` becomes `en`. */
function shortest(language: string): string {
  try {
    return Intl.getCanonicalLocales(language)[0] ?? language
  } catch {
    return language
  }
}
