/** Forms of personal numbers, and the words that name them. */
import { digit, isUniform, luhn, mod97, weigh, EXISTS } from './national.ts'
import { expression } from '../text/slices.ts'
import type { EntityClass } from './classes.ts'

/** One way to write one kind of number, as lengths of groups. */
export interface Form {
  readonly label: string
  readonly of: EntityClass
  /** Whether a word must name the number; false when the form is unambiguous. */
  readonly named: boolean
  readonly names: RegExp
  readonly exists: (compact: string) => boolean
  /** All separators between groups must match. */
  readonly separators: RegExp
}

const ANY_SEPARATOR = /^(?:[ ._*-]|\. | ?[-/] ?)$/
const ID_WORDS = 'national id|identity number|identity card|id number|id card|personal id'

/**
 * Label; forms that are unambiguous; forms that need a name; names. A form lists the lengths of its groups: `3,2,4` is
 * three letters or digits, a separator, two, and so on.
 */
const IDENTITIES: readonly (readonly [string, string, string, string, RegExp?])[] = [
  [
    'DE_TAX_NUMBER',
    '',
    '2,3,5 3,3,5 3,4,4',
    'steuernummer|steuer-nr|steuernr|st-nr|st.-nr|steuer-nummer|tax number',
    /^[/]$/,
  ],
  [
    'DE_DOCUMENT',
    '',
    '9',
    'personalausweis|personalausweisnummer|personalausweis-nr|ausweis|ausweisnummer|ausweis-nr|ausweisnr|perso',
  ],
  [
    'DE_KVNR',
    '',
    '10',
    'krankenversichertennummer|versichertennummer|krankenversicherungsnummer|versicherten-nr|versicherungsnummer|kvnr|krankenkasse|gesundheitskarte',
  ],
  ['US_SSN', '3,2,4', '9', 'ssn|ssns|social security|soc sec'],
  ['US_ITIN', '3,2,4', '9', 'itin|individual taxpayer|taxpayer id'],
  ['CA_SIN', '', '3,3,3 9', 'sin|social insurance|nas|assurance sociale'],
  ['UK_NINO', '9 2,2,2,2,1 2,6,1 8,1', '', 'nino|national insurance|ni number'],
  ['UK_NHS', '', '3,3,4 10', 'nhs'],
  ['IE_PPS', '8 9', '7,1 7,2', 'pps|ppsn'],
  ['AU_TFN', '', '3,3,3 9 8 2,3,3', 'tfn|tax file'],
  ['AU_MEDICARE', '', '4,5,1 10 11 4,5,1,1', 'medicare'],
  ['NZ_IRD', '', '2,3,3 3,3,3 8 9', 'ird|inland revenue'],
  ['IN_AADHAAR', '4,4,4', '12', 'aadhaar|aadhar|uidai|uid|आधार'],
  ['IN_PAN', '10', '', 'pan'],
  ['ES_DNI', '9 8,1 2,3,3,1', '', 'dni|nif'],
  ['ES_NIE', '9 1,7,1 1,8', '', 'nie|nif'],
  ['PT_NIF', '', '3,3,3 9', 'nif|contribuinte|número fiscal|fiscal number'],
  ['FR_NIR', '15 1,2,2,2,3,3,2 13,2', '', 'nir|sécurité sociale|securite sociale|numéro de sécu'],
  ['IT_CF', '16', '', 'codice fiscale|cod. fisc|c.f|cf'],
  [
    'DE_TAX_ID',
    '',
    '11 2,3,3,3',
    'steuer-id|steuer id|steuer-id-nr|steuer-identifikationsnummer|steuerliche identifikationsnummer|tax-id|steueridentifikationsnummer|identifikationsnummer|idnr|steuer-idnr|steuernummer|steuerid|tax id|tin|' +
      'tax identification',
  ],
  [
    'DE_SVNR',
    '',
    '12 2,6,1,3',
    'sozialversicherungsnummer|rentenversicherungsnummer|versicherungsnummer|sv-nummer|sv-nr|svnr|rvnr|' +
      'social security|pension insurance',
  ],
  [
    'DE_ID_CARD',
    '',
    '10 9,1',
    'personalausweis-nr|ausweis-nr|ausweisnr|perso|personalausweis|personalausweisnummer|ausweis|ausweisnummer|reisepass|reisepassnummer|pass|passnummer|passport',
  ],
  [
    'AT_SVNR',
    '',
    '10 4,6',
    'svnr|sv-nummer|sv-nr|sozialversicherungsnummer|versicherungsnummer|sozialversicherung|social security',
  ],
  ['CH_AHV', '13 3,4,4,2', '', 'ahv|avs|ahv-nr'],
  ['NL_BSN', '', '9 3,3,3 4,2,3', 'bsn|burgerservicenummer|sofinummer|citizen service number'],
  ['BE_NN', '11 2,2,2,3,2 6,3,2 6,5', '', 'rijksregisternummer|numéro national|insz|niss'],
  [
    'SE_PERSONNUMMER',
    '6,4 8,4',
    '10 12',
    'personnummer|samordningsnummer|personal identity number|pnr',
    /^[-+]$/,
  ],
  ['NO_FODSELSNUMMER', '11 6,5', '', 'fødselsnummer|fodselsnummer|personnummer'],
  ['FI_HETU', '11 6,4', '', 'henkilötunnus|hetu', /^[-+]$/],
  ['DK_CPR', '', '6,4 10', 'cpr|cpr-nr|cpr-nummer|personnummer'],
  ['EE_IK', '', '11', 'isikukood|ik|estonian|personal code'],
  ['LT_ASMENS', '', '11', 'asmens kodas|asmens|lithuanian|personal code'],
  ['PL_PESEL', '', '11', 'pesel'],
  ['CZ_RC', '6,4 6,3', '10 9', 'rodné číslo|rodne cislo|rodné č|rč|r.č|birth number', /^\/$/],
  ['RU_SNILS', '3,3,3,2', '11', 'снилс|snils|страхового свидетельства', /^[- ]$/],
  ['RU_INN', '', '12', 'инн|inn'],
  ['RO_CNP', '', '13', 'cnp|cod numeric personal'],
  ['BG_EGN', '', '10', 'егн|egn|единен граждански номер'],
  ['HR_OIB', '', '11', 'oib|osobni identifikacijski'],
  ['GR_AMKA', '', '11', 'αμκα|amka'],
  ['TR_TCKN', '11', '', 'tckn|tc kimlik|t.c|kimlik'],
  ['IL_ID', '', '9 8,1', 'teudat zehut|מספר זהות|תעודת זהות|ת.ז|israeli id'],
  ['ZA_ID', '13 6,4,3 6,4,2,1 6,4,1,1,1', '', 'south african id|rsa id'],
  ['KR_RRN', '6,7', '13', 'rrn|resident registration|주민등록번호|주민번호', /^-$/],
  ['JP_MY_NUMBER', '', '12 4,4,4', 'my number|individual number|mynumber|マイナンバー|個人番号'],
  ['CN_RIC', '18', '', '身份证|身份證|resident id'],
  ['TW_ID', '', '10', '身分證|統一編號|taiwan id'],
  ['HK_ID', '7,1 8,1', '7 8', 'hkid|身份證|hong kong id', /^\($/],
  ['SG_NRIC', '9', '', 'nric|fin'],
  ['TH_ID', '1,4,5,2,1', '13', 'thai id|บัตรประชาชน|เลขประจำตัวประชาชน'],
  ['MY_NRIC', '', '6,2,4 12', 'nric|mykad|kad pengenalan|no ic|ic no|ic'],
  ['BR_CPF', '3,3,3,2 9,2', '11', 'cpf'],
  ['MX_CURP', '18', '', 'curp'],
  ['CL_RUT', '2,3,3,1 1,3,3,1', '8,1 7,1 9 8', 'rut|run|rol único|cédula'],
  ['AR_CUIL', '2,8,1', '11', 'cuil|cuit'],
]

const PASSPORT_WORDS =
  'passport|passport no|passport number|reisepass|reisepassnummer|reisepassnr|pass-nr|passnummer|passnr|passeport|pasaporte|' +
  'passaporte|passaporto|paspoort|paspoortnummer|paszport|paszportu|paszportem|паспорт|паспорта|паспортом|загранпаспорт|загранпаспорта|' +
  '护照|護照|パスポート|旅券|여권|جواز|جواز سفر|جوازي|الجواز|जवाज़|पासपोर्ट'
const BANK_WORDS = 'bank|banking|routing|iban|sort code|checking|savings|wire'
const FORMS = new Map<number, Form[]>()
for (const [label, plain, named, names, separators] of IDENTITIES) {
  const words = `${names}|${ID_WORDS}`
  add(label, 'national-id', plain, named, words, EXISTS[label]!, separators)
}
add(
  'PASSPORT',
  'travel-document',
  '',
  '8 9 2,7 2,6 3,6 1,7 1,8 2,2,5 2,2,6 4,6 2,3,4 3,3,3 2,5,2',
  PASSPORT_WORDS,
  (n) => /^(?=(?:.*\d){5})[A-ZА-Я\d]{8,10}$/u.test(n) && !isUniform(n),
)
add(
  'CREDIT_CARD',
  'card',
  '16 4,4,4,4 15 4,6,5 14 4,6,4 19 4,4,4,4,3',
  '12 13 17 18',
  'card|visa|mastercard|amex|maestro|credit|debit|karte|kreditkarte|carte|tarjeta|carta|cartão|kaart|карта',
  isCard,
)
add('UK_SORT_CODE', 'bank', '', '2,2,2 6', 'sort code|sort-code', (n) => /^\d{6}$/.test(n))
add('US_ROUTING', 'bank', '', '9', 'routing|aba|rtn', isRouting)
add(
  'BANK_ACCOUNT',
  'bank',
  '',
  '6 7 8 9 10 11 12 13 14 15 16 17',
  `account number|account no|acct|bank account|account|a/c`,
  (n) => /^\d{6,17}$/.test(n) && !isUniform(n),
)
add(
  'IMEI',
  'device',
  '',
  '15 2,6,6,1',
  'imei',
  (n) => /^\d{15}$/.test(n) && luhn(n) && !isUniform(n),
)

/** A form as one number. `3,2,4` is `nextForm(nextForm(nextForm(0, 3), 2), 4)`. Groups have at most 34 characters. */
export function nextForm(form: number, length: number): number {
  return form * 35 + length
}

/** The forms with these group lengths. */
export function formsOf(form: number): readonly Form[] | undefined {
  return FORMS.get(form)
}

/** Words for banks. Without one nearby, an account number may be any account. */
export const BANK_NEAR = wholeWords(BANK_WORDS)

/** Matches any of these words as a whole word, in any case; in scripts without spaces, anywhere. */
export function wholeWords(words: string): RegExp {
  const [spaced, dense]: string[][] = [[], []]
  for (const word of words.split('|')) {
    const list = /[\u0e00-\u0e7f\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]/.test(word)
      ? dense!
      : spaced!
    list.push(word.replaceAll('.', '\\.').replaceAll(' ', '\\s+'))
  }
  const parts = [
    ...(spaced!.length > 0
      ? [`(?<![\\p{L}\\p{N}])(?:${spaced!.join('|')})(?![\\p{L}\\p{N}])`]
      : []),
    ...dense!,
  ]
  return expression(parts.join('|'), 'iu')
}

/** Lengths of IBANs by country (ISO 13616 registry). */
const IBAN_LENGTHS = new Map(
  (
    'AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 ES24 ' +
    'FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 ' +
    'LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 ' +
    'RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30'
  )
    .split(' ')
    .map((entry) => [entry.slice(0, 2), Number(entry.slice(2))] as const),
)

/** The length of an IBAN of this country. */
export function ibanLength(country: string): number | undefined {
  return IBAN_LENGTHS.get(country)
}

/** Whether this is a valid IBAN. Expects compact upper case of the right length (ISO 13616). */
export function isIban(compact: string): boolean {
  return mod97(compact.slice(4) + compact.slice(0, 4)) === 1
}

function add(
  label: string,
  of: EntityClass,
  plain: string,
  named: string,
  words: string,
  exists: Form['exists'],
  separators = ANY_SEPARATOR,
): void {
  const names = wholeWords(words)
  for (const [forms, isNamed] of [
    [plain, false],
    [named, true],
  ] as const) {
    for (const lengths of forms.split(' ').filter(Boolean)) {
      const key = lengths.split(',').map(Number).reduce(nextForm, 0)
      const form = { label, of, named: isNamed, names, exists, separators }
      FORMS.set(key, [...(FORMS.get(key) ?? []), form])
    }
  }
}

/** Prefixes and lengths by card issuer (ISO/IEC 7812). */
const CARDS: readonly (readonly [RegExp, readonly number[]])[] = [
  [/^4/, [13, 16, 19]],
  [/^(?:5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720)/, [16]],
  [/^3[47]/, [15]],
  [/^(?:30[0-5]|3095|36|3[89])/, [14, 16, 17, 18, 19]],
  [/^(?:6011|64[4-9]|65)/, [16, 17, 18, 19]],
  [/^35(?:2[89]|[3-8])/, [16, 17, 18, 19]],
  [/^62/, [16, 17, 18, 19]],
  [/^(?:5018|5020|5038|5893|6304|6759|676[1-3])/, [12, 13, 14, 15, 16, 17, 18, 19]],
  [/^220[0-4]/, [16, 17, 18, 19]],
]

function isCard(n: string): boolean {
  return (
    /^\d+$/.test(n) &&
    CARDS.some(([prefix, lengths]) => prefix.test(n) && lengths.includes(n.length)) &&
    luhn(n) &&
    !isUniform(n)
  )
}

function isRouting(n: string): boolean {
  return (
    /^(?:0\d|1[0-2]|2[1-9]|3[0-2]|6[1-9]|7[0-2]|80)\d{7}$/.test(n) &&
    weigh(n, [3, 7, 1, 3, 7, 1, 3, 7, 1]) % 10 === 0 &&
    digit(n, 0) + digit(n, 1) > 0
  )
}
