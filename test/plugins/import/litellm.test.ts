import { describe, expect, it } from 'vitest'
import litellm from '../../../plugins/import/litellm.ts'
import { hashSecret } from '../../../src/accounts/secrets.ts'
import { readJson, readTable, readYaml } from '../../../src/import/source.ts'
import type { Installation } from '../../../src/plugin.ts'

const PRICE = { input_cost_per_token: '1e-6' }

/** Models of price lists. */
const LISTED = ['openai/gpt-4o', 'azure/gpt-4o', 'anthropic/claude-sonnet-5', 'openai/gpt-4o-mini']

function read(config: unknown, more: Partial<Installation> = {}) {
  const given = { tables: new Map(), accept: new Set<string>(), listed: new Set(LISTED) }
  return litellm.read({ config, ...given, ...more })
}

function mapped(models: readonly object[], sections: object = {}) {
  const text = JSON.stringify({ model_list: models, ...sections })
  const { config, models: byId, env, notes, needs } = read(readYaml(text))
  const providers = config.providers as Record<string, { use: string; options: object }>
  return {
    config: config as Record<string, any>,
    providers,
    models: Object.fromEntries(byId),
    env: Object.fromEntries(env),
    needs,
    notes: notes.map(({ harm, where, message }) => `${harm} ${where}: ${message}`),
  }
}

/** One model with these parameters. */
function one(params: object, more: object = {}) {
  return mapped([{ model_name: 'm', litellm_params: { ...PRICE, ...params }, ...more }])
}

