/** Folds code points, one at a time: compatibility forms, accents, case and look-alikes undone. */

export const NEWLINE = 0x0a
export const SPACE = 0x20
/** Stands between texts that do not belong together; no pattern matches across it. */
export const SEPARATOR_SYMBOL = -1

// Each over one code point.
const IGNORABLE = /^[\p{Default_Ignorable_Code_Point}\p{Cc}\ufff9-\ufffb]$/u
const KEPT_CONTROLS = new Set([0x09, 0x0a, 0x0d])
/** Marks over, through and around letters, with those of Cyrillic, which are stacked upon Latin letters too. */
const DIACRITIC =
  /^(?:[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]|[\u0483-\u0489]|[\ua66f-\ua67d])$/u
const BLANK = /^[\s\u2800]$/u
const DASH = /^[\p{Pd}\u02d7\u2043\u2212\u2796]$/u
const SINGLE_QUOTE = /^[\u2018-\u201b\u2032\u2035\u02b9\u02bb-\u02bd\u00b4\u275b\u275c]$/u
const DOUBLE_QUOTE = /^[\u201c-\u201f\u2033\u2036\u00ab\u00bb\u301d-\u301f\u275d\u275e]$/u
const LETTER = /^\p{L}$/u

/** Tag characters from U+E0020 to U+E007E repeat ASCII. */
const TAGS = 0xe0000

const ASCII = Array.from({ length: 128 }, (_, code) => foldAscii(code))

/** Whether a code point is invisible: zero-width, bidirectional control, filler, variation selector, tag, control. */
export function isIgnorable(codePoint: number): boolean {
  if (codePoint >= 0x20 && codePoint < 0x7f) return false
  return !KEPT_CONTROLS.has(codePoint) && IGNORABLE.test(String.fromCodePoint(codePoint))
}

/**
 * The symbols that a code point is folded to; none if it is invisible or an accent. All white space but the line feed is
 * {@link SPACE}. Folding a folded symbol gives the same symbol.
 */
export function fold(codePoint: number): readonly number[] {
  if (codePoint < 128) return ASCII[codePoint]!
  if (codePoint >= TAGS + 0x20 && codePoint < TAGS + 0x7f) return ASCII[codePoint - TAGS]!
  const look = CONFUSABLES.get(codePoint)
  if (look !== undefined) return [look]
  const character = String.fromCodePoint(codePoint)
  if (IGNORABLE.test(character) || DIACRITIC.test(character)) return []
  if (BLANK.test(character)) return [SPACE]
  if (DASH.test(character)) return [0x2d]
  if (SINGLE_QUOTE.test(character)) return [0x27]
  if (DOUBLE_QUOTE.test(character)) return [0x22]
  const plain = character.normalize('NFKD')
  if (plain !== character) return foldAll(plain)
  const lower = character.toUpperCase().toLowerCase()
  return lower === character ? [codePoint] : foldAll(lower)
}

/**
 * {@link fold} without what parts letters and is not seen: marks of Markdown, page breaks, and tag characters, which
 * {@link fold} reads as ASCII.
 */
export function foldUnmarked(codePoint: number): readonly number[] {
  const isTag = codePoint >= TAGS && codePoint < TAGS + 0x80
  if (isTag || codePoint === 0x0b || codePoint === 0x0c) return []
  const symbols = fold(codePoint)
  return symbols.some(isMark) ? symbols.filter((symbol) => !isMark(symbol)) : symbols
}

/** Whether a symbol is a mark of Markdown that may stand inside a word: `*`, `_`, `~` or a backtick. */
export function isMark(symbol: number): boolean {
  return symbol === 0x2a || symbol === 0x5f || symbol === 0x7e || symbol === 0x60
}

/** {@link fold} of each code point, joined. */
export function foldAll(text: string): number[] {
  return Array.from(text).flatMap((character) => fold(character.codePointAt(0)!))
}

/** Whether a code point folds to letters and nothing else. */
export function readsAsLetter(codePoint: number): boolean {
  const symbols = fold(codePoint)
  return symbols.length > 0 && symbols.every((symbol) => LETTER.test(String.fromCodePoint(symbol)))
}

/** A tab, or the end of a page or of a part of it. */
function isBlank(code: number): boolean {
  return code === 0x09 || code === 0x0b || code === 0x0c
}

