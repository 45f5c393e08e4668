/** Tests a policy on texts before a key gets it. */
import type * as v from 'valibot'
import { InvalidRequest } from '../../errors/errors.ts'
import type { InputTexts } from '../../guard/adapter.ts'
import { coverageWarnings, testPolicy, type PolicyTestResult } from '../../guard/policy-check.ts'
import { rehearse } from '../../guard/rehearsal.ts'
import { isAllowed } from '../../models/allowlist.ts'
import { usdJson } from '../../money/money.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import type { Incoming } from '../../pipeline/http.ts'
import { policyWarnings, readPolicy, refusalOf, type Policy } from '../../policy/policy.ts'
import { requireRole } from './auth.ts'
import { read } from './bodies.ts'
import {
  policyPair,
  trial as trialBody,
  type PolicyDifference,
  type Tried,
  type Verdict,
} from './resources/policy.ts'
import { diffPolicies, differenceOfSets, tighteningsOf } from '../../policy/diff.ts'
import { bodyOf, incomingOf, type Answer, type AdminRequest } from './route.ts'
import { trialOf } from './trial.ts'

/**
 * The verdict of every rule of a policy on the texts, and the output that a client would get. Models are asked only on request,
 * at the operator's expense.
 * @param incoming the admin's request
 */
async function tryPolicy(
  runtime: Runtime,
  incoming: Incoming,
  tried: v.InferOutput<typeof trialBody>,
  policy: Policy,
): Promise<Tried> {
  const { input, output, chunk, ask } = tried
  const trial = trialOf(runtime, incoming, policy, ask).answering(
    output === undefined ? '' : (input ?? ''),
  )
  const { policy: effective, proceed } = trial
  const texts = { ...(input !== undefined && { input }), ...(output !== undefined && { output }) }
  const found = await testPolicy({ ...trial, texts })
  const shown =
    output === undefined
      ? null
      : await (
          await rehearse(trial)
        ).shown(inputTexts(input), input ?? '', output, chunk, runtime.config.guards.limits)
  const gaps = await coverageWarnings(runtime.guards, effective, proceed)
  return {
    verdicts: found.map((one) => view(one, texts[one.side])),
    blocked: [
      ...new Set(found.filter(({ verdict }) => verdict === 'block').map(({ side }) => side)),
    ],
    refusal: refusalOf(effective),
    shown,
    warnings: [...(await policyWarnings(policy)), ...gaps],
    ...(ask && { cost_usd: usdJson(trial.spent) }),
  }
}

function inputTexts(text: string | undefined): InputTexts {
  const base = { id: 'input', side: 'input', channel: 'content', role: 'user' } as const
  const items = text === undefined ? [] : [{ ...base, current: true, text }]
  return { items, refusedTurns: [] }
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

export async function diffPolicy(request: AdminRequest): Promise<Answer> {
  const { models, ...given } = read(policyPair, await bodyOf(request))
  const from = given.from ? readPolicy(given.from, 'from') : undefined
  const to = given.to ? readPolicy(given.to, 'to') : undefined
  const members = diffPolicies(from, to)
  const data: PolicyDifference = {
    members: models ? [...members, diffModels(request, models)] : members,
    may_tighten: tighteningsOf(to),
  }
  return { body: { data } }
}

/** Compares two allowlists by the models of the catalog that they leave out; null leaves out none. */
function diffModels(
  { runtime }: AdminRequest,
  { from, to }: NonNullable<v.InferOutput<typeof policyPair>['models']>,
) {
  const ids = runtime.catalog.all().map(({ id }) => id)
  const without = (list: readonly string[] | null) =>
    list === null ? [] : ids.filter((id) => !isAllowed(list, id))
  return { ...differenceOfSets('models', without(from), without(to)), from, to }
}

export async function evaluatePolicy(request: AdminRequest): Promise<Answer> {
  const trial = read(trialBody, await bodyOf(request))
  if (trial.input === undefined && trial.output === undefined) {
    const message = "Missing 'input' or 'output': a text to try the policy on."
    throw new InvalidRequest('missing_required_parameter', message, { param: 'input' })
  }
  const policy = readPolicy(trial.policy)
  if (trial.ask) requireRole(request.actor, 'admin')
  return { body: { data: await tryPolicy(request.runtime, incomingOf(request), trial, policy) } }
}

function view(
  { rule, side, guard, verdict, spans, ...more }: PolicyTestResult,
  text: string | undefined,
): Verdict {
  return {
    rule,
    side,
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
