/** How a wish for reasoning is put to each vendor. */
import type { Reasoning } from '../../src/plugin.ts'

/**
 * The members that say to a vendor what `reasoning` says.
 * @param limit the most tokens the answer may have
 */
export type ToReasoning = (
  reasoning: Reasoning,
  model: string,
  limit: number | undefined,
) => Record<string, unknown>

type Effort = NonNullable<Reasoning['effort']>

const SCALE: readonly Effort[] = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']

/** `reasoning_effort`, in the nearest of the levels a vendor has; weakest first. */
export function effortLevels(...levels: readonly [Effort, ...Effort[]]): ToReasoning {
  return (reasoning, _model, limit) => {
    if (isOff(reasoning)) return { reasoning_effort: levels[0] }
    const effort = effortOf(reasoning, limit)
    return effort ? { reasoning_effort: nearest(effort, levels) } : {}
  }
}

/** OpenRouter's own form, which is the gateway's too. */
export const reasoningAsIs: ToReasoning = (reasoning) => ({ reasoning })

export const groqReasoning: ToReasoning = (reasoning, model, limit) => {
  const hidden = reasoning.exclude ? { include_reasoning: false } : undefined
  if (model.includes('gpt-oss')) return { ...lowToHigh(reasoning, model, limit), ...hidden }
  const effort = model.includes('qwen')
    ? { reasoning_effort: isOff(reasoning) ? 'none' : 'default' }
    : {}
  // Without it these models write their thoughts into the answer. Both members at once are refused.
  return { ...effort, ...(hidden ?? { reasoning_format: 'parsed' }) }
}

export const deepSeekReasoning: ToReasoning = (reasoning, model, limit) =>
  isOff(reasoning)
    ? thinkingSwitch(reasoning, model, limit)
    : {
        ...thinkingSwitch(reasoning, model, limit),
        ...effortLevels('low', 'high', 'max')(reasoning, model, limit),
      }

/** `thinking: {type}`, on or off. */
export const thinkingSwitch: ToReasoning = (reasoning) => ({
  thinking: { type: isOff(reasoning) ? 'disabled' : 'enabled' },
})

export const togetherReasoning: ToReasoning = (reasoning, model, limit) =>
  model.includes('gpt-oss')
    ? lowToHigh(reasoning, model, limit)
    : { reasoning: { enabled: !isOff(reasoning) } }

/** Servers of open weights: the chat template decides, save for gpt-oss. */
export const templateSwitch: ToReasoning = (reasoning, model, limit) =>
  model.includes('gpt-oss')
    ? lowToHigh(reasoning, model, limit)
    : { chat_template_kwargs: { enable_thinking: !isOff(reasoning) } }

export const alibabaReasoning: ToReasoning = (reasoning) => {
  if (isOff(reasoning)) return { enable_thinking: false }
  const budget = reasoning.max_tokens
  return { enable_thinking: true, ...(budget === undefined ? {} : { thinking_budget: budget }) }
}

export const cerebrasReasoning: ToReasoning = (reasoning, model, limit) => {
  if (model.includes('gpt-oss')) return lowToHigh(reasoning, model, limit)
  return isOff(reasoning) ? { disable_reasoning: true } : {}
}

export const mistralReasoning: ToReasoning = (reasoning, model) => {
  if (!model.includes('magistral')) return { reasoning_effort: isOff(reasoning) ? 'none' : 'high' }
  return isOff(reasoning) ? {} : { prompt_mode: 'reasoning' }
}

const lowToHigh = effortLevels('low', 'medium', 'high')

/** Whether the client wants no reasoning at all. */
export function isOff(reasoning: Reasoning | undefined): boolean {
  return reasoning?.enabled === false || reasoning?.effort === 'none'
}

/** A budget as an effort, by its share of the whole answer (OpenAI contract, chat request). */
function effortOf(
  { effort, max_tokens }: Reasoning,
  limit: number | undefined,
): Effort | undefined {
  if (max_tokens === undefined) return effort
  if (limit === undefined) return effort ?? 'medium'
  const share = max_tokens / limit
  return share <= 0.2 ? 'low' : share <= 0.5 ? 'medium' : 'high'
}

/** Between two levels that are equally near, the stronger one. */
function nearest(effort: Effort, levels: readonly Effort[]): Effort {
  const wanted = SCALE.indexOf(effort)
  const distance = (level: Effort) => Math.abs(SCALE.indexOf(level) - wanted)
  return levels.reduce((best, level) => (distance(level) <= distance(best) ? level : best))
}
