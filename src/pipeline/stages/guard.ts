/** The guard stage: the texts of input and answer that guards see, their order, and the consequences. */
import { compilePrices } from '../../money/prices.ts'
import { PolicyViolation, Unavailable } from '../../errors/errors.ts'
import { sidesRead, type GuardAdapter, type InputTexts } from '../../guard/adapter.ts'
import { Decision } from '../../guard/decision.ts'
import { InputScreen, type InputVerdict } from '../../guard/input-screen.ts'
import { Screen, type Denial } from '../../guard/screen.ts'
import {
  type GuardPlan,
  type GuardSet,
  judgeModelOf,
  type Assignment,
  type GuardInstance,
  type PatternAssignment,
} from '../../guard/plan.ts'
import { GuardFault, GuardRunner } from '../../guard/runner.ts'
import type { SearchResult, Side, TextItem, GuardContext, Origin } from '../../plugin.ts'
import { knownRefusals, NO_POLICY, refusalOf } from '../../policy/policy.ts'
import { Instead, type ChainStep, type Feed, type Outlet } from '../../stream/chain.ts'
import { feedOf } from '../../stream/flow.ts'
import type { ResultFilter } from '../../search/results.ts'
import { keepContents } from '../contents.ts'
import type { Call, Stage } from '../pipeline.ts'
import { GuardBudget, grantModelAccess, type ModelAccess } from '../../guard/host.ts'
import { type OutputScanner, scannersOf } from '../../guard/text-check.ts'

// The guards of a policy at work for one call: their rules, deadline, and payer.

/** Characters of a long user turn that guards are shown with the answer. */
const TURN_HEAD = 1200
const TURN_TAIL = 800

/** Guards that work on one task, such as the input of a call. */
interface RunnerGroup {
  readonly patterns: readonly PatternAssignment[]
  readonly runners: readonly GuardRunner[]
  /** It is false for guards that only monitor. */
  readonly enforced: boolean
  /** It is aborted with the call, and by {@link end}. */
  readonly signal?: AbortSignal
  /** Ends the group: its answers do not matter any more. Idempotent. */
  readonly end: () => void
}

export class GuardRunners {
  readonly #call: Call
  /** The user's question as guards are shown it; empty where there are none. */
  readonly #userTurn: string
  #budgets: Record<Origin, GuardBudget> | undefined

  constructor(call: Call, { enforcing, monitoring }: GuardPlan, input: InputTexts) {
    const guards = enforcing.assignments.length + monitoring.assignments.length
    this.#call = call
    this.#userTurn = guards > 0 ? userTurnIn(input) : ''
  }

