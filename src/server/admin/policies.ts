/** Tests a policy on texts before a key gets it. */
import type * as v from 'valibot'
import { InvalidRequest } from '../../errors/errors.ts'
import type { InputTexts } from '../../guard/adapter.ts'
import {
  coverageWarnings,
  testPolicy,
  trialRunner,
  type PolicyTestResult,
  rehearse,
  type RehearsalInit,
  type Rehearsal,
  type Rehearsed,
} from '../../guard/policy-check.ts'
import { GuardFault } from '../../guard/runner.ts'
import { type ChangeTexts, locateBy } from '../../masking/masking.ts'
import { mayUse } from '../../models/allowlist.ts'
import { usdJson, type Pico } from '../../money/money.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import type { Incoming } from '../../pipeline/http.ts'
import {
  policyWarnings,
  readPolicy,
  refusalOf,
  type Policy,
  tighten,
  knownRefusals,
  diffPolicies,
  differenceOfSets,
  tighteningsOf,
} from '../../policy/policy.ts'
import { requireRight } from '../../access/actors.ts'
import {
  policyPair,
  trial as trialBody,
  type PolicyDifference,
  type Tried,
  type Verdict,
  replay,
  type Replayed,
  type SideVerdict,
} from './resources/policy.ts'
import {
  bodyOf,
  incomingOf,
  type Answer,
  type AdminRequest,
  read,
  readNew,
  type Routes,
  needs,
} from './route.ts'
import { GuardBudget, grantModelAccess } from '../../guard/host.ts'
import { judgeModelOf } from '../../guard/plan.ts'
import { requestId } from '../../state/ids.ts'
import { ROUTES } from '../../gateway/routes.ts'
import type { CallContent, OutputText } from '../../observe/content/content.ts'
import { restored } from '../../observe/content/kept.ts'
import type { Channel, Side } from '../../plugin.ts'

export const policyRoutes: Routes = {
  '/policies/diff': { POST: needs('read', diffPolicy) },
  '/policies/evaluate': { POST: needs('read', evaluatePolicy) },
  '/policies/replay': { POST: needs('contents', replayPolicy) },
}

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
  const verdicts = await testPolicy({ ...trial, texts })
  const shown =
    output === undefined
      ? null
      : await (
          await rehearse(trial)
        ).shown(inputTexts(input), input ?? '', output, chunk, runtime.config.guards.limits)
  const gaps = await coverageWarnings(runtime.guards, effective, proceed)
  const masked = input === undefined ? {} : await maskedText(runtime, trial, input)
  return {
    verdicts: verdicts.map((one) => view(one, texts[one.side])),
    blocked: [
      ...new Set(verdicts.filter(({ verdict }) => verdict === 'block').map(({ side }) => side)),
    ],
    refusal: refusalOf(effective),
    shown,
    masked: masked.text ?? null,
    warnings: [...(await policyWarnings(policy)), ...gaps, ...(masked.warnings ?? [])],
    ...(ask && { cost_usd: usdJson(trial.spent) }),
  }
}

const NO_RULES = { scopes: [], deny: [], bannedPatterns: [] }

