/** Whether a call can go to a vendor in the client's own form, and the consequences. */
import type { SearchRequest } from '../search/search.ts'
import type { Deployment } from '../models/catalog.ts'
import type { Call } from './pipeline.ts'
import type { EffectivePolicy } from '../policy/policy.ts'

export function isGuarded({ target: { policy }, runtime }: Call): boolean {
  return mayBlock(policy) || runtime.guards.blocksWithoutRules(policy)
}

/** Whether the vendor is sent text that the client must not read: a policy's, or text that a guard keeps from it. */
export function isConfidential(call: Call): boolean {
  // A question of a guard to a model has no policy.
  const policy = call.made.target?.policy
  if (!policy) return false
  const { decision } = call.answer
  return Boolean(policy.systemPrompt) || (decision !== undefined && isGuarded(call))
}

/** Whether a deployment takes requests in the client's own form. */
export function speaksForm({ format, runtime }: Call, deployment: Deployment): boolean {
  const provider = runtime.providers.get(deployment.provider)
  const form = format.native?.method
  if (form === undefined || provider?.[form] === undefined) return false
  return provider.takes?.(form, deployment) ?? true
}

/**
 * The web search that the gateway makes for a call, if any. A tool with which the vendor can search stays the vendor's.
 */
export function searchOf(call: Call): SearchRequest | undefined {
  const { endpoint, request, target } = call
  const wanted = endpoint.grounding?.searchRequest(request.input, target.online)
  return wanted?.tool !== undefined && vendorCanSearch(call) ? undefined : wanted
}

/** Whether the vendor may run the tool, and its searches have a price. */
function vendorCanSearch(call: Call): boolean {
  const { model } = call.target
  if (model.prices.web_search === undefined || isGuarded(call)) return false
  return model.deployments.some((deployment) => speaksForm(call, deployment))
}

/** Whether rules of the policy may block an input or an answer. */
function mayBlock({ guard, scopes, deny, bannedPatterns }: EffectivePolicy): boolean {
  const hasRules = scopes.length + deny.length + bannedPatterns.length > 0
  return hasRules && guard.mode === 'block' && (guard.input || guard.output)
}
