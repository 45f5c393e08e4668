/**
 * Input and output of images, documents and audio. Names follow OpenAI's API, for OCR Mistral's. Inputs are validated, and
 * also have all members that the gateway does not know: send them to the vendor.
 */
import type { Usage } from './base.ts'

/** A file from the client. */
export interface MediaFile {
  readonly bytes: Uint8Array
  /** The same bytes as they arrived. Send these when you only pass a file on: `bytes` joins them, in as much memory again. */
  readonly segments?: readonly Uint8Array[]
  /** Media type such as `image/png`; detected in the bytes where possible. */
  readonly mediaType: string
  /** The client's name of the file. Do not log it. */
  readonly filename?: string
}

// --- images ---

/** A request for images; see `docs/api/media.md`. */
export interface ImageInput {
  readonly prompt: string
  /** Number of images, 1 to 10; by default 1. */
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

/** A request to change images. */
export interface ImageEditInput extends ImageInput {
  readonly images: readonly MediaFile[]
  readonly mask?: MediaFile
  readonly input_fidelity?: 'high' | 'low'
}

/** One image. */
export interface GeneratedImage {
  /** The bytes in base64, standard alphabet with padding. */
  readonly b64_json: string
  readonly revised_prompt?: string
}

/** All images of a request, with the properties that the vendor reports. */
export interface ImageResult {
  readonly data: readonly GeneratedImage[]
  readonly usage?: Usage
  readonly background?: string
  readonly output_format?: string
  readonly size?: string
  readonly quality?: string
}

/** One event of a streamed image: previews, then `completed` with the result. */
export type ImageEvent =
  | { readonly type: 'partial'; readonly b64_json: string; readonly index: number }
  | ({ readonly type: 'completed' } & ImageResult)

// --- OCR ---

/** A document: its bytes, or its address for vendors that take addresses. For others use {@link Host.download}. */
export type DocumentSource = { readonly file: MediaFile } | { readonly url: string }

/** A document to be read. */
export interface OcrInput {
  readonly document: DocumentSource & {
    readonly kind: 'document' | 'image'
    readonly name?: string
  }
  /** Indexes from 0, ascending, without repetition; all pages when absent. */
  readonly pages?: readonly number[]
  readonly include_image_base64?: boolean
  readonly image_limit?: number
  readonly image_min_size?: number
  readonly bbox_annotation_format?: object
  readonly document_annotation_format?: object
  readonly document_annotation_prompt?: string
  readonly [member: string]: unknown
}

/** The text of one page. */
export interface OcrPage {
  /** Index in the document, from 0. */
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

/** The result of OCR. */
export interface OcrResult {
  readonly pages: readonly OcrPage[]
  /** JSON text in the format that `document_annotation_format` asks for. */
  readonly document_annotation?: string | null
  /** Size of the document in bytes, where the vendor reports it. */
  readonly documentBytes?: number | null
  /** `usage.pages` counts processed pages; by default the length of `pages`. */
  readonly usage?: Usage
}

// --- speech ---

/** Text to be spoken. */
export interface SpeechInput {
  readonly input: string
  readonly voice: string | { readonly id: string }
  readonly instructions?: string
  readonly response_format: 'mp3' | 'opus' | 'aac' | 'flac' | 'wav' | 'pcm'
  /** 0.25 to 4; by default 1. */
  readonly speed?: number
  readonly [member: string]: unknown
}

/** Audio, streamed as it is made. */
export interface Speech {
  /** Audio in the requested format, unless `pcmSampleRate` is set. */
  readonly bytes: AsyncIterable<Uint8Array>
  /**
   * The bytes are raw PCM samples (16 bit, signed, little-endian, mono) at this rate per second. The gateway converts them to
   * `wav` or `pcm`; requests for another format fail.
   */
  readonly pcmSampleRate?: number
  /** Set it where the vendor counts anything but the characters of the input. */
  readonly usage?: Usage
}

// --- transcription ---

/** Audio to be transcribed. */
export interface TranscriptionInput {
  readonly file: MediaFile
  /** ISO 639-1 code of the spoken language. */
  readonly language?: string
  readonly prompt?: string
  readonly temperature?: number
  /** Members that the result needs: `verbose_json` segments or words, `diarized_json` speakers. The gateway makes text formats. */
  readonly response_format: 'json' | 'verbose_json' | 'diarized_json'
  readonly timestamp_granularities?: readonly ('word' | 'segment')[]
  readonly stream?: boolean
  readonly [member: string]: unknown
}

/** A sentence or phrase with its time. */
export interface TranscriptSegment {
  /** Seconds from the start of the audio. */
  readonly start: number
  readonly end: number
  readonly text: string
  /** A name, or a number from 0 for a speaker without one. */
  readonly speaker?: string | number
  readonly [member: string]: unknown
}

/** A word with its time, in seconds from the start of the audio. */
export interface TranscriptWord {
  readonly word: string
  readonly start: number
  readonly end: number
  readonly speaker?: string | number
}

/** A complete transcript. */
export interface Transcription {
  readonly text: string
  /** English name in lower case, or an ISO 639 code. */
  readonly language?: string
  /** Length of the audio in seconds. */
  readonly duration?: number
  /** May be left out where `words` are given: the gateway then makes segments of them. */
  readonly segments?: readonly TranscriptSegment[]
  readonly words?: readonly TranscriptWord[]
  readonly logprobs?: readonly any[]
  readonly usage?: Usage
}

/** One event of a streamed transcript: new text, finished segments, then `done` with the complete transcript. */
export type TranscriptionEvent =
  | {
      readonly type: 'delta'
      readonly text: string
      readonly segmentId?: string
      readonly logprobs?: readonly any[]
    }
  | { readonly type: 'segment'; readonly id: string; readonly segment: TranscriptSegment }
  | ({ readonly type: 'done' } & Transcription)

// Help for providers whose vendor makes one image per request.

/**
 * Makes `times` requests at the same time and joins their images and usage. The first request that fails aborts the others.
 * @param ask makes one request; must pass its signal on. @throws the error of the first failed request
 */
export async function requestEach(
  times: number,
  signal: AbortSignal,
  ask: (signal: AbortSignal) => Promise<ImageResult>,
): Promise<ImageResult> {
  if (times === 1) return ask(signal)
  const failure = new AbortController()
  const either = AbortSignal.any([signal, failure.signal])
  try {
    return joined(await Promise.all(Array.from({ length: times }, () => ask(either))))
  } catch (error) {
    failure.abort(error)
    throw error
  }
}

function joined(results: readonly ImageResult[]): ImageResult {
  const usage: Record<string, number> = {}
  for (const result of results) {
    for (const [name, value] of Object.entries(result.usage ?? {})) {
      if (typeof value === 'number') usage[name] = (usage[name] ?? 0) + value
    }
  }
  const data = results.flatMap((result) => result.data)
  return { ...results[0]!, data, ...(Object.keys(usage).length > 0 && { usage }) }
}
