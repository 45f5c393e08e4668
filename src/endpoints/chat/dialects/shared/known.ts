/**
 * Limits the answer of a vendor that got texts which the client must not read to members of the API. Some servers
 * repeat the whole prompt in members of their own, which a client may even ask for.
 */
import { isObject } from '../../../../errors/checks.ts'

export function membersIn(from: object, names: ReadonlySet<string>): Record<string, any> {
  return Object.fromEntries(Object.entries(from).filter(([name]) => names.has(name)))
}

export function countsIn(usage: unknown): unknown {
  if (!isObject(usage)) return typeof usage === 'number' ? usage : undefined
  const counts = Object.entries(usage).map(([name, value]) => [name, countsIn(value)] as const)
  return Object.fromEntries(counts.filter(([, value]) => value !== undefined))
}
