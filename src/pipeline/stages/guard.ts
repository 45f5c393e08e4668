import { CallGuard } from './guard/call.ts'
import { NO_POLICY } from '../../policy/policy.ts'
import type { Stage } from '../pipeline.ts'

/**
 * Has guards look at the input before anything of it goes upstream, and at the answer before the client gets it. A call
 * whose policy has no rules passes untouched.
 */
export const guard: Stage = async function guard(call, next) {
  const { policy, runtime, endpoint } = call
  for (const member of policy.ignored) runtime.metrics.guard.ignored(member)
  if (!endpoint.guard || (policy === NO_POLICY && !runtime.guards.hasAlways)) return next()
  const plan = await runtime.guards.planFor(policy, () => call.throwIfAborted())
  if (!plan) return next()
  const callGuard = new CallGuard(call, endpoint.guard, plan)
  return policy.guard.mode === 'monitor' ? callGuard.monitored(next) : callGuard.screened(next)
}
