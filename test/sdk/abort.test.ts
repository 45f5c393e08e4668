/** Clients that leave: the vendor is let go, the slot is free, and what was said is paid. */
import { APIConnectionTimeoutError, APIUserAbortError } from 'openai'
import type OpenAI from 'openai'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { answered, HELLO, rejected, setUp, stalling, type Setup } from './_setup.ts'

let s: Setup
let client: OpenAI
let before: bigint
beforeAll(async () => {
  s = await setUp()
  const { secret } = await s.t.newKey({ concurrency: 1 })
  client = s.connect({ apiKey: secret, maxRetries: 0 })
})
beforeEach(async () => {
  s.vendor.answer(stalling({ content: 'one ' }, { content: 'two ' }))
  before = await s.t.balance()
})
afterAll(() => s[Symbol.asyncDispose]())

const STREAM = { ...HELLO, stream: true } as const
/** 11 characters in: 3 tokens at 0.00000015 USD. */
const PROMPT = 450_000n
/** A token of the answer: 0.0000006 USD. */
const TOKEN = 600_000n
/** 8 characters out: 2 tokens. */
const SAID = 1_200_000n

/**
 * What must hold once the client is gone: nothing is open, this much was charged, and the key's only slot is free.
 * @param isWhole the answer was to come whole
 */
async function expectLeft(charged: bigint, isWhole = false): Promise<void> {
  expect(await s.vendor.requests.at(-1)!.aborted).toBe(true)
  await s.quiet()
  const cost = before - (await s.t.balance())
  // What was to come whole is charged by the time for which the vendor has worked.
  if (isWhole) {
    expect(cost).toBeGreaterThan(charged)
    expect((cost - charged) % TOKEN, 'whole tokens').toBe(0n)
  } else expect(cost).toBe(charged)
  expect(s.calls.at(-1)!.answer.outcome).toBe('cancelled')
  s.vendor.answer(answered({ content: 'Next.' }))
  const { choices } = await client.chat.completions.create(HELLO)
  expect(choices[0]!.message.content).toBe('Next.')
}

/** Reads until both words are there. */
async function readTwo(stream: AsyncIterable<OpenAI.ChatCompletionChunk>): Promise<void> {
  let text = ''
  for await (const chunk of stream) {
    text += chunk.choices[0]!.delta.content ?? ''
    if (text === 'one two ') return
  }
  throw new Error(`the stream ended after ${JSON.stringify(text)}`)
}

/** Waits until the vendor has been asked once more than before. */
async function asked(count: number): Promise<void> {
  await expect.poll(() => s.vendor.requests.length).toBe(count + 1)
}

describe('a client that leaves', () => {
  it('by breaking out of its loop', async () => {
    await readTwo(await client.chat.completions.create(STREAM))
    await expectLeft(PROMPT + SAID)
  })

  it('by breaking out of a loop over the stream helper', async () => {
    await readTwo(client.chat.completions.stream(HELLO))
    await expectLeft(PROMPT + SAID)
  })

  it('by stream.controller.abort()', async () => {
    const stream = await client.chat.completions.create(STREAM)
    let text = ''
    for await (const chunk of stream) {
      text += chunk.choices[0]!.delta.content ?? ''
      if (text === 'one two ') stream.controller.abort()
    }
    await expectLeft(PROMPT + SAID)
  })

  it('by the AbortSignal it gave', async () => {
    const controller = new AbortController()
    const stream = await client.chat.completions.create(STREAM, { signal: controller.signal })
    let text = ''
    for await (const chunk of stream) {
      text += chunk.choices[0]!.delta.content ?? ''
      if (text === 'one two ') controller.abort()
    }
    await expectLeft(PROMPT + SAID)
  })

  it('by stream().abort()', async () => {
    const stream = client.chat.completions.stream(HELLO)
    stream.on('content', (_delta, text) => {
      if (text === 'one two ') stream.abort()
    })
    expect(await rejected(stream.done())).toBeInstanceOf(APIUserAbortError)
    await expectLeft(PROMPT + SAID)
  })

  it.each([false, true])('before there is anything to read (stream: %s)', async (stream) => {
    s.vendor.answer(stalling())
    const controller = new AbortController()
    const count = s.vendor.requests.length
    const answer = rejected(
      client.chat.completions.create({ ...HELLO, stream }, { signal: controller.signal }),
    )
    await asked(count)
    controller.abort()
    expect(await answer).toBeInstanceOf(APIUserAbortError)
    await expectLeft(PROMPT, !stream)
  })

  it('because its patience is at an end', async () => {
    s.vendor.answer(stalling())
    const error = await rejected(client.chat.completions.create(HELLO, { timeout: 3000 }))
    expect(error).toBeInstanceOf(APIConnectionTimeoutError)
    await expectLeft(PROMPT, true)
  })

  it('between a tool call and its end', async () => {
    const call = {
      index: 0,
      id: 'call_1',
      type: 'function',
      function: { name: 'f', arguments: '{"a' },
    }
    s.vendor.answer(stalling({ tool_calls: [call] }))
    const tools: OpenAI.ChatCompletionTool[] = [{ type: 'function', function: { name: 'f' } }]
    for await (const chunk of await client.chat.completions.create({ ...STREAM, tools })) {
      if (chunk.choices[0]!.delta.tool_calls) break
    }
    // 11 characters of text and about 90 of the tool with its empty schema: 26 tokens; 3 characters of arguments: one.
    await expectLeft(26n * 150_000n + 600_000n)
  })
})
