/** `GET /v1/key` and `/v1/credits`: answers about the caller itself. */
import { leastOfMoney, limitStatus, zoneOf } from '../../accounts/limits.ts'
import { ruleOf } from '../../state/ledger/zone.ts'
import type { Config } from '../../config/config.ts'
import { parsePico, usdJson } from '../../money/money.ts'
import type { HolderKey } from '../../server/admin/resources/key.ts'
import { simpleForm } from '../../server/admin/resources/limit.ts'
import type { GetRoute } from './route.ts'

export const key: GetRoute = {
  path: '/v1/key',
  authenticated: true,
  cacheControl: 'no-store',
  async answer({ admission, runtime }) {
    const { key, team, account } = admission
    const entered = admission.entered!
    const { ledger, config, answers } = runtime
    const zone = zoneOf(account, config.defaults)
    const spend = await ledger.key(account.id, key.id, ruleOf(zone))
    const limits = await limitStatus(ledger, { key, team, account }, config.defaults, entered.at)
    const lowest = (unit: string, window: string | null) => {
      const plain = limits.filter(
        (one) => one.unit === unit && one.window === window && !one.models,
      )
      return Math.min(...plain.map(({ value }) => Number(value)))
    }
    const cap = simpleForm(key).spendCap
    const data: HolderKey = {
      key_id: key.id,
      account_id: account.id,
      team_id: team?.id ?? null,
      free_tier: !entered.paid,
      spend_usd: usdJson(spend.lifetime),
      rpm_limit: lowest('requests', 'minute'),
      concurrency_limit: lowest('concurrent', null),
      spend_cap_usd: cap ? usdJson(parsePico(cap.usd)) : null,
      spend_cap_scope: cap?.scope ?? null,
      spend_remaining_usd: leastOfMoney(limits),
      expires_at: key.expiresAt === undefined ? null : new Date(key.expiresAt).toISOString(),
      time_zone: zone ?? 'UTC',
      limits,
      ...(answers && { answer_cache: key.cache ?? 'model' }),
      masking: runtime.guards.maskingFor(key.mask === true).length > 0,
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
    const { id, creditLimit } = admission.account
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
        ...(creditLimit !== undefined && { credit_limit_usd: usdJson(parsePico(creditLimit)) }),
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
