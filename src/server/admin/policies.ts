/** Tests a policy on texts before a key gets it. */
import type { Side } from '../../plugin.ts'
import { InvalidRequest } from '../../errors/errors.ts'
import { GuardBudget, grantModelAccess } from '../../guard/host.ts'
import { judgeModelOf } from '../../guard/plan.ts'
import { coverageWarnings, testPolicy, type PolicyTestResult } from '../../guard/policy-check.ts'
import type { Incoming } from '../../pipeline/http.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import { requestId } from '../../state/ids.ts'
import { policyWarnings, refusalOf, tighten, type Policy } from '../../policy/policy.ts'
import { requireRole } from './auth.ts'
import { readPolicyPair, readTrial, type PolicyTrial } from './bodies.ts'
import { diffPolicies, tighteningsOf } from '../../policy/diff.ts'
import { bodyOf, incomingOf, type Answer, type Asked } from './route.ts'

/**
 * The verdict of every rule of a policy on the texts. Models are asked only on request, at the operator's expense.
 * @param incoming of the admin's request
 */
async function tryPolicy(runtime: Runtime, incoming: Incoming, trial: PolicyTrial) {
  const { policy, input, output, ask: remote } = trial
  const effective = tighten(policy, undefined)
  const id = requestId()
  const account = { id: 'operator', name: 'operator', disabled: false, revision: 0, createdAt: 0 }
  const budget = new GuardBudget()
  const proceed = () => incoming.throwIfGone()
  const found = await testPolicy({
    policy: effective,
    guards: runtime.guards,
    texts: {
      ...(input === undefined ? {} : { input }),
      ...(output === undefined ? {} : { output }),
    },
    remote,
    proceed,
    contextOf(rules, signal, deadline) {
      const judgeModel = judgeModelOf(effective)
      const context = Object.freeze({
        requestId: id,
        accountId: account.id,
        keyId: account.id,
        operation: 'chat',
        model: '',
        origin: 'key' as const,
        rules,
        ...(judgeModel !== undefined && { judgeModel }),
        conversation: { userTurn: output === undefined ? '' : (input ?? '') },
        signal,
        deadline,
      })
      return grantModelAccess(context, {
        account: account.id,
        budget,
        pays: () => true,
        ask: (question) =>
          runtime.internalChat(
            {
              id,
              path: '/admin',
              incoming,
              runtime,
              catalog: runtime.catalog.at(),
              account,
            },
            question,
          ),
        book: (_, cost) => runtime.metrics.guard.spent('operator', cost),
        ended: (ok) => runtime.metrics.guard.judged(ok),
      })
    },
  })
  const texts = { input, output }
  const gaps = await coverageWarnings(runtime.guards, effective, proceed)
  return {
    verdicts: found.map((one) => view(one, texts[one.side])),
    blocked: [
      ...new Set(found.filter(({ verdict }) => verdict === 'block').map(({ side }) => side)),
    ],
    refusal: refusalOf(effective),
    warnings: [...(await policyWarnings(policy)), ...gaps],
  }
}

/** @throws InvalidRequest for an unknown judge model */
export function requireJudge({ guards }: Runtime, policy: Policy | null | undefined): void {
  const judge = policy?.guard?.model
  if (judge === undefined || guards.hasJudge(judge)) return
  const message =
    `Invalid 'policy.guard.model': expected a chat model of the catalog, or "guard/" and the name of a guard ` +
    `of the configuration.`
  throw new InvalidRequest('invalid_policy', message, { param: 'policy.guard.model' })
}

/** `POST /policies/diff` */
export async function diffPolicy(asked: Asked): Promise<Answer> {
  const { from, to } = readPolicyPair(await bodyOf(asked))
  const { scope, deny, bannedPatterns, maxOutputTokens, guard } = tighteningsOf(to)
  const may_tighten = {
    scope,
    deny,
    banned_patterns: bannedPatterns,
    max_output_tokens: maxOutputTokens,
    guard,
  }
  return { body: { data: { members: diffPolicies(from, to), may_tighten } } }
}

/** `POST /policies/evaluate` */
export async function evaluatePolicy(asked: Asked): Promise<Answer> {
  const trial = readTrial(await bodyOf(asked))
  if (trial.ask) requireRole(asked.actor, 'admin')
  return { body: { data: await tryPolicy(asked.runtime, incomingOf(asked), trial) } }
}

function view(
  { rule, side, guard, verdict, spans, ...more }: PolicyTestResult,
  text: string | undefined,
) {
  return {
    rule,
    side: side satisfies Side,
    guard,
    verdict,
    ...(spans && {
      spans: spans.map(({ start, end, label }) => ({
        start,
        end,
        text: text!.slice(start, end),
        ...(label === undefined ? {} : { label }),
      })),
    }),
    ...more,
  }
}
