/** Names that stand for values in what a vendor is sent: `[EMAIL_4172]`. */

export interface Placeholder {
  readonly kind: string
  /** The value as it was found first. */
  readonly value: string
  /** The name as it is sent. */
  readonly text: string
}

const KIND = /^[A-Z][A-Z0-9_]{0,15}$/

/** The kind of a label; one that has another form than a name is `DATA`. */
export function kindOf(label: string | undefined): string {
  const kind = (label ?? '').toUpperCase().replaceAll(/[ -]/g, '_')
  return KIND.test(kind) ? kind : 'DATA'
}

/** Digits of a long number from which on its separators do not matter. */
const LONG_NUMBER = 9

/**
 * What all spellings of a value have in common: lower case, and a long number without its separators. Those of addresses
 * of the network, of dates and of e-mail matter.
 */
export function foldedValue(value: string): string {
  const lower = value.trim().toLowerCase()
  const digits = lower.replaceAll(/\D/g, '').length
  const isNumber = digits >= LONG_NUMBER && !/[@:/,]|\p{L}{5}/u.test(lower)
  if (!isNumber || /^\d{1,3}(?:\.\d{1,3}){3}$/.test(lower)) return lower
  return lower.replaceAll(/[^\p{L}\p{N}+]/gu, '')
}

/** Numbers have six digits from this many values on. */
const MANY = 2000

interface Counted {
  readonly folded: string
  readonly kind: string
  readonly value: string
}

/**
 * Names values. A value has the same number in all calls of an account, unless another one of the call has it.
 * @param numberOf a number for a folded value, from 0 to 2^32 - 1
 * @param texts the texts of the request: a name that one of them has already is no value's
 */
export function placeholdersOf(
  values: readonly Counted[],
  numberOf: (folded: string) => number,
  texts: readonly string[],
): { readonly byFolded: ReadonlyMap<string, Placeholder>; readonly width: number } {
  const kinds = [...new Set(values.map(({ kind }) => kind))]
  const fits = (width: number) => {
    const usedNumbers = numbersIn(texts, kinds, width)
    return usedNumbers.size + values.length < 10 ** width / 2 ? usedNumbers : undefined
  }
  let width = values.length > MANY ? 6 : 4
  let usedNumbers = fits(width)
  while (!usedNumbers) usedNumbers = fits((width += 2))
  const byFolded = new Map<string, Placeholder>()
  const modulus = 10 ** width
  for (const { folded, kind, value } of values) {
    let number = numberOf(folded) % modulus
    while (usedNumbers.has(number)) number = (number + 1) % modulus
    usedNumbers.add(number)
    const text = `[${kind}_${String(number).padStart(width, '0')}]`
    byFolded.set(folded, { kind, value, text })
  }
  return { byFolded, width }
}

function numbersIn(texts: readonly string[], kinds: readonly string[], width: number): Set<number> {
  const numbers = new Set<number>()
  if (kinds.length === 0) return numbers
  const names = kinds.map((kind) => kind.replaceAll('_', String.raw`(?:\\?_|[ -])`))
  const form = new RegExp(
    String.raw`(?:${names.join('|')})(?:\\{0,2}_|[ -])(\d{${width}})(?!\d)`,
    'gi',
  )
  for (const text of texts)
    for (const [, number] of text.matchAll(form)) numbers.add(Number(number))
  return numbers
}
