/** The guards of one configuration, and which of them a policy calls for. */
import type { ActiveRules, Category, Guard, Origin, RuleRef } from '../plugin.ts'
import type { EffectivePolicy } from '../policy/policy.ts'
import {
  CircuitBreaker,
  VerdictCache,
  referencesTo,
  ruleFilter,
  type RuleFilter,
  type FaultKind,
} from './runner.ts'
import {
  checkPatternsSliced,
  compilePatternsSliced,
  escapePattern,
  type PatternMatcher,
} from '../patterns/patterns.ts'
import type { Pico } from '../money/money.ts'
import { MAX_CALLS, MAX_COST } from './host.ts'
import { IN_FLIGHT, LONGEST, segmentsIn } from './text-check.ts'

export interface GuardInstance {
  readonly name: string
  readonly plugin: string
  readonly guard: Guard
  /** Completes a guard whose code is loaded on first use. Awaited before each use of its methods. */
  readonly load?: (() => Promise<void>) | undefined
  /** When it runs: for rules that it enforces, only for keys that name it, or for every call. */
  readonly applies: 'with-rules' | 'selected' | 'always'
  /** `monitor`: its verdicts are recorded and have no effect. */
  readonly mode: 'block' | 'monitor'
  readonly billing: 'account' | 'operator'
  /** Whose requests it masks: those of no key, of keys that want it, or of all. */
  readonly mask?: 'off' | 'keys' | 'always'
}

export interface Assignment {
  readonly instance: GuardInstance
  readonly origin: Origin
  readonly rules: ActiveRules
  readonly ruleFilter: RuleFilter
  readonly circuit: CircuitBreaker
}

export interface PatternAssignment {
  readonly origin: Origin
  readonly matcher: PatternMatcher
  /** Position of the first pattern in the effective list. */
  readonly offset: number
}

/** The readers of a text: patterns first, then guards. */
export interface GuardSet {
  readonly patterns: readonly PatternAssignment[]
  /** Local guards before remote ones, each in the order of the configuration, the key's rules first. */
  readonly assignments: readonly Assignment[]
}

export interface GuardPlan {
  readonly enforcing: GuardSet
  /** Guards whose verdicts are recorded and have no effect: all of them where the policy only monitors. */
  readonly monitoring: GuardSet
  /** Guards that the policy needs and that cannot judge. */
  readonly faults: readonly { readonly guard: string; readonly kind: FaultKind }[]
  /** Rules that no guard enforces: the model is told of them, and nothing else happens. */
  readonly unenforced: readonly string[]
}

const ORIGINS: readonly Origin[] = ['key', 'request']
const NONE: GuardSet = { patterns: [], assignments: [] }
const BY_NAME = 'guard/'

export class GuardRegistry {
  readonly all: readonly GuardInstance[]
  readonly verdicts: VerdictCache = new VerdictCache()
  readonly #hasModel: (id: string) => boolean
  readonly hasAlways: boolean
  readonly #asking: readonly GuardInstance[]
  readonly #masking: readonly GuardInstance[]
  readonly #maskingAll: readonly GuardInstance[]
  readonly #circuits = new Map<string, CircuitBreaker>()
  readonly #plans = new WeakMap<EffectivePolicy, { readonly plan: GuardPlan | undefined }>()

  /** @param hasModel whether the catalog has a model */
  constructor(all: readonly GuardInstance[], hasModel: (id: string) => boolean) {
    this.all = all
    this.#hasModel = hasModel
    this.#asking = all.filter(({ guard }) => guard.asks !== undefined)
    this.#masking = all.filter(({ mask = 'off' }) => mask !== 'off')
    this.#maskingAll = all.filter(({ mask }) => mask === 'always')
    this.hasAlways = all.some(({ applies }) => applies === 'always')
    for (const { name } of all) {
      for (const origin of ORIGINS) this.#circuits.set(`${name} ${origin}`, new CircuitBreaker())
    }
  }

