/** The guard stage: what guards see of input and answer, in which order, and what follows from it. */
import { PolicyViolation, Unavailable } from '../../errors/errors.ts'
import { sidesRead, type GuardAdapter, type InputTexts } from '../../guard/adapter.ts'
import { Decision } from '../../guard/decision.ts'
import { InputScreen, type InputVerdict } from '../../guard/input-screen.ts'
import { OutputScreen, ScreenedStream, type ScreenedStreamInit } from '../../guard/output-screen.ts'
import {
  type GuardPlan,
  type GuardSet,
  judgeModelOf,
  type Assignment,
  type GuardInstance,
  type PatternAssignment,
} from '../../guard/plan.ts'
import type { Denial } from '../../guard/screened-choice.ts'
import { GuardFault, GuardRunner } from '../../guard/runner.ts'
import type { Flow, SearchResult, Side, TextItem, GuardContext, Origin } from '../../plugin.ts'
import { knownRefusals, NO_POLICY, refusalOf } from '../../policy/policy.ts'
import { flowFrom, flowOf } from '../../stream/flow.ts'
import type { Call, Next, Reply, ResultFilter, Stage } from '../pipeline.ts'
import { GuardBudget, grantModelAccess, type ModelAccess } from '../../guard/host.ts'
import { type OutputScanner, patternScanner, pluginScanner } from '../../guard/scan-session.ts'

// The guards of a policy at work for one call: with which rules, until when, at whose expense.

/** Characters of a long user turn that guards are shown with the answer. */
const TURN_HEAD = 1200
const TURN_TAIL = 800

/** Guards that work on one task, such as the input of a call. */
interface RunnerGroup {
  readonly patterns: readonly PatternAssignment[]
  readonly runners: readonly GuardRunner[]
  /** False for guards that only monitor. */
  readonly enforced: boolean
  /** Aborted with the call, and by {@link end}. */
  readonly signal?: AbortSignal
  /** Their answers do not matter any more. Idempotent. */
  readonly end: () => void
}

export class GuardRunners {
  readonly #call: Call
  /** What the user asks, as guards are shown it; empty where there are none. */
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

  /** Scanners of the answer, patterns before plugins. */
  scanners({ patterns, runners }: RunnerGroup): readonly OutputScanner[] {
    return [
      ...patterns.map(({ matcher, offset, origin }) => patternScanner(matcher, offset, origin)),
      ...runners
        .filter(({ guard }) => guard.checkOutput !== undefined || guard.streamOutput !== undefined)
        .map((runner) => pluginScanner(runner, this.#userTurn)),
    ]
  }

  #runnerOf(assignment: Assignment, signal: AbortSignal, enforced: boolean): GuardRunner {
    const { instance, origin, ruleFilter, circuit } = assignment
    const { runtime, policy } = this.#call
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
      asked: (question) => this.#call.asked({ to: 'guard', ...question }),
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
    const { id, account, key, endpoint, model, policy } = this.#call
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
    const { runtime, held, account } = call
    // Monitor-mode calls are billed to the operator unless `billMonitor` is set.
    const payer = enforced || runtime.config.guards.billMonitor ? billing : 'operator'
    this.#budgets ??= { key: new GuardBudget(), request: new GuardBudget() }
    return {
      account: account.id,
      budget: this.#budgets[origin],
      pays: (model) =>
        payer === 'operator' || held.billed || runtime.catalog.get(model)?.freeTier === true,
      ask: (question) => runtime.internalChat(call, question),
      book(line, cost) {
        // The operator pays for what comes after the bill was made.
        const charged = payer === 'account' && call.bill === undefined
        if (charged) call.meter.push(line)
        if (charged && line.usage.estimated) call.flags.add('estimated')
        runtime.metrics.guard.spent(charged ? payer : 'operator', cost)
      },
      ended: (ok) => runtime.metrics.guard.judged(ok),
    }
  }
}

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
export const guard: Stage = function guard(call, next) {
  const { policy, runtime, endpoint } = call
  for (const member of policy.ignored) runtime.metrics.guard.ignored(member)
  if (!endpoint.guard || (policy === NO_POLICY && !runtime.guards.hasAlways)) return next()
  return guarded(call, endpoint.guard, next)
}

async function guarded(call: Call, adapter: GuardAdapter, next: Next): Promise<Reply> {
  const plan = await call.runtime.guards.planFor(call.policy, () => call.throwIfAborted())
  return await (plan ? new CallGuard(call, adapter, plan).run(next) : next())
}

/** Why a call goes no further, if it does not. */
type Stop = InputVerdict['stop']

/** The guards of one call. Those that monitor change, delay and refuse nothing. */
class CallGuard implements ResultFilter {
  readonly #call: Call
  readonly #adapter: GuardAdapter
  readonly #plan: GuardPlan
  readonly #decision: Decision
  /** Texts of the input; none once they were checked. */
  #input: InputTexts
  readonly #runners: GuardRunners
  /** Whether the input is looked at, and the answer. */
  readonly #readsInput: boolean
  readonly #readsOutput: boolean
  /** A block ends the call with an error. */
  readonly #errorForm: boolean

