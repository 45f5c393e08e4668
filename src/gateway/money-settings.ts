import type { Config } from '../config/config.ts'
import type { Pico } from '../money/money.ts'
import type { UsageQuery } from '../observe/usage/question.ts'
import type { UsageIndex } from '../observe/usage/usage.ts'

export function moneySettings({ alerts, metrics }: Config): {
  readonly below: Pico
  readonly top: number | undefined
} {
  const top = metrics.money === false ? undefined : metrics.money.top
  return { below: alerts.balance, top }
}

export async function topSpenders(usage: UsageIndex | undefined, most: number) {
  if (!usage) return { accounts: [], keys: [] }
  const now = new Date()
  const ask = (group: 'account' | 'key'): UsageQuery => ({
    from: Date.UTC(now.getUTCFullYear(), now.getUTCMonth()),
    to: now.getTime() + 1,
    rollup: 'month',
    group: [group],
    filters: {},
    metric: 'cost_usd',
    top: most,
  })
  const { result } = await usage.ask('usage', { queries: [ask('account'), ask('key')] })
  const [accounts = [], keys = []] = result.map((answer) =>
    'fits' in answer ? [] : answer.cells.map(({ group }) => group[0]!).filter(Boolean),
  )
  return { accounts, keys }
}
