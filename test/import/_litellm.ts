/** A LiteLLM installation as its operators have it: a configuration, and exports of its keys, users and budgets. */
import { hashSecret } from '../../src/accounts/secrets.ts'

/** Literal secrets of the configuration; none of them may be shown. */
export const SECRETS = [
  'sk-literal-openai-0123456789',
  'azure-literal-$\'{}"-key',
  'AKIALITERAL0001',
  'aws/literal+secret==',
  'header-literal-token',
  'sk-master-0123456789',
  'postgres-password',
]

/** Twenty models, fallbacks, and keys in the environment. @param upstream the address of a vendor for three of them */
export function configurationOf(upstream: string): string {
  return `# LiteLLM proxy
model_list:
  - model_name: gpt-4o
    litellm_params:
      model: openai/gpt-4o
      api_base: ${upstream}
      api_key: os.environ/UPSTREAM_KEY
      weight: 3
      timeout: 30
      stream_timeout: 5.5
    model_info: { input_cost_per_token: 2.50e-06, output_cost_per_token: 1.0e-05, cache_read_input_token_cost: 1.25e-06, mode: chat, supports_vision: true }
  - model_name: gpt-4o
    litellm_params:
      model: azure/gpt4o-deployment
      api_base: https://acme.openai.azure.com
      api_key: ${SECRETS[1]}
      api_version: "2024-10-21"
      order: 2
      rpm: 600
  - model_name: gpt-4o-mini
    litellm_params: { model: gpt-4o-mini, api_key: ${SECRETS[0]}, input_cost_per_token: 0.00000015, output_cost_per_token: 6e-07 }
  - model_name: openai/o4
    litellm_params: { model: openai/o4, api_key: ${SECRETS[0]}, organization: org-1, input_cost_per_token: 1e-6, output_cost_per_token: 4e-6 }
  - model_name: claude-sonnet
    litellm_params: { model: anthropic/claude-sonnet-5-5, api_key: os.environ/ANTHROPIC_API_KEY, input_cost_per_token: 3e-06, output_cost_per_token: 1.5e-05, input_cost_per_token_above_200k_tokens: 6e-06, output_cost_per_token_above_200k_tokens: 2.25e-05, cache_creation_input_token_cost: 3.75e-06, cache_creation_input_token_cost_above_1hr: 6e-06 }
  - model_name: gemini-flash
    litellm_params: { model: gemini/gemini-3.8-flash, input_cost_per_token: 7.5e-07, output_cost_per_token: 3e-06, input_cost_per_token_batches: 1e-07 }
  - model_name: vertex-gemini
    litellm_params:
      model: vertex_ai/gemini-3.8-flash
      vertex_project: acme
      vertex_location: europe-west1
      input_cost_per_token: 7.5e-07
      output_cost_per_token: 3e-06
  - model_name: nova
    litellm_params:
      model: bedrock/us.amazon.nova-pro-v1:0
      aws_region_name: us-east-1
      aws_access_key_id: ${SECRETS[2]}
      aws_secret_access_key: ${SECRETS[3]}
      input_cost_per_token: 8e-07
      output_cost_per_token: 3.2e-06
  - model_name: mistral-small
    litellm_params: { model: mistral/mistral-small-latest, input_cost_per_token: 1e-07, output_cost_per_token: 3e-07 }
  - model_name: groq/llama
    litellm_params: { model: groq/llama-3.3-70b-versatile, input_cost_per_token: 5.9e-07, output_cost_per_token: 7.9e-07 }
  - model_name: deepseek-chat
    litellm_params: { model: deepseek/deepseek-chat, input_cost_per_token: 2.8e-07, output_cost_per_token: 4.2e-07 }
  - model_name: grok
    litellm_params: { model: xai/grok-4, input_cost_per_token: 3e-06, output_cost_per_token: 1.5e-05 }
  - model_name: together-llama
    litellm_params: { model: together_ai/meta-llama/Llama-4, input_cost_per_token: 2e-07, output_cost_per_token: 6e-07 }
  - model_name: kimi
    litellm_params: { model: moonshot/kimi-k3, input_cost_per_token: 6e-07, output_cost_per_token: 2.5e-06 }
  - model_name: qwen
    litellm_params: { model: dashscope/qwen-max, input_cost_per_token: 1.6e-06, output_cost_per_token: 6.4e-06 }
  - model_name: sonar
    litellm_params: { model: perplexity/sonar, input_cost_per_token: 1e-06, output_cost_per_token: 1e-06 }
  - model_name: local-llama
    litellm_params: { model: ollama/llama3.3, api_base: "${upstream.replace('/v1', '')}", input_cost_per_token: 0, output_cost_per_token: 0 }
  - model_name: house-vllm
    litellm_params:
      model: hosted_vllm/house
      api_base: ${upstream}
      extra_headers: { X-Token: ${SECRETS[4]} }
      input_cost_per_token: 1e-07
      output_cost_per_token: 2e-07
  - model_name: whisper
    litellm_params: { model: openai/whisper-1, api_key: ${SECRETS[0]} }
    model_info: { mode: audio_transcription, input_cost_per_second: 0.0001 }
  - model_name: strange
    litellm_params: { model: strangecloud/model-x, api_base: "https://strange.example/v1", api_key: os.environ/STRANGE_KEY, max_tokens: 500, input_cost_per_token: 1e-06, output_cost_per_token: 1e-06 }
  - model_name: claude-haiku
    litellm_params: { model: claude-haiku-5-5, api_key: os.environ/ANTHROPIC_API_KEY }
    model_info: { input_cost_per_token: "1e-07", output_cost_per_token: 5e-07, base_model: claude-haiku-5-5 }
  - model_name: lost
    litellm_params: { model: petals/bloom }
router_settings:
  routing_strategy: latency-based-routing
  num_retries: 2
  cooldown_time: 45
  model_group_alias: { gpt-4: gpt-4o, nothing: gone }
  fallbacks: [{ gpt-4o: [claude-sonnet] }]
litellm_settings:
  drop_params: true
  request_timeout: 120
  default_fallbacks: [gpt-4o-mini]
  callbacks: [langfuse]
  cache: true
general_settings:
  master_key: ${SECRETS[5]}
  database_url: postgresql://litellm:${SECRETS[6]}@db/litellm
environment_variables:
  LANGFUSE_HOST: https://langfuse.example
`
}