  get circuits(): ReadonlyMap<string, CircuitBreaker> {
    return this.#circuits
  }

  /**
   * The plan of a policy; undefined where it calls for no guard. A promise only for a policy that is new.
   * @param proceed throws when the plan is no longer wanted
   */
  planFor(
    policy: EffectivePolicy,
    proceed: () => void,
  ): GuardPlan | undefined | Promise<GuardPlan | undefined> {
    const { guard, scopes, deny, bannedPatterns } = policy
    if (!guard.input && !guard.output) return undefined
    const hasRules = scopes.length + deny.length + bannedPatterns.length > 0
    if (!hasRules && !this.hasAlways && !guard.model?.startsWith(BY_NAME)) return undefined
    const cached = this.#plans.get(policy)
    if (cached) return cached.plan
    return this.#makePlan(policy, proceed).then((made) => {
      const { enforcing, monitoring } = made
      const isNeeded = hasRules || enforcing.assignments.length + monitoring.assignments.length > 0
      const plan = isNeeded ? made : undefined
      this.#plans.set(policy, { plan })
      return plan
    })
  }

  /** The guards that mask the requests of a key. @param wanted whether the key wants it */
  maskingFor(wanted: boolean): readonly GuardInstance[] {
    return wanted ? this.#masking : this.#maskingAll
  }

  /** Whether a guard that no rule of the policy calls for may block: one for all calls, or one that the policy names. */
  blocksWithoutRules(policy: EffectivePolicy): boolean {
    const { input, output, mode } = policy.guard
    if (mode === 'monitor' || !(input || output)) return false
    return this.all.some(
      (one) => one.mode === 'block' && (one.applies === 'always' || isSelected(one, policy)),
    )
  }

  /**
   * Guards of a policy that ask models at the expense of the account, once for each origin of their rules.
   * @param billMonitor whether the account pays for guards that only monitor too
   */
  askingFor(policy: EffectivePolicy, billMonitor: boolean): readonly AskingGuard[] {
    const { guard } = policy
    if (!guard.input && !guard.output) return []
    const paying = this.#asking.filter(({ billing, mode }) => {
      const enforced = guard.mode === 'block' && mode === 'block'
      return billing === 'account' && (enforced || billMonitor)
    })
    const asking = paying.flatMap((one) =>
      ORIGINS.flatMap((origin) => this.#assign(one, policy, origin) ?? []),
    )
    return asking.flatMap(({ instance, origin }) => {
      const model = askedBy(instance, judgeModelOf(policy))
      return model === undefined ? [] : [{ guard: instance.guard, origin, model }]
    })
  }

  async #makePlan(policy: EffectivePolicy, proceed: () => void): Promise<GuardPlan> {
    const faults: { guard: string; kind: FaultKind }[] = []
    const patterns: PatternAssignment[] = []
    for (const origin of ORIGINS) {
      const { bannedPatterns } = policy.rules[origin]
      if (bannedPatterns.length === 0) continue
      const offset = origin === 'key' ? 0 : policy.rules.key.bannedPatterns.length
      const { matcher, allValid } = await compileAll(bannedPatterns, origin, proceed)
      patterns.push({ origin, offset, matcher })
      if (!allValid) faults.push({ guard: 'patterns', kind: 'invalid' })
    }
    const applicable = this.all.flatMap((one) =>
      ORIGINS.flatMap((origin) => this.#assign(one, policy, origin) ?? []),
    )
    await Promise.all(applicable.map(({ instance }) => instance.load?.()))
    const assignments = [
      ...applicable.filter(({ instance }) => instance.guard.execution === 'local'),
      ...applicable.filter(({ instance }) => instance.guard.execution === 'remote'),
    ]
    const blocking = assignments.filter(({ instance }) => instance.mode === 'block')
    const others = assignments.filter(({ instance }) => instance.mode === 'monitor')
    const monitors = policy.guard.mode === 'monitor'
    const answered = rulesOf(assignments)
    const enforced = monitors ? answered : rulesOf(blocking)
    const judged = referencesTo(policy).filter((rule) => rule !== 'bannedPatterns')
    const unanswered = judged.filter((rule) => rule !== 'scope' && !answered.has(rule))
    const judge = judged.length > 0 ? policy.guard.model : undefined
    if (unanswered.length > 0 || (judge && !this.#canJudge(judge))) {
      faults.push({ guard: judge ?? unanswered.join(','), kind: 'unanswered' })
    }
    const unenforced = judged.filter((rule) => !enforced.has(rule) && !unanswered.includes(rule))
    const all = { patterns, assignments: [...blocking, ...others] }
    return {
      enforcing: monitors ? NONE : { patterns, assignments: blocking },
      monitoring: monitors ? all : { patterns: [], assignments: others },
      faults,
      unenforced,
    }
  }

  #assign(
    instance: GuardInstance,
    policy: EffectivePolicy,
    origin: Origin,
  ): Assignment | undefined {
    const { name, plugin, guard, applies } = instance
    const selected = isSelected(instance, policy)
    if (applies === 'selected' && !selected) return undefined
    const rules = rulesFor(guard, policy.rules[origin])
    const anyway = origin === 'key' && (applies === 'always' || selected)
    if (referencesTo(rules).length === 0 && !anyway) return undefined
    const filter = ruleFilter(plugin, guard.enforces, rules)
    const circuit = this.#circuits.get(`${name} ${origin}`)!
    return { instance, origin, rules, ruleFilter: filter, circuit }
  }

  /** Whether `guard.model` of a policy names a guard of the configuration or a model of the catalog. */
  hasJudge(judge: string): boolean {
    if (!judge.startsWith(BY_NAME)) return this.#hasModel(judge)
    return this.all.some(({ name }) => BY_NAME + name === judge)
  }

  #canJudge(judge: string): boolean {
    const isAsked = this.all.some(({ guard }) => guard.enforces.includes('scope'))
    return this.hasJudge(judge) && (isAsked || judge.startsWith(BY_NAME))
  }
}

