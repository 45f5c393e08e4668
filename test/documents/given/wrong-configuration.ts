/** A configuration with three mistakes, and what the command says. */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'

const { PATH } = process.env

writeFileSync(
  'gateway.config.yaml',
  `sever: {}
providers:
  openai: { use: openai, options: { apiKey: '\${OPENAI_API_KEY}' } }
models:
  openai/x:
    pricing: { prompt: 0.0000025 }
    deployments: [{ provider: openai, model: x }]
`,
)
const { stderr } = spawnSync('sluicegate', ['check'], { encoding: 'utf8', env: { PATH } })
process.stdout.write(stderr)
