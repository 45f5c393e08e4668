import { describe, expect, it } from 'vitest'
import bedrock from '../../../providers/bedrock.ts'
import { whole, type Recording } from '../../fixtures.ts'
import { cutAt } from '../../upstream.ts'
import { setUp } from '../_chat.ts'
import { replayAll, type RecordedContent } from '../_recorded.ts'

const FAILURES: Readonly<Record<string, string>> = {
  'bedrock/error-400-model': 'not_found',
  'bedrock/error-400-too-long': 'context_length',
  'bedrock/error-403-token': 'upstream_auth',
  'bedrock/error-424-model': 'upstream_error',
  'bedrock/error-429-throttling': 'upstream_rate',
  'bedrock/stream-exception-internal': 'upstream_error',
  'bedrock/stream-exception-throttling': 'upstream_rate',
}

/** Nova writes its reasoning in tags. */
const TAGGED = new Set(['bedrock/converse-tool-result', 'bedrock/stream-tool'])

replayAll(
  {
    title: 'recorded chats with bedrock',
    vendors: ['bedrock'],
    path: /\/converse(-stream)?$/,
    failures: FAILURES,
    setUp: (_vendor, url) => setUp(bedrock, { baseURL: url, region: 'us-east-1', apiKey: 'k' }),
    ask({ name, path, stream }) {
      const model = decodeURIComponent(path.split('/')[2]!)
      return [
        { stream },
        { model, options: TAGGED.has(name) ? { reasoning: 'thinking-tags' } : {} },
      ]
    },
    readBack,
    atEventEnds: (recording) =>
      recording.stream
        ? { ...whole(recording), pieces: framesOf(recording.body) }
        : whole(recording),
  },
  ({ outcomeOf }) => {
    describe('by eye', () => {
      it('a stream of text', async () => {
        const { completion, usage } = await outcomeOf('bedrock/stream-text')
        expect(completion.choices[0]!.message.content).toMatch(
          /^The capital of France is Paris\. Paris is not only the capital city but also.*City of Love\."$/,
        )
        expect(usage).toMatchObject({ prompt_tokens: 13, completion_tokens: 82 })
      })

      it('reasoning with its signature', async () => {
        const { completion } = await outcomeOf('bedrock/stream-thinking')
        const { message } = completion.choices[0]!
        expect(message.reasoning).toMatch(
          /^The user has greeted me with a simple "Hello"\. I should/,
        )
        expect(message.reasoning_details).toEqual([
          {
            type: 'reasoning.text',
            text: message.reasoning,
            signature: expect.stringMatching(/^[\w+/=]{100,}$/),
            id: null,
            format: 'anthropic-claude-v1',
            index: 0,
          },
        ])
        expect(message.content).toMatch(/How can I help you today\?$/)
      })

      it('reasoning in tags, then a call in a stream', async () => {
        const { completion } = await outcomeOf('bedrock/stream-tool')
        const { message, finish_reason } = completion.choices[0]!
        expect(message.reasoning).toMatch(/^ To find the temperature of the capital of France/)
        expect(message.content ?? '').not.toMatch(/thinking/)
        expect(message.tool_calls).toEqual([
          {
            id: 'tooluse_lAG_zP8QRHmSYOwZzzaCqA',
            type: 'function',
            function: { name: 'get_temperature', arguments: '{"city":"Paris"}' },
          },
        ])
        expect(finish_reason).toBe('tool_calls')
      })

      it('a call in a whole answer', async () => {
        const { completion, usage } = await outcomeOf('bedrock/converse-tool')
        expect(completion.choices[0]!.message).toMatchObject({
          content: null,
          tool_calls: [
            {
              id: 'tooluse_Mj06ft-ITJik1Otgpkc1uA',
              type: 'function',
              function: {
                name: 'temperature',
                arguments: '{"city":"London","date":"2022-01-01"}',
              },
            },
          ],
        })
        expect(usage).toMatchObject({ prompt_tokens: 571, completion_tokens: 22 })
      })

      it('an empty text before reasoning', async () => {
        const { completion } = await outcomeOf('bedrock/stream-empty-text-delta')
        expect(completion.choices[0]!.message).toMatchObject({
          content: 'Hello! How can I help you today?',
          reasoning: expect.stringMatching(/^The user just says "Hi"\./),
          reasoning_details: [{ format: 'unknown', index: 0 }],
        })
      })

      it('cache reads and writes are added to the input', async () => {
        const read = await outcomeOf('bedrock/converse-cache-read')
        expect(read.usage).toEqual({
          prompt_tokens: 1324,
          completion_tokens: 5,
          prompt_tokens_details: { cached_tokens: 1322, cache_write_tokens: 0 },
        })
        const written = await outcomeOf('bedrock/converse-cache-write')
        expect(written.usage!.prompt_tokens_details).toEqual({
          cached_tokens: 0,
          cache_write_tokens: 1322,
        })
      })

      it('a guardrail shows in the reason only', async () => {
        const { completion, chunks } = await outcomeOf('bedrock/stream-guardrail')
        expect(completion.choices[0]).toMatchObject({
          message: { content: expect.stringMatching(/The capital of \{ADDRESS\}/) },
          finish_reason: 'content_filter',
        })
        expect(JSON.stringify(chunks)).not.toMatch(/arn:|5zwrmdlsra2e|trace/)
      })

      it('an exception after the first words', async () => {
        const { completion, failure } = await outcomeOf('bedrock/stream-exception-throttling')
        expect(completion.choices[0]!.message.content).toBe(
          'The capital of France is Paris. Paris is not',
        )
        expect(failure).toMatchObject({ status: 429, code: 'upstream_rate_limited' })
      })

      it('refused credentials are not the client’s', async () => {
        const { failure } = await outcomeOf('bedrock/error-403-token')
        expect(failure).toMatchObject({ status: 502, code: 'upstream_error', failover: true })
        expect(failure!.message).not.toMatch(/token/)
      })
    })
  },
)

