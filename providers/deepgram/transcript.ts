/** Requests and answers of Deepgram's transcription. */
import type {
  Host,
  Transcription,
  TranscriptionInput,
  TranscriptSegment,
  TranscriptWord,
} from '../../src/plugin.ts'
import { notAnAnswer, parseAnswer } from '../shared/http.ts'

/**
 * The query of `/v1/listen`.
 * @param own the operator's parameters; parameters that the request needs override them
 */
export function listenQuery(
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
function termsIn(given: unknown): readonly string[] {
  const terms = Array.isArray(given)
    ? given
    : typeof given === 'string'
      ? given.split(/[,;\n]/)
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
export function toTranscription(
  body: string,
  { response_format: format, language: asked }: TranscriptionInput,
  fail: Host['fail'],
): Transcription {
  const { metadata, results } = Object(parseAnswer(body, fail))
  if (!Array.isArray(results?.channels)) throw notAnAnswer(fail)
  const alternatives = results.channels.map((channel: any) => Object(channel?.alternatives?.[0]))
  const duration = Number(metadata?.duration)
  // Deepgram transcribes and charges each channel separately.
  const seconds = duration * Math.max(1, results.channels.length)
  const language = results.channels[0]?.detected_language ?? asked
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
