/** What guards find and miss in one call, told to everybody who is to know: client, operator, metrics, log. */
import type { Side } from '../../../plugin.ts'
import type { Decision, Finding, Violation, Location } from '../../../guard/decision.ts'
import type { Halt } from '../../../guard/screened-text.ts'
import type { ScreenObserver, OutputLocation } from '../../../guard/screen-types.ts'
import { isTolerated, type GuardFault } from '../../../guard/verdicts.ts'
import type { Call } from '../../pipeline.ts'

export class GuardReporter {
  readonly decision: Decision
  readonly #call: Call

  constructor(call: Call, decision: Decision) {
    this.#call = call
    this.decision = decision
  }

  /** Something was found. */
  found(side: Side, found: Violation, spot: Location, effect: Finding['effect']): void {
    const { policy, runtime } = this.#call
    this.decision.found(side, found, spot, effect)
    runtime.metrics.guard.decided(side, found.block.rule, policy.guard.mode, effect)
    if (policy.guard.mode === 'monitor') this.escalate()
  }

  /**
   * A guard could not look.
   * @param enforced false where guards only look on
   * @returns whether the call may not go on without it
   */
  failed(side: Side, guard: string, fault: GuardFault, enforced = true): boolean {
    const { id, policy, runtime } = this.#call
    const blocks = enforced && !isTolerated(fault, policy.guard.onError)
    this.decision.failed(side, guard, fault.kind, !blocks)
    runtime.metrics.guard.failed(guard, fault.kind, policy.guard.onError)
    runtime.log.warn(`${id}: guard ${guard} could not look (${fault.kind}): ${reasonOf(fault)}`)
    return blocks
  }

  /** Media went by that no guard of texts can read. */
  unscanned(kind: string): void {
    if (this.decision.unscanned(kind)) this.#call.runtime.metrics.guard.unscanned(kind)
  }

  /** What a screen of the answer writes down. @param enforced false where guards only look on */
  notes(enforced: boolean): ScreenObserver {
    return new ReportNotes(this, enforced)
  }

  /** A field that no guard can read was left out of the answer. */
  removed(field: string): void {
    this.decision.removed(field)
    this.#call.runtime.metrics.guard.removed(field)
  }

  /** Says in a header what is known until now; too late once the head is out. */
  tell(): void {
    this.#call.headers['x-service-guard'] = this.decision.header()
  }

  /** Somebody is to hear of a block, if the policy says so; once for each call. */
  escalate(): void {
    const { policy, runtime, headers, id, account, key, path, model } = this.#call
    if (!policy.escalate.enabled || this.decision.escalated) return
    this.decision.escalated = true
    if (policy.guard.mode === 'block') headers['x-service-guard-escalate'] = 'true'
    const { mode, outcome, rules } = this.decision.summary()
    runtime.escalations?.add({
      event: 'guard.escalation',
      at: new Date().toISOString(),
      request_id: id,
      account_id: account.id,
      key_id: key.id,
      endpoint: path,
      model: model.id,
      mode,
      outcome,
      rules,
    })
  }
}

/**
 * A class, not functions that are made for each call: most are never called, and V8 keeps such ones, and all they see,
 * until a full collection.
 */
class ReportNotes implements ScreenObserver {
  readonly #report: GuardReporter
  readonly #enforced: boolean

  constructor(report: GuardReporter, enforced: boolean) {
    this.#report = report
    this.#enforced = enforced
  }

  found({ follower, stop }: Halt, place: OutputLocation, dropped: boolean): void {
    const { name: guard, origin } = follower
    const found = { guard, origin, block: stop.block!, view: stop.view }
    const effect = !this.#enforced ? 'seen' : dropped ? 'dropped' : 'blocked'
    this.#report.found('output', found, place, effect)
  }

  failed(guard: string, fault: GuardFault): void {
    this.#report.failed('output', guard, fault, this.#enforced)
  }

  removed(field: string): void {
    if (this.#enforced) this.#report.removed(field)
  }

  unscanned(kind: string): void {
    this.#report.unscanned(kind)
  }

  released(count: number): void {
    if (this.#enforced) this.#report.decision.released += count
  }

  withheld(count: number): void {
    if (this.#enforced) this.#report.decision.withheld += count
  }
}

/** For the operator's log: what we say and what kind of error it was, never what a guard quotes. */
function reasonOf({ message, cause }: GuardFault): string {
  return cause instanceof Error ? `${message}: ${cause.name}` : message
}
