import { afterAll, beforeAll, expect, it } from 'vitest'
import google from '../../../providers/google.ts'
import type { ImageEditInput, ImageInput } from '../../../src/plugin.ts'
import { json, startUpstream, type FakeResponse, type FakeUpstream } from '../../upstream.ts'
import { setUp, silent, type Setup } from '../_chat.ts'

let vendor: FakeUpstream
let own: Setup

beforeAll(async () => {
  vendor = await startUpstream()
  own = await setUp(google, { baseURL: vendor.url, apiKey: 'k', safety: 'BLOCK_NONE' })
})
afterAll(async () => {
  await own[Symbol.asyncDispose]()
  await vendor.close()
})

const imageRequest = (input: Partial<ImageInput>, model = 'gemini-3-image') => ({
  model,
  options: {},
  requestId: 'req_test',
  signal: new AbortController().signal,
  log: silent,
  input: { prompt: 'a cat', ...input },
})
const generate = (answer: FakeResponse, input: Partial<ImageInput> = {}, model?: string) => {
  vendor.answer(answer)
  return own.provider.generateImage!(imageRequest(input, model))
}
const said = (...parts: object[]) => json({ candidates: [{ content: { parts } }] })
const image = (data = 'AQID', more: object = {}) => ({
  inlineData: { mimeType: 'image/png', data },
  ...more,
})

it('draws several at once and adds up their usage', async () => {
  const asked = vendor.requests.length
  const usageMetadata = {
    promptTokenCount: 7,
    candidatesTokenCount: 1120,
    thoughtsTokenCount: 30,
    promptTokensDetails: [{ modality: 'TEXT', tokenCount: 7 }],
    candidatesTokensDetails: [{ modality: 'IMAGE', tokenCount: 1120 }],
  }
  const answer = json({ candidates: [{ content: { parts: [image()] } }], usageMetadata })
  expect(await generate(answer, { n: 3 })).toEqual({
    data: [{ b64_json: 'AQID' }, { b64_json: 'AQID' }, { b64_json: 'AQID' }],
    usage: {
      promptTokens: 21,
      cachedTokens: 0,
      imageInputTokens: 0,
      completionTokens: 3450,
      reasoningTokens: 90,
      imageOutputTokens: 3360,
    },
  })
  expect(vendor.requests.length - asked).toBe(3)
  expect(vendor.requests.at(-1)!.json.safetySettings).toHaveLength(5)
})

it('takes the image of the answer, not a draft', async () => {
  const answer = said(image('AAAA', { thought: true }), { text: 'Here.' }, image('BBBB'))
  expect(await generate(answer)).toEqual({ data: [{ b64_json: 'BBBB' }] })
})

it.each([
  ['1024x1024', { aspectRatio: '1:1' }],
  ['1536x1024', { aspectRatio: '3:2' }],
  ['720x1280', { aspectRatio: '9:16' }],
  ['2048x1152', { aspectRatio: '16:9', imageSize: '2K' }],
  ['4096x4096', { aspectRatio: '1:1', imageSize: '4K' }],
  ['auto', undefined],
])('draws %s in the nearest size', async (size, expected) => {
  await generate(said(image()), { size })
  expect(vendor.requests.at(-1)!.json.generationConfig.imageConfig).toEqual(expected)
})

it('predicts more than four one by one', async () => {
  const asked = vendor.requests.length
  const answer = json({ predictions: [{ bytesBase64Encoded: 'AQID' }] })
  const result = await generate(answer, { n: 5 }, 'imagen-4')
  expect('data' in result && result.data).toHaveLength(5)
  expect(vendor.requests.slice(asked).map(({ json: body }) => body.parameters.sampleCount)).toEqual(
    [1, 1, 1, 1, 1],
  )
})

it.each([
  ['a blocked prompt', json({ promptFeedback: { blockReason: 'SAFETY' } }), 'content_blocked'],
  ['a blocked image', json({ candidates: [{ finishReason: 'IMAGE_SAFETY' }] }), 'content_blocked'],
  ['words alone', said({ text: 'I would rather not.' }), 'content_blocked'],
  ['nothing', json({ candidates: [{ finishReason: 'NO_IMAGE' }] }), 'upstream_error'],
  ['no answer', json({}), 'upstream_error'],
  ['an error', json({ error: { code: 429, status: 'RESOURCE_EXHAUSTED' } }, 429), 'upstream_rate'],
])('maps %s to its failure', async (_what, answer, failure) => {
  const promise = generate(answer)
  await expect(promise).rejects.toMatchObject({ failure })
  // Text of the model that no guard has checked.
  await expect(promise).rejects.not.toThrow('rather not')
})

it.each([
  ['a mask', 'gemini-3-image', 'unsupported_parameter', 'mask'],
  ['references', 'imagen-4', 'unsupported_parameter', 'image'],
])('refuses %s where a model takes none', async (_what, model, code, param) => {
  const file = { bytes: new Uint8Array([1]), mediaType: 'image/png' }
  const input = { prompt: 'x', images: [file], mask: file } satisfies ImageEditInput
  const asked = own.provider.editImage!({ ...imageRequest({}, model), input })
  await expect(asked).rejects.toMatchObject({ code, param })
})

it('refuses a transparent background, which it cannot make', async () => {
  await expect(generate(said(image()), { background: 'transparent' })).rejects.toMatchObject({
    code: 'unsupported_value',
    param: 'background',
  })
})
