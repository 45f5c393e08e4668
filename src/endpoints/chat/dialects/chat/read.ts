import { toInvalidRequest } from '../../../../errors/checks.ts'
import { readPolicy } from '../../../../policy/policy.ts'
import type { ChatRequest } from '../../request.ts'
import { findInvalidField } from './fields.ts'

/** Members that mean the same empty as absent. */
const ABSENT_WHEN_EMPTY = new Set(['tools', 'stop', 'plugins'])

/**
 * Validates a parsed body, which is not changed. Reports the first problem: required fields, then the others in the order
 * of the document, then contradictions between fields, then the policy.
 * @throws InvalidRequest with the code and path of the problem, such as `messages[2].content[0].image_url.url`
 */
export function readChatRequest(body: object): ChatRequest {
  const found = findInvalidField(body)
  if (found) throw toInvalidRequest(found)
  const request = withoutAbsent(body as ChatRequest)
  const policy: unknown = (body as ChatRequest).policy
  return policy === undefined ? request : { ...request, policy: readPolicy(policy) }
}

function withoutAbsent(body: ChatRequest): ChatRequest {
  for (const member in body) {
    if (isAbsent(member, body[member])) {
      const given = Object.entries(body).filter(([name, value]) => !isAbsent(name, value))
      return Object.fromEntries(given) as unknown as ChatRequest
    }
  }
  return body
}

function isAbsent(member: string, value: unknown): boolean {
  if (value === null) return true
  return Array.isArray(value) && value.length === 0 && ABSENT_WHEN_EMPTY.has(member)
}
