/**
 * Input of completions, and input and output of work on texts whose result is no text. Names follow OpenAI's API. Inputs are
 * validated, and also have all members that the gateway does not know: send them to the vendor.
 */
import type { Usage } from './base.ts'

// --- completions ---

/** Texts that a model continues; the answer has the form of a chat, with the text as `content`. */
export interface CompletionInput {
  /** 1 to 20. A single text of the client is a list of one. */
  readonly prompt: readonly string[]
  /** The text behind the place to fill. */
  readonly suffix?: string
  /** Number of answers to each prompt; 1 where it is absent. Choice `i` answers prompt `floor(i / n)`. */
  readonly n?: number
  readonly max_tokens: number
  readonly stop?: string | readonly string[]
  readonly stream?: boolean
  /** Number of alternatives to each token; no log probabilities where it is absent. Answers have them as chats do. */
  readonly logprobs?: number
  readonly [member: string]: unknown
}

// --- embeddings ---

/** Texts that become vectors. */
export interface EmbeddingInput {
  /** 1 to 2048 texts, or lists of token ids of the model. A single text of the client is a list of one. */
  readonly input: readonly string[] | readonly (readonly number[])[]
  /** The form for the client. The gateway makes it of the other one, so a vendor may answer in either. */
  readonly encoding_format: 'float' | 'base64'
  /** Length of the vectors; the model's own where it is absent. */
  readonly dimensions?: number
  readonly [member: string]: unknown
}

/** One vector. */
export interface Embedding {
  /** Index of its input; by default its place in the list. */
  readonly index?: number
  /** Numbers, or base64 of 32-bit floats in little-endian order. */
  readonly embedding: readonly number[] | string
}

/** The vectors of all inputs. */
export interface EmbeddingResult {
  readonly data: readonly Embedding[]
  /** `promptTokens`; estimated by the gateway where it is absent. */
  readonly usage?: Usage
}

// --- rerank ---

/** Documents to order by their relevance to a query. */
export interface RerankInput {
  readonly query: string
  /** 1 to 1000. */
  readonly documents: readonly RerankDocument[]
  /** Number of results for the client; at most the number of documents. All where it is absent. */
  readonly top_n?: number
  readonly [member: string]: unknown
}

/** A text, or an object that has one. */
export type RerankDocument = string | { readonly text: string; readonly [member: string]: unknown }

/** The result of {@link RerankInput}, in any order. */
export interface RerankResult {
  readonly results: readonly {
    /** Place of the document in the request. */
    readonly index: number
    /** Higher is more relevant; the scale is the vendor's. */
    readonly relevance_score: number
  }[]
  /** `promptTokens` or `searchUnits`, as the vendor counts. */
  readonly usage?: Usage
}

// --- moderation ---

/** Texts and images for a classifier. */
export interface ModerationInput {
  /** 1 to 128 texts, each an input; or parts that are one input together. A single text of the client is a list of one. */
  readonly input: readonly string[] | readonly ModerationPart[]
  readonly [member: string]: unknown
}

/** One part of an input. */
export type ModerationPart =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image_url'; readonly image_url: { readonly url: string } }

/** Results of a classifier for each input, in their order. The gateway passes them on unchanged. */
export interface ModerationResult {
  readonly results: readonly object[]
  /** `promptTokens`; estimated by the gateway where it is absent. */
  readonly usage?: Usage
}
