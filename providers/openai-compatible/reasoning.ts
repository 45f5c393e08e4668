/** Maps the request's `reasoning` to each vendor's parameters. */
import type { Reasoning } from '../../src/plugin.ts'

/**
 * The vendor's members for a `reasoning`.
 * @param limit most tokens of the answer
 */
export type ToReasoning = (
  reasoning: Reasoning,
  model: string,
  limit: number | undefined,
) => Record<string, unknown>

/** How much a model reasons. */
export type Effort = NonNullable<Reasoning['effort']>

/** All efforts, lowest first. */
export const SCALE: readonly Effort[] = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']

/**
 * `reasoning_effort` in the nearest level that the vendor has.
 * @param levels lowest first
 */
export function effortLevels(...levels: readonly [Effort, ...Effort[]]): ToReasoning {
  return (reasoning, _model, limit) => {
    const effort = nearestEffort(reasoning, limit, levels)
    return effort ? { reasoning_effort: effort } : {}
  }
}

/** The nearest of these levels, lowest first; undefined where the request names no effort. */
export function nearestEffort(
  reasoning: Reasoning,
  limit: number | undefined,
  levels: readonly [Effort, ...Effort[]],
): Effort | undefined {
  if (isOff(reasoning)) return levels[0]
  const effort = effortOf(reasoning, limit)
  return effort && nearest(effort, levels)
}

/** OpenRouter has the gateway's own form. */
export const reasoningAsIs: ToReasoning = (reasoning) => ({ reasoning })

/** Groq: an effort for gpt-oss, on or off for Qwen, and a format that separates reasoning from the text. */
export const groqReasoning: ToReasoning = (reasoning, model, limit) => {
  const hidden = reasoning.exclude ? { include_reasoning: false } : undefined
  if (model.includes('gpt-oss')) return { ...lowToHigh(reasoning, model, limit), ...hidden }
  const effort = model.includes('qwen')
    ? { reasoning_effort: isOff(reasoning) ? 'none' : 'default' }
    : {}
  // Without it, these models write their reasoning into the answer. The API refuses both members together.
  return { ...effort, ...(hidden ?? { reasoning_format: 'parsed' }) }
}

/** DeepSeek: `thinking`, with an effort when it is on. */
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

/**
 * xAI: an effort for the models that have levels, by their names. `grok-4.20` is older than `grok-4.3`. The others refuse
 * the member, whatever its value.
 */
export const xaiReasoning: ToReasoning = (reasoning, model, limit) => {
  if (model.startsWith('grok-3-mini')) return effortLevels('low', 'high')(reasoning, model, limit)
  if (!/^grok-(4\.[3-9](?!\d)|[5-9]|[1-9]\d|latest)|-multi-agent/.test(model)) return {}
  const noneToHigh = ['none', 'low', 'medium', 'high'] as const
  return /^grok-(4\.[6-9](?!\d)|[5-9]|[1-9]\d)/.test(model)
    ? effortLevels(...noneToHigh, 'xhigh')(reasoning, model, limit)
    : effortLevels(...noneToHigh)(reasoning, model, limit)
}

/** Together: an effort for gpt-oss, on or off for other models. */
export const togetherReasoning: ToReasoning = (reasoning, model, limit) =>
  model.includes('gpt-oss')
    ? lowToHigh(reasoning, model, limit)
    : { reasoning: { enabled: !isOff(reasoning) } }

/** Servers of open-weight models, where the chat template decides; gpt-oss takes an effort. */
export const templateSwitch: ToReasoning = (reasoning, model, limit) =>
  model.includes('gpt-oss')
    ? lowToHigh(reasoning, model, limit)
    : { chat_template_kwargs: { enable_thinking: !isOff(reasoning) } }

/** Alibaba: on or off, with a token budget. */
export const alibabaReasoning: ToReasoning = (reasoning) => {
  if (isOff(reasoning)) return { enable_thinking: false }
  const budget = reasoning.max_tokens
  return { enable_thinking: true, ...(budget === undefined ? {} : { thinking_budget: budget }) }
}

/** Cerebras: an effort for gpt-oss, off for other models. */
export const cerebrasReasoning: ToReasoning = (reasoning, model, limit) => {
  if (model.includes('gpt-oss')) return lowToHigh(reasoning, model, limit)
  return isOff(reasoning) ? { disable_reasoning: true } : {}
}

/** Mistral: a prompt mode for Magistral, an effort for other models. */
export const mistralReasoning: ToReasoning = (reasoning, model) => {
  if (!model.includes('magistral')) return { reasoning_effort: isOff(reasoning) ? 'none' : 'high' }
  return isOff(reasoning) ? {} : { prompt_mode: 'reasoning' }
}

const lowToHigh = effortLevels('low', 'medium', 'high')

/** Whether the client turns reasoning off. */
export function isOff(reasoning: Reasoning | undefined): boolean {
  return reasoning?.enabled === false || reasoning?.effort === 'none'
}

/** The effort for a budget, from its share of the answer. */
function effortOf(
  { effort, max_tokens }: Reasoning,
  limit: number | undefined,
): Effort | undefined {
  if (max_tokens === undefined) return effort
  if (limit === undefined) return effort ?? 'medium'
  const share = max_tokens / limit
  return share <= 0.2 ? 'low' : share <= 0.5 ? 'medium' : 'high'
}

/** The nearest level; the higher one of two equally near. */
function nearest(effort: Effort, levels: readonly Effort[]): Effort {
  const wanted = SCALE.indexOf(effort)
  const distance = (level: Effort) => Math.abs(SCALE.indexOf(level) - wanted)
  return levels.reduce((best, level) => (distance(level) <= distance(best) ? level : best))
}
