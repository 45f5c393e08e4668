/**
 * The limits of keys, teams and accounts. A record keeps a rate, a number at once and the first plain cap as members of their own,
 * the simple form, and further limits as a list; both spellings are read and written.
 */
import { hash } from 'node:crypto'
import { InvalidRequest } from '../errors/errors.ts'
import { formatPico, parsePico, usdJson, type Usd } from '../money/money.ts'
import {
  limitsIn,
  type Left,
  type Limit,
  type LimitEntry,
  type LimitMembers,
} from '../server/admin/resources/limit.ts'
import {
  ACCOUNT,
  teamKey,
  TIER,
  type CounterView,
  type FreeTierLimits,
  type Ledger,
  type LimitOwner,
  type RefusedLimit,
} from '../state/ledger/ledger.ts'
import { isKept, kindOf, nameOf } from '../state/ledger/limit-list.ts'
import type { CountedLimit } from '../state/ledger/ledger.ts'
import { boundsOf, type Window } from '../state/ledger/windows.ts'
import { firstMoment, momentIn, ruleOf } from '../state/ledger/zone.ts'
import type { Account } from '../server/admin/resources/account.ts'
import type { Key } from '../server/admin/resources/key.ts'
import type { Team } from '../server/admin/resources/team.ts'

/** The name of a limit without its owner. */
export function limitName({ unit, window, models, name }: LimitEntry & { name?: string }): string {
  if (name !== undefined) return name
  const digits = models ? hash('sha256', [...models].sort().join(',')).slice(0, 8) : ''
  return nameOf({ unit, ...(window && { window }) }, digits)
}

/** The members of a record for a list. @throws InvalidRequest for a list that says something twice, or has an impossible limit */
export function fromList(list: readonly LimitEntry[]): {
  -readonly [Name in 'rpm' | 'concurrency' | 'spendCap' | 'limits']: LimitMembers[Name] | null
} {
  checkList(list)
  const members: ReturnType<typeof fromList> = {
    rpm: null,
    concurrency: null,
    spendCap: null,
    limits: null,
  }
  const named = list.map((entry) => ({ ...entry, name: limitName(entry) }))
  const rest = named.filter((entry) => {
    const { name } = entry
    if (name === 'rpm') members.rpm = Number(entry.value)
    else if (name === 'concurrency') members.concurrency = Number(entry.value)
    else if (isKept(name) && !members.spendCap) {
      members.spendCap = { usd: String(entry.value), scope: entry.window as 'day' }
    } else return true
    return false
  })
  if (rest.length > 0) members.limits = rest
  return members
}

/** @throws InvalidRequest */
function checkList(list: readonly LimitEntry[]): void {
  for (const [i, entry] of list.entries()) {
    const fault = faultOf(entry)
    if (fault) throw new InvalidRequest('invalid_value', fault, { param: `limits[${i}]` })
  }
  checkNames(list)
}

/** @throws InvalidRequest for two limits of the same unit, window and models */
function checkNames(list: readonly LimitEntry[]): void {
  const names = list.map(limitName)
  for (const [i, name] of names.entries()) {
    const first = names.indexOf(name)
    if (first === i) continue
    const message = `limits[${first}] has the same unit, window and models.`
    throw new InvalidRequest('invalid_value', message, { param: `limits[${i}]` })
  }
}

function faultOf({ unit, window, value }: LimitEntry): string | undefined {
  if (unit === 'concurrent' && window) return 'A limit of calls at once has no window.'
  if (unit !== 'concurrent' && !window) return `A limit of ${unit} needs a window.`
  if (unit === 'usd' && window === 'minute') return 'There is no limit of USD a minute.'
  if (unit === 'requests' && window === 'lifetime') return 'There is no lifetime limit of requests.'
  return isValue(unit, value)
    ? undefined
    : unit === 'usd'
      ? 'The value has to be decimal text of USD above 0, such as "10.00". To refuse every call, disable the key or deny the models.'
      : 'The value has to be a whole number of at least 1. To refuse every call, disable the key or deny the models.'
}

function isValue(unit: LimitEntry['unit'], value: string | number): boolean {
  if (unit !== 'usd') return typeof value === 'number' && Number.isSafeInteger(value) && value >= 1
  try {
    return typeof value === 'string' && parsePico(value) > 0n
  } catch {
    return false
  }
}

