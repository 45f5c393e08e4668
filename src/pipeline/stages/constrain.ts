import { instructionsOf, tighten } from '../../policy/policy.ts'
import type { Stage } from '../pipeline.ts'

/** Lays the policy over the call: system text and token ceiling go upstream, looser wishes are named and ignored. */
export const constrain: Stage = async function constrain(call, next) {
  const { endpoint, input, key, model } = call
  const policy = tighten(key.policy, endpoint.policyOf(input))
  call.policy = policy
  if (policy.ignored.length > 0)
    call.headers['x-service-policy-ignored'] = policy.ignored.join(', ')
  call.outbound = endpoint.toUpstream(input, model)
  const instructions = instructionsOf(policy)
  if (!instructions) return next()
  call.outbound = endpoint.instruct(call.outbound, instructions)
  const { maxOutputTokens } = instructions
  if (maxOutputTokens === undefined || !endpoint.limit) return next()
  const limit = endpoint.limit(maxOutputTokens)
  const { parts } = await next()
  return { parts: parts.through(limit) }
}
