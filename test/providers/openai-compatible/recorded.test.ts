import { describe, expect, it } from 'vitest'
import openaiCompatible from '../../../providers/openai-compatible.ts'
import { setUp } from '../_chat.ts'
import { CHATS, NO_CHAT, readBack } from '../_openai.ts'
import { replayAll } from '../_recorded.ts'

const ROWS: Readonly<Record<string, string | undefined>> = {
  alibaba: 'alibaba',
  cerebras: 'cerebras',
  deepseek: 'deepseek',
  'google-openai-compat': 'google',
  groq: 'groq',
  llamacpp: 'llamacpp',
  lmstudio: 'lmstudio',
  moonshot: 'moonshot',
  ollama: 'ollama',
  'openai-compatible': undefined,
  openrouter: 'openrouter',
  perplexity: 'perplexity',
  together: 'together',
  vllm: 'vllm',
  xai: 'xai',
}

/** Failure class of each recorded error. Those with status 200 come in the middle of a stream. */
const FAILURES: Readonly<Record<string, string>> = {
  'deepseek/error-400-context': 'context_length',
  'deepseek/error-400-missing-reasoning': 'bad_request',
  'deepseek/error-401': 'upstream_auth',
  'deepseek/error-402-balance': 'upstream_balance',
  'groq/chat-stream-error-mid-stream': 'upstream_error',
  'groq/error-400-tool-use-failed': 'upstream_error',
  'groq/error-404-model': 'not_found',
  'groq/error-429': 'upstream_rate',
  'llamacpp/error-400-context': 'context_length',
  'llamacpp/error-503-loading': 'overloaded',
  'ollama/error-401': 'upstream_auth',
  'openrouter/chat-stream-error': 'bad_request',
  'openrouter/error-400-context': 'context_length',
  'openrouter/error-429': 'upstream_rate',
  'perplexity/error-401': 'upstream_auth',
  'vllm/chat-stream-error-mid-stream': 'upstream_error',
  'vllm/error-400-old-shape': 'context_length',
  'xai/error-400-bad-key': 'upstream_auth',
}

