import * as fc from 'fast-check'
import examples from 'libphonenumber-js/examples.mobile.json'
import { getCountries, getExampleNumber } from 'libphonenumber-js/max'
import { stdnum } from 'stdnum'
import { describe, expect, it } from 'vitest'
import { isInternational } from '../../../plugins/guards/pii/contact.ts'
import { EXISTS } from '../../../plugins/guards/pii/national.ts'
import { isIban } from '../../../plugins/guards/pii/numbers.ts'

/**
 * The check of the same number in another library, and how to make one without its check characters, by label. In
 * shapes, `#` is a digit, `@` a letter, `D` a date of birth with year, month and day of two digits each, `d` the same
 * from day to year; `[…]` is one of these characters.
 */
const OTHERS: Readonly<
  Record<string, readonly [validate: (n: string) => boolean, shape: string, checks: number]>
> = {
  CA_SIN: [by(stdnum.CA!.sin), '[1245679]#######', 1],
  IE_PPS: [by(stdnum.IE!.pps), '#######', 1],
  AU_TFN: [by(stdnum.AU!.tfn), '########', 1],
  NZ_IRD: [by(stdnum.NZ!.ird), '[2345678]######', 1],
  IN_AADHAAR: [by(stdnum.IN!.aadhaar), '[23456789]##########', 1],
  ES_DNI: [by(stdnum.ES!.dni), '########', 1],
  ES_NIE: [by(stdnum.ES!.nie), '[XYZ]#######', 1],
  PT_NIF: [by(stdnum.PT!.nif), '[123]#######', 1],
  FR_NIR: [by(stdnum.FR!.nir), '[12]##0[123456789]75[123]##[123]##', 2],
  IT_CF: [by(stdnum.IT!.codicefiscale), 'BNCLRA[6789]#[ABCDEHLMPRST][0123]5F205', 1],
  DE_TAX_ID: [by(stdnum.DE!.idnr), '[123][0][45][6]789[12][0]#', 1],
  DE_SVNR: [by(stdnum.DE!.svnr), '65d@##', 1],
  AT_SVNR: [by(stdnum.AT!.vnr), '[123456789]###d', 0],
  CH_AHV: [by(stdnum.CH!.ssn), '756#########', 1],
  NL_BSN: [by(stdnum.NL!.bsn), '[123456789]#######', 1],
  BE_NN: [by(stdnum.BE!.nn), 'D[12]##', 2],
  SE_PERSONNUMMER: [hyphenated(stdnum.SE!.personnummer), 'D[123]##', 1],
  NO_FODSELSNUMMER: [by(stdnum.NO!.fodselsnummer), 'd[01]##', 2],
  EE_IK: [by(stdnum.EE!.ik), '[34]D###', 1],
  LT_ASMENS: [by(stdnum.LT!.asmens), '[34]D###', 1],
  PL_PESEL: [by(stdnum.PL!.pesel), 'D####', 1],
  CZ_RC: [by(stdnum.CZ!.rc), 'D###', 1],
  RU_INN: [by(stdnum.RU!.inn), '50########', 2],
  RO_CNP: [by(stdnum.RO!.cnp), '[12]D40###', 1],
  BG_EGN: [by(stdnum.BG!.egn), 'D###', 1],
  HR_OIB: [by(stdnum.HR!.oib), '##########', 1],
  GR_AMKA: [by(stdnum.GR!.amka), 'd####', 1],
  TR_TCKN: [by(stdnum.TR!.tckimlik), '[123456789]########', 2],
  IL_ID: [by(stdnum.IL!.idnr), '########', 1],
  ZA_ID: [by(stdnum.ZA!.idnr), 'D####08', 1],
  KR_RRN: [by(stdnum.KR!.rrn), 'D[12]00###', 1],
  CN_RIC: [by(stdnum.CN!.ric), '11010119D###', 1],
  HK_ID: [by(stdnum.HK!.hkid), '[ABCDEFGHKMPRSVYZ][123456]#####', 1],
  TH_ID: [by(stdnum.TH!.idnr), '[12345678]###########', 1],
  TW_ID: [by(stdnum.TW!.natid), '@[12]#######', 1],
  BR_CPF: [by(stdnum.BR!.cpf), '#########', 2],
  MX_CURP: [by(stdnum.MX!.curp), 'BO@WDHNE@RN0', 1],
  CL_RUT: [by(stdnum.CL!.rut), '[12]#######', 1],
  AR_CUIL: [by(stdnum.AR!.cuit), '20########', 1],
}

