import type { Gateway } from '../../gateway/gateway.ts'
import { Unavailable } from '../../errors/errors.ts'
import type { UsageQuestions } from '../../observe/usage/work.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import type { Condition, Outbox } from './resources/gateway.ts'
import { moment, momentOrNull } from './resources/settings.ts'
import { usdJson } from '../../money/money.ts'
import type { Settlement } from '../../state/ledger/ledger.ts'

/** The hour of each key's last charge by id, ms since epoch. Undefined where usage is not kept, or cannot be read. */
export async function lastUsed(
  { usage }: Runtime,
  keys: UsageQuestions['lastUsed']['ask'],
): Promise<ReadonlyMap<string, number> | undefined> {
  try {
    const uses = await usage?.ask('lastUsed', keys)
    return uses && new Map(uses.map(({ key, at }) => [key, at]))
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

export function outboxView({ runtime }: Gateway): Outbox {
  const { ok, outbox, oldestMs, why, since } = runtime.ledger.health()
  const outage = why !== undefined && since !== undefined && { why, since: moment(since) }
  return { ok, outbox, oldest_ms: oldestMs, ...outage }
}

export function conditionView(gateway: Gateway): Condition {
  const { config, alerts } = gateway.runtime
  return {
    state: config.state.driver,
    ledger: outboxView(gateway),
    alerts: alerts.active.map(({ kind, message }) => ({ kind, message })),
  }
}

/** A settlement that an operator has to decide about. */
export function quarantinedView({ request, account, key, cost, usage }: Settlement) {
  const { at, model } = usage
  const amount = { cost_usd: usdJson(cost) }
  return { request_id: request, account_id: account, key_id: key, at: moment(at), model, ...amount }
}

// Names of keys beside their ids, for people who read a list, a plot or a report.

/** The name of a key; null where it is unknown. */
type NameOf = (id: string | null) => string | null

/** Names of all keys; none while they cannot be read, because figures are shown without them. */
export async function keyNames({ accounts }: Runtime): Promise<NameOf> {
  try {
    const { keys } = await accounts.directory.view()
    return (id) => (id === null ? null : (keys.get(id)?.name ?? null))
  } catch (error) {
    if (error instanceof Unavailable) return () => null
    throw error
  }
}

export async function withNames<Row extends object>(runtime: Runtime, rows: readonly Row[]) {
  const nameOf = await keyNames(runtime)
  return rows.map((row) => ({
    ...row,
    key_name: nameOf((row as { readonly key_id?: string | null }).key_id ?? null),
  }))
}
