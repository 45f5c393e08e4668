import * as fc from 'fast-check'
import * as v from 'valibot'
import { describe, expect, it } from 'vitest'
import pii from '../../plugins/guards/pii.ts'
import type { Entity } from '../../plugins/guards/pii/find.ts'
import { CLASSES } from '../../plugins/guards/pii/classes.ts'
import { PersonalDataScan } from '../../plugins/guards/pii/scan.ts'
import type {
  Guard,
  GuardContext,
  GuardHost,
  CheckProgress,
  TextItem,
  Verdict,
} from '../../src/plugin.ts'
import { recordedCases } from '../fixtures.ts'
import { runs } from '../_runs.ts'
import { expectSame } from '../_same.ts'

/** Texts with one entity each, between `«` and `»`, by label. */
const FOUND: Readonly<Record<string, readonly string[]>> = {
  EMAIL: [
    'Reach me under «jane.doe+spam@mail.example.co.uk», please',
    '<a href="mailto:«bob@bücher.example»">',
    '«"john.doe"@example.com» wrote',
    '{"email":"«bob@example.com»","n":1}',
    'see («bob@example.com»).',
    '请联系«bob@example.com»谢谢',
    '«ivan@пример.рф» or',
    '«ivan@xn--e1afmkfd.xn--p1ai»',
    '«jane (at) example (dot) com»',
    '«jane[at]example[dot]org»',
    'write to «jane at example dot com» now',
    '«ｊａｎｅ＠ｅｘａｍｐｌｅ．ｃｏｍ»',
    '«jane\u200b@exam\u00adple.com»',
  ],
  PHONE: [
    'Office line «+1 202-555-0187»',
    'Tel. «+49 (0)30 901820»',
    '«+44 20 7946 0958», extension 12',
    '«+919876543210»',
    'call «(202) 555-0187»',
    'it is «202.555.0187».',
    'Mon numéro: «06 12 34 56 78»',
    '我的手机是«13800138000»',
    '«03-1234-5678»',
    '«010-1234-5678»',
    '«(11) 91234-5678»',
    '«0044 20 7946 0958»',
    'phone: «5550187»',
    'Telefon: «0171 1234567»',
    'Nummer: «0171 2345678»',
    'app me op «06-12345678»',
    'schreib mir unter «0160 2345678»',
    'mobile «07700 900789»',
    'mobile «０７７００ ９００７８９»',
    'my phone number is «two zero two five five five zero one eight seven»',
  ],
  CREDIT_CARD: [
    '«4012888888881881»',
    '«3782 822463 10005»',
    '«4012-8888-8888-1881»',
    'card «4111 1111 1111 1111» ok',
    'card «4012 8888 8888 1881» 12/25 123',
    '«４０１２８８８８８８８８１８８１»',
    '«٤٠١٢٨٨٨٨٨٨٨٨١٨٨١»',
    '«4\u200b012\u200b888888881881»',
    '«4️⃣012888888881881»',
    '«④012888888881881»',
  ],
  IBAN: [
    'IBAN: «DE89 3704 0044 0532 0130 00»',
    'IBAN: «D E 8 9 3 7 0 4 0 0 4 4 0 5 3 2 0 1 3 0 0 0»',
    'IBAN: «D-E-8-9-3-7-0-4-0-0-4-4-0-5-3-2-0-1-3-0-0-0»',
    '«de89370400440532013000»',
    '«GB82 WEST 1234 5698 7654 32»',
    '«MT84 MALT 0110 0001 2345 MTLC AST0 01S»',
  ],
  UK_SORT_CODE: ['sort code «12-34-56»'],
  US_ROUTING: ['routing number «021000021»'],
  BANK_ACCOUNT: ['bank account number «12345678»'],
  IP_ADDRESS: [
    'from «192.0.2.146»',
    'connect to «2001:db8:85a3::8a2e:370:7334»',
    'login from «84.23.8.8»',
  ],
  MAC_ADDRESS: ['MAC «3c:22:fb:12:34:56»', '«3C-22-FB-12-34-56»'],
  IMEI: ['IMEI «490154203237518»'],
  MRZ: [
    '«P<UTOERIKSSON<<ANNA<MARIA<<<<<<<<<<<<<<<<<<<\nL898902C36UTO7408122F1204159ZE184226B<<<<<10»',
    '«I<UTOD231458907<<<<<<<<<<<<<<<\n7408122F1204159UTO<<<<<<<<<<<6\nERIKSSON<<ANNA<MARIA<<<<<<<<<<»',
  ],
  US_SSN: ['«536-90-4399»', 'social security number «536904399»', '{"ssn":"«536-90-4399»"}'],
  US_ITIN: ['ITIN «912-70-1234»'],
  PASSPORT: ['passport no. «123456789»'],
  CA_SIN: ['my sin is «193 456 787»'],
  UK_NINO: ['«AB123456C»', '«AB 12 34 56 C»'],
  UK_NHS: ['NHS «943 476 5919»'],
  IE_PPS: ['«1234567T»'],
  AU_TFN: ['TFN «865 414 088»'],
  AU_MEDICARE: ['Medicare «2123 45670 1»'],
  NZ_IRD: ['IRD «49-091-850»'],
  IN_AADHAAR: ['Aadhaar «2341 2341 2346»', '«2341 2341 2346»'],
  IN_PAN: ['«ABCPE1234F»'],
  ES_DNI: ['DNI «54362315K»', '«54362315-K»'],
  ES_NIE: ['«X1234567L»', '«X-1234567-L»'],
  PT_NIF: ['NIF «123456789»'],
  FR_NIR: ['NIR «2 95 10 99 126 111 93»'],
  IT_CF: ['codice fiscale «BNCLRA92D45F205D»'],
  DE_TAX_ID: ['Steuer-ID «86095742719»', 'Steuer-ID: «86 095 742 719»'],
  DE_SVNR: ['Versicherungsnummer «15 070649 C 103»'],
  DE_ID_CARD: ['Personalausweis «T220001293»'],
  AT_SVNR: ['SV-Nummer «1237 010180»'],
  CH_AHV: ['«756.9217.0769.85»'],
  NL_BSN: ['BSN «111222333»'],
  BE_NN: ['«85.07.30-033.28»'],
  SE_PERSONNUMMER: ['«811228-9874»'],
  NO_FODSELSNUMMER: ['«15108695088»'],
  FI_HETU: ['«131052-308T»', '«131052A308T»'],
  DK_CPR: ['CPR «211062-5629»'],
  EE_IK: ['isikukood «37605030299»'],
  PL_PESEL: ['PESEL «90020715239»'],
  CZ_RC: ['«710319/2745»'],
  RO_CNP: ['CNP «1800101221144»'],
  RU_SNILS: ['СНИЛС «112-233-445 95»', '«112-233-445 95»', 'СНИЛС: «11223344595»'],
  RU_INN: ['ИНН «500100732259»'],
  BG_EGN: ['ЕГН «7523169263»'],
  HR_OIB: ['OIB «33392005961»'],
  GR_AMKA: ['ΑΜΚΑ «01013099997»'],
  TR_TCKN: ['TC «10000000146»'],
  IL_ID: ['מספר זהות «123456782»'],
  ZA_ID: ['«8001015009087»'],
  KR_RRN: ['«880101-1234568»', '«210101-3123456»'],
  JP_MY_NUMBER: ['マイナンバー：«123456789018»'],
  CN_RIC: ['身份证号«11010519491231002X»。'],
  TW_ID: ['身分證 «A123456789»'],
  HK_ID: ['«A123456(3)»'],
  SG_NRIC: ['«S1234567D»'],
  TH_ID: ['«1-1017-00230-70-8»'],
  MY_NRIC: ['IC «880101-14-5678»'],
  BR_CPF: ['CPF «111.444.777-35»', 'CPF: «11144477735»'],
  MX_CURP: ['«BOXW310820HNERXN09»'],
  CL_RUT: ['RUN «16.123.987-9»'],
  AR_CUIL: ['«20-12345678-6»'],
}

