/** The estimates of a prompt's tokens: before it is sent, and of what was sent where the vendor does not count it. */
import type { ChatMessage } from '../../plugin.ts'
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

/** Members of a request that the model reads. */
export interface Prompt {
  readonly messages: readonly ChatMessage[]
  readonly tools?: unknown
  readonly functions?: unknown
  readonly response_format?: unknown
}

/** A prompt by estimate. */
export interface SentPrompt {
  /** All of them, at least 1. */
  readonly tokens: number
  readonly imageTokens: number
  readonly soundTokens: number
  /** Number of images, files and sounds. */
  readonly media: number
}

/** Tokens of a prompt as it was sent: texts, calls, tools and schemas by their characters, media by their kind and size. */
export function sentPromptOf(sent: Prompt): SentPrompt {
  const { messages, tools, functions, response_format } = sent
  let characters = charactersOf(tools) + charactersOf(functions) + charactersOf(response_format)
  const tokens = { image: 0, sound: 0, file: 0 }
  let media = 0
  for (const { content, tool_calls, function_call } of messages) {
    characters += charactersOf(tool_calls) + charactersOf(function_call)
    if (!Array.isArray(content)) {
      characters += content?.length ?? 0
      continue
    }
    for (const part of content) {
      const estimate = mediaIn(part)
      if (part.type !== 'text') media++
      if (estimate) tokens[estimate.kind] += estimate.tokens
      else characters += part.text?.length ?? 0
    }
  }
  const { image, sound, file } = tokens
  const words = Math.max(1, Math.ceil(characters / CHARACTERS_PER_TOKEN))
  return { tokens: words + image + sound + file, imageTokens: image, soundTokens: sound, media }
}

/** About the characters of a value's JSON text. */
function charactersOf(value: unknown): number {
  if (value === undefined || value === null) return 0
  if (typeof value === 'string') return value.length + 3
  if (typeof value !== 'object') return 5
  let characters = 2
  if (Array.isArray(value)) for (const item of value) characters += charactersOf(item)
  else {
    for (const name in value) {
      characters += name.length + 3 + charactersOf((value as Record<string, unknown>)[name])
    }
  }
  return characters
}

/** A part that is not text: its estimate, and the bytes of the body that it takes. */
interface MediaEstimate {
  readonly kind: 'image' | 'sound' | 'file'
  readonly tokens: number
  readonly inlineBytes: number
}

/** @param part a valid part of a message */
function mediaIn(part: any): MediaEstimate | undefined {
  switch (part.type) {
    case 'image_url': {
      const { image_url: image } = part
      const tokens = image.detail === 'low' ? COARSE_IMAGE_TOKENS : IMAGE_TOKENS
      return { kind: 'image', tokens, inlineBytes: inlineBytes(image.url ?? image) }
    }
    case 'input_audio': {
      const bytes = part.input_audio.data.length
      const tokens = Math.ceil(decodedBytes(bytes) / SOUND_BYTES_PER_TOKEN)
      return { kind: 'sound', tokens, inlineBytes: bytes }
    }
    case 'file': {
      const bytes = inlineBytes(part.file.file_data)
      const tokens = Math.ceil(decodedBytes(bytes) / FILE_BYTES_PER_TOKEN)
      return { kind: 'file', tokens: Math.max(FILE_TOKENS, tokens), inlineBytes: bytes }
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
