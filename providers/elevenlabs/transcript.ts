/** What ElevenLabs is asked about sound, and what it answers. */
import type {
  FormField,
  Host,
  Transcription,
  TranscriptionInput,
  TranscriptWord,
} from '../../src/plugin.ts'
import { notAnAnswer, parseAnswer } from '../shared/http.ts'

/** The form of `/v1/speech-to-text`. There is no place for a prompt. */
export function toFields(input: TranscriptionInput, model: string): FormField[] {
  const { file, language, temperature, response_format: format } = input
  const { bytes, mediaType, filename = 'audio' } = file
  const fields: FormField[] = [
    { name: 'model_id', value: model },
    { name: 'timestamps_granularity', value: format === 'json' ? 'none' : 'word' },
    // Coughs and laughter are not what was said.
    { name: 'tag_audio_events', value: 'false' },
  ]
  if (language !== undefined) fields.push({ name: 'language_code', value: language })
  if (temperature !== undefined) fields.push({ name: 'temperature', value: String(temperature) })
  if (format === 'diarized_json') fields.push({ name: 'diarize', value: 'true' })
  fields.push({ name: 'file', value: { bytes, mediaType, filename } })
  return fields
}

/** Reads the answer. It says neither how long the sound was nor what is charged for. */
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

/** `speaker_0` is a number, no name. */
function speakerOf(id: string): string | number {
  const number = /^speaker_(\d+)$/.exec(id)?.[1]
  return number === undefined ? id : Number(number)
}

/** Of three letters two, where there are two: `eng` is `en`. */
function shortest(language: string): string {
  try {
    return Intl.getCanonicalLocales(language)[0] ?? language
  } catch {
    return language
  }
}
