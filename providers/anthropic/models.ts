/** What sets the Claude models apart. Their names tell: rules change from one generation to the next. */

/** Levels of effort, weakest first (Messages API, `output_config.effort`). */
export const EFFORTS = ['low', 'medium', 'high', 'xhigh', 'max'] as const
export type Effort = (typeof EFFORTS)[number]

/** How a model is told to think, and what it refuses. */
export interface Traits {
  /** The most tokens an answer may have. */
  readonly maxTokens: number
  /** Not at all, within a budget of tokens, or as it sees fit, with an effort. */
  readonly thinking: 'never' | 'budget' | 'adaptive'
  /** It takes a budget, too, where thinking is adaptive. */
  readonly budgets: boolean
  readonly efforts: readonly Effort[]
  /** Thoughts come without text unless it is asked for. */
  readonly silent: boolean
  /** How thinking is turned off: by saying nothing, by a `type`, or it is not, and the least effort has to do. */
  readonly off: 'unsaid' | 'disabled' | 'between_tools' | 'least'
  /** Takes temperature, `top_p` and `top_k`. */
  readonly sampling: boolean
  /** Takes temperature and `top_p` in one request. */
  readonly samplingTogether: boolean
  /** Can be made to call a tool. */
  readonly forcedTools: boolean
  /** Holds to a JSON schema (`output_config.format`, strict tools). */
  readonly schemas: boolean
}

/** Models of other vendors behind the same API: nothing is taken for granted. */
const STRANGER: Traits = {
  maxTokens: 8192,
  thinking: 'budget',
  budgets: true,
  efforts: [],
  silent: false,
  off: 'unsaid',
  sampling: true,
  samplingTogether: true,
  forcedTools: true,
  schemas: false,
}

/** What a model of this name takes. A Claude whose generation the name does not tell is taken for the newest. */
export function traitsOf(name: string): Traits {
  const model = name.toLowerCase()
  if (!model.includes('claude')) return STRANGER
  const generation = generationOf(model)
  const alwaysThinks = /fable|mythos/.test(model)
  const adaptive = generation >= 406 || alwaysThinks
  const silent = generation >= 407 || alwaysThinks
  return {
    maxTokens: maxTokensOf(model, generation),
    thinking: adaptive ? 'adaptive' : generation >= 307 ? 'budget' : 'never',
    budgets: !silent,
    efforts: silent ? EFFORTS : EFFORTS.filter((effort) => effort !== 'xhigh'),
    silent,
    off: alwaysThinks ? 'least' : offOf(model, generation),
    sampling: !silent,
    samplingTogether: generation < 405,
    forcedTools: !refusesForcedTools(model, generation),
    schemas: generation >= 401,
  }
}

/** 405 for 4.5. */
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
  if (generation < 500) return 'unsaid'
  if (generation < 505 || model.includes('haiku')) return 'disabled'
  return model.includes('sonnet') ? 'between_tools' : 'least'
}

function refusesForcedTools(model: string, generation: number): boolean {
  if (/fable|mythos/.test(model)) return generation > 500
  return generation >= 505 && !model.includes('haiku')
}
