/** A short name for a policy, for logs and traces. */
import { hash } from 'node:crypto'
import type { Policy } from '../policy/policy.ts'

/** By policy object: that of a key is the same object for many calls. */
const hashes = new WeakMap<Policy, string>()

/** Equal for equal policies. */
export function hashOf(policy: Policy | undefined): string | undefined {
  if (!policy) return undefined
  let known = hashes.get(policy)
  if (known === undefined) {
    known = hash('sha256', JSON.stringify(policy)).slice(0, 16)
    hashes.set(policy, known)
  }
  return known
}
