/** Providers answer requests with a vendor's models. */
import type { ConsolaInstance } from 'consola'
import { API_VERSION, type Closable, type Output, type Plugin, type Schema } from './base.ts'
import type { OptionField } from './fields.ts'
import type { ChatInput, ChatChunk, ChatCompletion, NativeInput } from './chat.ts'
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
import type {
  CompletionInput,
  EmbeddingInput,
  EmbeddingResult,
  ModerationInput,
  ModerationResult,
  RerankInput,
  RerankResult,
} from './texts.ts'

/** One request to a provider. @typeParam Options result of `deploymentOptions` of the plugin for the options of a deployment */
export interface ProviderRequest<In, Options = Readonly<Record<string, unknown>>> {
  /** The client's request, with the policy and search results applied. Must not be changed in place. */
  readonly input: In
  /** The model's name at the vendor, from the deployment. */
  readonly model: string
  /** The `options` of the deployment, as the schema `deploymentOptions` returned them; empty without that schema. */
  readonly options: Options
  /** The gateway's id of the call, `req_` and a ULID. */
  readonly requestId: string
  /** Pass it to every request. Aborted when the client leaves or the time of the attempt is up. */
  readonly signal: AbortSignal
  readonly log: ConsolaInstance
  /**
   * Names what the model does not take and is left out, before the method answers, so that the client is told: `reasoning` the
   * hints of how to reason, `thoughts` those of earlier turns.
   */
  readonly dropped?: (what: 'reasoning' | 'thoughts') => void
}

/** Result of {@link Provider.logIn}. */
export interface LoginReport {
  /** Origin of the credentials, such as `metadata server`, for the operator. */
  readonly source: string
  /** Their expiry, ms since epoch; absent for lasting ones. */
  readonly expiresAt?: number
}

/** A model that a vendor names as one of its own. */
export interface OfferedModel {
  /** The name by which calls ask for it. */
  readonly id: string
  readonly name?: string
  /** The family of endpoints, such as `chat` or `embedding`. */
  readonly modality?: string
  /** Tokens. */
  readonly contextLength?: number
  /** Tokens. */
  readonly maxOutputTokens?: number
  /** What it can do, in the words of `capabilities` of a model. */
  readonly capabilities?: readonly string[]
  /** Its release, seconds since epoch. */
  readonly createdAt?: number
}

/**
 * A set-up provider. Each method is one capability; leave out what the vendor does not offer. A method throws errors of {@link
 * Host.fail}; any other error counts as `upstream_error`. Where an async iterable is allowed, returning one means that the
 * answer is streamed.
 */
export interface Provider<Options = Readonly<Record<string, unknown>>> extends Closable {
  /**
   * Where calls go, as a URL, if no option says it; null for a provider that connects to nothing. `sluicegate check` shows the
   * way there.
   */
  readonly address?: string | null
  /** Validates the options of the deployments of this instance, in place of the plugin's {@link ProviderPlugin.deploymentOptions}. */
  readonly deploymentOptions?: Schema<any>
  /**
   * Gets credentials, unless it has valid ones; for a provider that gets them by itself. `sluicegate check` calls it.
   * @throws what {@link Host.fail} makes, with a `cause` whose message tells the operator why
   */
  logIn?(signal: AbortSignal): Promise<LoginReport>
  /**
   * Asks the vendor for its models, at most 5,000 of them. `sluicegate models discover` calls it, and `discover` of an entry
   * `vendor/*`. Leave it out where the vendor has no such list.
   */
  models?(signal: AbortSignal): Promise<readonly OfferedModel[]>
  chat?(
    request: ProviderRequest<ChatInput, Options>,
  ): Promise<ChatCompletion | AsyncIterable<ChatChunk>>
  /** Chat in the form of Anthropic's Messages API. Used where nothing on the way needs another form; `chat` answers the rest. */
  messages?(
    request: ProviderRequest<NativeInput, Options>,
  ): Promise<ChatCompletion | AsyncIterable<ChatChunk>>
  /** Chat in the form of OpenAI's Responses API, used in the same way. */
  responses?(
    request: ProviderRequest<NativeInput, Options>,
  ): Promise<ChatCompletion | AsyncIterable<ChatChunk>>
  /** Continues a text, without roles and instructions; for models with the capability `COMPLETIONS`. */
  complete?(
    request: ProviderRequest<CompletionInput, Options>,
  ): Promise<ChatCompletion | AsyncIterable<ChatChunk>>
  /** Whether a deployment takes requests in a form for which there is a method of this name; by default it does. */
  takes?(
    form: 'messages' | 'responses' | 'complete',
    deployment: { readonly model: string; readonly options: unknown },
  ): boolean
  /** Has the vendor count the tokens of a prompt; leave it out where that costs anything. */
  countTokens?(request: ProviderRequest<ChatInput, Options>): Promise<number>
  generateImage?(
    request: ProviderRequest<ImageInput, Options>,
  ): Promise<ImageResult | AsyncIterable<ImageEvent>>
  editImage?(
    request: ProviderRequest<ImageEditInput, Options>,
  ): Promise<ImageResult | AsyncIterable<ImageEvent>>
  ocr?(request: ProviderRequest<OcrInput, Options>): Promise<OcrResult>
  speech?(request: ProviderRequest<SpeechInput, Options>): Promise<Speech>
  transcribe?(
    request: ProviderRequest<TranscriptionInput, Options>,
  ): Promise<Transcription | AsyncIterable<TranscriptionEvent>>
  embed?(request: ProviderRequest<EmbeddingInput, Options>): Promise<EmbeddingResult>
  rerank?(request: ProviderRequest<RerankInput, Options>): Promise<RerankResult>
  moderate?(request: ProviderRequest<ModerationInput, Options>): Promise<ModerationResult>
}

/** A provider plugin. */
export interface ProviderPlugin<
  S extends Schema = Schema<any>,
  D extends Schema = Schema<any>,
> extends Plugin<'provider', S, Provider<Output<D>>> {
  /** Validates `models.<id>.deployments[].options`; without it a deployment may have none. */
  readonly deploymentOptions?: D
  /** Options of deployments that may be set at run time. None is a secret or an address. */
  readonly deploymentFields?: readonly OptionField[]
  /**
   * The vendor as OpenTelemetry's conventions for generative AI name it, where that is not the plugin's name; null for a plugin
   * of many vendors: the name of the provider in the configuration tells which one it is.
   * https://opentelemetry.io/docs/specs/semconv/registry/attributes/gen-ai/
   */
  readonly telemetryName?: string | null
  /** Members of a chat request for which the vendor has no equivalent, such as `seed`. The kit checks that others are forwarded. */
  readonly ignores?: readonly string[]
}

/** Options of a deployment without any. */
type NoOptions = Schema<Readonly<Record<string, never>>>

/**
 * Marks a plain object as a provider plugin. With `deploymentOptions` the options of requests have their types; without them
 * there are none. Example: `providers/openai-compatible.ts`.
 */
export function defineProvider<S extends Schema, D extends Schema = NoOptions>(
  plugin: Omit<ProviderPlugin<S, D>, 'kind' | 'api'>,
): ProviderPlugin<S, D> {
  return { kind: 'provider', api: API_VERSION, ...plugin }
}
