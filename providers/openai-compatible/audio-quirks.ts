/** Differences between vendors in speech and transcription. */
import type { SpeechInput, TranscriptionInput } from '../../src/plugin.ts'
import { voiceName } from '../shared/http.ts'

/** Paths of the audio API. */
export type AudioPath = 'speech' | 'transcriptions'

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
