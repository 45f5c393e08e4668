/** Which voice a client means, and how fast it speaks. */
import type { Host, SpeechInput } from '../../src/plugin.ts'

/** OpenAI's voices, as variants that any language can be spoken in. */
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

/** Of eSpeak at its normal speed. */
const NORMAL = 175
/** What eSpeak can do. */
const SLOWEST = 80
const FASTEST = 450

export function wordsPerMinute(speed: number): number {
  return Math.round(Math.min(FASTEST, Math.max(SLOWEST, NORMAL * speed)))
}

/** `de`, `en-gb-x-rp`, `en-us+f2`: nothing that could be a path. */
const NAME = /^([a-z]{2,4}(?:-[A-Za-z0-9]{1,8})*)(\+[A-Za-z0-9]{1,20})?$/

/**
 * A voice of eSpeak's: a name of OpenAI's or of the configuration's, or a language that eSpeak speaks, alone or with a
 * variant (`de`, `de+f2`).
 * @param known languages
 */
export function resolveVoice(
  asked: SpeechInput['voice'],
  language: string,
  own: Readonly<Record<string, string>>,
  known: ReadonlySet<string>,
  fail: Host['fail'],
): string {
  const name = typeof asked === 'string' ? asked : asked.id
  const variant = VARIANTS[name]
  const voice = own[name] ?? (variant ? `${language}+${variant}` : name)
  const [, spoken] = NAME.exec(voice) ?? []
  if (spoken && known.has(spoken.toLowerCase())) return voice
  throw fail(
    'bad_request',
    `The voice is not known here. Ask for one of ${Object.keys(VARIANTS).join(', ')}, or for a language such as "de".`,
    { code: 'invalid_value', param: 'voice' },
  )
}
