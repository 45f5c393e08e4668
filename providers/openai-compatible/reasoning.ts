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
