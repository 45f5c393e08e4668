import { hash } from 'node:crypto'
import type { Decision } from '../../guard/decision.ts'
import type { UsageLine } from '../../money/money.ts'
import type { CallRecord } from '../../observe/record.ts'
import type { Usage } from '../../plugin.ts'
import type { Outcome } from '../../state/ledger/ledger.ts'
import type { Call, Stage } from '../pipeline.ts'
import type { Policy } from '../../policy/policy.ts'

/** Counts the call while it runs, and makes one record of it when it has ended. */
export const trace: Stage = async function trace(call, next) {
  call.runtime.metrics.requestStarted()
  call.scope.defer(() => record(call))
  return next()
}

/** Writes the decision of the guards to log and metrics. */
function recordDecision(call: Call, decision: Decision, at: number): void {
  const { access, metrics } = call.runtime
  const { mode, outcome, rules } = decision.summary()
  if (decision.findings.length === 0) metrics.guard.decided('all', '', mode, outcome)
  if (access?.detailed) access.decided(decision.record(headOf(call, at)))
  else access?.decided({ at, requestId: call.id, mode, outcome, rules })
}

/** The call that a decision belongs to. */
function headOf(call: Call, at: number) {
  const { path, policy, key, account, model } = call
  return {
    at,
    requestId: call.id,
    account: account.id,
    key: key.id,
    endpoint: path,
    model: model.id,
    policyHash: hashOf(key.policy),
    requestPolicyHash: hashOf(call.request.policy),
    ignored: policy.ignored,
    cost: call.bill?.text,
  }
}

/** By policy object: that of a key is the same object for many calls. */
const hashes = new WeakMap<Policy, string>()

/** Equal for equal policies. */
function hashOf(policy: Policy | undefined): string | undefined {
  if (!policy) return undefined
  let known = hashes.get(policy)
  if (known === undefined) {
    known = hash('sha256', JSON.stringify(policy)).slice(0, 16)
    hashes.set(policy, known)
  }
  return known
}

function record(call: Call): void {
  const { runtime, path, startedAt, decision, bill } = call
  const { model }: Partial<Call> = call
  const ms = call.elapsedMs
  const usage = usageOf(call, 'model')
  const outcome = call.outcome ?? 'failed'
  runtime.metrics.requestEnded({
    endpoint: path,
    model: model?.label,
    outcome,
    code: call.error?.code,
    seconds: ms / 1000,
    cost: bill?.cost,
    promptTokens: usage?.promptTokens,
    completionTokens: usage?.completionTokens,
  })
  // Guards in monitor mode may take longer than the call.
  const looking = decision?.complete()
  if (looking) {
    looking
      .then(() => recordDecision(call, decision!, startedAt + call.elapsedMs))
      .catch((error: unknown) => call.report(error))
  } else if (decision) recordDecision(call, decision, startedAt + ms)
  const ended = recordOf(call, outcome, ms)
  runtime.access?.add(ended)
  runtime.requests?.add(ended)
  if (ended.account !== undefined && call.held) runtime.usage?.settled(ended.account)
}

/** What is known of a call. @param ms since its arrival */
export function recordOf(call: Call, outcome: Outcome, ms: number): CallRecord {
  const { incoming, path, startedAt, decision, bill } = call
  const { account, key, model, request, entered }: Partial<Call> = call
  const guards = decision?.summary()
  return {
    at: startedAt,
    requestId: call.id,
    method: incoming.method,
    path,
    status: call.status,
    code: call.error?.code,
    limit: call.limit,
    outcome,
    stream: request?.stream,
    ms,
    admitMs: call.admitMs,
    firstMs: call.firstMs,
    account: account?.id,
    key: key?.id,
    model: model?.id,
    deployment: call.deployment,
    usage: usageOf(call, 'model'),
    searches: usageOf(call, 'search')?.searches,
    bill,
    rate: entered?.rate,
    guard: guards?.outcome,
    rules: guards?.rules,
    session: request?.session,
    userAgent: incoming.header('user-agent'),
    attempts: isPlain(call) ? undefined : call.attempts,
    retryCount: incoming.header('x-stainless-retry-count'),
    error: call.error?.message,
  }
}

function usageOf({ meter }: Call, source: UsageLine['source']): Usage | undefined {
  return meter.find((line) => line.source === source)?.usage
}

/** Whether the one deployment that was asked has answered. */
function isPlain({ attempts }: Call): boolean {
  return attempts.length === 1 && attempts[0]!.result === 'ok'
}
