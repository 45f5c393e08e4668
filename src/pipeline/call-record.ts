/** Makes the record of a call, for logs and for those who watch it run. */
import { hash } from 'node:crypto'
import type { UsageLine } from '../money/money.ts'
import { rowOf, type CallRecord, type Exchange } from '../observe/record.ts'
import type { LogRow } from '../observe/log/query.ts'
import { limitsInForce } from '../accounts/limits.ts'
import type { Usage } from '../plugin.ts'
import type { Outcome } from '../state/ledger/ledger.ts'
import type { Call } from './pipeline.ts'
import type { Policy } from '../policy/policy.ts'

/** What is known of a call. @param ms since its arrival */
export function recordOf(call: Call, outcome: Outcome, ms: number): CallRecord {
  const { incoming, path, startedAt, decision, bill } = call
  const { account, key, model, request, labels, entered }: Partial<Call> = call
  const guards = decision?.summary()
  return {
    at: startedAt,
    requestId: call.id,
    method: incoming.method,
    origin: call.played ? 'play' : 'api',
    path,
    status: call.status,
    code: call.error?.code,
    limit: call.limit,
    outcome,
    stream: request?.stream,
    ms,
    admitMs: call.admitMs,
    guardMs: call.guardMs,
    firstMs: call.firstMs,
    settledMs: call.settledMs,
    account: account?.id,
    key: key?.id,
    model: model?.id,
    deployment: call.deployment,
    usage: usageOf(call, 'model'),
    searches: usageOf(call, 'search')?.searches,
    bill,
    rate: entered?.rate,
    limits: key && account && limitsInForce(key, account),
    guard: guards && (isMonitored(guards) ? 'monitored' : guards.outcome),
    rules: guards?.rules,
    decided: decision?.decided(),
    ...labels,
    gateway: call.runtime.gatewayId,
    session: request?.session,
    userAgent: incoming.header('user-agent'),
    trace: call.trace,
    attempts: isPlain(call) ? undefined : call.attempts,
    questions: call.questions,
    exchange: call.runtime.sinks && exchangeOf(call),
    retryCount: incoming.header('x-stainless-retry-count'),
    error: call.error?.message,
  }
}

/** What sinks are told of request and answer. */
function exchangeOf(call: Call): Exchange | undefined {
  const { key, request }: Partial<Call> = call
  // A route without an endpoint has no stage that reads a request.
  if (!request || !key) return undefined
  return {
    policy: call.decision && hashOf(key.policy),
    request: call.endpoint.exchange?.(request.input),
    response: call.answered,
  }
}

/** What one source of the meter has consumed; undefined where it has none. */
function usageOf({ meter }: Call, source: UsageLine['source']): Usage | undefined {
  return meter.find((line) => line.source === source)?.usage
}

/** Whether rules were violated that are only watched. */
function isMonitored({ mode, rules }: ReturnType<NonNullable<Call['decision']>['summary']>) {
  return mode === 'monitor' && rules.length > 0
}

/** Whether the one deployment that was asked has answered. */
function isPlain({ attempts }: Call): boolean {
  return attempts.length === 1 && attempts[0]!.result === 'ok'
}

/** A call that runs, as a row of the request log: what is known of it so far. */
export function runningRow(call: Call): LogRow {
  return {
    ...rowOf(recordOf(call, 'completed', call.elapsedMs)),
    status: call.status || null,
    outcome: null,
  }
}

// A short name for a policy, for logs and traces.

/** By policy object: that of a key is the same object for many calls. */
const hashes = new WeakMap<Policy, string>()

/** Equal for equal policies. */
export function hashOf(policy: Policy | undefined): string | undefined {
  if (!policy) return undefined
  let known = hashes.get(policy)
  if (known === undefined) {
    known = hash('sha256', JSON.stringify(policy)).slice(0, 16)
    hashes.set(policy, known)
  }
  return known
}
