/** The same words through every kind of vendor: guards read what the gateway makes of it, so none is a way around. */
import { afterEach, describe, expect, it } from 'vitest'
import { createTestGateway } from '../_setup.ts'
import { json, sse, startUpstream, type Answer } from '../upstream.ts'
import { readStream } from './_setup.ts'

const TEXT = 'Out there stands a grey heron, and it waits.'
const PIECES = TEXT.match(/.{1,6}/gs)!
const event = (payload: object, name?: string) =>
  `${name ? `event: ${name}\n` : ''}data: ${JSON.stringify(payload)}\n\n`

const dialects: [name: string, options: (url: string) => object, stream: Answer, whole: Answer][] =
  [
    [
      'openai-compatible',
      (url) => ({ baseURL: `${url}/v1` }),
      sse(
        [
          ...PIECES.map((content) => event({ choices: [{ index: 0, delta: { content } }] })),
          event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }),
          'data: [DONE]\n\n',
        ].join(''),
      ),
      json({
        choices: [
          { index: 0, message: { role: 'assistant', content: TEXT }, finish_reason: 'stop' },
        ],
      }),
    ],
    [
      'anthropic',
      (url) => ({ baseURL: url, apiKey: 'sk-test' }),
      sse(
        [
          event(
            {
              type: 'message_start',
              message: { id: 'm', role: 'assistant', content: [], usage: {} },
            },
            'message_start',
          ),
          event(
            { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
            'content_block_start',
          ),
          ...PIECES.map((text) =>
            event(
              { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } },
              'content_block_delta',
            ),
          ),
          event({ type: 'content_block_stop', index: 0 }, 'content_block_stop'),
          event(
            {
              type: 'message_delta',
              delta: { stop_reason: 'end_turn' },
              usage: { output_tokens: 9 },
            },
            'message_delta',
          ),
          event({ type: 'message_stop' }, 'message_stop'),
        ].join(''),
      ),
      json({
        id: 'm',
        type: 'message',
        role: 'assistant',
        content: [{ type: 'text', text: TEXT }],
        stop_reason: 'end_turn',
        usage: { input_tokens: 5, output_tokens: 9 },
      }),
    ],
    [
      'google',
      (url) => ({ baseURL: url, apiKey: 'key' }),
      sse(
        PIECES.map((text, i) =>
          event({
            candidates: [
              {
                content: { role: 'model', parts: [{ text }] },
                ...(i === PIECES.length - 1 ? { finishReason: 'STOP' } : {}),
              },
            ],
          }),
        ).join(''),
      ),
      json({
        candidates: [{ content: { role: 'model', parts: [{ text: TEXT }] }, finishReason: 'STOP' }],
      }),
    ],
  ]

const opened: AsyncDisposable[] = []
afterEach(async () => {
  for (const one of opened.splice(0).toReversed()) await one[Symbol.asyncDispose]()
})

describe('a violation', () => {
  it.each(dialects)('is the same by way of %s', async (use, options, stream, whole) => {
    const vendor = await startUpstream()
    opened.push(vendor)
    const t = await createTestGateway({
      providers: { vendor: { use, options: options(vendor.url) as Record<string, unknown> } },
      models: {
        'acme/swift': {
          pricing: { prompt: '0', completion: '0' },
          capabilities: ['STREAMING'],
          deployments: [{ provider: 'vendor', model: 'swift' }],
        },
      },
      guards: { use: [] },
    })
    opened.push(t)
    const { secret } = await t.newKey({ policy: { version: 1, bannedPatterns: ['heron'] } })
    const body = {
      model: 'acme/swift',
      max_tokens: 100,
      messages: [{ role: 'user', content: 'Hi' }],
    }
    vendor.answer(stream)
    const seen = readStream(await t.chat({ ...body, stream: true }, { key: secret }))
    expect(seen.content).toBe(`Out there stands a grey \n\nI can't help with that here.`)
    expect(seen.finish).toBe('content_filter')
    vendor.answer(whole)
    const answer = await t.chat(body, { key: secret })
    expect(answer.json.choices[0].message.content).toBe("I can't help with that here.")
    expect(answer.json.guard).toEqual(seen.guard)
  })
})
