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
  const { incoming, path, startedAt, answer, marks, made } = call
  const { decision, bill } = answer
  const { admission, target, request } = made
  const guards = decision?.summary()
  return {
    at: startedAt,
    requestId: call.id,
    method: incoming.method,
    origin: admission?.played ? 'play' : 'api',
    path,
    status: answer.status,
    code: answer.error?.code,
    limit: admission?.limit,
    outcome,
    stream: request?.stream,
    ms,
    admitMs: marks.admitMs,
    guardMs: marks.guardMs,
    firstMs: marks.firstMs,
    settledMs: marks.settledMs,
    account: admission?.account.id,
    key: admission?.key.id,
    model: target?.model.id,
    deployment: answer.deployment,
    usage: usageOf(call, 'model'),
    searches: usageOf(call, 'search')?.searches,
    bill,
    rate: admission?.entered?.rate,
    limits: admission && limitsInForce(admission.key, admission.account),
    guard: guards && (isMonitored(guards) ? 'monitored' : guards.outcome),
    rules: guards?.rules,
    decided: decision?.decided(),
    ...request?.labels,
    gateway: call.runtime.gatewayId,
    session: request?.session,
    userAgent: incoming.header('user-agent'),
    trace: call.trace,
    attempts: isPlain(answer) ? undefined : answer.attempts,
    questions: answer.questions,
    exchange: call.runtime.sinks && exchangeOf(call),
    retryCount: incoming.header('x-stainless-retry-count'),
    error: answer.error?.message,
  }
}

/** What sinks are told of request and answer. */
function exchangeOf(call: Call): Exchange | undefined {
  const { request, admission } = call.made
  // A route without an endpoint has no stage that reads a request.
  if (!request || !admission) return undefined
  return {
    policy: call.answer.decision && hashOf(admission.key.policy),
    request: call.endpoint.exchange?.(request.input),
    response: call.answer.exchange,
  }
}

/** What one source of the meter has consumed; undefined where it has none. */
function usageOf({ answer: { meter } }: Call, source: UsageLine['source']): Usage | undefined {
  return meter.find((line) => line.source === source)?.usage
}

/** Whether rules were violated that are only watched. */
function isMonitored({
  mode,
  rules,
}: ReturnType<NonNullable<Call['answer']['decision']>['summary']>) {
  return mode === 'monitor' && rules.length > 0
}

/** Whether the one deployment that was asked has answered. */
function isPlain({ attempts }: Call['answer']): boolean {
  return attempts.length === 1 && attempts[0]!.result === 'ok'
}

/** A call that runs, as a row of the request log: what is known of it so far. */
export function runningRow(call: Call): LogRow {
  return {
    ...rowOf(recordOf(call, 'completed', call.elapsedMs)),
    status: call.answer.status || null,
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
