/** What users of the official client see of streams: in a plain loop, and through the stream helper. */
import type OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { events } from '../upstream.ts'
import {
  answered,
  billed,
  COST,
  HELLO,
  says,
  setUp,
  stalling,
  streamed,
  USAGE,
  USAGE_CHUNK,
  type Setup,
} from './_setup.ts'

let s: Setup
beforeAll(async () => {
  s = await setUp()
})
afterAll(() => s[Symbol.asyncDispose]())

const HELLO_STREAM = streamed([
  { role: 'assistant', content: '' },
  { content: 'Hel' },
  { content: 'lo.' },
])
const DETAILS = { prompt_cost: 0.0000063, completion_cost: 0.0000102 }

const token = (text: string) => ({ token: text, logprob: -0.1, bytes: null, top_logprobs: [] })
const part = (index: number, delta: object, finish_reason: string | null = null) => ({
  choices: [{ index, delta, finish_reason }],
})

async function chunksOf(
  stream: AsyncIterable<OpenAI.ChatCompletionChunk>,
): Promise<OpenAI.ChatCompletionChunk[]> {
  const chunks = []
  for await (const chunk of stream) chunks.push(chunk)
  return chunks
}

const textOf = (chunks: readonly OpenAI.ChatCompletionChunk[], index = 0) =>
  chunks
    .flatMap((chunk) => chunk.choices)
    .map((choice) => (choice.index === index ? (choice.delta.content ?? '') : ''))
    .join('')

