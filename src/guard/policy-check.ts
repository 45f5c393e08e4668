/** What operators learn of a policy without a call: the guards that enforce its rules, and their verdicts on texts. */
import type { PatternMatcher } from '../patterns/patterns.ts'
import type { ActiveRules, Guard, GuardContext, RuleRef, Side, Span, TextItem } from '../plugin.ts'
import type { EffectivePolicy } from '../policy/policy.ts'
import { isSelected, type GuardInstance, type GuardRegistry } from './plan.ts'
import { CircuitBreaker, GuardRunner, VerdictCache } from './runner.ts'
import { ScanSession, pluginScanner, type StopReason } from './scan-session.ts'
import { ruleFilter, toFault, type BlockVerdict, type FaultKind } from './verdicts.ts'

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

/** The verdict of one guard on one text under one rule. */
export interface PolicyTestResult {
  readonly rule: string
  readonly side: Side
  readonly guard: string
  /** `not-asked`: a remote guard, where `remote` was not wanted. */
  readonly verdict: 'pass' | 'block' | 'error' | 'not-asked'
  readonly spans?: readonly Span[]
  readonly view?: string
  readonly score?: number
  readonly reason?: string
  readonly error?: FaultKind
}

interface PolicyTest {
  readonly policy: EffectivePolicy
  readonly guards: GuardRegistry
  readonly texts: { readonly input?: string; readonly output?: string }
  /** Whether remote guards are asked. */
  readonly remote: boolean
  readonly compile: (patterns: readonly string[]) => PatternMatcher | Promise<PatternMatcher>
  /** Throws when the result is no longer wanted; asked now and then. */
  readonly proceed: () => void
  /** The context of a guard. */
  readonly contextOf: (rules: ActiveRules, signal: AbortSignal, deadline: number) => GuardContext
}

interface Rule {
  readonly rule: string
  /** The name under which guards enforce it. */
  readonly family: RuleRef
  readonly only: ActiveRules
}

const SIDES: readonly Side[] = ['input', 'output']
const NO_RULES: ActiveRules = { scopes: [], deny: [], bannedPatterns: [] }
const LIMITS_MS = { input: 10_000, output: 10_000 }

/** Tests every rule in force on every text, by every guard that enforces it, in either `guard.mode`. Never throws for a guard. */
export async function testPolicy(test: PolicyTest): Promise<readonly PolicyTestResult[]> {
  const { policy, guards, texts } = test
  const rules = rulesOf(policy)
  const results: PolicyTestResult[] = []
  for (const side of SIDES) {
    const text = texts[side]
    if (text === undefined || !policy.guard[side]) continue
    results.push(...(await testPatterns(test, side, text)))
    for (const { rule, family, only } of rules) {
      for (const instance of guards.all) {
        const { name, guard } = instance
        if (!guard.enforces.includes(family) || !reads(guard, side)) continue
        results.push({ rule, side, guard: name, ...(await ask(test, instance, only, side, text)) })
      }
    }
  }
  return results
}

/** Every judged rule on its own. */
function rulesOf({ scopes, deny }: EffectivePolicy): readonly Rule[] {
  return [
    ...scopes.map((scope, index): Rule => {
      return { rule: `scope:${index}`, family: 'scope', only: { ...NO_RULES, scopes: [scope] } }
    }),
    ...deny.map((category): Rule => {
      const rule = `deny:${category}` as const
      return { rule, family: rule, only: { ...NO_RULES, deny: [category] } }
    }),
  ]
}

async function testPatterns(
  { policy, compile, proceed }: PolicyTest,
  side: Side,
  text: string,
): Promise<PolicyTestResult[]> {
  const results: PolicyTestResult[] = []
  for (const [index, pattern] of policy.bannedPatterns.entries()) {
    const match = await (await compile([pattern])).search(text, proceed)
    const result = { rule: `bannedPatterns[${index}]`, side, guard: 'patterns' }
    if (match) {
      const { start, end, view } = match
      results.push({ ...result, verdict: 'block', spans: [{ start, end }], view })
    } else results.push({ ...result, verdict: 'pass' })
  }
  return results
}

async function ask(
  { remote, contextOf }: PolicyTest,
  { name, plugin, guard }: GuardInstance,
  rules: ActiveRules,
  side: Side,
  text: string,
): Promise<Omit<PolicyTestResult, 'rule' | 'side' | 'guard'>> {
  if (guard.execution === 'remote' && !remote) return { verdict: 'not-asked' }
  const runner = new GuardRunner({
    name,
    guard,
    origin: 'key',
    ruleFilter: ruleFilter(plugin, guard.enforces, rules),
    circuit: new CircuitBreaker(),
    verdicts: new VerdictCache(),
    observer: { asked: () => {} },
    limitsMs: LIMITS_MS,
    signal: new AbortController().signal,
    contextOf: (signal, deadline) => contextOf(rules, signal, deadline),
  })
  try {
    const block = await blockIn(runner, side, text)
    if (!block) return { verdict: 'pass' }
    const { spans, score, reason } = block
    return {
      verdict: 'block',
      ...(spans && { spans }),
      ...(score === undefined ? {} : { score }),
      ...(reason === undefined ? {} : { reason }),
    }
  } catch (error) {
    return { verdict: 'error', error: toFault(error).kind }
  }
}

async function blockIn(
  runner: GuardRunner,
  side: Side,
  text: string,
): Promise<BlockVerdict | undefined> {
  const { guard, local } = runner
  if (side === 'output' && local) {
    const stop = await stopIn(runner, text)
    if (stop?.fault) throw stop.fault
    return stop?.block
  }
  const role = side === 'input' ? 'user' : 'assistant'
  const item: TextItem = { id: side, side, channel: 'content', role, current: true, text }
  if (side === 'output') {
    return runner.ask('output', async (context) =>
      runner.blockIn(await guard.checkOutput!(item, context), text.length),
    )
  }
  const first = (verdicts: readonly unknown[]) => runner.blockIn(verdicts[0], text.length)
  return local
    ? first(await runner.work((context) => guard.checkInput!([item], context)))
    : runner.ask('input', async (context) => first(await guard.checkInput!([item], context)))
}

/** What stops a complete answer, according to a local guard. */
async function stopIn(runner: GuardRunner, text: string): Promise<StopReason | undefined> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const stream = { channel: 'content', choice: 0, index: 0 } as const
  const scanner = pluginScanner(runner, '')
  const session = new ScanSession(scanner, stream, { atOnce: true, changed: resolve })
  session.push(text)
  session.end()
  if (session.state !== 'ready') await promise
  return session.stop
}

function reads(guard: Guard, side: Side): boolean {
  if (side === 'input') return guard.checkInput !== undefined
  // A remote guard that follows streams has to see the answer grow.
  return (
    guard.checkOutput !== undefined ||
    (guard.streamOutput !== undefined && guard.execution === 'local')
  )
}
