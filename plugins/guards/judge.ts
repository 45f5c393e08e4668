/**
 * A guard that asks a model whether a text breaks a rule: scopes, categories, and attempts to manipulate the judge. The
 * judge model has the weaknesses of the models it guards. Its answer therefore counts only if it proves that the model
 * followed the instructions; any other answer is a fault of this guard, never a pass. Safety models can be used instead
 * for the rules that they know.
 */
import * as v from 'valibot'
import {
  defineGuard,
  type Guard,
  type GuardContext,
  type TextItem,
  type Verdict,
} from '../../src/plugin.ts'
import type { JudgeModel } from './judge/judge-model.ts'
import { graniteGuardianJudge, qwen3GuardJudge, shieldGemmaJudge } from './judge/label-models.ts'
import { llamaGuardJudge } from './judge/llama-guard.ts'
import { chatModelJudge } from './judge/chat-model.ts'
import { moderationJudge } from './judge/moderation.ts'
import { policyReasonerJudge } from './judge/policy-reasoner.ts'
import {
  isJudged,
  isUnreadable,
  windowsFor,
  windowsOf,
  windowsOfAnswer,
  type Window,
  WindowJudge,
} from './judge/windows.ts'

const PASS: Verdict = { action: 'pass' }
const NOT_JUDGED: Verdict = { action: 'abstain', why: 'not-applicable' }
const UNREADABLE: Verdict = { action: 'abstain', why: 'unscannable' }

const model = v.pipe(v.string(), v.minLength(1))
/** Whether the model reads images. If not, the guard abstains from texts with images. */
const images = v.optional(v.boolean(), false)
/** Whether the model's own harm categories block too, as rules of this guard. */
const harms = v.optional(v.boolean(), false)

const options = v.variant('kind', [
  v.strictObject({
    /** Any chat model that follows instructions. */
    kind: v.optional(v.literal('model'), 'model'),
    /** Catalog id. The model that a policy names wins. */
    model: v.optional(model),
    images,
    /** Whether each question contains passages with a known answer. */
    decoy: v.optional(v.boolean(), true),
  }),
  v.strictObject({ kind: v.literal('policy-reasoner'), model: v.optional(model) }),
  v.strictObject({ kind: v.literal('llama-guard'), model, images, harms }),
  v.strictObject({ kind: v.literal('shieldgemma'), model }),
  v.strictObject({ kind: v.literal('granite-guardian'), model }),
  v.strictObject({ kind: v.literal('qwen3guard'), model, harms }),
  v.strictObject({
    kind: v.literal('moderation'),
    apiKey: v.pipe(v.string(), v.minLength(1)),
    baseURL: v.optional(v.pipe(v.string(), v.url()), 'https://api.openai.com/v1'),
    model: v.optional(model, 'omni-moderation-latest'),
  }),
])
type Options = v.InferOutput<typeof options>

export default defineGuard({
  name: 'judge',
  options,
  setup(chosen, host): Guard {
    const judgeModel = createJudge(chosen)
    const windowJudge = new WindowJudge(judgeModel, host)
    const isGeneral = chosen.kind === 'model' || chosen.kind === 'policy-reasoner'
    const asks = (named: string | undefined) => (isGeneral ? named : undefined) ?? chosen.model
    const modelFor = (context: GuardContext): string => {
      const id = asks(context.judgeModel)
      if (id === undefined)
        throw new Error('no model is named, neither by the policy nor by the options')
      return id
    }
    const blockIn = async (windows: readonly Window[], context: GuardContext) =>
      windows.length === 0 ? undefined : windowJudge.firstBlock(windows, modelFor(context), context)

    function createJudge(wanted: Options): JudgeModel {
      switch (wanted.kind) {
        case 'model':
          return chatModelJudge(wanted.images, wanted.decoy)
        case 'policy-reasoner':
          return policyReasonerJudge()
        case 'llama-guard':
          return llamaGuardJudge(wanted.images, wanted.harms)
        case 'shieldgemma':
          return shieldGemmaJudge()
        case 'granite-guardian':
          return graniteGuardianJudge()
        case 'qwen3guard':
          return qwen3GuardJudge(wanted.harms)
        case 'moderation':
          return moderationJudge(wanted, host)
      }
    }

    return {
      enforces: judgeModel.enforces,
      execution: 'remote',
      // The service for moderation is no model of the catalog.
      ...(chosen.kind !== 'moderation' && { asks }),
      questions: (characters) => windowsFor(characters) * (judgeModel.questions ?? 1),
      async checkInput(items, context) {
        if (!judgeModel.appliesTo(context.rules)) return items.map(() => NOT_JUDGED)
        const found = await blockIn(windowsOf(items, judgeModel.readsImages), context)
        return items.map((item: TextItem, index) => {
          if (found) return index === found.index ? found.verdict : PASS
          if (isUnreadable(item, judgeModel.readsImages)) return UNREADABLE
          return isJudged(item) ? PASS : NOT_JUDGED
        })
      },
      async checkOutput(item, context) {
        if (!judgeModel.appliesTo(context.rules) || item.text.trim() === '') return NOT_JUDGED
        return (await blockIn(windowsOfAnswer(item), context))?.verdict ?? PASS
      },
    }
  },
})
