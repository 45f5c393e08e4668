import { instructionsOf, NO_POLICY } from '../../policy/policy.ts'
import type { Call, Next, Reply, Stage } from '../pipeline.ts'

/**
 * Applies the policy: system text and token ceiling go into the outbound request. Members of the request's policy that would
 * loosen the key's are ignored and named in a header.
 */
export const constrain: Stage = function constrain(call, next) {
  const { endpoint, request, model, policy } = call
  call.outbound = endpoint.toUpstream(request.input, model)
  return policy === NO_POLICY ? next() : applied(call, next)
}

async function applied(call: Call, next: Next): Promise<Reply> {
  const { endpoint, request, policy } = call
  if (policy.ignored.length > 0)
    call.headers['x-service-policy-ignored'] = policy.ignored.join(', ')
  const to = instructionsOf(policy)
  const { instructions } = endpoint
  if (!to || !instructions) return await next()
  call.outbound = instructions.apply(call.outbound, to)
  if (to.maxOutputTokens === undefined) return await next()
  const limit = instructions.limit(to.maxOutputTokens, request.input)
  const { parts } = await next()
  return { parts: parts.through(limit) }
}