describe('providers', () => {
  it.each([
    ['gpt-4o', 'openai/m', 'openai', 'gpt-4o', {}],
    ['claude-sonnet-5', 'anthropic/m', 'anthropic', 'claude-sonnet-5', {}],
    ['gemini/gemini-3', 'google/m', 'google', 'gemini-3', {}],
    ['azure_ai/grok-4', 'azure-ai/m', 'azure', 'grok-4', { surface: 'models' }],
    ['bedrock/converse/us.x.y:0', 'bedrock/m', 'bedrock', 'us.x.y:0', { credentials: 'chain' }],
    ['bedrock/arn:aws:bedrock:x/y', 'bedrock/m', 'bedrock', 'arn:aws:bedrock:x/y', {}],
    ['codestral/codestral-latest', 'codestral/m', 'mistral', 'codestral-latest', {}],
    ['dashscope/qwen', 'alibaba/m', 'alibaba', 'qwen', {}],
    ['openrouter/a/b', 'openrouter/m', 'openrouter', 'a/b', {}],
    ['fireworks_ai/accounts/x/y', 'fireworks/m', 'fireworks', 'accounts/x/y', {}],
    ['cohere_chat/command-a', 'cohere/m', 'cohere', 'command-a', {}],
    ['nvidia_nim/nvidia/x', 'nvidia/m', 'nvidia', 'nvidia/x', {}],
    ['jina_ai/reranker', 'jina/m', 'jina', 'reranker', {}],
    ['ollama_chat/l', 'ollama/m', 'ollama', 'l', {}],
    ['hosted_vllm/l', 'vllm/m', 'vllm', 'l', { baseURL: '${HOSTED_VLLM_API_BASE}' }],
    [
      'llamafile/l',
      'llamacpp/m',
      'llamacpp',
      'l',
      { baseURL: '${LLAMAFILE_API_BASE:-http://127.0.0.1:8080/v1}' },
    ],
    ['deepgram/nova-3', 'deepgram/m', 'deepgram', 'nova-3', {}],
    ['vertex_ai/claude-x', 'vertex/m', 'anthropic', 'claude-x', {}],
    ['vertex_ai/gemini-3', 'vertex/m', 'google', 'gemini-3', {}],
    ['vertex_ai/meta/llama-4', 'vertex/m', 'openai-compatible', 'meta/llama-4', {}],
  ])('of %s', (model, id, use, name, options) => {
    const { models, providers } = one({ model })
    expect(Object.keys(models)).toEqual([id])
    const [provider] = Object.keys(providers)
    expect(models[id]!.deployments).toEqual([{ provider, model: name }])
    expect(providers[provider!]).toMatchObject({ use })
    expect(providers[provider!]!.options ?? {}).toMatchObject(options)
  })

  it.each([
    ['openai/responses/gpt-5.4-pro', 'openai/m', 'gpt-5.4-pro'],
    ['azure/responses/o3', 'azure/m', 'o3'],
  ])('are asked by the Responses API for %s', (model, id, name) => {
    expect(one({ model }).models[id]!.deployments).toEqual([
      { provider: id.split('/')[0], model: name, options: { api: 'responses' } },
    ])
  })

  it('read the variable of the vendor where the source names no key', () => {
    const { providers, needs } = one({ model: 'groq/x' })
    expect(providers).toEqual({ groq: { use: 'groq' } })
    expect(needs).toEqual(['GROQ_API_KEY'])
    expect(one({ model: 'ollama/l', api_base: 'http://box:11434' }).providers).toEqual({
      ollama: { use: 'ollama', options: { baseURL: 'http://box:11434/v1' } },
    })
  })

  it('are one for each vendor, address and key', () => {
    const params = [
      { model: 'openai/a', api_key: 'os.environ/A' },
      { model: 'openai/b', api_key: 'os.environ/A' },
      { model: 'openai/c', api_key: 'os.environ/B' },
      { model: 'openai/d', api_base: 'https://proxy.example/v1', api_key: 'os.environ/A' },
      { model: 'openai/e', api_base: 'https://eu.api.openai.com/v1', api_key: 'os.environ/A' },
    ]
    const { providers } = mapped(
      params.map((own, index) => ({
        model_name: `m${index}`,
        litellm_params: { ...PRICE, ...own },
      })),
    )
    expect(Object.entries(providers).map(([name, { use }]) => [name, use])).toEqual([
      ['openai', 'openai'],
      ['openai-2', 'openai'],
      ['openai-compatible', 'openai-compatible'],
      ['openai-3', 'openai'],
    ])
  })

  it('have secrets by reference alone', () => {
    const { providers, env, config, models } = one({
      model: 'openai/x',
      api_base: 'https://user:password@proxy.example/v1',
      api_key: 'sk-literal',
      extra_headers: {
        Authorization: 'sk-literal',
        'X-Plain': 'os.environ/PLAIN',
        'X-Other': 'o${x}',
      },
    })
    expect(Object.values(providers)[0]!.options).toEqual({
      headers: {
        Authorization: '${LITELLM_SECRET_1}',
        'X-Plain': '${PLAIN}',
        'X-Other': '${LITELLM_SECRET_2}',
      },
      baseURL: '${LITELLM_SECRET_3}',
      apiKey: '${LITELLM_SECRET_1}',
    })
    expect(env).toEqual({
      LITELLM_SECRET_1: 'sk-literal',
      LITELLM_SECRET_2: 'o${x}',
      LITELLM_SECRET_3: 'https://user:password@proxy.example/v1',
    })
    expect(JSON.stringify([config, models])).not.toMatch(/literal|password/)
  })

  it('log in to clouds as the source does', () => {
    const aws = { model: 'bedrock/x', aws_region_name: 'eu-west-1' }
    const role = {
      aws_profile_name: 'p',
      aws_role_name: 'arn:aws:iam::1:role/r',
      aws_session_name: 's',
      aws_external_id: 'e-1',
    }
    expect(one({ ...aws, ...role }).providers.bedrock!.options).toEqual({
      region: 'eu-west-1',
      credentials: 'chain',
      profile: 'p',
      roleArn: 'arn:aws:iam::1:role/r',
      sessionName: 's',
      externalId: '${LITELLM_SECRET_1}',
    })
    const keys = { aws_access_key_id: 'A', aws_secret_access_key: 'S', aws_session_token: 'T' }
    const { providers, notes } = one({ ...aws, ...keys, aws_profile_name: 'p' })
    expect(providers.bedrock!.options).toEqual({
      region: 'eu-west-1',
      accessKeyId: '${LITELLM_SECRET_1}',
      secretAccessKey: '${LITELLM_SECRET_2}',
      sessionToken: '${LITELLM_SECRET_3}',
    })
    expect(notes).toEqual([
      'lost model_list[0].litellm_params.aws_profile_name: the plugin has no such setting',
    ])
    const vertex = { model: 'vertex_ai/gemini-3', vertex_project: 'p', vertex_location: 'us' }
    for (const [credentials, expected] of [
      ['/etc/sa.json', '/etc/sa.json'],
      ['os.environ/SA', '${SA}'],
      ['{"private_key":"k"}', '${LITELLM_SECRET_1}'],
      [{ private_key: 'k' }, '${LITELLM_SECRET_1}'],
    ] as const) {
      const { options } = one({ ...vertex, vertex_credentials: credentials }).providers.vertex!
      expect(options).toEqual({ vertex: { project: 'p', location: 'us', credentials: expected } })
    }
  })

  it.each([
    ['petals/bloom', 'the vendor "petals" is not known here, and there is no api_base'],
    ['my-model', 'its vendor is not known, because its name has no prefix'],
    ['bedrock/invoke/x', 'the route bedrock/invoke has no counterpart'],
    [
      'vertex_ai/mistral-large@2411',
      'this model of a partner on Vertex AI has an API that is not spoken here',
    ],
    ['openai_like/x', 'the vendor "openai_like" is not known here, and there is no api_base'],
    ['', 'it names no model'],
  ])('are not made of %s: the model waits, not enabled', (model, reason) => {
    const { notes, models } = one({ model })
    expect(notes).toEqual([`unserved model_list[0]: ${reason}`])
    const [[id, entry] = []] = Object.entries(models)
    expect(id).toMatch(/^[a-z_-]+\/m$/)
    expect(entry).toMatchObject({ enabled: false })
  })

  it('of an unknown vendor with an address are a guess', () => {
    const { models, providers, notes } = one({
      model: 'litellm_proxy/x',
      api_base: 'https://other.example/v1',
    })
    expect(providers).toEqual({
      litellm_proxy: { use: 'openai-compatible', options: { baseURL: 'https://other.example/v1' } },
    })
    expect(Object.keys(models)).toEqual(['litellm_proxy/m'])
    expect(notes).toHaveLength(1)
    expect(notes[0]).toMatch(/^differs model_list\[0\]\.litellm_params\.model: .+: check it$/)
  })
})

