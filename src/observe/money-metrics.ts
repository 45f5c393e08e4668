/** Gauges of balances and spend, of those that spend most. */
import { formatPico, type Pico } from '../money/money.ts'
import type { KeySpend } from '../state/ledger/ledger.ts'
import { Counter, type MetricFamily } from './prometheus.ts'

/** What the gauges show. */
interface MoneyValues {
  readonly balances: readonly { readonly account: string; readonly balance: Pico }[]
  readonly keys: readonly {
    readonly key: string
    readonly spend: Pick<KeySpend, 'day' | 'month' | 'lifetime'>
    /** Of its cap; absent without one. */
    readonly remaining?: Pico
  }[]
}

const WINDOWS = ['day', 'month', 'lifetime'] as const

/** Nothing until it is set: the gauges are off by default. */
export class MoneyMetrics {
  #values: MoneyValues | undefined

  /** Replaces all values. */
  set(values: MoneyValues): void {
    this.#values = values
  }

  /** Shows nothing any more. */
  clear(): void {
    this.#values = undefined
  }

  /** The gauges with their present values; the ledger is the same for all workers. */
  families(): MetricFamily[] {
    if (!this.#values) return []
    const gauge = (name: string, help: string, labels: readonly string[]) =>
      new Counter({ name, help, labels }, 'gauge', 'max')
    const balances = gauge('sluicegate_account_balance_usd', 'Balance of an account.', ['account'])
    const spends = gauge('sluicegate_key_spend_usd', 'What a key has spent.', ['key', 'window'])
    const left = gauge('sluicegate_key_cap_remaining_usd', 'What is left of the cap.', ['key'])
    for (const { account, balance } of this.#values.balances) balances.add(usd(balance), account)
    for (const { key, spend, remaining } of this.#values.keys) {
      for (const window of WINDOWS) spends.add(usd(spend[window]), key, window)
      if (remaining !== undefined) left.add(usd(remaining), key)
    }
    return [balances.family(), spends.family(), left.family()]
  }
}

/** A gauge is a number; the exact amounts are in the ledger. */
function usd(amount: Pico): number {
  return Number(formatPico(amount))
}
