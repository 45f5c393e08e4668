import { afterEach, expect, it } from 'vitest'
import compatible from '../../providers/openai-compatible.ts'
import google from '../../providers/google.ts'
import openai from '../../providers/openai.ts'
import { mediaTypeOf } from '../../src/endpoints/shared/media.ts'
import type { ImageEditInput, ImageInput, ImageResult, ProviderPlugin } from '../../src/plugin.ts'
import { describeRecorded, whole, type Recording } from '../fixtures.ts'
import { startUpstream, type FakeUpstream } from '../upstream.ts'
import { setUp, silent } from './_chat.ts'

const IMAGES = /\/images|:predict|image.*:generateContent/
const REFERENCE = { bytes: new Uint8Array([1, 2, 3]), mediaType: 'image/png' }

let vendor: FakeUpstream | undefined
afterEach(async () => {
  await vendor?.close()
  vendor = undefined
})

/** Repeats a recorded request. */
async function replay(
  recording: Recording,
  plugin: ProviderPlugin,
  options: (origin: string) => object,
  model: string,
  input: Partial<ImageInput | ImageEditInput> = {},
): Promise<ImageResult> {
  vendor = await startUpstream(whole(recording))
  await using own = await setUp(plugin, options(vendor.url))
  const request = {
    model,
    options: {},
    requestId: 'req_test',
    signal: new AbortController().signal,
    log: silent,
    input: { prompt: 'a siamese cat', ...input },
  }
  const { provider } = own
  const answer =
    'images' in input
      ? await provider.editImage!({ ...request, input: request.input as ImageEditInput })
      : await provider.generateImage!(request)
  if (!('data' in answer)) throw new Error('expected a whole answer')
  for (const { b64_json } of answer.data) {
    expect(mediaTypeOf(Buffer.from(b64_json, 'base64'))).toMatch(/^image\//)
  }
  expect(vendor.requests[0]!.path).toBe(recording.path)
  return answer
}

describeRecorded('recorded images', ['openai', 'xai', 'openrouter', 'google'], IMAGES, (all) => {
  const named = (name: string) => all.find((one) => one.name === name)!
  const atOpenAI = (url: string) => ({ baseURL: `${url}/v1`, apiKey: 'k' })
  const atGoogle = (url: string) => ({ baseURL: `${url}/v1beta`, apiKey: 'k' })

  it('openai: generated', async () => {
    const recording = named('openai/image-generation-gpt-image-1')
    const input = { n: 1, size: '1024x1024' }
    const result = await replay(recording, openai, atOpenAI, 'gpt-image-1', input)
    expect(vendor!.requests[0]!.json).toEqual(recording.request.body)
    expect(result).toMatchObject({ size: '1024x1024', quality: 'high', output_format: 'png' })
    expect(result.usage).toMatchObject({
      promptTokens: 10,
      imageInputTokens: 0,
      completionTokens: 4160,
      imageOutputTokens: 4160,
    })
  })

  it('openai: edited, with text tokens in the usage', async () => {
    const recording = named('openai/image-edit-gpt-image-1.5')
    const input = { images: [REFERENCE] }
    const result = await replay(recording, openai, atOpenAI, 'gpt-image-1.5', input)
    expect(result.usage).toMatchObject({
      promptTokens: 221,
      imageInputTokens: 194,
      completionTokens: 415,
      imageOutputTokens: 272,
    })
  })

  it('openai: of any size', async () => {
    const recording = named('openai/image-edit-gpt-image-2-size')
    const input = { images: [REFERENCE], size: '1536x864' }
    const result = await replay(recording, openai, atOpenAI, 'gpt-image-2', input)
    expect(result.size).toBe('1536x864')
    expect(vendor!.requests[0]!.body.toString('latin1')).toContain('name="size"\r\n\r\n1536x864')
  })

  it('openai: of the older family', async () => {
    const recording = named('openai/image-generation-dalle')
    const result = await replay(recording, openai, atOpenAI, 'dall-e-2', { n: 2 })
    expect(vendor!.requests[0]!.json).toMatchObject({ response_format: 'b64_json', n: 2 })
    expect(result.data.map(({ revised_prompt }) => revised_prompt?.slice(0, 7))).toEqual([
      'A small',
      undefined,
    ])
    expect(result.usage).toBeUndefined()
  })

  it.each([
    ['openai/error-400-image-edit-bad-file', 'invalid_image', 'images[0].image_url'],
    ['openai/error-400-image-response-format', 'unsupported_parameter', 'response_format'],
  ])('%s', async (name, code, param) => {
    const recording = named(name)
    const input = recording.path.endsWith('edits') ? { images: [REFERENCE] } : {}
    await expect(replay(recording, openai, atOpenAI, 'gpt-image-1', input)).rejects.toMatchObject({
      failure: 'bad_request',
      code,
      param,
    })
  })

  it.each([
    ['openai/image-generation-url', openai, 'dall-e-3', {}],
    ['xai/image-generation', compatible, 'grok-imagine-image', { quirks: 'xai' }],
  ] as const)(
    '%s: what is only an address is fetched, and not from anywhere',
    async (name, plugin, model, more) => {
      const at = (url: string) => ({ ...atOpenAI(url), ...more })
      // The host of these tests does not download.
      const asked = replay(named(name), plugin as ProviderPlugin, at, model)
      await expect(asked).rejects.toMatchObject({ failure: 'upstream_error' })
      expect(vendor!.requests[0]!.json).toMatchObject({ response_format: 'b64_json' })
    },
  )

  it('openrouter: on its own path, with the reported cost', async () => {
    const at = (url: string) => ({ baseURL: `${url}/api/v1`, quirks: 'openrouter' })
    const model = 'google/gemini-3.1-flash-lite-image'
    const result = await replay(named('openrouter/image-generation'), compatible, at, model)
    expect(result.usage).toMatchObject({
      promptTokens: 5,
      completionTokens: 1537,
      imageOutputTokens: 1120,
      vendorCost: '0.03422675',
    })
  })

  it('google: drawn in a chat', async () => {
    const model = 'gemini-2.5-flash-image'
    const result = await replay(named('google/image-output'), google, atGoogle, model)
    expect(result.data).toHaveLength(1)
    expect(result.usage).toMatchObject({
      promptTokens: 17,
      completionTokens: 1336,
      imageOutputTokens: 1290,
    })
  })

  it('google: drawn by a newer model, after reference images', async () => {
    const recording = named('google/image-output-gemini31')
    const input = { images: [REFERENCE], size: '1920x1080' }
    const result = await replay(recording, google, atGoogle, 'gemini-3.1-flash-lite-image', input)
    expect(result.usage).toMatchObject({ completionTokens: 1518, imageOutputTokens: 1120 })
    expect(vendor!.requests[0]!.json).toEqual({
      contents: [
        {
          role: 'user',
          parts: [
            { inlineData: { mimeType: 'image/png', data: 'AQID' } },
            { text: 'a siamese cat' },
          ],
        },
      ],
      generationConfig: {
        responseModalities: ['TEXT', 'IMAGE'],
        imageConfig: { aspectRatio: '16:9', imageSize: '2K' },
      },
    })
  })

  it('google: predicted', async () => {
    const recording = named('google/imagen-predict')
    const input = { prompt: 'a red cube', n: 2, size: '1024x1024' }
    const model = 'imagen-4.0-generate-001'
    const result = await replay(recording, google, atGoogle, model, input)
    expect(result.data).toHaveLength(2)
    expect(vendor!.requests[0]!.json).toMatchObject({
      instances: recording.request.body.instances,
      parameters: recording.request.body.parameters,
    })
    await vendor!.close()
    const filtered = named('google/imagen-predict-filtered')
    await expect(replay(filtered, google, atGoogle, model, input)).rejects.toMatchObject({
      failure: 'content_blocked',
    })
  })
})
