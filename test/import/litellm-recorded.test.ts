/** The configuration and tables of a LiteLLM proxy as its users have it: what the first line says is what answers. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseYAML, stringifyYAML } from 'confbox/yaml'
import { expect, it, onTestFinished } from 'vitest'
import { ask, call, inMemory } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { recordedText } from '../fixtures.ts'
import { json, startUpstream } from '../upstream.ts'

const CONFIG = recordedText('migration/litellm.yaml')
const KEYS = recordedText('migration/keys.csv')
const TEAMS = recordedText('migration/teams.csv')

const chat = (vendor: string, input: number, output: number) => ({
  litellm_provider: vendor,
  mode: 'chat',
  input_cost_per_token: input,
  output_cost_per_token: output,
})
/** LiteLLM's own list, as far as these models need it. */
const PRICES = {
  'gpt-4o': chat('openai', 2.5e-6, 1e-5),
  'gpt-4o-mini': chat('openai', 1.5e-7, 6e-7),
  'gpt-5': chat('openai', 1.25e-6, 1e-5),
  'gpt-5.4': chat('openai', 2.5e-6, 1.5e-5),
  'gpt-5.4-pro': chat('openai', 3e-5, 1.8e-4),
  'azure/gpt-4o': chat('azure', 2.5e-6, 1e-5),
  'azure/gpt-4.1': chat('azure', 2e-6, 8e-6),
  'claude-sonnet-5': chat('anthropic', 2e-6, 1e-5),
  'claude-haiku-4-5-20251001': chat('anthropic', 1e-6, 5e-6),
  'us.anthropic.claude-haiku-4-5-20251001-v1:0': chat('bedrock_converse', 1.1e-6, 5.5e-6),
  'vertex_ai/meta/llama-4-maverick-17b-128e-instruct-maas': chat(
    'vertex_ai-llama_models',
    3.5e-7,
    1.15e-6,
  ),
  'gemini/gemini-3.5-flash': chat('gemini', 1.5e-6, 9e-6),
  'groq/openai/gpt-oss-120b': chat('groq', 1.5e-7, 6e-7),
  'mistral/mistral-large-latest': chat('mistral', 5e-7, 1.5e-6),
  'command-a-03-2025': chat('cohere_chat', 2.5e-6, 1e-5),
  'text-embedding-3-small': { ...chat('openai', 2e-8, 0), mode: 'embedding' },
  'cohere/embed-v4.0': { ...chat('cohere', 1.2e-7, 0), mode: 'embedding' },
  'gpt-image-2': {
    litellm_provider: 'openai',
    mode: 'image_generation',
    input_cost_per_token: 5e-6,
    output_cost_per_image_token: 3e-5,
  },
  'whisper-1': {
    litellm_provider: 'openai',
    mode: 'audio_transcription',
    input_cost_per_second: 1e-4,
  },
}

const NAMES = [
  'gpt-4o',
  'gpt-4o-mini',
  'gpt-5.4',
  'gpt-5.4-pro',
  'openai/gpt-5',
  'azure-gpt-4o',
  'azure-gpt-4.1',
  'contracts',
  'claude-sonnet',
  'claude-haiku',
  'claude-bedrock',
  'llama-vertex',
  'gemini-flash',
  'gpt-oss',
  'mistral-large',
  'command-a',
  'deepseek',
  'local-llama',
  'house-chat',
  'text-embedding-3-small',
  'embed-v4',
  'draw',
  'whisper-1',
]
const WITHOUT_PRICE = ['contracts', 'house-chat']
/** What each key may use, of those that work. */
const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  'sk-invented-openai-only-07': [
    'gpt-4o',
    'gpt-4o-mini',
    'gpt-5.4',
    'gpt-5.4-pro',
    'openai/gpt-5',
    'text-embedding-3-small',
    'whisper-1',
  ],
  'sk-invented-helper-08': ['gpt-4o', 'claude-sonnet'],
  'sk-invented-web-01': ['gpt-4o', 'gpt-4o-mini', 'claude-haiku', 'text-embedding-3-small'],
  'sk-invented-research-10': ['gpt-5.4', 'gpt-5.4-pro', 'claude-sonnet', 'draw'],
}
/** A key of a blocked team, an expired one, one with other names of models, and one of an unknown user. */
const NOT_WORKING = [
  'sk-invented-pilot-04',
  'sk-invented-contractor-05',
  'sk-invented-swapped-06',
  'sk-invented-laptop-09',
]
const ADMIN = 'admin-token-of-the-migration'

