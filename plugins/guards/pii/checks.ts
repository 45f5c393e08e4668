/** Check digits of identity numbers. All functions take compact upper-case ASCII of the right shape. */

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'
const BASE_36 = `0123456789${LETTERS}`

/** Sum of digits times weights, from the left. There may be fewer weights than digits. */
export function weigh(number: string, weights: readonly number[], from = 0): number {
  let sum = 0
  for (let i = 0; i < weights.length; i++) sum += digit(number, from + i) * weights[i]!
  return sum
}

/** One digit as a number. */
export function digit(number: string, index: number): number {
  return number.charCodeAt(index) - 48
}

/** The Luhn check of ISO/IEC 7812, annex B. */
export function luhn(number: string): boolean {
  let sum = 0
  for (let i = number.length - 1, double = false; i >= 0; i--, double = !double) {
    const value = digit(number, i) * (double ? 2 : 1)
    sum += value > 9 ? value - 9 : value
  }
  return sum % 10 === 0
}

const PERMUTED = permutations([1, 5, 7, 6, 2, 8, 3, 0, 9, 4])

/** The Verhoeff check, over the dihedral group D5. */
export function verhoeff(number: string): boolean {
  let state = 0
  for (let i = 0; i < number.length; i++) {
    state = dihedral(state, PERMUTED[i % 8]![digit(number, number.length - 1 - i)]!)
  }
  return state === 0
}

function dihedral(a: number, b: number): number {
  if (a < 5) return b < 5 ? (a + b) % 5 : 5 + ((a + b - 5) % 5)
  return b < 5 ? 5 + ((a - b) % 5) : (a - b + 5) % 5
}

function permutations(first: readonly number[]): number[][] {
  const all = [first.map((_, index) => index)]
  while (all.length < 8) all.push(all.at(-1)!.map((value) => first[value]!))
  return all
}

/** The check of ISO 7064 MOD 11,10. */
export function mod11of10(number: string): boolean {
  let product = 10
  for (let i = 0; i < number.length - 1; i++) {
    const sum = (digit(number, i) + product) % 10 || 10
    product = (sum * 2) % 11
  }
  return (digit(number, number.length - 1) + product) % 10 === 1
}

/** Remainder by 97, with A as 10 (ISO 7064 MOD 97-10). */
export function mod97(text: string): number {
  let rest = 0
  for (const character of text) {
    const value = BASE_36.indexOf(character)
    rest = (rest * (value > 9 ? 100 : 10) + value) % 97
  }
  return rest
}

/** Weights 7, 3, 1 over digits, letters and fillers, as in travel documents (ICAO 9303). */
export function mod731(text: string): number {
  let sum = 0
  for (let i = 0; i < text.length; i++) {
    sum += Math.max(0, BASE_36.indexOf(text[i]!)) * [7, 3, 1][i % 3]!
  }
  return sum % 10
}

/** Whether a day and a month exist; with a year, whether the date does. */
export function isDate(day: number, month: number, year?: number): boolean {
  if (month < 1 || month > 12 || day < 1 || day > 31) return false
  if (year === undefined) return day <= (month === 2 ? 29 : [4, 6, 9, 11].includes(month) ? 30 : 31)
  const date = new Date(Date.UTC(year, month - 1, day))
  return date.getUTCDate() === day
}

/** Two digits as a number. */
export function pair(number: string, index: number): number {
  return digit(number, index) * 10 + digit(number, index + 1)
}

/**
 * Whether `YYMMDD` at `index` is a date. @param months offsets of the month, for countries that mark the century with
 * it
 */
export function isYymmdd(number: string, index = 0, months: readonly number[] = [0]): boolean {
  const month = pair(number, index + 2)
  return months.some((off) => isDate(pair(number, index + 4), month - off))
}

/** Whether `DDMMYY` at `index` is a date. */
export function isDdmmyy(number: string, index = 0): boolean {
  return isDate(pair(number, index), pair(number, index + 2))
}

/** Whether all characters are the same. */
export function isUniform(text: string): boolean {
  for (let i = 1; i < text.length; i++) if (text[i] !== text[0]) return false
  return true
}

/** Position in the alphabet, with A as 1. */
export function letterNumber(letter: string): number {
  return LETTERS.indexOf(letter) + 1
}

/** Value in base 36: 0 to 9, then A as 10. */
export function base36(character: string): number {
  return BASE_36.indexOf(character)
}
