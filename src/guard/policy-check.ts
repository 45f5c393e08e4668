/** Reports on a policy without a call: the rules that no guard enforces, and the verdicts of guards on texts. */
import { compilePatternsSliced } from '../patterns/patterns.ts'
import type { ActiveRules, GuardContext, RuleRef, Side, TextItem, Channel } from '../plugin.ts'
import { type EffectivePolicy, refusalOf } from '../policy/policy.ts'
import {
  isSelected,
  type GuardInstance,
  type GuardRegistry,
  type Assignment,
  type GuardPlan,
  type GuardSet,
} from './plan.ts'
import { stopOf } from './screened-text.ts'
import {
  GuardRunner,
  patternBlock,
  referencesTo,
  ruleFilter,
  toFault,
  type Block,
  type FaultKind,
  CircuitBreaker,
  VerdictCache,
} from './runner.ts'
import { pluginScanner, scannersOf, type OutputScanner } from './text-check.ts'
import type { ChainStep } from '../stream/chain.ts'
import { run } from '../stream/flow.ts'
import type { InputTexts, OutputCodec } from './adapter.ts'
import { Decision, type ScreenObserver } from './decision.ts'
import { InputScreen } from './input-screen.ts'
import { Screen, type ScreenInit } from './screen.ts'

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

// Applies a policy to texts that belong to no call: what it would block, and what a client would get of an answer.
// Nothing is counted, and no circuit breaker learns of it.

const LIMITS_MS = { input: 10_000, output: 10_000 }
const IDLE_MS = 1500
const STALL_MS = 30_000
const NONE: GuardSet = { patterns: [], assignments: [] }
const SILENT = { decided() {}, failed() {}, removed() {}, unscanned() {} }

export interface RehearsalInit {
  readonly policy: EffectivePolicy
  readonly guards: GuardRegistry
  readonly remote: boolean
  /** Throws when the result is no longer wanted; called now and then. */
  readonly proceed: () => void
  readonly contextOf: (rules: ActiveRules, signal: AbortSignal, deadline: number) => GuardContext
}

export interface Rehearsed {
  /** Violated rules, without the number of a pattern; of an input up to the first. */
  readonly rules: readonly string[]
  readonly failed: readonly string[]
}

interface Shown {
  readonly text: string
  readonly refusal?: string
  /** The value of `X-Service-Guard`. */
  readonly header: string
}

interface Part {
  readonly text: string
  readonly ends?: boolean
  readonly refuses?: boolean
}

/** One policy with its guards. Made by {@link rehearse}. */
export class Rehearsal {
  readonly #init: RehearsalInit
  readonly #set: GuardSet
  readonly #plan: GuardPlan | undefined
  readonly #verdicts = new VerdictCache()

