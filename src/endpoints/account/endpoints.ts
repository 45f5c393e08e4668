/** `GET /v1/key` and `/v1/credits`: answers about the caller itself. */
import { limitsOfKey } from '../../accounts/accounts.ts'
import type { Config } from '../../config/config.ts'
import { parsePico, usdJson } from '../../money/money.ts'
import type { HolderKey } from '../../server/admin/resources/key.ts'
import type { GetRoute } from './route.ts'

export const key: GetRoute = {
  path: '/v1/key',
  authenticated: true,
  cacheControl: 'no-store',
  async answer({ admission, runtime }) {
    const { key, account } = admission
    const entered = admission.entered!
    const { accounts, ledger, config, answers } = runtime
    const [spend, [totals], rates] = await Promise.all([
      ledger.key(account.id, key.id),
      ledger.balances([account.id]),
      ledger.rates(account.id, key.id),
    ])
    const limits = accounts.effectiveLimits(key, entered.paid, config.defaults.freeTier)
    const cap = key.spendCap
    const left = cap ? parsePico(cap.usd) - spend[cap.scope] : 0n
    const data: HolderKey = {
      key_id: key.id,
      account_id: account.id,
      free_tier: !entered.paid,
      spend_usd: usdJson(spend.lifetime),
      rpm_limit: limits.rpm,
      concurrency_limit: limits.concurrency,
      spend_cap_usd: cap ? usdJson(parsePico(cap.usd)) : null,
      spend_cap_scope: cap?.scope ?? null,
      spend_remaining_usd: cap ? usdJson(left > 0n ? left : 0n) : null,
      expires_at: key.expiresAt === undefined ? null : new Date(key.expiresAt).toISOString(),
      limits: limitsOfKey({
        key,
        account,
        defaults: config.defaults.limits,
        freeTier: config.defaults.freeTier,
        spend,
        totals: totals!,
        rates,
        now: entered.at,
      }),
      ...(answers && { answer_cache: key.cache ?? 'model' }),
      tag: key.tag ?? null,
      log_content: takesContents(config) && key.logContent === true,
    }
    return JSON.stringify({ data })
  },
}

export const credits: GetRoute = {
  path: '/v1/credits',
  authenticated: true,
  cacheControl: 'no-store',
  async answer({ admission, runtime }) {
    const { id } = admission.account
    const { ledger } = runtime
    const [{ balance, paid }, [totals]] = await Promise.all([
      ledger.account(id),
      ledger.balances([id]),
    ])
    const used = totals!.spend.lifetime
    return JSON.stringify({
      data: {
        balance_usd: usdJson(balance),
        free_tier: !paid,
        // The same in the words of OpenRouter's clients.
        total_credits: usdJson(balance + used),
        total_usage: usdJson(used),
      },
    })
  },
}

/** Whether a configuration lets contents be kept, or passed to sinks, for keys that allow it. */
function takesContents({ log, telemetry, sinks }: Config): boolean {
  return log.content.enabled || (telemetry.content && sinks.length > 0)
}
