/** Sinks of a command in a process of its own, where their thread is all that is awaited for a moment. */
import { expect, it } from 'vitest'
import { run } from '../_cli.ts'
import { folder } from '../_folder.ts'

const CONFIG = `
providers: { mock: { use: mock } }
models:
  mock/echo:
    pricing: { prompt: '0', completion: '0' }
    deployments: [{ provider: mock, model: echo }]
sinks: [{ use: file, options: { path: events.jsonl } }]
`

it('a configuration with sinks is checked to the end', async () => {
  const cwd = await folder({ 'gateway.config.yaml': CONFIG })
  const { code, out } = await run(['check'], { cwd })
  expect(out).toContain('gateway.config.yaml is valid: 1 model in all.')
  expect(code).toBe(0)
})
