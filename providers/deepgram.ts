/** Deepgram: speech and transcription. */
import * as v from 'valibot'
import {
  defineProvider,
  type UpstreamRequest,
  type UpstreamResponse,
  type FailureClass,
  type Host,
  type SpeechInput,
  type Transcription,
  type TranscriptionInput,
  type TranscriptSegment,
  type TranscriptWord,
  type OptionField,
} from '../src/plugin.ts'
import {
  joinUrl,
  mergeHeaders,
  send,
  textOf,
  tryParse,
  voiceName,
  notAnAnswer,
  parseAnswer,
} from './shared/http.ts'
import { isName, listPage, notAList } from './shared/offers.ts'
import {
  ADDRESS_FIELD,
  KEY_FIELD,
  apiKey,
  baseURL,
  headersOption,
  voicesOption,
} from './shared/options.ts'
import { audioFailure, classOfStatus } from './shared/error-messages.ts'

// Requests and answers of Deepgram's transcription.

/**
 * The query of `/v1/listen`.
 * @param own the operator's parameters; parameters that the request needs override them
 */
function listenQuery(
  input: TranscriptionInput,
  model: string,
  own: Readonly<Record<string, string>>,
): URLSearchParams {
  const { language, prompt, response_format: format } = input
  const query = new URLSearchParams({ ...own, model })
  if (language === undefined) query.set('detect_language', 'true')
  else query.set('language', language)
  if (format !== 'json') query.set('utterances', 'true')
  if (format === 'diarized_json') query.set('diarize', 'true')
  if (TAKES_TERMS.test(model)) {
    for (const term of termsIn(input.keywords ?? prompt)) query.append('keyterm', term)
  }
  return query
}

/** Models that accept `keyterm`; older ones refuse it. */
const TAKES_TERMS = /^(nova-3|flux)/
const MAX_TERMS = 100

/** Terms to listen for. Other vendors read a prompt as sentences; Deepgram takes single terms of up to five words. */
function termsIn(value: unknown): readonly string[] {
  const terms = Array.isArray(value)
    ? value
    : typeof value === 'string'
      ? value.split(/[,;\n]/)
      : []
  return terms
    .map((term) => String(term).trim())
    .filter((term) => term !== '' && term.split(/\s+/).length <= 5)
    .slice(0, MAX_TERMS)
}

/**
 * Reads the answer of `/v1/listen`. Silence gives a transcript without words.
 * @throws the failure class `upstream_error` when the body is not an answer
 */
function toTranscription(
  body: string,
  { response_format: format, language: requestedLanguage }: TranscriptionInput,
  fail: Host['fail'],
): Transcription {
  const { metadata, results } = Object(parseAnswer(body, fail))
  if (!Array.isArray(results?.channels)) throw notAnAnswer(fail)
  const alternatives = results.channels.map((channel: any) => Object(channel?.alternatives?.[0]))
  const duration = Number(metadata?.duration)
  // Deepgram transcribes and charges each channel separately.
  const seconds = duration * Math.max(1, results.channels.length)
  const language = results.channels[0]?.detected_language ?? requestedLanguage
  const { utterances } = results
  return {
    text: alternatives
      .map(({ transcript }: any) => String(transcript ?? ''))
      .filter(Boolean)
      .join('\n'),
    ...(typeof language === 'string' && { language }),
    ...(duration > 0 && { duration, usage: { seconds } }),
    ...(Array.isArray(utterances) &&
      utterances.length > 0 && { segments: utterances.map(toSegment) }),
    ...(format !== 'json' && { words: alternatives.flatMap(({ words }: any) => wordsOf(words)) }),
  }
}

function toSegment(utterance: any): TranscriptSegment {
  const { start, end, transcript, speaker } = Object(utterance)
  return {
    start: Number(start) || 0,
    end: Number(end) || 0,
    text: String(transcript ?? ''),
    ...(typeof speaker === 'number' && { speaker }),
  }
}

function wordsOf(words: unknown): TranscriptWord[] {
  if (!Array.isArray(words)) return []
  return words.map(({ word, punctuated_word, start, end, speaker }: any) => ({
    word: String(punctuated_word ?? word ?? ''),
    start: Number(start) || 0,
    end: Number(end) || 0,
    ...(typeof speaker === 'number' && { speaker }),
  }))
}

// Deepgram's names of voices and formats.

/** A model name that contains voice and language, such as `aura-2-thalia-en`. */
const COMPLETE = /^aura(-\d+)?-[a-z]+-[a-z]{2}$/

/** OpenAI's voices, and similar voices of Deepgram. */
const VOICES: Readonly<Record<string, string>> = {
  alloy: 'thalia',
  ash: 'orion',
  ballad: 'hyperion',
  cedar: 'zeus',
  coral: 'asteria',
  echo: 'arcas',
  fable: 'draco',
  marin: 'luna',
  nova: 'andromeda',
  onyx: 'apollo',
  sage: 'athena',
  shimmer: 'aurora',
  verse: 'aries',
}

/**
 * The model to request. At Deepgram the voice is part of the model's name. The client may name a voice of OpenAI, a
 * voice of Deepgram with or without its language (`thalia`, `celeste-es`), or a complete model name
 * (`aura-2-thalia-en`).
 * @throws the failure class `bad_request` for an unknown voice
 */
