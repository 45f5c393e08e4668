/** Reports on a policy without a call: the rules that no guard enforces, and the verdicts of guards on texts. */
import { compilePatternsSliced } from '../patterns/patterns.ts'
import type { ActiveRules, GuardContext, RuleRef, Side, TextItem } from '../plugin.ts'
import type { EffectivePolicy } from '../policy/policy.ts'
import { isSelected, type GuardInstance, type GuardRegistry } from './plan.ts'
import { trialRunner, type RehearsalInit } from './rehearsal.ts'
import { stopOf } from './screened-text.ts'
import {
  type GuardRunner,
  patternBlock,
  referencesTo,
  ruleFilter,
  toFault,
  type Block,
  type FaultKind,
} from './runner.ts'
import { pluginScanner } from './text-check.ts'

const SIDES: readonly Side[] = ['input', 'output']
const PASS = { verdict: 'pass' } as const
const NO_RULES: ActiveRules = { scopes: [], deny: [], bannedPatterns: [] }

/** Warnings for the owner of a policy, without a full stop. @param proceed throws when no longer wanted */
export async function coverageWarnings(
  guards: GuardRegistry,
  policy: EffectivePolicy,
  proceed: () => void = () => {},
): Promise<readonly string[]> {
  const sides = SIDES.filter((side) => policy.guard[side])
  if (sides.length === 0) return []
  const plan = await guards.planFor(policy, proceed)
  const after = policy.guard.onError === 'block' ? 'will be refused' : 'will go on without it'
  const enforces = (rule: RuleRef, side: Side) =>
    // The gateway itself looks for patterns.
    rule === 'bannedPatterns' ||
    guards.all.some(({ guard, applies, mode, name }) => {
      const runs = mode === 'block' && (applies !== 'selected' || isSelected({ name }, policy))
      const reads = side === 'input' ? guard.checkInput : (guard.checkOutput ?? guard.streamOutput)
      return runs && reads && guard.enforces.includes(rule)
    })
  return [
    ...idleGuards(guards)
      .filter(({ guard: name }) => !isSelected({ name }, policy))
      .map(
        ({ guard: name, message }) =>
          `guard ${name} does not check calls with this key: ${message}`,
      ),
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
    ...referencesTo(policy).flatMap((rule) => {
      const uncovered = sides.filter((side) => !enforces(rule, side))
      // A rule that nothing enforces on any side is among those above.
      if (uncovered.length === sides.length) return []
      return uncovered.map((side) => `nothing looks for ${rule} in the ${side}`)
    }),
  ]
}

/** A guard that is configured in vain, with a sentence without a full stop. */
export interface IdleGuard {
  readonly guard: string
  readonly code: 'guard-idle'
  readonly level: 'warning'
  readonly message: string
}

/**
 * Guards with rules of their own alone that wait for a policy with one of them: no policy contains such a rule, so only a key
 * that names the guard has it.
 */
export function idleGuards({ all }: GuardRegistry): readonly IdleGuard[] {
  return all.flatMap(({ name, guard: { enforces }, applies }) => {
    const hasOwnAlone = enforces.length > 0 && enforces.every(isOwnRule)
    if (applies !== 'with-rules' || !hasOwnAlone) return []
    const message =
      `no policy contains its rules (${enforces.join(', ')}), so it checks no call by itself: set "applies: always" for ` +
      `all calls, or "applies: selected" for keys with "guard.model": "guard/${name}"`
    return { guard: name, code: 'guard-idle', level: 'warning', message }
  })
}

function isOwnRule(rule: string): boolean {
  return rule.startsWith('x:')
}

export interface PolicyTestResult extends Verdict {
  readonly rule: string
  readonly side: Side
  readonly guard: string
  /** ms that the guard took; absent where it was not asked. */
  readonly ms?: number
}

interface Verdict extends Partial<Pick<Block, 'spans' | 'view' | 'score' | 'reason'>> {
  /** `not-asked`: a remote guard, where `remote` was not wanted. */
  readonly verdict: 'pass' | 'block' | 'error' | 'not-asked'
  readonly error?: FaultKind
}

interface PolicyTest extends RehearsalInit {
  readonly texts: { readonly input?: string; readonly output?: string }
}

/**
 * Tests every rule in force on every text, by every guard that enforces it, in either `guard.mode`; rules of a guard's own
 * where the policy has the guard run. Never throws for a guard.
 */
