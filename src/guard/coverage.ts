/** Which guards enforce the rules of a policy, and which rules no guard enforces. */
import type { EffectivePolicy } from '../policy/policy.ts'
import { isSelected, type GuardRegistry, type GuardInstance } from './plan.ts'

/** One rule, and the names of the guards that enforce it on each side. */
interface Coverage {
  readonly rule: string
  readonly input: readonly string[]
  readonly output: readonly string[]
}

/** The rules of a policy with the guards that enforce them, on the sides that the policy has screened. */
export function coverageOf(guards: GuardRegistry, policy: EffectivePolicy): readonly Coverage[] {
  const { scopes, deny, bannedPatterns, guard } = policy
  const enforcing = (rule: string, reads: (one: GuardInstance) => boolean) =>
    guards.all
      .filter((one) => one.guard.enforces.includes(rule as never))
      .filter((one) => one.applies !== 'selected' || isSelected(one, policy))
      .filter(({ mode }) => mode === 'block')
      .filter(reads)
      .map(({ name }) => name)
  const of = (rule: string, family = rule): Coverage => {
    const core = family === 'bannedPatterns' ? ['patterns'] : []
    return {
      rule,
      input: guard.input ? [...core, ...enforcing(family, readsInput)] : [],
      output: guard.output ? [...core, ...enforcing(family, readsOutput)] : [],
    }
  }
  return [
    ...(scopes.length > 0 ? [of('scope')] : []),
    ...deny.map((category) => of(`deny:${category}`)),
    ...bannedPatterns.map((_, index) => of(`bannedPatterns[${index}]`, 'bannedPatterns')),
  ]
}

/**
 * Warnings for the owner of a policy, without a full stop.
 * @param proceed throws when they are no longer wanted
 */
export async function coverageWarnings(
  guards: GuardRegistry,
  policy: EffectivePolicy,
  proceed: () => void = () => {},
): Promise<readonly string[]> {
  const { guard } = policy
  if (!guard.input && !guard.output) return []
  const plan = await guards.planFor(policy, proceed)
  const covered = coverageOf(guards, policy)
  const after = guard.onError === 'block' ? 'will be refused' : 'will go on without it'
  return [
    ...(plan?.faults ?? []).map(({ guard: name, kind }) =>
      kind === 'unanswered'
        ? `nothing on this gateway looks after ${name}: calls with this key ${after}`
        : `${name} are not all valid any more: calls with this key ${after}`,
    ),
    ...(plan?.unenforced ?? []).map(
      (rule) =>
        `nothing on this gateway judges ${rule === 'scope' ? 'the scope' : rule}: ` +
        'the model is told about it, no more',
    ),
    ...covered.flatMap(({ rule, input, output }) => {
      if (input.length + output.length === 0) return []
      if (guard.input && input.length === 0) return [`nothing looks for ${rule} in the input`]
      if (guard.output && output.length === 0) return [`nothing looks for ${rule} in the output`]
      return []
    }),
  ]
}

function readsInput({ guard }: GuardInstance): boolean {
  return guard.checkInput !== undefined
}

function readsOutput({ guard }: GuardInstance): boolean {
  return guard.checkOutput !== undefined || guard.streamOutput !== undefined
}
