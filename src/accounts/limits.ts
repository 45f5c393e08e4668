/** The limits of a key: for the ledger, for operators and for the holder of the key. */
import { formatPico, parsePico, usdJson } from '../money/money.ts'
import { windowEnd } from '../state/ledger/book.ts'
import type {
  AccountTotals,
  FreeTierLimits,
  KeySpend,
  RatesUsed,
  RateUse,
} from '../state/ledger/ledger.ts'
import type { Limit } from '../server/admin/resources/limit.ts'
import type { Account, Key } from './stored.ts'

interface LimitsOfKey {
  readonly key: Key
  readonly account: Account
  readonly defaults: { readonly rpm: number; readonly concurrency: number }
  readonly freeTier: FreeTierLimits
  readonly spend: KeySpend
  readonly totals: AccountTotals
  readonly rates: RatesUsed
  /** ms since epoch */
  readonly now: number
}

/** Every limit that applies to the calls of a key, the key's own first. */
export function limitsOfKey(given: LimitsOfKey): Limit[] {
  const { key, defaults, freeTier, spend, totals, rates, now } = given
  const own = (value: number | undefined) => (value === undefined ? 'default' : 'key')
  const tier: Limit[] = totals.paid
    ? []
    : [
        rate('tier.rpm', 'tier', freeTier.rpm, rates.account, now),
        {
          ...counted('tier.day', 'tier', freeTier.perDay, rates.today),
          resets_at: endOf('day', now),
        },
        calls('tier.concurrency', 'tier', freeTier.concurrency, totals.spend),
      ]
  return [
    rate('key.rpm', own(key.rpm), key.rpm ?? defaults.rpm, rates.key, now),
    calls('key.concurrency', own(key.concurrency), key.concurrency ?? defaults.concurrency, spend),
    ...caps('key', key, spend, now),
    ...limitsOfAccount(given.account, totals, rates, now),
    ...tier,
  ]
}

/** Limits of the account with which a key was last seen. Records of both are replaced, never changed. */
const inForce = new WeakMap<
  Key,
  { readonly account: Account; readonly limits: LimitsInForce | undefined }
>()

type LimitsInForce = Readonly<Record<string, number | string>>

/** Limits of a key and its account beside their rates, by names such as `key.cap.month`; undefined where there are none. */
export function limitsInForce(key: Key, account: Account): LimitsInForce | undefined {
  const cached = inForce.get(key)
  if (cached?.account === account) return cached.limits
  const of = (name: string, { concurrency, spendCap }: Key | Account) => ({
    ...(concurrency !== undefined && { [`${name}.concurrency`]: concurrency }),
    ...(spendCap && { [`${name}.cap.${spendCap.scope}`]: spendCap.usd }),
  })
  const all = { ...of('key', key), ...of('account', account) }
  const limits = Object.keys(all).length > 0 ? all : undefined
  inForce.set(key, { account, limits })
  return limits
}

export function limitsOfAccount(
  account: Account,
  { spend }: AccountTotals,
  rates: RatesUsed,
  now: number,
): Limit[] {
  const { rpm, concurrency } = account
  return [
    ...(rpm === undefined ? [] : [rate('account.rpm', 'account', rpm, rates.account, now)]),
    ...(concurrency === undefined
      ? []
      : [calls('account.concurrency', 'account', concurrency, spend)]),
    ...caps('account', account, spend, now),
  ]
}

function rate(
  limit: string,
  source: Limit['source'],
  value: number,
  { count, resetMs }: RateUse,
  now: number,
): Limit {
  const resets_at = count === 0 ? null : new Date(now + resetMs).toISOString()
  return { ...counted(limit, source, value, count), resets_at }
}

function counted(limit: string, source: Limit['source'], value: number, used: number): Limit {
  return { limit, value, source, used, left: Math.max(0, value - used), resets_at: null }
}

function calls(
  limit: string,
  source: Limit['source'],
  value: number,
  { inFlight }: KeySpend,
): Limit {
  return counted(limit, source, value, inFlight)
}

function caps(
  source: 'key' | 'account',
  { spendCap }: Key | Account,
  spend: KeySpend,
  now: number,
): Limit[] {
  if (!spendCap) return []
  const { scope } = spendCap
  const cap = parsePico(spendCap.usd)
  const used = spend[scope]
  return [
    {
      limit: `${source}.cap.${scope}`,
      value: formatPico(cap),
      source,
      used: usdJson(used),
      left: usdJson(used < cap ? cap - used : 0n),
      resets_at: endOf(scope, now),
    },
  ]
}

function endOf(scope: 'lifetime' | 'day' | 'month', now: number): string | null {
  const { resetsAt } = windowEnd(scope, now)
  return resetsAt === undefined ? null : new Date(resetsAt).toISOString()
}
