/**
 * Maps the request's `reasoning` to Google's thinking parameters. Models up to 2.5 take a token budget, later ones a
 * level.
 */
import type { Reasoning } from '../../src/plugin.ts'
import { isBefore } from '../shared/gemini.ts'

/** Lowest first. */
export const LEVELS = ['minimal', 'low', 'medium', 'high'] as const
/** A thinking level. */
type Level = (typeof LEVELS)[number]

/** How a model is told to think: not at all, by a token budget, or by one of these levels. */
export type Thinking = 'none' | 'budget' | readonly Level[]

/**
 * `generationConfig.thinkingConfig` for a request; undefined when there is nothing to set.
 * @param thinking how the model is told, when its name does not tell
 */
export function toThinkingConfig(
  reasoning: Reasoning | undefined,
  model: string,
  thinking: Thinking = thinkingOf(model),
): object | undefined {
  if (!reasoning || thinking === 'none') return undefined
  const isOff = reasoning.enabled === false || reasoning.effort === 'none'
  const amount =
    thinking === 'budget' ? budgetOf(reasoning, model, isOff) : levelOf(reasoning, thinking, isOff)
  const shown = isOff || reasoning.exclude ? undefined : { includeThoughts: true }
  return amount || shown ? { ...amount, ...shown } : undefined
}

/** https://ai.google.dev/gemini-api/docs/thinking */
function thinkingOf(model: string): Thinking {
  if (isBefore(model, 2, 5) || /gemma|tts/.test(model)) return 'none'
  if (isBefore(model, 3)) return model.includes('image') ? 'none' : 'budget'
  if (model.includes('image')) return ['minimal', 'high']
  if (model.includes('flash-lite')) return LEVELS
  const isFlash = model.includes('flash') && /gemini-\d/.test(model)
  if (isFlash && isBefore(model, 3, 7)) return LEVELS
  if (model.includes('pro') && isBefore(model, 3, 1)) return ['low', 'high']
  return ['low', 'medium', 'high']
}

/** Token budget per effort. Higher efforts use the model's maximum. */
const BUDGETS: Readonly<Partial<Record<NonNullable<Reasoning['effort']>, number>>> = {
  minimal: 512,
  low: 1024,
  medium: 8192,
  high: 24_576,
}
/** Lets the model decide. */
const DYNAMIC = -1

function budgetOf(
  { effort, max_tokens, enabled }: Reasoning,
  model: string,
  isOff: boolean,
): object | undefined {
  const isPro = model.includes('pro')
  const least = isPro ? 128 : model.includes('flash-lite') ? 512 : 1
  const most = isPro ? 32_768 : 24_576
  // Thinking of Pro models cannot be turned off.
  if (isOff) return { thinkingBudget: isPro ? least : 0 }
  const wanted = max_tokens ?? (effort && (BUDGETS[effort] ?? most))
  if (wanted !== undefined) return { thinkingBudget: Math.min(Math.max(wanted, least), most) }
  return enabled ? { thinkingBudget: DYNAMIC } : undefined
}

function levelOf(
  { effort, max_tokens, enabled }: Reasoning,
  levels: readonly Level[],
  isOff: boolean,
): object | undefined {
  if (isOff) return { thinkingLevel: LEVELS.find((level) => levels.includes(level)) }
  const wanted =
    max_tokens === undefined ? (effort ?? (enabled ? 'medium' : undefined)) : effortOf(max_tokens)
  if (!wanted) return undefined
  const place = LEVELS.indexOf(wanted as Level)
  // Higher efforts than `high` become `high`.
  return { thinkingLevel: nearest(place < 0 ? LEVELS.length - 1 : place, levels) }
}

/** The lowest effort with at least this budget. */
function effortOf(budget: number): Level {
  return LEVELS.find((level) => budget <= BUDGETS[level]!) ?? 'high'
}

/** The nearest level; the higher one of two equally near. */
function nearest(place: number, levels: readonly Level[]): Level {
  const distance = (level: Level) => Math.abs(LEVELS.indexOf(level) - place)
  return levels.reduce((best, level) => (distance(level) <= distance(best) ? level : best))
}
