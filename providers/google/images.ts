/** Image generation: Gemini models draw in a chat request, Imagen has its own method. */
import {
  requestEach,
  type Host,
  type ImageEditInput,
  type ImageInput,
  type ImageResult,
  type ProviderRequest,
  type MediaFile,
  type Provider,
  type Usage,
} from '../../src/plugin.ts'
import { notAnAnswer, toBase64 } from '../shared/http.ts'
import { readJson, type Client } from './client.ts'
import { blocked, inbandFailure } from './errors.ts'
import { safetyOf } from './request.ts'
import { countOf, toUsage } from './usage.ts'

/** The image methods of the provider. @param safety see the plugin's options */
export function createImages(
  client: Client,
  host: Host,
  safety: string | undefined,
): Required<Pick<Provider, 'generateImage' | 'editImage'>> {
  const draw = async (request: ProviderRequest<ImageInput>, references: readonly MediaFile[]) => {
    const body = toBody(request.input, references, safety, host.fail)
    return requestEach(request.input.n ?? 1, request.signal, async (signal) => {
      const response = await client.post(request.model, 'generateContent', body, { signal })
      return toResult(await readJson(response, host), host.fail)
    })
  }
  const predict = async ({ input, model, signal: callSignal }: ProviderRequest<ImageInput>) => {
    const { n = 1 } = input
    const together = n <= MAX_SAMPLES
    const body = toPrediction(input, together ? n : 1, host.fail)
    return requestEach(together ? 1 : n, callSignal, async (signal) => {
      const response = await client.post(model, 'predict', body, { signal })
      return toPredicted(await readJson(response, host), host.fail)
    })
  }
  return {
    generateImage: (request) => (isImagen(request.model) ? predict(request) : draw(request, [])),
    async editImage(request: ProviderRequest<ImageEditInput>) {
      const { mask, images } = request.input
      if (isImagen(request.model)) throw refused('images to refer to', 'image', host.fail)
      if (mask) throw refused('a mask', 'mask', host.fail)
      return draw(request, images)
    },
  }
}

/** Aspect ratios that Gemini supports, width to height. */
const GEMINI_RATIOS = ['1:1', '2:3', '3:2', '3:4', '4:3', '4:5', '5:4', '9:16', '16:9', '21:9']
/** Most images per request to Imagen. */
const MAX_SAMPLES = 4
const IMAGEN_RATIOS = ['1:1', '3:4', '4:3', '9:16', '16:9']

function isImagen(model: string): boolean {
  return /(^|\/)imagen/.test(model)
}

function toBody(
  input: ImageInput,
  references: readonly MediaFile[],
  safety: string | undefined,
  fail: Host['fail'],
): object {
  const shape = shapeOf(input, GEMINI_RATIOS, fail)
  const parts = references.map(({ bytes, mediaType: mimeType }) => ({
    inlineData: { mimeType, data: toBase64(bytes) },
  }))
  return {
    contents: [{ role: 'user', parts: [...parts, { text: input.prompt }] }],
    generationConfig: {
      responseModalities: ['TEXT', 'IMAGE'],
      ...(shape && {
        imageConfig: {
          aspectRatio: shape.ratio,
          ...(shape.scale !== '1K' && { imageSize: shape.scale }),
        },
      }),
    },
    ...safetyOf(safety),
  }
}

function toPrediction(input: ImageInput, sampleCount: number, fail: Host['fail']): object {
  const shape = shapeOf(input, IMAGEN_RATIOS, fail)
  return {
    instances: [{ prompt: input.prompt }],
    parameters: {
      sampleCount,
      includeRaiReason: true,
      ...(shape && { aspectRatio: shape.ratio }),
      ...(shape?.scale === '2K' && { sampleImageSize: '2K' }),
    },
  }
}

/** The nearest supported aspect ratio and size. @throws the failure class `bad_request` for transparent images */
function shapeOf(
  { size, background }: ImageInput,
  ratios: readonly string[],
  fail: Host['fail'],
): { readonly ratio: string; readonly scale: string } | undefined {
  if (background === 'transparent') {
    throw fail('bad_request', 'This model makes no transparent images.', {
      code: 'unsupported_value',
      param: 'background',
    })
  }
  const [width = NaN, height = NaN] = (size ?? '').split('x').map(Number)
  if (Number.isNaN(width / height)) return undefined
  const distance = (ratio: string) => {
    const [w, h] = ratio.split(':').map(Number) as [number, number]
    return Math.abs(Math.log(width / height / (w / h)))
  }
  const ratio = ratios.reduce((best, one) => (distance(one) < distance(best) ? one : best))
  const longer = Math.max(width, height)
  return { ratio, scale: longer <= 1536 ? '1K' : longer <= 3072 ? '2K' : '4K' }
}

/** Finish reasons of a blocked image. */
const BLOCKED = new Set([
  'SAFETY',
  'RECITATION',
  'BLOCKLIST',
  'PROHIBITED_CONTENT',
  'SPII',
  'IMAGE_SAFETY',
  'IMAGE_PROHIBITED_CONTENT',
  'IMAGE_RECITATION',
  'MODEL_ARMOR',
  'LANGUAGE',
])

function toResult(payload: any, fail: Host['fail']): ImageResult {
  const failed = inbandFailure(fail, payload)
  if (failed) throw failed
  const candidate = payload?.candidates?.[0]
  if (!candidate) throw payload?.promptFeedback?.blockReason ? blocked(fail) : notAnAnswer(fail)
  const parts: any[] = Array.isArray(candidate.content?.parts) ? candidate.content.parts : []
  // Drafts of a model that thinks are not results.
  const image = parts.find((part) => !part?.thought && part?.inlineData?.data)
  if (image) {
    const usage = usageOf(payload.usageMetadata)
    return { data: [{ b64_json: image.inlineData.data }], ...(usage && { usage }) }
  }
  if (BLOCKED.has(candidate.finishReason)) throw blocked(fail)
  if (parts.some((part) => !part?.thought && part?.text)) {
    throw fail('content_blocked', 'The model answered with words in place of an image.')
  }
  throw fail('upstream_error', 'The model provider sent no image.')
}

function toPredicted(payload: any, fail: Host['fail']): ImageResult {
  const failed = inbandFailure(fail, payload)
  if (failed) throw failed
  const predictions: any[] = Array.isArray(payload?.predictions) ? payload.predictions : []
  const data = predictions
    .filter((one) => typeof one?.bytesBase64Encoded === 'string')
    .map((one) => ({ b64_json: one.bytesBase64Encoded }))
  // Imagen leaves out filtered images. A partial result counts as blocked.
  if (data.length === 0 || predictions.some((one) => one?.raiFilteredReason)) throw blocked(fail)
  return { data }
}

function usageOf(metadata: any): Usage | undefined {
  const counted = toUsage(metadata)
  if (!counted) return undefined
  return {
    ...(counted.prompt_tokens != null && { promptTokens: counted.prompt_tokens }),
    cachedTokens: counted.prompt_tokens_details?.cached_tokens ?? 0,
    imageInputTokens: countOf(metadata.promptTokensDetails, 'IMAGE'),
    ...(counted.completion_tokens != null && { completionTokens: counted.completion_tokens }),
    reasoningTokens: counted.completion_tokens_details?.reasoning_tokens ?? 0,
    imageOutputTokens: counted.completion_tokens_details?.image_tokens ?? 0,
  }
}

function refused(what: string, param: string, fail: Host['fail']): Error {
  return fail('bad_request', `This model does not take ${what}.`, {
    code: 'unsupported_parameter',
    param,
  })
}