/** A record whose limits have changed: it keeps raises, and the moment they were set, of those that stay. */
export function settled<One extends LimitMembers>(
  former: LimitMembers,
  next: One,
  now: number,
): One {
  checkNames(limitsIn(next))
  const plain = next.limits?.find((entry) => isKept(limitName(entry)))
  // The first plain cap is the one of the simple form.
  const promoted =
    !next.spendCap && plain
      ? {
          spendCap: { usd: String(plain.value), scope: plain.window as 'day' },
          limits: next.limits!.filter((entry) => entry !== plain),
        }
      : {}
  const one = { ...next, ...promoted }
  const names = new Set(limitsIn(one).map(limitName))
  const raises = Object.entries(one.raises ?? {}).filter(([name]) => names.has(name))
  const counted = countedOf(one).filter(({ id }) => !isKept(id))
  const since = counted.map(({ id }) => [id, former.since?.[id] ?? now] as const)
  const { raises: _, since: __, ...rest } = one
  return {
    ...rest,
    ...(one.limits && one.limits.length === 0 ? { limits: undefined } : {}),
    ...(raises.length > 0 && { raises: Object.fromEntries(raises) }),
    ...(since.length > 0 && { since: Object.fromEntries(since) }),
  } as One
}

/** The limits that the ledger counts. */
export function countedOf(record: LimitMembers): CountedLimit[] {
  const { spendCap, limits = [], raises } = record
  const list = limitsIn({ spendCap, limits })
  return list.map((entry) => {
    const id = limitName(entry)
    const raise = raises?.[id]
    return {
      id,
      value: amountOf(entry.unit, entry.value),
      ...(entry.models && { models: entry.models }),
      ...(raise && { raised: { value: amountOf(entry.unit, raise.value), until: raise.until } }),
    }
  })
}

function amountOf(unit: LimitEntry['unit'], value: string | number): bigint {
  return unit === 'usd' ? parsePico(String(value)) : BigInt(value)
}

const MOST_RAISE_MS = 400 * 86_400_000

/** A record with a raise of a limit. @throws InvalidRequest @param value null ends the raise */
export function raised<One extends LimitMembers>(
  record: One,
  name: string,
  { value, until }: { value: string | number | null; until: number | undefined },
  now: number,
): One {
  const entry = limitsIn(record).find((one) => limitName(one) === name)!
  const { [name]: _, ...others } = record.raises ?? {}
  if (value === null) return { ...record, raises: others }
  const invalid = (param: string, message: string) =>
    new InvalidRequest('invalid_value', message, { param })
  if (
    !isValue(entry.unit, value) ||
    amountOf(entry.unit, value) <= amountOf(entry.unit, entry.value)
  ) {
    throw invalid('value', `The value has to be above the present one, ${entry.value}.`)
  }
  if (until === undefined || !(until > now) || until > now + MOST_RAISE_MS) {
    throw invalid('until', 'The end has to be a moment in the next 400 days.')
  }
  return { ...record, raises: { ...others, [name]: { value, until } } }
}

// What a limit says: its name, and sentences about it.

/** The name of a limit with its owner. */
function ownedName(of: LimitOwner, name: string): `${LimitOwner}.${string}` {
  return of === 'tier' && name === 'requests.day' ? 'tier.day' : `${of}.${name}`
}

/** The same for metrics and records of calls: without the digits of its models. */
export function publicName(of: LimitOwner, name: string): `${LimitOwner}.${string}` {
  return ownedName(of, name.replace(/\.[0-9a-f]{8}$/, '.models'))
}

const OWNERS = {
  key: 'this key',
  team: 'this team',
  account: 'this account',
  tier: 'the free tier',
}
const WINDOWS = {
  minute: 'per minute',
  '5h': 'per 5 hours',
  day: 'a day',
  week: 'a week',
  month: 'a month',
  lifetime: '',
} satisfies Record<Window, string>
/** Models that a sentence names. */
const MOST_NAMED = 3

type Told = Pick<RefusedLimit, 'of' | 'unit' | 'value' | 'used'> &
  Partial<Omit<RefusedLimit, 'of' | 'unit' | 'value' | 'used'>>

/** Words such as "200 requests per 5 hours of this key for anthropic/*". */
function wordsOf({ of, unit, window, value, models, raisedUntil }: Told, zone?: string): string {
  const amount = amountText(unit, value)
  const many = value !== 1n
  const noun = {
    usd: 'USD',
    tokens: many ? 'tokens' : 'token',
    requests: many ? 'requests' : 'request',
    concurrent: many ? 'requests at once' : 'request at once',
  }[unit]
  const named = models?.slice(0, MOST_NAMED).join(', ')
  const more = models && models.length > MOST_NAMED ? ` and ${models.length - MOST_NAMED} more` : ''
  const isRaised = raisedUntil !== undefined
  return [
    `${amount} ${noun}`,
    ...(window && WINDOWS[window] ? [WINDOWS[window]] : []),
    `of ${OWNERS[of]}`,
    ...(named === undefined ? [] : [`for ${named}${more}`]),
    ...(isRaised ? [`(raised to ${amount} ${noun} until ${momentIn(zone, raisedUntil)})`] : []),
  ].join(' ')
}