export function isSelected(
  { name }: Pick<GuardInstance, 'name'>,
  { guard }: EffectivePolicy,
): boolean {
  return guard.model === BY_NAME + name
}

export function judgeModelOf({ guard: { model } }: EffectivePolicy): string | undefined {
  return model?.startsWith(BY_NAME) ? undefined : model
}

/**
 * The model that a guard asks, by its own statement; undefined for none. A guard that cannot tell is asked all the
 * same.
 * @param judgeModel the model that a policy names
 */
export function askedBy(
  { guard }: GuardInstance,
  judgeModel: string | undefined,
): string | undefined {
  try {
    const model: unknown = guard.asks?.(judgeModel)
    return typeof model === 'string' ? model : undefined
  } catch {
    return undefined
  }
}

function rulesFor({ enforces }: Guard, rules: ActiveRules): ActiveRules {
  const has = (rule: RuleRef) => enforces.includes(rule)
  return Object.freeze({
    scopes: has('scope') ? rules.scopes : [],
    deny: rules.deny.filter((category: Category) => has(`deny:${category}`)),
    bannedPatterns: has('bannedPatterns') ? rules.bannedPatterns : [],
  })
}

function rulesOf(assignments: readonly Assignment[]): ReadonlySet<RuleRef> {
  return new Set(assignments.flatMap(({ rules }) => referencesTo(rules)))
}

/** Compiles patterns. A stored pattern that has become invalid stands for its own letters. */
async function compileAll(
  patterns: readonly string[],
  origin: Origin,
  proceed: () => void,
): Promise<{ readonly matcher: PatternMatcher; readonly allValid: boolean }> {
  try {
    return { matcher: await compilePatternsSliced(patterns, origin, proceed), allValid: true }
  } catch {
    proceed()
    const valid: string[] = []
    for (const pattern of patterns) {
      const { problem } = await checkPatternsSliced([pattern], proceed)
      valid.push(problem ? escapePattern(pattern) : pattern)
    }
    return { matcher: await compilePatternsSliced(valid, origin, proceed), allValid: false }
  }
}

