/**
 * Finds personal data in one stretch of folded text. The result depends only on the stretch and the text shortly before
 * it, so it is the same for every way the text was split.
 */
import { mod731 } from './checks.ts'
import {
  SPELLED_DIGITS,
  findEmails,
  findMachines,
  findSpelledEmails,
  findSpelledPhones,
  type Range,
} from './contact.ts'
import { expression, matchesOf } from '../text/slices.ts'
import { findNumbers } from './groups.ts'
import { isPlaceholder, isRole } from './public.ts'
import type { EntityClass } from './classes.ts'
import { ibanLength, isIban } from './numbers.ts'

/** A piece of personal data. */
export interface Entity extends Range {
  readonly label: string
  readonly of: EntityClass
  /**
   * 1: identified by its form or by a word that names it. 2: a shape that may be something else. 3: the address of a role,
   * which counts beside a person's shape only.
   */
  readonly tier: 1 | 2 | 3
}

/** What is already known about a stretch and the start of its line. */
interface Traits {
  /** The start of the line up to a colon, when it is far away. */
  readonly label: string
  readonly digits: boolean
  readonly at: boolean
  /** Has brackets or words that may stand for `@`. */
  readonly spelledAt: boolean
  /** Number of words for digits. */
  readonly spelledDigits: number
}

/**
 * Finds personal data.
 * @param text folded
 * @param before the text before, as far as it matters
 * @param classes what to look for
 * @returns entities without overlaps, in order
 */