function amountText(unit: RefusedLimit['unit'], value: bigint): string {
  return unit === 'usd' ? formatPico(value) : String(value)
}

/** Why a limit refuses a call. @param held whether what is left is set aside for running calls */
export function refusalText(limit: Told, zone?: string, held = false): string {
  const { unit, window, used } = limit
  const words = wordsOf(limit, zone)
  if (unit === 'concurrent') return `Limit of ${words} reached.`
  if (held) {
    return `What is left of the limit of ${words} is set aside for calls that are still running.`
  }
  if (window === 'minute') return `Rate limit of ${words} reached.`
  const { startsAt, resetsAt } = limitBounds(limit, zone)
  const since = startsAt === undefined ? '' : ` since ${momentIn(zone, startsAt)}`
  const counted = `${amountText(unit, used)}${unit === 'usd' ? ' USD' : ''} counted`
  const again =
    resetsAt === undefined
      ? 'It does not start anew.'
      : `It starts anew at ${momentIn(zone, resetsAt)}.`
  if (unit === 'usd' || window === 'lifetime') {
    return `The limit of ${words} is reached: ${counted}${since}. ${again}`
  }
  return `Limit of ${words} reached: ${counted}. ${again}`
}

/** First moment of the window of a limit, and of the next one. */
export function limitBounds(
  {
    window,
    current = '',
  }: { readonly window?: Window | undefined; readonly current?: string | undefined },
  zone?: string,
) {
  return boundsOf(window, current, (date) => firstMoment(zone, date))
}

/** The header `X-Service-Limit` of a refusal. */
export function limitHeader(limit: Told & { readonly name: string }, zone?: string): string {
  const { of, name, unit, value, used } = limit
  const { resetsAt } = limitBounds(limit, zone)
  return [
    ownedName(of, name),
    `unit=${unit}`,
    `value=${amountText(unit, value)}`,
    `used=${amountText(unit, used)}`,
    ...(resetsAt === undefined ? [] : [`resets=${momentIn(undefined, resetsAt)}`]),
  ].join('; ')
}

// Limits with their use, for operators and for the holder of a key.

/** A key with everything above it. */
export interface Chain {
  readonly key?: Key | undefined
  readonly team?: Team | undefined
  readonly account: Account
}

interface Settings {
  readonly limits: { readonly rpm: number; readonly concurrency: number }
  readonly freeTier: FreeTierLimits & { readonly perDay: number }
  readonly timeZone: string
}

/** The time zone of an account; undefined for UTC. */
export function zoneOf({ timeZone }: Account, { timeZone: byDefault }: Pick<Settings, 'timeZone'>) {
  const zone = timeZone ?? byDefault
  return zone === 'UTC' ? undefined : zone
}

/** Every limit along a chain, the lowest owner's first. */
export async function limitStatus(
  ledger: Ledger,
  { key, team, account }: Chain,
  defaults: Settings,
  now: number,
): Promise<Limit[]> {
  const zone = zoneOf(account, defaults)
  const rule = ruleOf(zone, now)
  const owners: [Exclude<LimitOwner, 'tier'>, string, LimitMembers][] = []
  if (key) owners.push(['key', key.id, { ...defaults.limits, ...present(key) }])
  if (team) owners.push(['team', teamKey(team.id), team])
  owners.push(['account', ACCOUNT, account])
  const list: Limit[] = []
  for (const [of, id, record] of owners) {
    const { rpm, concurrency } = record
    const source = (member: 'rpm' | 'concurrency') =>
      of === 'key' && key?.[member] === undefined ? 'default' : of
    if (rpm !== undefined) {
      const rates = await ledger.rates(account.id, id)
      list.push(rateStatus(of, source('rpm'), rpm, id === ACCOUNT ? rates.account : rates.key, now))
    }
    if (concurrency !== undefined) {
      const { inFlight } = await ledger.key(account.id, id)
      list.push(callStatus(of, source('concurrency'), concurrency, inFlight))
    }
    if (countedOf(record).length === 0) continue
    const views = await ledger.counters(account.id, id, rule)
    list.push(...views.map((view) => countedStatus(of, record, view, zone, now)))
  }
  const { paid } = await ledger.account(account.id)
  if (paid || !key) return list
  const { rpm, concurrency, perDay } = defaults.freeTier
  const rates = await ledger.rates(account.id, ACCOUNT)
  const { inFlight } = await ledger.key(account.id, ACCOUNT)
  const [day] = await ledger.counters(account.id, TIER, rule)
  const limit = { id: 'requests.day', value: BigInt(perDay) }
  const none = { current: '', used: 0n, held: 0n, reset: 0n }
  return [
    ...list,
    rateStatus('tier', 'tier', rpm, rates.account, now),
    countedStatus('tier', {}, { ...none, ...day, limit }, zone, now),
    callStatus('tier', 'tier', concurrency, inFlight),
  ]
}