  constructor(init: RehearsalInit, plan: GuardPlan | undefined) {
    const { policy, remote } = init
    const set = plan && policy.guard.mode === 'monitor' ? plan.monitoring : plan?.enforcing
    const { patterns, assignments } = set ?? NONE
    this.#init = init
    this.#plan = plan
    this.#set = {
      patterns,
      assignments: assignments.filter(
        ({ instance }) => remote || instance.guard.execution === 'local',
      ),
    }
  }

  async input(texts: InputTexts): Promise<Rehearsed> {
    const rules = new Set<string>()
    const failed = new Set<string>()
    if (!this.#init.policy.guard.input) return { rules: [], failed: [] }
    await this.#screenInput(texts, {
      found: ({ block }, ends) => void (ends && rules.add(withoutPlace(block.rule))),
      failed: (guard) => !failed.add(guard),
    })
    return { rules: [...rules], failed: [...failed] }
  }

  /** @param userTurn the user's question */
  async output(
    texts: readonly { readonly channel: Channel; readonly text: string }[],
    userTurn: string,
  ): Promise<Rehearsed> {
    const rules = new Set<string>()
    const failed = new Set<string>()
    const scanners = this.#scanners(userTurn)
    for (const { channel, text } of texts) {
      for (const scanner of scanners) {
        if (!scanner.reads(channel)) continue
        const stop = await stopOf(scanner, { channel, choice: 0, index: 0 }, text)
        if (stop?.block) rules.add(withoutPlace(stop.block.rule))
        if (stop?.fault) failed.add(scanner.guard)
        this.#init.proceed()
      }
    }
    return { rules: [...rules], failed: [...failed] }
  }

  /**
   * The client's view of an answer in one text.
   * @param chunk characters that arrive at a time, of an answer that is streamed; undefined for one that comes whole
   */
  async shown(
    input: InputTexts,
    userTurn: string,
    answer: string,
    chunk: number | undefined,
    limits: ScreenInit<Part>['limits'],
  ): Promise<Shown> {
    const { policy } = this.#init
    const { mode, onError } = policy.guard
    const decision = new Decision({
      mode,
      onError,
      evidence: 'none',
      elapsedMs: () => 0,
      unenforced: this.#plan?.unenforced ?? [],
      metrics: SILENT,
      warn() {},
      thrown() {},
    })
    const header = () => {
      decision.final = true
      return decision.header()
    }
    if (mode === 'monitor' || !this.#plan) return { text: answer, header: header() }
    const refusal = refusalOf(policy)
    if (policy.guard.input) {
      const observer = decision.observer('input', true, 'withheld')
      if (await this.#screenInput(input, observer)) return { text: '', refusal, header: header() }
    }
    const scanners = this.#scanners(userTurn)
    if (scanners.length === 0) return { text: answer, header: header() }
    const screen = new Screen<Part>({
      codec: CODEC,
      scanners,
      enforce: true,
      buffer: policy.guard.stream === 'buffer',
      atOnce: chunk === undefined,
      errorForm: false,
      choices: 1,
      limits,
      observer: decision.observer('output', true, 'dropped'),
      refuse({ choice, fault }) {
        if (fault) decision.failedFor('output', choice, fault)
        return [{ text: '', refuses: true }]
      },
      idleMs: IDLE_MS,
      stallMs: STALL_MS,
    })
    const { text, isRefused } = await readThrough(screen, partsOf(answer, chunk))
    return { text, ...(isRefused && { refusal }), header: header() }
  }

  /** @returns whether the input is blocked */
  async #screenInput(
    input: InputTexts,
    observer: Pick<ScreenObserver, 'found' | 'failed'>,
  ): Promise<boolean> {
    const { proceed } = this.#init
    const { patterns } = this.#set
    const screen = new InputScreen({ input, patterns, runners: this.#runners(), observer, proceed })
    const { stop } = await screen.local()
    if (stop || !screen.isRemote) return stop !== undefined
    return (await screen.remote()).stop !== undefined
  }

  #scanners(userTurn: string): readonly OutputScanner[] {
    const { output } = this.#init.policy.guard
    return output ? scannersOf(this.#set.patterns, this.#runners(), userTurn) : []
  }

  #runners(): readonly GuardRunner[] {
    const { contextOf } = this.#init
    const verdicts = this.#verdicts
    return this.#set.assignments.map((one) => trialRunner({ ...one, verdicts, contextOf }))
  }
}

/** @throws what `proceed` throws */
export async function rehearse(init: RehearsalInit): Promise<Rehearsal> {
  return new Rehearsal(init, await init.guards.planFor(init.policy, init.proceed))
}

/** Runs a guard for a policy on trial, apart from calls. */
export function trialRunner({
  instance: { name, guard },
  rules,
  ruleFilter,
  origin,
  verdicts = new VerdictCache(),
  contextOf,
}: Pick<Assignment, 'instance' | 'rules' | 'ruleFilter' | 'origin'> &
  Pick<RehearsalInit, 'contextOf'> & { readonly verdicts?: VerdictCache }): GuardRunner {
  return new GuardRunner({
    name,
    guard,
    origin,
    ruleFilter,
    circuit: new CircuitBreaker(),
    verdicts,
    metrics: { recordAnswer: () => {} },
    limitsMs: LIMITS_MS,
    signal: new AbortController().signal,
    contextOf: (signal, deadline) => contextOf(rules, signal, deadline),
  })
}

const CODEC: OutputCodec<Part> = {
  split(part, take) {
    if (part.ends) return take({ kind: 'finish', choice: 0, part })
    take({ kind: 'text', choice: 0, channel: 'content', text: part.text, textOnly: true, part })
  },
  cut: ({ text }, start, end) => ({ text: text.slice(start, end) }),
}

async function* partsOf(answer: string, chunk: number | undefined): AsyncGenerator<Part> {
  if (chunk === undefined) yield { text: answer }
  else {
    const points = [...answer]
    for (let at = 0; at < points.length; at += chunk) {
      yield { text: points.slice(at, at + chunk).join('') }
    }
  }
  yield { text: '', ends: true }
}

/** The output of a step: the text of an answer, and whether it was refused. */
async function readThrough(step: ChainStep<Part, Part>, parts: AsyncIterable<Part>) {
  let [text, isRefused] = ['', false]
  await new Promise<void>((resolve, reject) => {
    run(parts, [step], {
      push(part: Part) {
        text += part.text
        isRefused ||= part.refuses === true
      },
      batchEnd: () => true,
      end: resolve,
      fail: (error) => reject(error as Error),
    })
  })
  return { text, isRefused }
}

/** Removes the index of a pattern: it differs between policies. */
function withoutPlace(rule: string): string {
  return rule.replace(/\[\d+\]$/, '')
}
