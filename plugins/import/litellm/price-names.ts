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
