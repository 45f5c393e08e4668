/** Moderation by guards of the configuration: by all that run on this machine, or by one that the client names. */
import { InvalidRequest, Unavailable } from '../../errors/errors.ts'
import {
  askedBy,
  type GuardInstance,
  ATTEMPTS,
  questionsAbout,
  type BudgetedQuestions,
} from '../../guard/plan.ts'
import {
  type GuardRunner,
  ruleFilter,
  toFault,
  type BlockVerdict,
  type FaultKind,
  type GuardFault,
} from '../../guard/runner.ts'
import { checkLists, tierRefusal, unknownModel } from '../../models/allowlist.ts'
import type { Model } from '../../models/catalog.ts'
import type { Call, ParsedRequest, Stage } from '../../pipeline/pipeline.ts'
import { GuardRunners } from '../../pipeline/stages/guard.ts'
import { CATEGORIES, type ActiveRules, type Category, type TextItem } from '../../plugin.ts'
import { NO_POLICY } from '../../policy/policy.ts'
import { feedOf } from '../../stream/flow.ts'
import { itemOf } from '../shared/guard.ts'
import {
  BY_NAME,
  isParts,
  LOCAL,
  textsIn,
  type ModerationAnswer,
  type ModerationRequest,
} from './normal-form.ts'

/**
 * Finds the guards that a call names. Policies of keys do not apply: a text is tested, no model is used. A guard
 * that asks a model is like a model itself, also where the operator pays for it.
 * @throws NotFound where there is no such guard, Forbidden, InvalidRequest for images alone
 */
export const resolveGuards: Stage = {
  name: 'resolveGuards',
  before(call) {
    const { runtime, admission, catalog } = call
    const { entered } = admission
    const request = call.request as ParsedRequest<ModerationRequest>
    const guards = guardsOf(call)
    if (guards.length === 0) throw unknownModel(runtime.catalog, request.model)
    const judge = judgeOf(call, guards)
    const isPaid = guards.some(({ billing }) => billing === 'account')
    const model = standIn(request.model, judge, isPaid)
    if (judge) checkLists(admission, model, catalog)
    if (!entered!.paid && !model.freeTier) throw tierRefusal(catalog, model)
    if (textsOf(request.input).length === 0) {
      const message = 'The guards of this gateway read text only: send text, or name a model.'
      throw new InvalidRequest('unsupported_value', message, { param: 'input' })
    }
    call.made.target = {
      model,
      online: false,
      thinks: false,
      policy: NO_POLICY,
      outbound: undefined,
      requiresNormalForm: false,
      native: false,
    }
  },
}

/** Answers in place of the stages that ask a model. @throws Unavailable where a guard fails, InvalidRequest */
export const askGuards: Stage = {
  name: 'askGuards',
  async before(call) {
    const guards = guardsOf(call)
    await Promise.all(guards.map((one) => one.load?.()))
    const results: object[] = []
    for (const text of textsOf(inputOf(call))) results.push(await resultOf(call, guards, text))
    const part: ModerationAnswer = { model: call.target.model.id, results }
    call.source = feedOf([part])
  },
}

function inputOf(call: Call): ModerationRequest {
  return call.request.input as ModerationRequest
}

/**
 * The questions that the guards of a call ask models about its texts at the expense of the account. Each text has a
 * budget of its own. Most texts break no rule; a guard is asked again about one that does, without the category that
 * it has named.
 */
export function questionsAsked(call: Call): BudgetedQuestions {
  const asking = guardsOf(call).flatMap((instance) => {
    const model = instance.billing === 'account' ? askedBy(instance, undefined) : undefined
    return model === undefined ? [] : [{ instance, model }]
  })
  const budgets = (timesOf: (instance: GuardInstance) => number) =>
    textsOf(inputOf(call)).flatMap(({ length }) =>
      asking.map(({ instance, model }) => {
        const atOnce = questionsAbout(instance.guard, length)
        return [{ model, atOnce, count: timesOf(instance) * atOnce }]
      }),
    )
  return {
    expected: budgets(() => 1),
    ceiling: budgets((instance) => ATTEMPTS * Math.max(1, categoriesOf(instance).length)),
  }
}

function textsOf({ input }: ModerationRequest): readonly string[] {
  const texts = textsIn(input)
  return isParts(input) && texts.length > 0 ? [texts.join('\n')] : texts
}

export function asksRemote(call: Call): boolean {
  return guardsOf(call).some(({ guard }) => guard.execution === 'remote')
}

function guardsOf({ runtime, request: { model } }: Call): readonly GuardInstance[] {
  const able = runtime.guards.all.filter(
    (one) => one.guard.checkInput !== undefined && rulesOf(one).length > 0,
  )
  return model === LOCAL
    ? able.filter(({ guard }) => guard.execution === 'local')
    : able.filter((one) => BY_NAME + one.name === model && knowsItsModel(one))
}

/** A guard that asks models has to know which one, where no policy says it. */
function knowsItsModel({ guard }: GuardInstance): boolean {
  return !guard.asks || guard.asks(undefined) !== undefined
}

