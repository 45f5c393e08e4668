import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { UpstreamFailure } from '../../src/errors/errors.ts'
import { readEvents } from '../../src/stream/flow.ts'
import {
  boundariesOf,
  splitBytewise,
  cutAt,
  randomFrom,
  splitRandomly,
} from '../../src/testing/splits.ts'
import { describeRecorded } from '../fixtures.ts'
import { runs } from '../_runs.ts'
import { expectSame } from '../_same.ts'

async function* each(pieces: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  for (const piece of pieces) yield piece
}

/** Every event as JSON, which shows the order of its members, and the message of the error that ended them. */
async function said(pieces: readonly Uint8Array[]): Promise<string[]> {
  const all: string[] = []
  try {
    for await (const event of readEvents(each(pieces))) all.push(JSON.stringify(event))
  } catch (error) {
    if (!UpstreamFailure.is(error)) throw error
    all.push(error.message)
  }
  return all
}

/** The reference that every other cutting of the same bytes is compared with. */
const byBytes = (body: Uint8Array) => said(splitBytewise(body, body.length))

const chunks = fc
  .tuple(
    fc.constantFrom<((text: string) => string)[]>(
      (text) => `{"id":"1","choices":[{"index":0,"delta":{"content":${text}}}]}`,
      (text) => `{"id":"1","choices":[{"index":0,"delta":{"content":${text}}}],"p":"abc"}`,
      (text) => `{"type":"delta", "delta":{"text":${text}, "text2":${text}}}`,
      (text) => text,
    ),
    fc.oneof(
      fc.string({ unit: 'grapheme', maxLength: 12 }).map((text) => JSON.stringify(text)),
      fc.constantFrom('" token"', '"\\u00e9"', '"\\x"', '"', '"\\""', '""', '"\ufffd"'),
    ),
  )
  .map(([shape, text]) => shape(text))

const plain = (payload: string) => `data: ${payload}\n\n`
const events = fc
  .tuple(
    chunks,
    fc.oneof(
      { weight: 8, arbitrary: fc.constant(plain) },
      fc.constantFrom<((payload: string) => string)[]>(
        (payload) => `data:${payload}\n\n`,
        (payload) => `data: ${payload}\r\n\r\n`,
        (payload) => `data: ${payload}\r\r`,
        (payload) => `event: x\ndata: ${payload}\n\n`,
        (payload) => `id: 7\ndata: ${payload}\n\n`,
        (payload) => `: hello\n\ndata: ${payload}\n\n`,
        (payload) => `data: ${payload}\ndata:\n\n`,
        (payload) => `data: ${payload}\r \n\n`,
        (payload) => `\n\ndata: ${payload}\n\n\n`,
        (payload) => `\ufeffdata: ${payload}\n\n`,
        () => 'data: [DONE]\n\n',
        () => 'dat\n\n',
        () => ': \n',
        () => 'retry: 5\n\n',
      ),
    ),
  )
  .map(([payload, form]) => form(payload))

/** Mostly text, with a byte that is not UTF-8. */
const bodies = fc
  .tuple(
    fc.array(events, { maxLength: 12 }),
    fc.constantFrom('', 'data: {"a":1}', 'data: {"a":1}\n', 'data', '\r'),
    fc.option(fc.tuple(fc.nat(200), fc.constantFrom(0xff, 0xe2, 0x00, 0x0d, 0x0a)), { freq: 8 }),
  )
  .map(([all, end, broken]) => {
    const body = Buffer.from(all.join('') + end)
    if (broken && broken[0] < body.length) body[broken[0]] = broken[1]
    return body
  })

describe('events', () => {
  it('are the same, wherever the bytes are cut', async () => {
    await fc.assert(
      fc.asyncProperty(bodies, fc.nat(), async (body, seed) => {
        const expected = await byBytes(body)
        const random = randomFrom(seed)
        expectSame(await said([body]), expected)
        expect(await said(cutAt(body, boundariesOf(body, 'text/event-stream')))).toEqual(expected)
        for (let i = 0; i < 5; i++) {
          expectSame(await said(splitRandomly(body, random, 8)), expected)
          expectSame(await said(splitRandomly(body, random, 1)), expected)
        }
      }),
      { numRuns: runs(170) },
    )
  })

  it('are what was sent', async () => {
    const sent = fc.array(fc.record({ say: fc.string({ unit: 'grapheme' }), other: fc.string() }))
    await fc.assert(
      fc.asyncProperty(sent, async (payloads) => {
        const texts = payloads.map((payload) => JSON.stringify(payload))
        expect(await said(texts.map((text) => Buffer.from(plain(text))))).toEqual(texts)
      }),
    )
  })

  it('may come in arrays that are not Buffers', async () => {
    const bytes = new TextEncoder().encode(`xx${plain('{"a":"é"}')}`)
    expect(await said([bytes.subarray(2)])).toEqual(['{"a":"é"}'])
  })

  it('have no byte order mark but at the very start', async () => {
    const marked = Buffer.from(`\ufeff${plain('{"a":1}')}`)
    const unmarked = Buffer.from(plain('{"a":1}'))
    expect(await said([marked])).toEqual(['{"a":1}'])
    expect(await said([unmarked, marked, unmarked])).toEqual(['{"a":1}', '{"a":1}'])
  })
})

const VENDORS = ['alibaba', 'anthropic', 'azure', 'deepseek', 'google', 'groq', 'mistral', 'ollama']

describeRecorded('recorded events', [...VENDORS, 'openai', 'openrouter', 'xai'], /./, (all) => {
  const streams = all.filter(({ body }) => body.subarray(0, 4096).includes('data:'))
  it.each(streams)('of $name are the same, wherever the bytes are cut', async ({ body }) => {
    const expected = await byBytes(body)
    const random = randomFrom(body.length)
    expectSame(await said([body]), expected)
    expect(await said(cutAt(body, boundariesOf(body, 'text/event-stream')))).toEqual(expected)
    expect(await said(splitRandomly(body, random, 40))).toEqual(expected)
  })
})
