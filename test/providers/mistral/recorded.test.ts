import { describe, expect, it } from 'vitest'
import mistral from '../../../providers/mistral.ts'
import { setUp } from '../_chat.ts'
import { CHATS, NO_CHAT, readBack } from '../_openai.ts'
import { replayAll } from '../_recorded.ts'

/** Failure class of each recorded error. Those with status 200 come in the middle of a stream. */
const FAILURES: Readonly<Record<string, string>> = {
  'mistral/error-400-tool-call-id': 'bad_request',
  'mistral/error-401': 'upstream_auth',
  'mistral/error-422': 'bad_request',
  'mistral/error-429': 'upstream_rate',
}

replayAll(
  {
    title: 'recorded chats with mistral',
    vendors: ['mistral'],
    path: CHATS,
    wanted: ({ name }) => !NO_CHAT.test(name) || name in FAILURES,
    failures: FAILURES,
    setUp: (_vendor, url) => setUp(mistral, { baseURL: `${url}/v1`, apiKey: 'sk-operator' }),
    readBack,
  },
  ({ outcomeOf }) => {
    describe('by eye', () => {
      it('thoughts and text in one array, and text on the finish chunk', async () => {
        const streamed = await outcomeOf('mistral/chat-stream-thinking')
        const { message, finish_reason } = streamed.completion.choices[0]!
        expect(message.content).toBe('144')
        expect(message.reasoning).toMatch(/^The user is asking for.*4\.$/s)
        expect(finish_reason).toBe('stop')
        const { completion } = await outcomeOf('mistral/chat-reasoning')
        expect(completion.choices[0]!.message).toMatchObject({
          content: '2 + 2 = 4',
          reasoning: 'The user is asking for 2+2. This is basic arithmetic. 2+2=4.',
        })
      })

      it('arguments in pieces, under empty names', async () => {
        const { completion, usage } = await outcomeOf('mistral/chat-stream-tool-call-incremental')
        expect(completion.choices[0]!.message.tool_calls).toEqual([
          {
            id: 'chatcmpl-tool-9f149c74c42f265b',
            type: 'function',
            function: { name: 'webSearchTool', arguments: '{"query": "current Berlin weather"}' },
          },
        ])
        expect(usage!.prompt_tokens_details!.cached_tokens).toBe(128)
      })

      it('shows the client the error of its request', async () => {
        const extra = (await outcomeOf('mistral/error-422')).failure!
        expect(extra).toMatchObject({
          code: 'upstream_rejected',
          param: 'logit_bias',
          message: 'logit_bias: Extra inputs are not permitted',
        })
      })
    })
  },
)
