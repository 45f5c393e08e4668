/** Maps the request's `reasoning` to Anthropic's thinking parameters. */
import type { Reasoning } from '../../src/plugin.ts'
import { EFFORTS, type Effort, type Traits } from './models.ts'

/** Parameters for one request. */
export interface Thinking {
  readonly thinking?: Readonly<Record<string, unknown>>
  readonly effort?: Effort
  /** Whether the request turns thinking on. */
  readonly on: boolean
}

/** Smallest budget that the vendor accepts. */
const MIN_BUDGET = 1024
/** Share of the answer's tokens for thinking, per effort. */
const SHARES: Readonly<Record<string, number>> = {
  minimal: 0.1,
  low: 0.2,
  medium: 0.5,
  high: 0.8,
  xhigh: 0.9,
  max: 0.95,
}
const MAX_SHARE = 0.95

const UNSET: Thinking = { on: false }

/**
 * The thinking parameters of a request.
 * @param limit most tokens of the answer, thinking included
 * @param isLimited whether the client set this limit
 */
export function toThinking(
  reasoning: Reasoning | undefined,
  traits: Traits,
  limit: number,
  isLimited: boolean,
): Thinking {
  if (!reasoning || traits.thinking === 'never') return UNSET
  const { effort, max_tokens: budget, enabled, exclude } = reasoning
  if (enabled === false || effort === 'none') return OFF[traits.off]
  if (effort === undefined && budget === undefined && enabled !== true) return UNSET
  const byBudget = traits.thinking === 'budget' || (budget !== undefined && traits.budgets)
  if (byBudget) return withBudget(budget ?? limit * SHARES[effort ?? 'medium']!, limit)
  const display = exclude ? 'omitted' : 'summarized'
  const wanted = budget === undefined ? effort : effortOf(budget, isLimited ? limit : undefined)
  return {
    on: true,
    thinking: { type: 'adaptive', ...(traits.hidesThinking ? { display } : {}) },
    ...(wanted ? { effort: nearest(wanted, traits.efforts) } : {}),
  }
}

/** The parameters of a request whose model must not think. */
export function withoutThinking({ off }: Traits): Thinking {
  return OFF[off]
}

const OFF: Readonly<Record<Traits['off'], Thinking>> = {
  unset: UNSET,
  disabled: { on: false, thinking: { type: 'disabled' } },
  between_tools: { on: false, thinking: { type: 'between_tools' } },
  least: { on: false, effort: 'low' },
}

/** The budget stays within the limit, which is also what the account's hold covers. */
function withBudget(wanted: number, limit: number): Thinking {
  const most = Math.floor(limit * MAX_SHARE)
  if (most < MIN_BUDGET) return UNSET
  const budget_tokens = Math.min(Math.max(Math.floor(wanted), MIN_BUDGET), most)
  return { on: true, thinking: { type: 'enabled', budget_tokens } }
}

/** The effort for a budget, from its share of the answer. */
function effortOf(budget: number, limit: number | undefined): Effort {
  if (limit === undefined) return 'medium'
  const share = budget / limit
  return share <= SHARES.low! ? 'low' : share <= SHARES.medium! ? 'medium' : 'high'
}

/** The nearest level; the lower one of two equally near. */
function nearest(wanted: NonNullable<Reasoning['effort']>, levels: readonly Effort[]): Effort {
  const place = EFFORTS.indexOf(wanted as Effort)
  const distance = (level: Effort) => Math.abs(EFFORTS.indexOf(level) - place)
  return levels.reduce((best, level) => (distance(level) < distance(best) ? level : best))
}
