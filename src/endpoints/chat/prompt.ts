/** The estimate of a prompt's tokens before it is sent. */
import type { ChatRequest } from './request.ts'

/** Good enough for a bound and for a stream that was cut; vendors count exactly. */
export const CHARACTERS_PER_TOKEN = 4
/** Tokens of a picture, and of one that is asked to be looked at coarsely. */
const IMAGE_TOKENS = 1500
const COARSE_IMAGE_TOKENS = 100
/** Bytes of a document for one token of its text, and the tokens of a document of unknown length. */
const FILE_BYTES_PER_TOKEN = 50
const FILE_TOKENS = 1500
const SOUND_BYTES_PER_TOKEN = 500

/**
 * Tokens of a prompt, at least 1. The whole body counts, so that tools, schemas, calls and their results do; media in it
 * count by their kind and size.
 * @param bodyBytes size of the request's JSON text
 */
export function promptTokensOf({ messages }: ChatRequest, bodyBytes: number): number {
  let textBytes = bodyBytes
  let mediaTokens = 0
  for (const { content } of messages) {
    if (!Array.isArray(content)) continue
    for (const part of content) {
      const media = mediaIn(part)
      if (!media) continue
      textBytes -= media.inlineBytes
      mediaTokens += media.tokens
    }
  }
  return Math.max(1, Math.ceil(Math.max(0, textBytes) / CHARACTERS_PER_TOKEN)) + mediaTokens
}

/** A part that is not text: its estimate, and the bytes of the body that it takes. */
interface MediaEstimate {
  readonly tokens: number
  readonly inlineBytes: number
}

/** @param part a valid part of a message */
function mediaIn(part: any): MediaEstimate | undefined {
  switch (part.type) {
    case 'image_url': {
      const { image_url: image } = part
      const tokens = image.detail === 'low' ? COARSE_IMAGE_TOKENS : IMAGE_TOKENS
      return { tokens, inlineBytes: inlineBytes(image.url ?? image) }
    }
    case 'input_audio': {
      const bytes = part.input_audio.data.length
      return { tokens: Math.ceil(decodedBytes(bytes) / SOUND_BYTES_PER_TOKEN), inlineBytes: bytes }
    }
    case 'file': {
      const bytes = inlineBytes(part.file.file_data)
      const tokens = Math.ceil(decodedBytes(bytes) / FILE_BYTES_PER_TOKEN)
      return { tokens: Math.max(FILE_TOKENS, tokens), inlineBytes: bytes }
    }
    default:
      return undefined
  }
}

/** Of base64 or a data URL; an address has none. */
function inlineBytes(source: string): number {
  return /^https?:/i.test(source.slice(0, 6)) ? 0 : source.length
}

function decodedBytes(base64Length: number): number {
  return (base64Length * 3) / 4
}
