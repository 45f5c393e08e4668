/** Twelve kinds of personal data, each in a sentence that tells what it is. */
export const SENTENCES: readonly (readonly [sentence: string, value: string, kind: string])[] = [
  ['Write to mira.lowe@kestrelmail.net today.', 'mira.lowe@kestrelmail.net', 'EMAIL'],
  ['Or to "ada lowe"@kestrelmail.net instead.', '"ada lowe"@kestrelmail.net', 'EMAIL'],
  ['Call +49 171 2345678 at noon.', '+49 171 2345678', 'PHONE'],
  ['The card is 4111 1111 1111 1111 there.', '4111 1111 1111 1111', 'CREDIT_CARD'],
  ['IBAN: DE89 3704 0044 0532 0130 00', 'DE89 3704 0044 0532 0130 00', 'IBAN'],
  ['The IP address is 91.12.45.7 there.', '91.12.45.7', 'IP_ADDRESS'],
  ['Its MAC is 3c:22:fb:9e:01:77 there.', '3c:22:fb:9e:01:77', 'MAC_ADDRESS'],
  ['SSN: 536-90-4399', '536-90-4399', 'US_SSN'],
  ['My name is Zoltan Kerekes.', 'Zoltan Kerekes', 'PERSON'],
  ['Date of birth: 12.03.1984', '12.03.1984', 'DATE_OF_BIRTH'],
  ['NHS number: 943 476 5919', '943 476 5919', 'UK_NHS'],
  ['Codice fiscale: RSSMRA85T10A562S', 'RSSMRA85T10A562S', 'IT_CF'],
  ['IMEI: 490154203237518', '490154203237518', 'IMEI'],
]

export const VALUES = SENTENCES.map(([, value]) => value)
export const TEXT = SENTENCES.map(([sentence]) => sentence).join('\n')