describe('create with stream', () => {
  it('can be read by the plainest of loops', async () => {
    s.vendor.answer(HELLO_STREAM)
    let text = ''
    const stream = await s.client.chat.completions.create({ ...HELLO, stream: true })
    for await (const chunk of stream) text += chunk.choices[0]!.delta.content ?? ''
    expect(text).toBe('Hello.')
  })

  it('has usage and cost on the last chunk, and nowhere else', async () => {
    s.vendor.answer(HELLO_STREAM)
    const before = await s.t.balance()
    const chunks = await chunksOf(
      await s.client.chat.completions.create({ ...HELLO, stream: true }),
    )
    expect(chunks.at(-1)!.choices[0]!.finish_reason).toBe('stop')
    expect(chunks.at(-1)!.usage).toMatchObject({ ...USAGE, cost: COST, cost_details: DETAILS })
    expect(chunks.slice(0, -1).every((chunk) => !('usage' in chunk))).toBe(true)
    expect(before - (await s.t.balance())).toBe(16_500_000n)
  })

  it('has a head with everything but the cost, which is not known yet', async () => {
    s.vendor.answer(HELLO_STREAM)
    const { data, response, request_id } = await s.client.chat.completions
      .create({ ...HELLO, stream: true })
      .withResponse()
    expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
    expect(response.headers.get('x-ratelimit-limit-requests')).toBe('600')
    expect(response.headers.has('x-service-cost')).toBe(false)
    expect(request_id).toBe(s.calls.at(-1)!.id)
    expect(textOf(await chunksOf(data))).toBe('Hello.')
  })

  it('has usage on a chunk of its own when include_usage asks for that', async () => {
    s.vendor.answer(HELLO_STREAM)
    const stream_options = { include_usage: true }
    const chunks = await chunksOf(
      await s.client.chat.completions.create({ ...HELLO, stream: true, stream_options }),
    )
    const usage = chunks.pop()!
    expect(usage.choices).toEqual([])
    expect(billed(usage.usage).cost).toBe(COST)
    expect(chunks.every((chunk) => chunk.usage === null && chunk.choices.length === 1)).toBe(true)
  })

  it('costs the same when include_usage is false or null', async () => {
    for (const include_usage of [false, null]) {
      s.vendor.answer(HELLO_STREAM)
      const body: object = { ...HELLO, stream: true, stream_options: { include_usage } }
      const chunks = await chunksOf(
        await s.client.chat.completions.create(body as typeof HELLO & { stream: true }),
      )
      expect(billed(chunks.at(-1)!.usage).cost).toBe(COST)
      expect(chunks.at(-1)!.choices).toHaveLength(1)
    }
  })

  it('has the same id, model and moment in every chunk, and one role a choice', async () => {
    s.vendor.answer(HELLO_STREAM)
    const chunks = await chunksOf(
      await s.client.chat.completions.create({ ...HELLO, stream: true }),
    )
    const heads = chunks.map(
      ({ id, created, model, object }) => `${id} ${created} ${model} ${object}`,
    )
    expect(new Set(heads).size).toBe(1)
    expect(chunks[0]!.model).toBe('acme/swift-1')
    const roles = chunks.filter((chunk) => 'role' in chunk.choices[0]!.delta)
    expect(roles).toEqual([chunks[0]])
  })

  it('has reasoning in the deltas', async () => {
    s.vendor.answer(
      streamed([
        { reasoning_content: 'Two and ' },
        { reasoning_content: 'two.' },
        { content: '4' },
      ]),
    )
    const chunks = await chunksOf(
      await s.client.chat.completions.create({ ...HELLO, stream: true }),
    )
    const deltas = chunks.map((chunk) => chunk.choices[0]!.delta as Record<string, any>)
    expect(deltas.map((delta) => delta.reasoning ?? '').join('')).toBe('Two and two.')
    const details = deltas.flatMap((delta) => delta.reasoning_details ?? [])
    expect(details.map((detail) => [detail.index, detail.text, detail.format])).toEqual([
      [0, 'Two and ', 'unknown'],
      [0, 'two.', undefined],
    ])
    expect(textOf(chunks)).toBe('4')
  })

  it('has log probabilities with the tokens they belong to', async () => {
    const chunk = (text: string) => ({
      choices: [{ index: 0, delta: { content: text }, logprobs: { content: [token(text)] } }],
    })
    s.vendor.answer(events(chunk('Hel'), chunk('lo.'), says({}, 'stop'), USAGE_CHUNK, '[DONE]'))
    const stream = s.client.chat.completions.stream({ ...HELLO, logprobs: true })
    const { choices } = await stream.finalChatCompletion()
    expect(choices[0]!.logprobs!.content).toEqual([token('Hel'), token('lo.')])
    s.vendor.answer(events(chunk('Hel'), chunk('lo.'), says({}, 'stop'), USAGE_CHUNK, '[DONE]'))
    const unasked = await chunksOf(
      await s.client.chat.completions.create({ ...HELLO, stream: true }),
    )
    expect(unasked.every((one) => one.choices[0]!.logprobs === null)).toBe(true)
  })

  it('opens its choices in order, whichever the vendor begins with', async () => {
    s.vendor.answer(
      events(
        part(1, { content: 'B' }),
        part(0, { content: 'A' }),
        part(1, {}, 'length'),
        part(0, {}, 'stop'),
        USAGE_CHUNK,
        '[DONE]',
      ),
    )
    const chunks = await chunksOf(
      await s.client.chat.completions.create({ ...HELLO, n: 2, stream: true }),
    )
    const opened = chunks.flatMap((chunk) => chunk.choices).filter((choice) => choice.delta.role)
    expect(opened.map((choice) => choice.index)).toEqual([0, 1])
    expect([textOf(chunks, 0), textOf(chunks, 1)]).toEqual(['A', 'B'])
    expect(chunks.filter((chunk) => chunk.usage)).toEqual([chunks.at(-1)])
  })

  it('joins characters that vendors cut in two', async () => {
    const text = 'Grüße an 你好 und 🦊!'
    const bytes = Buffer.from(
      `data: ${JSON.stringify(says({ content: text }, 'stop'))}\n\ndata: [DONE]\n\n`,
    )
    const pieces = Array.from(bytes, (_, i) => bytes.subarray(i, i + 1))
    s.vendor.answer({ headers: { 'content-type': 'text/event-stream' }, pieces })
    const chunks = await chunksOf(
      await s.client.chat.completions.create({ ...HELLO, stream: true }),
    )
    expect(textOf(chunks)).toBe(text)
  })
})

