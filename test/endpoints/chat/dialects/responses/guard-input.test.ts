import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readResponsesRequest } from '../../../../../src/endpoints/chat/dialects/responses/read.ts'
import { chatTexts } from '../../../../../src/endpoints/chat/guard-input.ts'
import { InvalidRequest } from '../../../../../src/errors/errors.ts'
import { RawJson } from '../../../../../src/stream/raw-json.ts'
import { createTestGateway, MOCK_CONFIG } from '../../../../_setup.ts'
import { banned, BANNED } from '../_banned.ts'

const clients = join(import.meta.dirname, '../../../../wire/clients')

function textsOf(body: object): readonly string[] {
  const text = JSON.stringify(body)
  const { input } = readResponsesRequest(new RawJson(text, JSON.parse(text)))
  return chatTexts(input, []).items.map((item) => item.text)
}

describe('texts for guards', () => {
  const image = 'data:image/png;base64,iVBORw0KGgo='
  const more = {
    model: 'a/b',
    instructions: 'Be kind.',
    prompt_cache_key: 'k',
    metadata: { m: 'v' },
    text: { format: { type: 'json_schema', name: 'n', schema: { properties: { a: {} } } } },
    tools: [
      { type: 'web_search', user_location: { city: 'Paris' } },
      { type: 'function', name: 'f', description: 'd', parameters: { enum: ['e'] } },
      { type: 'custom', name: 'g', format: { type: 'grammar', syntax: 'lark', definition: 'x' } },
      { type: 'mcp', server_url: 'https://x' },
    ],
    tool_choice: { type: 'function', name: 'f' },
    input: [
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'Hi', more: 'c' },
          { type: 'input_image', image_url: image, detail: 'low' },
          { type: 'input_image', image_url: 'https://x.test/a.png' },
          { type: 'input_file', filename: 'F', file_url: 'https://x.test/a.pdf' },
        ],
      },
      {
        type: 'reasoning',
        id: 'rs_1',
        summary: [{ type: 'summary_text', text: 'S' }],
        encrypted_content: 'gAAA',
      },
      { type: 'web_search_call', id: 'ws_1', action: { type: 'search', query: 'q' } },
      { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{"a":["b"]}' },
      { type: 'custom_tool_call', call_id: 'c2', name: 'g', namespace: 'n', input: 'patch' },
      { type: 'function_call_output', call_id: 'c1', output: 'done' },
      { type: 'shell_call', call_id: 'c3', action: { commands: ['ls'] } },
      { type: 'shell_call_output', call_id: 'c3', output: [{ stdout: 'out' }] },
      { type: 'agent_message', author: 'z', content: [{ type: 'text', text: 'psst' }] },
      { type: 'odd', words: ['here'] },
    ],
  }
  const codex = JSON.parse(readFileSync(join(clients, 'codex.json'), 'utf8'))
  const [{ body }] = codex.requests
  /** Goes to no vendor. */
  const own = /^\.(model|policy|client_metadata)|^\.input\[\d+\]\.id$/

  it.each<[string, object]>([
    ['of a coding assistant', body],
    ['of every kind of item', more],
  ])('are all strings and names of a request %s', (_what, given) => {
    const missed: string[] = []
    let found = 0
    for (const { value, place } of banned(given)) {
      if (own.test(place)) continue
      try {
        if (textsOf(value as object).some((text) => text.includes(BANNED))) found++
        else missed.push(place)
      } catch (error) {
        // A word of the format with more behind it is no word of the format.
        if (!(error instanceof InvalidRequest)) throw error
      }
    }
    expect(missed).toEqual([])
    expect(found).toBeGreaterThan(30)
  })

  it('have no words of the format, and nothing that holds no words', () => {
    const texts = textsOf(more)
    const words = ['role', 'user', 'type', 'function_call', 'input_text', 'call_id', 'summary_text']
    for (const word of [...words, image, 'gAAA', 'a/b']) expect(texts).not.toContain(word)
  })

  it('are read where a vendor would get the request as it came', async () => {
    await using gateway = await createTestGateway(MOCK_CONFIG)
    const policy = { version: 1 as const, bannedPatterns: [BANNED], guard: { output: false } }
    const { secret: key } = await gateway.newKey({ policy })
    const post = async (members: object) => {
      const asked = { model: 'mock/echo', input: 'Hello', ...members }
      return (await gateway.ask('POST', '/v1/responses', { key, body: asked })).json.guard.outcome
    }
    expect(await post({ moderation: { note: `a ${BANNED}` } })).toBe('blocked')
    expect(await post({ moderation: { note: 'a fish' } })).toBe('passed')
  })
})