function foldAscii(code: number): readonly number[] {
  if (code === NEWLINE) return [NEWLINE]
  if (code === 0x0d || isBlank(code)) return [SPACE]
  if (code < 0x20 || code === 0x7f) return []
  return [code >= 0x41 && code <= 0x5a ? code + 0x20 : code]
}

/**
 * Letters that are drawn like a basic Latin letter, or are one in a frame. Chosen from the Unicode confusables and
 * from what people use to write around a filter: letters of other scripts, Latin extensions that NFKD leaves alone,
 * small capitals, and framed letters.
 *
 * Letters of living scripts are listed in the case that looks Latin only: `В` stands for `b`, but `в` for nothing, or
 * else ordinary Russian words would read as English ones.
 */
const LOOK_ALIKES: Readonly<Record<string, string>> = {
  a: 'аАΑαɑᴀⱥ⍺Ꭺꭺꓮᗅ𐊠',
  b: 'ВΒʙƀɓƃƅᏴᏏꓐᗷ𐊂𐌁',
  c: 'сСϲϹᴄƈȼҫↄᏟꮯꓚⲥ𐊢𐌂𐐕𐐽',
  d: 'ԁԀᴅđɖɗƌᎠꭰᏧꓓᗞ',
  e: 'еЕΕᴇɇҽℯ℮ᎬꭼꓰⴹⲈ𐊆',
  f: 'ꜰƒꞙẝꓝᖴ𐊇𐊥𐔥',
  g: 'ɡɢǥɠցԍᏀꮐᏳꓖ',
  h: 'ΗНһҺʜħɦհⱨᎻꮋᏂꓧᕼⲎ𐋏',
  i: 'іІΙιɩɪᵻɨӏӀᎥꭵꓲⵏⲒ𐌉𐊊',
  j: 'јЈϳᴊɉʝᎫꭻꓙᒍ',
  k: 'кКΚκᴋƙқҝҟҡӄⱪᏦꮶꓗⲔ𐌊',
  l: 'ʟłƚɫɬɭⱡᏞꮮꓡᒪⳐ𐐛𐑃𐔦',
  m: 'МΜᴍɱᎷꮇꓟᗰⲘ𐊰𐌑',
  n: 'ΝɴɲƞɳŋոռꓠⲚ𐔓',
  o: 'оОΟοσᴏøɵօⲟꓳⵔ𐊒𐊫𐐄𐐬',
  p: 'рРΡρᴘƥᵽᏢꮲꓑᑭⲣ𐊕',
  q: 'ԛԚʠɋզգℚꝗⵕ',
  r: 'ʀɍɼɽᴦᎡꭱᏒꮢꓣᖇ',
  s: 'ѕЅꜱʂȿƽՏᏚꮪꓢ𐊖𐐠𐑈',
  t: 'ТΤᴛŧƭʈⱦᎢꭲꓔⲦ𐊗𐌕𐊱',
  u: 'υʊᴜʉսꓴᑌꭎꭒ𐓎𐓶',
  v: 'νѵѴᴠʋᏙꮩꓦᐯ𐔝',
  w: 'ԝԜᴡѡɯաⱳᎳꮃꓪ',
  x: 'хХΧχҳᕁꓫⲬⵝ𐊐𐊴𐌗',
  y: 'уУΥγүҮʏƴɏᎩᎽꓬⲨ𐊲',
  z: 'ΖᴢƶʐȥɀⱬᏃꮓꓜ',
}

/** Letters in frames, in the order of the alphabet: in parentheses, on black discs and squares, of flags. */
const FRAMED = [0x249c, 0x1f110, 0x1f130, 0x1f150, 0x1f170, 0x1f1e6]

/** Code point of a look-alike to the code point of the letter, `a` to `z`. Version 1. */
export const CONFUSABLES: ReadonlyMap<number, number> = new Map([
  ...Object.entries(LOOK_ALIKES).flatMap(([letter, others]) =>
    Array.from(others, (other) => [other.codePointAt(0)!, letter.charCodeAt(0)] as const),
  ),
  ...FRAMED.flatMap((first) =>
    Array.from({ length: 26 }, (_, index) => [first + index, 0x61 + index] as const),
  ),
])