describe('stream', () => {
  it('tells of every piece, and puts them together', async () => {
    s.vendor.answer(HELLO_STREAM)
    const pieces: string[] = []
    const heard: string[] = []
    const stream = s.client.chat.completions
      .stream(HELLO)
      .on('connect', () => heard.push('connect'))
      .on('content', (delta, snapshot) => pieces.push(`${delta}|${snapshot}`))
      .on('content.done', ({ content }) => heard.push(`done ${content}`))
      .on('finalChatCompletion', () => heard.push('final'))
      .on('end', () => heard.push('end'))
    const completion = await stream.finalChatCompletion()
    expect(pieces).toEqual(['Hel|Hel', 'lo.|Hello.'])
    expect(heard).toEqual(['connect', 'done Hello.', 'final', 'end'])
    expect(await stream.finalContent()).toBe('Hello.')
    expect((await stream.finalMessage()).role).toBe('assistant')
    expect(completion.choices[0]).toMatchObject({
      message: { role: 'assistant', content: 'Hello.', refusal: null },
      finish_reason: 'stop',
    })
  })

  it.each([
    ['by itself', {}],
    ['with include_usage', { stream_options: { include_usage: true } }],
  ])('knows usage and cost, %s', async (_name, options) => {
    s.vendor.answer(HELLO_STREAM)
    const stream = s.client.chat.completions.stream({ ...HELLO, ...options })
    const { usage } = await stream.finalChatCompletion()
    expect(usage).toMatchObject({ ...USAGE, cost: COST, cost_details: DETAILS })
    expect(await stream.totalUsage()).toMatchObject(USAGE)
  })

  it('keeps several choices apart', async () => {
    s.vendor.answer(
      events(
        part(1, { content: 'B' }),
        part(0, { content: 'A' }, 'stop'),
        part(1, {}, 'length'),
        USAGE_CHUNK,
        '[DONE]',
      ),
    )
    const { choices } = await s.client.chat.completions
      .stream({ ...HELLO, n: 2 })
      .finalChatCompletion()
    expect(choices.map((one) => [one.message.content, one.finish_reason])).toEqual([
      ['A', 'stop'],
      ['B', 'length'],
    ])
  })

  it('ends with length when the vendor runs past the ceiling of the key, and the vendor is let go', async () => {
    const { secret } = await s.t.newKey({ policy: { version: 1, maxOutputTokens: 5 } })
    s.vendor.answer(stalling(...Array.from({ length: 100 }, () => ({ content: 'word ' }))))
    const before = await s.t.balance()
    const stream = s.connect({ apiKey: secret }).chat.completions.stream(HELLO)
    const { choices, usage } = await stream.finalChatCompletion()
    expect(choices[0]!.finish_reason).toBe('length')
    // One and a half times the ceiling plus 32 tokens, of four characters each.
    expect(choices[0]!.message.content).toBe('word '.repeat(100).slice(0, 4 * (5 * 1.5 + 32)))
    expect(await s.vendor.requests.at(-1)!.aborted).toBe(true)
    await s.quiet()
    expect(before - (await s.t.balance())).toBe(BigInt(Math.round(billed(usage).cost * 1e12)))
  })

  it('hears of a model that cannot stream all the same', async () => {
    s.vendor.answer(answered({ content: 'Hello.' }))
    const stream = s.client.chat.completions.stream({ ...HELLO, model: 'acme/whole' })
    expect(await stream.finalContent()).toBe('Hello.')
    expect(s.vendor.requests.at(-1)!.json).not.toHaveProperty('stream')
  })
})