/** Two weak shapes. */
const SHAPES: Readonly<Record<string, readonly string[]>> = {
  PERSON: [
    'My name is «Jonas Feld».',
    'Patient: «Maria Gómez», 12 beds',
    'Ich heiße «Anna von Berg» und',
    "je m'appelle «Zoé Petit»",
    'Name: «Li Wei»',
    'меня зовут «Анна Петрова»',
  ],
  DATE_OF_BIRTH: ['born «02/05/1990»', 'Geburtsdatum: «02.05.1990»', 'was born on «2 May 1990»'],
  ADDRESS: [
    'lives at «12 Baker Street, London NW1 6XE»',
    'wohnt «Hauptstraße 5, 10115 Berlin»',
    'habite «12 rue de la Paix, 75002 Paris»',
    'vive en «Calle Mayor 5, 28013 Madrid»',
  ],
  LICENSE_PLATE: ['license plate «ABC 1234»'],
  COORDINATES: ['at «52.5200, 13.4050»'],
}

const NOTHING = [
  'call 911 now',
  'The API call returned 1234567 rows',
  'population 12 345 678',
  '$4,012.88',
  'date 2024-05-06 12:30:45',
  '05.06.2024 12:30',
  'v1.2.3.4, Section 1.2.3.4, 8.5.1.2 driver, Windows 10.0.19045.3693',
  'Release 2.10.0.7 notes',
  'https://example.com/items/90020715239',
  '1700000000000 and 1732012345678',
  'Card 4012 8888 8888 1882 was declined by the checksum.',
  'Order number 4821-739-0265, tracking no. 030 1234 5678, Sendungsnummer: 0151 2345 6789',
  '注文番号は4821-739-0265です。 주문번호는 010-2345-6789, 订单号：138 0013 8000',
  'Put name@example.com or your.name@mail.example.org here',
  'ИНН 7707083893, СНИЛС 112-233-445 96',
  'ISBN 978-1-56619-909-4, ISBN 9781566199094, EAN 4006381333931',
  'tracking 1Z999AA10123456784',
  'DNI 54362315A',
  'git@github.com:a/b.git, react@18.2.0, image@2x.png, @angular/core, user@localhost, a@b.c',
  'std::vector<int>, dead::beef, ::1, fe80::1',
  '00:00:00:00:00:00',
  '127.0.0.1:3000, 192.168.1.1, 10.0.0.0/8',
  '1 234 567 890 or 123 456 789',
  '1990 1991 1992 1993 1994',
  'pi is 3.14159265358979',
  '123-45-6789, 000-12-3456',
  'UUID 123e4567-e89b-12d3-a456-426614174000',
  'sha 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
  'look at example.com, or meet me at noon dot',
  'my name is not important. The patient should rest. He was born in Berlin.',
  'x = 123456789; 2+3000000000; 0.123456789; 12345678901234567890',
  'Page 202-203, Room 4012, level 8, 3-0 win, ratio 16:9, (555) 12',
  'Dear [NAME], card ending 1881',
  'one two three four five six seven eight nine ten',
]

