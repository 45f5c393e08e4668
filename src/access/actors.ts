/** Who acts in the admin API, and what each role may do there. */
import { Forbidden } from '../errors/errors.ts'
import type { Right } from '../server/admin/resources/rights.ts'
import type { OperatorRole } from '../server/admin/resources/session.ts'

export interface Actor {
  /** It is stored with what it does: `file:<name>`, `token:tok_…`, `oidc:<provider>/<sub>`, `proxy:<user>`, `member:mem_…`, `key:<id>`. */
  readonly id: string
  readonly name: string
  readonly role: OperatorRole | 'member'
  readonly rights: ReadonlySet<Right>
  /** Address of the client; empty where it is unknown. */
  readonly address: string
  /** Id of the session that it came with. */
  readonly session?: string | undefined
}

const RIGHTS: Readonly<Record<OperatorRole, readonly Right[]>> = {
  viewer: ['read'],
  billing: ['read', 'money'],
  operator: ['read', 'keys'],
  admin: ['read', 'keys', 'money', 'contents', 'config', 'people'],
}

/** Roles, the strongest first. */
export const ROLES: readonly OperatorRole[] = ['admin', 'operator', 'billing', 'viewer']

export function rightsOf(role: OperatorRole): ReadonlySet<Right> {
  return new Set(RIGHTS[role])
}

/** The roles that have one of the rights, the weakest first, as text: `operator or admin`. */
function rolesWith(...rights: readonly Right[]): string {
  const roles = ROLES.filter((role) => rights.some((right) => RIGHTS[role].includes(right)))
  return roles.toReversed().join(' or ')
}

/** @throws Forbidden, which names the roles that have one of the rights, for an actor that has none of them */
export function requireRight({ name, role, rights }: Actor, ...needed: readonly Right[]): void {
  if (needed.some((right) => rights.has(right))) return
  const has = `${JSON.stringify(name)} has the role ${role}`
  throw new Forbidden('forbidden', `This needs the role ${rolesWith(...needed)}; ${has}.`)
}
