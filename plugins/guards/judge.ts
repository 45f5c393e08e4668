/**
 * A model as a judge: of scopes, of all categories, and of attempts to talk it out of judging. It shares the weaknesses of
 * the models it guards, so its answers count only if they prove that it kept to the question; anything else is an error of
 * this guard, never a pass. Safety models can take its place for what they know about.
 */
import * as v from 'valibot'
import {
  defineGuard,
  type Guard,
  type GuardContext,
  type TextItem,
  type Verdict,
} from '../../src/plugin.ts'
import type { Brain } from './judge/brain.ts'
import { graniteGuardianBrain, qwen3GuardBrain, shieldGemmaBrain } from './judge/labels.ts'
import { llamaGuardBrain } from './judge/llama-guard.ts'
import { modelBrain } from './judge/model.ts'
import { moderationBrain } from './judge/moderation.ts'
import { reasonerBrain } from './judge/reasoner.ts'
import { isJudged, isUnreadable, windowsOf, windowsOfAnswer, type Window } from './judge/turn.ts'
import { Verdicts } from './judge/verdicts.ts'

const PASS: Verdict = { action: 'pass' }
const NOT_JUDGED: Verdict = { action: 'abstain', why: 'not-applicable' }
const UNREADABLE: Verdict = { action: 'abstain', why: 'unscannable' }

const model = v.pipe(v.string(), v.minLength(1))
/** Whether the model reads images. Where it does not, an image is something that this guard cannot look at. */
const images = v.optional(v.boolean(), false)
/** Whether what the model knows of harm blocks too, as rules of its own. */
const harms = v.optional(v.boolean(), false)

const options = v.variant('kind', [
  v.strictObject({
    /** Any chat model that follows instructions. */
    kind: v.optional(v.literal('model'), 'model'),
    /** Catalog id; where a policy names another one, that is asked. */
    model: v.optional(model),
    images,
    /** Whether every question has passages whose answer is known. */
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
    const brain = brainOf(chosen)
    const verdicts = new Verdicts(brain, host)
    const isGeneral = chosen.kind === 'model' || chosen.kind === 'policy-reasoner'
    const modelFor = ({ judgeModel: judge }: GuardContext): string => {
      const id = (isGeneral ? judge : undefined) ?? chosen.model
      if (id === undefined)
        throw new Error('no model is named, neither by the policy nor by the options')
      return id
    }
    const blockIn = async (windows: readonly Window[], context: GuardContext) =>
      windows.length === 0 ? undefined : verdicts.firstBlock(windows, modelFor(context), context)

    function brainOf(wanted: Options): Brain {
      switch (wanted.kind) {
        case 'model':
          return modelBrain(wanted.images, wanted.decoy)
        case 'policy-reasoner':
          return reasonerBrain()
        case 'llama-guard':
          return llamaGuardBrain(wanted.images, wanted.harms)
        case 'shieldgemma':
          return shieldGemmaBrain()
        case 'granite-guardian':
          return graniteGuardianBrain()
        case 'qwen3guard':
          return qwen3GuardBrain(wanted.harms)
        case 'moderation':
          return moderationBrain(wanted, host)
      }
    }

    return {
      enforces: brain.answers,
      execution: 'remote',
      async checkInput(units, context) {
        if (!brain.judges(context.rules)) return units.map(() => NOT_JUDGED)
        const found = await blockIn(windowsOf(units, brain.readsImages), context)
        return units.map((unit: TextItem, index) => {
          if (found) return index === found.unit ? found.verdict : PASS
          if (isUnreadable(unit, brain.readsImages)) return UNREADABLE
          return isJudged(unit) ? PASS : NOT_JUDGED
        })
      },
      async checkOutput(unit, context) {
        if (!brain.judges(context.rules) || unit.text.trim() === '') return NOT_JUDGED
        return (await blockIn(windowsOfAnswer(unit), context))?.verdict ?? PASS
      },
    }
  },
})
