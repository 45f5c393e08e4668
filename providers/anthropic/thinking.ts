/** How a wish for reasoning is put to a model. */
import type { Reasoning } from '../../src/plugin.ts'
import { EFFORTS, type Effort, type Traits } from './models.ts'

/** What goes into the request. */
export interface Thinking {
  readonly thinking?: Readonly<Record<string, unknown>>
  readonly effort?: Effort
  /** The model will think because it is told to. */
  readonly on: boolean
}

/** The vendor's least budget. */
const LEAST_BUDGET = 1024
/** Of the tokens an answer may have, the share that goes to thinking. */
const SHARES: Readonly<Record<string, number>> = {
  minimal: 0.1,
  low: 0.2,
  medium: 0.5,
  high: 0.8,
  xhigh: 0.9,
  max: 0.95,
}
const MOST_SHARE = 0.95

const UNSAID: Thinking = { on: false }

/**
 * @param limit the most tokens of the answer, thoughts included
 * @param asked whether the client set that limit
 */
export function toThinking(
  reasoning: Reasoning | undefined,
  traits: Traits,
  limit: number,
  asked: boolean,
): Thinking {
  if (!reasoning || traits.thinking === 'never') return UNSAID
  const { effort, max_tokens: budget, enabled, exclude } = reasoning
  if (enabled === false || effort === 'none') return OFF[traits.off]
  if (effort === undefined && budget === undefined && enabled !== true) return UNSAID
  const byBudget = traits.thinking === 'budget' || (budget !== undefined && traits.budgets)
  if (byBudget) return withBudget(budget ?? limit * SHARES[effort ?? 'medium']!, limit)
  const display = exclude ? 'omitted' : 'summarized'
  const wanted = budget === undefined ? effort : effortOf(budget, asked ? limit : undefined)
  return {
    on: true,
    thinking: { type: 'adaptive', ...(traits.silent ? { display } : {}) },
    ...(wanted ? { effort: nearest(wanted, traits.efforts) } : {}),
  }
}

const OFF: Readonly<Record<Traits['off'], Thinking>> = {
  unsaid: UNSAID,
  disabled: { on: false, thinking: { type: 'disabled' } },
  between_tools: { on: false, thinking: { type: 'between_tools' } },
  least: { on: false, effort: 'low' },
}

/** Within the limit: it is what the client and its policy allow, and what was set aside for the call. */
function withBudget(wanted: number, limit: number): Thinking {
  const most = Math.floor(limit * MOST_SHARE)
  if (most < LEAST_BUDGET) return UNSAID
  const budget_tokens = Math.min(Math.max(Math.floor(wanted), LEAST_BUDGET), most)
  return { on: true, thinking: { type: 'enabled', budget_tokens } }
}

/** A budget as an effort, by its share of the answer. */
function effortOf(budget: number, limit: number | undefined): Effort {
  if (limit === undefined) return 'medium'
  const share = budget / limit
  return share <= SHARES.low! ? 'low' : share <= SHARES.medium! ? 'medium' : 'high'
}

/** Between two levels that are equally near, the cheaper one. */
function nearest(wanted: NonNullable<Reasoning['effort']>, levels: readonly Effort[]): Effort {
  const place = EFFORTS.indexOf(wanted as Effort)
  const distance = (level: Effort) => Math.abs(EFFORTS.indexOf(level) - place)
  return levels.reduce((best, level) => (distance(level) < distance(best) ? level : best))
}