  /**
   * Puts guards to one task. The caller ends the group.
   * @param enforced false for guards that only monitor, which do so at the operator's expense
   */
  start({ patterns, assignments }: GuardSet, enforced: boolean): RunnerGroup {
    if (assignments.length === 0) return { patterns, runners: [], enforced, end() {} }
    const call = this.#call
    const scope = call.abortScope()
    const { signal } = scope
    const end = () => {
      call.release(scope)
      scope.abort()
    }
    const runners = assignments.map((one) => this.#runnerOf(one, signal, enforced))
    return { patterns, runners, enforced, signal, end }
  }

  scanners({ patterns, runners }: RunnerGroup): readonly OutputScanner[] {
    return scannersOf(patterns, runners, this.#userTurn)
  }

  #runnerOf(assignment: Assignment, signal: AbortSignal, enforced: boolean): GuardRunner {
    const { instance, origin, ruleFilter, circuit } = assignment
    const { runtime, target } = this.#call
    const { policy } = target
    const { input, output } = runtime.config.guards.deadlines
    // A guard knows the rules of one origin; in the policy those of the key come first.
    const { scopes, bannedPatterns } = policy.rules.key
    const offsets = { scopes: scopes.length, bannedPatterns: bannedPatterns.length }
    return new GuardRunner({
      name: instance.name,
      guard: instance.guard,
      origin,
      ruleFilter,
      ...(origin === 'request' && { offsets }),
      circuit,
      verdicts: runtime.guards.verdicts,
      metrics: runtime.metrics.guard,
      onQuestion: (question) => this.#call.addQuestion({ to: 'guard', ...question }),
      late: runtime.metrics,
      limitsMs: { input: input * 1000, output: output * 1000 },
      signal,
      contextOf: (own, deadline) => this.#contextOf(assignment, own, deadline, enforced),
    })
  }

  #contextOf(
    { instance, origin, rules }: Assignment,
    signal: AbortSignal,
    deadline: number,
    enforced: boolean,
  ): GuardContext {
    const { id, endpoint } = this.#call
    const { account, key } = this.#call.admission
    const { model, policy } = this.#call.target
    const judgeModel = judgeModelOf(policy)
    const context: GuardContext = Object.freeze({
      requestId: id,
      accountId: account.id,
      keyId: key.id,
      operation: endpoint.operation,
      model: model.id,
      origin,
      rules,
      ...(judgeModel !== undefined && { judgeModel }),
      conversation: Object.freeze({ userTurn: this.#userTurn }),
      signal,
      deadline,
    })
    return grantModelAccess(context, this.#modelAccess(instance, origin, enforced))
  }

  #modelAccess({ billing }: GuardInstance, origin: Origin, enforced: boolean): ModelAccess {
    const call = this.#call
    const { id, path, incoming, runtime, catalog, answer } = call
    const { held, account } = call.admission
    const caller = { id, path, incoming, runtime, catalog, account, answer }
    // Monitor-mode calls are billed to the operator unless `billMonitor` is set.
    const payer = enforced || runtime.config.guards.billMonitor ? billing : 'operator'
    this.#budgets ??= { key: new GuardBudget(), request: new GuardBudget() }
    return {
      account: account.id,
      budget: this.#budgets[origin],
      pays: (model) =>
        payer === 'operator' || held!.billed || runtime.catalog.get(model)?.freeTier === true,
      ask: (question) => runtime.internalChat(caller, question),
      book(line, cost) {
        // The operator pays for what comes after the bill was made.
        const isOpen = answer.priced === undefined
        const charged = payer === 'account' && isOpen
        // What the operator pays is on the row too, at no price: its vendor is paid all the same.
        if (isOpen) answer.meter.push(charged ? line : { ...line, prices: UNPRICED })
        if (charged && line.usage.estimated) answer.flags.add('estimated')
        runtime.metrics.guard.spent(charged ? payer : 'operator', cost)
      },
      ended: (ok) => runtime.metrics.guard.judged(ok),
    }
  }
}

const UNPRICED = compilePrices({})

/** The text of the current user turn, at most its head and its tail. */
function userTurnIn({ items }: InputTexts): string {
  const text = items
    .filter(({ current, channel, role }) => current && channel === 'content' && role === 'user')
    .map((item) => item.text)
    .join('\n')
  if (text.length <= TURN_HEAD + TURN_TAIL) return text
  const excerpt = `${text.slice(0, TURN_HEAD - 3)}\n…\n${text.slice(-TURN_TAIL)}`
  // A copy: a part of a text keeps the whole of it in memory.
  return Buffer.from(excerpt, 'utf16le').toString('utf16le')
}

/** ms without new text after which an unfinished segment is judged. */
const IDLE_MS = 1500
const UNAVAILABLE = 'A guard of this key could not look at this request. Try again later.'
const UNANSWERED = 'no guard looks after a rule'

/**
 * Has guards look at the input before anything of it goes upstream, and at the answer before the client gets it. A call
 * whose policy has no rules passes untouched.
 */
export const guard: Stage = {
  name: 'guard',
  before(call) {
    const { runtime, endpoint, target } = call
    const { policy } = target
    for (const member of policy.ignored) runtime.metrics.guard.ignored(member)
    const adapter = endpoint.guard
    if (!adapter || (policy === NO_POLICY && !runtime.guards.hasAlways)) return putBack(call)
    const plan = runtime.guards.planFor(policy, () => call.throwIfAborted())
    const begin = (made: GuardPlan | undefined) =>
      made ? new CallGuard(call, adapter, made).begin() : putBack(call)
    return plan instanceof Promise ? plan.then(begin) : begin(plan)
  },
  end({ made }) {
    const guards = made.target?.resultFilter
    if (guards instanceof CallGuard) guards.close()
  },
}

/** Puts values back into an answer that no guard reads. */
function putBack(call: Call): undefined {
  if (call.target.masked) call.through(...puttingBack(call))
}

/** Keeps the contents of a masked request as a vendor has them, and puts the values back. */
function puttingBack(call: Call): readonly ChainStep[] {
  const { masked } = call.target
  if (!masked) return []
  const keeping = keepContents(call)
  return [...(keeping ? [keeping] : []), ...(masked.restoring ? [masked.restoring] : [])]
}

type Stop = InputVerdict['stop']

/** The guards of one call. Those that monitor change, delay and refuse nothing. */
class CallGuard implements ResultFilter {
  readonly #call: Call
  readonly #adapter: GuardAdapter
  readonly #plan: GuardPlan
  readonly #decision: Decision
  /** Texts of the input; none once they were checked. */
  #input: InputTexts
  /** The same as the client sent them, where they are masked. */
  #original: InputTexts | undefined
  readonly #runners: GuardRunners
  readonly #readsInput: boolean
  readonly #readsOutput: boolean
  readonly #errorForm: boolean
  readonly #screens: Screen<any>[] = []

  constructor(call: Call, adapter: GuardAdapter, plan: GuardPlan) {
    const { runtime, id, request, target } = call
    const { policy, masked } = target
    const { mode, onError, onBlock } = policy.guard
    const { input, output } = sidesRead(adapter, policy)
    this.#call = call
    this.#adapter = adapter
    this.#plan = plan
    this.#decision = call.answer.decision = new Decision({
      mode,
      onError,
      evidence: masked ? hashed(runtime.config.guards.evidence) : runtime.config.guards.evidence,
      elapsedMs: () => call.elapsedMs,
      unenforced: plan.unenforced,
      metrics: runtime.metrics.guard,
      warn: (message) => runtime.faults.warn(message, `${id}: ${message}`),
      thrown(name, error) {
        if (call.aborted) return
        const { plugin = name } = runtime.guards.all.find((one) => one.name === name) ?? {}
        runtime.faults.caught(error, plugin, name, true)
      },
      escalate: policy.escalate.enabled ? (decision) => this.#escalate(decision) : undefined,
      masked: masked && (() => masked.masking.header()),
    })
    this.#input = adapter.inputTexts(request.input, knownRefusals(policy))
    if (masked) this.#original = adapter.inputTexts(masked.original, knownRefusals(policy))
    this.#runners = new GuardRunners(call, plan, this.#input)
    this.#readsInput = input
    this.#readsOutput = output
    this.#errorForm = onBlock === 'error' || !adapter.refusalParts
    this.#updateHeader()
    for (const { media = [] } of this.#input.items) {
      for (const { kind } of media) this.#decision.unscanned(kind)
    }
  }

