/** The configuration that `init` writes. It works without changes and names the next steps. */
export const STARTER = `# Every member is described in docs/configuration.md.

server:
  host: 127.0.0.1
  port: 8787

# Folder for accounts, keys and the ledger. Only one process at a time can use it.
state:
  driver: file
  path: ./data

# The token is in .env, next to this file.
admin:
  token: \${SLUICEGATE_ADMIN_TOKEN}

providers:
  # Answers without a vendor, for tests.
  mock:
    use: mock
  # A vendor: write its API key into .env, and remove the "#" here and below.
  # openai:
  #   use: openai
  #   options:
  #     apiKey: \${OPENAI_API_KEY}

# The models that clients can use. Prices are USD per unit, as text.
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
