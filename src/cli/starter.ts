/** The configuration that `init` writes. It works without changes and names the next steps. */
export const STARTER = `extends: starter # mock models, and models of every vendor whose API key is in .env
# Every member is described in docs/configuration.md.

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

# Providers of your own, beside those of the starter. Remove the "#" here and below.
# providers:
#   house:
#     use: openai-compatible
#     options:
#       baseURL: http://127.0.0.1:8000/v1
#       quirks: vllm

# Models of your own, and members of the starter's models that differ. Prices are USD per unit, as text.
models:
  mock/echo:
    name: Echo
  # house/gpt-oss-120b:
  #   pricing: { prompt: '0.00000015', completion: '0.0000006' }
`
