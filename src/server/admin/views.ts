import { limitsOfAccount } from '../../accounts/limits.ts'
import type { Account, Key } from '../../accounts/stored.ts'
import { isAllowed, MAX_CANDIDATES } from '../../models/allowlist.ts'
import type { Model } from '../../models/catalog.ts'
import { versionOf } from '../../money/prices.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import { coverageWarnings } from '../../guard/policy-check.ts'
import { ACCOUNT, type LedgerRow, type Orphan } from '../../state/ledger/ledger.ts'
import { usdJson } from '../../money/money.ts'
import { Unavailable } from '../../errors/errors.ts'
import type { UsageQuestions } from '../../observe/usage/messages.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import type { Usage } from '../../plugin.ts'
import { policyWarnings, tighten } from '../../policy/policy.ts'
import type { Routing } from '../../models/routing.ts'
import { accountView } from './resources/account.ts'
import type { Outbox, Status } from './resources/gateway.ts'
import { keyView } from './resources/key.ts'
import type { LedgerEntry } from './resources/ledger.ts'
import { deploymentView } from './resources/model.ts'
import { moment, momentOrNull } from './resources/settings.ts'

/** Most running calls in the status. */
const SHOWN_CALLS = 100

export async function wholeAccount({ ledger, accounts }: Runtime, account: Account) {
  const [totals] = await ledger.balances([account.id])
  const rates = await ledger.rates(account.id, ACCOUNT)
  const keys = await accounts.listKeys(account.id)
  return accountView(
    account,
    totals!,
    {},
    {
      limits: limitsOfAccount(account, totals!, rates, Date.now()),
      keys: keys.map(({ id }) => id),
      key_count: keys.filter(({ archivedAt }) => archivedAt === undefined).length,
    },
  )
}

/** A key with its settings, and warnings about settings without effect. */
export async function wholeKey(runtime: Runtime, key: Key) {
  const spend = await runtime.ledger.key(key.account, key.id)
  return { ...keyView(key, spend, {}), warnings: await warningsOf(key, runtime) }
}

/** The hour of each key's last charge by id, ms since epoch. Undefined where usage is not kept, or cannot be read. */
export async function lastUsed(
  { usage }: Runtime,
  keys: UsageQuestions['lastUsed']['ask'],
): Promise<ReadonlyMap<string, number> | undefined> {
  try {
    const found = await usage?.ask('lastUsed', keys)
    return found && new Map(found.map(({ key, at }) => [key, at]))
  } catch (error) {
    // Keys are shown also while their usage cannot be read.
    if (error instanceof Unavailable) return undefined
    throw error
  }
}

/** The last use of a key as text; null where it is unknown. */
export function lastUsedAt(
  used: ReadonlyMap<string, number> | undefined,
  key: string,
): string | null {
  return momentOrNull(used?.get(key))
}

/**
 * A row of the ledger. `amount_usd` is its effect on the balance: the rows of an account add up to its balance, unless some
 * were folded.
 */
export function rowView({
  seq,
  kind,
  request,
  key,
  at,
  cost,
  usage,
  note,
}: LedgerRow): LedgerEntry {
  const isBooking = kind === 'top-up' || kind === 'adjust'
  return {
    seq,
    kind,
    ...(isBooking ? { reference: request } : { request_id: request, key_id: key }),
    at: moment(at),
    amount_usd: usdJson(-cost),
    ...(kind === 'adjust' ? { reason: note } : { note }),
    usage: usage && {
      at: moment(usage.at),
      endpoint: usage.endpoint,
      model: usage.model,
      deployment: usage.deployment,
      outcome: usage.outcome,
      tag: usage.tag,
      user: usage.user,
      gateway: usage.gateway,
      lines: usage.lines.map(({ source, usage, prices, tier }) => ({
        source,
        ...quantities(usage),
        prices,
        tier,
      })),
      charged: usage.charged,
    },
  }
}

export function orphanView({ account, key, request, at }: Orphan) {
  return { request_id: request, account_id: account, key_id: key, at: moment(at) }
}

export function outboxView({ runtime }: Gateway): Outbox {
  const { ok, outbox, oldestMs } = runtime.ledger.health()
  return { ok, outbox, oldest_ms: oldestMs }
}

/** A model with its deployments and their health. @param model of the present catalog */
export function modelView(model: Model, routing: Routing) {
  const [change] = model.priceChanges
  return {
    id: model.id,
    aliases: model.aliases,
    modality: model.modality,
    free_tier: model.freeTier,
    pricing: model.pricing,
    price_version: versionOf(model.prices),
    price_source: model.priceSource,
    next_price_change: change
      ? {
          from: moment(change.from),
          pricing: change.pricing,
          price_version: versionOf(change.prices),
        }
      : null,
    capabilities: model.capabilities ? [...model.capabilities] : null,
    deployments: model.deployments.map((one) =>
      deploymentView(one, routing.healthOf(one).report()),
    ),
  }
}

export function statusView(gateway: Gateway): Status {
  const { runtime, startedAt, version, running } = gateway
  const now = Date.now()
  return {
    version,
    node: process.versions.node,
    started_at: moment(startedAt),
    uptime_seconds: Math.floor((now - startedAt) / 1000),
    state: runtime.config.state.driver,
    ledger: outboxView(gateway),
    memory_bytes: process.memoryUsage.rss(),
    alerts: runtime.alerts.active.map(({ kind, message }) => ({ kind, message })),
    running: running.size,
    calls: [...running].slice(0, SHOWN_CALLS).map(({ id, path, made, elapsedMs }) => ({
      request_id: id,
      path,
      account_id: made.admission?.account.id ?? null,
      key_id: made.admission?.key.id ?? null,
      model: made.target?.model.id ?? null,
      seconds: elapsedMs / 1000,
    })),
  }
}

async function warningsOf(
  { models, policy }: Key,
  { catalog, guards }: Runtime,
): Promise<string[]> {
  const unknown = (models ?? []).filter(
    (entry) =>
      !catalog.get(entry) &&
      !Object.hasOwn(catalog.naming.wildcards, entry) &&
      catalog.all().every(({ id }) => !isAllowed([entry], id)),
  )
  return [
    ...unknown.map((entry) => {
      const several = catalog.candidates(entry)
      if (several.length > 0) {
        return `several models are called ${JSON.stringify(entry)}: ${several.slice(0, MAX_CANDIDATES).join(', ')}`
      }
      const meant = catalog.suggest(entry)
      const hint = meant === undefined ? '' : `; did you mean ${JSON.stringify(meant)}?`
      return `the catalog has no model ${JSON.stringify(entry)}${hint}`
    }),
    ...(policy ? await policyWarnings(policy) : []),
    ...(await coverageWarnings(guards, tighten(policy, undefined))),
  ]
}

function quantities(usage: Usage): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(usage).map(([name, count]) => [
      name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      count,
    ]),
  )
}