describe('models', () => {
  it('keep the text of every price', () => {
    const { models, notes } = one({
      model: 'openai/x',
      input_cost_per_token: 7.5e-7,
      output_cost_per_token: '0.000000000000000001',
      cache_read_input_token_cost: 0,
      input_cost_per_token_above_128k_tokens: 1.5e-6,
      output_cost_per_token_above_272k_tokens: 2e-6,
      input_cost_per_token_priority: 1e-6,
      output_cost_per_reasoning_token: '1.0000000000000000001e-6',
    })
    expect(models['openai/m']!.pricing).toEqual({
      prompt: '0.00000075',
      completion: '0.000000000000000001',
      input_cache_read: '0',
      overrides: [
        { min_prompt_tokens: 128_001, prompt: '0.0000015' },
        { min_prompt_tokens: 272_001, completion: '0.000002' },
      ],
    })
    expect(notes).toEqual([
      'differs model_list[0].input_cost_per_token_priority: a price that has no counterpart',
      'differs model_list[0].output_cost_per_reasoning_token: not a number of at most 18 fractional digits that is written out',
    ])
  })

  it('have prices of their kind only', () => {
    const pricing = (members: object, mode?: string) => {
      const { models, notes } = mapped([
        {
          model_name: 'm',
          litellm_params: { model: 'openai/m', ...members },
          model_info: mode && { mode },
        },
      ])
      return [models['openai/m']!.pricing, notes.map((note) => note.split(': ').at(-1))]
    }
    expect(pricing({ input_cost_per_second: 0.1 })).toEqual([{ second: '0.1' }, []])
    expect(pricing({ output_cost_per_image: 0.04 }, 'image_generation')[0]).toEqual({
      image: '0.04',
    })
    expect(pricing({ input_cost_per_token: 1e-6, input_cost_per_image: 0.01 })).toEqual([
      { prompt: '0.000001' },
      ['chat models have no such price'],
    ])
    expect(pricing({ input_cost_per_character: 1e-6 }, 'chat')).toEqual([
      undefined,
      ['chat models have no such price'],
    ])
    const both = { input_cost_per_image: 0.01, output_cost_per_image: 0.04 }
    expect(pricing(both, 'image_generation')).toEqual([
      { image: '0.04' },
      ['output_cost_per_image counts'],
    ])
    const same = { output_cost_per_image: 0.04, input_cost_per_image: 0.04 }
    expect(pricing(same, 'image_generation')).toEqual([{ image: '0.04' }, []])
  })

  it.each([
    ['embedding', { input_cost_per_token: 1e-7 }, { prompt: '0.0000001' }],
    ['rerank', { input_cost_per_query: 0.002 }, { search_unit: '0.002' }],
    ['moderation', { input_cost_per_token: 0 }, { prompt: '0' }],
  ])('of the mode %s have an endpoint here', (mode, prices, pricing) => {
    const litellm_params = { model: 'openai/m', ...prices }
    const { models, notes } = mapped([{ model_name: 'm', litellm_params, model_info: { mode } }])
    expect(models['openai/m']).toMatchObject({ modality: mode, pricing })
    expect(notes).toEqual([])
  })

  it('read YAML numbers from their source text', () => {
    const source = readYaml(
      'a: 1.10e-06\nb: {c: .5, d: [0.30000000000000004, 12]}\ne: "7"\nf: 1_000\n',
    )
    expect(source).toEqual({
      a: '1.10e-06',
      b: { c: '.5', d: ['0.30000000000000004', '12'] },
      e: '7',
      f: '1_000',
    })
    expect(readJson('{"a":1.10e-06,"b":[3]}')).toEqual({ a: '1.10e-06', b: ['3'] })
  })

  it('take no price from a float', () => {
    const { notes, models } = read(
      readYaml(`model_list:
  - { model_name: a, litellm_params: { model: openai/a, input_cost_per_token: &price 1e-6 } }
  - { model_name: b, litellm_params: { model: openai/b, input_cost_per_token: *price } }
`),
    )
    expect(models.get('openai/a')!.pricing).toEqual({ prompt: '0.000001' })
    expect(models.get('openai/b')!.pricing).toBeUndefined()
    expect(notes.map(({ where }) => where)).toEqual(['model_list[1].input_cost_per_token'])
  })

  it('without a price are priced from the price list', () => {
    const { models } = mapped([
      { model_name: 'sonnet', litellm_params: { model: 'anthropic/claude-sonnet-5' } },
      { model_name: 'openai/gpt-4o', litellm_params: { model: 'openai/gpt-4o' } },
      {
        model_name: 'azure',
        litellm_params: { model: 'azure/my-deployment' },
        model_info: { base_model: 'azure/gpt-4o' },
      },
      { model_name: 'azure/gpt-4o-mini', litellm_params: { model: 'azure/gpt-4o-mini' } },
      { model_name: 'own', litellm_params: { model: 'azure/own' } },
    ])
    expect(
      Object.entries(models).map(([id, entry]) => [id, entry.pricing, entry.price_of]),
    ).toEqual([
      ['anthropic/sonnet', undefined, 'anthropic/claude-sonnet-5'],
      ['openai/gpt-4o', undefined, undefined],
      ['azure/azure', undefined, 'azure/gpt-4o'],
      ['azure/gpt-4o-mini', undefined, 'openai/gpt-4o-mini'],
      ['azure/own', undefined, undefined],
    ])
  })

  it('on a server of the operator cost nothing, unless a price is written', () => {
    const { models, notes } = mapped([
      { model_name: 'l', litellm_params: { model: 'ollama/l' } },
      { model_name: 'e', litellm_params: { model: 'ollama/e' }, model_info: { mode: 'embedding' } },
      { model_name: 'p', litellm_params: { model: 'ollama/p', ...PRICE } },
    ])
    expect(Object.values(models).map(({ pricing }) => pricing)).toEqual([
      { prompt: '0', completion: '0' },
      { prompt: '0' },
      { prompt: '0.000001' },
    ])
    expect(notes.filter((note) => note.startsWith('differs'))).toHaveLength(2)
  })

  it('of a wildcard are those of its vendor', () => {
    const { models, notes, config } = mapped([
      { model_name: 'openai/*', litellm_params: { model: 'openai/*' } },
      { model_name: 'anthropic/claude-*', litellm_params: { model: 'anthropic/claude-*' } },
      { model_name: 'gemini/*', litellm_params: { model: 'gemini/*' } },
    ])
    expect(models).toEqual({
      'openai/*': { deployments: [{ provider: 'openai' }] },
      'google/*': { deployments: [{ provider: 'google' }] },
      'anthropic/claude-*': {
        enabled: false,
        deployments: [{ provider: 'anthropic', model: 'claude-*' }],
      },
    })
    expect(notes.map((note) => note.split(':')[0])).toEqual([
      'unserved model_list[1]',
      'differs model_list[2]',
    ])
    expect(config.extends).toBeUndefined()
    const open = mapped([{ model_name: '*', litellm_params: { model: '*' } }])
    expect([open.config.extends, open.models]).toEqual(['starter', {}])
    expect(open.notes).toHaveLength(1)
    expect(open.notes[0]).toMatch(/^wider model_list\[0\]/)
    const all = mapped([{ model_name: '*', litellm_params: { model: 'openai/*' } }])
    expect(Object.keys(all.models)).toEqual(['openai/*'])
  })

  it('of one team are not served to all', () => {
    const { models, notes } = one({ model: 'openai/x' }, { model_info: { team_id: 'red' } })
    expect(models['openai/m']).toMatchObject({ enabled: false })
    expect(notes[0]).toMatch(/^unserved model_list\[0\]: it is a model of one team/)
  })

  it('have an id that no other name of the source has', () => {
    const params = (model: string) => ({ litellm_params: { model, ...PRICE } })
    const { models } = mapped([
      { model_name: 'gpt-4o', ...params('openai/whisper-1') },
      { model_name: 'openai/gpt-4o', ...params('openai/gpt-4o') },
    ])
    expect(
      Object.entries(models).map(([id, { aliases, deployments }]) => [
        id,
        aliases,
        deployments![0]!.model,
      ]),
    ).toEqual([
      ['openai/gpt-4o-2', ['gpt-4o'], 'whisper-1'],
      ['openai/gpt-4o', undefined, 'gpt-4o'],
    ])
  })

  it('have a name of their own each', () => {
    const params = (model: string) => ({ model, ...PRICE })
    const { models, notes } = mapped(
      [
        { model_name: 'openai/x', litellm_params: params('openai/x') },
        { model_name: 'x', litellm_params: params('openai/y') },
        { model_name: 'x', litellm_params: params('openai/y') },
        { model_name: 'two words', litellm_params: params('openai/z') },
        { model_name: 'user', litellm_params: params('openai/u') },
        { litellm_params: params('openai/v') },
      ],
      {
        router_settings: { model_group_alias: { y: { model: 'x', hidden: true }, x: 'openai/x' } },
      },
    )
    expect(models['openai/x-2']).toMatchObject({ aliases: ['x', 'y'] })
    expect(models['openai/two-words']).toMatchObject({ enabled: false })
    expect(notes).toEqual([
      'unserved model_list[5]: it has no model_name',
      'none model_list[2]: the same model of the same provider is there already',
      'unserved model_list[3]: its name has white space or more than 120 characters',
      'differs model_list[4]: clients cannot use the name "user": "user" is an address of the API',
      'differs router_settings.model_group_alias.x: it is the name of a model as well, which counts',
    ])
  })
})

