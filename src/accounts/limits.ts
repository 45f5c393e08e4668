/** The limits of keys, teams and accounts: a list in their records, which is read and written in its simple form too. */
import { hash } from 'node:crypto'
import { InvalidRequest, NotFound } from '../errors/errors.ts'
import { formatPico, parsePico, usdJson, type Usd } from '../money/money.ts'
import {
  isSimple,
  MOST_LIMITS,
  simpleForm,
  type Left,
  type Limit,
  type LimitEntry,
  type LimitMembers,
  type LimitsChange,
  type StoredLimit,
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
export function limitName({ unit, window, models }: LimitEntry): string {
  const digits = models ? hash('sha256', [...models].sort().join(',')).slice(0, 8) : ''
  return nameOf({ unit, ...(window && { window }) }, digits)
}

/**
 * The limits of a record after a change. Those that stay keep their raise, where it is still one, and the moment they were set.
 * @throws InvalidRequest for both spellings in one change, an impossible limit, one that stands twice, and too many
 */
export function changedLimits(
  { limits: former = [] }: LimitMembers,
  change: LimitsChange,
  now: number,
): readonly StoredLimit[] {
  const { rpm, concurrency, spendCap, limits } = change
  const isByForm = [rpm, concurrency, spendCap].some((one) => one !== undefined)
  if (limits === undefined && !isByForm) return former
  if (limits !== undefined && isByForm) {
    const message =
      'Send "limits" or its simple form (rpm_limit, concurrency_limit, spend_cap), not both.'
    throw new InvalidRequest('invalid_value', message, { param: 'limits' })
  }
  if (limits) checkValues(limits)
  const list = limits === undefined ? withForm(former, change) : (limits ?? []).map(named)
  checkNames(list)
  const formerByName = new Map(former.map((one) => [one.name, one]))
  return list.map((entry) => {
    const { raised, since = now } = formerByName.get(entry.name) ?? {}
    const isHigher = raised && isAbove(entry, raised.value)
    return {
      ...entry,
      ...(isHigher && { raised }),
      ...(isCounted(entry) && !isKept(entry.name) && { since }),
    }
  })
}

/** A list after a change by its simple form: each member sets, replaces or removes one entry. */
function withForm(
  former: readonly StoredLimit[],
  { rpm, concurrency, spendCap }: LimitsChange,
): StoredLimit[] {
  const list = [...former]
  const put = (is: (one: StoredLimit) => boolean, entry: LimitEntry | null | undefined) => {
    if (entry === undefined) return
    const at = list.findIndex(is)
    list.splice(Math.max(at, 0), at < 0 ? 0 : 1, ...(entry ? [named(entry)] : []))
  }
  put(isSimple.spendCap, spendCap && { unit: 'usd', window: spendCap.scope, value: spendCap.usd })
  put(
    isSimple.concurrency,
    concurrency == null ? concurrency : { unit: 'concurrent', value: concurrency },
  )
  put(isSimple.rpm, rpm == null ? rpm : { unit: 'requests', window: 'minute', value: rpm })
  return list
}

function named(entry: LimitEntry): StoredLimit {
  return { ...entry, name: limitName(entry) }
}

/** Members that limit in records of earlier releases: the simple form beside the list, and raises and moments by name. */
interface FormerMembers extends LimitsChange {
  readonly raises?: Readonly<Record<string, NonNullable<StoredLimit['raised']>>>
  readonly since?: Readonly<Record<string, number>>
}

/** A record of an earlier release with its limits as one list. */
export function withLimitList<One extends LimitMembers>(stored: One & FormerMembers): One {
  const { rpm, concurrency, spendCap, raises, since, ...one } = stored
  if ((rpm ?? concurrency ?? spendCap ?? raises ?? since) === undefined) return stored
  const list = withForm((stored.limits ?? []).map(named), { rpm, concurrency, spendCap })
  const limits = list.map((entry) => {
    const [raised, at] = [raises?.[entry.name], since?.[entry.name]]
    return { ...entry, ...(raised && { raised }), ...(at !== undefined && { since: at }) }
  })
  return { ...one, limits } as unknown as One
}

/** @throws InvalidRequest */
function checkValues(list: readonly LimitEntry[]): void {
  for (const [i, entry] of list.entries()) {
    const fault = faultOf(entry)
    if (fault) throw new InvalidRequest('invalid_value', fault, { param: `limits[${i}]` })
  }
}

/** @throws InvalidRequest for two limits of the same unit, window and models, and for too many */
function checkNames(list: readonly StoredLimit[]): void {
  const names = list.map(({ name }) => name)
  if (names.length > MOST_LIMITS) {
    const message = `There would be ${names.length} limits: an owner has at most ${MOST_LIMITS}.`
    throw new InvalidRequest('invalid_value', message, { param: 'limits' })
  }
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

/** Whether the ledger counts it, as all but a rate and a number at once for all models. */
function isCounted(one: StoredLimit): boolean {
  return !isSimple.rpm(one) && !isSimple.concurrency(one)
}

/** The limits that the ledger counts. */
export function countedOf({ limits = [] }: LimitMembers): CountedLimit[] {
  return limits.filter(isCounted).map(({ name, unit, value, models, raised }) => ({
    id: name,
    value: amountOf(unit, value),
    ...(models && { models }),
    ...(raised && { raised: { value: amountOf(unit, raised.value), until: raised.until } }),
  }))
}

function amountOf(unit: LimitEntry['unit'], value: string | number): bigint {
  return unit === 'usd' ? parsePico(String(value)) : BigInt(value)
}

function isAbove({ unit, value }: LimitEntry, other: string | number): boolean {
  return amountOf(unit, other) > amountOf(unit, value)
}

const MOST_RAISE_MS = 400 * 86_400_000

/** A limit that can be raised and reset. @throws NotFound for an absent limit, InvalidRequest for one that is not counted */
export function limitOf(
  { id, limits = [] }: LimitMembers & { id: string },
  name: string,
): StoredLimit {
  const one = limits.find((limit) => limit.name === name)
  if (!one) {
    const names = limits.map((limit) => limit.name)
    const has = names.length === 0 ? 'It has none.' : `It has: ${names.join(', ')}.`
    throw new NotFound('not_found', `${id} has no limit ${JSON.stringify(name)}. ${has}`)
  }
  if (isCounted(one)) return one
  const message = `${name} without models is neither raised nor reset: change its value.`
  throw new InvalidRequest('unsupported_value', message, { param: 'name' })
}

/** A record with a raise of a limit. @throws InvalidRequest, NotFound. @param value null ends the raise */
export function raised<One extends LimitMembers & { id: string }>(
  record: One,
  name: string,
  { value, until }: { value: string | number | null; until: number | undefined },
  now: number,
): One {
  const { raised: _, ...entry } = limitOf(record, name)
  const put = (one: StoredLimit) => ({
    ...record,
    limits: record.limits!.map((limit) => (limit.name === name ? one : limit)),
  })
  if (value === null) return put(entry)
  const invalid = (param: string, message: string) =>
    new InvalidRequest('invalid_value', message, { param })
  if (!isValue(entry.unit, value) || !isAbove(entry, value)) {
    throw invalid('value', `The value has to be above the present one, ${entry.value}.`)
  }
  if (until === undefined || !(until > now) || until > now + MOST_RAISE_MS) {
    throw invalid('until', 'The end has to be a moment in the next 400 days.')
  }
  return put({ ...entry, raised: { value, until } })
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
  if (key) owners.push(['key', key.id, key])
  if (team) owners.push(['team', teamKey(team.id), team])
  owners.push(['account', ACCOUNT, account])
  const list: Limit[] = []
  for (const [of, id, record] of owners) {
    const own = simpleForm(record)
    const { rpm, concurrency } = of === 'key' ? { ...defaults.limits, ...own } : own
    const source = (member: 'rpm' | 'concurrency') => (own[member] === undefined ? 'default' : of)
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
  account: Pick<Account, 'id' | 'creditLimit'>,
  limits: readonly Limit[],
): Promise<Left | null> {
  const { paid, balance, available } = await ledger.account(account.id)
  const money = limits.filter(({ unit, models }) => unit === 'usd' && !models)
  if (paid) {
    const credit = parsePico(account.creditLimit ?? '0')
    const most = available + credit
    const left = usdJson(most > 0n ? most : 0n)
    const value = formatPico(balance + credit)
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
  const amountOf = (amount: bigint) => (unit === 'usd' ? formatPico(amount) : Number(amount))
  const { startsAt, resetsAt } = limitBounds({ window, current }, zone)
  const since = record.limits?.find(({ name }) => name === limit.id)?.since
  const iso = (at: number | undefined) => (at === undefined ? null : new Date(at).toISOString())
  return {
    limit: ownedName(of, limit.id),
    unit,
    window: window ?? null,
    ...(limit.models && { models: limit.models }),
    value: amountOf(value),
    source: of,
    used: shown(used),
    held: shown(held),
    left: shown(left > 0n ? left : 0n),
    starts_at: iso(startsAt),
    resets_at: iso(resetsAt),
    ...(since !== undefined && since > (startsAt ?? 0) && { since: iso(since)! }),
    ...(isRaised && { raised: { from: amountOf(limit.value), until: iso(limit.raised!.until)! } }),
    ...(reset > 0n && { reset: shown(reset) }),
  }
}
