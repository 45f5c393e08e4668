/** ElevenLabs' names of voices and formats, and the body of a speech request. */
import type { Host, SpeechInput } from '../../src/plugin.ts'
import { voiceName } from '../shared/http.ts'

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
export function voiceId(
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
export function formatOf(
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
export function speechBody(input: SpeechInput, model: string): object {
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
