/** Reports what guards find and miss in one call: to the client, the metrics, the log and the decision event. */
import type { Side } from '../../../plugin.ts'
import type { Decision, Finding, Location, Violation } from '../../../guard/decision.ts'
import type { Stopped } from '../../../guard/scan-session.ts'
import type { OutputLocation, ScreenObserver } from '../../../guard/screen-types.ts'
import { isTolerated, type GuardFault } from '../../../guard/verdicts.ts'
import type { Call } from '../../pipeline.ts'

export class GuardReporter {
  readonly decision: Decision
  readonly #call: Call

  constructor(call: Call, decision: Decision) {
    this.#call = call
    this.decision = decision
  }

  found(side: Side, violation: Violation, location: Location, effect: Finding['effect']): void {
    const { policy, runtime } = this.#call
    this.decision.found(side, violation, location, effect)
    runtime.metrics.guard.decided(side, violation.block.rule, policy.guard.mode, effect)
    if (policy.guard.mode === 'monitor') this.escalate()
  }

  /**
   * A guard could not look.
   * @param enforced false where guards only monitor
   * @returns whether that ends the call
   */
  failed(side: Side, guard: string, fault: GuardFault, enforced = true): boolean {
    const { id, policy, runtime } = this.#call
    const blocks = enforced && !isTolerated(fault, policy.guard.onError)
    this.decision.failed(side, guard, fault.kind, !blocks)
    runtime.metrics.guard.failed(guard, fault.kind, policy.guard.onError)
    runtime.log.warn(`${id}: guard ${guard} could not look (${fault.kind}): ${reasonOf(fault)}`)
    return blocks
  }

  /** Media went by that guards of texts cannot read. */
  unscanned(kind: string): void {
    if (this.decision.unscanned(kind)) this.#call.runtime.metrics.guard.unscanned(kind)
  }

  /** @param enforced false where guards only monitor */
  screenObserver(enforced: boolean): ScreenObserver {
    return new ScreenReporter(this, enforced)
  }

  /** A field that no guard can read was left out of the answer. */
  removed(field: string): void {
    this.decision.removed(field)
    this.#call.runtime.metrics.guard.removed(field)
  }

  /** Puts what is known into a header; without effect once the head is out. */
  updateHeader(): void {
    this.#call.headers['x-service-guard'] = this.decision.header()
  }

  /** Escalates a block if the policy says so, once for each call. */
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

class ScreenReporter implements ScreenObserver {
  readonly #reporter: GuardReporter
  readonly #enforced: boolean

  constructor(reporter: GuardReporter, enforced: boolean) {
    this.#reporter = reporter
    this.#enforced = enforced
  }

  found({ session, stop }: Stopped, location: OutputLocation, dropped: boolean): void {
    const { guard, origin } = session
    const violation = { guard, origin, block: stop.block!, view: stop.view }
    const effect = !this.#enforced ? 'seen' : dropped ? 'dropped' : 'blocked'
    this.#reporter.found('output', violation, location, effect)
  }

  failed(guard: string, fault: GuardFault): void {
    this.#reporter.failed('output', guard, fault, this.#enforced)
  }

  removed(field: string): void {
    if (this.#enforced) this.#reporter.removed(field)
  }

  unscanned(kind: string): void {
    this.#reporter.unscanned(kind)
  }

  released(count: number): void {
    if (this.#enforced) this.#reporter.decision.released += count
  }

  withheld(count: number): void {
    if (this.#enforced) this.#reporter.decision.withheld += count
  }
}

/** For the operator's log: our own words and the kind of error, never what a guard quotes. */
function reasonOf({ message, cause }: GuardFault): string {
  return cause instanceof Error ? `${message}: ${cause.name}` : message
}
