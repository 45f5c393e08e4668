/**
 * Scores a text for each category. The evidence of a sentence adds up, and half of the sum carries over to the next
 * one. The scorer is small enough to follow by hand; it names the cues that counted.
 */
import { CATEGORIES, type Category } from '../../../src/plugin.ts'
import { expression } from '../text/slices.ts'
import {
  ROLES,
  readLexicons,
  type Cue,
  type Lexicon,
  type Role,
  MAX_UNITS,
  fold,
  foldInto,
  CueIndex,
  LanguageFinder,
  type LanguageState,
  type Script,
} from './cue-index.ts'

/** Most characters of a sentence. */
const MAX_SENTENCE = 600
const SPACE = /\s/

/** Ends a sentence anywhere. */
const FULL_STOP = 1
/** Ends a sentence only before white space, because numbers and names contain points. */
const STOP = 2

const ends = new Uint8Array(0x10000)
for (const sign of '\n。！？؟।') ends[sign.charCodeAt(0)] = FULL_STOP
for (const sign of '.!?…') ends[sign.charCodeAt(0)] = STOP

/** A sentence and its position. */
interface Sentence {
  /** Offset in the text. */
  readonly start: number
  readonly text: string
}

/** Splits a growing text into sentences. The result depends on the text only, not on how it arrives. */
export class Sentences {
  /** Offset of the incomplete sentence. */
  start = 0
  #rest = ''
  /** Characters of the rest that were examined. */
  #seen = 0

