import { CallGuard } from './guard/call.ts'
import type { GuardPlan } from '../../guard/plan.ts'
import type { Stage } from '../pipeline.ts'

/**
 * Lets guards look at what goes in before anything of it leaves the house, and at what comes back before the client gets
 * it. A call whose policy has no rules passes untouched.
 */
export const guard: Stage = function guard(call, next) {
  const { policy, runtime, endpoint } = call
  for (const member of policy.ignored) runtime.metrics.guard.ignored(member)
  const { guard: guarding } = endpoint
  if (!guarding) return next()
  const go = (roster: GuardPlan | undefined) => {
    if (!roster) return next()
    const guarded = new CallGuard(call, guarding, roster)
    return policy.guard.mode === 'monitor' ? guarded.monitored(next) : guarded.screened(next)
  }
  const roster = runtime.guards.planFor(policy, () => call.throwIfAborted())
  return roster instanceof Promise ? roster.then(go) : go(roster)
}