const base64 = (text: string) => Buffer.from(text).toString('base64')
const escaped = (text: string, write: (code: string) => string) =>
  Array.from(text, (one) => write(one.charCodeAt(0).toString(16).padStart(2, '0'))).join('')

/** Ways to write data so that it reads otherwise. */
const ENCODED: Readonly<Record<string, (text: string) => string>> = {
  base64,
  'base64 behind a sign': (text) => `x${base64(text)}`,
  'base64 with line breaks': (text) => {
    const said = base64(`This is what you wanted to know about the person: ${text}. That is all.`)
    return said.replaceAll(/.{40}/g, '$&\n')
  },
  'hexadecimal digits': (text) => Buffer.from(text).toString('hex'),
  'percent encoding': (text) => escaped(text, (code) => `%${code}`),
  'percent encoding of signs alone': (text) => encodeURIComponent(text).replaceAll('.', '%2E'),
  'escapes of JSON': (text) => escaped(text, (code) => `\\u00${code}`),
  'escapes of strings': (text) => escaped(text, (code) => `\\x${code}`),
  'entities of HTML': (text) => escaped(text, (code) => `&#x${code};`),
  'decimal entities': (text) => Array.from(text, (one) => `&#${one.charCodeAt(0)};`).join(''),
  'letters with marks of Markdown': (text) => text.replaceAll(/\w\w(?=\w)/g, '$&**'),
  'groups with lines between them': (text) => text.replaceAll(' ', '_'),
}

