import { Ajv2020 } from 'ajv/dist/2020.js'
import * as fc from 'fast-check'
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import openaiCompatible from '../../providers/openai-compatible.ts'
import { byEvents, describeRecorded, whole, type Recording } from '../fixtures.ts'
import { cutAt, startUpstream, type Answer, type FakeUpstream } from '../upstream.ts'
import { setUp, type Outcome, type Setup } from './_chat.ts'

const ROWS: Readonly<Record<string, string | undefined>> = {
  alibaba: 'alibaba',
  cerebras: 'cerebras',
  deepseek: 'deepseek',
  'google-openai-compat': 'google',
  groq: 'groq',
  llamacpp: 'llamacpp',
  lmstudio: 'lmstudio',
  mistral: 'mistral',
  moonshot: 'moonshot',
  ollama: 'ollama',
  openai: 'openai',
  'openai-compatible': undefined,
  openrouter: 'openrouter',
  perplexity: 'perplexity',
  together: 'together',
  vllm: 'vllm',
  xai: 'xai',
}

/** What a recorded error stands for. Those under status 200 come in the middle of a stream. */
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
  'mistral/error-400-tool-call-id': 'bad_request',
  'mistral/error-401': 'upstream_auth',
  'mistral/error-422': 'bad_request',
  'mistral/error-429': 'upstream_rate',
  'ollama/error-401': 'upstream_auth',
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
  'openrouter/chat-stream-error': 'bad_request',
  'openrouter/error-400-context': 'context_length',
  'openrouter/error-429': 'upstream_rate',
  'perplexity/error-401': 'upstream_auth',
  'vllm/chat-stream-error-mid-stream': 'upstream_error',
  'vllm/error-400-old-shape': 'context_length',
  'xai/error-400-bad-key': 'upstream_auth',
}

const NO_CHAT = /image|transcription|speech|ocr|moderation/

const ajv = new Ajv2020({ strict: false })
const isChunk = ajv.compile(schema('chat-completion-chunk'))
const isCompletion = ajv.compile(schema('chat-completion'))