function judgeOf({ catalog }: Call, guards: readonly GuardInstance[]): Model | undefined {
  const modelId = guards.map(({ guard }) => guard.asks?.(undefined)).find((id) => id !== undefined)
  return modelId === undefined ? undefined : catalog.get(modelId)
}

/** The model of a call to guards, at the price of the model that they ask. @param isPaid the account pays for it */
function standIn(id: string, judge: Model | undefined, isPaid: boolean): Model {
  return {
    id,
    vendor: LOCAL,
    label: id,
    aliases: [],
    modality: 'moderation',
    freeTier: judge?.freeTier ?? true,
    pricing: (isPaid && judge?.pricing) || {},
    prices: (isPaid && judge?.prices) || {},
    priceChanges: [],
    capabilities: undefined,
    priceSource: { from: 'own' },
    deployments: [],
  }
}

// The blocks of guards in one text, as the result of a moderation.

const NONE = { patterns: [], assignments: [] }
const DENIED = 'deny:'
const OF_THE_TEXT: ReadonlySet<FaultKind> = new Set(['too_large', 'unreadable'])

/** Rules that a guard judges without a policy's words: categories of policies by their names, then its own. */
function rulesOf(instance: GuardInstance): readonly string[] {
  const { enforces } = instance.guard
  const own = enforces.filter((rule) => rule === 'tampering' || rule.startsWith('x:'))
  return [...categoriesOf(instance), ...own]
}

function categoriesOf({ guard }: GuardInstance): readonly Category[] {
  return CATEGORIES.filter((category) => guard.enforces.includes(`${DENIED}${category}`))
}

/** The result for one text. @throws Unavailable where a guard fails, InvalidRequest for a text that it cannot judge */
async function resultOf(
  call: Call,
  guards: readonly GuardInstance[],
  text: string,
): Promise<object> {
  const scores = new Map<string, number>()
  for (const guard of guards) {
    for (const { rule, score = 1 } of await blocksOf(call, guard, text)) {
      const name = rule.startsWith(DENIED) ? rule.slice(DENIED.length) : rule
      scores.set(name, Math.max(score, scores.get(name) ?? 0))
    }
  }
  const names = [...new Set([...guards.flatMap(rulesOf), ...scores.keys()])]
  const each = <T>(of: (name: string) => T) =>
    Object.fromEntries(names.map((name) => [name, of(name)]))
  return {
    flagged: scores.size > 0,
    categories: each((name) => scores.has(name)),
    // Guards give a score to what they block only.
    category_scores: each((name) => scores.get(name) ?? 0),
    category_applied_input_types: each(() => ['text']),
  }
}

/**
 * All blocks of one guard. A guard names one rule at a time, so it is asked again without each category that it has
 * named, until it finds another rule or none.
 */
async function blocksOf(
  call: Call,
  instance: GuardInstance,
  text: string,
): Promise<readonly BlockVerdict[]> {
  const item = itemOf('input', 'content', text)
  const runners = new GuardRunners(
    call,
    { enforcing: NONE, monitoring: NONE, faults: [], unenforced: [] },
    { items: [item], refusedTurns: [] },
  )
  let deny = categoriesOf(instance)
  const blocks: BlockVerdict[] = []
  for (;;) {
    const block = await blockBy(call, runners, instance, deny, item)
    if (!block) return blocks
    blocks.push(block)
    const left = deny.filter((category: Category) => block.rule !== `${DENIED}${category}`)
    if (left.length === deny.length || left.length === 0) return blocks
    deny = left
  }
}

async function blockBy(
  { runtime }: Call,
  runners: GuardRunners,
  instance: GuardInstance,
  deny: readonly Category[],
  item: TextItem,
): Promise<BlockVerdict | undefined> {
  const { name, plugin, guard } = instance
  const rules: ActiveRules = { scopes: [], deny, bannedPatterns: [] }
  const assignment = {
    instance,
    origin: 'key',
    rules,
    ruleFilter: ruleFilter(plugin, guard.enforces, rules),
    circuit: runtime.guards.circuits.get(`${name} key`)!,
  } as const
  const group = runners.start({ patterns: [], assignments: [assignment] }, true)
  try {
    return await ask(group.runners[0]!, item)
  } catch (error) {
    throw refusalOf(toFault(error))
  } finally {
    group.end()
  }
}

function ask(runner: GuardRunner, item: TextItem): Promise<BlockVerdict | undefined> {
  const { guard, local } = runner
  if (!local) {
    return runner.ask('input', async (context) => {
      const [verdict] = await guard.checkInput!([item], context)
      return runner.blockIn(verdict, item.text.length)
    })
  }
  const verdicts = runner.work((context) => guard.checkInput!([item], context))
  return runner
    .inTime('input', Promise.resolve(verdicts))
    .then(([verdict]) => runner.blockIn(verdict, item.text.length))
}

function refusalOf(fault: GuardFault): Error {
  if (OF_THE_TEXT.has(fault.kind)) {
    const message = 'A guard cannot judge a text of this kind or length. Send shorter texts.'
    return new InvalidRequest('unsupported_value', message, { param: 'input' })
  }
  const message = 'A guard could not look at this input. Try again later.'
  return new Unavailable('guard_unavailable', message, { cause: fault })
}
