/**
 * Validates national personal numbers. Sources: the formats that the issuing
 * authorities publish. Numbers of companies are excluded where they can be told apart.
 */

// Check digits of identity numbers. All functions take compact upper-case ASCII of the right shape.

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
function verhoeff(number: string): boolean {
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
function mod11of10(number: string): boolean {
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
function isDate(day: number, month: number, year?: number): boolean {
  if (month < 1 || month > 12 || day < 1 || day > 31) return false
  if (year === undefined) return day <= (month === 2 ? 29 : [4, 6, 9, 11].includes(month) ? 30 : 31)
  const date = new Date(Date.UTC(year, month - 1, day))
  return date.getUTCDate() === day
}

/** Two digits as a number. */
function pair(number: string, index: number): number {
  return digit(number, index) * 10 + digit(number, index + 1)
}

/**
 * Whether `YYMMDD` at `index` is a date. @param months offsets of the month, for countries that mark the century with
 * it
 */
function isYymmdd(number: string, index = 0, months: readonly number[] = [0]): boolean {
  const month = pair(number, index + 2)
  return months.some((off) => isDate(pair(number, index + 4), month - off))
}

/** Whether `DDMMYY` at `index` is a date. */
function isDdmmyy(number: string, index = 0): boolean {
  return isDate(pair(number, index), pair(number, index + 2))
}

/** Whether all characters are the same. */
export function isUniform(text: string): boolean {
  for (let i = 1; i < text.length; i++) if (text[i] !== text[0]) return false
  return true
}

/** Position in the alphabet, with A as 1. */
function letterNumber(letter: string): number {
  return LETTERS.indexOf(letter) + 1
}

/** Value in base 36: 0 to 9, then A as 10. */
function base36(character: string): number {
  return BASE_36.indexOf(character)
}

// Validates personal numbers of European states.

/** Validates a number in compact upper case: shape, dates and check digits. */
type Valid = (compact: string) => boolean

/** Validators by label. */
const EUROPEAN: Readonly<Record<string, Valid>> = {
  UK_NINO: isNino,
  UK_NHS: isNhs,
  IE_PPS: isPps,
  ES_DNI: (n) => /^\d{8}[A-Z]$/.test(n) && isDni(n),
  ES_NIE: (n) => /^[XYZ]\d{7}[A-Z]$/.test(n) && isDni(`${'XYZ'.indexOf(n[0]!)}${n.slice(1)}`),
  PT_NIF: isPortuguese,
  FR_NIR: isNir,
  IT_CF: isCodiceFiscale,
  DE_TAX_ID: isGermanTaxId,
  DE_SVNR: isGermanInsurance,
  DE_ID_CARD: isGermanDocument,
  AT_SVNR: isAustrian,
  CH_AHV: (n) => /^756\d{10}$/.test(n) && isEan(n),
  NL_BSN: isBsn,
  BE_NN: isBelgian,
  SE_PERSONNUMMER: isSwedish,
  NO_FODSELSNUMMER: isNorwegian,
  FI_HETU: isFinnish,
  DK_CPR: (n) => /^\d{10}$/.test(n) && isDdmmyy(n),
  EE_IK: isBaltic,
  LT_ASMENS: isBaltic,
  PL_PESEL: isPesel,
  CZ_RC: isBirthNumber,
  RO_CNP: isCnp,
  BG_EGN: isEgn,
  HR_OIB: (n) => /^\d{11}$/.test(n) && mod11of10(n),
  GR_AMKA: (n) => /^\d{11}$/.test(n) && isDdmmyy(n) && luhn(n),
}

const MONTHS_OF_CENTURIES = [0, 20, 40, 60, 80]

function isNino(n: string): boolean {
  return /^(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z]\d{6}[A-D]$/.test(n)
}

function isNhs(n: string): boolean {
  if (!/^\d{10}$/.test(n) || isUniform(n)) return false
  const check = 11 - (weigh(n, [10, 9, 8, 7, 6, 5, 4, 3, 2]) % 11)
  return check % 11 === digit(n, 9)
}

function isPps(n: string): boolean {
  if (!/^\d{7}[A-W][A-IW]?$/.test(n)) return false
  const second = n[8] === undefined || n[8] === 'W' ? 0 : letterNumber(n[8])
  return 'WABCDEFGHIJKLMNOPQRSTUV'[(weigh(n, [8, 7, 6, 5, 4, 3, 2]) + second * 9) % 23] === n[7]
}

function isDni(n: string): boolean {
  return 'TRWAGMYFPDXBNJZSQVHLCKE'[Number(n.slice(0, 8)) % 23] === n[8]
}

function isPortuguese(n: string): boolean {
  if (!/^(?:[1-3]\d|45)\d{7}$/.test(n)) return false
  const check = 11 - (weigh(n, [9, 8, 7, 6, 5, 4, 3, 2]) % 11)
  return (check > 9 ? 0 : check) === digit(n, 8)
}

function isNir(n: string): boolean {
  if (!/^[12378]\d\d(?:[02-9]\d|1[0-2])(?:\d\d|2[AB])\d{8}$/.test(n)) return false
  const body = n.slice(0, 13).replace('2A', '19').replace('2B', '18')
  return 97 - (Number(body) % 97) === Number(n.slice(13))
}

const CODICE = /^[A-Z]{6}[\dLMNP-V]{2}[A-EHLMPRST][\dLMNP-V]{2}[A-Z][\dLMNP-V]{3}[A-Z]$/
/** Values of the characters at odd positions, 0 to 9 and A to Z. Letters may replace digits. */
const CODICE_ODD = [
  1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23,
]

function isCodiceFiscale(n: string): boolean {
  if (!CODICE.test(n)) return false
  let sum = 0
  for (let i = 0; i < 15; i++) {
    const value = base36(n[i]!)
    const place = value > 9 ? value - 10 : value
    sum += i % 2 === 0 ? CODICE_ODD[place]! : place
  }
  return (sum % 26) + 1 === letterNumber(n[15]!)
}

function isGermanTaxId(n: string): boolean {
  if (!/^[1-9]\d{10}$/.test(n) || !mod11of10(n)) return false
  // One digit of the first ten occurs two or three times, all others at most once.
  const counts = new Map<string, number>()
  for (const one of n.slice(0, 10)) counts.set(one, (counts.get(one) ?? 0) + 1)
  const repeated = [...counts.values()].filter((count) => count > 1)
  return repeated.length === 1 && repeated[0]! <= 3
}

function isGermanInsurance(n: string): boolean {
  if (!/^\d{8}[A-Z]\d{3}$/.test(n) || !isDate(pair(n, 2) % 50, pair(n, 4))) return false
  const body = `${n.slice(0, 8)}${String(letterNumber(n[8]!)).padStart(2, '0')}${n.slice(9)}`
  const weights = [2, 1, 2, 5, 7, 1, 2, 1, 2, 1, 2, 1]
  const sum = weights.reduce((total, weight, index) => {
    const product = digit(body, index) * weight
    return total + Math.floor(product / 10) + (product % 10)
  }, 0)
  return sum % 10 === digit(n, 11)
}

function isGermanDocument(n: string): boolean {
  return (
    /^[CFGHJ-NPRTV-Z0-9]{9}\d$/.test(n) && mod731(n.slice(0, 9)) === digit(n, 9) && !isUniform(n)
  )
}

function isAustrian(n: string): boolean {
  if (!/^[1-9]\d{9}$/.test(n)) return false
  const [day, month] = [pair(n, 4), pair(n, 6)]
  // Months above twelve are used when all numbers of a birthday are taken.
  if (day < 1 || day > 31 || month < 1 || month > 15) return false
  return weigh(n, [3, 7, 9, 0, 5, 8, 4, 2, 1, 6]) % 11 === digit(n, 3)
}

function isEan(n: string): boolean {
  return weigh(n, [1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1]) % 10 === 0
}

function isBsn(n: string): boolean {
  return /^\d{9}$/.test(n) && !isUniform(n) && weigh(n, [9, 8, 7, 6, 5, 4, 3, 2, -1]) % 11 === 0
}

function isBelgian(n: string): boolean {
  if (!/^\d{11}$/.test(n) || pair(n, 4) > 31 || pair(n, 2) % 20 > 12) return false
  const check = Number(n.slice(9))
  const body = n.slice(0, 9)
  if (97 - (Number(body) % 97) === check) return true
  // Born in this century.
  return pair(n, 0) < 50 && 97 - (Number(`2${body}`) % 97) === check
}

function isSwedish(n: string): boolean {
  if (!/^(?:1[89]|20)?\d{10}$/.test(n)) return false
  const short = n.slice(-10)
  // Coordination numbers of people who are not registered add 60 to the day.
  return isDate(pair(short, 4) % 60, pair(short, 2)) && luhn(short)
}

function isNorwegian(n: string): boolean {
  if (!/^\d{11}$/.test(n) || !isDate(pair(n, 0) % 40, pair(n, 2) % 40)) return false
  return (
    weigh(n, [3, 7, 6, 1, 8, 9, 4, 5, 2, 1]) % 11 === 0 &&
    weigh(n, [5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1]) % 11 === 0
  )
}

function isFinnish(n: string): boolean {
  const [, born, number, check] = /^(\d{6})[A-FU-Y]?(\d{3})([\dA-FHJ-NPR-Y])$/.exec(n) ?? []
  if (born === undefined || !isDdmmyy(born)) return false
  return '0123456789ABCDEFHJKLMNPRSTUVWXY'[Number(born + number) % 31] === check
}

function isBaltic(n: string): boolean {
  if (!/^[1-8]\d{10}$/.test(n) || !isYymmdd(n, 1)) return false
  const first = weigh(n, [1, 2, 3, 4, 5, 6, 7, 8, 9, 1]) % 11
  const check = first < 10 ? first : weigh(n, [3, 4, 5, 6, 7, 8, 9, 1, 2, 3]) % 11
  return check % 10 === digit(n, 10)
}

function isPesel(n: string): boolean {
  return (
    /^\d{11}$/.test(n) &&
    isYymmdd(n, 0, MONTHS_OF_CENTURIES) &&
    weigh(n, [1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1]) % 10 === 0
  )
}

function isBirthNumber(n: string): boolean {
  if (!/^\d{9,10}$/.test(n) || !isYymmdd(n, 0, [0, 20, 50, 70])) return false
  if (n.length === 9) return pair(n, 0) < 54
  const rest = Number(n.slice(0, 9)) % 11
  // Until 1984 a remainder of ten was written as zero.
  return rest === digit(n, 9) || (rest === 10 && n[9] === '0' && pair(n, 0) > 53 && pair(n, 0) < 85)
}

function isCnp(n: string): boolean {
  if (!/^[1-9]\d{12}$/.test(n) || !isYymmdd(n, 1)) return false
  const check = weigh(n, [2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9]) % 11
  return (check === 10 ? 1 : check) === digit(n, 12)
}

function isEgn(n: string): boolean {
  if (!/^\d{10}$/.test(n) || !isYymmdd(n, 0, [0, 20, 40])) return false
  return (weigh(n, [2, 4, 8, 5, 10, 9, 7, 3, 6]) % 11) % 10 === digit(n, 9)
}

/** Validators by label. All take compact upper case and check shape, dates and check digits. */
export const EXISTS: Readonly<Record<string, Valid>> = {
  ...EUROPEAN,
  US_SSN: isSsn,
  US_ITIN: isItin,
  // The number without its check digit: letters that cannot be taken for others, and digits.
  DE_DOCUMENT: (n) => /^[CFGHJKLMNPRTVWXYZ](?=.*\d)[\dCFGHJKLMNPRTVWXYZ]{8}$/.test(n),
  DE_KVNR: isHealthInsured,
  DE_TAX_NUMBER: (n) => /^\d{10,11}$/.test(n) && !isUniform(n),
  CA_SIN: isSin,
  AU_TFN: isTfn,
  AU_MEDICARE: isMedicare,
  NZ_IRD: isIrd,
  IN_AADHAAR: isAadhaar,
  IN_PAN: (n) => /^[A-Z]{3}P[A-Z]\d{4}[A-Z]$/.test(n),
  TR_TCKN: isTurkish,
  IL_ID: (n) => /^\d{9}$/.test(n) && luhn(n) && !isUniform(n),
  RU_SNILS: isSnils,
  RU_INN: isInn,
  ZA_ID: (n) => /^\d{10}[012]\d\d$/.test(n) && isYymmdd(n) && luhn(n),
  KR_RRN: isKorean,
  JP_MY_NUMBER: isMyNumber,
  CN_RIC: isChinese,
  TW_ID: isTaiwanese,
  HK_ID: isHongKong,
  SG_NRIC: isSingaporean,
  TH_ID: isThai,
  MY_NRIC: isMalaysian,
  BR_CPF: isCpf,
  MX_CURP: isCurp,
  CL_RUT: isRut,
  AR_CUIL: isCuil,
}

/** Numbers printed on specimen cards, and common dummy numbers. */
const SHOWN_SSNS = new Set(['078051120', '219099999', '123456789', '987654321'])

function isSsn(n: string): boolean {
  return (
    /^(?!000|666|9)\d{3}(?!00)\d{2}(?!0000)\d{4}$/.test(n) && !SHOWN_SSNS.has(n) && !isUniform(n)
  )
}

function isItin(n: string): boolean {
  return /^9\d\d(?:5\d|6[0-5]|7\d|8[0-8]|9[0-24-9])\d{4}$/.test(n) && !SHOWN_SSNS.has(n)
}

function isSin(n: string): boolean {
  return /^[1-79]\d{8}$/.test(n) && luhn(n) && !isUniform(n)
}

function isTfn(n: string): boolean {
  if (!/^\d{8,9}$/.test(n) || isUniform(n)) return false
  const weights = n.length === 9 ? [1, 4, 3, 7, 5, 8, 6, 9, 10] : [10, 7, 8, 4, 6, 3, 5, 1]
  return weigh(n, weights) % 11 === 0
}

function isMedicare(n: string): boolean {
  return /^[2-6]\d{9,10}$/.test(n) && weigh(n, [1, 3, 7, 9, 1, 3, 7, 9]) % 10 === digit(n, 8)
}

function isIrd(n: string): boolean {
  const value = Number(n)
  if (!/^\d{8,9}$/.test(n) || value < 10_000_000 || value > 150_000_000) return false
  const padded = n.padStart(9, '0')
  for (const weights of [
    [3, 2, 7, 6, 5, 4, 3, 2],
    [7, 4, 3, 2, 5, 2, 7, 6],
  ]) {
    const check = (11 - (weigh(padded, weights) % 11)) % 11
    if (check < 10) return check === digit(padded, 8)
  }
  return false
}

function isAadhaar(n: string): boolean {
  return /^[2-9]\d{11}$/.test(n) && verhoeff(n)
}

function isTurkish(n: string): boolean {
  if (!/^[1-9]\d{10}$/.test(n)) return false
  const tenth = weigh(n, [7, -1, 7, -1, 7, -1, 7, -1, 7])
  return (
    ((tenth % 10) + 10) % 10 === digit(n, 9) &&
    weigh(n, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]) % 10 === digit(n, 10)
  )
}

/** Weights from nine down to one, modulo 101. */
function isSnils(n: string): boolean {
  if (!/^\d{11}$/.test(n) || isUniform(n)) return false
  return (weigh(n, [9, 8, 7, 6, 5, 4, 3, 2, 1]) % 101) % 100 === Number(n.slice(9))
}

/** The taxpayer's number of a person: two check digits. Those of companies have ten digits. */
function isInn(n: string): boolean {
  if (!/^\d{12}$/.test(n) || isUniform(n)) return false
  const weights = [7, 2, 4, 10, 3, 5, 9, 4, 6, 8]
  const [first, second] = [weights, [3, ...weights]].map((one) => (weigh(n, one) % 11) % 10)
  return first === digit(n, 10) && second === digit(n, 11)
}

function isKorean(n: string): boolean {
  if (!/^\d{6}[0-9]\d{6}$/.test(n) || !isYymmdd(n)) return false
  // Numbers since October 2020 are random after the digit for century and sex.
  const isRandom = pair(n, 0) >= 20 && pair(n, 0) < 50 && /[3478]/.test(n[6]!)
  const check = (11 - (weigh(n, [2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5]) % 11)) % 10
  return isRandom || check === digit(n, 12)
}

function isMyNumber(n: string): boolean {
  if (!/^\d{12}$/.test(n) || isUniform(n)) return false
  const rest = weigh(n, [6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2]) % 11
  return (rest <= 1 ? 0 : 11 - rest) === digit(n, 11)
}

function isChinese(n: string): boolean {
  if (!/^[1-9]\d{5}(?:18|19|20)\d{9}[\dX]$/.test(n)) return false
  if (!isDate(pair(n, 12), pair(n, 10), Number(n.slice(6, 10)))) return false
  const sum = weigh(n, [7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2])
  return '10X98765432'[sum % 11] === n[17]
}

/** Values of the first letters, A to Z. */
const TAIWANESE = [
  10, 11, 12, 13, 14, 15, 16, 17, 34, 18, 19, 20, 21, 22, 35, 23, 24, 25, 26, 27, 28, 29, 32, 30,
  31, 33,
]

function isTaiwanese(n: string): boolean {
  if (!/^[A-Z][1289]\d{8}$/.test(n)) return false
  const first = TAIWANESE[letterNumber(n[0]!) - 1]!
  const head = Math.floor(first / 10) + (first % 10) * 9
  return (head + weigh(n, [8, 7, 6, 5, 4, 3, 2, 1, 1], 1)) % 10 === 0
}

function isHongKong(n: string): boolean {
  if (!/^[A-Z]{1,2}\d{6}[\dA]$/.test(n)) return false
  const padded = n.padStart(9, ' ')
  let sum = 0
  for (let i = 0; i < 9; i++) sum += (padded[i] === ' ' ? 36 : base36(padded[i]!)) * (9 - i)
  return sum % 11 === 0
}

function isSingaporean(n: string): boolean {
  if (!/^[STFGM]\d{7}[A-Z]$/.test(n)) return false
  const offset = n[0] === 'T' || n[0] === 'G' ? 4 : n[0] === 'M' ? 3 : 0
  const rest = (weigh(n, [2, 7, 6, 5, 4, 3, 2], 1) + offset) % 11
  if (n[0] === 'M') return 'KLJNPQRTUWX'[rest] === n[8]
  return (n[0] === 'S' || n[0] === 'T' ? 'JZIHGFEDCBA' : 'XWUTRQPNMLK')[rest] === n[8]
}

function isThai(n: string): boolean {
  if (!/^[1-8]\d{12}$/.test(n)) return false
  const rest = weigh(n, [13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2]) % 11
  return (11 - rest) % 10 === digit(n, 12)
}

/** A letter, whose two digits count as such, and nine digits of which the last is the check digit. */
function isHealthInsured(n: string): boolean {
  if (!/^[A-Z]\d{9}$/.test(n)) return false
  const digits = String(n.charCodeAt(0) - 64).padStart(2, '0') + n.slice(1, 9)
  let sum = 0
  for (let i = 0; i < digits.length; i++) {
    const product = Number(digits[i]) * (1 + (i % 2))
    sum += product > 9 ? product - 9 : product
  }
  return sum % 10 === Number(n[9])
}

function isMalaysian(n: string): boolean {
  // Codes of birthplaces that were never issued.
  return (
    /^\d{12}$/.test(n) &&
    isYymmdd(n) &&
    !/^(?:00|17|18|19|20|69|70|73|80|81|94|95|96|97)$/.test(n.slice(6, 8))
  )
}

function isCpf(n: string): boolean {
  if (!/^\d{11}$/.test(n) || isUniform(n)) return false
  const check = (count: number) => {
    let sum = 0
    for (let i = 0; i < count; i++) sum += digit(n, i) * (count + 1 - i)
    return ((sum * 10) % 11) % 10
  }
  return check(9) === digit(n, 9) && check(10) === digit(n, 10)
}

const CURP_ALPHABET = '0123456789ABCDEFGHIJKLMNÑOPQRSTUVWXYZ'

function isCurp(n: string): boolean {
  if (!/^[A-Z][AEIOUX][A-Z]{2}\d{6}[HMX][A-Z]{5}[A-Z\d]\d$/.test(n) || !isYymmdd(n, 4)) return false
  let sum = 0
  for (let i = 0; i < 17; i++) sum += CURP_ALPHABET.indexOf(n[i]!) * (18 - i)
  return (10 - (sum % 10)) % 10 === digit(n, 17)
}

function isRut(n: string): boolean {
  if (!/^[1-9]\d{6,7}[\dK]$/.test(n)) return false
  let sum = 0
  for (let i = n.length - 2, weight = 2; i >= 0; i--, weight = weight === 7 ? 2 : weight + 1) {
    sum += digit(n, i) * weight
  }
  return '0K987654321'[sum % 11] === n.at(-1)
}

function isCuil(n: string): boolean {
  // Other first digits are companies.
  if (!/^2[03478]\d{9}$/.test(n)) return false
  const check = (11 - (weigh(n, [5, 4, 3, 2, 7, 6, 5, 4, 3, 2]) % 11)) % 11
  return Math.min(check, 9) === digit(n, 10)
}
