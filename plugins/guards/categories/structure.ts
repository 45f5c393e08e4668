/** Evidence by shape, in any language: code, formulas, stage directions, doses, clauses. */
import type { Category } from '../../../src/plugin.ts'
import { expression } from '../text/expressions.ts'
import type { Role } from './cues.ts'

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
const ENOUGH = 5

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
export const SHAPES: readonly Shape[] = LISTED.map((shape) => ({
  ...shape,
  pattern: expression(shape.pattern),
}))

/** Signs of a text, as bits. */
export function signsIn(text: string): number {
  let found = 0
  let before = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    found |= bitOf[code]!
    if (code >= 0x41 && code <= 0x5a) {
      if (before >= 0x61 && before <= 0x7a) found |= HUMPS
      else if (before >= 0x41 && before <= 0x5a) found |= CAPITAL_WORDS
    }
    before = code
  }
  return found
}

/** Signs of a shape, as bits. */
export function bitsOf({ signs }: Shape): number {
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
export const DIGITS = bitOf[DIGIT.charCodeAt(0)]!
const HUMPS = bitOf[HUMP.charCodeAt(0)]!
const CAPITAL_WORDS = bitOf[CAPITALS.charCodeAt(0)]!

function code(id: string, signs: string, pattern: RegExp, counts: Shape['counts']): Shape {
  return { id, category: 'code', signs, pattern, counts }
}

function math(id: string, signs: string, pattern: RegExp, counts: Shape['counts']): Shape {
  return { id, category: 'math', signs, pattern, counts }
}