export function findPersonalData(
  text: string,
  before: string,
  classes: ReadonlySet<EntityClass>,
  traits: Traits,
): Entity[] {
  const found: Ranked[] = []
  const add = (label: string, of: EntityClass, { start, end }: Range, rank: number) => {
    if (!classes.has(of)) return
    const value = text.slice(start, end)
    if (of === 'email' && isPlaceholder(value)) return
    const tier = of === 'email' && isRole(value.split(/[@\s([<]/)[0]!) ? 3 : 1
    found.push({ label, of, tier, start, end, rank })
  }
  if (traits.at) for (const range of findEmails(text, before)) add('EMAIL', 'email', range, 0)
  if (traits.spelledAt) {
    for (const range of findSpelledEmails(text)) add('EMAIL', 'email', range, 0)
  }
  if (traits.spelledDigits >= SPELLED_DIGITS) {
    for (const range of findSpelledPhones(text, before)) add('PHONE', 'phone', range, 0)
  }
  if (text.includes(':') || (traits.digits && /[.-]/.test(text))) {
    for (const { label, ...range } of findMachines(text, before)) add(label, 'network', range, 0)
  }
  if (traits.digits) {
    for (const range of findIbans(text)) add('IBAN', 'iban', range, 0)
    if (text.includes('<')) {
      for (const range of findZones(text)) add('MRZ', 'travel-document', range, 0)
    }
    findNumbers(text, before, traits.label, add)
  }
  return found.length > 1 ? withoutOverlaps(found) : found
}

interface Ranked extends Entity {
  /** The lower rank wins where two overlap. */
  readonly rank: number
}

function withoutOverlaps(found: readonly Ranked[]): Entity[] {
  const kept: Entity[] = []
  const best = found.toSorted(
    (a, b) => a.rank - b.rank || b.end - b.start - (a.end - a.start) || a.start - b.start,
  )
  for (const entity of best) {
    if (kept.every(({ start, end }) => entity.end <= start || entity.start >= end))
      kept.push(entity)
  }
  return kept.sort((a, b) => a.start - b.start)
}

/** An IBAN, which may have a blank or a sign between any two characters. */
const IBAN = expression(
  /(?<![\p{L}\p{N}_])([A-Z])[ ._-]?([A-Z])[ ._-]?\d[ ._-]?\d(?:[ ._-]?[A-Z\d]){11,30}/giu,
)

function findIbans(text: string): Range[] {
  const found: Range[] = []
  for (const { 0: match, 1: first, 2: second, index } of matchesOf(text, IBAN)) {
    const length = ibanLength(`${first}${second}`.toUpperCase())
    if (length === undefined) continue
    let end = 0
    let compact = ''
    while (end < match.length && compact.length < length)
      compact += match[end++]!.replace(/[ ._-]/, '')
    const last = index + end
    if (compact.length < length || /^[\p{L}\p{N}]/u.test(text.slice(last))) continue
    if (isIban(compact.toUpperCase())) found.push({ start: index, end: last })
  }
  return found
}

const LINE = expression(/[A-Z\d<]{30,44}/g)
const NAME_LINE = /^[PIACV][A-Z<][A-Z<]{3}[A-Z][A-Z<]{23,38}$/
const BORN_LINE = /(\d{6})(\d)[MFX<](\d{6})(\d)/

/** Machine-readable zones of travel documents (ICAO 9303): all lines, if the check digits of one are right. */
function findZones(text: string): Range[] {
  const lines = Array.from(matchesOf(text, LINE), ({ 0: line, index }) => ({
    line,
    range: { start: index, end: index + line.length },
  }))
  const isZone = lines.some(({ line }) => {
    const [, born, bornCheck, expires, expiresCheck] = BORN_LINE.exec(line) ?? []
    return (
      [30, 36, 44].includes(line.length) &&
      born !== undefined &&
      mod731(born) === Number(bornCheck) &&
      mod731(expires!) === Number(expiresCheck)
    )
  })
  if (isZone) return [{ start: lines[0]!.range.start, end: lines.at(-1)!.range.end }]
  return lines
    .filter(({ line }) => NAME_LINE.test(line) && line.includes('<<<'))
    .map(({ range }) => range)
}

// Finds shapes of names, births, addresses and the like (tier 2). Each may be something else, so one shape alone proves
// nothing.

const LINK = String.raw`\s{0,2}(?:is|was|are|:|=|-|–|ist|lautet|est|es|è|é)?\s{0,2}`

const BEFORE_NAME =
  "my name is|my name's|i am called|full name|first name|last name|surname|patient|patient name|customer name|applicant|" +
  'employee|name of the patient|mein name ist|ich heiße|ich heisse|vorname|nachname|patientin|' +
  "je m'appelle|je m’appelle|mon nom est|nom de famille|prénom|mi nombre es|me llamo|nombre completo|paciente|apellidos|" +
  'mi chiamo|il mio nome è|cognome|paziente|meu nome é|me chamo|sobrenome|mijn naam is|ik heet|achternaam|nazywam się|' +
  'mam na imię|imię i nazwisko|меня зовут|пациент|фамилия|jag heter|jeg heter|jeg hedder|numele meu este|benim adım'
const NAME_LABEL = expression(
  `(?<![\\p{L}\\p{N}])(?:(?:${BEFORE_NAME})(?![\\p{L}\\p{N}])${LINK}|(?:name|nom|nombre|nome|naam|имя)\\s?:\\s{0,2})`,
  'gu',
)
const NAME = expression(
  /\p{Lu}[\p{L}\p{M}'’.-]*(?: (?:(?:van|von|de|der|den|del|da|dos|di|la|le|bin|al|el) )?\p{Lu}[\p{L}\p{M}'’-]+){0,3}/uy,
)

const BORN_LABEL = expression(
  '(?<![\\p{L}\\p{N}])(?:born|born on|date of birth|dob|d\\.o\\.b\\.|birthday|birth date|birthdate|geboren|geboren am|' +
    'geburtsdatum|geb\\.|née? le|née? en|date de naissance|nacid[oa] el|nac[ií] el|nac[ií]|fecha de nacimiento|nat[oa] il|data di nascita|' +
    'nascid[oa] em|nasci (?:em|a)|data de nascimento|geboortedatum|geboren op|urodzon[ya]|urodził[ae]?m? się|data urodzenia|дата рождения|родился|родилась|' +
    `född|født|syntynyt|doğum tarihi)${LINK}$`,
  'u',
)
const MONTH =
  '(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|märz|mai|okt|dez|févr|avr|juin|août|déc|ene|abr|ago|dic|gen|mag|giu|' +
  'lug|set|ott|fev|out|янв|фев|мар|апр|мая|июн|июл|авг|сен|окт|ноя|дек)[\\p{L}.]*'
const DATE = expression(
  `(?<!\\d)(?:\\d{1,2}([./ -])\\d{1,2}\\1(?:\\d{4}|\\d{2})|(?:19|20)\\d\\d([./-])\\d{1,2}\\2\\d{1,2}|` +
    `\\d{1,2}(?:st|nd|rd|th|\\.)?(?: of| de)? ${MONTH},? (?:de )?\\d{4}|${MONTH} \\d{1,2}(?:st|nd|rd|th)?,? \\d{4})(?!\\d)`,
  'gu',
)

const PLATE_LABEL = expression(
  "(?<![\\p{L}\\p{N}])(?:plate|plate number|plate no\\.?|kennzeichen|immatriculation|plaque d'immatriculation|matrícula|targa|" +
    `kenteken)${LINK}$`,
  'u',
)
const PLATE = expression(
  /(?<![\p{L}\p{N}])(?=[\p{L}\d -]{0,10}\d)(?=[\p{L}\d -]{0,10}\p{L})[A-ZÄÖÜ\d]{1,4}(?:[ -]?[A-Z\d]{1,4}){1,3}(?![\p{L}\p{N}])/gu,
)

const STREETS =
  'Street|St|Road|Rd|Avenue|Ave|Lane|Ln|Drive|Dr|Court|Ct|Boulevard|Blvd|Way|Close|Place|Pl|Square|Terrace|Crescent|Parkway|Circle'
const WORD = "[\\p{L}'’.-]{1,24}"
const HOMES = [
  expression(
    `(?<![\\p{L}\\p{N}])\\d{1,5}[a-zA-Z]?,? (?:${WORD} ){1,4}(?:${STREETS})(?!\\p{L})[^\\n]{1,48}?(?<![\\p{L}\\p{N}])` +
      '(?:[A-Z]{1,2}\\d[A-Z\\d]? ?\\d[A-Z]{2}|\\d{5}(?:-\\d{4})?|[A-Z]\\d[A-Z] ?\\d[A-Z]\\d|\\d{4})(?![\\p{L}\\p{N}])',
    'gu',
  ),
  expression(
    '(?<![\\p{L}\\p{N}])(?:\\p{Lu}[\\p{L}-]{0,40}(?:straße|strasse|str\\.|weg|platz|allee|gasse|ring|straat|laan|gatan|vägen|vej)|' +
      `(?:Calle|Via|Viale|Piazza|Corso|Rua|Avenida|Plaza|ul\\.|ulica) (?:${WORD} ){0,3}${WORD}),? ` +
      '(?:n\\.? ?)?\\d{1,4}[a-zA-Z]?,? (?:[A-Z]{1,2}-)?\\d{2,5}(?:[- ]\\d{2,3})? ?(?:[A-Z]{2} )?\\p{Lu}[\\p{L}-]+',
    'gu',
  ),
  expression(
    '(?<![\\p{L}\\p{N}])\\d{1,4}(?: ?bis| ?ter)?,? (?:rue|avenue|boulevard|place|chemin|allée|impasse|quai|cours) ' +
      '[^\\n\\d]{2,48}?\\d{5} \\p{Lu}[\\p{L}-]+',
    'gu',
  ),
]
const PLACE = expression(
  /(?<![\p{L}\p{N}.,-])-?(?:[0-8]?\d|90)\.\d{4,10}°?(?: ?[NS])?,\s{0,2}-?(?:1[0-7]\d|180|\d{1,2})\.\d{4,10}(?![\p{L}\p{N}])/gu,
)

// Cheap tests for words without which none of the above can match: parts of words, in any case.
const NAMED = expression(
  /name|called|patient|pa[cz]ien|applicant|employee|hei(?:ß|ss)e|appelle|pr[ée]nom|nom[: ]|nom[eb]|apellido|llamo|chiam|naam|heet|nazywam|imię|зовут|пациент|фамилия|имя|he(?:t|dd)er|adım/i,
)
const BORN = expression(
  /born|birth|dob|d\.o\.b|geb(?:o|urt|\.)|naiss|née? le|naci[dm]|nac[ií]|nasci[dmt]|nat[oa] il|urodz|рожд|родил|f[öø]d[td]|syntynyt|doğum/i,
)
const PLATED = expression(/plate|plaque|kennzeichen|immatricul|matr[íi]cula|targa|kenteken/i)
const HOUSED = expression(
  `\\b(?:${STREETS})\\b|(?:straße|strasse|str\\.|weg|platz|allee|gasse|ring|straat|laan|gatan|vägen|vej) |` +
    '\\b(?:Calle|Via|Viale|Piazza|Corso|Rua|Avenida|Plaza|ul\\.|ulica|rue|avenue|boulevard|place|chemin|impasse|quai|cours) ',
)
const PLACED = expression(/\d\.\d{4}/)

/**
 * Whether a text contains words of shapes. Much cheaper than `findShapes`.
 * @param digits whether the text has digits
 */
export function mayHaveShape(text: string, digits: boolean): boolean {
  if (NAMED.test(text) || BORN.test(text) || PLATED.test(text) || HOUSED.test(text)) return true
  return digits && PLACED.test(text)
}

/** Shapes in a line, in order. */
export function findShapes(line: string): Entity[] {
  const found: Entity[] = []
  const add = (label: string, start: number, length: number) =>
    found.push({ label, of: 'person', tier: 2, start, end: start + length })
  const lowered = line.toLowerCase()
  const lower = lowered.length === line.length ? lowered : line
  if (NAMED.test(lower)) {
    for (const { 0: words, index } of matchesOf(lower, NAME_LABEL)) {
      NAME.lastIndex = index + words.length
      const name = NAME.exec(line)
      if (name) add('PERSON', name.index, name[0].length)
    }
  }
  if (!/\d/.test(line)) return found
  const isAfter = (label: RegExp, index: number) =>
    label.test(lower.slice(Math.max(0, index - 40), index))
  if (BORN.test(lower)) {
    for (const { 0: date, index } of matchesOf(lower, DATE)) {
      if (isAfter(BORN_LABEL, index)) add('DATE_OF_BIRTH', index, date.length)
    }
  }
  if (PLATED.test(lower)) {
    for (const { 0: plate, index } of matchesOf(line, PLATE)) {
      if (isAfter(PLATE_LABEL, index)) add('LICENSE_PLATE', index, plate.length)
    }
  }
  if (HOUSED.test(line)) {
    for (const home of HOMES) {
      for (const { 0: address, index } of matchesOf(line, home))
        add('ADDRESS', index, address.length)
    }
  }
  if (PLACED.test(line)) {
    for (const { 0: place, index } of matchesOf(line, PLACE)) {
      add('COORDINATES', index, place.length)
    }
  }
  return found.sort((a, b) => a.start - b.start)
}