function voiceModel(
  model: string,
  requested: SpeechInput['voice'],
  own: Readonly<Record<string, string>>,
  fail: Host['fail'],
): string {
  if (COMPLETE.test(model)) return model
  const name = voiceName(requested)
  const voice = own[name] ?? VOICES[name] ?? name.toLowerCase()
  if (COMPLETE.test(voice)) return voice
  if (/^[a-z]+$/.test(voice)) return `${model}-${voice}-en`
  if (/^[a-z]+-[a-z]{2}$/.test(voice)) return `${model}-${voice}`
  throw fail('bad_request', 'The voice is not known here. Ask for one such as "thalia".', {
    code: 'invalid_value',
    param: 'voice',
  })
}

/**
 * Query parameters for a format. `wav` is requested as raw samples, because Deepgram's WAV header does not tell the
 * length.
 */
function encodingOf(format: SpeechInput['response_format']): Record<string, string> {
  switch (format) {
    case 'opus':
      return { encoding: 'opus', container: 'ogg' }
    case 'wav':
    case 'pcm':
      return { encoding: 'linear16', container: 'none', sample_rate: '24000' }
    default:
      return { encoding: format }
  }
}

// Maps Deepgram's errors to failure classes.

/** Statuses that mean something to Deepgram only. */
const CLASSES: Readonly<Record<number, FailureClass>> = {
  404: 'not_found',
  411: 'bad_request',
  414: 'bad_request',
  415: 'bad_request',
}

/** The failure for an answer with an error status. */
function httpFailure(fail: Host['fail'], response: UpstreamResponse, body: string): Error {
  const { status } = response
  const { code, message } = problemIn(body)
  const failure = classOfStatus(status, CLASSES)
  const cause = new Error(`HTTP ${status}${/^[\w -]{1,64}$/.test(code) ? `, ${code}` : ''}`)
  if (failure === 'bad_request' || failure === 'payload_too_large') {
    if (/character (count|limit)|characters/i.test(message)) {
      const sentence = 'The input is too long for this model.'
      return fail('bad_request', sentence, {
        code: 'string_above_max_length',
        param: 'input',
        cause,
      })
    }
    const undecodable = /corrupt|unsupported data|failed to (process|decode)/i.test(message)
    if (undecodable) {
      const sentence = 'The model provider could not decode the file.'
      return fail('bad_request', sentence, { code: 'invalid_audio', param: 'file', cause })
    }
  }
  return audioFailure(fail, failure, response, cause)
}

function problemIn(text: string): { readonly code: string; readonly message: string } {
  const body = Object(tryParse(text))
  return {
    code: textOf(body.err_code ?? body.category),
    message: textOf(body.err_msg ?? body.message),
  }
}

const options = v.strictObject({
  apiKey,
  /** The address, without `/v1`, of another region of Deepgram or of a self-hosted server. */
  baseURL: v.optional(baseURL, 'https://api.deepgram.com'),
  headers: headersOption,
  /** Query parameters of Deepgram's `/v1/listen`, such as `smart_format` or `mip_opt_out`. */
  listen: v.optional(
    v.pipe(
      v.record(v.string(), v.string()),
      v.check(
        (own) => !('callback' in own),
        'expected no callback: it would make answers go elsewhere',
      ),
    ),
    { smart_format: 'true' },
  ),
  voices: voicesOption,
})

const fields: readonly OptionField[] = [KEY_FIELD, ADDRESS_FIELD]

export default defineProvider({
  name: 'deepgram',
  options,
  fields,
  setup({ apiKey, baseURL: base, headers, listen, voices }, host) {
    const api = joinUrl(base, 'v1')
    const sent = mergeHeaders({ authorization: `Token ${apiKey}` }, headers)
    const post = (request: UpstreamRequest): Promise<UpstreamResponse> =>
      send(host, request, httpFailure)
    return {
      async models(signal) {
        const request = { url: `${api}/models`, headers: sent, httpFailure, signal }
        const { stt = [], tts = [] } = await listPage(host, request)
        if (!Array.isArray(stt) || !Array.isArray(tts)) throw notAList(host)
        const named = (rows: readonly any[], modality: string) =>
          [...new Set(rows.map((row) => row?.canonical_name))]
            .filter(isName)
            .map((id) => ({ id, modality }))
        return [...named(stt, 'transcription'), ...named(tts, 'speech')]
      },

      async speech({ input, model, signal }) {
        const { response_format: format } = input
        const query = new URLSearchParams({
          model: voiceModel(model, input.voice, voices, host.fail),
          ...encodingOf(format),
        })
        const response = await post({
          url: `${api}/speak?${query}`,
          headers: { ...sent, 'content-type': 'application/json' },
          body: JSON.stringify({ text: input.input }),
          signal,
          stream: true,
        })
        return { bytes: response.body, ...(format === 'wav' && { pcmSampleRate: 24_000 }) }
      },

      async transcribe({ input, model, signal }) {
        const query = listenQuery(input, model, listen)
        const response = await post({
          url: `${api}/listen?${query}`,
          headers: { ...sent, 'content-type': input.file.mediaType },
          body: input.file.bytes,
          signal,
        })
        return toTranscription(await response.text(), input, host.fail)
      },
    }
  },
})
