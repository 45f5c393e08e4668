/** Structured output: parsed, refused, cut short. The schemas are plain JSON Schema; the client parses those by itself. */
import { ContentFilterFinishReasonError, LengthFinishReasonError } from 'openai/error'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { events } from '../upstream.ts'
import {
  answered,
  HELLO,
  rejected,
  says,
  setUp,
  streamed,
  USAGE_CHUNK,
  type Setup,
} from './_setup.ts'

let s: Setup
beforeAll(async () => {
  s = await setUp()
})
afterAll(() => s[Symbol.asyncDispose]())

describe('structured output', () => {
  const SCHEMA = {
    type: 'object',
    properties: { city: { type: 'string' }, people: { type: 'integer' } },
    required: ['city', 'people'],
    additionalProperties: false,
  }
  const response_format = {
    type: 'json_schema' as const,
    json_schema: { name: 'City', schema: SCHEMA, strict: true },
  }
  const ASK = { ...HELLO, response_format }
  const HALF = '{"city":"Bre'
  const WHOLE = '{"city":"Bremen","people":577000}'

  it('is parsed', async () => {
    s.vendor.answer(answered({ content: WHOLE }))
    const { choices } = await s.client.chat.completions.parse(ASK)
    expect(choices[0]!.message.parsed).toEqual({ city: 'Bremen', people: 577_000 })
    expect(s.vendor.requests.at(-1)!.json.response_format).toEqual(response_format)
  })

  it('is parsed from a stream', async () => {
    s.vendor.answer(streamed([{ content: HALF }, { content: 'men","people":577000}' }]))
    const partly: unknown[] = []
    const { choices } = await s.client.chat.completions
      .stream(ASK)
      .on('content.delta', ({ parsed }) => partly.push(parsed))
      .finalChatCompletion()
    expect(partly).toContainEqual({ city: 'Bre' })
    expect(choices[0]!.message.parsed).toEqual({ city: 'Bremen', people: 577_000 })
  })

  it('of the mock provider is valid under the schema', async () => {
    const { choices } = await s.client.chat.completions.parse({ ...ASK, model: 'mock/echo' })
    expect(choices[0]!.message.parsed).toEqual({
      city: expect.any(String),
      people: expect.any(Number),
    })
  })

  it('is refused: nothing is parsed, and the refusal is told', async () => {
    const refusal = 'I cannot help with that.'
    s.vendor.answer(answered({ refusal }))
    const { choices } = await s.client.chat.completions.parse(ASK)
    expect(choices[0]!.message).toMatchObject({ content: null, refusal, parsed: null })
    s.vendor.answer(streamed([{ refusal: 'I cannot ' }, { refusal: 'help with that.' }]))
    const heard: string[] = []
    const stream = s.client.chat.completions
      .stream(ASK)
      .on('refusal.delta', ({ delta }) => heard.push(delta))
      .on('refusal.done', (done) => heard.push(done.refusal))
    const message = (await stream.finalChatCompletion()).choices[0]!.message
    expect(heard).toEqual(['I cannot ', 'help with that.', refusal])
    expect(message).toMatchObject({ refusal, parsed: null })
  })

  it.each([
    ['cut short', ['length', 'max_tokens', 'model_length'], LengthFinishReasonError],
    ['filtered', ['content_filter'], ContentFilterFinishReasonError],
  ])('that was %s is an error of its own', async (_name, reasons, Expected) => {
    for (const reason of reasons) {
      s.vendor.answer(answered({ content: HALF }, reason))
      expect(await rejected(s.client.chat.completions.parse(ASK))).toBeInstanceOf(Expected)
      s.vendor.answer(streamed([{ content: HALF }], reason))
      const stream = s.client.chat.completions.stream(ASK)
      expect(await rejected(stream.finalChatCompletion())).toBeInstanceOf(Expected)
    }
  })

  it('cut short by the key’s own policy says length, too', async () => {
    const { secret } = await s.t.newKey({ policy: { version: 1, maxOutputTokens: 2 } })
    const { completions } = s.connect({ apiKey: secret }).chat
    const ask = { ...ASK, model: 'mock/echo' }
    expect(await rejected(completions.parse(ask))).toBeInstanceOf(LengthFinishReasonError)
  })

  it('with a bad name or schema is refused with the words that integrations look for', async () => {
    const asked = s.vendor.requests.length
    for (const json_schema of [
      { name: 'not a name!', schema: SCHEMA },
      { name: 'City', schema: 'object' },
    ]) {
      const format = { type: 'json_schema', json_schema }
      const body: object = { ...HELLO, response_format: format }
      const error = await rejected(s.client.chat.completions.create(body as typeof HELLO))
      expect(error).toMatchObject({
        status: 400,
        param: expect.stringMatching(/^response_format\./),
      })
      if (json_schema.name === 'City') {
        expect(error.error.message).toMatch(/^Invalid schema for response_format/)
      }
    }
    expect(s.vendor.requests.length).toBe(asked)
  })

  it('as json_object is passed on and not parsed', async () => {
    s.vendor.answer(answered({ content: '{}' }))
    const body = { ...HELLO, response_format: { type: 'json_object' as const } }
    const { choices } = await s.client.chat.completions.create(body)
    expect(choices[0]!.message.content).toBe('{}')
    expect(s.vendor.requests.at(-1)!.json.response_format).toEqual({ type: 'json_object' })
  })

  it('survives a vendor that says nothing of the end but usage', async () => {
    s.vendor.answer(events(says({ content: WHOLE }), USAGE_CHUNK, '[DONE]'))
    const { choices } = await s.client.chat.completions.stream(ASK).finalChatCompletion()
    expect(choices[0]!.finish_reason).toBe('stop')
    expect(choices[0]!.message.parsed).toMatchObject({ city: 'Bremen' })
  })
})
