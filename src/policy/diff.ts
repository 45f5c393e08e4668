/** Compares two policies of keys member by member: which one forbids more. */
import { CATEGORIES } from '../plugin.ts'
import type { MemberDifference, PolicyDifference } from '../server/admin/resources/policy.ts'
import { tighten, type EffectivePolicy, type Policy } from './policy.ts'

const PATTERNS_OF_REQUEST = 32
/** Values of the members of `guard` that have an order, the tighter one first. */
const ORDERED = {
  input: [true, false],
  output: [true, false],
  mode: ['block', 'monitor'],
  onError: ['block', 'allow'],
  stream: ['buffer', 'scan'],
} as const

export function diffPolicies(
  former: Policy | undefined,
  next: Policy | undefined,
): MemberDifference[] {
  const [from, to] = [tighten(former, undefined), tighten(next, undefined)]
  const set = (member: string, of: (policy: EffectivePolicy) => readonly string[]) =>
    differenceOfSets(member, of(from), of(to))
  const discrete = (member: string, of: (policy: EffectivePolicy) => unknown) => {
    const [a, b] = [of(from) ?? null, of(to) ?? null]
    return difference(member, a, b, JSON.stringify(a) === JSON.stringify(b) ? 'equal' : 'changed')
  }
  const [before, after] = [from.maxOutputTokens, to.maxOutputTokens]
  return [
    set('scope', ({ scopes }) => scopes),
    set('deny', ({ deny }) => deny),
    set('bannedPatterns', ({ bannedPatterns }) => bannedPatterns),
    difference('maxOutputTokens', ceiling(before), ceiling(after), orderOf(before, after)),
    discrete('systemPrompt', ({ systemPrompt }) => systemPrompt),
    discrete('refusal', ({ refusal }) => refusal),
    discrete('escalate', ({ escalate }) => escalate),
    ...names(ORDERED).map((name) => {
      const places = [from, to].map(({ guard }) => placeOf(name, guard[name]))
      const order = orderOf(places[0]!, places[1]!)
      return difference(`guard.${name}`, from.guard[name], to.guard[name], order)
    }),
    discrete('guard.model', ({ guard }) => guard.model),
    discrete('guard.onBlock', ({ guard }) => guard.onBlock),
  ]
}

/** Rules that a request can still add to a policy. */
export function tighteningsOf(policy: Policy | undefined): PolicyDifference['may_tighten'] {
  const { deny, maxOutputTokens, guard } = tighten(policy, undefined)
  return {
    scope: true,
    deny: CATEGORIES.filter((category) => !deny.includes(category)),
    banned_patterns: PATTERNS_OF_REQUEST,
    max_output_tokens: ceiling(maxOutputTokens),
    guard: names(ORDERED).filter((name) => placeOf(name, guard[name]) > 0),
  }
}

/** Compares two lists of forbidden values: the larger one is tighter. */
export function differenceOfSets(
  member: string,
  from: readonly string[],
  to: readonly string[],
): MemberDifference {
  return difference(member, from, to, orderOfSets(from, to))
}

function difference(member: string, from: unknown, to: unknown, order: MemberDifference['order']) {
  return { member, from, to, order }
}

/** Order of two numbers: the smaller one is tighter. */
function orderOf(from: number, to: number): MemberDifference['order'] {
  if (from === to) return 'equal'
  return to < from ? 'tighter' : 'looser'
}

/** Order of two lists: the larger one is tighter. */
function orderOfSets(from: readonly string[], to: readonly string[]): MemberDifference['order'] {
  const keeps = from.every((one) => to.includes(one))
  const isKept = to.every((one) => from.includes(one))
  if (keeps && isKept) return 'equal'
  if (keeps) return 'tighter'
  return isKept ? 'looser' : 'changed'
}

function ceiling(tokens: number): number | null {
  return tokens === Infinity ? null : tokens
}

function placeOf(name: keyof typeof ORDERED, value: unknown): number {
  return (ORDERED[name] as readonly unknown[]).indexOf(value)
}

function names<Members extends object>(members: Members): (keyof Members & string)[] {
  return Object.keys(members) as (keyof Members & string)[]
}