/** Splits frames by their lengths only. */
function framesOf(body: Buffer): Uint8Array[] {
  const ends: number[] = []
  for (let at = 0; at < body.length; at += body.readUInt32BE(at)) {
    ends.push(at + body.readUInt32BE(at))
  }
  return cutAt(body, ends)
}

/** The content of a recording, read without the code under test. */
function readBack({ name, stream, body }: Recording): RecordedContent {
  const said = { content: '', reasoning: '', totalTokens: undefined as number | undefined }
  const calls = new Map<number, { name: string; arguments: string }>()
  const take = (block: any, index: number) => {
    said.content += block.text ?? ''
    said.reasoning +=
      block.reasoningContent?.text ?? block.reasoningContent?.reasoningText?.text ?? ''
    const { toolUse } = block
    if (!toolUse) return
    const call = calls.get(index) ?? { name: toolUse.name, arguments: '' }
    calls.set(index, call)
    if (toolUse.input === undefined) return
    call.arguments +=
      typeof toolUse.input === 'string' ? toolUse.input : JSON.stringify(toolUse.input)
  }
  const payloads: any[] = stream
    ? framesOf(body).map((frame) => {
        const bytes = Buffer.from(frame)
        return JSON.parse(bytes.subarray(12 + bytes.readUInt32BE(4), -4).toString())
      })
    : [JSON.parse(body.toString())]
  let reason = ''
  for (const payload of payloads) {
    payload.output?.message.content.forEach(take)
    take(payload.start ?? payload.delta ?? {}, payload.contentBlockIndex)
    reason = payload.stopReason ?? reason
    said.totalTokens = payload.usage?.totalTokens ?? said.totalTokens
  }
  if (TAGGED.has(name)) {
    const [, reasoning, content] = /^\s*<thinking>(.*)<\/thinking>\s*(.*)$/s.exec(said.content)!
    Object.assign(said, { reasoning, content })
  }
  return {
    ...said,
    calls: [...calls.values()],
    ...(reason === 'guardrail_intervened' && { finishReason: 'content_filter' }),
  }
}