// An estimate of the questions of guards to models about a call at the expense of the account, and of their cost.
// This is part of the hold for the call; the charge is what the models report.

/** A guard that asks a model for the rules of one origin, at the expense of the account. */
interface AskingGuard {
  readonly guard: Guard
  readonly origin: Origin
  /** Catalog id of the model. */
  readonly model: string
}

export interface AskedTexts {
  /** Characters of the input; 0 for none. */
  readonly input: number
  /** Characters of each choice of the answer, probable and at most; 0 for none. */
  readonly output: Readonly<Record<Figure, number>>
  readonly choices: number
}

/** The two figures of a hold: the probable questions, and the most that can be asked. */
type Figure = 'expected' | 'ceiling'

interface Questions {
  readonly model: string
  readonly count: number
  readonly atOnce: number
}

/** Questions by budget, see {@link GuardBudget}. */
export type BudgetedQuestions = Readonly<Record<Figure, readonly (readonly Questions[])[]>>

/** An unusable answer is asked for once more. */
export const ATTEMPTS = 2

/** The number of questions of a guard about one text, when every answer can be used. One where it does not tell. */
export function questionsAbout(guard: Guard, characters: number): number {
  try {
    const count: unknown = guard.questions?.(characters)
    return Number.isInteger(count) ? Math.min(Math.max(count as number, 1), MAX_CALLS) : 1
  } catch {
    return 1
  }
}

export function questionsOf(
  guards: readonly AskingGuard[],
  { input, output, choices }: AskedTexts,
): BudgetedQuestions {
  const byOrigin = [...Map.groupBy(guards, ({ origin }) => origin).values()]
  const budgets = (attempts: number, characters: number) =>
    byOrigin.map((list) =>
      list.map(({ guard, model }) => {
        const about = guard.checkInput && input > 0 ? questionsAbout(guard, input) : 0
        const answer = questionsAboutAnswer(guard, characters)
        return {
          model,
          count: attempts * (about + choices * answer.count),
          atOnce: Math.max(about, choices * answer.atOnce),
        }
      }),
    )
  return { expected: budgets(1, output.expected), ceiling: budgets(ATTEMPTS, output.ceiling) }
}

function questionsAboutAnswer(guard: Guard, characters: number): Omit<Questions, 'model'> {
  const reads = guard.checkOutput !== undefined || guard.streamOutput !== undefined
  if (!reads || characters <= 0) return { count: 0, atOnce: 0 }
  const segments = guard.needsFullText ? 1 : Math.min(segmentsIn(characters), MAX_CALLS)
  const each = questionsAbout(guard, guard.needsFullText ? characters : LONGEST)
  return { count: segments * each, atOnce: Math.min(segments, IN_FLIGHT) * each }
}

/**
 * The cost of questions. A budget pays for so many questions, and for no further one when its amount is spent; those
 * that run then continue.
 * @param costOf one question to a model
 */
export function costOfQuestions(
  budgets: readonly (readonly Questions[])[],
  costOf: (model: string) => Pico,
): Pico {
  let total = 0n
  for (const list of budgets) {
    let [all, dearest, running] = [0n, 0n, 0n]
    for (const { model, count, atOnce } of list) {
      const cost = costOf(model)
      all += BigInt(count) * cost
      running += BigInt(atOnce) * cost
      if (cost > dearest) dearest = cost
    }
    total += [all, BigInt(MAX_CALLS) * dearest, MAX_COST + running].reduce(lesser)
  }
  return total
}

function lesser(one: Pico, other: Pico): Pico {
  return one < other ? one : other
}
