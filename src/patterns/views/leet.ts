/** Digits and signs that are written in place of letters. */

const STANDS_FOR: Readonly<Record<string, string>> = {
  o: '0',
  i: '1!|l',
  e: '3',
  a: '4@',
  s: '5$',
  t: '7+',
  b: '8',
}

const GROUPS = Object.entries(STANDS_FOR).map(([letter, others]) =>
  Array.from(letter + others, (sign) => sign.charCodeAt(0)),
)
const BY_SYMBOL = new Map(GROUPS.flatMap((group) => group.map((symbol) => [symbol, group])))

/** All symbols that may stand for the same letter as this one, itself included. */
export function leetGroup(symbol: number): readonly number[] {
  return BY_SYMBOL.get(symbol) ?? [symbol]
}
