/** Rules of the models behind Converse, derived from their names. */
import type { Reasoning } from '../../src/plugin.ts'
import { traitsOf as claudeTraitsOf } from '../anthropic/models.ts'
import { toSupportedSchema } from '../anthropic/schema.ts'
import { toThinking } from '../anthropic/thinking.ts'
import { effortLevels, isOff } from '../openai-compatible/reasoning.ts'

/** How a model gets a JSON schema: natively, as the input of a tool that it must call, or as text in the prompt. */
export const SCHEMAS = ['native', 'tool', 'prompt'] as const
/** A form of passing a JSON schema. */
export type SchemaForm = (typeof SCHEMAS)[number]

/** Sampling parameters in Converse's names. */
export type Sampling = 'temperature' | 'topP' | 'topK'

/** What a model accepts. */
export interface Traits {
  /** Where cache points are allowed. */
  readonly cache: 'nowhere' | 'messages' | 'everywhere'
  readonly schema: SchemaForm
  /** Reduces a schema to the keywords that the model supports. */
  readonly narrow: (schema: unknown) => unknown
  /** Reasoning comes with signatures and must be sent back unchanged. */
  readonly signsReasoning: boolean
  /** Tool results must be alone in their turn. */
  readonly resultsAlone: boolean
  /** System text is refused. */
  readonly noSystem: boolean
  /** The model can be forced to call a tool, while it does not reason where that excludes it. */
  readonly forcedTools: boolean
  /** Stop sequences need a visible character; otherwise any character. */
  readonly visibleStops: boolean
  /** Where the model's own answer has the stop sequence that ended it, as a JSON pointer. */
  readonly stopPath?: string
  /** The `top_k` parameter in the model's own form. */
  readonly topK: ((value: unknown) => object) | undefined
  /** The reasoning parameters in the model's own form. @param limit most tokens of the answer */
  readonly toReasoning: (reasoning: Reasoning, limit: number | undefined) => ReasoningRequest
  /** Sampling parameters that the model refuses. If there are several but not all, they are only refused together. */
  readonly refuses: (thinks: boolean) => readonly Sampling[]
}

/** Reasoning parameters for one request, and what follows from them. */
export interface ReasoningRequest {
  readonly fields: Readonly<Record<string, unknown>>
  readonly thinks: boolean
  /** The model cannot be forced to call a tool while it reasons. */
  readonly excludesForcedTools?: boolean
  /** The model refuses tool results unless the reasoning before their calls is sent back. */
  readonly needsPriorReasoning?: boolean
}

/** The members of requests without reasoning. */
export const NO_REASONING: ReasoningRequest = { fields: {}, thinks: false }

const ALL: readonly Sampling[] = ['temperature', 'topP', 'topK']

const PLAIN: Traits = {
  cache: 'nowhere',
  schema: 'prompt',
  narrow: (schema) => schema,
  signsReasoning: false,
  resultsAlone: false,
  noSystem: false,
  forcedTools: false,
  visibleStops: false,
  topK: undefined,
  toReasoning: () => NO_REASONING,
  refuses: () => [],
}

/** Models that accept a JSON schema natively (Bedrock user guide, "Structured output"). */
const NATIVE_SCHEMAS =
  /gpt-oss|qwen|deepseek\.v|kimi|minimax|gemma|nemotron|magistral|ministral|mistral-large-3|voxtral/
/** Claude models without prompt caching. */
const WITHOUT_CACHE = /claude-(v\d|instant|3-(opus|sonnet|haiku))/

/**
 * The rules of a model. @param model Amazon's name, with or without a region prefix; an ARN only if it contains the
 * name
 */
export function traitsOf(model: string): Traits {
  const name = model.toLowerCase()
  if (name.includes('claude')) return claude(name)
  if (name.includes('amazon.nova')) return nova(name.includes('nova-2'))
  if (name.includes('gpt-oss')) return { ...PLAIN, schema: 'native', toReasoning: effortReasoning }
  const plain = { ...PLAIN, forcedTools: name.includes('mistral') }
  if (/titan|mistral-7b|mixtral/.test(name)) return { ...plain, noSystem: true }
  return NATIVE_SCHEMAS.test(name) ? { ...plain, schema: 'native' } : plain
}

function claude(name: string): Traits {
  const base = claudeTraitsOf(name)
  // Bedrock does not offer structured output for Claude Opus 4.1.
  const schemas = base.schemas && !name.includes('opus-4-1')
  return {
    ...PLAIN,
    cache: WITHOUT_CACHE.test(name) ? 'nowhere' : 'everywhere',
    schema: schemas ? 'native' : 'tool',
    narrow: toSupportedSchema,
    signsReasoning: true,
    forcedTools: base.forcedTools,
    visibleStops: true,
    stopPath: '/stop_sequence',
    topK: (top_k) => ({ top_k }),
    toReasoning(reasoning, limit) {
      const most = Math.min(limit ?? Infinity, base.maxTokens)
      const { thinking, effort, on } = toThinking(reasoning, base, most, limit !== undefined)
      return {
        fields: { ...(thinking && { thinking }), ...(effort && { output_config: { effort } }) },
        thinks: on,
        excludesForcedTools: on,
        needsPriorReasoning: base.thinking === 'budget',
      }
    },
    refuses(thinks) {
      if (thinks || !base.sampling) return ALL
      return base.samplingTogether ? [] : ['topP']
    },
  }
}

function nova(second: boolean): Traits {
  return {
    ...PLAIN,
    cache: 'messages',
    schema: 'tool',
    resultsAlone: true,
    forcedTools: true,
    topK: (topK) => ({ inferenceConfig: { topK } }),
    toReasoning: second ? novaReasoning : () => NO_REASONING,
  }
}

function novaReasoning(reasoning: Reasoning, limit: number | undefined): ReasoningRequest {
  if (isOff(reasoning)) return { fields: { reasoningConfig: { type: 'disabled' } }, thinks: false }
  // The highest level refuses a token limit.
  const toEffort =
    limit === undefined ? effortLevels('low', 'medium', 'high') : effortLevels('low', 'medium')
  const { reasoning_effort: maxReasoningEffort = 'medium' } = toEffort(reasoning, '', limit)
  return { fields: { reasoningConfig: { type: 'enabled', maxReasoningEffort } }, thinks: true }
}

const lowToHigh = effortLevels('low', 'medium', 'high')

function effortReasoning(reasoning: Reasoning, limit: number | undefined): ReasoningRequest {
  return { fields: lowToHigh(reasoning, '', limit), thinks: true }
}
