/** Deepgram's names of voices and formats. */
import type { Host, SpeechInput } from '../../src/plugin.ts'
import { voiceName } from '../shared/http.ts'

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
export function voiceModel(
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
export function encodingOf(format: SpeechInput['response_format']): Record<string, string> {
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
