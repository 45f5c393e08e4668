/** Images of whoever speaks OpenAI's image API: made from words, or from other images. */
import {
  requestEach,
  type GeneratedImage,
  type Host,
  type ImageEditInput,
  type ImageEvent,
  type ImageInput,
  type ImageResult,
  type ProviderRequest,
  type Provider,
  type Step,
  type UpstreamResponse,
  type Usage,
} from '../../src/plugin.ts'
import { errorText, httpFailure, inbandFailure, notAnAnswer } from './errors.ts'
import { toEdit, toGeneration, type ImageBody, type ImageQuirks } from './images-request.ts'
import { vendorCost } from './usage.ts'

/** How a model is asked for images. */
export interface ImageLine {
  /** All of it, up to the query. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly quirks: { readonly images?: ImageQuirks }
}

/** Members of a deployment's options that count here. */
interface Options {
  readonly omit?: readonly string[]
}

/** What the two paths of the API are called. */
export type ImagePath = 'generations' | 'edits'

/**
 * The image methods of a provider.
 * @param lineOf called for every request
 */
export function createImages<Own extends Options>(
  host: Host,
  lineOf: (path: ImagePath, model: string, options: Own) => ImageLine,
): Required<Pick<Provider, 'generateImage' | 'editImage'>> {
  const serve = async <In extends ImageInput>(
    path: ImagePath,
    job: ProviderRequest<In>,
    toBody: (input: In, quirks: ImageQuirks, omit: readonly string[]) => ImageBody,
  ): Promise<ImageResult | AsyncIterable<ImageEvent>> => {
    const { input, model } = job
    const options = job.options as unknown as Own
    const line = lineOf(path, model, options)
    const { images: quirks = {} } = line.quirks
    const { n = 1 } = input
    const single = n > 1 && quirks.single?.(model) === true
    const body = toBody(single ? { ...input, n: 1 } : input, quirks, options.omit ?? [])
    if (!single) return ask(host, line, body, job.signal)
    return requestEach(n, job.signal, async (signal) => {
      const answer = await ask(host, line, body, signal)
      if ('data' in answer) return answer
      throw notAnAnswer(host.fail)
    })
  }
  return {
    generateImage: (job) =>
      serve<ImageInput>('generations', job, (input, quirks, omit) =>
        toGeneration(input, job.model, quirks, omit),
      ),
    editImage: (job) =>
      serve<ImageEditInput>('edits', job, (input, quirks, omit) =>
        toEdit(input, job.model, quirks, omit, host),
      ),
  }
}

async function ask(
  host: Host,
  { url, headers }: ImageLine,
  { contentType, body }: ImageBody,
  signal: AbortSignal,
): Promise<ImageResult | AsyncIterable<ImageEvent>> {
  // Not as a stream, where the first byte has to come early: images take their time.
  const sent = { ...headers, 'content-type': contentType }
  const response = await host.request({ url, headers: sent, body, signal })
  const { status } = response
  if (status < 200 || status > 299) {
    throw httpFailure(host.fail, response, await errorText(response, signal))
  }
  if ((response.headers['content-type'] ?? '').includes('event-stream')) {
    return host.sse(response.body).through(new ImageEvents(host.fail))
  }
  return toResult(await jsonOf(response, host.fail), host, signal)
}

async function toResult(payload: any, host: Host, signal: AbortSignal): Promise<ImageResult> {
  const failed = inbandFailure(host.fail, payload)
  if (failed) throw failed.error
  if (!Array.isArray(payload.data)) throw notAnAnswer(host.fail)
  const data = await Promise.all(payload.data.map((item: any) => toImage(item, host, signal)))
  return { ...lookOf(payload), data }
}

async function toImage(item: any, host: Host, signal: AbortSignal): Promise<GeneratedImage> {
  const { b64_json, url, revised_prompt } = Object(item)
  const said = typeof revised_prompt === 'string' && revised_prompt ? { revised_prompt } : {}
  if (typeof b64_json === 'string') return { b64_json, ...said }
  if (typeof url !== 'string') throw notAnAnswer(host.fail)
  return { b64_json: await fetched(url, host, signal), ...said }
}

const MAX_IMAGE_BYTES = 32 * 1024 * 1024

/** Some vendors answer with an address, whatever they were asked. */
async function fetched(url: string, host: Host, signal: AbortSignal): Promise<string> {
  try {
    const options = { limitBytes: MAX_IMAGE_BYTES, types: ['image/', 'application/octet-stream'] }
    const { bytes } = await host.download(url, signal, options)
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
  } catch (cause) {
    signal.throwIfAborted()
    const message = 'The model provider put the image where it could not be fetched.'
    throw host.fail('upstream_error', message, { cause })
  }
}

function lookOf({
  background,
  output_format,
  size,
  quality,
  usage,
}: any): Omit<ImageResult, 'data'> {
  const counted = toUsage(usage)
  return {
    ...(background && { background }),
    ...(output_format && { output_format }),
    ...(size && { size }),
    ...(quality && { quality }),
    ...(counted && { usage: counted }),
  }
}

/** Counts of either of OpenAI's two forms. What comes out is image unless the vendor says that some of it is text. */
export function toUsage(reported: any): Usage | undefined {
  if (typeof reported !== 'object' || reported === null) return undefined
  const input = reported.input_tokens_details ?? reported.prompt_tokens_details ?? {}
  const output = reported.output_tokens_details ?? reported.completion_tokens_details ?? {}
  const promptTokens = count(reported.input_tokens ?? reported.prompt_tokens)
  const completionTokens = count(reported.output_tokens ?? reported.completion_tokens)
  const cost = vendorCost(reported)
  const vendor = cost === undefined ? {} : { vendorCost: cost }
  if (promptTokens + completionTokens === 0) return cost === undefined ? undefined : vendor
  return {
    promptTokens,
    cachedTokens: count(input.cached_tokens),
    imageInputTokens: count(input.image_tokens),
    completionTokens,
    reasoningTokens: count(output.reasoning_tokens),
    imageOutputTokens: Math.min(count(output.image_tokens ?? completionTokens), completionTokens),
    ...vendor,
  }
}

/** OpenAI's events, whichever of the two paths they are from. */
class ImageEvents implements Step<any, ImageEvent> {
  readonly #fail: Host['fail']

  constructor(fail: Host['fail']) {
    this.#fail = fail
  }

  push(payload: any, emit: (event: ImageEvent) => void): void {
    if (payload?.done) return
    if (typeof payload !== 'object' || payload === null) throw notAnAnswer(this.#fail)
    const failed = inbandFailure(this.#fail, payload)
    if (failed) throw failed.error
    const { type, b64_json, partial_image_index: index = 0 } = payload
    if (typeof type !== 'string') throw notAnAnswer(this.#fail)
    if (type.endsWith('.partial_image')) emit({ type: 'partial', b64_json, index })
    else if (type.endsWith('.completed')) {
      emit({ type: 'completed', data: [{ b64_json }], ...lookOf(payload) })
    }
  }
}

async function jsonOf(response: UpstreamResponse, fail: Host['fail']): Promise<any> {
  const text = await response.text(MAX_ANSWER_BYTES)
  try {
    return Object(JSON.parse(text))
  } catch {
    // Without the cause: it quotes the body.
    throw notAnAnswer(fail)
  }
}

/** Ten large images. */
const MAX_ANSWER_BYTES = 256 * 1024 * 1024

function count(value: unknown): number {
  return typeof value === 'number' && value > 0 && Number.isFinite(value) ? Math.round(value) : 0
}
