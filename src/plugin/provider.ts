import type { ConsolaInstance } from 'consola'
import { API_VERSION, type Host, type Output, type Schema } from './base.ts'
import type { ChatInput, ChatChunk, ChatCompletion } from './chat.ts'
import type {
  ImageEditInput,
  ImageEvent,
  ImageInput,
  ImageResult,
  OcrInput,
  OcrResult,
  Speech,
  SpeechInput,
  Transcription,
  TranscriptionEvent,
  TranscriptionInput,
} from './media.ts'

/** One request to a provider. */
export interface ProviderRequest<In> {
  /** OpenAI-shaped, already constrained and grounded; unknown members included. */
  readonly input: In
  /** The upstream's model name from the deployment. */
  readonly model: string
  /** The deployment's `options` from the catalog, as the provider's `deploymentOptions` schema put them out. */
  readonly options: Readonly<Record<string, unknown>>
  readonly requestId: string
  /** Must be handed to every request made. */
  readonly signal: AbortSignal
  readonly log: ConsolaInstance
}

/** A method that is present is a capability offered. */
export interface Provider {
  chat?(job: ProviderRequest<ChatInput>): Promise<ChatCompletion | AsyncIterable<ChatChunk>>
  generateImage?(job: ProviderRequest<ImageInput>): Promise<ImageResult | AsyncIterable<ImageEvent>>
  editImage?(job: ProviderRequest<ImageEditInput>): Promise<ImageResult | AsyncIterable<ImageEvent>>
  ocr?(job: ProviderRequest<OcrInput>): Promise<OcrResult>
  speech?(job: ProviderRequest<SpeechInput>): Promise<Speech>
  transcribe?(
    job: ProviderRequest<TranscriptionInput>,
  ): Promise<Transcription | AsyncIterable<TranscriptionEvent>>
  close?(): void | Promise<void>
}

export interface ProviderPlugin<S extends Schema = Schema<any>, D extends Schema = Schema<any>> {
  readonly kind: 'provider'
  readonly api: number
  readonly name: string
  /** Validates `providers.<name>.options`. */
  readonly options: S
  /** Validates `models.<id>.deployments[].options`; without it a deployment has none. */
  readonly deploymentOptions?: D
  setup(options: Output<S>, host: Host): Provider | Promise<Provider>
}

/** Brands a provider plugin. @example see `providers/openai-compatible.ts` */
export function defineProvider<S extends Schema, D extends Schema = Schema<any>>(
  plugin: Omit<ProviderPlugin<S, D>, 'kind' | 'api'>,
): ProviderPlugin<S, D> {
  return { kind: 'provider', api: API_VERSION, ...plugin }
}
