import { describe, expect, it } from 'vitest'
import { mapConfiguration, mapKeys } from '../../../plugins/import/litellm.ts'
import { hashSecret } from '../../../src/accounts/secrets.ts'
import { readJson, readTable, readYaml } from '../../../src/import/source.ts'

const PRICE = { input_cost_per_token: '1e-6' }

function mapped(models: readonly object[], sections: object = {}) {
  const text = JSON.stringify({ model_list: models, ...sections })
  const { config, models: byId, env, notes, idOf } = mapConfiguration(readYaml(text))
  const providers = config.providers as Record<string, { use: string; options: object }>
  return {
    config: config as Record<string, any>,
    providers,
    models: Object.fromEntries(byId),
    env: Object.fromEntries(env),
    notes: notes.map(({ where, message }) => `${where}: ${message}`),
    idOf,
  }
}

/** One model with these parameters. */
function one(params: object, more: object = {}) {
  return mapped([{ model_name: 'm', litellm_params: { ...PRICE, ...params }, ...more }])
}

describe('providers', () => {
  it.each([
    ['gpt-4o', 'openai/m', 'openai', 'gpt-4o', { apiKey: '${OPENAI_API_KEY}' }],
    ['claude-sonnet-5', 'anthropic/m', 'anthropic', 'claude-sonnet-5', {}],
    ['gemini/gemini-3', 'google/m', 'google', 'gemini-3', { apiKey: '${GEMINI_API_KEY}' }],
    ['azure_ai/grok-4', 'azure-ai/m', 'azure', 'grok-4', { surface: 'models' }],
    ['bedrock/converse/us.x.y:0', 'bedrock/m', 'bedrock', 'us.x.y:0', { credentials: 'chain' }],
    ['bedrock/arn:aws:bedrock:x/y', 'bedrock/m', 'bedrock', 'arn:aws:bedrock:x/y', {}],
    ['codestral/codestral-latest', 'codestral/m', 'mistral', 'codestral-latest', {}],
    ['dashscope/qwen', 'alibaba/m', 'openai-compatible', 'qwen', { quirks: 'alibaba' }],
    ['cerebras/x', 'cerebras/m', 'openai-compatible', 'x', { quirks: 'cerebras' }],
    ['openrouter/a/b', 'openrouter/m', 'openai-compatible', 'a/b', { quirks: 'openrouter' }],
    [
      'ollama_chat/l',
      'ollama/m',
      'openai-compatible',
      'l',
      { baseURL: 'http://localhost:11434/v1' },
    ],
    ['llamafile/l', 'llamacpp/m', 'openai-compatible', 'l', { quirks: 'llamacpp' }],
    ['deepgram/nova-3', 'deepgram/m', 'deepgram', 'nova-3', { apiKey: '${DEEPGRAM_API_KEY}' }],
    ['elevenlabs/v3', 'elevenlabs/m', 'elevenlabs', 'v3', {}],
    ['vertex_ai/claude-x', 'vertex-anthropic/m', 'anthropic', 'claude-x', {}],
  ])('of %s', (model, id, use, name, options) => {
    const { models, providers } = one({ model })
    expect(Object.keys(models)).toEqual([id])
    const [provider] = Object.keys(providers)
    expect(models[id]!.deployments).toEqual([{ provider, model: name }])
    expect(providers[provider!]).toMatchObject({ use, options })
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
      'model_list[0].litellm_params.aws_profile_name: the plugin has no such setting',
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
    ['petals/bloom', 'the vendor "petals" has no plugin here, and there is no api_base'],
    ['my-model', 'the vendor is not known: the name has no prefix'],
    ['bedrock/invoke/x', 'the route bedrock/invoke has no counterpart'],
    ['hosted_vllm/x', undefined],
    ['', 'it names no model'],
  ])('are not made of %s', (model, reason) => {
    const { notes, models } = one({ model })
    if (reason === undefined) return expect(Object.keys(models)).toHaveLength(1)
    expect(notes).toEqual([`model_list[0]: left out: ${reason}`])
    expect(models).toEqual({})
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
      'model_list[0]: input_cost_per_token_priority: a price that has no counterpart',
      'model_list[0]: output_cost_per_reasoning_token: not a number of at most 18 fractional digits that is written out',
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
    const { notes, models } = mapConfiguration(
      readYaml(`model_list:
  - { model_name: a, litellm_params: { model: openai/a, input_cost_per_token: &price 1e-6 } }
  - { model_name: b, litellm_params: { model: openai/b, input_cost_per_token: *price } }
`),
    )
    expect(models.get('openai/a')!.pricing).toEqual({ prompt: '0.000001' })
    expect(models.get('openai/b')!.pricing).toBeUndefined()
    expect(notes.map(({ where }) => where)).toEqual(['model_list[1]: input_cost_per_token'])
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
    ])
    expect(
      Object.entries(models).map(([id, entry]) => [id, entry.pricing, entry.price_of]),
    ).toEqual([
      ['anthropic/sonnet', undefined, 'anthropic/claude-sonnet-5'],
      ['openai/gpt-4o', undefined, undefined],
      ['azure/azure', undefined, 'openai/gpt-4o'],
    ])
  })

  it('of a wildcard are those of its vendor', () => {
    const { models, notes } = mapped([
      { model_name: 'openai/*', litellm_params: { model: 'openai/*' } },
      { model_name: '*', litellm_params: { model: 'openai/*' } },
      { model_name: 'anthropic/claude-*', litellm_params: { model: 'anthropic/claude-*' } },
    ])
    expect(models).toEqual({ 'openai/*': { deployments: [{ provider: 'openai' }] } })
    expect(notes).toHaveLength(2)
  })

  it('have a name of their own each', () => {
    const params = (model: string) => ({ model, ...PRICE })
    const { models, notes, idOf } = mapped(
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
    expect([idOf('x'), idOf('y'), idOf('z')]).toEqual(['openai/x-2', 'openai/x-2', undefined])
    expect(notes).toEqual([
      'model_list[2]: left out: the same model of the same provider is there already',
      'model_list[3]: left out: its name has white space or more than 120 characters',
      'model_list[4]: clients cannot use the name "user": "user" is an address of the API',
      'model_list[5]: it has no model_name',
      'router_settings.model_group_alias.x: it is the name of a model as well',
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
      'router_settings.num_retries: cut to 10 attempts',
      'litellm_settings.num_retries: not mapped',
      'general_settings.alerting: not mapped',
      'guardrails: not mapped',
    ])
  })
})

