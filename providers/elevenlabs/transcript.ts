/** Requests and answers of ElevenLabs' transcription. */
import type {
  FormField,
  Host,
  Transcription,
  TranscriptionInput,
  TranscriptWord,
} from '../../src/plugin.ts'
import { notAnAnswer, parseAnswer } from '../shared/http.ts'

/** The form of `/v1/speech-to-text`. ElevenLabs takes no prompt. */
export function toFields(input: TranscriptionInput, model: string): FormField[] {
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
export function toTranscription(
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
