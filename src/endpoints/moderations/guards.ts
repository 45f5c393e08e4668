/** Moderation by guards of the configuration: by all that look on this machine, or by one of a name. */
import { Forbidden, InvalidRequest } from '../../errors/errors.ts'
import { askedBy, type GuardInstance } from '../../guard/plan.ts'
import { ATTEMPTS, questionsAbout, type BudgetedQuestions } from '../../guard/questions.ts'
import { isAllowed, tierRefusal, unknownModel } from '../../models/allowlist.ts'
import type { Model } from '../../models/catalog.ts'
import type { Call, ParsedRequest, Stage } from '../../pipeline/pipeline.ts'
import { NO_POLICY } from '../../policy/policy.ts'
import { feedOf } from '../../stream/flow.ts'
import type { ModerationAnswer } from './answer.ts'
import { categoriesOf, resultOf, rulesOf } from './findings.ts'
import { BY_NAME, isParts, LOCAL, textsIn, type ModerationRequest } from './read.ts'

/**
 * Finds the guards that a call names. Policies of keys do not apply: a text is tested, no model is used. A guard that asks a
 * model is like a model itself, also where the operator pays for it.
 * @throws NotFound where there is no such guard, Forbidden, InvalidRequest for images alone
 */
export const resolveGuards: Stage = {
  name: 'resolveGuards',
  before(call) {
    const { runtime, admission, catalog } = call
    const { key, entered } = admission
    const request = call.request as ParsedRequest<ModerationRequest>
    const guards = guardsOf(call)
    if (guards.length === 0) throw unknownModel(runtime.catalog, request.model)
    const judge = judgeOf(call, guards)
    const isPaid = guards.some(({ billing }) => billing === 'account')
    const model = standIn(request.model, judge, isPaid)
    if (judge && key.models && !isAllowed(key.models, model.id)) {
      throw new Forbidden('model_not_allowed', `This key may not use ${model.id}.`)
    }
    if (!entered!.paid && !model.freeTier) throw tierRefusal(catalog, model)
    if (textsOf(request.input).length === 0) {
      const message = 'The guards of this gateway read text only: send text, or name a model.'
      throw new InvalidRequest('unsupported_value', message, { param: 'input' })
    }
    call.made.target = {
      model,
      online: false,
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
 * What the guards of a call ask models about its texts at the expense of the account. Each text has a budget of its own. Most
 * texts break no rule; about one that does, a guard is asked again without the category that it has named.
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

/** The texts that are judged, each on its own. */
function textsOf({ input }: ModerationRequest): readonly string[] {
  const texts = textsIn(input)
  return isParts(input) && texts.length > 0 ? [texts.join('\n')] : texts
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

/** The model that one of the guards asks. */
function judgeOf({ catalog }: Call, guards: readonly GuardInstance[]): Model | undefined {
  const asked = guards.map(({ guard }) => guard.asks?.(undefined)).find((id) => id !== undefined)
  return asked === undefined ? undefined : catalog.get(asked)
}

/**
 * What stands for guards where a call has its model: it costs what the model costs that they ask.
 * @param isPaid whether the account pays for it
 */
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
    listing: {},
  }
}