/** A text as a vendor would see it for a key whose personal data is masked. Remote guards look only where models may be asked. */
async function maskedText(
  { guards, labels }: Runtime,
  { contextOf, remote }: RehearsalInit,
  text: string,
): Promise<{ readonly text?: string; readonly warnings?: readonly string[] }> {
  const instances = guards
    .maskingFor(true)
    .filter(({ guard }) => remote || guard.execution === 'local')
  if (instances.length === 0) return {}
  const [{ makeMasking, numberBy }, labelOf] = await Promise.all([
    import('../../masking/masking.ts'),
    labels.open(),
    ...instances.map((one) => one.load?.()),
  ])
  const of = { rules: NO_RULES, ruleFilter: () => false, origin: 'key' as const, contextOf }
  const locate = locateBy(instances.map((instance) => trialRunner({ instance, ...of })))
  try {
    const whole = (change: ChangeTexts) => change([text], 'plain')[0]!
    const { input } = await makeMasking(whole, locate, numberBy(labelOf, 'operator'))
    return { text: input }
  } catch (error) {
    if (!(error instanceof GuardFault)) throw error
    return { warnings: [`personal data could not be looked for: ${error.message}`] }
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

async function diffPolicy(request: AdminRequest): Promise<Answer> {
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
  const { catalog } = runtime
  const ids = catalog.all().map(({ id }) => id)
  const without = (models: readonly string[] | null) => {
    const chain = { key: { models: models ?? undefined }, account: {} }
    return ids.filter((id) => !mayUse(chain, id, catalog))
  }
  return { ...differenceOfSets('models', without(from), without(to)), from, to }
}

async function evaluatePolicy(request: AdminRequest): Promise<Answer> {
  const trial = read(trialBody, await bodyOf(request))
  if (trial.input === undefined && trial.output === undefined) {
    const message = "Missing 'input' or 'output': a text to try the policy on."
    throw new InvalidRequest('missing_required_parameter', message, { param: 'input' })
  }
  const policy = readPolicy(trial.policy)
  if (trial.ask) requireRight(request.actor, 'keys')
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

// Context of guards for a policy that is tried without a call, and the payer.

/** A policy on trial, and the cost of models so far. */
interface Trial extends RehearsalInit {
  readonly spent: Pico
  /** The same trial for a text that answers a user. */
  answering(userTurn: string): Trial
}

/** A trial of a policy, at the operator's expense. @param incoming the admin's request; when its client leaves, the trial ends */
function trialOf(runtime: Runtime, incoming: Incoming, policy: Policy, remote: boolean): Trial {
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

// Replays a policy on calls whose contents were kept.

const SIDES: readonly Side[] = ['input', 'output']
/** Time limit; the calls that were replayed by then are answered. */
const MAX_MS = 20_000

/** Compares recorded decisions of guards with those under another policy. @throws InvalidRequest, Unavailable */
async function replayPolicy(request: AdminRequest): Promise<Answer> {
  const { runtime } = request
  const { policy: document, ask, ...which } = readNew(replay, await bodyOf(request))
  const policy = readPolicy(document)
  requireJudge(runtime, policy)
  const contents = await runtime.contents.list(which)
  const trial = trialOf(runtime, incomingOf(request), policy, ask)
  const rehearsal = await rehearse(trial)
  const findings = new Findings(policy.guard?.mode === 'monitor' ? 'monitor' : 'block')
  const until = performance.now() + MAX_MS
  for (const content of contents) {
    if (performance.now() > until) break
    trial.proceed()
    const texts = textsOf(content, knownRefusals(trial.policy))
    if (texts) findings.add(content, await judged(rehearsal, texts))
    else findings.unreadable++
  }
  const cost = ask ? { cost_usd: usdJson(trial.spent) } : {}
  const data: Replayed = { contents: contents.length, ...findings.view, ...cost }
  return { body: { data } }
}

interface Texts {
  readonly input: InputTexts
  readonly output: readonly { readonly channel: Channel; readonly text: string }[]
}

/** @returns undefined for contents that guards cannot read, because their end is missing */
function textsOf(
  { endpoint, input, output }: CallContent,
  refusals: readonly string[],
): Texts | undefined {
  const adapter = ROUTES.find(({ path }) => path === endpoint)?.endpoint?.guard
  if (!adapter) return undefined
  try {
    const texts = JSON.parse(output) as readonly (OutputText & { readonly channel: Channel })[]
    return { input: adapter.inputTexts(restored(input), refusals), output: texts }
  } catch {
    return undefined
  }
}

/** Judges a call; a blocked input has no answer to judge. */
async function judged(rehearsal: Rehearsal, { input, output }: Texts): Promise<Judged> {
  const first = await rehearsal.input(input)
  if (first.rules.length > 0) return { input: first }
  const turn = input.items.filter(({ current, role }) => current && role === 'user')
  const userTurn = turn.map(({ text }) => text).join('\n')
  return { input: first, output: await rehearsal.output(output, userTurn) }
}

interface Judged {
  readonly input: Rehearsed
  readonly output?: Rehearsed
}

class Findings {
  unreadable = 0
  readonly #enforced: SideVerdict
  #calls = 0
  readonly #blocked = { before: 0, after: 0 }
  /** Number of answers that a guard had cut: later text was not kept. */
  #cut = 0
  readonly #changed: Replayed['changed'][number][] = []
  readonly #failed = new Set<string>()

  /** @param enforced verdict of a violation */
  constructor(enforced: SideVerdict) {
    this.#enforced = enforced
  }

  add({ id, key, model, decided }: CallContent, judged: Judged): void {
    this.#calls++
    const rulesBefore = (side: Side) => decided.filter((one) => one.side === side)
    const before = (side: Side): SideVerdict => {
      const outcomes = rulesBefore(side).map(({ outcome }) => outcome)
      return outcomes.includes('blocked') ? 'block' : outcomes.includes('seen') ? 'monitor' : 'pass'
    }
    const after = (side: Side): SideVerdict =>
      (judged[side]?.rules.length ?? 0) > 0 ? this.#enforced : 'pass'
    this.#blocked.before += Number(SIDES.some((side) => before(side) === 'block'))
    this.#blocked.after += Number(SIDES.some((side) => after(side) === 'block'))
    for (const side of SIDES)
      for (const guard of judged[side]?.failed ?? []) this.#failed.add(guard)
    if (before('output') === 'block') this.#cut++
    const side = SIDES.find((one) => before(one) !== after(one))
    // A refused answer is known only up to the refusal.
    if (side === undefined || (side === 'output' && before('input') === 'block')) return
    if (side === 'output' && before('output') === 'block') return
    const rules =
      after(side) === 'pass' ? rulesBefore(side).map(({ rule }) => rule) : judged[side]!.rules
    const verdicts = { side, from: before(side), to: after(side), rules: [...new Set(rules)] }
    this.#changed.push({ id, key_id: key, model: model ?? null, ...verdicts })
  }

  get view() {
    return {
      calls: this.#calls,
      unreadable: this.unreadable,
      cut: this.#cut,
      blocked: this.#blocked,
      changed: this.#changed,
      failed_guards: [...this.#failed],
    }
  }
}
