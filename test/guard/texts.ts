/** Texts and patterns for tests and measurements of the guard: ordinary ones, and ones made to be hard. */

/** Everyday literals that {@link ordinaryText} does not hold. */
export const LITERALS: readonly string[] = [
  'blue heron',
  'project falcon',
  'acquisition',
  'casino',
  'lottery ticket',
  'passport number',
  'nuclear',
  'explosive',
  'competitor',
  'internal only',
  'do not distribute',
  'salary',
  'lawsuit',
  'whistleblower',
  'bitcoin',
  'gambling',
  'cigarette',
  'password',
  'horoscope',
  'astrology',
  'jackpot',
  'narcotics',
  'firearms',
  'ammunition',
  'counterfeit',
  'extortion',
  'blackmail',
  'ransom',
  'malware',
  'keylogger',
  'phishing',
  'botnet',
]

/** 24 literals and 8 expressions. */
export const PATTERNS: readonly string[] = [
  ...LITERALS.slice(0, 24),
  '\\b\\d{3}-\\d{2}-\\d{4}\\b',
  'heron-\\d+',
  '\\b(?:acme|globex) (?:corp|inc)\\b',
  'begin secret.*end secret',
  '(?:api|access)[ _-]?key\\s*[:=]',
  '\\bgh[pousr]_[A-Za-z0-9]{36}\\b',
  '[A-Z]{2}\\d{2}(?: ?\\d{4}){4}',
  '^confidential$',
]

const WORDS = `
the of and to a in is that it for was on are as with they be at one have this from or had by hot but some what there we
can out other were all your when up use word how said an each she which do their time if will way about many then them
would write like so these her long make thing see him two has look more day could go come did my sound no most number
who over know water than call first people may down side been now find any new work part take get place made live where
after back little only round man year came show every good me give our under name very through just form much great
think say help low line before turn cause same mean differ move right boy old too does tell sentence set three want air
well also play small end put home read hand port large spell add even land here must big high such follow act why ask
men change went light kind off need house picture try us again animal point mother world near build self earth father
head stand own page should country found answer school grow study still learn plant cover food sun four thought let keep
eye never last door between city tree cross since hard start might story saw far sea draw left late run while press
close night real life few stop open seem together next white children begin got walk example ease paper often always
music those both mark book letter until mile river car feet care second group carry took rain eat room friend began idea
fish mountain north once base hear horse cut sure watch color face wood main enough plain girl usual young ready above
ever red list though feel talk bird soon body dog family direct pose leave song measure state product black short
numeral class wind question happen complete ship area half rock order fire south problem piece told knew pass farm top
whole king size heard best hour better true during hundred remember step early hold west ground interest reach fast
configuration environment implementation documentation temperature particular development government information
understanding international organization professional responsibility
`
  .trim()
  .split(/\s+/)

/** Prose without a meaning, the same for the same seed; a few figures, signs and line breaks in it. */
export function ordinaryText(length: number, seed: number): string {
  const random = randomNumbers(seed)
  let text = ''
  let sentence = 0
  while (text.length < length) {
    let word = WORDS[Math.floor(random() ** 1.5 * WORDS.length)]!
    if (random() < 0.03) word = String(Math.floor(random() * 10_000))
    if (random() < 0.01) word = `user_${word}@${word}.example`
    if (sentence === 0) word = word[0]!.toUpperCase() + word.slice(1)
    text += word
    if (sentence++ > 5 + random() * 12) {
      text += random() < 0.2 ? '.\n\n' : random() < 0.1 ? '? ' : '. '
      sentence = 0
    } else {
      text += random() < 0.08 ? ', ' : random() < 0.01 ? ' – ' : ' '
    }
  }
  return text.slice(0, length)
}

/** Numbers from 0 to 1, the same for the same seed. */
export function randomNumbers(seed: number): () => number {
  let state = (seed + 0x9e3779b9) | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** 32 patterns of 200 characters each, and a text of any length that keeps them busy without a match. */
export function hostilePatterns(): readonly (readonly [
  name: string,
  patterns: readonly string[],
  text: (length: number) => string,
])[] {
  const numbered = (make: (index: number) => string) =>
    Array.from({ length: 32 }, (_, index) => make(index))
  const nested = (index: number) => {
    let pattern = `a${'b'.repeat(index % 5)}`
    while (pattern.length < 190) pattern = `(?:${pattern})${'+*'[index % 2]}c?`
    return `${pattern}!`
  }
  const as = (length: number) => 'a'.repeat(length)
  const abc = (letters: string) => (length: number) => {
    const random = randomNumbers(7)
    return Array.from({ length }, () => letters[Math.floor(random() * letters.length)]).join('')
  }
  return [
    ['nested quantifiers, 1 MiB of a', numbered(nested), as],
    ['nested quantifiers, random letters', numbered(nested), abc('abc')],
    [
      'optional letters',
      numbered((index) => `${'a?'.repeat(99 - index)}${'x'.repeat(2 + index)}`),
      abc('ab'),
    ],
    ['states without end', numbered((index) => `[ab]*a[ab]{${300 + index}}[cd]!`), abc('ab')],
    ['200 letters', numbered((index) => `${abc('ab')(190 + (index % 10))}!`), abc('ab')],
  ]
}
