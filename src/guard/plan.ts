/** The guards of one configuration, and which of them a policy calls for (guard design, 1.2, 2.3, 4). */
import type { ActiveRules, Category, Guard, Origin, RuleRef } from '../plugin.ts'
import type { EffectivePolicy } from '../policy/policy.ts'
import { CircuitBreaker } from './circuit-breaker.ts'
import { VerdictCache } from './verdict-cache.ts'
import { escapePattern, type CompiledMatcher } from '../patterns/patterns.ts'
import { inTurns, type Steps } from '../patterns/time-slice.ts'
import { ruleFilter, type RuleFilter, type FaultKind } from './verdicts.ts'

/** A plugin, set up. */
export interface GuardInstance {
  /** The instance's name. */
  readonly name: string
  /** The plugin's name, which its own rules begin with. */
  readonly plugin: string
  readonly guard: Guard
  /** When it runs: for rules that it answers, only for keys that name it, or for every call. */
  readonly applies: 'with-rules' | 'selected' | 'always'
  /** `monitor`: the operator wants its verdicts and nothing else of it. */
  readonly mode: 'block' | 'monitor'
  /** Who pays for the models that it asks. */
  readonly billing: 'account' | 'operator'
}

/** A guard at work for the rules of one origin. */
export interface Assignment {
  readonly loaded: GuardInstance
  readonly origin: Origin
  readonly rules: ActiveRules
  readonly admits: RuleFilter
  readonly circuit: CircuitBreaker
}

/** Banned patterns of one origin. */
export interface PatternAssignment {
  readonly origin: Origin
  readonly matcher: CompiledMatcher
  /** Position of the first of them in the effective list. */
  readonly offset: number
}

/** What a policy calls for. */
export interface GuardPlan {
  readonly patterns: readonly PatternAssignment[]
  /** Local guards before remote ones, each in the order of the configuration, the key's rules first. */
  readonly duties: readonly Assignment[]
  /** The same for guards that only look on. */
  readonly monitoring: readonly Assignment[]
  /** Guards that should be there and cannot look. */
  readonly faults: readonly { readonly guard: string; readonly kind: FaultKind }[]
  /** Rules that nobody enforces: they are told to the model and that is all. */
  readonly unenforced: readonly string[]
}

/** Compiles patterns. @throws for what is no pattern */
export type Compile = (patterns: readonly string[], origin: Origin) => Steps<CompiledMatcher>

const ORIGINS: readonly Origin[] = ['key', 'request']
/** How a key names a guard as its judge. */
const BY_NAME = 'guard/'

export class GuardRegistry {
  readonly all: readonly GuardInstance[]
  readonly passes: VerdictCache = new VerdictCache()
  readonly #compile: Compile
  readonly #hasModel: (id: string) => boolean
  readonly #always: boolean
  readonly #circuits = new Map<string, CircuitBreaker>()
  readonly #rosters = new WeakMap<EffectivePolicy, GuardPlan>()

  /** @param hasModel whether the catalog has a model */
  constructor(all: readonly GuardInstance[], compile: Compile, hasModel: (id: string) => boolean) {
    this.all = all
    this.#compile = compile
    this.#hasModel = hasModel
    this.#always = all.some(({ applies }) => applies === 'always')
    for (const { name } of all) {
      for (const origin of ORIGINS) this.#circuits.set(`${name} ${origin}`, new CircuitBreaker())
    }
  }

  /** Circuits by guard and origin, for the operator. */
  get circuits(): ReadonlyMap<string, CircuitBreaker> {
    return this.#circuits
  }