describe('sections', () => {
  it('become settings where there are some', () => {
    const { config, notes } = mapped([], {
      router_settings: { num_retries: 20, cooldown_time: 0, routing_strategy: 'simple-shuffle' },
      litellm_settings: { request_timeout: 600, num_retries: 3, drop_params: true, cache: false },
      general_settings: { master_key: 'sk-master', alerting: ['slack'] },
      guardrails: [{ guardrail_name: 'x' }],
    })
    expect(config.routing).toEqual({ attempts: 10, cooldown: 0 })
    expect(config.server).toEqual({ requestTimeout: 600 })
    expect(config.admin).toEqual({ token: '${SLUICEGATE_ADMIN_TOKEN}' })
    expect(notes).toEqual([
      'differs router_settings.num_retries: cut to 10 attempts',
      'lost litellm_settings.num_retries: not mapped',
      'elsewhere general_settings.master_key: not taken over: the admin token in .env is a new one',
      'elsewhere general_settings.alerting: set "alerts", and a sink "webhook" that sends them',
      'wider guardrails[0]: this guardrail is not here',
    ])
  })

  it('name the nearest that there is, and map Langfuse', () => {
    const { config, env, notes, needs } = mapped([], {
      litellm_settings: { callbacks: ['langfuse', 'prometheus', 'unheard'] },
      guardrails: [{ guardrail_name: 'x', litellm_params: { guardrail: 'presidio' } }],
      environment_variables: { LANGFUSE_SECRET_KEY: 'sk-lf-literal', OTHER: 'x' },
    })
    expect(config.sinks).toEqual([
      {
        use: 'langfuse',
        options: { publicKey: '${LANGFUSE_PUBLIC_KEY}', secretKey: '${LANGFUSE_SECRET_KEY}' },
      },
    ])
    expect(env).toEqual({ LANGFUSE_SECRET_KEY: 'sk-lf-literal' })
    expect(needs).toEqual(['LANGFUSE_PUBLIC_KEY'])
    expect(notes.map((note) => note.split(':')[0])).toEqual([
      'elsewhere litellm_settings.callbacks',
      'lost litellm_settings.callbacks',
      'differs guardrails[0]',
      'differs guardrails[0]',
      'elsewhere environment_variables.OTHER',
    ])
    expect(config.guards).toEqual({
      use: [{ use: 'pii', mask: 'keys' }, { use: 'categories' }],
    })
  })
})