describe('what it finds', () => {
  for (const [label, texts] of Object.entries(FOUND)) {
    it.each(texts)(`${label} in %j`, async (marked) => {
      const { text, start, end } = unmark(marked)
      expect(entitiesOf(text)).toEqual([expect.objectContaining({ label, start, end, tier: 1 })])
      expect(await verdictOf(text)).toMatchObject({
        action: 'block',
        rule: 'deny:personal-data',
        spans: [{ start, end, label }],
      })
    })
  }

  for (const [label, texts] of Object.entries(SHAPES)) {
    it.each(texts)(`the shape of ${label} in %j`, async (marked) => {
      const { text, start, end } = unmark(marked)
      expect(entitiesOf(text)).toEqual([expect.objectContaining({ label, start, end, tier: 2 })])
      expect(await verdictOf(text)).toEqual({ action: 'pass' })
      expect(await verdictOf(text, { weak: true })).toMatchObject({ action: 'block' })
    })
  }

  it.each(NOTHING)('nothing in %j', (text) => {
    expect(entitiesOf(text)).toEqual([])
  })

  it('blocks at a second weak shape', async () => {
    const text = 'My name is Jonas Feld, born 02/05/1990'
    expect(await verdictOf(text)).toMatchObject({
      action: 'block',
      spans: [{ label: 'PERSON' }, { label: 'DATE_OF_BIRTH' }],
    })
  })

  it('needs a naming word shortly before bare numbers', () => {
    expect(entitiesOf('PESEL 90020715239')).toHaveLength(1)
    expect(entitiesOf('90020715239 is a PESEL')).toEqual([])
    expect(entitiesOf(`PESEL ${'of a person '.repeat(5)}90020715239`)).toEqual([])
    expect(entitiesOf(`PESEL of the person: ${'x '.repeat(60)}90020715239`)).toHaveLength(1)
    // A name of a number counts as a whole word only.
    expect(entitiesOf('the rational 536904399')).toEqual([])
    expect(entitiesOf('using 193456787')).toEqual([])
  })
})

describe('recorded spans', () => {
  const cases = recordedCases('guard/pii.jsonl')
  if (!cases) {
    const reason = 'no recorded personal data; set FIXTURES_DIR to have it checked'
    process.stderr.write(`SKIPPED recorded spans: ${reason}\n`)
    it('recorded spans', (context) => context.skip(reason))
    return
  }

  it('are found to 95 of 100, with 97 of 100 right', () => {
    const named = (
      spans: readonly { start: number; end: number; type?: string; label?: string }[],
    ) => spans.map(({ start, end, type, label }) => `${type ?? label} ${start}-${end}`)
    let [wanted, got, right] = [0, 0, 0]
    const missed: string[] = []
    for (const { text, spans } of cases) {
      const expected = named(spans.filter((span: { tier: number }) => span.tier === 1))
      const found = named(entitiesOf(text).filter(({ tier }) => tier === 1))
      wanted += expected.length
      got += found.length
      right += expected.filter((span) => found.includes(span)).length
      missed.push(
        ...expected.filter((span) => !found.includes(span)).map((span) => `${text}: ${span}`),
      )
    }
    const [recall, precision] = [right / wanted, right / got]
    process.stdout.write(
      `personal data: recall ${recall.toFixed(3)}, precision ${precision.toFixed(3)}\n`,
    )
    expect(recall, missed.join('\n')).toBeGreaterThanOrEqual(0.95)
    expect(precision).toBeGreaterThanOrEqual(0.97)
  })
})

