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
import { expression, matchesOf } from '../text/expressions.ts'
import { findNumbers } from './groups.ts'
import { isPlaceholder, isRole } from './public.ts'
import { ibanLength, isIban, type EntityClass } from './numbers.ts'

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
