/** Files of a LiteLLM proxy. */
import { mkdirSync, writeFileSync } from 'node:fs'

writeFileSync(
  'config.yaml',
  `model_list:
  - model_name: gpt-4.1-mini
    litellm_params:
      model: openai/gpt-4.1-mini
      api_key: os.environ/OPENAI_API_KEY
      input_cost_per_token: 0.0000004
      output_cost_per_token: 0.0000016
`,
)
const hash = 'ab'.repeat(32)
mkdirSync('tables', { recursive: true })
writeFileSync(
  'tables/keys.csv',
  `token,key_alias,models,permissions\n${hash},laptop,{},"{""a"":true}"\n`,
)
writeFileSync('tables/budgets.csv', 'budget_id,max_budget\n')
