/** What sets vendors apart where sound is made of words, or words of sound. */
import type { SpeechInput, TranscriptionInput } from '../../src/plugin.ts'

/** Names of the two paths of the API. */
export type AudioPath = 'speech' | 'transcriptions'

/** A member that is absent means that the vendor does as OpenAI does. */
export interface AudioQuirks {
  /** Under the address of the vendor; `audio/…` otherwise. */
  readonly paths?: Readonly<Partial<Record<AudioPath, string>>>
  /** Members of a request for speech that the vendor takes; all when absent. */
  readonly speechMembers?: ReadonlySet<string>
  /** The same of a request for a transcript. */
  readonly transcriptionMembers?: ReadonlySet<string>
  /** Formats of sound the vendor has; all when absent. */
  readonly formats?: readonly string[]
  /** The body of a request for speech, where the vendor has names of its own. */
  readonly toSpeech?: (input: SpeechInput) => Record<string, unknown>
  /** The fields of a request for a transcript beside the file, likewise. */
  readonly toFields?: (input: TranscriptionInput) => Record<string, unknown>
  /** Fields of lists have the same name each, without brackets. */
  readonly bareLists?: true
}

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

/** One model each, which requests do not name. */
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
  // A language asks for numbers and units to be written as such; without it they are spelled out.
  toFields: ({ language, keywords, response_format }) => ({
    ...(language !== undefined && { language, format: true }),
    ...(Array.isArray(keywords) && { keyterm: keywords }),
    ...(response_format === 'diarized_json' && { diarize: true }),
  }),
}

/** The name of a voice, or the id of one that somebody made. */
export function voiceName(voice: SpeechInput['voice']): string {
  return typeof voice === 'string' ? voice : voice.id
}
