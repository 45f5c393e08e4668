/** Claude Code with an address and a key and nothing else: the models that it asks for by itself answer. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { FakeUpstream } from '../upstream.ts'
import { gatewayOf, standIn } from './_vendors.ts'

let vendor: FakeUpstream
let turn: any
beforeAll(async () => {
  vendor = await standIn()
  const file = join(import.meta.dirname, '../wire/clients/claude-code.json')
  const { requests } = JSON.parse(await readFile(file, 'utf8'))
  turn = requests.find(({ url }: any) => url.startsWith('/v1/messages'))
})
afterAll(() => vendor.close())

/**
 * The models that Claude Code asks for when a person chooses opus, sonnet or haiku, or configures these words, with the
 * vendor's name of each, by vendor.
 */
const ANSWERED: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  anthropic: {
    'claude-opus-4-8': 'claude-opus-4-8',
    opus: 'claude-opus-5-5',
    'claude-sonnet-5': 'claude-sonnet-5',
    sonnet: 'claude-sonnet-5-5',
    'claude-haiku-4-5-20251001': 'claude-haiku-4-5-20251001',
    'claude-haiku-4-5': 'claude-haiku-4-5',
    haiku: 'claude-haiku-5-5',
  },
  openrouter: {
    'claude-opus-4-8': 'anthropic/claude-opus-4.8',
    'claude-opus-5-5': 'anthropic/claude-opus-5.5',
    opus: '~anthropic/claude-opus-latest',
    'claude-sonnet-5': 'anthropic/claude-sonnet-5',
    'claude-sonnet-5-5': 'anthropic/claude-sonnet-5.5',
    sonnet: '~anthropic/claude-sonnet-latest',
    'claude-haiku-4-5-20251001': 'anthropic/claude-haiku-4.5',
    'claude-haiku-4-5': 'anthropic/claude-haiku-4.5',
    'claude-haiku-5-5': 'anthropic/claude-haiku-5.5',
    haiku: '~anthropic/claude-haiku-latest',
  },
}

it.each(['anthropic', 'openrouter'])('with the key of %s, its turns are answered', async (name) => {
  const gateway = await gatewayOf(vendor, [name])
  for (const [model, atVendor] of Object.entries(ANSWERED[name]!)) {
    // A subagent has fewer tools; a question beside the conversation waits for no stream.
    for (const more of [{}, { tools: turn.body.tools.slice(0, 1) }, { stream: false }]) {
      const { authorization: _, ...headers } = turn.headers
      const { status, text } = await gateway.ask('POST', turn.url, {
        headers,
        body: { ...turn.body, ...more, model },
      })
      expect([model, status, text]).toEqual([model, 200, expect.stringContaining('Hello')])
      expect(vendor.requests.at(-1)!.json.model).toBe(atVendor)
    }
  }
})
