/** A request as the pipeline takes it: validated, and in the form that a vendor gets. */
import type { Model } from '../models/catalog.ts'
import type { InvalidRequest } from '../errors/errors.ts'
import type { NativeInput } from '../plugin.ts'
import type { Instructions, Policy } from '../policy/policy.ts'
import type { RawJson } from '../stream/raw-json.ts'

/** A kind of work; also the name of the provider's method. */
export type Operation =
  | 'chat'
  | 'complete'
  | 'countTokens'
  | 'generateImage'
  | 'editImage'
  | 'ocr'
  | 'speech'
  | 'transcribe'
  | 'embed'
  | 'rerank'
  | 'moderate'

/** A validated request. */
export interface ParsedRequest<In = any> {
  /** In the endpoint's normal form; never changed. */
  readonly input: In
  /** As the client wrote it. */
  readonly model: string
  /** Whether the answer is sent as it comes. */
  readonly stream: boolean
  readonly policy: Policy | undefined
  /** Ties calls of one conversation together. */
  readonly session: string | undefined
  /** Has a meaning only for the deployment that gave it. */
  readonly affinityToken: string | undefined
  /** Paths of what has no counterpart in the normal form; the client is told in a header. */
  readonly ignored?: readonly string[]
  /** Headers of the client for a vendor that speaks its form. */
  readonly nativeHeaders?: Readonly<Record<string, string>>
  /** The error where the request means nothing in the normal form. */
  readonly untranslatable?: InvalidRequest | undefined
  /** What the writer of the format has to know of the request. */
  readonly answerOptions?: unknown
  /** Size of the decoded body in bytes, where the prompt is estimated by it. */
  readonly bodyBytes?: number
  /** The source text behind the input, where members of it are copied upstream; released when the first part has arrived. */
  readonly rawJson?: RawJson | undefined
}

/** How a request goes to a vendor that speaks the client's own form. */
export interface NativeFormat {
  /** The provider's method. */
  readonly method: 'messages' | 'responses'
  /** @returns undefined for a request that has to be translated */
  prepare(request: ParsedRequest, to: NativeTarget): NativeRequest | undefined
}

/** What a request is prepared for. */
export interface NativeTarget extends Instructions {
  readonly model: Model
  /** The name of the model at the vendor. */
  readonly upstreamModel: string
  /** Guards may block the call: the vendor runs no tools of its own then, whose results no guard has read. */
  readonly guarded: boolean
  /** An opaque name for an end user of the client's. */
  label(value: string): string
}

/** A request in the vendor's form, and the paths of what was left out. */
export interface NativeRequest {
  readonly input: NativeInput
  readonly ignored: readonly string[]
}

/** An address in a request. */
export interface ClientAddress {
  readonly url: string
  /** Path of its member. */
  readonly param: string
}
