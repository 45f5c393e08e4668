import { formatPico } from '../money.ts'
import type { Call, Stage } from '../pipeline.ts'

/** Counts the call while it runs, and writes one access record when it has ended. */
export const trace: Stage = function trace(call, next) {
  call.runtime.metrics.requestStarted()
  call.scope.defer(() => record(call))
  return next()
}

function record(call: Call): void {
  const { runtime, filled, incoming, path, startedAt } = call
  const now = Date.now()
  const usage = call.meter.find((line) => line.source === 'model')?.usage
  const outcome = call.outcome ?? 'failed'
  runtime.metrics.requestEnded({
    endpoint: path,
    model: filled.model?.id,
    outcome,
    code: call.errorCode,
    seconds: (now - startedAt) / 1000,
    cost: call.bill?.cost,
    promptTokens: usage?.promptTokens,
    completionTokens: usage?.completionTokens,
  })
  runtime.access?.add({
    at: startedAt,
    requestId: call.id,
    method: incoming.method,
    path,
    status: call.status,
    code: call.errorCode,
    outcome,
    ms: now - startedAt,
    account: filled.account?.id,
    key: filled.key?.id,
    model: filled.model?.id,
    deployment: call.deployment,
    promptTokens: usage?.promptTokens,
    completionTokens: usage?.completionTokens,
    cost: call.bill && formatPico(call.bill.cost),
    retryCount: incoming.header('x-stainless-retry-count'),
  })
}
