/**
 * Finds personal data in one stretch of folded text. The result depends only on the stretch and the text shortly before
 * it, so it is the same for every way the text was split.
 */
import { mod731 } from './national.ts'
import {
  SPELLED_DIGITS,
  findEmails,
  findMachines,
  findSpelledEmails,
  findSpelledPhones,
  type Range,
  isCalled,
  isIndianMobile,
  isInternational,
  isMobile,
  isNational,
  speaksOfPhones,
  isPlaceholder,
  isRole,
  isPublicForm,
  isPublicNumber,
  OF_ORGANIZATIONS,
  OF_PERSONS,
} from './contact.ts'
import { expression, matchesOf } from '../text/slices.ts'
import type { EntityClass } from './classes.ts'
import {
  ibanLength,
  isIban,
  BANK_NEAR,
  formsOf,
  nextForm,
  wholeWords,
  type Form,
} from './numbers.ts'

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
  const ranked: Ranked[] = []
  const add = (label: string, of: EntityClass, { start, end }: Range, rank: number) => {
    if (!classes.has(of)) return
    const value = text.slice(start, end)
    if (of === 'email' && isPlaceholder(value)) return
    const tier = of === 'email' && isRole(value.split(/[@\s([<]/)[0]!) ? 3 : 1
    ranked.push({ label, of, tier, start, end, rank })
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
  return ranked.length > 1 ? withoutOverlaps(ranked) : ranked
}

interface Ranked extends Entity {
  /** The lower rank wins where two overlap. */
  readonly rank: number
}

function withoutOverlaps(entities: readonly Ranked[]): Entity[] {
  const kept: Entity[] = []
  const best = entities.toSorted(
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
  const ranges: Range[] = []
  for (const { 0: match, 1: first, 2: second, index } of matchesOf(text, IBAN)) {
    const length = ibanLength(`${first}${second}`.toUpperCase())
    if (length === undefined) continue
    let end = 0
    let compact = ''
    while (end < match.length && compact.length < length)
      compact += match[end++]!.replace(/[ ._-]/, '')
    const last = index + end
    if (compact.length < length || /^[\p{L}\p{N}]/u.test(text.slice(last))) continue
    if (isIban(compact.toUpperCase())) ranges.push({ start: index, end: last })
  }
  return ranges
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
  const entities: Entity[] = []
  const add = (label: string, start: number, length: number) =>
    entities.push({ label, of: 'person', tier: 2, start, end: start + length })
  const lowered = line.toLowerCase()
  const lower = lowered.length === line.length ? lowered : line
  if (NAMED.test(lower)) {
    for (const { 0: words, index } of matchesOf(lower, NAME_LABEL)) {
      NAME.lastIndex = index + words.length
      const name = NAME.exec(line)
      if (name) add('PERSON', name.index, name[0].length)
    }
  }
  if (!/\d/.test(line)) return entities
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
  return entities.sort((a, b) => a.start - b.start)
}

// Finds numbers that are written in groups of digits and letters.

/** Receives a candidate. Of overlapping candidates the one with the lowest rank wins. */
type Add = (label: string, of: EntityClass, range: Range, rank: number) => void

/** Most groups of a number, and most characters. */
const MAX_GROUPS = 9
const MAX_NUMBER = 34
const MAX_PHONE = 17
const SHORTEST_PHONE = 7
/** How far back a word may stand that names a number. */
const CONTEXT = 48
/** How far back a word may stand that makes it a number of something else. */
const NEAR = 24
const MAX_GAP = 3
/** Fewest digits of a number written apart. */
const SPACED = 8

const GROUP = expression(/\d+(?![\p{L}\p{N}])|[\p{L}\p{N}]+/gu)

const OTHER_NUMBERS = wholeWords(
  'isbn|issn|ean|upc|gtin|asin|sku|doi|order|orders|invoice|tracking|shipment|parcel|serial|ticket|model|version|part|commit|' +
    'item|product|article|booking|reservation|reference|case|confirmation|customer number|bestellnummer|rechnung|rechnungsnummer|auftrag|' +
    'bestellung|auftragsnummer|sendungsnummer|seriennummer|artikelnummer|vorgangsnummer|buchungsnummer|kundennummer|aktenzeichen|' +
    'commande|facture|suivi|colis|série|référence|réservation|dossier|pedido|factura|seguimiento|serie|referencia|reserva|expediente|' +
    'encomenda|rastreio|rastreamento|nota fiscal|protocolo|referência|ordine|fattura|spedizione|tracciamento|prenotazione|pratica|' +
    'bestelnummer|factuurnummer|serienummer|boekingsnummer|dossiernummer|zamówienie|zamówienia|faktury|przesyłki|seryjny|rezerwacji|' +
    'заказ|заказа|накладной|отправления|серийный|брони|бронирования|артикул|обращения|订单|运单|快递单|发票|序列号|货号|工单|预订|' +
    '注文|伝票|追跡|請求書|製造番号|品番|予約|受付|問い合わせ|주문|송장|운송장|청구서|일련|예약|접수|الطلب|طلب|الفاتورة|فاتورة|الشحنة|شحنة|' +
    'التتبع|تسلسلي|الحجز|حجز|ऑर्डर|इनवॉइस|बिल|ट्रैकिंग|सीरियल|बुकिंग|timestamp|population|build|revision|issue',
)
/** Such a word with nothing but words for "number" and "is" after it: the number is no telephone's, whatever else is said. */
const OTHER_LABEL = expression(
  `(?:${OTHER_NUMBERS.source})(?:\\s*(?:number|no\\.?|nr\\.?|nummer|numéro|número|numero|numer|номер|id|code|番号|번호|编号|号码|号|رقم|नंबर|संख्या|is|ist|est|es|è|é|to|は|는|은|是|है|[:：#=(]))*\\s*$`,
  'iu',
)

/**
 * Finds numbers.
 * @param text folded
 * @param before the text before, as far as it matters
 * @param label the start of the line, when it is further away
 */
function findNumbers(text: string, before: string, label: string, add: Add): void {
  const groups = new Groups(text, before, label)
  // Last group of a number of something else, no part of which is a telephone number.
  let otherUntil = -1
  for (let first = 0; first < groups.count; first++) {
    const isBeforeDigits = groups.reachesDigits(first)
    if (isBeforeDigits && first > otherUntil && OTHER_LABEL.test(groups.wordsBefore(first))) {
      otherUntil = first
      while (otherUntil + 1 < groups.count && groups.joins(otherUntil + 1)) otherUntil++
    }
    let length = 0
    let form = 0
    let isDigits = true
    let phone: Range | undefined
    let phoneRank = 0
    for (let last = first; last < groups.count && last < first + MAX_GROUPS; last++) {
      if (last > first && !groups.joins(last)) break
      const own = groups.lengthOf(last)
      length += own
      if (length > MAX_NUMBER) break
      form = nextForm(form, own)
      isDigits &&= groups.isDigits(last)
      if (!groups.endsAt(last)) continue
      const forms = groups.beginsAt(first) ? formsOf(form) : undefined
      if (forms) identify(groups, first, last, forms, add)
      if (first <= otherUntil || !isDigits || length < SHORTEST_PHONE || length > MAX_PHONE)
        continue
      const rank = phoneRankOf(groups, first, last)
      // The longest valid number wins.
      if (rank !== undefined && !isPublic(groups, first, last)) {
        phone = {
          start: groups.starts[first]! - groups.openedBefore(first),
          end: groups.ends[last]!,
        }
        phoneRank = rank
      }
    }
    if (phone) add('PHONE', 'phone', phone, phoneRank)
  }
}

/** Groups of letters and digits, and the separators between them. */
class Groups {
  readonly text: string
  readonly starts: number[] = []
  readonly ends: number[] = []
  readonly #before: string
  readonly #label: string
  readonly #isDigits: boolean[] = []
  /** The characters of each group. */
  readonly #texts: string[] = []
  #contextOf = -1
  #words = ''
  #isOther: boolean | undefined = undefined
  #isPhone: boolean | undefined = undefined
  #isOrganization: boolean | undefined = undefined

  constructor(text: string, before: string, label: string) {
    this.text = text
    this.#label = label
    this.#before = before
    for (const { 0: group, index } of matchesOf(text, GROUP)) {
      this.starts.push(index)
      this.ends.push(index + group.length)
      const code = group.charCodeAt(0)
      this.#isDigits.push(code > 47 && code < 58 && !/\D/.test(group))
      this.#texts.push(group)
    }
    this.#joinSpaced()
  }

  /** Many single digits with the same sign between them are one number, written apart. */
  #joinSpaced(): void {
    for (let first = 0; first < this.count; first++) {
      let last = first
      while (this.#goesOn(first, last + 1)) last++
      if (last - first + 1 < SPACED) continue
      const removed = last - first
      this.ends.splice(first, removed)
      this.starts.splice(first + 1, removed)
      this.#isDigits.splice(first + 1, removed)
      this.#texts.splice(first, removed + 1, this.#texts.slice(first, last + 1).join(''))
    }
  }

  #goesOn(first: number, index: number): boolean {
    const isDigit = (at: number) => this.#isDigits[at] === true && this.#texts[at]!.length === 1
    const gap = this.gap(index)
    return (
      isDigit(first) &&
      isDigit(index) &&
      gap.length === 1 &&
      gap === this.gap(first + 1) &&
      '._-* '.includes(gap)
    )
  }

  get count(): number {
    return this.starts.length
  }

  lengthOf(index: number): number {
    return this.#texts[index]!.length
  }

  isDigits(index: number): boolean {
    return this.#isDigits[index]!
  }

  /** Whether digits follow from a group on, without anything between that could not stand in a number. */
  reachesDigits(index: number): boolean {
    while (!this.#isDigits[index] && index + 1 < this.count && this.joins(index + 1)) index++
    return this.#isDigits[index]!
  }

  /** The characters of groups without separators. */
  compact(first: number, last: number): string {
    let compact = ''
    for (let i = first; i <= last; i++) compact += this.#texts[i]!
    return compact
  }

  /** The separator before a group; before the first group, with the text before. */
  gap(index: number): string {
    return this.text.slice(this.ends[index - 1] ?? 0, this.starts[index] ?? this.text.length)
  }

  /** Whether a group may continue the number of the group before. */
  joins(index: number): boolean {
    const [from, to] = [this.ends[index - 1]!, this.starts[index]!]
    if (to - from > MAX_GAP) return false
    for (let i = from; i < to; i++) if (!' .-/()_*'.includes(this.text[i]!)) return false
    return true
  }

  /** Whether a number may start with a group. It cannot start inside paths, decimals, amounts and longer numbers. */
  beginsAt(index: number): boolean {
    const start = this.starts[index]!
    const last = this.text[start - 1] ?? this.#before.at(-1) ?? ''
    if (last === ',') return index > 0 || !/\d,$/.test(this.#before)
    return last === '' || !'-./_~&%@+$€£¥'.includes(last)
  }

  /** Whether a number may end with a group. */
  endsAt(index: number): boolean {
    const end = this.ends[index]!
    const next = this.text[end]
    if (next === undefined) return true
    if (index + 1 === this.count) return next !== '%' && next !== '_'
    if (!'-./_~&%@'.includes(next)) return true
    const after = this.text[end + 1]
    return (next === '-' || next === '.') && (after === ' ' || after === ')' || after === '"')
  }

  /** Number of characters that open a telephone number before its first group: `+`, `(`. */
  openedBefore(index: number): number {
    const start = this.starts[index]!
    const bracket = this.text[start - 1] === '(' ? 1 : 0
    return this.text[start - 1 - bracket] === '+' ? bracket + 1 : bracket
  }

  /** Whether a `+` before a group belongs to a telephone number and not to an addition. */
  isPlused(index: number): boolean {
    const start = this.starts[index]! - this.openedBefore(index)
    if (this.text[start] !== '+') return false
    return !/[\p{L}\p{N}_]$/u.test(this.#before.slice(-2) + this.text.slice(0, start))
  }

  /** The words before a group, which may name a number. */
  wordsBefore(index: number): string {
    if (this.#contextOf !== index) {
      this.#contextOf = index
      const near = (this.#before + this.text.slice(0, this.starts[index])).slice(-CONTEXT)
      this.#words = this.#label === '' ? near : `${this.#label} … ${near}`
      this.#isOther = undefined
      this.#isPhone = undefined
      this.#isOrganization = undefined
    }
    return this.#words
  }

  /** Whether these words name a number of something else. */
  isOther(index: number): boolean {
    const words = this.wordsBefore(index)
    return (this.#isOther ??= OTHER_NUMBERS.test(words.slice(-NEAR)))
  }

  /** Whether these words announce a telephone number. */
  isPhone(index: number): boolean {
    const words = this.wordsBefore(index)
    return (this.#isPhone ??= speaksOfPhones(words))
  }

  /** Whether these words announce a number of an organization. */
  isOfOrganization(index: number): boolean {
    const words = this.wordsBefore(index)
    return (this.#isOrganization ??= OF_ORGANIZATIONS.test(words) && !OF_PERSONS.test(words))
  }

  /** Whether a group beside these has the same length and distance: a table, not a number. */
  isOneOfMany(first: number, last: number): boolean {
    if (first === last || this.gap(last) !== ' ') return false
    return this.#isAlike(first - 1, first) || this.#isAlike(last + 1, last)
  }

  #isAlike(index: number, own: number): boolean {
    return (
      this.#isDigits[index] === true &&
      this.lengthOf(index) === this.lengthOf(own) &&
      this.gap(Math.max(index, own)) === ' '
    )
  }
}

function identify(
  groups: Groups,
  first: number,
  last: number,
  forms: readonly Form[],
  add: Add,
): void {
  const compact = groups.compact(first, last)
  // Lower-case letters in several groups are words.
  if (first !== last && /\p{Ll}/u.test(compact)) return
  const upper = compact.toUpperCase()
  for (const { label, of, named, names, exists, separators } of forms) {
    if (!exists(upper) || !isSeparated(groups, first, last, separators)) continue
    const words = groups.wordsBefore(first)
    const isNamed = names.test(words)
    if (named && !isNamed) continue
    if (label === 'BANK_ACCOUNT' && !BANK_NEAR.test(words)) continue
    if (!isNamed) {
      if (groups.isOneOfMany(first, last)) continue
      if (of !== 'card' && groups.isOther(first)) continue
    }
    // A number in brackets needs its closing bracket.
    const closes = groups.text[groups.ends[last]!] === ')' && groups.gap(last) === '('
    const range = { start: groups.starts[first]!, end: groups.ends[last]! + (closes ? 1 : 0) }
    add(label, of, range, isNamed ? 1 : 2)
  }
}

function isSeparated(groups: Groups, first: number, last: number, separators: RegExp): boolean {
  for (let i = first + 1; i <= last; i++) if (!separators.test(groups.gap(i))) return false
  return true
}

/** Whether a telephone number is that of an organization, by its form or by what is said before it. */
function isPublic(groups: Groups, first: number, last: number): boolean {
  const compact = groups.compact(first, last)
  const abroad = groups.isPlused(first) || (last > first && compact.startsWith('00'))
  const digits = groups.isPlused(first) ? compact : compact.replace(abroad ? /^00/ : /^/, '')
  const written = groups.text.slice(groups.starts[first]!, groups.ends[last])
  if (isPublicNumber(digits, abroad) || isPublicForm(written)) return true
  return groups.isOfOrganization(first)
}

/** Rank of a telephone number; undefined when the groups are none. */
function phoneRankOf(groups: Groups, first: number, last: number): number | undefined {
  const compact = groups.compact(first, last)
  if (groups.isPlused(first)) {
    // `+44 (0)20`: the zero is dialled inside the country only.
    const hasTrunk =
      first < last &&
      groups.gap(first + 1).endsWith('(') &&
      groups.text[groups.starts[first + 1]!] === '0'
    const after = groups.lengthOf(first)
    const digits = hasTrunk ? compact.slice(0, after) + compact.slice(after + 1) : compact
    return isInternational(digits) ? 1 : undefined
  }
  if (!groups.beginsAt(first)) return undefined
  const start = groups.starts[first]! - (groups.text[groups.starts[first]! - 1] === '(' ? 1 : 0)
  const written = groups.text.slice(start, groups.ends[last])
  const before = groups.wordsBefore(first)
  if (groups.isPhone(first) && isCalled(written, compact, before)) return 1
  if (isMobile(written, compact, before) && !groups.isOther(first)) return 1
  if (last > first && compact.startsWith('00')) {
    return isInternational(compact.slice(2)) && !groups.isOther(first) ? 2 : undefined
  }
  const isSplit = last - first > 1 || (last - first === 1 && isIndianMobile(written))
  return isSplit && isNational(written, compact) && !groups.isOther(first) ? 3 : undefined
}
