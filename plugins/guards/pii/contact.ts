/** Finds email addresses, telephone numbers and network addresses. */
import { isIPv6 } from 'node:net'
import { isUniform } from './checks.ts'
import { expression, matchesOf } from '../text/slices.ts'
import { wholeWords } from './numbers.ts'
import { isResolver } from './public.ts'

/** A part of a text. */
export interface Range {
  readonly start: number
  readonly end: number
}

const LOCAL = expression(/[\p{L}\p{M}\p{N}._%+\-'&~#*"]/u)
const DOMAIN = expression(/[\p{L}\p{M}\p{N}.-]/u)
const TOP = expression(/^(?:\p{L}[\p{L}\p{M}]{1,23}|xn--[a-z0-9-]{2,59})$/iu)
const FILE_ENDINGS = /^(?:png|jpe?g|gif|webp|svg|css|js|ts|json|html?|md|txt|pdf|zip|gz)$/i
const BESIDE = expression(/\.[a-z]{2,24}([^a-z\d.-][^.]*)$/iu)
const OBFUSCATED = expression(
  /[\p{L}\p{N}._%+-]{1,64}(?:\s*[([<]\s*at\s*[)\]>]\s*[\p{L}\p{N}-]{1,63}(?:\s*[([<]\s*dot\s*[)\]>]\s*|\s+dot\s+|\.)|\s+at\s+[\p{L}\p{N}-]{1,63}(?:\s*[([<]\s*dot\s*[)\]>]\s*|\s+dot\s+))(?:[\p{L}\p{N}-]{1,63}(?:\s*[([<]\s*dot\s*[)\]>]\s*|\s+dot\s+|\.)){0,3}\p{L}{2,24}(?![\p{L}\p{N}])/giu,
)

const UNSPACED = /[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]$/

/**
 * Email addresses around each `@` of a text (RFC 5322 without comments, RFC 6531).
 * @param before the text before
 */
export function findEmails(text: string, before: string): Range[] {
  const found: Range[] = []
  for (let at = text.indexOf('@'); at >= 0; at = text.indexOf('@', at + 1)) {
    let start = at
    while (start > 0 && at - start < 64 && LOCAL.test(text[start - 1]!)) start--
    // A quote before the address belongs to it only as a pair.
    while (start < at && /["'*#&~.]/.test(text[start]!)) start++
    if (text[at - 1] === '"' && text[start - 1] === '"') start--
    let end = at + 1
    while (end < text.length && end - at < 254 && DOMAIN.test(text[end]!)) end++
    while (end > at + 1 && /[.-]/.test(text[end - 1]!)) end--
    // Words that follow without a space are no part of it.
    end -= BESIDE.exec(text.slice(at + 1, end))?.[1]!.length ?? 0
    const local = text.slice(start, at)
    // A name in a script without spaces gives only its `@` to the stretch.
    const isNamed = local !== '' || (start === 0 && UNSPACED.test(before))
    if (!isNamed || local === 'git' || /:\/\/[^\s/]*$/.test(text.slice(0, start))) continue
    if (isDomain(text.slice(at + 1, end))) found.push({ start, end })
  }
  return found
}

/** Email addresses in words: `name (at) example [dot] org`. */
export function findSpelledEmails(text: string): Range[] {
  return Array.from(matchesOf(text, OBFUSCATED), ({ index, 0: { length } }) => ({
    start: index,
    end: index + length,
  }))
}

function isDomain(domain: string): boolean {
  const labels = domain.split('.')
  const last = labels.at(-1)!
  if (labels.length < 2 || labels.some((label) => label === '' || label.length > 63)) return false
  if (!TOP.test(last)) return false
  // `logo@2x.png` is a file name, `left-pad@1.3.0-beta.rc` a package version.
  return !(FILE_ENDINGS.test(last) && /^\d/.test(domain)) && !/^\d+\.\d+/.test(domain)
}

const OF_MACHINES = wholeWords(
  'ip|ips|ipv4|ipv6|address|addr|host|server|client|from|ping|connect|connected|connection|login|logged in|dns|port|subnet|' +
    'gateway|adresse|dirección|indirizzo|remote|peer|visitor|user at',
)
const NO_MACHINE = expression(
  /(?:\bv|versi\p{L}*|wersj\p{L}*|верси\p{L}*|版本|バージョン|버전|إصدار|الإصدار|संस्करण|वर्ज़न|वर्जन|versão|release|section|sec\.|chapter|clause|paragraph|§|build|firmware|rev\.?|revision|kernel|driver|drivers|treiber|pilote|abschnitt|kapitel|figure|table|article|chrome|chromium|edge|upgrade|update|patch|hotfix|assembly|package|sdk|bios|agent|plugin|app)(?:\s+(?:is|was|to|from|number|no\.?|nr\.?|of|on|at|auf|ist|von|est|es|è|é|до|на|la|le|the|v))*\s*[:=(]?\s*$/iu,
)

const IPV4 = expression(
  /(?<![\p{L}\p{N}._-])\d{1,3}(?:\.\d{1,3}){3}(?![\p{L}\p{N}_]|[.-][\p{L}\p{N}]|\/\d)/gu,
)
const COLONS = expression(/(?<![\p{L}\p{N}_.-])[\dA-Fa-f:]*:[\dA-Fa-f:.-]+/gu)
const HYPHENS = expression(/(?<![\p{L}\p{N}_.-])[\dA-F]{2}(?:-[\dA-F]{2}){5}(?![\p{L}\p{N}_-])/giu)

/**
 * Public network addresses. Loopback and private networks are ignored.
 * @param before the text before
 */
export function findMachines(
  text: string,
  before: string,
): (Range & { label: 'IP_ADDRESS' | 'MAC_ADDRESS' })[] {
  const found: (Range & { label: 'IP_ADDRESS' | 'MAC_ADDRESS' })[] = []
  for (const { 0: address, index } of matchesOf(text, IPV4)) {
    const octets = address.split('.').map(Number)
    const context = (before + text.slice(0, index)).slice(-48)
    if (octets.some((octet) => octet > 255) || isLocal(octets) || NO_MACHINE.test(context)) continue
    if (isResolver(address)) continue
    // Version numbers consist of small numbers.
    if (Math.max(...octets) < 32 && !OF_MACHINES.test(context)) continue
    found.push({ label: 'IP_ADDRESS', start: index, end: index + address.length })
  }
  for (const { 0: match, index } of matchesOf(text, COLONS)) {
    const address = match.replace(/[:.-]+$/, '')
    const range = { start: index, end: index + address.length }
    if (/^[\p{L}\p{N}_]/u.test(text.slice(range.end))) continue
    if (/^[\dA-Fa-f]{2}(?::[\dA-Fa-f]{2}){5}$/.test(address)) {
      if (!isUniform(address.replaceAll(':', '')) && /[a-f]|00/i.test(address)) {
        found.push({ label: 'MAC_ADDRESS', ...range })
      }
    } else if (isIPv6(address) && /\d/.test(address) && address.split(':').length > 3) {
      if (!/^(?:::|0*:|f[cd]|fe[89ab])/i.test(address) && !isResolver(address))
        found.push({ label: 'IP_ADDRESS', ...range })
    }
  }
  for (const { 0: address, index } of matchesOf(text, HYPHENS)) {
    if (!/[a-f]/i.test(address)) continue
    found.push({ label: 'MAC_ADDRESS', start: index, end: index + address.length })
  }
  return found
}

function isLocal([first, second, , last]: readonly number[]): boolean {
  if (first === 0 || first === 10 || first === 127 || first! >= 224 || last === 0) return true
  if (first === 172) return second! >= 16 && second! < 32
  if (first === 192) return second === 168
  return first === 169 ? second === 254 : first === 100 && second! >= 64 && second! < 128
}

/** Lengths of national numbers by calling code (ITU E.164 and national numbering plans). */
const PLANS = new Map(
  [
    [7, 10, '44 84 230 243 254 263 267 353 372 960'],
    [10, 10, '1 7 52 58 225 229'],
    [8, 10, '20 60 378 506 850 855 856 964 970 976'],
    [6, 10, '27 48 53 64 95 234 685 880'],
    [10, 12, '30'],
    [6, 11, '31 65 352 375 593 595 852 977'],
    [8, 9, '32 36 51 213 224 233 237 250 258 264 268 377 382 387 591 962 963'],
    [
      9,
      9,
      '33 34 93 94 211 212 218 221 240 242 244 249 251 255 256 260 261 262 351 590 594 596 992 994 995 998',
    ],
    [6, 12, '39 46 61 86 358 359 381 971 972'],
    [6, 9, '40 47 220 231 245 252 265 354 355 376 385 386 421 423 508 681 686 689 967 968'],
    [9, 12, '41 420'],
    [8, 13, '43 66 90 91 598'],
    [
      8,
      8,
      '45 216 222 223 226 227 228 232 235 236 253 257 266 350 356 357 370 371 373 374 389 505 509 973 993',
    ],
    [6, 13, '49 63 82'],
    [8, 11, '54 55 56 57 502 504'],
    [7, 13, '62'],
    [8, 12, '81 92 98 383'],
    [
      7,
      8,
      '238 239 241 246 248 269 291 297 592 599 670 673 674 675 676 677 678 680 691 692 853 961 965 975',
    ],
    [5, 7, '247 290 298 299 500 597 672 682 683 687 688 690'],
    [9, 10, '380 966 996'],
    [7, 11, '501 503 507 679 886 974'],
  ].flatMap(([least, most, codes]) =>
    (codes as string).split(' ').map((code) => [code, [least, most] as [number, number]] as const),
  ),
)

/** Italy and other countries whose numbers keep the leading zero in calls from abroad. */
const KEEPS_ZERO = /^(?:39|225|229|241|242|378)/

/** Whether digits after a `+` are a calling code and a number of a valid length. */
export function isInternational(digits: string): boolean {
  if (digits.length < 8 || digits.length > 15) return false
  for (let length = 1; length <= 3; length++) {
    const range = PLANS.get(digits.slice(0, length))
    if (!range) continue
    const national = digits.slice(length)
    if (national.length < range[0] || national.length > range[1] || isUniform(national))
      return false
    if (digits[0] === '1') return /^[2-9]\d\d[2-9]/.test(national)
    return national[0] !== '0' || KEEPS_ZERO.test(digits)
  }
  return false
}

/** Ten digits in pairs, as in France. */
const PAIRS = /^0[1-9](?:([ ./-])\d\d)(?:\1\d\d){3}$/

function isDated(written: string): boolean {
  return DATED.test(written) && !PAIRS.test(written)
}

const INDIAN_MOBILE = /^0?[6-9]\d{4}[ -]\d{5}$/

/** Whether it is written as mobile numbers of India are, in two groups. */
export function isIndianMobile(written: string): boolean {
  return INDIAN_MOBILE.test(written)
}

const NATIONAL = [
  // North America.
  /^(?:1[ .-])?(?:\([2-9]\d\d\)|[2-9]\d\d)[ .-]?[ .-][2-9]\d\d[ .-]\d{4}$|^\([2-9]\d\d\)[2-9]\d\d[ .-]\d{4}$/,
  // Numbers with the prefix that most countries use before a number.
  /^(?:\(0[1-9]\d{0,3}\)|0[1-9]\d{0,3})[ ./-]{0,2}\d{2,5}(?:[ .-]\d{2,5}){1,4}$/,
  // India.
  INDIAN_MOBILE,
  PAIRS,
  // China, Brazil.
  /^1[3-9]\d[ -]\d{4}[ -]\d{4}$/,
  /^\([1-9]\d\) ?9?\d{4}-\d{4}$/,
]
const DATED = expression(
  /(?<!\d)\d{1,2}([./-])\d{1,2}\1(?:\d{4}|\d{2})(?!\d)|(?<!\d)(?:19|20)\d\d([./-])\d{1,2}\2\d{1,2}(?!\d)/,
)

/** Whether a number of at least three groups has the form of a telephone number of some country. */
export function isNational(written: string, digits: string): boolean {
  return (
    digits.length > 8 &&
    digits.length < 12 &&
    !isDated(written) &&
    NATIONAL.some((shape) => shape.test(written))
  )
}

const OF_PHONES = wholeWords(
  'phone|phones|telephone|tel|mobile|cell|cellphone|fax|whatsapp|telegram|call me|call us|call him|call her|call them|call at|' +
    'reach me|reach him|reach her|text me|dial|hotline|sms|landline|' +
    'telefon|telefonnummer|handy|handynummer|mobil|mobilnummer|rufnummer|anrufen|festnetz|' +
    'téléphone|portable|tél|numéro de téléphone|appelez|teléfono|móvil|celular|llámame|' +
    'telefone|telemóvel|cellulare|telefono|telefoon|telefoonnummer|mobiel|gsm|telefonu|komórka|numer telefonu|' +
    'телефон|тел|мобильный|phone no|contact number|' +
    '电话|手机|電話|携帯|手機|전화|휴대폰|โทร|โทรศัพท์|फ़ोन|फोन|मोबाइल|मोबाईल|मोबाइल नंबर|नंबर|व्हाट्सएप|व्हाट्सऐप|' +
    'هاتف|هاتفي|هاتفه|هاتفها|الهاتف|جوال|جوالي|جوالها|جواله|رقمي|رقمه|رقمها|موبايل|واتساب|تلفون|טלפון|נייד|' +
    'my number|his number|her number|their number|meine nummer|seine nummer|ihre nummer|handynr|tel\\.-nr|mon numéro|son numéro|mi número|su número|' +
    'meu número|seu número|mio numero|suo numero|mijn nummer|zijn nummer|haar nummer|mój numer|jego numer|jej numer|номер телефона|' +
    'мой номер|его номер|её номер|ее номер|моб|сотовый|номеру|号码|番号は|번호는|watsapp|wsp|zap',
)
/** A verb of calling, and up to four short words between it and the number. */
const CALLS = expression(
  /(?<![\p{L}\p{N}])(?:call|ring|phone|text|dial|reach|ruf\p{L}*|anruf\p{L}*|erreich\p{L}*|meld\p{L}*|appel\p{L}*|joindre|joign\p{L}*|contact\p{L}*|संपर्क|सम्पर्क|rappel\p{L}*|llám\p{L}*|llam\p{L}*|ligue|liga\p{L}*|ligar|telefone|chiam\p{L}*|telefona\p{L}*|bel|bellen|bereik\p{L}*|zadzwo\p{L}*|dzwo\p{L}*|позвон\p{L}*|звон\p{L}*|набер\p{L}*|اتصل\p{L}*|كلمن\p{L}*|كلم\p{L}*|कॉल|फ़?ोन)(?:[\s-]+[\p{L}\p{M}.'’]{1,12}){0,4}\s*[:,]?\s*\(?$/iu,
)
/** A verb of sending messages, and up to five short words between it and the number. */
const WRITES = expression(
  /(?<![\p{L}\p{N}])(?:app|appje|appen|apps|whatsapp\p{L}*|sms\p{L}*|simse|text|message|messag\p{L}*|(?:stuur|stur\p{L}*|send\p{L}*|schick\p{L}*|schreib\p{L}*|schrijf|écri[st]|écrivez|envoie|envoyez|escríb\p{L}*|escreva|escreve|mánd\p{L}*|mand[ae]|mandami|scriv\p{L}*|napisz|wyślij|напиши|напишите|пиши|пишите|скинь|write|drop)(?:[\s-]+[\p{L}\p{M}.'’]{1,12})?)(?:[\s-]+[\p{L}\p{M}.'’]{1,12}){0,5}\s*[:,]?\s*\(?$/iu,
)
/** A label that says "number" and nothing else. */
const BARE_LABEL = expression(
  /(?:^|[.;,!?¡¿\n(–-])\s*(?:(?:the|die|de|het|le|la|il|el|o|a)\s)?(?:number|nummer|nr|numéro|número|numero|numer|номер|番号|번호|号码|號碼|नंबर|رقم|الرقم)\s?[:：=]\s*\(?$/iu,
)
/** A national number with the prefix of a mobile network: Germany, Austria, Switzerland, the Netherlands, Belgium, France, the United Kingdom, Ireland, Australia, Japan, Korea. */
const MOBILE = /^0(?:1[5-7]\d{8,9}|6\d{8,11}|7\d{8,9}|4\d{8}|8\d{8}|[789]0\d{8}|10\d{8})$/

/** Digits of a national number, as one would dial it. */
const DIALLED = /^(?:0\d{8,11}|[1-9]\d{8,10})$/
const LABELLED = /(?:[:#.=]|number|no\.?|nummer|is|at|on|:)\s*\(?$/i

/** Whether the words before a number announce a telephone number. */
export function speaksOfPhones(before: string): boolean {
  return OF_PHONES.test(before) || CALLS.test(before)
}

/** Whether it is a mobile number that a verb of messaging or the mere label "number" stands before. */
export function isMobile(written: string, digits: string, before: string): boolean {
  if (!MOBILE.test(digits) || isUniform(digits.slice(2)) || isDated(written)) return false
  return WRITES.test(before) || BARE_LABEL.test(before)
}

/** Whether a number counts as a telephone number because of the words before it. */
export function isCalled(written: string, digits: string, before: string): boolean {
  if (digits.length < 7 || digits.length > 15 || isUniform(digits) || isDated(written)) return false
  // Numbers without separators are common, so the word must be adjacent or the number long.
  return (
    written !== digits ||
    (OF_PHONES.test(before.slice(-18)) && (digits.length > 8 || LABELLED.test(before))) ||
    (CALLS.test(before) && DIALLED.test(digits))
  )
}

const DIGIT_WORDS = new Set(
  (
    'zero oh o one two three four five six seven eight nine double triple ' +
    'null eins zwei zwo drei vier fünf sechs sieben acht neun ' +
    'zéro un deux trois quatre cinq sept huit neuf ' +
    'cero uno dos tres cuatro cinco seis siete ocho nueve ' +
    'due tre quattro cinque sei sette otto nove um dois três quatro meia sete oito ' +
    'nul een twee vijf zes zeven negen'
  ).split(' '),
)
const WORD = expression(/[\p{L}\p{N}]+/gu)
const MAX_DIGIT_WORD = 7
/** Fewest spelled digits of a telephone number. */
export const SPELLED_DIGITS = 9

/** Whether a word names a digit in a supported language. */
export function isDigitWord(word: string): boolean {
  return word.length <= MAX_DIGIT_WORD && DIGIT_WORDS.has(word.toLowerCase())
}

/** Telephone numbers in words. The text consists of such words and their surroundings only. */
export function findSpelledPhones(text: string, before: string): Range[] {
  const found: Range[] = []
  let run: Range | undefined
  let count = 0
  for (const { 0: word, index } of matchesOf(text, WORD)) {
    if (isDigitWord(word)) {
      run = { start: run?.start ?? index, end: index + word.length }
      count++
    } else {
      if (run && count >= SPELLED_DIGITS) found.push(run)
      run = undefined
      count = 0
    }
  }
  if (run && count >= SPELLED_DIGITS) found.push(run)
  return found.filter(({ start }) => OF_PHONES.test((before + text.slice(0, start)).slice(-48)))
}
