/** A month of calls, written faster than the gateway would serve them. */
import { mkdir } from 'node:fs/promises'
import { createConsola } from 'consola'
import type { UserConfig } from '../../src/config/config.ts'
import { closeState, openState } from '../../src/gateway/open-state.ts'
import { formatPico, parsePico } from '../../src/money/money.ts'
import { DayFiles } from '../../src/observe/log/day-files.ts'
import { lineOf, type KnownCall } from '../../src/observe/record.ts'
import { CalledTables } from '../../src/observe/usage/called.ts'
import { openTables } from '../../src/observe/usage/work.ts'
import { requestId } from '../../src/state/ids.ts'
import type { Usage } from '../../src/plugin.ts'
import type { RowItem } from '../../src/state/ledger/ledger.ts'
import { loaded } from '../_setup.ts'
import { accountId, keyId } from './_directory.ts'

const DAYS = 30
const DAY_MS = 86_400_000
const BATCH = 4000
const BLOCKED = { mode: 'block', side: 'input', rule: 'pii:email', outcome: 'blocked' }

/** Calls, and who makes them. */
interface Month {
  readonly calls: number
  /** Accounts with calls, the first ones of the directory. */
  readonly accounts: number
  readonly keysOfEach: number
}

type LoggedConfig = UserConfig & { readonly log: { readonly path: string } }

/** A month of calls up to now in the ledger, in the request log, and in usage. */
export async function fillMonth(config: LoggedConfig, month: Month): Promise<void> {
  const today = Math.floor(Date.now() / DAY_MS)
  const ofDay = Math.ceil(month.calls / DAYS)
  await mkdir(config.log.path, { recursive: true })
  const state = await openState(loaded(config), createConsola({ level: 0 }))
  const tables = openTables(config.log.path)
  try {
    const called = new CalledTables(tables.db)
    let number = 0
    for (let day = today - DAYS + 1; day <= today; day++) {
      const bounds = { keep: 365, size: Number.MAX_SAFE_INTEGER }
      const files = new DayFiles(config.log.path, bounds, () => (day + 1) * DAY_MS - 1)
      const end = Math.min((day + 1) * DAY_MS, Date.now()) - day * DAY_MS
      for (let i = 0; i < ofDay; i += BATCH) {
        const some = Array.from({ length: Math.min(BATCH, ofDay - i) }, (_, j) =>
          callOf(month, number++, day * DAY_MS + Math.floor(((i + j) / ofDay) * end)),
        )
        files.store(some.map(lineOf).join('\n'))
        called.add(some)
        const { refused } = await state.ledger.import(
          some.filter(({ limited_by }) => limited_by === undefined).map(rowOf),
        )
        if (refused !== undefined) throw new Error(refused)
      }
      files.close()
    }
  } finally {
    tables.close()
    await closeState(state)
  }
}

function callOf({ accounts, keysOfEach }: Month, number: number, at: number): KnownCall {
  // Few accounts make most calls.
  const busy = Math.floor(accounts * (((number * 7919) % 10_007) / 10_007) ** 3)
  const account = accountId(busy)
  const isFailed = number % 50 === 0
  const isRefused = number % 50 === 1
  const isBlocked = number % 200 === 2
  const model = `vendor/model-${(busy * 13 + (number % 3)) % 50}`
  return {
    id: requestId(at),
    at: new Date(at).toISOString(),
    method: 'POST',
    endpoint: '/v1/chat/completions',
    status: isFailed ? 502 : isRefused ? 429 : 200,
    ...(isFailed && { code: 'upstream_error' }),
    ...(isRefused && { code: 'rate_limited', limited_by: 'key.rpm' }),
    outcome: isFailed || isRefused ? 'failed' : 'completed',
    guard: isBlocked
      ? { outcome: 'blocked', rules: ['pii:email'] }
      : { outcome: 'passed', rules: [] },
    ...(isBlocked && { decided: [BLOCKED] }),
    stream: number % 2 === 0,
    times: { first_ms: 50 + (number % 300), total_ms: 200 + (number % 900) },
    account_id: account,
    key_id: keyId(account, number % keysOfEach),
    model,
    deployment: `east/${model.slice(7)}`,
    usage: { prompt_tokens: 100 + (number % 900), completion_tokens: number % 400 },
    cost_usd: formatPico(isFailed || isRefused ? 0n : BigInt(1 + (number % 1000)) * 1_000_000n),
    agent: 'openai-node',
  }
}

function rowOf(call: KnownCall): RowItem {
  const { id, account_id, key_id, model, deployment, outcome, usage, cost_usd, endpoint } = call
  const at = Date.parse(call.at)
  return {
    kind: 'usage',
    account: account_id!,
    key: key_id!,
    request: id,
    day: call.at.slice(0, 10).replaceAll('-', ''),
    at,
    cost: parsePico(cost_usd!),
    usage: {
      at,
      endpoint,
      model: model!,
      deployment: deployment!,
      outcome: outcome!,
      lines: [{ source: 'model', usage: usageOf(usage!) }],
    },
  }
}

function usageOf({ prompt_tokens, completion_tokens }: NonNullable<KnownCall['usage']>): Usage {
  return { promptTokens: prompt_tokens!, completionTokens: completion_tokens! }
}