replayAll(
  {
    title: 'recorded chats',
    vendors: Object.keys(ROWS),
    path: CHATS,
    wanted: ({ name }) => !NO_CHAT.test(name) || name in FAILURES,
    failures: FAILURES,
    setUp(vendor, url) {
      const quirks = ROWS[vendor]
      return setUp(openaiCompatible, { baseURL: `${url}/v1`, ...(quirks ? { quirks } : {}) })
    },
    ask({ name, stream }) {
      const options = name.includes('think-tags') ? { reasoning: 'tags' } : {}
      return [{ stream }, { options }]
    },
    readBack,
  },
  ({ outcomeOf }) => {
    describe('by eye', () => {
      it('groq: usage hidden under x_groq', async () => {
        const { usage } = await outcomeOf('groq/chat-stream-x-groq-usage-only')
        expect(usage).toMatchObject({ prompt_tokens: 18, completion_tokens: 73 })
      })

      it('groq: reasoning, then a whole tool call in one delta', async () => {
        const { completion, usage } = await outcomeOf('groq/chat-stream-tools-reasoning-usage')
        const { message, finish_reason } = completion.choices[0]!
        expect(message.reasoning).toMatch(/^We need to/)
        expect(message.reasoning_details).toEqual([
          {
            type: 'reasoning.text',
            text: message.reasoning,
            id: null,
            format: 'unknown',
            index: 0,
          },
        ])
        expect(message.tool_calls).toEqual([
          {
            id: 'fc_bfb39741-3748-4def-9886-a93fc9c64a90',
            type: 'function',
            function: { name: 'get_something_by_name', arguments: '{"name":"example"}' },
          },
        ])
        expect(finish_reason).toBe('tool_calls')
        expect(usage).toMatchObject({
          prompt_tokens: 304,
          completion_tokens: 49,
          completion_tokens_details: { reasoning_tokens: 23 },
        })
      })

      it('groq: a call that failed its validation shows nothing of what was generated', async () => {
        const { failure, completion } = await outcomeOf('groq/chat-stream-error-mid-stream')
        expect(completion.choices[0]!.message.reasoning).toMatch(/^We need to call the/)
        expect(JSON.stringify(failure!.message)).not.toMatch(/invalid_param|get_something/)
        expect(failure!.failover).toBe(true)
      })

      it('deepseek: cache hits, and reasoning inside the completion', async () => {
        const { completion, usage } = await outcomeOf('deepseek/chat-stream-tool-call')
        expect(completion.choices[0]!.message.tool_calls[0]).toEqual({
          id: 'call_00_ioIn7yN9p1ZOMNpDLwd4MgAF',
          type: 'function',
          function: { name: 'weather', arguments: '{"location": "San Francisco"}' },
        })
        expect(usage).toMatchObject({
          prompt_tokens: 339,
          completion_tokens: 83,
          prompt_tokens_details: { cached_tokens: 320 },
          completion_tokens_details: { reasoning_tokens: 39 },
        })
      })

      it('deepseek: comments while it queues', async () => {
        const { completion, usage } = await outcomeOf('deepseek/chat-stream-keep-alive')
        expect(completion.choices[0]!.message.content).toBe('Hi')
        expect(usage!.prompt_tokens_details!.cached_tokens).toBe(832)
      })

      it('xai: reasoning beside the completion is put inside, and its price is known', async () => {
        const streamed = await outcomeOf('xai/chat-stream-text')
        expect(streamed.completion.choices[0]!.message.content).toMatch(/^G/)
        expect(streamed.usage).toMatchObject({
          prompt_tokens: 12,
          completion_tokens: 342,
          completion_tokens_details: { reasoning_tokens: 340 },
          vendor_cost: '0.000172125',
        })
        const { usage } = await outcomeOf('xai/chat-text')
        expect(usage).toMatchObject({ completion_tokens: 322, vendor_cost: '0.00016415' })
      })

      it('openrouter: a signature in its own entry, and the reported cost', async () => {
        const { completion, usage } = await outcomeOf('openrouter/chat-stream-reasoning-details')
        const { message } = completion.choices[0]!
        expect(message.content).toBe('2 + 2 = 4')
        expect(message.reasoning_details).toEqual([
          {
            type: 'reasoning.text',
            text: message.reasoning,
            signature: expect.stringMatching(/^Et0BCkgIChACGAIqQ/),
            id: null,
            format: 'anthropic-claude-v1',
            index: 0,
          },
        ])
        expect(usage).toMatchObject({
          prompt_tokens: 43,
          completion_tokens: 36,
          completion_tokens_details: { reasoning_tokens: 13 },
          vendor_cost: '0.000669',
        })
      })

      it('openrouter: a call without a finish reason, whose fragments repeat the name', async () => {
        const { completion } = await outcomeOf('openrouter/chat-stream-tool-kimi')
        const { message, finish_reason } = completion.choices[0]!
        expect(message.tool_calls).toEqual([
          { id: '0', type: 'function', function: { name: 'llm_version', arguments: '{}' } },
        ])
        expect(finish_reason).toBe('tool_calls')
      })

      it('openrouter: citations that come first, and the searches behind them', async () => {
        const { completion, usage, chunks } = await outcomeOf(
          'openrouter/chat-stream-web-search-annotations',
        )
        const { annotations } = completion.choices[0]!.message
        expect(annotations.length).toBeGreaterThan(3)
        expect(annotations[0].url_citation).toMatchObject({
          url: 'https://github.com/pydantic/pydantic-ai',
          start_index: 0,
          end_index: 0,
        })
        expect(chunks.filter((chunk) => chunk.choices[0]?.delta?.annotations)).toHaveLength(1)
        expect(usage).toMatchObject({ searches: 1, vendor_cost: '0.0076509169' })
      })

      it('openrouter: what was produced before an error is counted', async () => {
        const { completion, usage } = await outcomeOf('openrouter/chat-stream-error')
        expect(completion.choices[0]!.message.reasoning).toBe(
          'We need to respond to a greeting. The user',
        )
        expect(usage).toMatchObject({
          prompt_tokens: 43,
          completion_tokens: 10,
          completion_tokens_details: { reasoning_tokens: 10 },
        })
      })

      it('openrouter: tokens written to a cache, and none', async () => {
        const { usage } = await outcomeOf('openrouter/chat-stream-cache-write')
        expect(usage!.prompt_tokens_details).toMatchObject({ cache_write_tokens: 0 })
      })

      it('together: an own finish reason', async () => {
        const { completion } = await outcomeOf('together/chat-plain')
        expect(completion.choices[0]).toMatchObject({
          message: { content: expect.stringMatching(/^ Why don't we ever hear secrets/) },
          finish_reason: 'stop',
        })
        expect(completion).not.toHaveProperty('prompt')
      })

      it('vllm: thoughts in tags are taken out of the answer', async () => {
        const { completion, usage } = await outcomeOf('vllm/chat-stream-think-tags')
        expect(completion.choices[0]!.message).toMatchObject({
          content: '4.',
          reasoning: '\nTwo and two is four.\n',
        })
        expect(usage).toMatchObject({ prompt_tokens: 14, completion_tokens: 16 })
      })

      it('vllm: both names of reasoning', async () => {
        const newer = await outcomeOf('vllm/chat-stream-reasoning')
        expect(newer.completion.choices[0]!.message).toMatchObject({
          content: '4',
          reasoning: 'Two and two is four.',
        })
        const older = await outcomeOf('vllm/chat-reasoning-content')
        expect(older.completion.choices[0]!.message.reasoning.length).toBeGreaterThan(100)
        expect(older.usage!.completion_tokens_details!.reasoning_tokens).toBe(293)
      })

      it('ollama: reasoning beside empty text, and a call beside both', async () => {
        const streamed = await outcomeOf('ollama/chat-stream-reasoning')
        expect(streamed.completion.choices[0]!.message.content).toBe('1  \n2  \n3')
        expect(streamed.usage).toMatchObject({ prompt_tokens: 17, completion_tokens: 289 })
        const { completion } = await outcomeOf('ollama/chat-tool-call')
        expect(completion.choices[0]!.message.tool_calls).toEqual([
          {
            id: 'call_o2vnpxrw',
            type: 'function',
            function: { name: 'final_result', arguments: '{"city":"Paris","country":"France"}' },
          },
        ])
      })

      it('llamacpp: usage next to timings', async () => {
        const { completion, usage, chunks } = await outcomeOf('llamacpp/chat-stream')
        expect(completion.choices[0]!.message).toMatchObject({
          content: 'Hello!',
          reasoning: 'Greeting.',
        })
        expect(usage).toMatchObject({ prompt_tokens: 12, completion_tokens: 9 })
        expect(JSON.stringify(chunks)).not.toContain('timings')
      })

      it('lmstudio: no usage at all', async () => {
        const { completion, usage } = await outcomeOf('lmstudio/chat-stream-no-usage')
        expect(completion.choices[0]).toMatchObject({
          message: { content: 'Hello!\n' },
          finish_reason: 'stop',
        })
        expect(usage).toBeUndefined()
      })

      it('cerebras: a whole answer with its thoughts', async () => {
        const { completion, usage } = await outcomeOf('cerebras/chat-reasoning')
        expect(completion.choices[0]!.message.content).toBe('25 * 4 = 100.')
        expect(completion.choices[0]!.message.reasoning).toMatch(/^The user wants me/)
        expect(usage!.completion_tokens_details!.reasoning_tokens).toBe(406)
      })

      it('moonshot: cached tokens at the top of usage', async () => {
        const { usage } = await outcomeOf('moonshot/chat-reasoning')
        expect(usage).toMatchObject({
          prompt_tokens: 20,
          completion_tokens: 30,
          prompt_tokens_details: { cached_tokens: 10 },
          completion_tokens_details: { reasoning_tokens: 22 },
        })
      })

      it('alibaba: fragments with empty ids', async () => {
        const { completion, usage } = await outcomeOf('alibaba/chat-stream-tool-call')
        expect(completion.choices[0]!.message.tool_calls).toEqual([
          {
            id: 'call_eee11723464a4b9eb8cee71d',
            type: 'function',
            function: { name: 'weather', arguments: '{"location": "San Francisco"}' },
          },
        ])
        expect(usage).toMatchObject({ prompt_tokens: 295, completion_tokens: 22 })
      })

      it('perplexity: sources as citations, anchored where the text names them, once', async () => {
        const { completion, usage, chunks } = await outcomeOf('perplexity/chat-stream-citations')
        const { content, annotations } = completion.choices[0]!.message
        expect(annotations).toHaveLength(7)
        const [first, second, third] = annotations.map((one: any) => one.url_citation)
        expect(first.url).toBe('https://populationstat.com/united-states/san-francisco')
        const anchor = ({ start_index: from, end_index: to }: any) =>
          [...content].slice(from, to).join('')
        expect([anchor(second), anchor(third)]).toEqual(['[2]', '[3]'])
        expect(chunks.filter((chunk) => chunk.choices[0]?.delta?.annotations)).toHaveLength(1)
        expect(usage).toMatchObject({ prompt_tokens: 10, completion_tokens: 336, searches: 1 })
      })

      it('perplexity: usage that grows counts once, and titles come with the sources', async () => {
        const { completion, usage } = await outcomeOf('perplexity/chat-stream-text')
        const { content, annotations } = completion.choices[0]!.message
        expect(content).toBe('1 2 3')
        expect(annotations[0].url_citation.title).toMatch(/^Counting to 3/)
        expect(usage).toMatchObject({ completion_tokens: 5, vendor_cost: '0.00501' })
      })

      it('google: thoughts are what is left of the total, and the signature is kept', async () => {
        const { completion, usage } = await outcomeOf(
          'google-openai-compat/chat-tool-call-empty-id',
        )
        const { message } = completion.choices[0]!
        expect(message.tool_calls[0]).toMatchObject({
          id: 'call_made_0',
          function: { name: 'get_current_time', arguments: '{}' },
        })
        expect(message.reasoning_details).toEqual([
          {
            type: 'reasoning.encrypted',
            data: expect.stringMatching(/^AVSoXO4Az/),
            id: null,
            format: 'google-gemini-v1',
            index: 0,
          },
        ])
        expect(usage).toMatchObject({
          prompt_tokens: 35,
          completion_tokens: 74,
          completion_tokens_details: { reasoning_tokens: 62 },
        })
      })

      it('openai-compatible: tool indexes that start above zero', async () => {
        const { completion } = await outcomeOf(
          'openai-compatible/chat-stream-tool-anthropic-fallback',
        )
        const { message, finish_reason } = completion.choices[0]!
        expect(message.content).toMatch(/^Reading/)
        expect(message.tool_calls).toHaveLength(1)
        expect(message.tool_calls[0].function.arguments).toMatch(/^\{"pa/)
        expect(finish_reason).toBe('tool_calls')
      })

      it('tells how long to wait', async () => {
        expect((await outcomeOf('groq/error-429')).failure!.retryAfterMs).toBe(8000)
        expect((await outcomeOf('openrouter/error-429')).failure!.retryAfterMs).toBeUndefined()
      })
    })
  },
)
