/** Rules of the Claude models, derived from their names. */

/** Effort levels of the Messages API (`output_config.effort`), lowest first. */
export const EFFORTS = ['low', 'medium', 'high', 'xhigh', 'max'] as const
/** An effort level. */
export type Effort = (typeof EFFORTS)[number]

/** What a model accepts. */
export interface Traits {
  /** Most tokens of an answer. */
  readonly maxTokens: number
  /** `never`: no thinking. `budget`: a budget of tokens. `adaptive`: the model decides, guided by an effort. */
  readonly thinking: 'never' | 'budget' | 'adaptive'
  /** Also accepts a budget when thinking is adaptive. */
  readonly budgets: boolean
  readonly efforts: readonly Effort[]
  /** Thinking text is left out unless the request asks for it. */
  readonly hidesThinking: boolean
  /**
   * How to turn thinking off: without any parameter, by a `type`, or not at all, so that the lowest effort is sent
   * instead.
   */
  readonly off: 'unset' | 'disabled' | 'between_tools' | 'least'
  /** Accepts temperature, `top_p` and `top_k`. */
  readonly sampling: boolean
  /** Accepts temperature and `top_p` in one request. */
  readonly samplingTogether: boolean
  /** Can be forced to call a tool, while it does not think. */
  readonly forcedTools: boolean
  /** Can be forced to call a tool while it thinks. */
  readonly forcedToolsWithThinking: boolean
  /** Supports structured output (`output_config.format`, strict tools). */
  readonly schemas: boolean
  /** Takes instructions in the middle of a conversation as turns of their own. */
  readonly systemTurns: boolean
}

/** The traits of models of other vendors with the same API: only the common features. */
const OTHER_VENDOR: Traits = {
  maxTokens: 8192,
  thinking: 'budget',
  budgets: true,
  efforts: [],
  hidesThinking: false,
  off: 'unset',
  sampling: true,
  samplingTogether: true,
  forcedTools: true,
  forcedToolsWithThinking: false,
  schemas: false,
  systemTurns: false,
}

/** The rules of a model. A Claude model of unknown generation counts as the newest. */
export function traitsOf(name: string): Traits {
  const model = name.toLowerCase()
  if (!model.includes('claude')) return OTHER_VENDOR
  const generation = generationOf(model)
  const alwaysThinks = /fable|mythos/.test(model)
  const adaptive = generation >= 406 || alwaysThinks
  const hidesThinking = generation >= 407 || alwaysThinks
  return {
    maxTokens: maxTokensOf(model, generation),
    thinking: adaptive ? 'adaptive' : generation >= 307 ? 'budget' : 'never',
    budgets: !hidesThinking,
    efforts: hidesThinking ? EFFORTS : EFFORTS.filter((effort) => effort !== 'xhigh'),
    hidesThinking,
    off: alwaysThinks ? 'least' : offOf(model, generation),
    sampling: !hidesThinking,
    samplingTogether: generation < 405,
    forcedTools: !refusesForcedTools(model, generation),
    forcedToolsWithThinking: false,
    schemas: generation >= 401,
    systemTurns: generation >= 500 || (model.includes('opus') && generation >= 408),
  }
}

/** Generation as a number: 405 for 4.5. */
function generationOf(model: string): number {
  const newer = /claude-[a-z]+-(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)/.exec(model)
  const older = newer ?? /claude-v?(\d)(?!\d)(?:[-.](\d)(?!\d))?/.exec(model)
  return older ? Number(older[1]) * 100 + Number(older[2] ?? 0) : Infinity
}

function maxTokensOf(model: string, generation: number): number {
  if (generation < 305) return 4096
  if (generation < 307) return 8192
  if (generation >= 406) return 128_000
  return model.includes('opus') && generation < 405 ? 32_000 : 64_000
}

function offOf(model: string, generation: number): Traits['off'] {
  if (generation < 500) return 'unset'
  if (generation < 505 || model.includes('haiku')) return 'disabled'
  return model.includes('sonnet') ? 'between_tools' : 'least'
}

function refusesForcedTools(model: string, generation: number): boolean {
  // They always think.
  if (/fable|mythos/.test(model)) return true
  return generation >= 505 && !model.includes('haiku')
}
