/** `GET /v1/models`, `/v1/key`, `/v1/credits`: the catalog, and answers about the caller itself. */
import { toErrorBody } from '../../errors/errors.ts'
import { parsePico, usdJson } from '../../money/money.ts'
import type { Call, WireFormat } from '../../pipeline/pipeline.ts'
import { writeJson } from '../shared/write.ts'

/** A GET route: no body, and an answer that the gateway gives itself. */
export interface GetRoute {
  readonly path: string
  /** Whether it needs a key. */
  readonly authenticated: boolean
  readonly cacheControl: string
  /** The JSON text of the answer. */
  answer(call: Call): string | Promise<string>
}

/** The wire format of a GET route. Its only part is the JSON text. */
export function formatOf({ path, cacheControl }: GetRoute): WireFormat<never, string> {
  return {
    path,
    read: () => Promise.reject(new Error(`${path} takes no body`)),
    async write(call, reply, out) {
      call.headers['cache-control'] = cacheControl
      for await (const body of reply.parts) await writeJson(call, out, body)
    },
    writeError: (error) => {
      const { status, headers } = error
      return { status, headers, body: toErrorBody(error) }
    },
  }
}

/** The models that clients can use. Needs no key. */
export const models: GetRoute = {
  path: '/v1/models',
  authenticated: false,
  cacheControl: 'public, max-age=60',
  answer: (call) => call.runtime.catalog.listing,
}

/** Limits, spend and expiry of the key itself. */
export const key: GetRoute = {
  path: '/v1/key',
  authenticated: true,
  cacheControl: 'no-store',
  async answer({ key, account, entered, runtime }) {
    const { accounts, ledger, config } = runtime
    const spend = await ledger.key(account.id, key.id)
    const limits = accounts.effectiveLimits(key, entered.paid, config.defaults.freeTier)
    const cap = key.spendCap
    const left = cap ? parsePico(cap.usd) - spend[cap.scope] : 0n
    return JSON.stringify({
      data: {
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
      },
    })
  },
}

/** The balance of the key's account. */
export const credits: GetRoute = {
  path: '/v1/credits',
  authenticated: true,
  cacheControl: 'no-store',
  async answer({ account, runtime }) {
    const { balance, paid } = await runtime.ledger.account(account.id)
    return JSON.stringify({ data: { balance_usd: usdJson(balance), free_tier: !paid } })
  },
}
