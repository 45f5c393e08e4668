import { CallGuard } from './guard/call.ts'
import type { Stage } from '../pipeline.ts'

/**
 * Lets guards look at what goes in before anything of it leaves the house, and at what comes back before the client gets
 * it. A call whose policy has no rules passes untouched.
 */
export const guard: Stage = async function guard(call, next) {
  const { policy, runtime, endpoint } = call
  for (const member of policy.ignored) runtime.metrics.guard.ignored(member)
  const { guard: guarding } = endpoint
  if (!guarding) return next()
  const plan = await runtime.guards.planFor(policy, () => call.throwIfAborted())
  if (!plan) return next()
  const guarded = new CallGuard(call, guarding, plan)
  return policy.guard.mode === 'monitor' ? guarded.monitored(next) : guarded.screened(next)
}
