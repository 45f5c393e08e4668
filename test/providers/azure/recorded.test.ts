import { describe, expect, it } from 'vitest'
import azure from '../../../providers/azure.ts'
import { setUp } from '../_chat.ts'
import { CHATS, readBack } from '../_openai.ts'
import { replayAll } from '../_recorded.ts'

const FAILURES: Readonly<Record<string, string>> = {
  'azure/error-400-content-filter': 'content_blocked',
  'azure/error-401': 'upstream_auth',
  'azure/error-404-deployment': 'not_found',
  'azure/error-429': 'upstream_rate',
}

replayAll(
  {
    title: 'recorded chats with azure',
    vendors: ['azure'],
    path: CHATS,
    failures: FAILURES,
    setUp: (_vendor, url) => setUp(azure, { baseURL: url, apiKey: 'operator-key' }),
    readBack: (recording) => ({
      ...readBack(recording),
      ...(recording.name === 'azure/chat-content-filtered' && { finishReason: 'content_filter' }),
    }),
  },
  ({ outcomeOf }) => {
    describe('by eye', () => {
      it('no filter results in an answer', async () => {
        const { completion, chunks, usage } = await outcomeOf('azure/chat-plain')
        expect(completion.choices).toEqual([
          {
            index: 0,
            message: {
              role: 'assistant',
              content:
                'Why did the developer bring OpenTelemetry to the party?\n\nBecause they wanted to trace all the fun events!',
              refusal: null,
            },
            logprobs: null,
            finish_reason: 'stop',
          },
        ])
        expect(JSON.stringify(chunks)).not.toMatch(/filter|hate|gpt-4\.1/)
        expect(usage).toMatchObject({ prompt_tokens: 16, completion_tokens: 22 })
      })

      it('an empty first chunk, and filter results on every other', async () => {
        const { completion, chunks, usage } = await outcomeOf('azure/chat-stream')
        expect(completion.choices[0]!.message.content).toMatch(/^Why did the.* step!$/s)
        expect(chunks[0]!.choices[0]!.delta).toEqual({
          role: 'assistant',
          content: '',
          refusal: null,
        })
        expect(JSON.stringify(chunks)).not.toMatch(/filter|hate|obfuscation/)
        expect(usage).toBeUndefined()
      })

      it('a choice without a delta, from a late filter', async () => {
        const late = await outcomeOf('azure/chat-stream-async-filter')
        const plain = await outcomeOf('azure/chat-stream')
        expect(late.completion.choices).toEqual(plain.completion.choices)
      })

      it('an answer that the filter removed', async () => {
        const { completion, usage } = await outcomeOf('azure/chat-content-filtered')
        expect(completion.choices[0]).toMatchObject({
          message: { content: '' },
          finish_reason: 'content_filter',
        })
        expect(usage).toMatchObject({ prompt_tokens: 15, completion_tokens: 19 })
      })

      it('usage of the router, and no price for another maker’s model', async () => {
        const { usage } = await outcomeOf('azure/chat-stream-model-router')
        expect(usage).toMatchObject({
          prompt_tokens: 15,
          completion_tokens: 78,
          completion_tokens_details: { reasoning_tokens: 64 },
        })
        const grok = await outcomeOf('azure/chat-stream-grok')
        expect(grok.completion.choices[0]!.message.content).toBe('1, 2, 3.')
        // The vendor reports 161 of 7.
        expect(grok.usage!.prompt_tokens_details!.cached_tokens).toBe(7)
        expect(grok.usage).not.toHaveProperty('vendor_cost')
      })

      it('filter categories of a prompt, without scores', async () => {
        const { failure } = await outcomeOf('azure/error-400-content-filter')
        expect(failure).toMatchObject({
          status: 400,
          code: 'content_policy_violation',
          message:
            'The content filter of the model provider blocked this request. It found: hate, self-harm, violence.',
        })
      })

      it('the wait, and invalid credentials', async () => {
        expect((await outcomeOf('azure/error-429')).failure).toMatchObject({
          status: 429,
          retryAfterMs: 1000,
        })
        const { failure } = await outcomeOf('azure/error-401')
        expect(failure).toMatchObject({ status: 502, code: 'upstream_error', failover: true })
        expect(failure!.message).not.toMatch(/key|subscription|endpoint/)
      })
    })
  },
)
