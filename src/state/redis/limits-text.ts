/** Limits of a key or an account as a book stores them: text, above all that releases of a lower schema have written. */
import { SCHEMA, type KeyLimits } from '../ledger/ledger.ts'
import { readList, writeList } from '../ledger/limit-list.ts'

/** A number above every revision: these are counted up, or are ms since epoch. */
const REVISIONS = 100_000_000_000_000
export const LIFT = SCHEMA * REVISIONS

/**
 * A revision as it is stored and compared: above all those of a lower schema. To a gateway of a lower schema every key is stale then,
 * and its limits are out of date, so it admits no call by rules that it does not know.
 */
export function liftedRevision(revision: number): number {
  return LIFT + revision
}

/** Limits as a book stores them, `<revision>|<disabled>|<expiresAt>|<rpm>|<concurrency>|<list>`; {@link toLimits} reads them. */
export function toLimitsText(limits: KeyLimits, revision: number): string {
  const { disabled, expiresAt = '', rpm = '', concurrency = '' } = limits
  const members = [liftedRevision(revision), disabled ? 1 : 0, expiresAt, rpm, concurrency]
  return [...members, writeList(limits)].join('|')
}

/** The text of {@link toLimitsText} for a text of schema 8, `<revision>|…|<scope>|<amount>`; undefined for any other. */
export function liftedLimits(text: string): string | undefined {
  const [revision, disabled, expiresAt, rpm, concurrency, scope, amount] = text.split('|')
  if (Number(revision) >= REVISIONS) return undefined
  const list = scope ? `cap.${scope},${amount}` : ''
  const lifted = liftedRevision(Number(revision))
  return [lifted, disabled, expiresAt, rpm, concurrency, list].join('|')
}

/** Reads the text of {@link toLimitsText}. */
export function toLimits(text: string): { limits: KeyLimits; revision: number } {
  const lifted = liftedLimits(text) ?? text
  const [revision, disabled, expiresAt, rpm, concurrency, list = ''] = lifted.split('|')
  const limits: KeyLimits = {
    disabled: disabled === '1',
    ...(expiresAt && { expiresAt: Number(expiresAt) }),
    ...(rpm && { rpm: Number(rpm) }),
    ...(concurrency && { concurrency: Number(concurrency) }),
    ...readList(list),
  }
  return { limits, revision: Number(revision) - LIFT }
}
