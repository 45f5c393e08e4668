import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readMessagesRequest } from '../../../../../src/endpoints/chat/dialects/messages/read.ts'
import { chatTexts } from '../../../../../src/endpoints/chat/guard-input.ts'
import { InvalidRequest } from '../../../../../src/errors/errors.ts'
import { RawJson } from '../../../../../src/stream/raw-json.ts'
import { createTestGateway, MOCK_CONFIG } from '../../../../_setup.ts'
import { banned, BANNED } from '../_banned.ts'

const clients = join(import.meta.dirname, '../../../../wire/clients')

function textsOf(body: object): readonly string[] {
  const text = JSON.stringify(body)
  const { input } = readMessagesRequest(new RawJson(text, JSON.parse(text)), () => undefined)
  return chatTexts(input, []).items.map((item) => item.text)
}

describe('texts for guards', () => {
  const media = { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' }
  const more = {
    model: 'a/b',
    max_tokens: 9,
    system: 'Be kind.',
    stop_sequences: ['END'],
    tools: [
      { type: 'web_search_20250305', name: 'web_search', user_location: { city: 'Paris' } },
      { name: 'f', description: 'd', input_schema: { properties: { a: { enum: ['e'] } } } },
    ],
    tool_choice: { type: 'tool', name: 'f' },
    mcp_servers: [{ url: 'https://x', authorization_token: 't' }],
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Hi', citations: [{ cited_text: 'c' }] },
          { type: 'image', source: media },
          { type: 'image', source: { type: 'url', url: 'https://x.test/a.png' } },
          { type: 'document', source: { type: 'text', data: 'D' }, title: 'T', context: 'C' },
          {
            type: 'search_result',
            source: 's',
            title: 't',
            content: [{ type: 'text', text: 'r' }],
          },
        ],
      },
      {
        role: 'assistant',
        content: [
          { type: 'compaction', content: 'We sailed.', encrypted_content: 'c3Vt' },
          { type: 'redacted_thinking', data: 'cmVk' },
          { type: 'tool_use', id: 't1', name: 'f', input: { a: ['b', { c: 'd' }] } },
          { type: 'server_tool_use', id: 's1', name: 'web_search', input: { query: 'q' } },
          {
            type: 'web_search_tool_result',
            tool_use_id: 's1',
            content: [
              {
                type: 'web_search_result',
                url: 'https://y',
                title: 'y',
                encrypted_content: 'eHg=',
              },
            ],
          },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 't1', content: 'done' },
          {
            type: 'tool_result',
            tool_use_id: 't2',
            content: [{ type: 'tool_reference', tool_name: 'get_weather' }],
          },
        ],
      },
    ],
  }
  const assistant = JSON.parse(readFileSync(join(clients, 'claude-code.json'), 'utf8'))
  const { body } = assistant.requests.find(({ method }: any) => method === 'POST')
  /** Goes to no vendor: a tool of another name is one of the operator's account. */
  const own = /^\.(model|policy|mcp_servers)|^\.messages\[1\]\.content\[3\]\.name$/

  it.each<[string, object]>([
    ['of a coding assistant', body],
    ['of every kind of block', more],
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
    const words = ['role', 'user', 'type', 'tool_use', 'base64', 'input_schema', 'image/png']
    words.push('compaction', 'tool_reference', 'tool_name', 'encrypted_content')
    for (const word of [...words, media.data, 'cmVk', 'eHg=', 'c3Vt', 'a/b']) {
      expect(texts).not.toContain(word)
    }
  })

  it('are read apart, although a model is shown them one behind the other', () => {
    const found = (tool_name: string) => ({ type: 'tool_reference', tool_name })
    const texts = textsOf({
      ...more,
      messages: [
        {
          role: 'assistant',
          content: [
            { type: 'compaction', content: 'Swords' },
            { type: 'text', text: 'Fish' },
          ],
        },
        {
          role: 'user',
          content: [{ type: 'tool_result', tool_use_id: 't', content: [found('a'), found('b')] }],
        },
      ],
    })
    expect(texts).toEqual(expect.arrayContaining(['Swords\n\nFish', 'a\nb\n']))
  })

  it('are read where a vendor would get the request as it came', async () => {
    await using gateway = await createTestGateway(MOCK_CONFIG)
    const policy = { version: 1 as const, bannedPatterns: [BANNED], guard: { output: false } }
    const { secret: key } = await gateway.newKey({ policy })
    const post = async (members: object) => {
      const messages = [{ role: 'user', content: 'Hello' }]
      const asked = { model: 'mock/echo', max_tokens: 9, messages, ...members }
      return (await gateway.ask('POST', '/v1/messages', { key, body: asked })).json.stop_reason
    }
    expect(await post({ context_management: { note: `a ${BANNED}` } })).toBe('refusal')
    expect(await post({ context_management: { note: 'a fish' } })).toBe('end_turn')
  })
})
