/** The list of models in the official clients of OpenAI, Anthropic and OpenRouter, with the models of their keys. */
import Anthropic from '@anthropic-ai/sdk'
import { OpenRouter } from '@openrouter/sdk'
import OpenAI from 'openai'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createTestGateway, type TestGateway } from '../_setup.ts'
import { loadStarter } from '../models/_vendors.ts'

/** A gateway with the keys of six vendors, and the ids of its models by modality. */
async function gateway(): Promise<{ t: TestGateway; ids: Map<string, string[]> }> {
  const keys = ['OPENAI', 'ANTHROPIC', 'OPENROUTER', 'MISTRAL', 'COHERE', 'ELEVENLABS']
  const env = Object.fromEntries(keys.map((name) => [`${name}_API_KEY`, 'key']))
  const t = await createTestGateway(await loadStarter(env))
  onTestFinished(() => t.close())
  const { json } = await t.ask('GET', '/v1/models', { key: null })
  const groups = Map.groupBy(json.data as any[], ({ modality }) => modality as string)
  return { t, ids: new Map([...groups].map(([one, models]) => [one, models.map(({ id }) => id)])) }
}

describe('the list of models', () => {
  it('is one page for the client of OpenAI', async () => {
    const { t, ids } = await gateway()
    const client = new OpenAI({ baseURL: t.baseURL, apiKey: t.key.secret })
    const listed = []
    for await (const { id, object, created, owned_by } of client.models.list()) {
      listed.push(id)
      expect([object, typeof created, id.startsWith(`${owned_by}/`)]).toEqual([
        'model',
        'number',
        true,
      ])
    }
    expect(listed.toSorted()).toEqual([...ids.values()].flat().toSorted())
  })

  it('is one page for the client of Anthropic', async () => {
    const { t, ids } = await gateway()
    const client = new Anthropic({
      baseURL: t.baseURL.replace(/\/v1$/, ''),
      authToken: t.key.secret,
    })
    const listed = []
    for await (const model of client.models.list({ limit: 1000 })) {
      listed.push(model.id)
      expect([model.type, model.display_name !== '']).toEqual(['model', true])
      expect(Date.parse(model.created_at)).not.toBeNaN()
    }
    expect(listed.toSorted()).toEqual([...ids.values()].flat().toSorted())
  })

  it('is parsed by the client of OpenRouter, the chat models alone', async () => {
    const { t, ids } = await gateway()
    const client = new OpenRouter({ serverURL: t.baseURL, apiKey: t.key.secret })
    for (const limit of [undefined, 100]) {
      const listed: string[] = []
      // With a limit the client asks for further pages, until one is short.
      const query = { outputModalities: 'text', ...(limit && { limit }) }
      for await (const { result } of await client.models.list(query)) {
        listed.push(...result.data.map(({ id }) => id))
      }
      expect(listed.length).toBeGreaterThan(100)
      expect(listed).toEqual(ids.get('chat'))
    }
  })
})
