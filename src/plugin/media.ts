/** Images, documents and audio: what providers take and give. Names are OpenAI's (OCR: Mistral's) where these have one. */
import type { Usage } from './base.ts'

/** Bytes, and what they are. */
export interface MediaFile {
  readonly bytes: Uint8Array
  /** The same as they arrived, for whoever only passes them on: joining a large file costs as much memory again. */
  readonly segments?: readonly Uint8Array[]
  /** Found in the bytes themselves where that is possible, such as `image/png`. */
  readonly mediaType: string
  /** As the client named it; for a vendor's eyes only. */
  readonly filename?: string
}

// --- images ---

export interface ImageInput {
  readonly prompt: string
  /** 1 to 10 */
  readonly n?: number
  readonly size?: string
  readonly quality?: string
  readonly output_format?: 'png' | 'jpeg' | 'webp'
  readonly output_compression?: number
  readonly background?: 'transparent' | 'opaque' | 'auto'
  readonly moderation?: 'low' | 'auto'
  readonly style?: 'vivid' | 'natural'
  readonly stream?: boolean
  readonly partial_images?: number
  readonly [member: string]: unknown
}

export interface ImageEditInput extends ImageInput {
  readonly images: readonly MediaFile[]
  readonly mask?: MediaFile
  readonly input_fidelity?: 'high' | 'low'
}

export interface GeneratedImage {
  /** Standard alphabet, padded. */
  readonly b64_json: string
  readonly revised_prompt?: string
}

/** What was made, and how, where the vendor says so. */
export interface ImageResult {
  readonly data: readonly GeneratedImage[]
  readonly usage?: Usage
  readonly background?: string
  readonly output_format?: string
  readonly size?: string
  readonly quality?: string
}

/** One event of an image that is shown while it is made; `completed` is the last one. */
export type ImageEvent =
  | { readonly type: 'partial'; readonly b64_json: string; readonly index: number }
  | ({ readonly type: 'completed' } & ImageResult)

// --- OCR ---

/** Where a document is: its bytes, or the address a vendor that takes addresses gets. */
export type DocumentSource = { readonly file: MediaFile } | { readonly url: string }

export interface OcrInput {
  readonly document: DocumentSource & {
    readonly kind: 'document' | 'image'
    readonly name?: string
  }
  /** Zero-based, ascending, without repetition; all when absent. */
  readonly pages?: readonly number[]
  readonly include_image_base64?: boolean
  readonly image_limit?: number
  readonly image_min_size?: number
  readonly bbox_annotation_format?: object
  readonly document_annotation_format?: object
  readonly document_annotation_prompt?: string
  readonly [member: string]: unknown
}

export interface OcrPage {
  /** Position in the document. */
  readonly index: number
  readonly markdown: string
  readonly images?: readonly any[]
  readonly dimensions?: {
    readonly dpi: number
    readonly height: number
    readonly width: number
  } | null
  readonly [member: string]: unknown
}

export interface OcrResult {
  readonly pages: readonly OcrPage[]
  /** JSON text. */
  readonly document_annotation?: string | null
  /** How large the document is, where the vendor says so. */
  readonly documentBytes?: number | null
  /** `pages` are those that were processed; by default as many as there are in `pages`. */
  readonly usage?: Usage
}

// --- speech ---

export interface SpeechInput {
  readonly input: string
  readonly voice: string | { readonly id: string }
  readonly instructions?: string
  readonly response_format: 'mp3' | 'opus' | 'aac' | 'flac' | 'wav' | 'pcm'
  /** 0.25 to 4 */
  readonly speed?: number
  readonly [member: string]: unknown
}

/** Sound, as it is made. */
export interface Speech {
  /** In the format that was asked for. */
  readonly bytes: AsyncIterable<Uint8Array>
  /**
   * The bytes are bare samples instead (16 bits, signed, little-endian, mono), so many a second. The gateway makes `wav`
   * and `pcm` of them; other formats it refuses.
   */
  readonly pcmSampleRate?: number
  /** Where the vendor counts something else than the characters of the input. */
  readonly usage?: Usage
}

// --- transcription ---

export interface TranscriptionInput {
  readonly file: MediaFile
  /** ISO 639-1 */
  readonly language?: string
  readonly prompt?: string
  readonly temperature?: number
  /** What has to be in the answer; text forms are made by the gateway. */
  readonly response_format: 'json' | 'verbose_json' | 'diarized_json'
  readonly timestamp_granularities?: readonly ('word' | 'segment')[]
  readonly stream?: boolean
  readonly [member: string]: unknown
}

export interface TranscriptSegment {
  /** Seconds from the beginning. */
  readonly start: number
  readonly end: number
  readonly text: string
  /** A number, from 0, for one without a name. */
  readonly speaker?: string | number
  readonly [member: string]: unknown
}

export interface TranscriptWord {
  readonly word: string
  readonly start: number
  readonly end: number
  readonly speaker?: string | number
}

export interface Transcription {
  readonly text: string
  /** English name in lower case, or a code. */
  readonly language?: string
  /** Seconds of sound. */
  readonly duration?: number
  /** Where a vendor gives words only, the gateway makes segments of them. */
  readonly segments?: readonly TranscriptSegment[]
  readonly words?: readonly TranscriptWord[]
  readonly logprobs?: readonly any[]
  readonly usage?: Usage
}

/** One event of a transcript that is written while it is heard; `done` is the last one and says everything. */
export type TranscriptionEvent =
  | {
      readonly type: 'delta'
      readonly text: string
      readonly segmentId?: string
      readonly logprobs?: readonly any[]
    }
  | { readonly type: 'segment'; readonly id: string; readonly segment: TranscriptSegment }
  | ({ readonly type: 'done' } & Transcription)
