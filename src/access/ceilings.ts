/** What members may choose for their own keys: at most what the place has for new keys. */
import { changedLimits, limitName } from '../accounts/limits.ts'
import type { Key, KeyChange } from '../accounts/stored.ts'
import { InvalidRequest } from '../errors/errors.ts'
import { isAllowed } from '../models/allowlist.ts'
import { parsePico } from '../money/money.ts'
import type { LimitEntry } from '../server/admin/resources/limit.ts'
import type { NewKeySettings } from '../server/admin/resources/team.ts'

/** A setting of a key that is wider than its place allows. */
interface Excess {
  readonly member:
    | 'limits'
    | 'rpm_limit'
    | 'concurrency_limit'
    | 'models'
    | 'deny_models'
    | 'expires_at'
  /** What it may be at most. */
  readonly message: string
}

/** The rate and the calls at once of keys that set none. */
interface UsualLimits {
  readonly rpm: number
  readonly concurrency: number
}

/** The settings of a key that are wider than those of its place for new keys. */
export function excessOf(key: Key, place: NewKeySettings = {}, usual: UsualLimits): Excess[] {
  return [...limitExcess(key, place, usual), ...modelExcess(key, place), ...timeExcess(key, place)]
}

/** The settings of a new key of a member, with the limits of its place that they leave out. */
export function withPlace(
  change: KeyChange,
  { limits: most = [] }: NewKeySettings = {},
): KeyChange {
  const { rpm, concurrency, spendCap, limits, ...rest } = change
  const simple = { rpm, concurrency, spendCap }
  if (limits && Object.values(simple).some((one) => one != null)) return change
  const listed = changedLimits({}, simple, 0)
  const own: readonly LimitEntry[] =
    limits ?? listed.map(({ unit, window, value }) => ({ unit, window, value }))
  const names = own.map(limitName)
  const left = most.filter((limit) => !names.includes(limitName(limit)))
  const all = [...own, ...left]
  return all.length === 0 ? change : { ...rest, limits: all }
}

/** @throws InvalidRequest for a key that a member would make wider than its place allows. @param before absent for a new key */
export function requireWithin(
  key: Key,
  before: Key | undefined,
  place: NewKeySettings | undefined,
  usual: UsualLimits,
): void {
  // What was wider before the place got its ceilings stays until it is changed.
  const former = before ? excessOf(before, place, usual).map(({ message }) => message) : []
  const wider = excessOf(key, place, usual).find(
    ({ member, message }) => !former.includes(message) || isChanged(key, before!, member),
  )
  if (!wider) return
  const { member, message } = wider
  throw new InvalidRequest('invalid_value', `Invalid '${member}': ${message}.`, { param: member })
}

function isChanged(key: Key, before: Key, member: Excess['member']): boolean {
  const of = ({ models, denyModels, expiresAt, ...one }: Key) => {
    if (member === 'models') return models
    if (member === 'deny_models') return denyModels
    return member === 'expires_at' ? expiresAt : one.limits
  }
  return JSON.stringify(of(key)) !== JSON.stringify(of(before))
}

function limitExcess(key: Key, { limits = [] }: NewKeySettings, usual: UsualLimits): Excess[] {
  const own = new Map((key.limits ?? []).map(({ name, value }) => [name, value]))
  const usualOf: Readonly<Record<string, number>> = { ...usual }
  const named = limits.map((limit) => [limitName(limit), limit] as const)
  const rest = (['rpm', 'concurrency'] as const)
    .filter((name) => named.every(([one]) => one !== name))
    .map((name) => [name, { value: usual[name] }] as const)
  return [...named, ...rest].flatMap(([name, { value }]) => {
    const has = own.get(name) ?? usualOf[name]
    if (has !== undefined && amountOf(has) <= amountOf(value)) return []
    const member = name === 'rpm' || name === 'concurrency' ? (`${name}_limit` as const) : 'limits'
    return [{ member, message: `the limit ${name} of such a key is at most ${value}` }]
  })
}

const amountOf = (value: LimitEntry['value']): bigint => parsePico(String(value))

function modelExcess({ models, denyModels }: Key, place: NewKeySettings): Excess[] {
  const { models: most, deny_models: least = [] } = place
  const isWider = most && (!models || models.some((entry) => !isAllowed(most, entry)))
  const missing = least.filter((entry) => !isAllowed(denyModels ?? [], entry))
  return [
    ...(isWider
      ? [{ member: 'models' as const, message: `such a key may use ${most.join(', ')}` }]
      : []),
    ...(missing.length > 0
      ? [
          {
            member: 'deny_models' as const,
            message: `such a key may not use ${missing.join(', ')}`,
          },
        ]
      : []),
  ]
}

function timeExcess({ expiresAt, createdAt }: Key, { expires_in }: NewKeySettings): Excess[] {
  if (expires_in === undefined) return []
  const most = createdAt + expires_in * 1000
  if (expiresAt !== undefined && expiresAt <= most) return []
  const message = `such a key ends at most ${expires_in} seconds after it was made, this one on ${new Date(most).toISOString()}`
  return [{ member: 'expires_at', message }]
}