  /**
   * What a policy calls for; nothing for most. A promise only where patterns have to be compiled that are new and many.
   * @param proceed throws where nobody waits for it any more
   */
  planFor(
    policy: EffectivePolicy,
    proceed: () => void,
  ): GuardPlan | undefined | Promise<GuardPlan | undefined> {
    const { guard, scopes, deny, bannedPatterns } = policy
    if (!guard.input && !guard.output) return undefined
    const ruled = scopes.length + deny.length + bannedPatterns.length > 0
    if (!ruled && !this.#always && !guard.model?.startsWith(BY_NAME)) return undefined
    const known = this.#rosters.get(policy)
    const roster = known ?? inTurns(this.#enlist(policy), proceed)
    const some = (one: GuardPlan) =>
      one.duties.length + one.monitoring.length > 0 || ruled ? one : undefined
    return roster instanceof Promise ? roster.then(some) : some(roster)
  }

  *#enlist(policy: EffectivePolicy): Steps<GuardPlan> {
    const faults: { guard: string; kind: FaultKind }[] = []
    const patterns: PatternAssignment[] = []
    const keys = policy.rules.key.bannedPatterns.length
    for (const origin of ORIGINS) {
      const { bannedPatterns } = policy.rules[origin]
      if (bannedPatterns.length === 0) continue
      const offset = origin === 'key' ? 0 : keys
      const { matcher, sound } = yield* this.#compileAll(bannedPatterns, origin)
      patterns.push({ origin, offset, matcher })
      if (!sound) faults.push({ guard: 'patterns', kind: 'invalid' })
    }
    const judge = judgeOf(policy)
    const all = this.all
      .flatMap((loaded) => ORIGINS.flatMap((origin) => this.#dutyOf(loaded, policy, origin) ?? []))
      .sort((a, b) => Number(isRemote(a)) - Number(isRemote(b)))
    const rulesOf = (duties: readonly Assignment[]) =>
      new Set(duties.flatMap(({ rules }) => referencesOf(rules)))
    const answered = rulesOf(all)
    const duties = all.filter(({ loaded }) => loaded.mode === 'block')
    const monitoring = all.filter(({ loaded }) => loaded.mode === 'monitor')
    // Where the policy only monitors, all guards do.
    const enforced = policy.guard.mode === 'monitor' ? answered : rulesOf(duties)
    const judged = referencesOf(policy).filter((rule) => rule !== 'bannedPatterns')
    const denied = judged.filter((rule) => rule !== 'scope' && !answered.has(rule))
    if (denied.length > 0 || (judge && !this.#canJudge(judge)))
      faults.push({ guard: judge ?? denied.join(','), kind: 'unanswered' })
    const roster = {
      patterns,
      duties,
      monitoring,
      faults,
      unenforced: judged.filter((rule) => !enforced.has(rule) && !denied.includes(rule)),
    }
    this.#rosters.set(policy, roster)
    return roster
  }

  /** A stored pattern that is none any more still stands for its own letters. */
  *#compileAll(
    patterns: readonly string[],
    origin: Origin,
  ): Steps<{ readonly matcher: CompiledMatcher; readonly sound: boolean }> {
    try {
      return { matcher: yield* this.#compile(patterns, origin), sound: true }
    } catch {
      const sound: string[] = []
      for (const pattern of patterns) {
        try {
          yield* this.#compile([pattern], origin)
          sound.push(pattern)
        } catch {
          sound.push(escapePattern(pattern))
        }
      }
      return { matcher: yield* this.#compile(sound, origin), sound: false }
    }
  }

  #dutyOf(loaded: GuardInstance, policy: EffectivePolicy, origin: Origin): Assignment | undefined {
    const { name, plugin, guard, applies } = loaded
    const selected = isSelected(loaded, policy)
    if (applies === 'selected' && !selected) return undefined
    const rules = rulesFor(guard, policy.rules[origin])
    const references = referencesOf(rules)
    const anyway = origin === 'key' && (applies === 'always' || selected)
    if (references.length === 0 && !anyway) return undefined
    const admits = ruleFilter(plugin, guard.enforces, new Set<string>(references))
    const circuit = this.#circuits.get(`${name} ${origin}`)!
    return { loaded, origin, rules, admits, circuit }
  }

  /** Whether `guard.model` of a policy names something: a guard of the configuration, or a model of the catalog. */
  hasJudge(judge: string): boolean {
    if (!judge.startsWith(BY_NAME)) return this.#hasModel(judge)
    return this.all.some(({ name }) => BY_NAME + name === judge)
  }

  #canJudge(judge: string): boolean {
    if (!this.hasJudge(judge)) return false
    return (
      judge.startsWith(BY_NAME) || this.all.some(({ guard }) => guard.enforces.includes('scope'))
    )
  }
}

/** Whether a policy names a guard as its judge. */
export function isSelected({ name }: GuardInstance, { guard }: EffectivePolicy): boolean {
  return guard.model === BY_NAME + name
}

function judgeOf({ guard: { model }, scopes, deny }: EffectivePolicy): string | undefined {
  return scopes.length + deny.length > 0 ? model : undefined
}

function rulesFor({ enforces: answers }: Guard, rules: ActiveRules): ActiveRules {
  const has = (rule: RuleRef) => answers.includes(rule)
  return Object.freeze({
    scopes: has('scope') ? rules.scopes : [],
    deny: rules.deny.filter((category: Category) => has(`deny:${category}`)),
    bannedPatterns: has('bannedPatterns') ? rules.bannedPatterns : [],
  })
}

/** Rules by the names that guards answer for. */
function referencesOf({ scopes, deny, bannedPatterns }: ActiveRules): RuleRef[] {
  return [
    ...(scopes.length > 0 ? (['scope'] as const) : []),
    ...deny.map((category) => `deny:${category}` as const),
    ...(bannedPatterns.length > 0 ? (['bannedPatterns'] as const) : []),
  ]
}

function isRemote({ loaded }: Assignment): boolean {
  return loaded.guard.execution === 'remote'
}
