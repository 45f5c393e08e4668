/** Claims of a person by a provider, and the rules that make a role of them. */
import type { OperatorRole } from '../server/admin/resources/session.ts'
import { ROLES } from './actors.ts'
import type { Claims } from './credentials.ts'

/** Matches a person one of whose values of the claim is one of these. */
interface ClaimRule {
  readonly claim: string
  readonly values: readonly string[]
}

interface RoleRule extends ClaimRule {
  readonly role: OperatorRole
}

const MOST_BYTES = 8192

/** The strongest role of the rules that match; undefined without one. */
export function roleOf(claims: Claims, rules: readonly RoleRule[]): OperatorRole | undefined {
  const roles = rules.filter((rule) => matches(rule, claims)).map(({ role }) => role)
  return ROLES.find((role) => roles.includes(role))
}

/** Whether a rule matches a person. A claim that is a list, or a text with blanks, matches by any of its values. */
export function matches({ claim, values }: ClaimRule, claims: Claims): boolean {
  const own = valuesOf(claims[claim])
  if (claim !== 'email') return own.some((one) => values.includes(one))
  const emails = own.map((one) => one.toLowerCase())
  return values.some((value) => {
    const wanted = value.toLowerCase()
    return emails.some((one) =>
      wanted.startsWith('*@') ? one.endsWith(wanted.slice(1)) : one === wanted,
    )
  })
}

/**
 * The claims that are kept: who it is, the address if the provider has verified it, and of the claims that rules name the values
 * that they name.
 * @throws RangeError where these are too many
 */
export function keptClaims(
  claims: Readonly<Record<string, unknown>>,
  rules: readonly ClaimRule[],
): Claims {
  const { iss, sub, name, email, email_verified: verified } = claims
  const named = new Map<string, Set<string>>()
  for (const { claim, values } of rules) {
    if (['iss', 'sub', 'name', 'email'].includes(claim)) continue
    const wanted = named.get(claim) ?? new Set<string>()
    for (const value of values) wanted.add(value)
    named.set(claim, wanted)
  }
  const ruled = [...named].flatMap(([claim, wanted]) => {
    const kept = valuesOf(claims[claim]).filter((value) => wanted.has(value))
    return kept.length > 0 ? [[claim, kept] as const] : []
  })
  const isVerified = verified === true || verified === 'true'
  const kept: Claims = {
    iss: String(iss),
    sub: String(sub),
    ...(typeof name === 'string' && { name: name.slice(0, 200) }),
    ...(typeof email === 'string' && isVerified && { email }),
    ...Object.fromEntries(ruled),
  }
  if (JSON.stringify(kept).length > MOST_BYTES) throw new RangeError('the claims are too long')
  return kept
}

/** What a person is called in lists and in the audit log. */
export function nameOf({ name, email, sub }: Claims): string {
  return [name, email].find((one) => typeof one === 'string' && one !== '')?.toString() ?? sub
}

function valuesOf(claim: unknown): readonly string[] {
  if (Array.isArray(claim)) return claim.filter((one) => typeof one === 'string')
  if (typeof claim === 'string') return [claim, ...claim.split(/\s+/)]
  return typeof claim === 'number' || typeof claim === 'boolean' ? [String(claim)] : []
}
