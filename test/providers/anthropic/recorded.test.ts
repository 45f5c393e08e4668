import { describe, expect, it } from 'vitest'
import anthropic from '../../../providers/anthropic.ts'
import type { Recording } from '../../fixtures.ts'
import { setUp } from '../_chat.ts'
import { readEvents, replayAll, type RecordedContent } from '../_recorded.ts'

const FAILURES = {
  'anthropic/error-400-effort': 'bad_request',
  'anthropic/error-400-too-long': 'context_length',
  'anthropic/error-401': 'upstream_auth',
  'anthropic/error-429': 'upstream_rate',
  'anthropic/error-529': 'overloaded',
  'anthropic/error-overloaded-at-start': 'overloaded',
  'anthropic/error-overloaded-mid-stream': 'overloaded',
}

replayAll(
  {
    title: 'recorded messages',
    vendors: ['anthropic'],
    path: /\/messages(\?|$)/,
    failures: FAILURES,
    setUp: (_vendor, url) => setUp(anthropic, { apiKey: 'sk-ant-test', baseURL: `${url}/v1` }),
    ask: ({ stream }) => [{ stream, max_completion_tokens: 1000 }, { model: 'claude-opus-5' }],
    readBack,
  },
  ({ outcomeOf }) => {
    async function answerOf(name: string) {
      const { completion, usage } = await outcomeOf(`anthropic/${name}`)
      const [choice] = completion.choices
      return { message: choice!.message, finish_reason: choice!.finish_reason, usage }
    }

    describe('by eye', () => {
      it('text, whole and streamed', async () => {
        const whole = await answerOf('text')
        expect(whole.message.content).toBe(
          "Hello! I'm doing well, thanks for asking. How are you doing today? Is there anything I can help you with?",
        )
        expect(whole.usage).toMatchObject({ prompt_tokens: 12, completion_tokens: 29 })
        const streamed = await answerOf('text-stream')
        expect(streamed.message.content).toBe(
          "Hello! I'm doing well, thank you for asking. How are you doing today? Is there anything I can help you with?",
        )
        expect(streamed.usage).toMatchObject({ prompt_tokens: 12, completion_tokens: 30 })
      })

      it('a call in pieces, and one without arguments', async () => {
        const { message, finish_reason } = await answerOf('tool-stream')
        expect(message.tool_calls).toEqual([
          {
            id: 'toolu_01CzN6riCPqw4pVSuTd9Dwn7',
            type: 'function',
            function: { name: 'pelican_name_generator', arguments: '{}' },
          },
        ])
        expect(finish_reason).toBe('tool_calls')
        const silent = await answerOf('tool-stream-no-args')
        expect(silent.message.content).toBe("I'll update the issue list for you.")
        expect(silent.message.tool_calls[0].function).toEqual({
          name: 'updateIssueList',
          arguments: '{}',
        })
      })

      it('four calls at once', async () => {
        const { message } = await answerOf('tools-parallel')
        expect(message.content).toMatch(/^I'll help you find out/)
        expect(message.tool_calls.map((call: any) => call.function.arguments)).toEqual([
          '{"name":"Alice"}',
          '{"name":"Bob"}',
          '{"name":"Charlie"}',
          '{"name":"Daisy"}',
        ])
      })

      it('thoughts, whose signature comes once and last', async () => {
        const { message, usage } = await answerOf('thinking-stream')
        expect(message.reasoning).toMatch(/^This is a straightforward question about pedestrian/)
        expect(message.reasoning_details).toEqual([
          {
            type: 'reasoning.text',
            text: message.reasoning,
            signature: expect.stringMatching(/^EvMCCkYICxgCKkCHP2cS.*hjfQYAQ==$/),
            id: null,
            format: 'anthropic-claude-v1',
            index: 0,
          },
        ])
        expect(message.content.length).toBeGreaterThan(20)
        expect(usage!.prompt_tokens).toBe(43)
      })

      it('two blocks of redacted thinking', async () => {
        const { message } = await answerOf('thinking-redacted-stream')
        expect(message.reasoning).toBeUndefined()
        const [first, second] = message.reasoning_details
        expect(message.reasoning_details).toHaveLength(2)
        expect(first).toMatchObject({ type: 'reasoning.encrypted', id: null, index: 0 })
        expect(first.data).toMatch(/^EqkECkYIBxgCKkA8AZ4n/)
        expect(second).toMatchObject({ type: 'reasoning.encrypted', index: 1 })
        expect(second.data).toMatch(/^EtgBCkYIBxgCKkDQfGkw.*Z1J0GAE=$/)
        expect(message.content).toMatch(/^I notice that you've sent what/)
      })

      it('how much was thought, where the vendor tells', async () => {
        const { message, usage } = await answerOf('thinking-token-details')
        expect(message).toMatchObject({
          content: '2 + 2 = 4',
          reasoning:
            "This is a straightforward arithmetic problem, so I'll just provide the answer directly.",
        })
        expect(usage).toMatchObject({
          prompt_tokens: 13,
          completion_tokens: 44,
          completion_tokens_details: { reasoning_tokens: 33 },
        })
      })

      it('both sides of a cache, inside the prompt', async () => {
        const read = await answerOf('cache-read')
        expect(read.usage).toMatchObject({
          prompt_tokens: 1114,
          prompt_tokens_details: { cached_tokens: 1111, cache_write_tokens: 0 },
        })
        const both = await answerOf('cache-read-and-write')
        expect(both.usage).toMatchObject({
          prompt_tokens: 3 + 1111 + 418,
          prompt_tokens_details: { cached_tokens: 1111, cache_write_tokens: 418 },
        })
        const streamed = await answerOf('cache-write-stream')
        expect(streamed.usage).toMatchObject({
          prompt_tokens: 1169,
          prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 1165 },
        })
      })

      it('images and a PDF', async () => {
        const shown = await answerOf('image-stream')
        expect(shown.message.content).toBe('Red square, green square.')
        expect(shown.usage).toMatchObject({ prompt_tokens: 83, completion_tokens: 9 })
        expect((await answerOf('image-url')).message.content).toMatch(/^This is a potato\./)
        const pdf = await answerOf('document-pdf')
        expect(pdf.message.content).toMatch(/^The document simply contains the text "Dummy PDF/)
        expect(pdf.usage!.prompt_tokens).toBe(1615)
      })

      it('an answer after a schema, and one that ends at a stop sequence', async () => {
        const { message } = await answerOf('json-schema-output')
        expect(message.content).toBe('{"name":"John","age":30}')
        const stopped = await answerOf('stop-sequence-stream')
        expect(stopped.message.content).toMatch(/^\ndef pelican\(\)/)
        expect(stopped.finish_reason).toBe('stop')
      })

      it('refusals, whole and streamed', async () => {
        for (const name of ['refusal', 'refusal-stream']) {
          const { message, finish_reason, usage } = await answerOf(name)
          expect(message.content).toBeNull()
          expect(message.refusal).toMatch(/^This request triggered restrictions on violative cyber/)
          expect(finish_reason).toBe('content_filter')
          expect(usage).toMatchObject({ prompt_tokens: 18, completion_tokens: 5 })
        }
      })

      it('counts that were wrong at first, and a message that begins twice', async () => {
        const late = await answerOf('message-delta-input-tokens-stream')
        expect(late.message.content).toBe('pong')
        expect(late.usage).toMatchObject({ prompt_tokens: 61, completion_tokens: 2 })
        const twice = await answerOf('duplicate-message-start-stream')
        expect(twice.message.content).toBe('Hello, World!')
        expect(twice.usage).toMatchObject({ prompt_tokens: 17, completion_tokens: 227 })
      })

      it('what was said before an error is counted as far as the vendor did', async () => {
        const { completion, usage, failure } = await outcomeOf(
          'anthropic/error-overloaded-mid-stream',
        )
        expect(completion.choices[0]!.message.content).toBe('Hello! I')
        // The gateway counts the text.
        expect(usage).toMatchObject({ prompt_tokens: 12, completion_tokens: 1 })
        expect(failure!.message).toBe('The model provider is overloaded at the moment.')
      })

      it('an error in place of a stream can still be tried elsewhere', async () => {
        const { chunks, usage, failure } = await outcomeOf('anthropic/error-overloaded-at-start')
        expect(chunks).toEqual([])
        expect(usage).toBeUndefined()
        expect(failure!.failover).toBe(true)
      })

      it('the key that was refused is the gateway’s, and the wait is the vendor’s', async () => {
        const { failure } = await outcomeOf('anthropic/error-401')
        expect(failure).toMatchObject({ status: 502, code: 'upstream_error', failover: true })
        expect(failure!.message).not.toMatch(/key/)
        expect((await outcomeOf('anthropic/error-429')).failure!.retryAfterMs).toBe(12_000)
      })

      it('what was wrong with a request is said, without ids', async () => {
        const effort = (await outcomeOf('anthropic/error-400-effort')).failure!
        expect(effort).toMatchObject({ status: 400, code: 'upstream_rejected' })
        expect(effort.message).toBe(
          "This model does not support effort level 'xhigh'. Supported levels: high, low, max, medium.",
        )
        const long = (await outcomeOf('anthropic/error-400-too-long')).failure!
        expect(long.code).toBe('context_length_exceeded')
      })
    })
  },
)

const REASONS: Readonly<Record<string, string>> = {
  max_tokens: 'length',
  refusal: 'content_filter',
  tool_use: 'tool_calls',
}

/** The content of a recording, read without the code under test. */
function readBack({ stream, body }: Recording): RecordedContent {
  const text = body.toString()
  const { content, stop_reason, usage } = stream ? gathered(readEvents(text)) : JSON.parse(text)
  const all = (type: string, member: string) =>
    content
      .filter((block: any) => block.type === type)
      .map((block: any) => block[member])
      .join('')
  return {
    content: all('text', 'text'),
    reasoning: all('thinking', 'thinking'),
    calls: content
      .filter((block: any) => block.type === 'tool_use')
      .map(({ name, input }: any) => ({ name, arguments: JSON.stringify(input) })),
    totalTokens:
      usage.input_tokens +
      (usage.cache_read_input_tokens ?? 0) +
      (usage.cache_creation_input_tokens ?? 0) +
      usage.output_tokens,
    finishReason: REASONS[stop_reason] ?? 'stop',
  }
}

/** The message of a recorded stream. */
function gathered(events: readonly any[]): any {
  const message: any = { content: [], usage: {} }
  for (const { type, index, message: begun, content_block, delta, usage } of events) {
    Object.assign(message.usage, begun?.usage, usage)
    if (type === 'content_block_start') message.content[index] = { json: '', ...content_block }
    if (type === 'message_delta') message.stop_reason = delta.stop_reason
    if (type === 'content_block_delta') {
      const block = message.content[index]
      block.json += delta.partial_json ?? ''
      if (delta.text) block.text += delta.text
      if (delta.thinking) block.thinking += delta.thinking
    }
  }
  for (const block of message.content) if (block.json) block.input = JSON.parse(block.json)
  return message
}
