import { Unavailable } from '../errors.ts'
import { guardRules } from '../policy.ts'
import type { Stage } from '../pipeline.ts'

/**
 * Keeps the promise that a rule nobody can look after never counts as kept: a call whose policy has rules that no guard of
 * this gateway enforces is refused before anything goes upstream.
 */
export const guard: Stage = function guard(call, next) {
  const rules = guardRules(call.policy)
  if (rules.length > 0) {
    throw new Unavailable(
      'guard_unavailable',
      `The policy of this call has rules that no guard of this gateway enforces: ${rules.join(', ')}.`,
    )
  }
  return next()
}
