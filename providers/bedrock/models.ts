/** What sets the models behind one API apart, told by their names. */
import type { Reasoning } from '../../src/plugin.ts'
import { traitsOf as claudeTraitsOf } from '../anthropic/models.ts'
import { toSupportedSchema } from '../anthropic/schema.ts'
import { toThinking } from '../anthropic/thinking.ts'
import { effortIn, isOff } from '../openai-compatible/reasoning.ts'

/** How a JSON schema is put to a model: as such, as the one tool it has to call, or in words. */
export const SCHEMAS = ['native', 'tool', 'prompt'] as const
export type SchemaForm = (typeof SCHEMAS)[number]

export type Sampling = 'temperature' | 'topP' | 'topK'

export interface Traits {
  /** Where cache points may stand. */
  readonly cache: 'nowhere' | 'messages' | 'everywhere'
  readonly schema: SchemaForm
  /** A schema in the part of the language that the model can be held to. */
  readonly narrow: (schema: unknown) => unknown
  /** Gives its reasoning out under a seal and wants it back unchanged. */
  readonly seals: boolean
  /** Refuses results of tools beside anything else in a message. */
  readonly resultsAlone: boolean
  /** Refuses system text. */
  readonly noSystem: boolean
  /** Can be made to call a tool. */
  readonly forcedTools: boolean
  /** `top_k` in the model's own words. */
  readonly topK: ((value: unknown) => object) | undefined
  /** @param limit the most tokens the answer may have */
  readonly ask: (reasoning: Reasoning, limit: number | undefined) => Asked
  /** Sampling that the model refuses: of several together, or, if it refuses all, each. */
  readonly refuses: (thinks: boolean) => readonly Sampling[]
}

/** A wish for reasoning in a model's own words. */
export interface Asked {
  readonly fields: Readonly<Record<string, unknown>>
  readonly thinks: boolean
  /** Cannot be made to call a tool meanwhile. */
  readonly decides?: boolean
  /** An answer that goes on after results has to begin with what was thought before them. */
  readonly strictly?: boolean
}

/** Not asked to reason. */
export const SILENT: Asked = { fields: {}, thinks: false }

const ALL: readonly Sampling[] = ['temperature', 'topP', 'topK']

const PLAIN: Traits = {
  cache: 'nowhere',
  schema: 'prompt',
  narrow: (schema) => schema,
  seals: false,
  resultsAlone: false,
  noSystem: false,
  forcedTools: true,
  topK: undefined,
  ask: () => SILENT,
  refuses: () => [],
}

/** Models of other makers that take a JSON schema as such (Bedrock user guide, structured output). */
const HELD_TO_SCHEMAS =
  /gpt-oss|qwen|deepseek\.v|kimi|minimax|gemma|nemotron|magistral|ministral|mistral-large-3|voxtral/
/** Claude models that are older than caching. */
const WITHOUT_CACHE = /claude-(v\d|instant|3-(opus|sonnet|haiku))/

/** @param model of Amazon's names, with or without a region before it; an ARN only if the name is in it */
export function traitsOf(model: string): Traits {
  const name = model.toLowerCase()
  if (name.includes('claude')) return claude(name)
  if (name.includes('amazon.nova')) return nova(name.includes('nova-2'))
  if (name.includes('gpt-oss')) return { ...PLAIN, schema: 'native', ask: askByEffort }
  if (/titan|mistral-7b|mixtral/.test(name)) return { ...PLAIN, noSystem: true }
  return HELD_TO_SCHEMAS.test(name) ? { ...PLAIN, schema: 'native' } : PLAIN
}

function claude(name: string): Traits {
  const known = claudeTraitsOf(name)
  // Anthropic holds it to schemas, Amazon does not.
  const schemas = known.schemas && !name.includes('opus-4-1')
  return {
    ...PLAIN,
    cache: WITHOUT_CACHE.test(name) ? 'nowhere' : 'everywhere',
    schema: schemas ? 'native' : 'tool',
    narrow: toSupportedSchema,
    seals: true,
    forcedTools: known.forcedTools,
    topK: (top_k) => ({ top_k }),
    ask(reasoning, limit) {
      const most = Math.min(limit ?? Infinity, known.maxTokens)
      const { thinking, effort, on } = toThinking(reasoning, known, most, limit !== undefined)
      return {
        fields: { ...(thinking && { thinking }), ...(effort && { output_config: { effort } }) },
        thinks: on,
        decides: thinking?.type === 'enabled',
        strictly: known.thinking === 'budget',
      }
    },
    refuses(thinks) {
      if (thinks || !known.sampling) return ALL
      return known.samplingTogether ? [] : ['topP']
    },
  }
}

function nova(second: boolean): Traits {
  return {
    ...PLAIN,
    cache: 'messages',
    schema: 'tool',
    resultsAlone: true,
    topK: (topK) => ({ inferenceConfig: { topK } }),
    ask: second ? askNova : () => SILENT,
  }
}

function askNova(reasoning: Reasoning, limit: number | undefined): Asked {
  if (isOff(reasoning)) return { fields: { reasoningConfig: { type: 'disabled' } }, thinks: false }
  // The strongest level takes no limit beside it.
  const ask = limit === undefined ? effortIn('low', 'medium', 'high') : effortIn('low', 'medium')
  const { reasoning_effort: maxReasoningEffort = 'medium' } = ask(reasoning, '', limit)
  return { fields: { reasoningConfig: { type: 'enabled', maxReasoningEffort } }, thinks: true }
}

const lowToHigh = effortIn('low', 'medium', 'high')

function askByEffort(reasoning: Reasoning, limit: number | undefined): Asked {
  return { fields: lowToHigh(reasoning, '', limit), thinks: true }
}
