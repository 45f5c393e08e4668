/** The models as clients read them: the entry of one, and the list. */
import type { Pricing } from '../money/prices.ts'

/** What an entry tells of a model. */
interface Listed {
  readonly id: string
  readonly vendor: string
  readonly modality: string
  readonly aliases: readonly string[]
  readonly freeTier: boolean
  readonly pricing: Pricing
  readonly capabilities: Iterable<string>
  /** Seconds since epoch. */
  readonly created: number
  readonly name: string | undefined
  readonly description: string | undefined
  /** Tokens. */
  readonly contextLength: number | undefined
  /** Tokens. */
  readonly maxOutputTokens: number | undefined
}

/**
 * A model's entry, with the members of OpenAI's clients and those of Anthropic's: each ignores what it does not know.
 * Undefined members are left out of its JSON.
 */
export function entryOf(model: Listed): object {
  const { id, vendor, aliases, created, name, contextLength, maxOutputTokens } = model
  return {
    id,
    object: 'model',
    created,
    owned_by: vendor,
    modality: model.modality,
    free_tier: model.freeTier,
    aliases: aliases.length > 0 ? aliases : undefined,
    pricing: model.pricing,
    capabilities: [...model.capabilities],
    name,
    description: model.description,
    context_length: contextLength,
    max_output_tokens: maxOutputTokens,
    type: 'model',
    display_name: name ?? id,
    created_at: new Date(created * 1000).toISOString().replace('.000Z', 'Z'),
    max_input_tokens: contextLength,
    max_tokens: maxOutputTokens,
  }
}

/**
 * The list of these models as JSON text. It is always whole: there is never a further page.
 * @param models each with its entry
 */
export function listOf(
  models: readonly { readonly id: string; readonly listing: object }[],
): string {
  return JSON.stringify({
    object: 'list',
    data: models.map(({ listing }) => listing),
    has_more: false,
    first_id: models[0]?.id ?? null,
    last_id: models.at(-1)?.id ?? null,
  })
}
