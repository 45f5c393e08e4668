/** Prices for each token here, by LiteLLM's names. */
export const TOKEN_PRICES: Readonly<Record<string, string>> = {
  input_cost_per_token: 'prompt',
  output_cost_per_token: 'completion',
  cache_read_input_token_cost: 'input_cache_read',
  cache_creation_input_token_cost: 'input_cache_write',
  cache_creation_input_token_cost_above_1hr: 'input_cache_write_1h',
  output_cost_per_reasoning_token: 'reasoning',
  input_cost_per_audio_token: 'audio',
  output_cost_per_audio_token: 'audio_output',
  cache_read_input_audio_token_cost: 'audio_cache_read',
  input_cost_per_image_token: 'image_token',
  output_cost_per_image_token: 'image_output',
  cache_read_input_image_token_cost: 'image_cache_read',
}

const BY_TOKEN = ['prompt', 'completion', 'audio', 'image_output'] as const
const BY_UNIT = ['image', 'second', 'page'] as const

/**
 * Prices that the list has a second time, in another unit. A vendor bills one of them, but usage has both quantities, and the
 * call would be charged twice: the price by the token counts, and with a fee for each request that for its searches does not.
 * @param isFree whether the price of a name is absent or 0
 */
export function secondPrices(isFree: (name: string) => boolean): string[] {
  const units = BY_TOKEN.every(isFree) ? [] : BY_UNIT.filter((name) => !isFree(name))
  return isFree('request') || isFree('web_search') ? units : [...units, 'web_search']
}
