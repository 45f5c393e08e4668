/** Makes the record of a call, for logs and for watchers of running calls. The one place that reads a call for it. */
import { hash } from 'node:crypto'
import { limitsInForce } from '../accounts/accounts.ts'
import type { UsageLine } from '../money/money.ts'
import {
  agentOf,
  costDetails,
  fitText,
  quantitiesOf,
  retriesOf,
  sessionHash,
  type Attempt,
  type KnownCall,
  type Question,
} from '../observe/record.ts'
import type { Usage } from '../plugin.ts'
import type { Policy } from '../policy/policy.ts'
import type { Outcome } from '../state/ledger/ledger.ts'
import type { Call } from './pipeline.ts'

/** @param outcome absent while it runs. @param ms since its arrival */
export function recordOf(call: Call, outcome: Outcome | undefined, ms: number): KnownCall {
  const { incoming, answer, marks, made } = call
  const { bill, error, status, decision } = answer
  const { admission, request, target } = made
  const usage = usageOf(call, 'model')
  const rate = admission?.entered?.rate
  const told = call.runtime.sinks && request && admission ? toldOf(call) : undefined
  return {
    id: call.id,
    at: new Date(call.startedAt).toISOString(),
    method: incoming.method,
    endpoint: call.path,
    account_id: admission?.account.id,
    key_id: admission?.key.id,
    model: target?.model.id,
    deployment: answer.deployment,
    status: outcome === undefined ? status || undefined : status,
    code: error?.code,
    limited_by: admission?.limit,
    outcome,
    stream: request?.stream,
    times: {
      admit_ms: marks.admitMs,
      guard_ms: marks.guardMs,
      first_ms: marks.firstMs,
      settled_ms: marks.settledMs,
      total_ms: ms,
    },
    usage: quantitiesOf(usage, usageOf(call, 'search')?.searches),
    estimated: usage?.estimated,
    cost_usd: bill?.text,
    cost_details: bill && costDetails(bill),
    rate: rate && { limit: rate.limit, left: rate.remaining },
    limits: admission && limitsInForce(admission.key, admission.account),
    guard: guardOf(call),
    decided: decision?.decided(),
    ...request?.labels,
    gateway: call.runtime.gatewayId,
    origin: admission?.played ? 'play' : 'api',
    session: sessionHash(request?.session),
    agent: agentOf(incoming.header('user-agent')),
    attempts: isPlain(answer) ? undefined : answer.attempts.map(attemptOf),
    questions: answer.questions?.map(questionOf),
    retry: retriesOf(incoming.header('x-stainless-retry-count')),
    error: error && fitText(error.message),
    trace: call.trace,
    ...told,
  }
}

export function runningRow(call: Call): KnownCall {
  return recordOf(call, undefined, call.elapsedMs)
}

/** Members for sinks alone: parameters of the request, and the end of the answer. */
function toldOf(call: Call): Pick<KnownCall, 'request' | 'response'> {
  const answered = call.answer.exchange
  return {
    request: call.endpoint.exchange?.(call.request.input),
    response: answered && {
      id: answered.id === undefined ? undefined : fitText(answered.id),
      model: answered.model === undefined ? undefined : fitText(answered.model),
      finish_reasons: answered.finish_reasons.slice(0, MOST_REASONS).map((one) => fitText(one)),
    },
  }
}

/** Answers with more choices than these are rare. */
const MOST_REASONS = 32

/** The consumption of one source of the meter; undefined where it has none. */
function usageOf({ answer: { meter } }: Call, source: UsageLine['source']): Usage | undefined {
  return meter.find((line) => line.source === source)?.usage
}

function guardOf({ answer: { decision }, runtime, admission }: Call): KnownCall['guard'] {
  if (!decision) return undefined
  const { mode, outcome, rules } = decision.summary()
  const isMonitored = mode === 'monitor' && rules.length > 0
  return {
    outcome: isMonitored ? 'monitored' : outcome,
    rules: rules.map((rule) => fitText(rule)),
    policy: runtime.sinks && hashOf(admission.key.policy),
  }
}

/** Whether the one deployment that was asked has answered. */
function isPlain({ attempts }: Call['answer']): boolean {
  return attempts.length === 0 || (attempts.length === 1 && attempts[0]!.result === 'ok')
}

function attemptOf({ said, ...attempt }: Attempt) {
  return { ...attempt, message: said && fitText(said) }
}

function questionOf({ from, rules, ...question }: Question) {
  return { ...question, at_ms: from, rules: rules.map((rule) => fitText(rule)) }
}

/** Keyed by policy object: that of a key is the same object for many calls. */
const hashes = new WeakMap<Policy, string>()

/** A short name for a policy, equal for equal policies. */
export function hashOf(policy: Policy | undefined): string | undefined {
  if (!policy) return undefined
  let known = hashes.get(policy)
  if (known === undefined) {
    known = hash('sha256', JSON.stringify(policy)).slice(0, 16)
    hashes.set(policy, known)
  }
  return known
}