/** What is not as in {@link configurationOf}, by its path. */
export const UNMAPPED = [
  'model_list[1].litellm_params.rpm',
  'model_list[5].input_cost_per_token_batches',
  'model_list[19].litellm_params.model',
  'model_list[21]',
  'router_settings.model_group_alias.nothing',
  'router_settings.routing_strategy',
  'general_settings.database_url',
  'general_settings.master_key',
]

/** Variables that the configuration reads. */
export const VARIABLES = {
  UPSTREAM_KEY: 'sk-upstream',
  ANTHROPIC_API_KEY: 'sk-ant',
  GEMINI_API_KEY: 'gm',
  MISTRAL_API_KEY: 'mi',
  GROQ_API_KEY: 'gr',
  DEEPSEEK_API_KEY: 'ds',
  XAI_API_KEY: 'xa',
  TOGETHER_API_KEY: 'to',
  MOONSHOT_API_KEY: 'mo',
  DASHSCOPE_API_KEY: 'da',
  PERPLEXITY_API_KEY: 'pe',
  STRANGE_KEY: 'st',
  LANGFUSE_PUBLIC_KEY: 'pk-lf',
  LANGFUSE_SECRET_KEY: 'sk-lf',
}

/** The secret of a row, from 1. */
export const secretOf = (row: number) => `sk-litellm-key-number-${row}`

const COLUMNS = [
  'token',
  'key_name',
  'key_alias',
  'soft_budget_cooldown',
  'spend',
  'expires',
  'models',
  'aliases',
  'config',
  'user_id',
  'team_id',
  'permissions',
  'max_parallel_requests',
  'metadata',
  'blocked',
  'tpm_limit',
  'rpm_limit',
  'max_budget',
  'budget_duration',
  'allowed_cache_controls',
  'model_spend',
  'model_max_budget',
  'budget_id',
  'created_at',
]

/** Columns of a row beside those that every row has. */
export const ROWS: Readonly<Record<number, Readonly<Record<string, string>>>> = {
  1: { key_alias: 'Plain, "quoted"\nkey' },
  2: { models: '{gpt-4o,claude-sonnet,gpt-4}' },
  3: { models: '{all-proxy-models}' },
  4: { rpm_limit: '2' },
  5: { max_parallel_requests: '1' },
  6: { max_budget: '10', spend: '2.5000000000000004' },
  7: { max_budget: '0.5', budget_duration: '30d', spend: '0.4' },
  8: { max_budget: '1.5', budget_duration: '24h' },
  9: { expires: '2020-01-31 00:00:00' },
  10: { expires: '2999-01-31 12:00:00+02' },
  11: { blocked: 't' },
  12: { tpm_limit: '100000' },
  13: { max_budget: '1', budget_duration: '7d' },
  14: { max_budget: '1', spend: '1.25' },
  15: { models: '{no-default-models}' },
  16: { models: '{openai/o4,gone-model}' },
  17: { budget_id: 'team-budget' },
  18: { budget_id: 'lost-budget' },
  19: { metadata: '{"model_rpm_limit":{"gpt-4o":1},"owner":"kim"}' },
  20: { permissions: '{"allow_pii_controls":true}' },
  21: { team_id: 'Team Ä/1' },
  22: { user_id: 'kim' },
  23: { team_id: '', user_id: '' },
}

/** Rows whose keys are created disabled. */
export const DISABLED = [11, 14, 15, 18, 20, 21, ...Array.from({ length: 10 }, (_, n) => 41 + n)]

/** Fifty rows, as PostgreSQL writes them. */
export function keysCsv(): string {
  const rows = Array.from({ length: 50 }, (_, index) => {
    const row = index + 1
    const members: Record<string, string> = {
      token: hashSecret(secretOf(row)),
      key_name: `sk-...${String(row).padStart(4, '0')}`,
      key_alias: `key-${row}`,
      soft_budget_cooldown: 'f',
      spend: '0',
      models: '{}',
      aliases: '{}',
      config: '{}',
      user_id: 'default_user_id',
      team_id: row > 40 ? `team-${row % 5}` : '',
      permissions: '{}',
      metadata: '{}',
      allowed_cache_controls: '{}',
      model_spend: '{}',
      model_max_budget: '{}',
      created_at: '2026-01-01 00:00:00',
      ...ROWS[row],
    }
    return COLUMNS.map((column) => field(members[column] ?? '')).join(',')
  })
  return `${[COLUMNS.join(','), ...rows].join('\n')}\n`
}

/** The people of the rows. */
export const USERS = `user_id,user_role,models,max_budget,rpm_limit
default_user_id,proxy_admin,{},,
kim,internal_user,"{gpt-4o,no-such-model}",,40
`

/** The budget of row 17. */
export const BUDGETS = `budget_id,max_budget,tpm_limit,rpm_limit,budget_duration
team-budget,3.25,,7,1mo
`

function field(text: string): string {
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
