/** The configuration that `init` writes. It works as it is, and says where to go on. */
export const STARTER = `# Every member is described in docs/configuration.md.

server:
  host: 127.0.0.1
  port: 8787

# Accounts, keys and money are kept in this folder. One process at a time owns it.
state:
  driver: file
  path: ./data

# The token is in .env, next to this file.
admin:
  token: \${SLUICEGATE_ADMIN_TOKEN}

providers:
  # Answers without a vendor and without a key.
  mock:
    use: mock
  # A vendor: put its key into .env, and take the "#" away here and below.
  # openai:
  #   use: openai
  #   options:
  #     apiKey: \${OPENAI_API_KEY}

# What clients can ask for. Prices are USD per unit, always as text.
models:
  mock/echo:
    pricing: { prompt: '0.0000001', completion: '0.0000004' }
    capabilities: [STREAMING]
    deployments:
      - { provider: mock, model: echo }
  # openai/gpt-4.1-mini:
  #   pricing: { prompt: '0.0000004', input_cache_read: '0.0000001', completion: '0.0000016' }
  #   capabilities: [STREAMING, TOOLS, VISION, STRUCTURED_OUTPUTS]
  #   context_length: 1047576
  #   deployments:
  #     - { provider: openai, model: gpt-4.1-mini }
`
