/** Guards as they work for one call: with whose rules, until when, at whose expense. */
import { GuardBudget, grantModelAccess, type ModelAccess } from '../../../guard/model-access.ts'
import type { Scout } from '../../../guard/scan-session.ts'
import { patternScout, pluginScout } from '../../../guard/scan-sessions.ts'
import type { Assignment, GuardInstance, PatternAssignment } from '../../../guard/plan.ts'
import type { InputTexts } from '../../../guard/adapter.ts'
import { GuardRunner } from '../../../guard/runner.ts'
import type { Call } from '../../pipeline.ts'
import type { GuardContext, Origin } from '../../../plugin.ts'

/** How much of what is asked guards are shown with the answer, in characters. */
const QUESTION_HEAD = 1200
const QUESTION_TAIL = 800

const NOBODY: readonly never[] = []

/** What is common to all guards of one call. */
export class GuardRunners {
  readonly #call: Call
  readonly #units: InputTexts
  #asked: string | undefined
  /** Made for those who ask models. */
  #purses: Record<Origin, GuardBudget> | undefined

  /** @param units what is asked */
  constructor(call: Call, units: InputTexts) {
    this.#call = call
    this.#units = units
  }

  /** What is asked, as guards are shown it. */
  get #question(): string {
    return (this.#asked ??= questionIn(this.#units))
  }

  /**
   * Plugins on duty.
   * @param signal aborted when their answers do not matter any more
   * @param enforced false for those who only look on: they do so at the operator's expense
   */
  of(
    duties: readonly Assignment[],
    signal: AbortSignal,
    enforced: boolean,
  ): readonly GuardRunner[] {
    if (duties.length === 0) return NOBODY
    const { metrics, config, guards } = this.#call.runtime
    const { input, output } = config.guards.deadlines
    const limitsMs = { input: input * 1000, output: output * 1000 }
    const { rules: own } = this.#call.policy
    return duties.map((duty) => {
      const { loaded, origin, admits, circuit } = duty
      // A guard knows the rules of one origin; everybody else those of both, the key's first.
      const { scopes, bannedPatterns } = own.key
      const before = { scopes: scopes.length, bannedPatterns: bannedPatterns.length }
      return new GuardRunner({
        name: loaded.name,
        guard: loaded.guard,
        origin,
        admits,
        ...(origin === 'request' && { offsets: before }),
        circuit,
        passes: guards.passes,
        observer: metrics.guard,
        limitsMs,
        signal,
        contextOf: (own, deadline) => this.#contextOf(duty, own, deadline, enforced),
      })
    })
  }

  /** Those who look at answers, patterns before plugins. */
  scouts(
    duties: readonly Assignment[],
    patterns: readonly PatternAssignment[],
    signal: AbortSignal,
    enforced: boolean,
  ): readonly Scout[] {
    return [
      ...patterns.map(({ matcher, offset, origin }) => patternScout(matcher, offset, origin)),
      ...this.of(duties, signal, enforced)
        .filter(({ guard }) => guard.checkOutput !== undefined || guard.streamOutput !== undefined)
        .map((watch) => pluginScout(watch, this.#question)),
    ]
  }

  #contextOf(
    { loaded, origin, rules }: Assignment,
    signal: AbortSignal,
    deadline: number,
    enforced: boolean,
  ): GuardContext {
    const { id, account, key, endpoint, model, policy } = this.#call
    const judge = policy.guard.model
    const context: GuardContext = Object.freeze({
      requestId: id,
      accountId: account.id,
      keyId: key.id,
      operation: endpoint.operation,
      model: model.id,
      origin,
      rules,
      ...(judge && !judge.startsWith('guard/') ? { judgeModel: judge } : {}),
      conversation: Object.freeze({ userTurn: this.#question }),
      signal,
      deadline,
    })
    return grantModelAccess(context, this.#asker(loaded, origin, enforced))
  }

  #asker({ billing }: GuardInstance, origin: Origin, enforced: boolean): ModelAccess {
    const call = this.#call
    const { runtime, held, account } = call
    // Who gets nothing of it does not pay for it, unless the operator wants that.
    const payer = enforced || runtime.config.guards.billMonitor ? billing : 'operator'
    return {
      account: account.id,
      purse: (this.#purses ??= { key: new GuardBudget(), request: new GuardBudget() })[origin],
      pays: (model) =>
        payer === 'operator' || held.billed || runtime.catalog.get(model)?.freeTier === true,
      ask: (question) => runtime.internalChat(call, question),
      book(line, cost) {
        // What comes after the bill was made is nobody's but the operator's.
        const charged = payer === 'account' && call.bill === undefined
        if (charged) call.meter.push(line)
        runtime.metrics.guard.spent(charged ? payer : 'operator', cost)
      },
      ended: (ok) => runtime.metrics.guard.judged(ok),
    }
  }
}

/** The text of the current turn, its head and its tail. */
function questionIn({ units }: InputTexts): string {
  const text = units
    .filter(({ current, channel, role }) => current && channel === 'content' && role === 'user')
    .map((unit) => unit.text)
    .join('\n')
  if (text.length <= QUESTION_HEAD + QUESTION_TAIL) return text
  return `${text.slice(0, QUESTION_HEAD - 3)}\n…\n${text.slice(-QUESTION_TAIL)}`
}
