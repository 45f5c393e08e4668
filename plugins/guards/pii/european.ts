/** Validates personal numbers of European states. */
import {
  base36,
  digit,
  isDate,
  isDdmmyy,
  isUniform,
  isYymmdd,
  letterNumber,
  luhn,
  mod11of10,
  mod731,
  pair,
  weigh,
} from './checks.ts'

/** Validates a number in compact upper case: shape, dates and check digits. */
export type Valid = (compact: string) => boolean

/** Validators by label. */
export const EUROPEAN: Readonly<Record<string, Valid>> = {
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
