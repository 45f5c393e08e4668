/** Context of guards for a policy that is tried without a call, and the payer. */
import { GuardBudget, grantModelAccess } from '../../guard/host.ts'
import { judgeModelOf } from '../../guard/plan.ts'
import type { RehearsalInit } from '../../guard/rehearsal.ts'
import type { Pico } from '../../money/money.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import type { Incoming } from '../../pipeline/http.ts'
import { tighten, type Policy } from '../../policy/policy.ts'
import { requestId } from '../../state/ids.ts'

/** A policy on trial, and the cost of models so far. */
interface Trial extends RehearsalInit {
  readonly spent: Pico
  /** The same trial for a text that answers a user. */
  answering(userTurn: string): Trial
}

/** A trial of a policy, at the operator's expense. @param incoming the admin's request; when its client leaves, the trial ends */
export function trialOf(
  runtime: Runtime,
  incoming: Incoming,
  policy: Policy,
  remote: boolean,
): Trial {
  const effective = tighten(policy, undefined)
  const id = requestId()
  const account = { id: 'operator', name: 'operator', disabled: false, revision: 0, createdAt: 0 }
  const budget = new GuardBudget()
  const judgeModel = judgeModelOf(effective)
  let spent: Pico = 0n
  const about = (userTurn: string): Trial => ({
    policy: effective,
    guards: runtime.guards,
    remote,
    proceed: () => incoming.throwIfGone(),
    contextOf(rules, signal, deadline) {
      const context = Object.freeze({
        requestId: id,
        accountId: account.id,
        keyId: account.id,
        operation: 'chat',
        model: '',
        origin: 'key' as const,
        rules,
        ...(judgeModel !== undefined && { judgeModel }),
        conversation: { userTurn },
        signal,
        deadline,
      })
      return grantModelAccess(context, {
        account: account.id,
        budget,
        pays: () => true,
        ask: (question) =>
          runtime.internalChat(
            { id, path: '/admin', incoming, runtime, catalog: runtime.catalog.at(), account },
            question,
          ),
        book(_, cost) {
          spent += cost
          runtime.metrics.guard.spent('operator', cost)
        },
        ended: (ok) => runtime.metrics.guard.judged(ok),
      })
    },
    get spent() {
      return spent
    },
    answering: about,
  })
  return about('')
}
