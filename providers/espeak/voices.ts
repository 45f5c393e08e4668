/** Voices and speed, in eSpeak's terms. */
import type { Host, SpeechInput } from '../../src/plugin.ts'
import { voiceName } from '../shared/http.ts'

/** OpenAI's voices, as eSpeak variants, which exist for every language. */
const VARIANTS: Readonly<Record<string, string>> = {
  alloy: 'f1',
  ash: 'm1',
  ballad: 'm2',
  cedar: 'm3',
  coral: 'f2',
  echo: 'm4',
  fable: 'm5',
  marin: 'f3',
  nova: 'f4',
  onyx: 'm7',
  sage: 'f5',
  shimmer: 'f2',
  verse: 'm6',
}

/** Words per minute of eSpeak at normal speed. */
const NORMAL = 175
/** Lowest and highest speed that eSpeak accepts. */
const MIN_SPEED = 80
const MAX_SPEED = 450

/** The speed factor of a request as words per minute, within eSpeak's limits. */
export function wordsPerMinute(speed: number): number {
  return Math.round(Math.min(MAX_SPEED, Math.max(MIN_SPEED, NORMAL * speed)))
}

/** `de`, `en-gb-x-rp`, `en-us+f2`. A path does not match. */
const NAME = /^([a-z]{2,4}(?:-[A-Za-z0-9]{1,8})*)(\+[A-Za-z0-9]{1,20})?$/

/**
 * The eSpeak voice for a name that the client sent: a voice of OpenAI or of the configuration, or a language with or
 * without a variant (`de`, `de+f2`).
 * @param known languages that eSpeak speaks
 * @throws the failure class `bad_request` for an unknown voice
 */
export function resolveVoice(
  requested: SpeechInput['voice'],
  language: string,
  own: Readonly<Record<string, string>>,
  known: ReadonlySet<string>,
  fail: Host['fail'],
): string {
  const name = voiceName(requested)
  const variant = VARIANTS[name]
  const voice = own[name] ?? (variant ? `${language}+${variant}` : name)
  const [, voiceLanguage] = NAME.exec(voice) ?? []
  if (voiceLanguage && known.has(voiceLanguage.toLowerCase())) return voice
  throw fail(
    'bad_request',
    `The voice is not known here. Ask for one of ${Object.keys(VARIANTS).join(', ')}, or for a language such as "de".`,
    { code: 'invalid_value', param: 'voice' },
  )
}
