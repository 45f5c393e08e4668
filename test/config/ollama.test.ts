/** The models of an Ollama: what it says they can do, and models that it gets while a gateway runs. */
import { expect, it, onTestFinished, vi } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { watchConfig } from '../../src/config/watch.ts'
import { Discovery } from '../../src/gateway/discovery.ts'
import { folder } from '../_folder.ts'
import { createTestGateway } from '../_setup.ts'
import { json, startUpstream, type FakeUpstream } from '../upstream.ts'
import { eventually } from '../_wait.ts'

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

/** A gateway with the starter, and the models of Ollama that it serves. */
async function gatewayFor(server: FakeUpstream) {
  const { gateway } = await createTestGateway(await loadConfig(await optionsFor(server)))
  onTestFinished(() => gateway.close())
  const models = () =>
    gateway.runtime.catalog
      .at()
      .all()
      .filter(({ vendor }) => vendor === 'ollama')
  return { gateway, models, ids: () => models().map(({ id }) => id) }
}

it('are served with what the server says of them', async () => {
  const { server } = await ollama()
  const { models } = await gatewayFor(server)
  await eventually(() => expect(models()).toHaveLength(4))
  expect(models()).toMatchObject([
    { id: 'ollama/bge-m3', modality: 'embedding', pricing: { prompt: '0' } },
    { id: 'ollama/deepseek-r1:8b', capabilities: new Set(['STREAMING', 'REASONING']) },
    {
      id: 'ollama/llama3.2',
      capabilities: new Set(['STREAMING', 'TOOLS']),
      contextLength: 131_072,
      freeTier: true,
      pricing: { prompt: '0', completion: '0' },
    },
    { id: 'ollama/llava:7b', capabilities: new Set(['STREAMING', 'VISION']) },
  ])
})

it('of an older server, which tells nothing, refuse nothing', async () => {
  const { server, pulled } = await ollama()
  pulled.splice(0, 4, 'mistral:7b', 'nomic-embed-text:latest')
  const { models } = await gatewayFor(server)
  await eventually(() => expect(models()).toHaveLength(2))
  expect(models()).toMatchObject([
    { id: 'ollama/mistral:7b', modality: 'chat', capabilities: undefined },
    { id: 'ollama/nomic-embed-text', modality: 'embedding' },
  ])
})

it('that it pulls later are found within a minute, and stay while it does not answer', async () => {
  const { server, pulled } = await ollama()
  const { gateway, ids } = await gatewayFor(server)
  await eventually(() => expect(ids()).toHaveLength(4))
  const { config, providers } = gateway.runtime
  const warnings: string[] = []
  const discovery = new Discovery((text) => warnings.push(text))
  let minutes = 0
  const now = performance.now()
  vi.spyOn(performance, 'now').mockImplementation(() => now + minutes * 60_001)
  onTestFinished(() => void vi.restoreAllMocks())
  const found = async () => {
    minutes++
    const isNew = await discovery.look(config, providers)
    return [isNew, discovery.offersOf(config)('ollama')!.models.length]
  }
  expect(await found()).toEqual([true, 4])
  expect(await found()).toEqual([false, 4])
  pulled.push('qwen3:8b')
  const known = server.requests.length
  expect(await found()).toEqual([true, 5])
  // Each digest is asked for once.
  const shows = server.requests.slice(known).filter(({ path }) => path === '/api/show')
  expect(shows.map(({ json: { model } }) => model)).toEqual(['qwen3:8b'])
  server.answer(json({ error: 'busy' }, 503))
  expect([await found(), await found()]).toEqual([
    [false, 5],
    [false, 5],
  ])
  expect(warnings).toEqual([expect.stringMatching(/^ollama did not name its models: /)])
})

it('come when the server is started later, and the configuration stays when it is away', async () => {
  const { server } = await ollama()
  const options = await optionsFor(server)
  server.answer(json({}, 503))
  const loaded = await loadConfig(options)
  expect(loaded.config.providers).not.toHaveProperty('ollama')
  const changes: string[][] = []
  const watcher = await watchConfig(
    loaded,
    ({ config }) => changes.push(Object.keys(config.wildcards ?? {})),
    (error) => expect.unreachable(String(error)),
    options,
    10,
  )
  onTestFinished(() => watcher.close())
  const without = server.requests.length
  await eventually(() => expect(server.requests.length).toBeGreaterThan(without + 2))
  server.answer(json({ models: [] }))
  await eventually(() => expect(changes).toEqual([['ollama/*']]))
  const before = server.requests.length
  server.answer(json({ error: 'busy' }, 503))
  await eventually(() => expect(server.requests.length).toBeGreaterThan(before + 5))
  expect(changes).toHaveLength(1)
})