/** What ends first: a limit of money for all models, the balance, or on the free tier the requests of the day. */
export async function leftOf(
  ledger: Ledger,
  account: string,
  limits: readonly Limit[],
): Promise<Left | null> {
  const { paid, balance, available } = await ledger.account(account)
  const money = limits.filter(({ unit, models }) => unit === 'usd' && !models)
  if (paid) {
    const left = usdJson(available > 0n ? available : 0n)
    const value = formatPico(balance)
    return least([...money, { limit: 'balance', unit: 'usd', value, left, resets_at: null }])
  }
  return least(limits.filter(({ limit }) => limit === 'tier.day'))
}

/** The one of which the least is left. */
function least(amounts: readonly Left[]): Left | null {
  // An amount is a number, or its digits as they stand in JSON.
  const amount = (one: Left) => parsePico(JSON.stringify(one.left))
  const [first, ...others] = amounts
  if (!first) return null
  const one = others.reduce((a, b) => (amount(b) < amount(a) ? b : a), first)
  const { limit, unit, value, left, resets_at } = one
  return { limit, unit, value, left, resets_at }
}

/** The least that is left of limits of money for all models; null where there are none. */
export function leastOfMoney(limits: readonly Limit[]): Usd | null {
  const one = least(limits.filter(({ unit, models }) => unit === 'usd' && !models))
  return one ? (one.left as Usd) : null
}

function present({ rpm, concurrency, ...rest }: Key): LimitMembers {
  return {
    ...rest,
    ...(rpm !== undefined && { rpm }),
    ...(concurrency !== undefined && { concurrency }),
  }
}

function rateStatus(
  of: LimitOwner,
  source: Limit['source'],
  value: number,
  { count, resetMs }: { readonly count: number; readonly resetMs: number },
  now: number,
): Limit {
  const resets_at = count === 0 ? null : new Date(now + resetMs).toISOString()
  const counts = { value, used: count, held: 0, left: Math.max(0, value - count) }
  const kind = { unit: 'requests', window: 'minute' } as const
  return { limit: `${of}.rpm`, ...kind, source, ...counts, starts_at: null, resets_at }
}

function callStatus(of: LimitOwner, source: Limit['source'], value: number, calls: number): Limit {
  const counts = { value, used: calls, held: 0, left: Math.max(0, value - calls) }
  const kind = { unit: 'concurrent', window: null } as const
  return {
    limit: `${of}.concurrency`,
    ...kind,
    source,
    ...counts,
    starts_at: null,
    resets_at: null,
  }
}

/** An amount of a limit for answers. */
export function shownValue(unit: RefusedLimit['unit'], amount: bigint) {
  return unit === 'usd' ? usdJson(amount) : Number(amount)
}

function countedStatus(
  of: LimitOwner,
  record: LimitMembers,
  { limit, current, used, held, reset }: CounterView,
  zone: string | undefined,
  now: number,
): Limit {
  const { unit, window } = kindOf(limit.id)
  const isRaised = limit.raised !== undefined && now < limit.raised.until
  const value = isRaised ? limit.raised!.value : limit.value
  const left = value - used - held
  const shown = (amount: bigint) => shownValue(unit, amount)
  const told = (amount: bigint) => (unit === 'usd' ? formatPico(amount) : Number(amount))
  const { startsAt, resetsAt } = limitBounds({ window, current }, zone)
  const since = record.since?.[limit.id]
  const iso = (at: number | undefined) => (at === undefined ? null : new Date(at).toISOString())
  return {
    limit: ownedName(of, limit.id),
    unit,
    window: window ?? null,
    ...(limit.models && { models: limit.models }),
    value: told(value),
    source: of,
    used: shown(used),
    held: shown(held),
    left: shown(left > 0n ? left : 0n),
    starts_at: iso(startsAt),
    resets_at: iso(resetsAt),
    ...(since !== undefined && since > (startsAt ?? 0) && { since: iso(since)! }),
    ...(isRaised && { raised: { from: told(limit.value), until: iso(limit.raised!.until)! } }),
    ...(reset > 0n && { reset: shown(reset) }),
  }
}
