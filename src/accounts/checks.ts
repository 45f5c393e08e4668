/** Checks of the members of accounts and keys; they are named as in the admin API and the configuration. */
import { InvalidRequest } from '../errors/errors.ts'
import { formatPico, MAX_AMOUNT, parsePico } from '../money/money.ts'

const ID = /^[a-z0-9_-]{1,64}$/
const NAME_LENGTH = 200
const NOTE_LENGTH = 1000
const COUNT = 'a whole number of at least 1'
const USD = `a decimal string such as "12.50", at most ${formatPico(MAX_AMOUNT)}`
const TAG = /^[A-Za-z0-9_.:-]{1,64}$/

/** Members that accounts and keys have both. */
interface Checked {
  readonly name?: string | undefined
  readonly rpm?: number | null | undefined
  readonly concurrency?: number | null | undefined
  readonly spendCap?: { readonly usd: string } | null | undefined
  readonly note?: string | null | undefined
}

/** @throws InvalidRequest for a value out of its bounds; null and absent members pass */
export function checkCommon({ name, rpm, concurrency, spendCap, note }: Checked): void {
  if (name !== undefined) checkName(name)
  need(rpm == null || isCount(rpm), 'rpm_limit', COUNT)
  need(concurrency == null || isCount(concurrency), 'concurrency_limit', COUNT)
  need(spendCap == null || isAmount(spendCap.usd), 'spend_cap.usd', USD)
  need(note == null || note.length <= NOTE_LENGTH, 'note', `at most ${NOTE_LENGTH} characters`)
}

/** @throws InvalidRequest for a tag with other characters, or more than 64 */
export function checkTag(tag: string | null | undefined): void {
  need(tag == null || TAG.test(tag), 'tag', '1 to 64 letters, digits, "_", ".", ":" or "-"')
}

/** @throws InvalidRequest for an empty or long name */
export function checkName(name: string): void {
  const length = name.trim().length
  need(length > 0 && length <= NAME_LENGTH, 'name', `a text of 1 to ${NAME_LENGTH} characters`)
}

/** @throws InvalidRequest for a malformed id */
export function checkId(id: string): void {
  need(isId(id), 'id', '1 to 64 lower-case letters, digits, "_" or "-"')
}

/** Whether a text can be the id of an account or a key. */
export function isId(id: string): boolean {
  return ID.test(id)
}

/** Whether a text is an amount of USD. */
export function isAmount(usd: string): boolean {
  try {
    return parsePico(usd) <= MAX_AMOUNT
  } catch {
    return false
  }
}

/** @throws InvalidRequest about a member, unless the condition holds. @param expected what would be right */
export function need(holds: boolean, param: string, expected: string): void {
  if (holds) return
  throw new InvalidRequest('invalid_value', `"${param}" has to be ${expected}.`, { param })
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 1
}
