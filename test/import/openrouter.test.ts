/** What the page for people of OpenRouter says: their names of models mean the same ones here. */
import { expect, it, onTestFinished } from 'vitest'
import { ask, inMemory } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { json, startUpstream } from '../upstream.ts'

/** Names of clients, and what OpenRouter is asked for; undefined where the client gets 404. */
const NAMES: readonly (readonly [name: string, asked: string | undefined])[] = [
  ['anthropic/claude-sonnet-4.5', 'anthropic/claude-sonnet-4.5'],
  ['openai/gpt-4o', 'openai/gpt-4o'],
  ['google/gemini-2.5-pro', 'google/gemini-2.5-pro'],
  ['openrouter/openai/gpt-5', 'openai/gpt-5'],
  ['openai/gpt-4o:nitro', 'openai/gpt-4o'],
  ['openai/gpt-4o:floor', 'openai/gpt-4o'],
  ['x-ai/grok-4:thinking', 'x-ai/grok-4'],
  ['meta-llama/llama-3.3-70b-instruct:free', 'meta-llama/llama-3.3-70b-instruct:free'],
  ['openai/gpt-4o:free', undefined],
  ['openrouter/auto', undefined],
  ['nobody/nothing', undefined],
]
const ADMIN = 'admin-token-of-the-migration'

it('names of OpenRouter mean the same models', async () => {
  const upstream = await startUpstream()
  onTestFinished(() => upstream.close())
  upstream.answer(() =>
    json({
      id: 'c',
      object: 'chat.completion',
      created: 1,
      model: 'm',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 10, completion_tokens: 10, total_tokens: 20 },
    }),
  )
  const cwd = await folder({
    'gateway.config.json': JSON.stringify({
      extends: 'starter',
      admin: { token: ADMIN },
      providers: { openrouter: { use: 'openrouter', options: { baseURL: `${upstream.url}/v1` } } },
    }),
  })
  const env = { OPENROUTER_API_KEY: 'sk-or-v1-invented' }
  const url = await inMemory.served({ cwd, env })
  await ask(url, ADMIN, '/admin/accounts', { id: 'tester', name: 'Tester' })
  await ask(url, ADMIN, '/admin/accounts/tester/credits', { usd: '100' })
  const { json: made } = await ask(url, ADMIN, '/admin/accounts/tester/keys', { name: 'tester' })
  for (const [name, asked] of NAMES) {
    const before = upstream.requests.length
    const { status, text } = await ask(url, made.key, '/v1/chat/completions', {
      model: name,
      messages: [{ role: 'user', content: 'Hello' }],
    })
    const request = upstream.requests[before]
    expect([name, status, request?.json.model], text).toEqual([
      name,
      asked === undefined ? 404 : 200,
      asked,
    ])
  }
}, 60_000)
