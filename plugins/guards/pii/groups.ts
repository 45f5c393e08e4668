/** Finds numbers that are written in groups of digits and letters. */
import {
  isCalled,
  isIndianMobile,
  isInternational,
  isMobile,
  isNational,
  speaksOfPhones,
  type Range,
} from './contact.ts'
import { isPublicForm, isPublicNumber, OF_ORGANIZATIONS, OF_PERSONS } from './public.ts'
import { expression, matchesOf } from '../text/slices.ts'
import type { EntityClass } from './classes.ts'
import { BANK_NEAR, formsOf, nextForm, wholeWords, type Form } from './numbers.ts'

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
export function findNumbers(text: string, before: string, label: string, add: Add): void {
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