describe('keys', () => {
  const hash = hashSecret('sk-1234567890')
  const GPT = {
    model_list: [
      {
        model_name: 'gpt',
        litellm_params: { model: 'openai/gpt' },
        model_info: { access_groups: ['house'] },
      },
      { model_name: 'gpt-4o', litellm_params: { model: 'openai/gpt-4o' } },
      { model_name: 'draw', litellm_params: { model: 'openai/gpt-image' } },
    ],
  }
  const keysOf = (
    rows: readonly object[],
    accept: readonly string[] = [],
    others: Readonly<Record<string, readonly object[]>> = {},
    config: object = GPT,
  ) => {
    const tables = Object.entries({ keys: rows, ...others }).map(([kind, table]) => {
      return [kind, readTable(JSON.stringify(table), `${kind}.json`)] as const
    })
    const { keys, accounts, teams, notes } = read(config, {
      tables: new Map(tables),
      accept: new Set(accept),
    })
    const ofKeys = notes.filter(({ where }) => where.startsWith('keys'))
    return {
      keys,
      accounts,
      teams,
      notes: ofKeys.map(({ harm, where, message }) => `${harm} ${where}: ${message}`),
    }
  }
  const settingsOf = (row: object, accept?: readonly string[]) => {
    const { keys, notes } = keysOf([{ token: hash, ...row }], accept)
    return { ...keys[0]!.settings, disabled: keys[0]!.disabled, notes }
  }

  it('are known by the hash of their secret', () => {
    const { keys, notes } = keysOf([
      { token: hash.toUpperCase() },
      { token: 'sk-raw-secret' },
      { token: 'sk-raw-secret' },
      { token: 'abc' },
      { token: null },
    ])
    expect(keys.map(({ sha256 }) => sha256)).toEqual([hash, hashSecret('sk-raw-secret')])
    const expected = 'left out: expected 64 hexadecimal digits, or a key that begins with "sk-"'
    expect(notes).toEqual([
      'differs keys row 3: token: left out: the same key as row 2',
      `locked keys row 4: token: ${expected}`,
      `locked keys row 5: token: ${expected}`,
    ])
    expect(JSON.stringify(keys.map(({ id }) => id))).not.toContain(hash.slice(0, 12))
  })

  it('have a name that is no secret', () => {
    const names = (row: object) => {
      const [key] = keysOf([{ token: hash, ...row }]).keys
      return [key!.name, key!.start]
    }
    expect(names({ key_alias: 'ci', key_name: 'sk-...7890' })).toEqual(['ci', 'sk-...7890'])
    expect(names({ key_name: 'sk-...7890' })).toEqual(['sk-...7890', 'sk-...7890'])
    expect(names({ key_alias: 'sk-1234567890', key_name: 'sk-1234567890' })).toEqual([
      'Imported key 1',
      undefined,
    ])
    expect(names({ key_alias: hash })).toEqual(['Imported key 1', undefined])
    expect(names({ key_alias: 'a\u{1b}[31mb' })).toEqual(['a [31mb', undefined])
  })

  it('belong to the organization, else without a team to the user', () => {
    const teams = [{ team_id: 't' }, { team_id: 'w', organization_id: 'o' }]
    const accountOf = (row: object) => {
      return keysOf([{ token: hash, ...row }], [], { teams }).keys[0]!.account
    }
    expect(accountOf({ team_id: 't', organization_id: 'o', user_id: 'u' })).toBe('litellm-org-o')
    expect(accountOf({ team_id: 'w', user_id: 'u' })).toBe('litellm-org-o')
    expect(accountOf({ team_id: 't', user_id: 'u' })).toBe('litellm')
    expect(accountOf({ organization_id: 'o', user_id: 'u' })).toBe('litellm-org-o')
    expect(accountOf({ user_id: 'u' })).toBe('litellm-user-u')
    expect(accountOf({})).toBe('litellm')
    const long = accountOf({ user_id: 'x'.repeat(80) })
    expect([long.length, /^[a-z0-9_-]+$/.test(long)]).toEqual([64, true])
    const mails = ['kim@example.com', 'Kim@example.com', 'kim-example-com'].map((user_id) => {
      return accountOf({ user_id })
    })
    expect(new Set(mails).size).toBe(3)
  })

  it('keep what is left of a budget, to the last digit', () => {
    const cap = (row: object) => (settingsOf(row) as { spend_cap?: object }).spend_cap
    expect(cap({ max_budget: 0.3, spend: 0.1 })).toEqual({ usd: '0.2', scope: 'lifetime' })
    expect(cap({ max_budget: 1, spend: 1e-13 })).toEqual({
      usd: '0.999999999999',
      scope: 'lifetime',
    })
    expect(cap({ max_budget: 25, budget_duration: '1mo', spend: 24 })).toEqual({
      usd: '25',
      scope: 'month',
    })
    expect(settingsOf({ max_budget: 1, spend: 2 })).toEqual({
      disabled: true,
      notes: [
        'locked keys row 1: max_budget: nothing is left of it: the key is created disabled',
        'none keys: spend: not mapped, set in 1 row',
      ],
    })
    expect(cap({ max_budget: 9e9 })).toEqual({ usd: '9000000000', scope: 'lifetime' })
    expect(settingsOf({ max_budget: 'much' }).disabled).toBe(true)
    expect(settingsOf({ max_budget: 5, budget_duration: '6h' }, ['budget_duration'])).toEqual({
      disabled: false,
      notes: [
        'wider keys row 1: budget_duration: caps here are for 5 hours, a day, a week, a month or a lifetime: accepted without it',
      ],
    })
  })

  it('keep every limit of their own, by model as well', () => {
    expect(
      settingsOf({
        tpm_limit: 5,
        rpd_limit: 9,
        tpd_limit: 8,
        max_budget: 5,
        budget_duration: '7d',
        budget_limits: [
          { max_budget: 2, budget_duration: '5h' },
          { max_budget: 4, budget_duration: '1w' },
        ],
        model_max_budget: { gpt: { budget_limit: 1, time_period: '1d' } },
        metadata: { model_tpm_limit: { gpt: 1 } },
      }),
    ).toMatchObject({
      disabled: false,
      limits: [
        { unit: 'tokens', window: 'minute', value: 5 },
        { unit: 'tokens', window: 'day', value: 8 },
        { unit: 'requests', window: 'day', value: 9 },
        // The lower one of two caps by the week.
        { unit: 'usd', window: 'week', value: '4' },
        { unit: 'usd', window: '5h', value: '2' },
        { unit: 'tokens', window: 'minute', value: 1, models: ['openai/gpt'] },
        { unit: 'usd', window: 'day', value: '1', models: ['openai/gpt'] },
      ],
    })
  })

  it('never become wider', () => {
    for (const row of [
      { models: ['no-default-models'] },
      { models: ['unknown-group'] },
      { models: ['gpt', 'all-team-models'] },
      { models: ['openai/gpt'] },
      { team_id: 't' },
      { user_id: 'u' },
      { organization_id: 'o' },
      { project_id: 'p' },
      { budget_id: 'b' },
      { a_new_column: 'x' },
      { models: 'gpt' },
      { rpm_limit: 0 },
      { rpm_limit: 1.5 },
      { max_parallel_requests: -1 },
      { expires: 'soon' },
      { tpm_limit: 0 },
      { model_max_budget: { gone: 1 } },
      { model_max_budget: { gpt: { budget_limit: 1, time_period: '6h' } } },
      { allowed_routes: ['/chat'] },
      { aliases: { a: 'gpt' } },
      { metadata: { model_tpm_limit: { gone: 1 } } },
      { metadata: { guardrails: ['x'] } },
      { blocked: true },
    ]) {
      expect(settingsOf(row).disabled, JSON.stringify(row)).toBe(true)
    }
    // A name that the source does not serve allows nothing: here it might be the id of a model.
    expect(settingsOf({ models: ['gpt-4o', 'openai/draw', 'other/*'] })).toMatchObject({
      models: ['openai/gpt-4o'],
      disabled: false,
    })
  })

  it('may use the models that the names of their list meant', () => {
    const list = (models: readonly string[]) => {
      return (settingsOf({ models }) as { models?: string[] }).models
    }
    expect(list(['house'])).toEqual(['openai/gpt'])
    // LiteLLM knows gpt-4o to be of OpenAI, and nothing of the others.
    expect(list(['openai/*'])).toEqual(['openai/gpt-4o'])
    expect(list(['g*'])).toEqual(['openai/gpt', 'openai/gpt-4o'])
    expect(list(['*'])).toBeUndefined()
    expect(list(['all-proxy-models'])).toBeUndefined()
    const wildcard = { model_name: 'openai/*', litellm_params: { model: 'openai/*' } }
    const config = { model_list: [...GPT.model_list, wildcard] }
    const { keys } = keysOf([{ token: hash, models: ['openai/*'] }], [], {}, config)
    expect(keys[0]!.settings.models).toEqual(['openai/gpt-4o', 'openai/gpt-4o-mini'])
  })

  it('have the limits of their owners', () => {
    const users = [
      { user_id: 'kim', models: ['gpt'], rpm_limit: 7, max_budget: 9, budget_duration: '30d' },
      { user_id: 'lee', models: ['no-default-models'] },
      { user_id: 'max', tpm_limit: 5 },
    ]
    const groups = [{ access_group_id: 'g', access_group_name: 'G', access_model_names: ['draw'] }]
    const owned = (row: object, others: Record<string, readonly object[]>) =>
      keysOf([{ token: hash, ...row }], [], others)
    const kim = owned({ user_id: 'kim', models: ['gpt', 'draw'] }, { users })
    expect(kim.keys[0]).toMatchObject({ disabled: false, settings: { models: ['openai/gpt'] } })
    expect(kim.accounts.get('litellm-user-kim')).toMatchObject({
      settings: { rpm_limit: 7, spend_cap: { usd: '9', scope: 'month' } },
    })
    expect(owned({ user_id: 'lee' }, { users }).keys[0]!.disabled).toBe(true)
    const max = owned({ user_id: 'max' }, { users })
    expect(max.keys[0]!.disabled).toBe(false)
    expect(max.accounts.get('litellm-user-max')!.settings).toEqual({
      limits: [{ unit: 'tokens', window: 'minute', value: 5 }],
    })
    const grouped = owned({ models: ['gpt'], access_group_ids: ['g', 'gone'] }, { groups })
    expect(grouped.keys[0]!.settings.models).toEqual(['openai/gpt', 'openai/draw'])
  })

  it('are in the teams of their source', () => {
    const teams = [
      { team_id: 't', team_alias: 'T', models: ['gpt'], blocked: 't', max_budget: 3 },
      { team_id: 'w', organization_id: 'o' },
    ]
    const organizations = [{ organization_id: 'o' }, { organization_id: 'p' }]
    const of = (...rows: object[]) => {
      const tokens = rows.map((row, n) => ({ token: hashSecret(`sk-team-key-${n}`), ...row }))
      return keysOf(tokens, [], { teams, organizations })
    }
    const team = of({ team_id: 't' })
    expect(team.keys[0]).toMatchObject({
      disabled: false,
      settings: { team_id: 'litellm-t', models: ['openai/gpt'] },
    })
    expect(team.teams!.get('litellm-t')).toEqual({
      account: 'litellm',
      name: 'LiteLLM team T',
      disabled: true,
      settings: { spend_cap: { usd: '3', scope: 'lifetime' }, models: ['openai/gpt'] },
    })
    // A budget of each member has no counterpart.
    const members = keysOf([{ token: hash, team_id: 'm' }], [], {
      teams: [
        { team_id: 'm', metadata: { team_member_budget_id: 'b', model_rpm_limit: { gpt: 2 } } },
      ],
    })
    expect(members.keys[0]!.disabled).toBe(true)
    expect(members.teams!.get('litellm-m')!.settings).toEqual({
      limits: [{ unit: 'requests', window: 'minute', value: 2, models: ['openai/gpt'] }],
    })
    // A team is of one account.
    const strangers = of({ team_id: 'w' }, { team_id: 'w', organization_id: 'p' })
    expect(strangers.keys.map(({ account, disabled }) => [account, disabled])).toEqual([
      ['litellm-org-o', false],
      ['litellm-org-o', true],
    ])
    expect(strangers.notes).toContainEqual(
      expect.stringContaining('locked keys row 2: organization_id: its team is of another'),
    )
  })

  it('take unset for unset', () => {
    const row = {
      models: [],
      aliases: {},
      config: {},
      permissions: '{}',
      metadata: {},
      blocked: null,
      rpm_limit: null,
      tpm_limit: '',
      max_budget: null,
      spend: 0,
      expires: null,
      allowed_routes: '{}',
      soft_budget_cooldown: 'f',
    }
    expect(settingsOf(row)).toEqual({ disabled: false, notes: [] })
  })
})