/** A request for a model, at the endpoint of its kind. */
async function use(url: string, secret: string, model: string): Promise<Response> {
  const headers = { authorization: `Bearer ${secret}` }
  if (model === 'whisper-1') {
    const body = new FormData()
    body.set('model', model)
    body.set('file', new Blob([new Uint8Array(2000)], { type: 'audio/mpeg' }), 'a.mp3')
    return fetch(`${url}/v1/audio/transcriptions`, { method: 'POST', headers, body })
  }
  const [path, body] = /embed/.test(model)
    ? ['embeddings', { model, input: 'Hello' }]
    : model === 'draw'
      ? ['images/generations', { model, prompt: 'A cat' }]
      : ['chat/completions', { model, messages: [{ role: 'user', content: 'Hello' }] }]
  return fetch(`${url}/v1/${path}`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
}

it('a recorded LiteLLM proxy is served as the first line says', async (context) => {
  if (CONFIG === undefined || KEYS === undefined || TEAMS === undefined) {
    return context.skip('no recorded LiteLLM proxy; set FIXTURES_DIR to have it checked')
  }
  const cwd = await folder({
    'config.yaml': CONFIG,
    'tables/keys.csv': KEYS,
    'tables/teams.csv': TEAMS,
    'list.json': JSON.stringify(PRICES),
  })
  const command = ['import', 'litellm', '--config', 'config.yaml', '--tables', 'tables']
  const prices = ['--prices', 'list.json']
  const out = ['--out', 'gateway', '--json']
  const imported = await call([...command, ...prices, ...out], { cwd })
  expect(imported.code, imported.err).toBe(3)
  const { summary, needs } = JSON.parse(imported.out)
  expect(summary).toBe('21 of 23 models served, 2 not (no price); 10 keys: 8 active, 2 disabled')
  expect(imported.out).not.toContain('not-a-real-key')

  const upstream = await startUpstream()
  onTestFinished(() => upstream.close())
  upstream.answer(() => json({ error: { message: 'not today' } }, 400))
  const tokens = await startUpstream(json({ access_token: 'ya29.vertex', expires_in: 3599 }))
  onTestFinished(() => tokens.close())

  // The vendors are stand-ins; everything else is as it was written.
  const gatewayFolder = join(cwd, 'gateway')
  const file = join(gatewayFolder, 'gateway.config.yaml')
  const config = parseYAML<any>(await readFile(file, 'utf8'))
  delete config.sinks
  for (const provider of Object.values<any>(config.providers)) {
    provider.options = { ...provider.options, baseURL: `${upstream.url}/v1` }
    if (provider.options.vertex) {
      provider.options.vertex.credentials = JSON.stringify({
        type: 'authorized_user',
        client_id: 'c',
        client_secret: 's',
        refresh_token: 'r',
        token_uri: tokens.url,
      })
    }
  }
  await writeFile(file, stringifyYAML(config))
  const env = {
    ...Object.fromEntries(needs.map((name: string) => [name, 'value'])),
    SLUICEGATE_ADMIN_TOKEN: ADMIN,
  }
  const checked = await call(['check'], { cwd: gatewayFolder, env })
  expect(checked.code).toBe(1)
  expect(checked.out.split('\n')[0]).toBe(summary.split(';')[0])

  const url = await inMemory.served({ cwd: gatewayFolder, env })
  const apply = [...command, ...prices, '--url', url, '--apply', '--credits', '100']
  const applied = await call(apply, { cwd, env: { SLUICEGATE_ADMIN_TOKEN: ADMIN } })
  expect(applied.out).toContain('Keys: 10 created, 0 there already, 0 refused.')
  const again = await call(apply, { cwd, env: { SLUICEGATE_ADMIN_TOKEN: ADMIN } })
  expect(again.out).toContain('Keys: 0 created, 10 there already, 0 refused.')

  // What answers is what the first line says.
  await ask(url, ADMIN, '/admin/accounts', { id: 'tester', name: 'Tester' })
  await ask(url, ADMIN, '/admin/accounts/tester/credits', { usd: '1000' })
  const made = await ask(url, ADMIN, '/admin/accounts/tester/keys', { name: 'tester' })
  const secret = made.json.key
  const reached: string[] = []
  for (const name of NAMES) {
    const before = upstream.requests.length
    const answer = await use(url, secret, name)
    await answer.text()
    if (upstream.requests.length > before) reached.push(name)
    else expect([name, answer.status]).toEqual([name, 404])
  }
  expect(reached).toEqual(NAMES.filter((name) => !WITHOUT_PRICE.includes(name)))
  expect(
    upstream.requests.some(({ path }) => path.endsWith('/endpoints/openapi/chat/completions')),
  ).toBe(true)

  // No key does more than it did.
  for (const key of NOT_WORKING) {
    expect([key, (await ask(url, key, '/v1/key')).status]).toEqual([key, 401])
  }
  for (const [key, allowed] of Object.entries(ALLOWED)) {
    const usable: string[] = []
    for (const name of NAMES) {
      const answer = await use(url, key, name)
      const { error } = (await answer.json()) as { error?: { code?: string } }
      const isRefused = answer.status === 404 || error?.code === 'model_not_allowed'
      if (!isRefused) usable.push(name)
    }
    expect([key, usable]).toEqual([key, allowed])
  }
  const helper = await ask(url, 'sk-invented-helper-08', '/v1/key')
  expect(helper.json.data).toMatchObject({ spend_cap_usd: 33.75, spend_cap_scope: 'lifetime' })
  const limitsOf = async (key: string) => {
    const { limits } = (await ask(url, key, '/v1/key')).json.data
    return limits.map((one: { limit: string; value: unknown }) => `${one.limit} ${one.value}`)
  }
  expect(await limitsOf('sk-invented-ci-03')).toEqual(
    expect.arrayContaining(['key.cap.week 25', 'team.cap.week 100']),
  )
  expect(await limitsOf('sk-invented-batch-02')).toEqual(
    expect.arrayContaining(['key.tokens.minute 200000', 'team.tokens.minute 500000']),
  )
}, 120_000)
