/** Complete public price lists in the form of each source, made of nothing but a seed: thousands of models with every member. */

/** A price of so many 10⁻⁹ USD, in a notation that public lists use. */
function perToken(nanos: number): string {
  return nanos % 3 === 0 ? `${nanos}e-9` : nanos % 3 === 1 ? `${nanos}E-09` : fraction(nanos, 9)
}

/** 10^-digits of a whole number, without a floating-point number. */
function fraction(value: number, digits: number): string {
  const text = String(value).padStart(digits + 1, '0')
  return `${text.slice(0, -digits)}.${text.slice(-digits)}`
}

const json = (members: Readonly<Record<string, string>>) =>
  `{${Object.entries(members)
    .map(([name, text]) => `${JSON.stringify(name)}:${text}`)
    .join(',')}}`

const VENDORS = ['openai', 'anthropic', 'gemini', 'groq', 'unknown_vendor'] as const

/** LiteLLM's map with so many models. @param change replaces members of a model by its key */
export function litellmList(
  count: number,
  change: Readonly<Record<string, Readonly<Record<string, string>>>> = {},
): string {
  const rows: Record<string, string> = {
    sample_spec: json({ litellm_provider: '"one of …"', input_cost_per_token: '0.0' }),
  }
  for (let i = 0; i < count; i++) {
    const vendor = VENDORS[i % VENDORS.length]!
    const key = ['openai', 'anthropic'].includes(vendor) ? `model-${i}` : `${vendor}/model-${i}`
    rows[key] = json({
      litellm_provider: JSON.stringify(vendor),
      mode: '"chat"',
      max_input_tokens: '400000',
      max_output_tokens: '32000',
      input_cost_per_token: perToken(100 + i),
      output_cost_per_token: perToken(1000 + 2 * i),
      cache_read_input_token_cost: perToken(10 + i),
      cache_creation_input_token_cost: perToken(125 + i),
      cache_creation_input_token_cost_above_1hr: perToken(200 + i),
      input_cost_per_token_above_200k_tokens: perToken(200 + 2 * i),
      output_cost_per_token_above_200k_tokens: perToken(1500 + 4 * i),
      input_cost_per_token_batches: perToken(50 + i),
      search_context_cost_per_query: json({
        search_context_size_low: '0.01',
        search_context_size_high: '0.025',
      }),
      supports_function_calling: 'true',
      supports_vision: i % 2 ? 'true' : 'false',
      ...change[key],
    })
  }
  return json(rows)
}

/** The list of models.dev with so many models. */
export function modelsDevList(count: number): string {
  const vendors = ['openai', 'anthropic', 'google', 'groq', 'unknown-vendor'].map((vendor, v) => {
    const models: Record<string, string> = {}
    for (let i = v; i < count; i += 5) {
      models[`model-${i}`] = json({
        id: `"model-${i}"`,
        name: `"Model ${i}"`,
        tool_call: 'true',
        reasoning: i % 2 ? 'true' : 'false',
        modalities: json({ input: '["text","image"]', output: '["text"]' }),
        limit: json({ context: '400000', output: '32000' }),
        cost: json({
          input: fraction(100 + i, 3),
          output: fraction(1000 + 2 * i, 3),
          cache_read: fraction(10 + i, 3),
          tiers: `[${json({ input: fraction(200 + 2 * i, 3), output: fraction(1500 + 4 * i, 3), tier: '{"type":"context","size":200001}' })}]`,
          context_over_200k: json({
            input: fraction(200 + 2 * i, 3),
            output: fraction(1500 + 4 * i, 3),
          }),
        }),
      })
    }
    return [vendor, json({ id: JSON.stringify(vendor), name: '"V"', models: json(models) })]
  })
  return json(Object.fromEntries(vendors))
}

/** The models of OpenRouter, so many of them. */
export function openrouterList(count: number): string {
  const rows = Array.from({ length: count }, (_, i) =>
    json({
      id: `"vendor/model-${i}"`,
      name: `"Model ${i}"`,
      created: '1700000000',
      context_length: '400000',
      architecture: '{"input_modalities":["text","file"],"output_modalities":["text"]}',
      pricing: json({
        prompt: `"${fraction(100 + i, 9)}"`,
        completion: `"${fraction(1000 + 2 * i, 9)}"`,
        input_cache_read: `"${fraction(10 + i, 9)}"`,
        request: '"0"',
        image: '"0.001"',
        internal_reasoning: '"0"',
        overrides: `[${json({ min_prompt_tokens: '200000', prompt: `"${fraction(200 + 2 * i, 9)}"`, completion: `"${fraction(1500 + 4 * i, 9)}"` })}]`,
      }),
      top_provider: '{"max_completion_tokens":32000}',
      supported_parameters: '["tools","structured_outputs"]',
    }),
  )
  return `{"data":[${rows.join(',')}]}`
}
