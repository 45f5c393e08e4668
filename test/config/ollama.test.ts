/** The models of an Ollama: what it says they can do, and models that it gets while a gateway runs. */
import { expect, it, onTestFinished } from 'vitest'
import { loadConfig, type LoadedConfig } from '../../src/config/config.ts'
import { watchConfig } from '../../src/config/watch.ts'
import { folder } from '../_folder.ts'
import { json, startUpstream, type FakeUpstream } from '../upstream.ts'

const SHOWN: Readonly<Record<string, object>> = {
  'llama3.2:latest': {
    capabilities: ['completion', 'tools'],
    model_info: { 'general.architecture': 'llama', 'llama.context_length': 131_072 },
  },
  'deepseek-r1:8b': { capabilities: ['completion', 'thinking'] },
  'llava:7b': { capabilities: ['completion', 'vision'] },
  'bge-m3:latest': { capabilities: ['embedding'] },
}

async function ollama(): Promise<{ server: FakeUpstream; pulled: string[] }> {
  const pulled = Object.keys(SHOWN)
  const server = await startUpstream()
  onTestFinished(() => server.close())
  server.answer((request) => {
    if (request.path === '/api/show') return json(SHOWN[request.json.model] ?? {})
    return json({ models: pulled.map((name) => ({ name, digest: `sha256:${name}` })) })
  })
  return { server, pulled }
}

async function optionsFor({ url }: FakeUpstream) {
  const cwd = await folder({ 'gateway.config.json': '{"extends":"starter"}' })
  return { cwd, env: { OLLAMA_HOST: url } }
}

const idsOf = ({ config }: LoadedConfig) =>
  Object.keys(config.models)
    .filter((id) => id.startsWith('ollama/'))
    .toSorted()

it('are served with what the server says of them, asked once for each digest', async () => {
  const { server } = await ollama()
  const options = await optionsFor(server)
  const { config } = await loadConfig(options)
  expect(config.models['ollama/llama3.2']).toMatchObject({
    capabilities: ['STREAMING', 'TOOLS'],
    context_length: 131_072,
    free_tier: true,
    pricing: { prompt: '0', completion: '0' },
    deployments: [{ provider: 'ollama', model: 'llama3.2:latest' }],
  })
  expect(config.models['ollama/deepseek-r1:8b']!.capabilities).toEqual(['STREAMING', 'REASONING'])
  expect(config.models['ollama/llava:7b']!.capabilities).toEqual(['STREAMING', 'VISION'])
  expect(config.models['ollama/bge-m3']).toMatchObject({
    modality: 'embedding',
    pricing: { prompt: '0' },
  })
  await loadConfig(options)
  const shows = server.requests.filter(({ path }) => path === '/api/show')
  expect(shows.map(({ json: { model } }) => model)).toEqual(Object.keys(SHOWN))
})

it('that it pulls later are served without a restart, and stay while it does not answer', async () => {
  const { server, pulled } = await ollama()
  const options = await optionsFor(server)
  const loaded = await loadConfig(options)
  let latest = loaded
  let changes = 0
  const errors: unknown[] = []
  const use = (next: LoadedConfig) => {
    latest = next
    changes++
  }
  const watcher = await watchConfig(loaded, use, (error) => errors.push(error), options, 10)
  onTestFinished(() => watcher.close())
  await expect.poll(() => server.requests.length).toBeGreaterThan(8)
  expect(changes).toBe(0)
  pulled.push('qwen3:8b')
  await expect.poll(() => idsOf(latest)).toContain('ollama/qwen3:8b')
  const before = server.requests.length
  server.answer(json({ error: 'busy' }, 503))
  await expect.poll(() => server.requests.length).toBeGreaterThan(before + 5)
  expect(idsOf(await loadConfig(options))).toContain('ollama/qwen3:8b')
  expect([changes, errors]).toEqual([1, []])
})