describe('while an answer streams', () => {
  const all = [...Object.values(FOUND), ...Object.values(SHAPES)]
    .flat()
    .map((one) => unmark(one).text)
  const lines = fc.constantFrom(...all, ...NOTHING)
  const fillers = fc.constantFrom(
    'and so on. ',
    'a at dot (at) one two ',
    '12 AB 34 - 5 ',
    'x'.repeat(300),
    '1234 '.repeat(120),
    'AB12'.repeat(160),
    'YWJj'.repeat(600),
    `${base64('jane.doe@example.com, my name is Jonas Feld')} `,
    '%6aane.doe%40example.com;',
    '🌊 ',
    'My name is Jonas Feld, ',
    'born on ',
    '\n',
    ' ',
    '\u200b',
    '',
  )
  const texts = fc
    .array(fc.tuple(fillers, lines, fillers), { maxLength: 4 })
    .map((parts) => parts.flat().join(''))
  const cuts = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 12 })

  it.each([false, true])(
    'blocks and releases the same however the text is split, weak: %s',
    async (weak) => {
      const guard = await guardOf({ weak })
      fc.assert(
        fc.property(texts, cuts, (text, places) => {
          const whole = stream(guard, [text])
          expectSame(stream(guard, cutAt(text, places)), whole)
        }),
        { numRuns: runs(100) },
      )
      for (const text of all) expect(stream(guard, text.split(''))).toEqual(stream(guard, [text]))
    },
  )

  it('releases nothing that it blocks, and everything that it passes', async () => {
    const guard = await guardOf()
    fc.assert(
      fc.property(texts, cuts, (text, places) => {
        const { sent, verdict } = stream(guard, cutAt(text, places))
        const first = entitiesOf(text).find(({ tier }) => tier === 1)
        if (first) expect(sent.length).toBeLessThanOrEqual(first.start)
        if (verdict) expect(verdict).toMatchObject({ rule: 'deny:personal-data' })
        else expect(sent).toBe(text)
      }),
      { numRuns: runs(100) },
    )
  })

  it.each<[string, (character: string) => string]>([
    ['as they are', (one) => one],
    ['with accents', (one) => `${one}\u0301`],
    ['in tags, which shadow ASCII', (one) => String.fromCodePoint(0xe0000 + one.codePointAt(0)!)],
    [
      'in letters of mathematics',
      (one) => one.replace(/[a-z]/, (it) => String.fromCodePoint(0x1d3b9 + it.codePointAt(0)!)),
    ],
    ['with joiners', (one) => `${one}\u200d`],
  ])('finds data written %s, and releases nothing of it', async (_, write) => {
    for (const plain of ['4111 1111 1111 1111', 'jane.doe@example.com', 'DE89370400440532013000']) {
      const text = `It is ${Array.from(plain, write).join('')}, is it?`
      const whole = stream(await guardOf(), [text])
      expect(whole).toMatchObject({ verdict: { rule: 'deny:personal-data' } })
      expect('It is '.startsWith(whole.sent)).toBe(true)
      expect(stream(await guardOf(), text.split(''))).toEqual(whole)
    }
  })

  it.each(Object.entries(ENCODED))(
    'finds data in %s, and releases nothing of it',
    async (_, encode) => {
      for (const plain of [
        '4111 1111 1111 1111',
        'jane.doe@example.com',
        'DE89370400440532013000',
      ]) {
        const text = `It is ${encode(plain)}, is it?`
        const whole = stream(await guardOf(), [text])
        expect(whole).toMatchObject({ verdict: { rule: 'deny:personal-data' } })
        expect('It is '.startsWith(whole.sent)).toBe(true)
        expect(stream(await guardOf(), text.split(''))).toEqual(whole)
      }
    },
  )

  it('finds data in a long encoded text, and none in encoded pictures, hashes and addresses of pages', async () => {
    const filler = 'Nothing to be seen here but words. '.repeat(60)
    const text = base64(`${filler}Write to jane.doe@example.com today. ${filler}`)
    for (const encoded of [text, text.replaceAll(/.{76}/g, '$&\r\n')]) {
      expect(await verdictOf(`See ${encoded}`)).toMatchObject({ rule: 'deny:personal-data' })
    }
    for (const harmless of [
      `data:image/png;base64,${Buffer.from(Array.from({ length: 60_000 }, (_, i) => (i * i * 31) % 251)).toString('base64')}`,
      'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
      'https://shop.example/s?q=blue%20shoes%2C%20size%2042&from=2026%2D05%2D03',
      `sha512-${base64('x'.repeat(60))}`,
      base64('{"sub":"user","iat":1516239022,"roles":["reader"]}'),
    ]) {
      expect(await verdictOf(harmless), harmless.slice(0, 60)).toEqual({ action: 'pass' })
    }
  })

  it('takes words before encoded data as its label, and ignores what it is told to ignore', async () => {
    expect(await verdictOf(`My phone: ${base64('0151 23456789')}`)).toMatchObject({
      action: 'block',
    })
    const ignore = ['@example.com']
    expect(await verdictOf(base64('jane.doe@example.com'), { ignore })).toEqual({ action: 'pass' })
  })

  it('retains unfinished words and numbers', async () => {
    const guard = await guardOf()
    const held = (text: string) => text.slice(stepsOf([text], guard)[0]!.safeOffset)
    expect(held('Hello there, frie')).toBe('frie')
    expect(held('Hello there, friend. A')).toBe('friend. A')
    expect(held('Hello there, friend. H')).toBe('H')
    expect(held('It costs 12')).toBe('12')
    expect(held('It costs 12 dollars and m')).toBe('m')
    expect(held('My card number: 4012 8888 88')).toBe('4012 8888 88')
    expect(held('write to jane at exa')).toBe('jane at exa')
  })

  it('never retains more than a window', async () => {
    for (const text of [
      '1 '.repeat(4000),
      'a'.repeat(9000),
      '1a'.repeat(4000),
      '漢'.repeat(4000),
      'at '.repeat(3000),
    ]) {
      for (const weak of [false, true]) {
        let pushed = 0
        for (const { safeOffset: safe } of stepsOf(
          text.match(/.{1,7}/gs)!,
          await guardOf({ weak }),
        )) {
          pushed = Math.min(pushed + 7, text.length)
          expect(pushed - safe).toBeLessThanOrEqual(weak ? 1040 : 520)
        }
      }
    }
  })

  it('finds data inside an endless run', () => {
    for (const filler of ['1234 '.repeat(500), 'x1'.repeat(1000), 'ab_'.repeat(700)]) {
      expect(entitiesOf(`${filler} 536-90-4399 ${filler}`)).toHaveLength(1)
      expect(entitiesOf(`${filler}"bob@example.com"${filler}`)).toHaveLength(1)
    }
  })
})

