/** A custom tool at vendors that have functions only: the client gets a custom call with a plain text, whole and streamed. */
import { expect, it } from 'vitest'
import anthropic from '../../providers/anthropic.ts'
import bedrock from '../../providers/bedrock.ts'
import google from '../../providers/google.ts'
import type { ChatChunk, ProviderPlugin } from '../../src/plugin.ts'
import { events, json, startUpstream, type FakeResponse } from '../upstream.ts'
import { setUp } from './_chat.ts'

const PATCH = '*** Begin\n-"a"\n+ü🙂\n'
const INPUT = { input: PATCH }
const TEXT = JSON.stringify(INPUT)
const CUSTOM = { type: 'custom', custom: { name: 'patch', input: PATCH } }

interface Vendor {
  readonly name: string
  readonly plugin: ProviderPlugin
  readonly options: object
  readonly model: string
  readonly whole: object
  /** The same answer in events. */
  readonly streamed?: readonly object[]
}

const ANTHROPIC = { type: 'tool_use', id: 'call_1', name: 'patch' }

const VENDORS: readonly Vendor[] = [
  {
    name: 'anthropic',
    plugin: anthropic,
    options: { apiKey: 'test' },
    model: 'claude-opus-5',
    whole: {
      type: 'message',
      content: [{ ...ANTHROPIC, input: INPUT }],
      stop_reason: 'tool_use',
    },
    streamed: [
      { type: 'content_block_start', index: 0, content_block: { ...ANTHROPIC, input: {} } },
      ...TEXT.match(/.{1,4}/gsu)!.map((partial_json) => ({
        type: 'content_block_delta',
        index: 0,
        delta: { type: 'input_json_delta', partial_json },
      })),
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'tool_use' } },
      { type: 'message_stop' },
    ],
  },
  {
    name: 'bedrock',
    plugin: bedrock,
    options: { region: 'eu-central-1', apiKey: 'test' },
    model: 'amazon.nova-pro-v1:0',
    whole: {
      output: {
        message: { content: [{ toolUse: { toolUseId: 'call_1', name: 'patch', input: INPUT } }] },
      },
      stopReason: 'tool_use',
      usage: { inputTokens: 1, outputTokens: 1 },
    },
  },
  {
    name: 'google',
    plugin: google,
    options: { apiKey: 'test' },
    model: 'gemini-3.5-flash',
    whole: {
      candidates: [
        {
          content: { parts: [{ functionCall: { id: 'call_1', name: 'patch', args: INPUT } }] },
          finishReason: 'STOP',
        },
      ],
    },
    streamed: [
      {
        candidates: [
          {
            content: { parts: [{ functionCall: { id: 'call_1', name: 'patch', args: INPUT } }] },
            finishReason: 'STOP',
          },
        ],
      },
    ],
  },
]

async function answered({ plugin, options, model }: Vendor, answer: FakeResponse, stream: boolean) {
  await using upstream = await startUpstream(answer)
  await using setup = await setUp(plugin, { ...options, baseURL: upstream.url })
  const tools = [{ type: 'custom', custom: { name: 'patch' } }]
  return await setup.outcome({ tools, stream }, { model })
}

it.each(VENDORS)('$name calls it', async (vendor) => {
  const { completion, failure } = await answered(vendor, json(vendor.whole), false)
  expect(failure).toBeUndefined()
  expect(completion.choices[0]).toMatchObject({
    message: { tool_calls: [{ id: 'call_1', ...CUSTOM }] },
    finish_reason: 'tool_calls',
  })
})

it.each(VENDORS.filter(({ streamed }) => streamed))(
  '$name calls it in a stream',
  async (vendor) => {
    const answer = events(...vendor.streamed!)
    const { completion, chunks, failure } = await answered(vendor, answer, true)
    expect(failure).toBeUndefined()
    expect(completion.choices[0]!.message.tool_calls).toMatchObject([{ id: 'call_1', ...CUSTOM }])
    expect(chunks.some(hasFunction)).toBe(false)
  },
)

function hasFunction({ choices }: ChatChunk): boolean {
  return choices.some(({ delta }) => delta?.tool_calls?.some((call) => call.function))
}
