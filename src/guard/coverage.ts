/** Who looks after the rules of a policy, and which nobody does. */
import type { EffectivePolicy } from '../policy/policy.ts'
import { isSelected, type GuardRegistry, type GuardInstance } from './plan.ts'

/** One rule, and the guards that answer for it. */
export interface Coverage {
  readonly rule: string
  readonly input: readonly string[]
  readonly output: readonly string[]
}

/** The rules of a policy with their guards on either side, as far as the policy has it looked at. */
export function coverageOf(guards: GuardRegistry, policy: EffectivePolicy): readonly Coverage[] {
  const { scopes, deny, bannedPatterns, guard } = policy
  const answering = (rule: string, looks: (one: GuardInstance) => boolean) =>
    guards.all
      .filter(({ guard: { enforces: answers } }) => answers.includes(rule as never))
      .filter((one) => one.applies !== 'selected' || isSelected(one, policy))
      .filter(({ mode }) => mode === 'block')
      .filter(looks)
      .map(({ name }) => name)
  const of = (rule: string, family = rule): Coverage => {
    const core = family === 'bannedPatterns' ? ['patterns'] : []
    return {
      rule,
      input: guard.input ? [...core, ...answering(family, looksAtInput)] : [],
      output: guard.output ? [...core, ...answering(family, looksAtOutput)] : [],
    }
  }
  return [
    ...(scopes.length > 0 ? [of('scope')] : []),
    ...deny.map((category) => of(`deny:${category}`)),
    ...bannedPatterns.map((_, index) => of(`bannedPatterns[${index}]`, 'bannedPatterns')),
  ]
}

/**
 * What an operator should know about a policy, in sentences without an end.
 * @param proceed throws where nobody waits for it any more
 */
export async function coverageWarnings(
  guards: GuardRegistry,
  policy: EffectivePolicy,
  proceed: () => void = () => {},
): Promise<readonly string[]> {
  const { guard } = policy
  if (!guard.input && !guard.output) return []
  const roster = await guards.planFor(policy, proceed)
  const covered = coverageOf(guards, policy)
  const after = guard.onError === 'block' ? 'will be refused' : 'will go on without it'
  return [
    ...(roster?.faults ?? []).map(({ guard: name, kind }) =>
      kind === 'unanswered'
        ? `nothing on this gateway looks after ${name}: calls with this key ${after}`
        : `${name} are not all valid any more: calls with this key ${after}`,
    ),
    ...(roster?.unenforced ?? []).map(
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

function looksAtInput({ guard }: GuardInstance): boolean {
  return guard.checkInput !== undefined
}

function looksAtOutput({ guard }: GuardInstance): boolean {
  return guard.checkOutput !== undefined || guard.streamOutput !== undefined
}