describe('contacts of organizations', () => {
  it.each([
    'Write to support@acme.example or sales.eu@acme.example.',
    'Escriba a atencioncliente@empresa.example, o a atencionalcliente@empresa.example.',
    'Toll-free: 0800 123 4567, from abroad +49 800 1234567',
    'Our customer service: 030 1234 5678',
    'Use 8.8.8.8 or 2606:4700:4700::1111 as resolver.',
    'Update to version 4.18.221.6 of it.',
  ])('are no personal data: %s', async (text) => {
    expect(await verdictOf(text)).toEqual({ action: 'pass' })
  })

  it.each([
    'My name is Anna Roth, write to support@acme.example.',
    'write to anna.roth@acme.example',
    'sales.anna.roth@acme.example',
    'my mobile, not the hotline: 0170 1234 567',
  ])('are where a person is meant: %s', async (text) => {
    expect(await verdictOf(text)).toMatchObject({ action: 'block' })
  })
})

describe('other ways to write', () => {
  it.each([
    ['«4111_1111_1111_1111»'],
    ['«4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1»'],
    ['«4*1*1*1*1*1*1*1*1*1*1*1*1*1*1*1»'],
    ['mail 王伟«@例子.公司» now'],
    ['Ruf mich an: «01701234567»'],
    ['أرسل إلى جوالي «٠٥٠١٢٣٤٥٦٧»'],
    ['passeport «09AB12345»'],
  ])('are found: %s', async (marked) => {
    const start = marked.indexOf('«')
    const end = marked.indexOf('»') - 1
    const verdict = await verdictOf(marked.replaceAll(/[«»]/g, ''))
    expect(verdict).toMatchObject({ action: 'block', spans: [{ start, end }] })
  })
})

describe('options', () => {
  const parse = (options: unknown) => v.safeParse(pii.options, options)

  it('select everything but single weak shapes by default', () => {
    expect(parse({}).output).toEqual({ ignore: [], weak: false })
    expect(parse({ entities: ['email', 'national-id'] }).success).toBe(true)
  })

  it.each([
    { entities: ['e-mail'] },
    { entities: [] },
    { weak: 1 },
    { ignore: [''] },
    { mask: true },
  ])('refuse %j', (options) => expect(parse(options).success).toBe(false))

  it('select kinds of data', async () => {
    const both = 'bob@example.com or 536-90-4399'
    expect(await verdictOf(both, { entities: ['national-id'] })).toMatchObject({
      spans: [{ label: 'US_SSN' }],
    })
    expect(await verdictOf(both, { entities: ['card', 'person'] })).toEqual({ action: 'pass' })
    // Another reading of the number does not hide it.
    const other = 'phone 8001015009087'
    expect(await verdictOf(other)).toMatchObject({ spans: [{ label: 'PHONE' }] })
    expect(await verdictOf(other, { entities: ['national-id'] })).toMatchObject({
      spans: [{ label: 'ZA_ID' }],
    })
  })

  it('ignore listed data', async () => {
    const ignore = ['@ourcompany.example', '+1 202 555 0187', 'help@other.example']
    for (const text of ['Info@OurCompany.example', '+1 (202) 555-0187', 'help@other.example']) {
      expect(await verdictOf(text, { ignore })).toEqual({ action: 'pass' })
    }
    for (const text of [
      'a@ourcompany.example.evil.com',
      'a@notourcompany.example',
      '+1 (202) 555-0188',
      'my.help@other.example',
      'a@ourcompany.example, b@else.example',
    ]) {
      expect(await verdictOf(text, { ignore })).toMatchObject({ action: 'block' })
    }
  })
})

