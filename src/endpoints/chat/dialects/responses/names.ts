/** Names of tools in a namespace: the normal form has no namespaces, so their tools carry both names in one. */
import { hash } from 'node:crypto'

const MAX_LENGTH = 64
const KEPT_LENGTH = 55
const HASH_LENGTH = 8

export interface ToolName {
  readonly name: string
  readonly namespace?: string | undefined
}

/** The one name of a tool; a name that vendors would refuse is cut and ends in a hash. */
export function flatName({ name, namespace }: ToolName): string {
  if (!namespace) return name
  const flat = `${namespace}__${name}`
  if (flat.length <= MAX_LENGTH && /^[A-Za-z0-9_-]+$/.test(flat)) return flat
  const kept = flat.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, KEPT_LENGTH)
  return `${kept}_${hash('sha256', flat, 'hex').slice(0, HASH_LENGTH)}`
}
