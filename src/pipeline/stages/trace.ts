import { randomBytes } from 'node:crypto'
import type { Decision } from '../../guard/decision.ts'
import type { KnownCall } from '../../observe/record.ts'
import { recordOf, hashOf } from '../call-record.ts'
import type { Call, Stage } from '../pipeline.ts'
import { parentOf, traceOf } from '../trace-context.ts'

/** Counts the call while it runs, and makes one record of it when it has ended. */
export const trace: Stage = {
  name: 'trace',
  before(call) {
    call.runtime.metrics.requestStarted()
    if (call.runtime.sinks) linkTrace(call)
  },
  end: (call) => record(call),
}

/** Joins the trace of a client that has one, and names our span in the answer. */
function linkTrace(call: Call): void {
  const trace = traceOf(call.incoming)
  if (!trace) return
  call.trace = { ...trace, span: randomBytes(8).toString('hex') }
  call.headers.traceparent = parentOf(call.trace)
}

function recordDecision(call: Call, decision: Decision, at: number): void {
  const { access, metrics } = call.runtime
  const { mode, outcome } = decision.summary()
  if (decision.findings.length === 0) metrics.guard.decided('all', '', mode, outcome)
  if (access?.detailed) access.decided(decision.record(headOf(call, at)))
}

function headOf(call: Call, at: number) {
  const { path, target, admission } = call
  const { key, account } = admission
  const { policy, model } = target
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
    cost: call.answer.bill?.text,
    ...(target.masked && {
      masked: target.masked.masking.counts(),
      restored: target.masked.masking.restoredCount,
      altered: target.masked.masking.alteredCount,
    }),
  }
}

function record(call: Call): void {
  const { runtime, startedAt, answer, made } = call
  const { decision } = answer
  const ms = call.elapsedMs
  const ended = recordOf(call, answer.outcome ?? 'failed', ms)
  runtime.metrics.requestEnded(ended, made.target?.model.label)
  // Guards in monitor mode may take longer than the call.
  const looking = decision?.complete()
  if (looking) {
    looking
      .then(() => recordDecision(call, decision!, startedAt + call.elapsedMs))
      .catch((error: unknown) => call.report(error))
  } else if (decision) recordDecision(call, decision, startedAt + ms)
  runtime.access?.add(ended)
  runtime.requests?.add(ended)
  tell(runtime, ended)
  const { account_id: account, key_id: key } = ended
  if (account === undefined || key === undefined) return
  runtime.spending.touched(account, key, ended.limited_by === 'balance')
}

function tell({ events }: Call['runtime'], ended: KnownCall): void {
  const made = () => ended
  events.emit(ended.limited_by === undefined ? 'call.ended' : 'call.refused', made)
  if (ended.guard?.outcome === 'blocked') events.emit('guard.blocked', made)
}
