/** Moderation by the local guards of the configuration: without a vendor, free of charge. */
import { InvalidRequest, Unavailable } from '../../errors/errors.ts'
import type { GuardRegistry } from '../../guard/plan.ts'
import { testPolicy, type PolicyTestResult } from '../../guard/policy-check.ts'
import { unknownModel } from '../../models/allowlist.ts'
import type { Call, Stage } from '../../pipeline/pipeline.ts'
import { CATEGORIES, type Category } from '../../plugin.ts'
import { tighten } from '../../policy/policy.ts'
import { flowOf } from '../../stream/flow.ts'
import type { ModerationAnswer } from './answer.ts'
import { isParts, LOCAL, textsIn, type ModerationRequest } from './read.ts'

const UNAVAILABLE = 'A guard could not look at this input. Try again later.'

/**
 * Answers calls for the local guards in place of the stages after it. Policies of keys do not apply: a text is tested, no
 * model is used.
 * @throws InvalidRequest for images alone, NotFound where no guard is configured, Unavailable where one fails
 */
export const moderateLocally: Stage = async function moderateLocally(call, next) {
  const { runtime, request } = call
  if (request.model !== LOCAL) return next()
  const { input } = request.input as ModerationRequest
  const categories = lookedFor(runtime.guards)
  if (categories.length === 0) throw unknownModel(runtime.catalog, LOCAL)
  const texts = textsIn(input)
  if (texts.length === 0) {
    const message = 'The guards of this gateway read text only: send text, or name a model.'
    throw new InvalidRequest('unsupported_value', message, { param: 'input' })
  }
  const all = isParts(input) ? [texts.join('\n')] : texts
  const results: object[] = []
  for (const text of all) results.push(await resultOf(call, text, categories))
  const part: ModerationAnswer = { model: LOCAL, results }
  return { parts: flowOf(part) }
}

/** Categories that a local guard looks for. */
function lookedFor({ all }: GuardRegistry): readonly Category[] {
  return CATEGORIES.filter((category) =>
    all.some(
      ({ guard }) =>
        guard.execution === 'local' &&
        guard.checkInput !== undefined &&
        guard.enforces.includes(`deny:${category}`),
    ),
  )
}

/** What the guards say of one text. */
async function resultOf(
  call: Call,
  text: string,
  categories: readonly Category[],
): Promise<object> {
  const policy = tighten({ version: 1, deny: categories }, undefined)
  const { guards } = call.runtime
  const found = await testPolicy({
    policy,
    guards,
    texts: { input: text },
    remote: false,
    proceed: () => call.throwIfAborted(),
    contextOf: (rules, signal, deadline) =>
      Object.freeze({
        requestId: call.id,
        accountId: call.account.id,
        keyId: call.key.id,
        operation: 'moderate',
        model: LOCAL,
        origin: 'key' as const,
        rules,
        conversation: { userTurn: text },
        signal,
        deadline,
      }),
  })
  if (found.some(({ verdict }) => verdict === 'error')) {
    throw new Unavailable('guard_unavailable', UNAVAILABLE)
  }
  const scores = categories.map((category) => [category, scoreOf(found, category)] as const)
  return {
    flagged: scores.some(([, { blocked }]) => blocked),
    categories: Object.fromEntries(scores.map(([name, { blocked }]) => [name, blocked])),
    category_scores: Object.fromEntries(scores.map(([name, { score }]) => [name, score])),
    category_applied_input_types: Object.fromEntries(categories.map((name) => [name, ['text']])),
  }
}

/** Guards give a score to what they block only. */
function scoreOf(found: readonly PolicyTestResult[], category: Category) {
  const blocks = found.filter(
    ({ rule, verdict }) => rule === `deny:${category}` && verdict === 'block',
  )
  const score = Math.max(0, ...blocks.map((one) => one.score ?? 1))
  return { blocked: blocks.length > 0, score }
}