  /** Nothing goes upstream, and nothing goes out, without the agreement of every guard. */
  async begin(): Promise<void> {
    const { request, target } = this.#call
    const enforced = target.policy.guard.mode === 'block'
    for (const { guard: name, kind } of this.#plan.faults) {
      const fault = new GuardFault(kind, UNANSWERED)
      if (this.#decision.failed('input', name, fault, enforced)) return this.#refuse(fault)
    }
    const enforces = !isEmpty(this.#plan.enforcing)
    const unreadable = this.#readsInput && enforces && this.#adapter.unreadable?.(request.input)
    if (unreadable) throw unreadable
    const { stop, later } = this.#readsInput ? await this.#screenInput() : {}
    // The answer may take long.
    this.#input = NO_TEXTS
    this.#original = undefined
    if (stop) return this.#refuse(stop)
    // The screen works on the normal form.
    if (this.#readsOutput && enforces) target.requiresNormalForm = true
    // Search results go in, and come out as citations: either side is reason enough to read them.
    target.resultFilter = this
    const back = puttingBack(this.#call)
    if (!this.#readsOutput && !later) {
      this.#call.through(...back)
      return this.#decide()
    }
    const { enforcing, monitoring } = this.#plan
    const select = target.masked?.restoring ? guardsOf : all
    this.#call.through(
      ...this.#read(select(monitoring), false),
      ...this.#read(select(enforcing), true),
      ...back,
      // Patterns read what the client gets.
      ...(select === all ? [] : this.#read(patternsOf(monitoring), false)),
      ...(select === all ? [] : this.#read(patternsOf(enforcing), true)),
      ...(later ? [this.#awaited(later)] : []),
      this.#final,
    )
  }

  close(): void {
    for (const screen of this.#screens) screen.close()
  }

  /**
   * Search results that keep to the exact rules: the others are neither shown to the model nor cited. Judges are not
   * asked. Empty where a guard could not judge.
   */
  async filterResults(results: readonly SearchResult[]): Promise<readonly SearchResult[]> {
    const { enforcing, monitoring } = this.#plan
    const texts = textsOf(results)
    this.#monitorInput(texts, localOf(monitoring))
    const group = this.#runners.start(localOf(enforcing), true)
    try {
      const { stop, withheld } = await this.#inputScreen(texts, group, 'dropped').local()
      if (stop) return []
      return results.filter((_, index) => !withheld.includes(texts.refusedTurns[index]!))
    } finally {
      group.end()
    }
  }

  /**
   * Nothing of the input goes upstream before the local guards have agreed, and as a rule the remote ones.
   * @returns `later`: the verdict of guards that still look while the model is asked
   */
  async #screenInput(): Promise<{ readonly stop?: Stop; readonly later?: Promise<Stop> }> {
    const { enforcing, monitoring } = this.#plan
    this.#monitorInput(this.#input, monitoring)
    const group = this.#runners.start(enforcing, true)
    const screen = this.#inputScreen(this.#input, group, 'withheld', this.#original)
    const stop = this.#apply(await screen.local())
    if (stop || !screen.isRemote) {
      group.end()
      this.#call.marks.guardMs = this.#call.elapsedMs
      return { stop }
    }
    const remote = async () => {
      try {
        return this.#apply(await screen.remote())
      } finally {
        this.#call.marks.guardMs = this.#call.elapsedMs
        group.end()
      }
    }
    // A turn that may have to be withheld must not go upstream before.
    const { overlapInput } = this.#call.runtime.config.guards
    const overlaps = overlapInput && this.#input.refusedTurns.length === 0
    return overlaps ? { later: remote() } : { stop: await remote() }
  }

  #monitorInput(texts: InputTexts, set: GuardSet): void {
    if (isEmpty(set)) return
    const group = this.#runners.start(set, false)
    const original = texts === this.#input ? this.#original : undefined
    const screen = this.#inputScreen(texts, group, 'withheld', original)
    const looking = async () => {
      const { stop } = await screen.local()
      if (!stop) await screen.remote()
    }
    this.#decision.waitFor(looking().finally(group.end))
  }

  /** @param spared the effect on a turn that violates a rule and need not end the call */
  #inputScreen(
    input: InputTexts,
    { patterns, runners, signal, enforced }: RunnerGroup,
    spared: 'withheld' | 'dropped',
    original?: InputTexts,
  ): InputScreen {
    const { found, failed } = this.#decision.observer('input', enforced, spared)
    const observer = {
      found,
      // A guard that is called off, because another one has blocked or the client has left, has not failed.
      failed: (name: string, fault: GuardFault) =>
        (enforced && signal?.aborted === true) || failed(name, fault),
    }
    const proceed = () => this.#call.throwIfAborted()
    return new InputScreen({ input, original, patterns, runners, observer, proceed })
  }

  /** Withholds turns that violate a rule. */
  #apply({ stop, withheld }: InputVerdict): Stop {
    const call = this.#call
    call.throwIfAborted()
    if (!stop && withheld.length > 0) {
      const { target } = call
      target.outbound = this.#adapter.withhold!(target.outbound, withheld)
      target.withheld = true
      target.requiresNormalForm = true
    }
    return stop
  }

  /** Has guards read an answer, where the policy wants that. @param enforced false: nothing of it changes */
  #read(set: GuardSet, enforced: boolean): readonly ChainStep[] {
    if (!this.#readsOutput || isEmpty(set)) return []
    const { target, runtime, request } = this.#call
    const { limits, deadlines } = runtime.config.guards
    const group = this.#runners.start(set, enforced)
    const scanners = this.#runners.scanners(group)
    if (scanners.length === 0) {
      group.end()
      return []
    }
    const { promise, resolve } = Promise.withResolvers<void>()
    if (!enforced) this.#decision.waitFor(promise)
    const screen = new Screen<any>({
      codec: this.#adapter.outputCodec(request.input),
      scanners,
      enforce: enforced,
      buffer: target.policy.guard.stream === 'buffer',
      atOnce: !request.stream,
      errorForm: this.#errorForm,
      choices: this.#adapter.choices(request.input),
      limits,
      idleMs: IDLE_MS,
      stallMs: deadlines.stall * 1000,
      observer: this.#decision.observer('output', enforced, 'dropped'),
      refuse: (denial) => this.#refusalParts('output', denial),
      closed: ({ complete, stalledMs, mostRetained }) => {
        if (enforced) runtime.metrics.guard.screened(mostRetained, stalledMs)
        else if (!complete) this.#decision.incomplete = true
        group.end()
        resolve()
      },
    })
    this.#screens.push(screen)
    return [screen]
  }

  /** @param verdict the verdict of guards that still look at the input */
  #awaited(verdict: Promise<Stop>): ChainStep {
    return new InputVerdictStep(verdict.then((stop) => stop && this.#refusal(stop)))
  }

  /** Refuses the whole call; the model is asked nothing. */
  #refuse(stop: NonNullable<Stop>): void {
    this.#call.through(...puttingBack(this.#call), this.#final)
    try {
      this.#call.source = feedOf(this.#refusal(stop))
    } catch (error) {
      // Billing sees it like any other answer that fails.
      this.#call.source = failedFeed(error)
    }
  }

  /** @throws PolicyViolation or Unavailable in the error form */
  #refusal(stop: NonNullable<Stop>): readonly any[] {
    const fault = stop === 'blocked' ? undefined : stop
    const parts: any[] = []
    for (let choice = 0; choice < this.#adapter.choices(this.#call.request.input); choice++) {
      const denial = { choice, sample: parts[0], opened: false, hasText: false, fault }
      parts.push(...this.#refusalParts('input', denial))
    }
    return parts
  }

  /** @throws PolicyViolation or Unavailable in the error form */
  #refusalParts(side: Side, { fault, ...denial }: Denial<any>): readonly any[] {
    const call = this.#call
    const isUnavailable = fault && this.#decision.failedFor(side, denial.choice, fault)
    if (isUnavailable && this.#errorForm) {
      this.#updateHeader()
      throw new Unavailable('guard_unavailable', UNAVAILABLE)
    }
    this.#decision.escalate()
    this.#updateHeader()
    const { policy, model } = call.target
    const text = refusalOf(policy)
    if (this.#errorForm) throw new PolicyViolation(text)
    call.answer.outcome = 'refused'
    return this.#adapter.refusalParts!({ text, ...denial }, call.request.input, model.id)
  }

  /** Sinks learn of it with the record of the call. */
  #escalate({ mode }: ReturnType<Decision['summary']>): void {
    if (mode === 'block') this.#call.headers['x-service-guard-escalate'] = 'true'
  }

  /** Decides at the end of an answer. */
  readonly #final: ChainStep = { end: () => this.#decide() }

  #decide(): void {
    this.#decision.final = true
    this.#updateHeader()
  }

  /** Puts the decision so far into a header; without effect once the head is out. */
  #updateHeader(): void {
    this.#call.headers['x-service-guard'] = this.#decision.header()
  }
}

/** The first part waits for the verdict on the input. The parts of a refusal replace the answer. */
class InputVerdictStep implements ChainStep {
  done = false
  readonly #refusal: Promise<readonly any[] | undefined>
  #pending: Promise<void> | undefined

