import { describe, expect, it } from 'vitest'
import openai from '../../../providers/openai.ts'
import { setUp } from '../_chat.ts'
import { CHATS, NO_CHAT, readBack } from '../_openai.ts'
import { replayAll } from '../_recorded.ts'

/** Failure class of each recorded error. Those with status 200 come in the middle of a stream. */
const FAILURES: Readonly<Record<string, string>> = {
  'openai/chat-stream-cut': 'upstream_error',
  'openai/chat-stream-error-mid-stream': 'upstream_error',
  'openai/error-400-context-length': 'context_length',
  'openai/error-400-image-url': 'bad_request',
  'openai/error-400-legacy-parameter': 'bad_request',
  'openai/error-400-unsupported-role': 'bad_request',
  'openai/error-400-web-search-unsupported': 'bad_request',
  'openai/error-401-invalid-key': 'upstream_auth',
  'openai/error-429-insufficient-quota': 'upstream_balance',
  'openai/error-429-rate-limit': 'upstream_rate',
  'openai/error-500': 'upstream_error',
  'openai/error-503-html': 'overloaded',
}

replayAll(
  {
    title: 'recorded chats with openai',
    vendors: ['openai'],
    path: CHATS,
    wanted: ({ name }) => !NO_CHAT.test(name) || name in FAILURES,
    failures: FAILURES,
    setUp: (_vendor, url) => setUp(openai, { baseURL: `${url}/v1`, apiKey: 'sk-operator' }),
    readBack,
  },
  ({ outcomeOf }) => {
    describe('by eye', () => {
      it('a refusal, annotations, audio input, and both sides of a cache', async () => {
        const refusal = await outcomeOf('openai/chat-refusal')
        expect(refusal.completion.choices[0]!.message).toMatchObject({
          content: null,
          refusal: "I'm very sorry, but I can't assist with that request.",
        })
        const search = await outcomeOf('openai/chat-search-annotations')
        expect(search.completion.choices[0]!.message.annotations[0]).toMatchObject({
          type: 'url_citation',
          url_citation: { url: expect.stringMatching(/^https/), title: expect.any(String) },
        })
        const audio = await outcomeOf('openai/chat-audio-input')
        expect(audio.usage!.prompt_tokens_details).toMatchObject({ audio_tokens: 44 })
        const written = await outcomeOf('openai/chat-prompt-cache-write')
        expect(written.usage!.prompt_tokens_details).toMatchObject({
          cached_tokens: 0,
          cache_write_tokens: 4012,
        })
        const read = await outcomeOf('openai/chat-prompt-cache-read')
        expect(read.usage!.prompt_tokens_details).toMatchObject({ cached_tokens: 4012 })
      })

      it('parallel calls in a stream', async () => {
        const { completion } = await outcomeOf('openai/chat-stream-tools-parallel')
        const calls = completion.choices[0]!.message.tool_calls
        expect(calls).toHaveLength(2)
        for (const call of calls)
          expect(JSON.parse(call.function.arguments)).toHaveProperty('location')
      })

      it('every legal oddity of an event stream', async () => {
        const { completion, usage } = await outcomeOf('openai/chat-stream-split-frames')
        expect(completion.choices[0]!.message.content).toBe('AB')
        expect(usage).toMatchObject({ prompt_tokens: 8, completion_tokens: 2 })
      })

      it('tells how long to wait', async () => {
        expect((await outcomeOf('openai/error-429-rate-limit')).failure!.retryAfterMs).toBe(1240)
      })

      it('shows the client the error of its request, without private parts', async () => {
        const role = (await outcomeOf('openai/error-400-unsupported-role')).failure!
        expect(role).toMatchObject({
          code: 'unsupported_value',
          param: 'messages[0].role',
          message:
            "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
        })
      })
    })
  },
)
