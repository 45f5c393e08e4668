/** What a list of messages says of itself, walked once and derived for longer lists. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { bytesIn, conversationOf, withMessage } from '../../../src/endpoints/chat/conversation.ts'
import { readChatRequest } from '../../../src/endpoints/chat/dialects/chat/read.ts'
import { outboundChat, type ChatRequest } from '../../../src/endpoints/chat/request.ts'
import type { ChatMessage } from '../../../src/plugin.ts'
import { runs } from '../../_runs.ts'
import { bodies } from './request.bodies.ts'
import { addressesIn } from '../../../src/endpoints/chat/endpoint.ts'
import { SEED } from '../../_seed.ts'

const picture = { type: 'image_url', image_url: { url: 'https://a.example/1.png', detail: 'low' } }
const CHAT = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: [{ type: 'text', text: 'Grüße' }, picture] },
  {
    role: 'assistant',
    content: null,
    refusal: null,
    tool_calls: [{ id: 'c1', function: { name: 'f', arguments: '{}' } }],
    reasoning_details: [{ type: 'reasoning.text', text: 'So.', signature: 'first' }],
  },
  { role: 'tool', tool_call_id: 'c1', content: 'Done.' },
  { role: 'assistant', content: 'Well.', reasoning_details: [{ data: 'second' }, { text: '' }] },
  { role: 'assistant', content: 'Yes.', reasoning_details: [{ signature: '' }] },
  {
    role: 'user',
    content: [
      { type: 'input_audio', input_audio: { data: 'A'.repeat(4000), format: 'wav' } },
      { type: 'file', file: { file_data: 'HTTPS://b.example/2.pdf', filename: null } },
    ],
  },
] as unknown as readonly ChatMessage[]

describe('a conversation', () => {
  it('says its media, what they need, and where they are', () => {
    const { media, needs } = conversationOf(CHAT)
    expect(media).toEqual({
      parts: 3,
      inlineBytes: 4000,
      imageTokens: 100,
      soundTokens: 6,
      fileTokens: 1500,
    })
    expect(needs).toEqual({
      VISION: 'messages[1].content[1]',
      AUDIO_INPUT: 'messages[6].content[0]',
      FILE_INPUT: 'messages[6].content[1]',
    })
    expect(addressesIn(CHAT)).toEqual([
      { url: 'https://a.example/1.png', param: 'messages[1].content[1].image_url.url' },
      { url: 'HTTPS://b.example/2.pdf', param: 'messages[6].content[1].file.file_data' },
    ])
  })

  it('has the signature of the last answer that has one', () => {
    expect(conversationOf(CHAT).signature).toBe('second')
    expect(conversationOf(CHAT.slice(0, 4)).signature).toBe('first')
    expect(conversationOf(CHAT.slice(0, 2)).signature).toBeUndefined()
  })

  it('counts the tokens as they are written, and the bytes as they are sent', () => {
    const { eighths, bytes, messages } = conversationOf(CHAT)
    expect(messages).toHaveLength(CHAT.length)
    expect(messages[0]).toBe(CHAT[0])
    expect(bytes).toBe(bytesIn(messages))
    expect(bytesIn(CHAT) - bytes).toBe('refusal'.length + 8 + 'filename'.length + 8 - 12)
    // The type of a call that the client left out.
    expect(conversationOf(messages).eighths - eighths).toBe(2 * ('type'.length + 3 + 11))
  })

  it('sees addresses in parts of any type: vendors may read them there', () => {
    const content = [{ type: 'text', text: 'x', image_url: { url: 'http://10.0.0.1/' } }]
    expect(addressesIn([{ role: 'user', content } as unknown as ChatMessage])).toEqual([
      { url: 'http://10.0.0.1/', param: 'messages[0].content[0].image_url.url' },
    ])
  })
})

describe(`any conversation (seed ${SEED})`, () => {
  /** The same messages, which no list of has been walked. */
  const fresh = (messages: readonly ChatMessage[]) => conversationOf([...messages])

  it('is the same list for vendors where nothing changes, and says the same of itself then', () => {
    fc.assert(
      fc.property(bodies(), (body) => {
        const { messages } = outboundChat(readChatRequest(body) as ChatRequest)
        const known = conversationOf(messages)
        expect(known.messages).toBe(messages)
        expect(known).toEqual(fresh(messages))
        expect(known.bytes).toBe(bytesIn(messages))
      }),
      { seed: SEED, numRuns: runs(170) },
    )
  })

  it('is known for a list with one more message as if it were walked', () => {
    fc.assert(
      fc.property(bodies(), fc.nat(9), fc.string(), (body, at, content) => {
        const { messages } = outboundChat(readChatRequest(body) as ChatRequest)
        const place = Math.min(at, messages.length)
        const longer = withMessage(messages, place, { role: 'system', content })
        expect(longer).toEqual(messages.toSpliced(place, 0, { role: 'system', content }))
        const { needs: _client, ...derived } = conversationOf(longer)
        const { needs: _own, ...known } = fresh(longer)
        expect(derived).toEqual(known)
        expect(addressesIn(longer)).toEqual(addressesIn([...longer]))
      }),
      { seed: SEED, numRuns: runs(170) },
    )
  })
})