describe('keys', () => {
  const hash = hashSecret('sk-1234567890')
  const keysOf = (rows: readonly object[], accept: readonly string[] = []) => {
    const options = {
      idOf: (name: string) => (name === 'gpt' ? 'openai/gpt' : undefined),
      budgets: [],
      accept: new Set(accept),
    }
    const table = readTable(JSON.stringify(rows), 'keys.json')
    const { keys, accounts, notes } = mapKeys(table, options)
    return { keys, accounts, notes: notes.map(({ where, message }) => `${where}: ${message}`) }
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
    expect(notes).toEqual([
      'row 3: token: left out: the same key as row 2',
      'row 4: token: left out: expected 64 hexadecimal digits, or a key that begins with "sk-"',
      'row 5: token: left out: expected 64 hexadecimal digits, or a key that begins with "sk-"',
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

  it('belong to the team, else the organization, else the user', () => {
    const accountOf = (row: object) => keysOf([{ token: hash, ...row }]).keys[0]!.account
    expect(accountOf({ team_id: 't', organization_id: 'o', user_id: 'u' })).toBe('litellm-team-t')
    expect(accountOf({ organization_id: 'o', user_id: 'u' })).toBe('litellm-org-o')
    expect(accountOf({ user_id: 'u' })).toBe('litellm-user-u')
    expect(accountOf({})).toBe('litellm')
    const long = accountOf({ team_id: 'x'.repeat(80) })
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
        'row 1: max_budget: nothing is left of it: the key is created disabled',
        'spend: not mapped, set in 1 row',
      ],
    })
    expect(settingsOf({ max_budget: 9e9 }).disabled).toBe(true)
    expect(settingsOf({ max_budget: 'much' }).disabled).toBe(true)
    expect(settingsOf({ max_budget: 5, budget_duration: '7d' }, ['budget_duration'])).toEqual({
      disabled: false,
      notes: [
        'row 1: budget_duration: caps here are for a day, a month or a lifetime: accepted without it',
      ],
    })
  })

  it('never become wider', () => {
    for (const row of [
      { models: ['no-default-models'] },
      { models: ['unknown-group'] },
      { models: ['gpt', 'all-team-models'] },
      { models: 'gpt' },
      { rpm_limit: 0 },
      { rpm_limit: 1.5 },
      { max_parallel_requests: -1 },
      { expires: 'soon' },
      { tpm_limit: 5 },
      { model_max_budget: { gpt: 1 } },
      { allowed_routes: ['/chat'] },
      { aliases: { a: 'gpt' } },
      { metadata: { model_tpm_limit: { gpt: 1 } } },
      { metadata: { guardrails: ['x'] } },
      { blocked: true },
    ]) {
      expect(settingsOf(row).disabled, JSON.stringify(row)).toBe(true)
    }
    expect(settingsOf({ models: ['gpt', 'all-team-models'] }, ['models'])).toMatchObject({
      models: ['openai/gpt'],
      disabled: false,
    })
    const other = settingsOf({ models: ['gpt', 'other/model', 'other/*'] })
    expect(other).toMatchObject({
      models: ['openai/gpt', 'other/model', 'other/*'],
      disabled: false,
    })
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