  /** Adds text. @returns the sentences that are now complete */
  push(text: string): Sentence[] {
    this.#rest += text
    const sentences: Sentence[] = []
    let offset = 0
    for (let end = this.#next(offset); end > 0; end = this.#next(offset)) {
      sentences.push({ start: this.start, text: this.#rest.slice(offset, end) })
      this.start += end - offset
      offset = end
    }
    this.#rest = this.#rest.slice(offset)
    this.#seen -= offset
    return sentences
  }

  /** The last, incomplete sentence. */
  end(): Sentence | undefined {
    const { start } = this
    const text = this.#rest
    this.#rest = ''
    this.start += text.length
    return text ? { start, text } : undefined
  }

  /** End of the sentence that starts at `from`; 0 while it is incomplete. */
  #next(from: number): number {
    const rest = this.#rest
    const { length } = rest
    const last = from + MAX_SENTENCE - 1
    let at = this.#seen
    for (; at < length; at++) {
      const kind = ends[rest.charCodeAt(at)]!
      if (kind === FULL_STOP) return (this.#seen = at + 1)
      if (kind === STOP) {
        // The next character decides.
        if (at + 1 === length) break
        if (SPACE.test(rest[at + 1]!)) return (this.#seen = at + 1)
      }
      if (at < last) continue
      this.#seen = at + 1
      for (let i = at; i > from + MAX_SENTENCE / 2; i--) if (SPACE.test(rest[i]!)) return i
      const code = rest.charCodeAt(at)
      return code >= 0xd800 && code <= 0xdbff ? at : at + 1
    }
    this.#seen = at
    return 0
  }
}

// Evidence for one category in one sentence, and what it adds up to.

/** A request next to one of its topics, or a cue that is proof by itself. */
const ENOUGH = 5
/** A request next to a possible topic: proof only with further evidence. */
const LIKELY = 4
/** The first topic of a sentence that asks or tells a person something, with a second one proof; and of another one. */
const FIRST_TOPIC = 3
const MENTIONED_TOPIC = 2
/** Further topics, in an input and in an output. */
const NEXT_TOPIC = { input: 1.8, output: 2 }
const LOOSE = 0.5
const MAX_LOOSE = 3
/** Most that words add up to in a sentence that neither asks nor tells a person anything, such as one of a textbook. */
const MENTIONED = 3
const SECOND_STRONG = 2
const AGAINST = 3.5
/** Characters between a request and its topic, about twelve words. */
const NEAR = 72
/** Loose words of a sentence that the question after it may be about. */
const FOLLOWED = 2
const MAX_NAMED = 8
/** Topics and loose words of a sentence that is about little else; one less where it has a typical verb. */
const DENSE = 4

const numberOf = (role: Role) => ROLES.indexOf(role)
const ASKS = numberOf('asks')
const LEADS = numberOf('leads')
const TOPICS = numberOf('topics')
const LOOSES = numberOf('loose')
const STRONG = numberOf('strong')
const OPPOSED = numberOf('against')
const DECLINES = numberOf('declines')

/** Categories in which a question about a topic is a request. One about a character or a person mostly is harmless. */
const INQUIRED: ReadonlySet<Category> = new Set([
  'code',
  'math',
  'medical',
  'legal',
  'financial-advice',
])
/** Categories in which an answer that speaks to a person about a topic advises. */
const ADVISED: ReadonlySet<Category> = new Set(['medical', 'legal', 'financial-advice'])

/** Categories that a plain statement belongs to as well: data of a person. */
const TOLD: ReadonlySet<Category> = new Set(['personal-data'])

/** Whom a sentence addresses, and how. */
interface Manner {
  readonly side: 'input' | 'output'
  /** It asks or tells a person something. */
  readonly isAddress: boolean
  /** It ends with a question mark. */
  readonly isQuestion: boolean
  /** Whether the sentence before it named topics of the category. */
  readonly follows: boolean
}

/** The evidence for one category in one sentence. */
class Evidence {
  /** Numbers of the cues that count, and of shapes after them. */
  readonly named: number[] = []
  /** Whether there is any evidence. */
  #some = false
  #asks = -Infinity
  #leads = -Infinity
  #topicAt = -Infinity
  #looseAt = -Infinity
  #strongAt = -1
  #againstAt = -1
  #topics = 0
  #loose = 0
  #strong = 0
  #against = 0
  #shapes = 0
  /** An answer declines in these words. */
  #declines = false
  #pair = false
  #loosePair = false

  /** Starts a sentence. */
  clear(): void {
    if (!this.#some) return
    this.#some = false
    this.#asks = this.#leads = this.#topicAt = this.#looseAt = -Infinity
    this.#strongAt = this.#againstAt = -1
    this.#topics = this.#loose = this.#strong = this.#against = this.#shapes = 0
    this.#declines = this.#pair = this.#loosePair = false
    this.named.length = 0
  }

  /** Whether a question in the next sentence may be about this one. */
  get isFollowed(): boolean {
    return this.#topics > 0 || this.#loose >= FOLLOWED
  }

  /** Whether the sentence is about little else. */
  get isDense(): boolean {
    return this.#topics + this.#loose >= (this.#asks < 0 ? DENSE : DENSE - 1)
  }

  /** Notes a cue at a position. */
  note(role: number, cue: number, at: number): void {
    this.#some = true
    switch (role) {
      case ASKS:
        this.#asks = at
        if (isNear(at, this.#topicAt)) this.#pair = true
        if (isNear(at, this.#looseAt)) this.#loosePair = true
        break
      case LEADS:
        this.lead(at)
        return
      case TOPICS:
        // A word may be a cue in several languages.
        if (this.#topicAt === at) return
        this.#topicAt = at
        this.#topics++
        if (isNear(at, this.#asks) || isNear(at, this.#leads)) this.#pair = true
        break
      case LOOSES:
        if (this.#looseAt === at) return
        this.#looseAt = at
        this.#loose++
        if (isNear(at, this.#asks)) this.#loosePair = true
        break
      case STRONG:
        if (this.#strongAt === at) return
        this.#strongAt = at
        this.#strong++
        break
      case OPPOSED:
        if (this.#againstAt === at) return
        this.#againstAt = at
        this.#against++
        break
      case DECLINES:
        this.#declines = true
    }
    this.#name(cue)
  }

  /** Notes a weak request: proof beside a topic only. */
  lead(at: number): void {
    this.#some = true
    this.#leads = at
    if (isNear(at, this.#topicAt)) this.#pair = true
  }

  /** Notes a shape with a weight. */
  shape(weight: number, cue?: number): void {
    this.#some = true
    this.#shapes += weight
    if (cue !== undefined) this.#name(cue)
  }

  /** What the sentence adds to the sum of its text. */
  weigh({ side, isAddress, isQuestion, follows }: Manner): number {
    if (!this.#some) return 0
    // Who declines names the subject. What is shown all the same, such as code, counts.
    if (this.#declines && side === 'output') return this.#shapes - AGAINST
    const isPair = this.#pair || (follows && isQuestion && side === 'input' && this.#asks >= 0)
    let words = Math.min(this.#loose, MAX_LOOSE) * LOOSE
    if (this.#topics > 1) words += (this.#topics - 1) * NEXT_TOPIC[side]
    if (isAddress && isPair) words += ENOUGH
    else if (isAddress && this.#loosePair) words += LIKELY
    else if (this.#topics > 0) words += isAddress ? FIRST_TOPIC : MENTIONED_TOPIC
    if (!isAddress) words = Math.min(words, MENTIONED)
    const strong = this.#strong > 0 ? ENOUGH + (this.#strong - 1) * SECOND_STRONG : 0
    return this.#shapes + words + strong - AGAINST * this.#against
  }

  #name(cue: number): void {
    if (this.named.length < MAX_NAMED) this.named.push(cue)
  }
}

/** Whether two positions are near each other. A word is not its own topic. */
function isNear(one: number, other: number): boolean {
  return one !== other && Math.abs(one - other) <= NEAR
}

// Evidence by shape, in any language: code, formulas, stage directions, doses, clauses.

/** A pattern that speaks for a category. */
interface Shape {
  readonly id: string
  readonly category: Category
  /** Characters of which every match contains at least one. */
  readonly signs: string
  readonly pattern: RegExp
  /** A weight, or the role of the cue that the shape stands for. */
  readonly counts: number | Role
}

/** Pseudo-characters for `signs`: a digit, two capitals in a row, a capital inside a word. */
const DIGIT = '0'
const CAPITALS = '\u0001'
const HUMP = '\u0002'

/** All patterns run in linear time: no nested repetitions, only bounded gaps. */
const LISTED: readonly Shape[] = [
  code('fence', '`~', /^\s*(?:```|~~~)\s*\w*[\w+#-]/, ENOUGH),
  code('bare-fence', '`~', /^\s*(?:```|~~~)\s*$/, 3),
  code('shebang', '#', /^#!\s*\//, ENOUGH),
  code('inline', '`', /`[^`\n]{1,80}[\s(=.<>{}/[-][^`\n]{0,80}`/, ENOUGH),
  code('inline-word', '`', /`[^`\n]{2,40}`/, 2),
  code(
    'declaration',
    '(={:<";.',
    /^\s*(?:(?:export|public|private|protected|static|async|default|final)\s+){0,4}(?:def \w+\s*\(|function\s*\w*\s*\(|fn \w+\s*[(<]|func \w+\s*\(|class \w+\s*(?:[:({]|extends\b)|interface \w+\s*\{|struct \w+\s*\{|#include\s*[<"]|using \w+(?:::|\.)|package \w+;|void \w+\()/,
    ENOUGH,
  ),
  code(
    'import',
    '.;{*',
    /^\s*(?:import\s+(?:[\w.]+[.;][\w.;]*\s*$|[\w*{} ,]+\sfrom\s)|from\s+\w+\.[\w.]+\s+import\s)/,
    ENOUGH,
  ),
  code('assignment', '=', /\b(?:const|let|var|int|string|float|bool|auto)\s+\w+\s*=[^=]/, ENOUGH),
  code(
    'flow',
    '(',
    /\bfor\s+\w+\s+in\s+\w+\(|\bfor\s*\(\s*\w+[^)]*[;:]|\bif\s*\([^)\n]*\)\s*\{|\bwhile\s*\([^)\n]*\)\s*[{:]|\bprint(?:f|ln)?\(|\bconsole\.\w+\(|\bSystem\.out\b/,
    ENOUGH,
  ),
  code('call', '(', /\b[a-zA-Z_]\w+\.[a-zA-Z_]\w*\(/, 3.5),
  code('arguments', '(', /\b[a-z_]\w+\((?!s\)|es\)|n\)|k\)|r\)|en\))[^()\n]{0,60}\)/, 2),
  code('line-end', ';{', /(?:[)\]"'\w]\s*;|[)\w>]\s*\{)\s*$/, 2),
  code('operator', '=&|:+!', /=>|===|!==|!=|&&|\|\||\w::\w|\+\+[;)]|\+=|:=/, 2.5),
  code('comparison', '=', /(?<!=)={2,3}(?!=)/, 'topics'),
  code('select', CAPITALS, /\bSELECT\s[^\n]{1,200}\sFROM\s+\w/, ENOUGH),
  code(
    'statement',
    CAPITALS,
    /\bINSERT INTO\s+\w|\bUPDATE\s+\w+\s+SET\b|\b(?:CREATE|ALTER|DROP) TABLE\b|\bDELETE FROM\s+\w/,
    ENOUGH,
  ),
  code(
    'markup',
    '<',
    /<\/?(?:div|span|p|a|ul|ol|li|html|body|head|script|style|table|tr|td|form|input|button|img|h[1-6]|section|nav|label)\b[^>\n]{0,200}>/i,
    ENOUGH,
  ),
  code('sheet', '=', /=\s*[A-Z]{2,12}(?:\.[A-Z]+)?\(/, ENOUGH),
  code(
    'command',
    '-./$`',
    /(?:^|[\s`$])(?:npm|npx|yarn|pnpm|pip3?|git|docker|kubectl|sudo|apt-get|apt|brew|cargo|conda|chmod|curl|systemctl|python3?|node|bash|ls|cd|rm|grep)\s(?:-{1,2}\w|[\w./-]{1,60}\.(?:py|js|sh|ts)\b)/,
    ENOUGH,
  ),
  code(
    'file',
    '.',
    /\b[\w-]{1,40}\.(?:py|js|ts|tsx|jsx|java|cpp|cs|rs|rb|php|sh|sql|ipynb|css|json|ya?ml|toml)\b/,
    2,
  ),
  code('camel', HUMP, /\b[a-z]{2,}[A-Z][a-z]+\w*\b/, 1.5),
  code('snake', '_', /\b[a-z]+_[a-z]\w*\b/, 2),
  code('regex', '\\[(', /\\[dwsb][+*?{]|\(\?:|\[\^?[a-zA-Z]-[a-zA-Z]/, 4),
  code('style', '{', /[.#]?[\w-]+\s*\{\s*[\w-]{2,30}\s*:[^}\n]{1,80};/, ENOUGH),

  math('product', '×÷*+', /\d\s*[×÷]\s*\d|\d\s?\*\s?\d|\d\s?\+\s?\d/, ENOUGH),
  math('difference', '-−/–', /\d\s+[−/]\s+\d|\d\s+-\s+\d/, 2.5),
  math(
    'equation',
    '=',
    /[\da-z)²³]\s*[-+*/×÷−^]\s*[\da-z(][^=\n]{0,40}=\s*[-−\w(]|\b[a-z]\s*=\s*[-−]?\d/,
    ENOUGH,
  ),
  math('power', '^', /[\w)]\s?\^\s?[-\w({]/, 3),
  math('sum-to-a-power', '^', /\)\s?\^\s?\w|\w\s?\^\s?\d\s?[-+−]/, 2),
  math('unknown', DIGIT, /\b\d+[yz]\b|\b\d+x\s?[-+=−]|[a-z][²³]/, 3),
  math('power-of-a-sum', '²³', /\)\s?[²³]/, ENOUGH),
  math('product-of-sums', '(', /\(\s*\w{1,4}\s*[-+−]\s*\w{1,4}\s*\)\s*\(|\b[fgh]\(x\)/, 4),
  math(
    'latex',
    '\\',
    /\\(?:frac|int|sum|sqrt|lim|cdot|times|begin\{(?:equation|align|[pb]matrix))/,
    ENOUGH,
  ),
  math('symbol', '√∫∑∏∂', /[√∫∑∏∂]/, 4),
  math('point', '(', /\(\s*-?\d+(?:\.\d+)?\s*,\s*-?\d+(?:\.\d+)?\s*\)/, 'topics'),
  math('sequence', ',，、;', /(?<![\d.])\d{1,4}(?:\s?[,，、;]\s?\d{1,4}){3}(?!\d)/, 'topics'),
  math('share', '%', /\d\s*%\s*(?:of|von|de|di|van|z|от|af|av)\s+[\d$€£]/i, ENOUGH),
  math('fraction', '/', /\b\d{1,3}\/\d{1,3}\s*(?:[-+×*=]|plus|minus|times|as\b)/, 4),
  math(
    'numbers',
    DIGIT,
    /(?:^|\D)\d{1,3}(?:[.,]\d+)?(?!\d)\D{1,80}(?<!\d)\d{1,3}(?:[.,]\d+)?(?!\d)/,
    'loose',
  ),
  math('more-numbers', DIGIT, /(?<=\d\D{2,60})\d{1,9}(?:[.,]\d{1,9})?\D{2,60}\d/, 'loose'),

  {
    id: 'action',
    category: 'roleplay',
    signs: '*',
    pattern: /(?:^|[.!?"”]\s)\s*\*[a-z]+s\b[^*\n]{0,100}\*(?!\*)/,
    counts: ENOUGH,
  },
  {
    id: 'aside',
    category: 'roleplay',
    signs: '*',
    pattern: /(?:^|[.!?"”]\s)\s*\*[a-z]+ [a-z][^*\n]{2,100}\*(?!\*)/,
    counts: 3,
  },
  {
    // A gesture, and then speech: *lowers his lance* Halt!
    id: 'gesture',
    category: 'roleplay',
    signs: '*',
    pattern:
      /^\s*\*(?![\s*])(?:\p{Ll}(?=[^*\n]{1,60}\s[^*\n])[^*\n]{3,120}\*\s+["“«¡¿—-]?\s?\p{Lu}|\p{Lo}[^*\n]{3,120}\*\s*["“「]?\p{Lo})/u,
    counts: ENOUGH,
  },
  {
    id: 'you-and-i',
    category: 'roleplay',
    signs: 'I',
    pattern:
      /\bI(?:['’]m| am) (?:an?|the) [\w ]{2,30},? (?:and|while) you(?:['’]re| are)\b|\b[Yy]ou(?:['’]re| are) (?:an?|the|my) [\w ]{2,30},? (?:and )?I(?:['’]m| am)\b/,
    counts: ENOUGH,
  },

  {
    // "You are an old captain, and I ...", in the other languages.
    id: 'you-and-me',
    category: 'roleplay',
    signs: ' ,，、',
    pattern:
      /\b(?:du (?:bist|wärst)(?: ab jetzt| jetzt| nun)? (?:ein|eine|der|die|mein|meine) [^.?!\n]{3,80}\bich (?:bin|spiele|wäre)|tu es (?:un|une|le|la|mon|ma) [^.?!\n]{3,80}\b(?:et moi|et je suis|je suis)|(?:eres|serás) (?:un|una|el|la|mi) [^.?!\n]{3,80}\by yo\b|sei (?:un|una|il|la|lo|mio|mia) [^.?!\n]{3,80}\b(?:e io|io sono)|(?:você é|és|você será) (?:um|uma|o|a|meu|minha) [^.?!\n]{3,80}\be eu\b|(?:je|jij) bent (?:een|de|het|mijn) [^.?!\n]{3,80}\b(?:en ik ben|ik ben|en ik)\b|jesteś \p{L}+(?:em|ą|ym|im) [^.?!\n]{0,80}\ba ja\b)|(?<!\p{L})ты\s[^.?!\n]{3,80}, а я(?!\p{L})|你(?:现在)?是[^。？！\n]{2,40}[,，]\s?我是|(?:あなた|君|お前)は[^。？！\n]{2,40}[、,]\s?(?:私|僕|俺)は|(?:너는|넌|당신은|네가|니가)\s[^.?!\n]{2,40}\s(?:나는|난|내가|저는)\s|(?:^|\s)[أا]نت\s[^.؟!\n]{3,60}\sو[أا]نا\s|(?:तुम|आप) [^।?!\n]{3,60}(?:हो|हैं)[^।?!\n]{0,10} मैं /iu,
    counts: ENOUGH,
  },

  {
    // "I am Romeo and you are Juliet."
    id: 'me-and-you',
    category: 'roleplay',
    signs: ' ,，、',
    pattern:
      /\b(?:i(?:['’]m| am) \p{L}[^.?!\n]{2,30} and you(?:['’]re| are) \p{L}|ich bin [^.?!\n]{3,30},? (?:und )?du bist \p{L}|je suis [^.?!\n]{3,30}(?:,| et) (?:toi )?tu es \p{L}|yo soy [^.?!\n]{3,30}(?:,| y) tú (?:eres )?\p{L}|io sono [^.?!\n]{3,30}(?:,| e) tu (?:sei )?\p{L}|eu sou [^.?!\n]{3,30}(?:,| e) (?:você|tu) (?:é|és) \p{L}|ik ben [^.?!\n]{3,30}(?:,| en) jij bent \p{L})|(?<!\p{L})я [^.?!\n]{3,30},? а ты \p{L}|我是[^。？！\n]{1,15}[,，]\s?你是\p{L}|(?:私|僕|俺)は[^。？！\n]{1,15}[、,]\s?(?:あなた|君|お前)は\p{L}|(?:나는|난|내가) [^.?!\n]{1,15},? (?:너는|넌|네가) \p{L}/iu,
    counts: ENOUGH,
  },

  {
    // "Like Li Bai, talk with me", where a word for "like" stands behind the name.
    id: 'like-someone',
    category: 'roleplay',
    signs: '像처럼',
    pattern:
      /像[^。？！，,\n]{1,12}(?:一样|那样)[^。？！\n]{0,6}(?:聊|说|回答|对话)|\p{L}처럼\s(?:\S{1,6}\s)?(?:대화|말해|말하|이야기|행동|대답)/u,
    counts: ENOUGH,
  },

  {
    id: 'you-be',
    category: 'roleplay',
    signs: 'YBI',
    pattern: /\b[Yy]ou be [A-Z]|^\s*Be (?:an?|my) [\w -]{3,40} and \w|^\s*You are [A-Z]+ ?\d/,
    counts: 4.8,
  },

  {
    id: 'dose',
    category: 'medical',
    signs: DIGIT,
    pattern: /\b\d+(?:[.,]\d+)?\s?(?:mg|mcg|µg|iu)\b/i,
    counts: 'topics',
  },
  {
    id: 'interval',
    category: 'medical',
    signs: DIGIT,
    pattern:
      /\bevery (?:\w+ ){1,2}hours\b|\b(?:times|twice|once) (?:a|per) day\b|\b(?:twice|once) daily\b/i,
    counts: 3,
  },

  {
    id: 'boilerplate',
    category: 'legal',
    signs: CAPITALS,
    pattern: /\bWHEREAS\b|\bIN WITNESS WHEREOF\b/,
    counts: ENOUGH,
  },
  { id: 'section', category: 'legal', signs: '§', pattern: /§+\s*\d/, counts: 3 },

  {
    id: 'yield',
    category: 'financial-advice',
    signs: '%',
    pattern: /\d%\s(?:APR|APY|interest|yield)\b/i,
    counts: 'topics',
  },

  {
    id: 'name-s',
    category: 'personal-data',
    signs: "'’",
    pattern: /\b[A-Z][a-z]+['’]s (?:\w+ ){0,2}(?:address|phone|number|e-?mail|birthday|salary)\b/,
    counts: 'topics',
  },
  {
    id: 'street',
    category: 'personal-data',
    signs: DIGIT,
    pattern:
      /\b\d{1,4}[a-z]? (?:[A-Z][a-z]+ ){1,3}(?:Street|St|Road|Rd|Avenue|Ave|Lane|Ln|Drive|Court|Boulevard|Blvd|Close|Place)\b/,
    counts: 'topics',
  },
  {
    // A street with the number of a house, as addresses are written in other languages.
    id: 'house',
    category: 'personal-data',
    signs: DIGIT,
    pattern:
      /\b(?:calle|avenida|plaza|rua|travessa|rue|boulevard|via|viale|corso|piazza|ul\.|ulica|ulicy|al\.)\s(?:[\p{L}.'’-]{1,20}\s){0,4}?[\p{L}'’-]{2,20},?\s(?:n\.?[ºo°]?\s?)?\d{1,4}\b|\d{1,4}\s?(?:bis\s|ter\s)?,?\s(?:rue|avenue|boulevard|chemin|impasse|allée)\s\p{L}|\p{L}{3,25}(?:straße|strasse|str\.|gasse|weg|allee|platz|straat|laan|plein|gracht|dreef)\s\d{1,4}|(?<!\p{L})(?:улиц[аеуы]|ул\.|проспект[е]?|переулк[еу]|проезд[е]?)\s(?:[\p{L}-]{2,20},?\s){1,3}(?:д\.|дом[е]?)?\s?\d|شارع\s(?:[\p{L}]{2,15}\s){1,4}(?:رقم\s)?\d|(?:मकान|फ्लैट|फ़्लैट|गली)\s(?:नंबर|नं\.?|संख्या)\s?\d|[路街道巷弄]\d{1,5}号|\d{1,4}(?:号楼|单元|棟|号室)|\d{1,4}丁目|[町区市]\d{1,4}-\d{1,4}|\p{L}(?:로|길)\s?\d{1,4}(?:번지|번길|-\d|\s|,|에)/iu,
    counts: 'topics',
  },
  {
    id: 'telephone',
    category: 'personal-data',
    signs: DIGIT,
    pattern: /(?:\+|\b)\d[\d ().-]{7,16}\d\b/,
    counts: 'loose',
  },
  {
    id: 'day',
    category: 'personal-data',
    signs: DIGIT,
    pattern:
      /\b\d{1,2}[./-]\d{1,2}[./-](?:19|20)\d\d\b|\b\d{1,2}\.? (?:de )?\p{L}{3,10} (?:de )?(?:19|20)\d\d\b|(?:19|20)\d\d年/u,
    counts: 'loose',
  },
]

/** All shapes. */
const SHAPES: readonly Shape[] = LISTED.map((shape) => ({
  ...shape,
  pattern: expression(shape.pattern),
}))

/** Signs of a text, as bits. */
function signsIn(text: string): number {
  let signs = 0
  let before = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    signs |= bitOf[code]!
    if (code >= 0x41 && code <= 0x5a) {
      if (before >= 0x61 && before <= 0x7a) signs |= HUMPS
      else if (before >= 0x41 && before <= 0x5a) signs |= CAPITAL_WORDS
    }
    before = code
  }
  return signs
}

/** Signs of a shape, as bits. */
function bitsOf({ signs }: Shape): number {
  let bits = 0
  for (const sign of signs) bits |= bitOf[sign.charCodeAt(0)]!
  return bits
}

/** One of 31 bits per sign; further signs share bits. All digits are one sign. */
const bitOf = new Int32Array(0x10000)
{
  const signs = [...new Set(SHAPES.flatMap((shape) => [...shape.signs]))]
  signs.forEach((sign, index) => (bitOf[sign.charCodeAt(0)] = 1 << (index % 31)))
  for (let digit = 0x30; digit <= 0x39; digit++) bitOf[digit] = bitOf[DIGIT.charCodeAt(0)]!
}
/** The bit of digits. */
const DIGITS = bitOf[DIGIT.charCodeAt(0)]!
const HUMPS = bitOf[HUMP.charCodeAt(0)]!
const CAPITAL_WORDS = bitOf[CAPITALS.charCodeAt(0)]!

function code(id: string, signs: string, pattern: RegExp, counts: Shape['counts']): Shape {
  return { id, category: 'code', signs, pattern, counts }
}

function math(id: string, signs: string, pattern: RegExp, counts: Shape['counts']): Shape {
  return { id, category: 'math', signs, pattern, counts }
}

/** Evidence that gives a score of one half. */
const BIAS = 3
/** Characters at either end of a sentence within which an imperative stands, by script; an ideogram says more. */
const EDGE = 16
const EDGES: Readonly<Partial<Record<Script, number>>> = { Han: 4, Kana: 8 }
/** Characters at the end of a sentence among which a question mark is looked for. */
const CLOSING = 5
/** Most characters of a sentence without a full stop that is a request. */
const MAX_NOTE = 100
/** The end of a sentence, or of a line of a longer text. */
const ENDED = /[.!…。！।\n]\s*$/
const QUESTION_MARKS = new Set([...'?؟'].map((mark) => mark.charCodeAt(0)))

const ADDRESS = numberOf('address')
const COMMON = numberOf('common')

/** What is known of a text so far. */
export interface Reading extends LanguageState {
  /** Sums of evidence, one per category. */
  readonly sums: Float64Array
  /** Whether the last sentence named topics, per category. */
  readonly topics: boolean[]
}

/** A category and its score. */
export interface Score {
  readonly category: Category
  /** The score, 0 to 1. */
  readonly score: number
  /** Ids of the cues that counted, shown to the operator. */
  readonly cues: readonly string[]
}

/** The scorer of this process, made when it is first wanted. */
const making = makeScorer()
let made: Scorer | undefined

/** The scorer, at once. The first call takes some 50 ms if {@link scorerSoon} was not called before. */
export function scorerNow(): Scorer {
  let scorer = made
  while (!scorer) scorer = makeOn()
  return scorer
}

/** The same; while it is made, `yieldIfDue` lets others work. @returns a promise the first time */
export function scorerSoon(yieldIfDue: () => void | Promise<void>): Scorer | Promise<Scorer> {
  return made ?? makeSoon(yieldIfDue)
}

async function makeSoon(yieldIfDue: () => void | Promise<void>): Promise<Scorer> {
  while (!made) {
    makeOn()
    await yieldIfDue()
  }
  return made
}

/** One step. @throws Error when a lexicon cannot be read, now or before */
function makeOn(): Scorer | undefined {
  const { done, value } = making.next()
  if (done && !value) throw new Error('the lexicons could not be read')
  return (made = value ?? undefined)
}

/** Reads one language a step. */
function* makeScorer(): Generator<undefined, Scorer> {
  const index = new CueIndex()
  const lexicons: Omit<Lexicon, 'cues'>[] = []
  for (const lexicon of readLexicons()) {
    index.add(lexicon)
    const { language, script, operators } = lexicon
    lexicons.push({ language, script, operators })
    yield
  }
  return new Scorer(CATEGORIES, index, lexicons)
}

/** Scores sentences. One instance serves all texts. */
export class Scorer {
  readonly #categories: readonly Category[]
  readonly #index: CueIndex
  /** The index of each cue's category, or -1 for all; and its role. */
  readonly #ofCategory: Int8Array
  readonly #roles: Int8Array
  readonly #shapes: readonly {
    readonly bits: number
    readonly category: number
    readonly cue: number
  }[]
  readonly #ids: readonly string[]
  /** The last sentence in which each cue occurred. A cue counts once per sentence. */
  readonly #seenIn: Float64Array
  #sentence = 0
  readonly #units = new Uint16Array(MAX_SENTENCE * MAX_UNITS)
  readonly #evidence: readonly Evidence[]
  readonly #operation: RegExp
  readonly #languages: LanguageFinder
  /** The number of each cue's language. */
  readonly #ofLanguage: Int8Array
  /** The place of an imperative, for each language. */
  readonly #edges: readonly number[]
  /** Cues of the sentence and their positions, in turn. */
  readonly #cues: number[] = []

  constructor(
    categories: readonly Category[],
    index: CueIndex,
    lexicons: readonly Omit<Lexicon, 'cues'>[],
  ) {
    this.#categories = categories
    this.#index = index
    const { cues } = index
    this.#edges = lexicons.map(({ script }) => EDGES[script] ?? EDGE)
    const languages = lexicons.map(({ language }) => language)
    this.#ofLanguage = Int8Array.from(cues, ({ id }: Cue) =>
      languages.indexOf(id.slice(0, id.indexOf('.'))),
    )
    this.#languages = new LanguageFinder(
      lexicons.map(({ script }) => script),
      languages.map((_, i) =>
        cues.some(({ role }, cue) => role === 'common' && this.#ofLanguage[cue] === i),
      ),
    )
    const numberOf = (category: Category | undefined) =>
      category === undefined ? -1 : categories.indexOf(category)
    this.#ofCategory = Int8Array.from(cues, (cue: Cue) => numberOf(cue.category))
    this.#roles = Int8Array.from(cues, (cue: Cue) => ROLES.indexOf(cue.role))
    this.#shapes = SHAPES.map((shape, i) => ({
      bits: bitsOf(shape),
      category: numberOf(shape.category),
      cue: cues.length + i,
    })).filter(({ category }) => category >= 0)
    this.#ids = [
      ...cues.map(({ id }) => id),
      ...SHAPES.map(({ id, category }) => `${category}.${id}`),
    ]
    this.#seenIn = new Float64Array(cues.length)
    this.#evidence = categories.map(() => new Evidence())
    this.#operation = operationOf(lexicons.flatMap(({ operators }) => operators))
  }

  /** What is known of a new text. */
  begin(): Reading {
    return { sums: new Float64Array(this.#categories.length), topics: [], hasKana: false }
  }

  /**
   * Adds a sentence.
   * @param reading the reading from {@link begin}, updated
   * @param wanted categories to look for
   * @returns the category with the highest score, if it reaches the threshold
   */
  add(
    { text }: Sentence,
    reading: Reading,
    wanted: ReadonlySet<Category>,
    side: 'input' | 'output',
    threshold: number,
  ): Score | undefined {
    this.#sentence++
    for (const evidence of this.#evidence) evidence.clear()
    const length = foldInto(text, this.#units)
    const isQuestion = endsAsQuestion(this.#units, length)
    const isShort = side === 'input' && isNote(text)
    const isAddress = this.#takeCues(length, reading, side) || isQuestion || isShort
    if (isQuestion) this.#takeLead(INQUIRED, length)
    this.#takeShapes(text)
    const { sums, topics } = reading
    let best = -1
    for (const [i, evidence] of this.#evidence.entries()) {
      if (!wanted.has(this.#categories[i]!)) continue
      const follows = topics[i] ?? false
      topics[i] = evidence.isFollowed
      const isShown = side === 'output' && this.#categories[i] === 'code' && evidence.isDense
      const counts = isAddress || isShown || TOLD.has(this.#categories[i]!)
      const weight = evidence.weigh({ side, isAddress: counts, isQuestion, follows })
      sums[i] = Math.max(0, sums[i]! / 2 + weight)
      if (best < 0 || sums[i]! > sums[best]!) best = i
    }
    const score = best < 0 ? 0 : 1 / (1 + Math.exp(BIAS - sums[best]!))
    if (score < threshold) return undefined
    const cues = this.#evidence[best]!.named.map((cue) => this.#ids[cue]!)
    return { category: this.#categories[best]!, score, cues }
  }

  /** Takes the cues of the languages that the sentence may be in. @returns whether it asks or tells a person something */
  #takeCues(length: number, reading: Reading, side: 'input' | 'output'): boolean {
    const cues = this.#cues
    cues.length = 0
    this.#languages.begin()
    this.#index.find(this.#units, length, this.#collect)
    const counts = this.#languages.decide(this.#units, length, reading)
    let isAddress = false
    for (let i = 0; i < cues.length; i += 2) {
      const [cue, at] = [cues[i]!, cues[i + 1]!]
      const language = this.#ofLanguage[cue]!
      if (counts[language] === 0) continue
      const edge = this.#edges[language]!
      const role = this.#roles[cue]!
      if (role === ADDRESS) {
        isAddress = true
        if (side === 'output') this.#takeLead(ADVISED, at)
        continue
      }
      const isGeneral = role === LEADS && this.#ofCategory[cue]! < 0
      if ((isGeneral || role === ASKS) && at < edge) isAddress = true
      if (role === ASKS && at > length - edge) isAddress = true
      if (isGeneral) this.#takeLead(INQUIRED, at)
      else this.#take(cue, at)
    }
    return isAddress
  }

  /** Keeps a cue until the language of the sentence is known. */
  readonly #collect = (cue: number, at: number): void => {
    if (this.#roles[cue] === COMMON) this.#languages.note(this.#ofLanguage[cue]!)
    else this.#cues.push(cue, at)
  }

  #take(cue: number, at: number): void {
    const role = this.#roles[cue]!
    if (this.#seenIn[cue] === this.#sentence && role > LEADS) return
    this.#seenIn[cue] = this.#sentence
    const category = this.#ofCategory[cue]!
    if (category >= 0) this.#evidence[category]!.note(role, cue, at)
    else for (const evidence of this.#evidence) evidence.note(role, cue, at)
  }

  #takeLead(categories: ReadonlySet<Category>, at: number): void {
    for (const [i, category] of this.#categories.entries()) {
      if (categories.has(category)) this.#evidence[i]!.lead(at)
    }
  }

  #takeShapes(text: string): void {
    const signs = signsIn(text)
    for (const { bits, category, cue } of this.#shapes) {
      if ((bits & signs) === 0) continue
      const { pattern, counts } = SHAPES[cue - this.#seenIn.length]!
      const at = text.search(pattern)
      if (at < 0) continue
      const evidence = this.#evidence[category]!
      if (typeof counts === 'string') evidence.note(ROLES.indexOf(counts), cue, at)
      else evidence.shape(counts, cue)
    }
    const math = this.#categories.indexOf('math')
    if (math < 0 || (signs & DIGITS) === 0) return
    if (this.#operation.test(fold(text))) this.#evidence[math]!.shape(ENOUGH)
  }
}

/** Whether a sentence is a request in a few words without a full stop, as searches and notes are written. */
function isNote(text: string): boolean {
  return text.length <= MAX_NOTE && !ENDED.test(text)
}

/** Whether a folded sentence ends with a question mark, blanks and closing quotes aside. */
function endsAsQuestion(units: Uint16Array, length: number): boolean {
  for (let at = Math.max(0, length - CLOSING); at < length; at++) {
    if (QUESTION_MARKS.has(units[at]!)) return true
  }
  return false
}

/** Matches a number, an operation in words, and a number. */
function operationOf(operators: readonly string[]): RegExp {
  const words = operators.map((word) => fold(word)).filter(Boolean)
  const choice = words.sort((a, b) => b.length - a.length).join('|')
  return expression(`(?<![\\w])\\d+(?:[.,]\\d+)*\\s?(?:${choice})\\s?(?:by )?\\d`)
}