describe('as a guard', () => {
  it('enforces personal-data, locally', async () => {
    expect(await guardOf()).toMatchObject({ enforces: ['deny:personal-data'], execution: 'local' })
  })

  it('has a verdict for each text, definitions of tools included', async () => {
    const items = ['536-90-4399', 'nothing', '536-90-4399'].map((text, index) =>
      unitOf(text, index === 2 ? 'tool_schema' : 'content'),
    )
    expect((await guardOf()).checkInput!(items, CONTEXT)).toEqual([
      expect.objectContaining({ action: 'block' }),
      { action: 'pass' },
      expect.objectContaining({ action: 'block' }),
    ])
  })

  it('judges a complete text like a growing one', async () => {
    const text = 'bob@example.com'
    expect((await guardOf()).checkOutput!(unitOf(text), CONTEXT)).toEqual(await verdictOf(text))
  })
})

const CONTEXT = {} as GuardContext
const HOST: Pick<GuardHost, 'yieldIfDue'> = { yieldIfDue() {} }
type Options = v.InferInput<typeof pii.options>

async function guardOf(options: Options = {}): Promise<Guard> {
  return pii.setup(v.parse(pii.options, options), HOST as GuardHost)
}

function unitOf(text: string, channel: TextItem['channel'] = 'content'): TextItem {
  return { id: 'a', side: 'input', channel, current: true, text }
}

async function verdictOf(text: string, options?: Options): Promise<Verdict> {
  const guard = await guardOf(options)
  const [verdict] = await guard.checkInput!([unitOf(text)], CONTEXT)
  return verdict!
}

/** All entities of a text, weak shapes included. */
function entitiesOf(text: string): Entity[] {
  const found: Entity[] = []
  const scan = new PersonalDataScan({ classes: new Set(CLASSES), strict: false }, (entity) => {
    found.push(entity)
    return true
  })
  scan.push(text)
  scan.end()
  return found.sort((a, b) => a.start - b.start)
}

function stepsOf(pieces: readonly string[], guard: Guard): CheckProgress[] {
  const check = guard.streamOutput!({ channel: 'content', choice: 0, index: 0 }, CONTEXT)
  const steps: CheckProgress[] = []
  for (const piece of pieces) {
    steps.push(check.push(piece) as CheckProgress)
    if (steps.at(-1)!.verdict) return steps
  }
  return [...steps, check.end() as CheckProgress]
}

/** What the client would get, and why the stream stopped. */
function stream(
  guard: Guard,
  pieces: readonly string[],
): { sent: string; verdict: Verdict | undefined } {
  const text = pieces.join('')
  let [safe, pushed] = [0, 0]
  const steps = stepsOf(pieces, guard)
  for (const [index, step] of steps.entries()) {
    pushed += pieces[index]?.length ?? 0
    expect(step.safeOffset).toBeGreaterThanOrEqual(safe)
    expect(step.safeOffset).toBeLessThanOrEqual(pushed)
    safe = step.safeOffset
  }
  return { sent: text.slice(0, safe), verdict: steps.at(-1)!.verdict }
}

function cutAt(text: string, places: readonly number[]): string[] {
  const offsets = [
    0,
    ...places.map((place) => Math.floor(place * text.length)).sort((a, b) => a - b),
  ]
  return offsets.map((offset, index) => text.slice(offset, offsets[index + 1] ?? text.length))
}

function unmark(marked: string): { text: string; start: number; end: number } {
  const start = marked.indexOf('«')
  return { text: marked.replace(/[«»]/g, ''), start, end: marked.indexOf('»') - 1 }
}