export async function testPolicy(test: PolicyTest): Promise<readonly PolicyTestResult[]> {
  const { policy, guards, texts, proceed } = test
  const { scopes, deny, bannedPatterns } = policy
  const judged: readonly ActiveRules[] = [
    ...scopes.map((scope) => ({ ...NO_RULES, scopes: [scope] })),
    ...deny.map((category) => ({ ...NO_RULES, deny: [category] })),
  ]
  const withOwn = await runningWithOwnRules(guards, policy, proceed)
  const results: PolicyTestResult[] = []
  for (const side of SIDES) {
    const text = texts[side]
    if (text === undefined || !policy.guard[side]) continue
    for (const [index, pattern] of bannedPatterns.entries()) {
      const began = performance.now()
      const matcher = await compilePatternsSliced([pattern], 'key', proceed)
      const match = await matcher.search(text, proceed)
      const verdict = verdictOf(match && patternBlock(match, index))
      results.push({
        rule: `bannedPatterns[${index}]`,
        side,
        guard: 'patterns',
        ...verdict,
        ms: since(began),
      })
    }
    for (const [index, rules] of judged.entries()) {
      const [reference] = referencesTo(rules) as [RuleRef]
      const rule = reference === 'scope' ? `scope:${index}` : reference
      for (const instance of guards.all) {
        const { name, guard } = instance
        const began = performance.now()
        if (!guard.enforces.includes(reference) || !reads(instance, side)) continue
        const { violated, ...verdict } = await ask(test, instance, rules, side, text)
        const isOther =
          violated !== undefined && guard.enforces.includes(violated) && isOwnRule(violated)
        const shown = isOther ? PASS : verdict
        results.push({ rule, side, guard: name, ...shown, ...timeOf(verdict, began) })
      }
    }
    for (const instance of withOwn) {
      const { name, guard } = instance
      const began = performance.now()
      if (!reads(instance, side)) continue
      const { violated, ...verdict } = await ask(test, instance, NO_RULES, side, text)
      const time = timeOf(verdict, began)
      const own = new Set(guard.enforces.filter(isOwnRule))
      if (violated) own.add(violated)
      for (const rule of own) {
        const isOther = violated !== undefined && violated !== rule
        results.push({ rule, side, guard: name, ...(isOther ? PASS : verdict), ...time })
      }
    }
  }
  return results
}

async function runningWithOwnRules(
  guards: GuardRegistry,
  policy: EffectivePolicy,
  proceed: () => void,
): Promise<readonly GuardInstance[]> {
  const plan = await guards.planFor(policy, proceed)
  const sets = plan ? [plan.enforcing, plan.monitoring] : []
  return sets
    .flatMap(({ assignments }) => assignments)
    .filter(({ origin, instance }) => origin === 'key' && instance.guard.enforces.some(isOwnRule))
    .map(({ instance }) => instance)
}

function timeOf({ verdict }: Verdict, began: number): { readonly ms?: number } {
  return verdict === 'not-asked' ? {} : { ms: since(began) }
}

function since(began: number): number {
  return Math.round((performance.now() - began) * 100) / 100
}

async function ask(
  { remote, contextOf }: PolicyTest,
  instance: GuardInstance,
  rules: ActiveRules,
  side: Side,
  text: string,
): Promise<Verdict & { readonly violated?: RuleRef }> {
  if (instance.guard.execution === 'remote' && !remote) return { verdict: 'not-asked' }
  await instance.load?.()
  const { plugin, guard } = instance
  const filter = ruleFilter(plugin, guard.enforces, rules)
  const runner = trialRunner({ instance, rules, ruleFilter: filter, origin: 'key', contextOf })
  try {
    const block = await blockIn(runner, side, text)
    return { ...verdictOf(block), ...(block && { violated: block.rule }) }
  } catch (error) {
    return { verdict: 'error', error: toFault(error).kind }
  }
}

function verdictOf(block: Block | undefined): Verdict {
  if (!block) return { verdict: 'pass' }
  const { action, rule: _rule, ...found } = block
  return { verdict: action, ...found }
}

async function blockIn(runner: GuardRunner, side: Side, text: string): Promise<Block | undefined> {
  const { guard, local } = runner
  if (side === 'output' && local) {
    const stream = { channel: 'content', choice: 0, index: 0 } as const
    const stop = await stopOf(pluginScanner(runner, ''), stream, text)
    if (stop?.fault) throw stop.fault
    return stop?.block
  }
  const role = side === 'input' ? 'user' : 'assistant'
  const item: TextItem = { id: side, side, channel: 'content', role, current: true, text }
  const judge = async (context: GuardContext) => {
    const verdict =
      side === 'input'
        ? (await guard.checkInput!([item], context))[0]
        : await guard.checkOutput!(item, context)
    return runner.blockIn(verdict, text.length)
  }
  return local ? runner.work(judge) : runner.ask(side, judge)
}

function reads({ guard }: GuardInstance, side: Side): boolean {
  if (side === 'input') return guard.checkInput !== undefined
  // A remote guard that follows streams has to see the answer grow.
  const followsStreams = guard.streamOutput !== undefined && guard.execution === 'local'
  return guard.checkOutput !== undefined || followsStreams
}
