/** The models as clients read them: the entry of one, and the list. */
import type { Pricing } from '../money/prices.ts'
import type { Modality } from './entry.ts'

/** What an entry tells of a model. */
interface Listed {
  readonly id: string
  readonly vendor: string
  readonly modality: Modality
  readonly aliases: readonly string[]
  readonly freeTier: boolean
  readonly pricing: Pricing
  /** They are undefined where the vendor does not state them. */
  readonly capabilities: ReadonlySet<string> | undefined
  /** What the price list says of it: its capabilities are shown where the entry says nothing. */
  readonly listed?: { readonly capabilities?: readonly string[] | undefined }
  /** Seconds since epoch; absent where it is not known. */
  readonly created?: number
  readonly name?: string
  readonly description?: string
  /** Tokens. */
  readonly contextLength?: number
  /** Tokens. */
  readonly maxOutputTokens?: number
  /** A day, after which the vendor may no longer offer it. */
  readonly deprecatedOn?: string
  /** Parameters that apply where a request does not say them. */
  readonly defaults?: object
}

/** What goes into a model and comes out of it, in OpenRouter's words. */
const FLOWS: Readonly<Record<Modality, readonly [input: readonly string[], output: string]>> = {
  chat: [['text'], 'text'],
  image: [['text'], 'image'],
  ocr: [['file', 'image'], 'text'],
  speech: [['text'], 'speech'],
  transcription: [['audio'], 'transcription'],
  embedding: [['text'], 'embeddings'],
  rerank: [['text'], 'rerank'],
  moderation: [['text'], 'decisions'],
}

/** Inputs that a chat model takes beside text, by capability; an image model takes images as references. */
const INPUTS: readonly (readonly [capability: string, input: string])[] = [
  ['VISION', 'image'],
  ['FILE_INPUT', 'file'],
  ['AUDIO_INPUT', 'audio'],
  ['REFERENCES', 'image'],
]

/** Parameters that every chat model takes: those that a vendor lacks are left out. */
const PARAMETERS = [
  'max_tokens',
  'max_completion_tokens',
  'temperature',
  'top_p',
  'top_k',
  'frequency_penalty',
  'presence_penalty',
  'stop',
  'seed',
]
/** Parameters that need a capability. */
const BY_CAPABILITY: readonly (readonly [capability: string, parameters: readonly string[]])[] = [
  ['TOOLS', ['tools', 'tool_choice', 'parallel_tool_calls']],
  ['STRUCTURED_OUTPUTS', ['response_format', 'structured_outputs']],
  ['REASONING', ['reasoning', 'reasoning_effort', 'include_reasoning']],
  ['LOGPROBS', ['logprobs', 'top_logprobs']],
]

/**
 * A model's entry, with the members of the clients of OpenAI, Anthropic and OpenRouter: each ignores what it does not know.
 * Undefined members are left out of its JSON.
 */
export function entryOf(model: Listed): object {
  const { id, vendor, aliases, created = 0, name = id, contextLength, maxOutputTokens } = model
  const shown = model.listed?.capabilities
  const capabilities = model.capabilities ?? (shown && new Set(shown))
  const [inputs, output] = FLOWS[model.modality]
  const further = INPUTS.filter(([capability]) => capabilities?.has(capability))
  const input_modalities = [...new Set([...inputs, ...further.map(([, input]) => input)])]
  const context_length = contextLength ?? null
  return {
    id,
    object: 'model',
    created,
    owned_by: vendor,
    modality: model.modality,
    free_tier: model.freeTier,
    aliases: aliases.length > 0 ? aliases : undefined,
    pricing: model.pricing,
    capabilities: [...(capabilities ?? [])],
    name,
    description: model.description,
    context_length,
    max_output_tokens: maxOutputTokens,
    type: 'model',
    display_name: name,
    created_at: new Date(created * 1000).toISOString().replace('.000Z', 'Z'),
    max_input_tokens: contextLength,
    max_tokens: maxOutputTokens,
    canonical_slug: id,
    architecture: {
      modality: `${input_modalities.join('+')}->${output}`,
      input_modalities,
      output_modalities: [output],
      tokenizer: 'Other',
      instruct_type: null,
    },
    top_provider: {
      context_length,
      max_completion_tokens: maxOutputTokens ?? null,
      is_moderated: false,
    },
    supported_parameters: parametersOf(model.modality, capabilities),
    per_request_limits: null,
    default_parameters: model.defaults ?? null,
    supported_voices: null,
    links: { details: `/v1/models/${id}` },
    expiration_date: model.deprecatedOn ?? null,
  }
}

/** Unknown capabilities give all that the gateway accepts. */
function parametersOf(
  modality: Modality,
  capabilities: ReadonlySet<string> | undefined,
): readonly string[] {
  if (modality !== 'chat') return []
  const able = BY_CAPABILITY.filter(([one]) => !capabilities || capabilities.has(one))
  return [...PARAMETERS, ...able.flatMap(([, parameters]) => parameters)]
}

/** The list of these models as JSON text. It is always whole: there is never a further page. */
export function listOf(models: readonly Listed[]): string {
  return JSON.stringify({
    object: 'list',
    data: models.map(entryOf),
    has_more: false,
    first_id: models[0]?.id ?? null,
    last_id: models.at(-1)?.id ?? null,
    links: { next: null },
    total_count: models.length,
  })
}
