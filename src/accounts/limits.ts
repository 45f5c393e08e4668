/** The limits of a key as operators and the holder of the key see them: what is used, and when that starts anew. */
import { formatPico, parsePico, usdJson } from '../money/money.ts'
import { windowEnd } from '../state/ledger/clock.ts'
import type { AccountTotals, FreeTierLimits, KeySpend } from '../state/ledger/ledger.ts'
import type { Account, Key } from './stored.ts'

/** One limit. `used` and `left` are null where the ledger does not tell, which is so for rates. */
interface LimitView {
  /** Such as `key.rpm`, `account.cap.month`, `tier.day`. */
  readonly limit: string
  /** A number of requests or calls; of a cap decimal text of USD. */
  readonly value: number | string
  /** Whose setting it is. */
  readonly source: 'key' | 'account' | 'default' | 'tier'
  readonly used: number | object | null
  readonly left: number | object | null
  /** When what is used counts no more, ISO 8601; null for one that does not start anew. */
  readonly resets_at: string | null
}

/** What {@link limitsOfKey} works with. */
interface LimitsOfKey {
  readonly key: Key
  readonly account: Account
  readonly defaults: { readonly rpm: number; readonly concurrency: number }
  readonly freeTier: FreeTierLimits
  readonly spend: KeySpend
  readonly totals: AccountTotals
  /** ms since epoch */
  readonly now: number
}

/** Every limit that applies to the calls of a key, the key's own first. */
export function limitsOfKey(given: LimitsOfKey): LimitView[] {
  const { key, defaults, freeTier, spend, totals, now } = given
  const own = (value: number | undefined) => (value === undefined ? 'default' : 'key')
  const tier: LimitView[] = totals.paid
    ? []
    : [
        rate('tier.rpm', 'tier', freeTier.rpm),
        { ...rate('tier.day', 'tier', freeTier.perDay), resets_at: endOf('day', now) },
        calls('tier.concurrency', 'tier', freeTier.concurrency, totals.spend),
      ]
  return [
    rate('key.rpm', own(key.rpm), key.rpm ?? defaults.rpm),
    calls('key.concurrency', own(key.concurrency), key.concurrency ?? defaults.concurrency, spend),
    ...caps('key', key, spend, now),
    ...limitsOfAccount(given.account, totals, now),
    ...tier,
  ]
}

/** The limits of an account over all its keys. @param now ms since epoch */
export function limitsOfAccount(
  account: Account,
  { spend }: AccountTotals,
  now: number,
): LimitView[] {
  const { rpm, concurrency } = account
  return [
    ...(rpm === undefined ? [] : [rate('account.rpm', 'account', rpm)]),
    ...(concurrency === undefined
      ? []
      : [calls('account.concurrency', 'account', concurrency, spend)]),
    ...caps('account', account, spend, now),
  ]
}

function rate(limit: string, source: LimitView['source'], value: number): LimitView {
  return { limit, value, source, used: null, left: null, resets_at: null }
}

function calls(
  limit: string,
  source: LimitView['source'],
  value: number,
  { inFlight }: KeySpend,
): LimitView {
  const left = Math.max(0, value - inFlight)
  return { limit, value, source, used: inFlight, left, resets_at: null }
}

function caps(
  source: 'key' | 'account',
  { spendCap }: Key | Account,
  spend: KeySpend,
  now: number,
): LimitView[] {
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
