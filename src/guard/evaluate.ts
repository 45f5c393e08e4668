/** Tries a policy on texts, rule by rule, without a call (for operators who write policies). */
import type { ActiveRules, GuardContext, RuleRef, Side, Span, TextItem } from '../plugin.ts'
import type { EffectivePolicy } from '../policy/policy.ts'
import { CircuitBreaker } from './circuit-breaker.ts'
import type { Stop } from './scan-session.ts'
import { pluginScout } from './scan-sessions.ts'
import type { GuardRegistry, GuardInstance } from './plan.ts'
import { VerdictCache } from './verdict-cache.ts'
import type { CompiledMatcher } from '../patterns/patterns.ts'
import { inTurns, type Steps } from '../patterns/time-slice.ts'
import { ruleFilter, checkVerdict, toFault, type BlockVerdict, type FaultKind } from './verdicts.ts'
import { GuardRunner } from './runner.ts'

/** What one guard says of one text under one rule. */
export interface PolicyTestResult {
  readonly rule: string
  readonly side: Side
  readonly guard: string
  /** `not-asked`: a guard that would have asked elsewhere. */
  readonly verdict: 'pass' | 'block' | 'error' | 'not-asked'
  readonly spans?: readonly Span[]
  readonly view?: string
  readonly score?: number
  readonly reason?: string
  readonly error?: FaultKind
}

export interface PolicyTest {
  readonly policy: EffectivePolicy
  readonly guards: GuardRegistry
  readonly texts: { readonly input?: string; readonly output?: string }
  /** Whether remote guards are asked. */
  readonly remote: boolean
  readonly compile: (patterns: readonly string[]) => Steps<CompiledMatcher>
  /** Throws where nobody waits for it any more; asked now and then. */
  readonly proceed: () => void
  /** What a guard is told. */
  readonly contextOf: (rules: ActiveRules, signal: AbortSignal, deadline: number) => GuardContext
}

interface Rule {
  readonly rule: string
  /** What guards answer for. */
  readonly family: RuleRef
  readonly only: ActiveRules
}

const SIDES: readonly Side[] = ['input', 'output']
const NO_RULES: ActiveRules = { scopes: [], deny: [], bannedPatterns: [] }
const LIMITS_MS = { input: 10_000, output: 10_000 }

/** Every rule in force on every text, by every guard that answers for it; whatever `guard.mode` is. */
export async function testPolicy(trial: PolicyTest): Promise<readonly PolicyTestResult[]> {
  const { policy, guards, texts } = trial
  const rules = rulesOf(policy)
  const found: PolicyTestResult[] = []
  for (const side of SIDES) {
    const text = texts[side]
    if (text === undefined || !policy.guard[side]) continue
    found.push(...(await inTurns(patternsOn(trial, side, text), trial.proceed)))
    for (const { rule, family, only } of rules) {
      for (const loaded of guards.all) {
        if (!loaded.guard.enforces.includes(family) || !looksAt(loaded, side)) continue
        found.push({
          rule,
          side,
          guard: loaded.name,
          ...(await ask(trial, loaded, only, side, text)),
        })
      }
    }
  }
  return found
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

function* patternsOn(
  { policy, compile }: PolicyTest,
  side: Side,
  text: string,
): Steps<PolicyTestResult[]> {
  const found: PolicyTestResult[] = []
  for (const [index, pattern] of policy.bannedPatterns.entries()) {
    const matcher = yield* compile([pattern])
    const hit = yield* matcher.searchTask(text)
    const evaluation = { rule: `bannedPatterns[${index}]`, side, guard: 'patterns' }
    if (!hit) {
      found.push({ ...evaluation, verdict: 'pass' })
      continue
    }
    const { start, end, view } = hit
    found.push({ ...evaluation, verdict: 'block', spans: [{ start, end }], view })
  }
  return found
}

async function ask(
  { remote, contextOf }: PolicyTest,
  { name, plugin, guard }: GuardInstance,
  rules: ActiveRules,
  side: Side,
  text: string,
): Promise<Omit<PolicyTestResult, 'rule' | 'side' | 'guard'>> {
  if (guard.execution === 'remote' && !remote) return { verdict: 'not-asked' }
  const inForce = rules.scopes.length > 0 ? ['scope'] : rules.deny.map((one) => `deny:${one}`)
  const watch = new GuardRunner({
    name,
    guard,
    origin: 'key',
    admits: ruleFilter(plugin, guard.enforces, new Set(inForce)),
    circuit: new CircuitBreaker(),
    passes: new VerdictCache(),
    observer: { asked: () => {} },
    limitsMs: LIMITS_MS,
    signal: new AbortController().signal,
    contextOf: (signal, deadline) => contextOf(rules, signal, deadline),
  })
  try {
    const block = await blockIn(watch, side, text)
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
  watch: GuardRunner,
  side: Side,
  text: string,
): Promise<BlockVerdict | undefined> {
  const { guard, local, admits } = watch
  if (side === 'output' && local) {
    const stop = await stopIn(watch, text)
    if (stop?.fault) throw stop.fault
    return stop?.block
  }
  const unit: TextItem = {
    id: side,
    side,
    channel: 'content',
    role: side === 'input' ? 'user' : 'assistant',
    current: true,
    text,
  }
  if (side === 'output') {
    return watch.ask('output', async (context) =>
      checkVerdict(await guard.checkOutput!(unit, context), text.length, admits),
    )
  }
  const first = (verdicts: readonly unknown[]) => checkVerdict(verdicts[0], text.length, admits)
  return local
    ? first(await watch.work((context) => guard.checkInput!([unit], context)))
    : watch.ask('input', async (context) => first(await guard.checkInput!([unit], context)))
}

/** What a local guard says of an answer that is there whole. */
async function stopIn(watch: GuardRunner, text: string): Promise<Stop | undefined> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const lane = { channel: 'content', choice: 0, index: 0 } as const
  const follower = pluginScout(watch, '').follow(lane, resolve, true)
  follower.push(text)
  follower.end()
  if (follower.waiting) await promise
  return follower.stop
}

function looksAt({ guard }: GuardInstance, side: Side): boolean {
  if (side === 'input') return guard.checkInput !== undefined
  // A guard that follows lanes and asks elsewhere has to see an answer grow.
  return (
    guard.checkOutput !== undefined ||
    (guard.streamOutput !== undefined && guard.execution === 'local')
  )
}