  /** @param refusal its parts, if the input is refused; rejects in the error form */
  constructor(refusal: Promise<readonly any[] | undefined>) {
    this.#refusal = refusal
    // It may fail before the answer begins.
    refusal.catch(() => {})
  }

  open(outlet: Outlet<any>): void {
    this.#pending = this.#refusal.then((parts) => {
      this.#pending = undefined
      if (!parts) return
      this.done = true
      outlet.emit(parts)
      outlet.done()
    })
    this.#pending.catch((error: unknown) => outlet.fail(error))
  }

  push(part: any, emit: (part: any) => void): void | Promise<void> {
    if (this.#pending) return this.#pending.then(() => this.push(part, emit))
    if (!this.done) emit(part)
  }

  end(): void | Promise<void> {
    return this.#pending
  }

  /** Prefers the verdict to a failure of the vendor. */
  fail(error: unknown): unknown {
    if (!this.#pending) return error
    return this.#refusal.then((parts) => (parts ? new Instead(parts) : error))
  }
}

/** The source of an answer that fails before its first part. */
function failedFeed(error: unknown): Feed<unknown> {
  return {
    start(sink) {
      sink.fail(error)
      return { pause() {}, resume() {}, close() {} }
    },
    discard() {},
  }
}

/** Evidence that has no word of a masked request. */
function hashed(evidence: 'none' | 'hash' | 'text'): 'none' | 'hash' {
  return evidence === 'none' ? 'none' : 'hash'
}

const all = (set: GuardSet): GuardSet => set
const guardsOf = ({ assignments }: GuardSet): GuardSet => ({ patterns: [], assignments })
const patternsOf = ({ patterns }: GuardSet): GuardSet => ({ patterns, assignments: [] })

function isEmpty({ patterns, assignments }: GuardSet): boolean {
  return patterns.length + assignments.length === 0
}

const NO_TEXTS: InputTexts = { items: [], refusedTurns: [] }

/**
 * The texts that the model would be shown of search results; each result is a turn of its own that can be left out.
 * Exact rules read their channel, heuristics do not.
 */
function textsOf(results: readonly SearchResult[]): InputTexts {
  const base = { side: 'input', channel: 'annotation', role: 'tool', current: true } as const
  const items = results.map(({ title, url, content, publishedAt }, index) =>
    Object.entries({ title, url, content, publishedAt }).flatMap(([name, text]): TextItem[] =>
      text ? [{ ...base, id: `search[${index}].${name}`, text }] : [],
    ),
  )
  const refusedTurns = items.map((some) => {
    return { items: new Set(some.map(({ id }) => id)), messages: [] }
  })
  return { items: items.flat(), refusedTurns }
}

/** The guards and patterns that need no service. */
function localOf({ patterns, assignments }: GuardSet): GuardSet {
  return {
    patterns,
    assignments: assignments.filter(({ instance }) => instance.guard.execution === 'local'),
  }
}
