/** The guards of a policy at work for one call: with which rules, until when, at whose expense. */
import { GuardBudget, grantModelAccess, type ModelAccess } from '../../../guard/host.ts'
import { type OutputScanner, patternScanner, pluginScanner } from '../../../guard/scan-session.ts'
import {
  judgeModelOf,
  type Assignment,
  type GuardInstance,
  type GuardPlan,
  type GuardSet,
  type PatternAssignment,
} from '../../../guard/plan.ts'
import type { InputTexts } from '../../../guard/adapter.ts'
import { GuardRunner } from '../../../guard/runner.ts'
import type { Call } from '../../pipeline.ts'
import type { GuardContext, Origin } from '../../../plugin.ts'

/** Characters of a long user turn that guards are shown with the answer. */
const TURN_HEAD = 1200
const TURN_TAIL = 800

/** Guards that work on one task, such as the input of a call. */
export interface RunnerGroup {
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