/** The other library does not check repeated digits, and accepts check digits that no remainder gives. */
const LENIENT = new Set(['DE_TAX_ID', 'BE_NN'])

describe('national numbers', () => {
  it.each(Object.keys(OTHERS))('%s exist where another implementation says so', (label) => {
    const [validate, shape, checks] = OTHERS[label]!
    const exists = EXISTS[label]!
    let both = 0
    fc.assert(
      fc.property(numbers(shape), (body) => {
        const all = checkCharacters(checks).map((check) => body + check)
        const here = all.filter(exists)
        const compared = LENIENT.has(label) ? here : all
        expect(here).toEqual(compared.filter(validate))
        both += here.length
      }),
      // The runs are so many that chance alone never leaves fewer than six valid numbers.
      { numRuns: [2000, 240, 60][checks]! },
    )
    expect(both).toBeGreaterThan(5)
  })
})

describe('telephone numbers', () => {
  const countries = getCountries()

  it.each(countries)('of %s are known in their international form', (country) => {
    const example = getExampleNumber(country, examples)
    // Service numbers and the shortest plans are not recognised.
    if (!example || example.number.length < 9) return
    expect(isInternational(example.number.slice(1))).toBe(true)
  })
})

describe('isIban', () => {
  it.each([
    'AT611904300234573201',
    'GB82WEST12345698765432',
    'DE89370400440532013000',
    'FR1420041010050500013M02606',
    'MT84MALT011000012345MTLCAST001S',
    'NO9386011117947',
  ])('accepts %s, and no other digit in it', (iban) => {
    expect(isIban(iban)).toBe(true)
    for (let i = 4; i < iban.length; i++) {
      if (!/\d/.test(iban[i]!)) continue
      const other = String((Number(iban[i]) + 1) % 10)
      expect(isIban(iban.slice(0, i) + other + iban.slice(i + 1))).toBe(false)
    }
  })
})

/** All check characters of this length. */
function checkCharacters(count: number): string[] {
  if (count === 0) return ['']
  if (count === 1) return [...'0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ']
  return Array.from({ length: 100 }, (_, value) => String(value).padStart(2, '0'))
}

function numbers(shape: string): fc.Arbitrary<string> {
  const parts = [...shape.matchAll(/\[([^\]]+)\]|./g)].map(([part, choice]) => {
    if (choice) return fc.constantFrom(...choice)
    if (part === '#') return fc.constantFrom(...'0123456789')
    if (part === '@') return fc.constantFrom(...'ABCDEFGHIJKLMNOPQRSTUVWXYZ')
    if (part !== 'D' && part !== 'd') return fc.constant(part)
    const two = (min: number, max: number) =>
      fc.integer({ min, max }).map((value) => String(value).padStart(2, '0'))
    return fc
      .tuple(two(55, 99), two(1, 12), two(1, 28))
      .map((date) => (part === 'D' ? date : date.toReversed()).join(''))
  })
  return fc.tuple(...parts).map((found) => found.join(''))
}

function hyphenated(validator: Parameters<typeof by>[0]) {
  return (number: string) => by(validator)(`${number.slice(0, 6)}-${number.slice(6)}`)
}

function by(validator: { validate(value: string): { isValid: boolean } } | undefined) {
  return (number: string) => {
    // It makes an error for each number that does not exist: their stacks would take most of the time.
    const { stackTraceLimit } = Error
    Error.stackTraceLimit = 0
    try {
      return validator!.validate(number).isValid
    } finally {
      Error.stackTraceLimit = stackTraceLimit
    }
  }
}