describeRecorded(
  'recorded chats',
  Object.keys(ROWS),
  /\/(chat\/completions|responses)$/,
  (recordings) => {
    const chats = recordings.filter(({ name }) => !NO_CHAT.test(name) || name in FAILURES)
    const answers = chats.filter(({ name }) => !(name in FAILURES))
    const streams = chats.filter(({ stream }) => stream)
    const byName = new Map(chats.map((recording) => [recording.name, recording]))

    let upstream: FakeUpstream
    const setups = new Map<string, Setup>()

    beforeAll(async () => {
      upstream = await startUpstream()
      for (const [vendor, quirks] of Object.entries(ROWS)) {
        const options = { baseURL: `${upstream.url}/v1`, ...(quirks ? { quirks } : {}) }
        setups.set(vendor, await setUp(openaiCompatible, options))
      }
    })

    afterAll(async () => {
      for (const setup of setups.values()) await setup[Symbol.asyncDispose]()
      await upstream.close()
    })

    function replay({ vendor, name, stream }: Recording, answer: Answer): Promise<Outcome> {
      upstream.answer(answer)
      const options = name.includes('think-tags') ? { reasoning: 'tags' } : {}
      return setups.get(vendor)!.outcome({ stream }, { options })
    }

    async function outcomeOf(name: string): Promise<Outcome> {
      const recording = byName.get(name)!
      return replay(recording, whole(recording))
    }

    it('knows the class of every recorded error', () => {
      const errors = chats.filter(({ name }) => name.includes('error') || name.includes('cut'))
      expect(Object.keys(FAILURES)).toEqual(expect.arrayContaining(errors.map(({ name }) => name)))
    })

    it.each(answers)('$name says what the vendor said', async (recording) => {
      const { completion, usage, failure } = await replay(recording, whole(recording))
      const said = readBack(recording)
      const { message, finish_reason } = completion.choices[0]!
      expect(failure).toBeUndefined()
      expect(message.content ?? '').toBe(said.content)
      expect(message.reasoning ?? '').toBe(said.reasoning)
      expect((message.tool_calls ?? []).map((call: any) => call.function)).toEqual(said.calls)
      expect(finish_reason).toBe(said.calls.length > 0 ? 'tool_calls' : 'stop')
      // Whatever a vendor counts inside or beside: in the end its own total comes out.
      const total = usage && usage.prompt_tokens! + usage.completion_tokens!
      expect(total).toBe(said.totalTokens)
    })

    it.each(answers)('$name becomes an answer after the contract', async (recording) => {
      const { chunks, completion, usage } = await replay(recording, whole(recording))
      for (const chunk of chunks) expect(isChunk(chunk), ajv.errorsText(isChunk.errors)).toBe(true)
      const bill = { total_tokens: 0, cost: 0, cost_details: {} }
      const counts = usage ?? { prompt_tokens: 0, completion_tokens: 0 }
      const details = {
        prompt_tokens_details: { cached_tokens: 0 },
        completion_tokens_details: { reasoning_tokens: 0 },
      }
      const { searches: _searches, vendor_cost: _cost, ...shown } = counts
      const answer = { ...completion, usage: { ...details, ...shown, ...bill } }
      expect(isCompletion(answer), ajv.errorsText(isCompletion.errors)).toBe(true)
    })

    it.each(streams)('$name is the same wherever it is cut', async (recording) => {
      const expected = plain(await replay(recording, whole(recording)))
      expect(plain(await replay(recording, byEvents(recording)))).toEqual(expected)
      const position = fc.noBias(fc.integer({ min: 1, max: recording.body.length - 1 }))
      const cuts = fc.uniqueArray(position, { minLength: 1, maxLength: 40, size: 'max' })
      await fc.assert(
        fc.asyncProperty(cuts, async (positions) => {
          const answer = { ...whole(recording), pieces: cutAt(recording.body, positions) }
          expect(plain(await replay(recording, answer))).toEqual(expected)
        }),
        { numRuns: 20 },
      )
    })

    it.each(Object.entries(FAILURES))('%s is %s', async (name, failure) => {
      const outcome = await outcomeOf(name)
      expect(outcome.failure?.failure).toBe(failure)
      expect(outcome.failure!.message).not.toMatch(/REDACTED|invalid-key|\*\*|https?:/)
    })

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

      it('mistral: thoughts and text in one array, and text on the finish chunk', async () => {
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

      it('mistral: arguments in pieces, under empty names', async () => {
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

      it('together: a reason of its own', async () => {
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

      it('llamacpp: usage beside timings', async () => {
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

      it('openai: a refusal, annotations, audio input, and both sides of a cache', async () => {
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

      it('openai: parallel calls in a stream', async () => {
        const { completion } = await outcomeOf('openai/chat-stream-tools-parallel')
        const calls = completion.choices[0]!.message.tool_calls
        expect(calls).toHaveLength(2)
        for (const call of calls)
          expect(JSON.parse(call.function.arguments)).toHaveProperty('location')
      })

      it('openai: every legal oddity of an event stream', async () => {
        const { completion, usage } = await outcomeOf('openai/chat-stream-split-frames')
        expect(completion.choices[0]!.message.content).toBe('AB')
        expect(usage).toMatchObject({ prompt_tokens: 8, completion_tokens: 2 })
      })

      it('tells how long to wait', async () => {
        expect((await outcomeOf('groq/error-429')).failure!.retryAfterMs).toBe(8000)
        expect((await outcomeOf('openai/error-429-rate-limit')).failure!.retryAfterMs).toBe(1240)
        expect((await outcomeOf('openrouter/error-429')).failure!.retryAfterMs).toBeUndefined()
      })

      it('tells the client what was wrong with its request, less what is not its business', async () => {
        const role = (await outcomeOf('openai/error-400-unsupported-role')).failure!
        expect(role).toMatchObject({
          code: 'unsupported_value',
          param: 'messages[0].role',
          message:
            "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
        })
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

/** What a recording says, read without the code under test. */
function readBack(recording: Recording) {
  const payloads: any[] = recording.stream
    ? readEvents(recording.body.toString())
    : [JSON.parse(recording.body.toString())]
  const said = { content: '', reasoning: '', calls: [] as any[], totalTokens: undefined }
  const byKey = new Map<unknown, { name: string; arguments: string }>()
  for (const payload of payloads) {
    said.totalTokens = (payload.usage ?? payload.x_groq?.usage)?.total_tokens ?? said.totalTokens
    const choice = payload.choices?.[0]
    const delta = choice?.delta ?? choice?.message ?? {}
    for (const part of [delta.content].flat()) {
      if (typeof part === 'string') said.content += part
      else if (part?.type === 'text') said.content += part.text
      else for (const thought of part?.thinking ?? []) said.reasoning += thought.text
    }
    said.reasoning += delta.reasoning_content ?? delta.reasoning ?? ''
    for (const call of delta.tool_calls ?? []) {
      const key = call.index ?? call.id
      const known = byKey.get(key) ?? { name: call.function.name, arguments: '' }
      known.arguments += call.function.arguments ?? ''
      byKey.set(key, known)
    }
  }
  said.calls = [...byKey.values()]
  if (recording.name.includes('think-tags')) {
    const [, reasoning, content] = /^<think>(.*)<\/think>\s*(.*)$/s.exec(said.content)!
    Object.assign(said, { reasoning, content })
  }
  return said
}

function readEvents(text: string): any[] {
  return text
    .split(/\r\n\r\n|\n\n/)
    .map((event) =>
      event
        .split(/\r\n|\n/)
        .filter((line) => line.startsWith('data:'))
        .map((line) => line.slice(5))
        .join('\n')
        .trim(),
    )
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line))
}

/** An outcome that can be compared with another. */
function plain({ chunks, usage, failure }: Outcome) {
  return { chunks, usage, failure: failure && { kind: failure.failure, text: failure.message } }
}

function schema(name: string): object {
  return JSON.parse(
    readFileSync(new URL(`../wire/schemas/${name}.json`, import.meta.url), 'utf8'),
  ) as object
}