  constructor(call: Call, adapter: GuardAdapter, plan: GuardPlan) {
    const { policy, runtime, id, request } = call
    const { mode, onError, onBlock } = policy.guard
    const { input, output } = sidesRead(adapter, policy)
    this.#call = call
    this.#adapter = adapter
    this.#plan = plan
    this.#decision = call.decision = new Decision({
      mode,
      onError,
      evidence: runtime.config.guards.evidence,
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
    })
    this.#input = adapter.inputTexts(request.input, knownRefusals(policy))
    this.#runners = new GuardRunners(call, plan, this.#input)
    this.#readsInput = input
    this.#readsOutput = output
    this.#errorForm = onBlock === 'error' || !adapter.refusalParts
    this.#updateHeader()
    for (const { media = [] } of this.#input.items) {
      for (const { kind } of media) this.#decision.unscanned(kind)
    }
  }

  /** Nothing goes upstream, and nothing goes out, that a guard has not agreed to. */
  async run(next: Next): Promise<Reply> {
    const enforced = this.#call.policy.guard.mode === 'block'
    for (const { guard: name, kind } of this.#plan.faults) {
      const fault = new GuardFault(kind, UNANSWERED)
      if (this.#decision.failed('input', name, fault, enforced)) return this.#refused(fault)
    }
    const unreadable = this.#enforcesInput && this.#adapter.unreadable?.(this.#call.request.input)
    if (unreadable) throw unreadable
    const { stop, later } = this.#readsInput ? await this.#screenInput() : {}
    // The answer may take long.
    this.#input = NO_TEXTS
    if (stop) return this.#refused(stop)
    // The screen works on the normal form.
    const { patterns, assignments } = this.#plan.enforcing
    if (this.#readsOutput && patterns.length + assignments.length > 0) {
      this.#call.requiresNormalForm = true
    }
    // Search results go in, and come out as citations: either side is reason enough to read them.
    this.#call.resultFilter = this
    const { parts } = await next()
    if (this.#readsOutput || later) return this.#decided(this.#screenOutput(parts, later))
    this.#decide()
    return { parts }
  }

  /** Rules are enforced on the input. */
  get #enforcesInput(): boolean {
    const { patterns, assignments } = this.#plan.enforcing
    return this.#readsInput && patterns.length + assignments.length > 0
  }

  /**
   * Search results that keep to the exact rules: the others are neither shown to the model nor cited. Judges are not
   * asked. Where a guard could not look there are none.
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
    const screen = this.#inputScreen(this.#input, group, 'withheld')
    const stop = this.#apply(await screen.local())
    if (stop || !screen.isRemote) {
      group.end()
      this.#call.guardMs = this.#call.elapsedMs
      return { stop }
    }
    const remote = async () => {
      try {
        return this.#apply(await screen.remote())
      } finally {
        this.#call.guardMs = this.#call.elapsedMs
        group.end()
      }
    }
    // A turn that may have to be withheld must not go upstream before.
    const { overlapInput } = this.#call.runtime.config.guards
    const overlaps = overlapInput && this.#input.refusedTurns.length === 0
    return overlaps ? { later: remote() } : { stop: await remote() }
  }

  /** Records what guards would do about an input. */
  #monitorInput(texts: InputTexts, set: GuardSet): void {
    if (set.patterns.length + set.assignments.length === 0) return
    const group = this.#runners.start(set, false)
    const screen = this.#inputScreen(texts, group, 'withheld')
    const looking = async () => {
      const { stop } = await screen.local()
      if (!stop) await screen.remote()
    }
    this.#decision.waitFor(looking().finally(group.end))
  }

  /** @param spared what becomes of a turn that violates a rule and need not end the call */
  #inputScreen(
    input: InputTexts,
    { patterns, runners, signal, enforced }: RunnerGroup,
    spared: 'withheld' | 'dropped',
  ): InputScreen {
    const { found, failed } = this.#decision.observer('input', enforced, spared)
    const observer = {
      found,
      // A guard that is called off, because another one has blocked or the client has left, has not failed.
      failed: (name: string, fault: GuardFault) =>
        (enforced && signal?.aborted === true) || failed(name, fault),
    }
    const proceed = () => this.#call.throwIfAborted()
    return new InputScreen({ input, patterns, runners, observer, proceed })
  }

  /** Withholds turns that have to be. */
  #apply({ stop, withheld }: InputVerdict): Stop {
    const call = this.#call
    call.throwIfAborted()
    if (!stop && withheld.length > 0) {
      call.outbound = this.#adapter.withhold!(call.outbound, withheld)
      call.requiresNormalForm = true
    }
    return stop
  }

  /** @param later the verdict of guards that still look at the input */
  #screenOutput(parts: Flow<any>, later: Promise<Stop> | undefined): Flow<any> {
    const inputVerdict = later?.then((stop) => stop && this.#refusal(stop))
    if (!this.#readsOutput) return this.#stream({ parts, inputVerdict, enforce: true })
    const { enforcing, monitoring } = this.#plan
    return this.#read(this.#read(parts, monitoring, false), enforcing, true, inputVerdict)
  }

  /** Has guards read an answer. @param enforced false: nothing of it changes */
  #read(
    parts: Flow<any>,
    set: GuardSet,
    enforced: boolean,
    inputVerdict?: Promise<Flow<any> | undefined>,
  ): Flow<any> {
    const { policy, runtime, request } = this.#call
    const group = this.#runners.start(set, enforced)
    const scanners = this.#runners.scanners(group)
    if (scanners.length === 0) {
      group.end()
      return inputVerdict ? this.#stream({ parts, inputVerdict, enforce: true }) : parts
    }
    const buffer =
      !request.stream ||
      policy.guard.stream === 'buffer' ||
      scanners.some(({ needsFullText }) => needsFullText)
    const screen = new OutputScreen<any>({
      codec: this.#adapter.outputCodec(request.input),
      scanners,
      buffer: enforced && buffer,
      atOnce: !request.stream,
      errorForm: enforced && this.#errorForm,
      choices: this.#adapter.choices(request.input),
      limits: runtime.config.guards.limits,
      observer: this.#decision.observer('output', enforced, 'dropped'),
      refuse: enforced ? (denial) => this.#refusalParts('output', denial) : () => [],
    })
    const { promise, resolve } = Promise.withResolvers<void>()
    if (!enforced) this.#decision.waitFor(promise)
    const closed = (stalledMs: number, complete: boolean) => {
      if (enforced) runtime.metrics.guard.screened(screen.mostRetained, stalledMs)
      else if (!complete) this.#decision.incomplete = true
      group.end()
      resolve()
    }
    return this.#stream({ parts, screen, inputVerdict, enforce: enforced, closed })
  }

  #stream(init: Omit<ScreenedStreamInit<any>, 'idleMs' | 'stallMs'>): Flow<any> {
    const { scope, runtime } = this.#call
    const stallMs = runtime.config.guards.deadlines.stall * 1000
    const stream = new ScreenedStream<any>({ ...init, idleMs: IDLE_MS, stallMs })
    scope.defer(() => stream.close())
    return flowFrom(stream)
  }

  /** Refuses the whole call; the model has said nothing. */
  #refused(stop: NonNullable<Stop>): Reply {
    return this.#decided(this.#refusal(stop))
  }

  #refusal(stop: NonNullable<Stop>): Flow<any> {
    const fault = stop === 'blocked' ? undefined : stop
    const parts: any[] = []
    try {
      for (let choice = 0; choice < this.#adapter.choices(this.#call.request.input); choice++) {
        const denial = { choice, sample: parts[0], opened: false, hasText: false, fault }
        parts.push(...this.#refusalParts('input', denial))
      }
    } catch (error) {
      // Billing sees it like any other answer that fails.
      return flowFrom({ next: () => Promise.reject(error), close: () => {} })
    }
    return flowOf(...parts)
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
    const text = refusalOf(call.policy)
    if (this.#errorForm) throw new PolicyViolation(text)
    call.outcome = 'refused'
    return this.#adapter.refusalParts!({ text, ...denial }, call.request.input, call.model.id)
  }

  #escalate({ mode, outcome, rules }: ReturnType<Decision['summary']>): void {
    const { runtime, headers, id, account, key, path, model } = this.#call
    if (mode === 'block') headers['x-service-guard-escalate'] = 'true'
    const { escalations, sinks } = runtime
    if (!escalations && !sinks) return
    const told = {
      request_id: id,
      account_id: account.id,
      key_id: key.id,
      endpoint: path,
      model: model.id,
      mode,
      outcome,
      rules,
    }
    escalations?.add({ event: 'guard.escalation', at: new Date().toISOString(), ...told })
    sinks?.tell('guard.escalation', told)
  }

  /** An answer after whose end nothing is left to decide. */
  #decided(parts: Flow<any>): Reply {
    return { parts: parts.through({ end: () => this.#decide() }) }
  }

  #decide(): void {
    this.#decision.final = true
    this.#updateHeader()
  }

  /** Puts what is known into a header; without effect once the head is out. */
  #updateHeader(): void {
    this.#call.headers['x-service-guard'] = this.#decision.header()
  }
}

const NO_TEXTS: InputTexts = { items: [], refusedTurns: [] }

/**
 * What the model would be shown of search results; each result is a turn of its own that can be left out. Exact rules
 * read their channel, heuristics do not.
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

/** What reads without asking elsewhere. */
function localOf({ patterns, assignments }: GuardSet): GuardSet {
  return {
    patterns,
    assignments: assignments.filter(({ instance }) => instance.guard.execution === 'local'),
  }
}
