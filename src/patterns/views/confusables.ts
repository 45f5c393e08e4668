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

/** Code points of letters, `a` to `z`, by the code point of their look-alike. Version 1. */
export const CONFUSABLES: ReadonlyMap<number, number> = new Map([
  ...Object.entries(LOOK_ALIKES).flatMap(([letter, others]) =>
    Array.from(others, (other) => [other.codePointAt(0)!, letter.charCodeAt(0)] as const),
  ),
  ...FRAMED.flatMap((first) =>
    Array.from({ length: 26 }, (_, index) => [first + index, 0x61 + index] as const),
  ),
])
