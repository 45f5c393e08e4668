/** Converts Google's token counts. */
import type { OpenAIUsage } from '../../src/plugin.ts'
import { countWith, partOf, tokenCount } from '../shared/http.ts'

/**
 * The usage so far. Google counts tool prompts and thoughts separately; here they are part of the prompt and the
 * completion. Undefined when nothing was counted.
 */
export function toUsage(metadata: any): OpenAIUsage | undefined {
  if (!metadata) return undefined
  const { promptTokenCount, candidatesTokenCount, thoughtsTokenCount } = metadata
  if ((promptTokenCount ?? candidatesTokenCount ?? thoughtsTokenCount) === undefined) {
    return undefined
  }
  const { promptTokensDetails, cacheTokensDetails, candidatesTokensDetails } = metadata
  const prompt = tokenCount(promptTokenCount)
  const thoughts = tokenCount(thoughtsTokenCount)
  const audio = countOf(promptTokensDetails, 'AUDIO') - countOf(cacheTokensDetails, 'AUDIO')
  return {
    prompt_tokens: countWith(promptTokenCount, tokenCount(metadata.toolUsePromptTokenCount)),
    completion_tokens: countWith(candidatesTokenCount, thoughts),
    prompt_tokens_details: {
      cached_tokens: partOf(metadata.cachedContentTokenCount, prompt),
      ...cachedParts(cacheTokensDetails),
      audio_tokens: Math.max(0, audio),
    },
    completion_tokens_details: {
      reasoning_tokens: partOf(thoughtsTokenCount),
      audio_tokens: countOf(candidatesTokensDetails, 'AUDIO'),
      image_tokens: countOf(candidatesTokensDetails, 'IMAGE'),
    },
  }
}

/** Cached tokens that have prices of their own, where there are any. */
function cachedParts(details: unknown): Record<string, number> {
  const audio = countOf(details, 'AUDIO')
  const image = countOf(details, 'IMAGE')
  return {
    ...(audio > 0 && { cached_audio_tokens: audio }),
    ...(image > 0 && { cached_image_tokens: image }),
  }
}

/** Tokens of one modality, such as `IMAGE`. */
export function countOf(details: unknown, modality: string): number {
  if (!Array.isArray(details)) return 0
  return tokenCount(details.find((one) => one?.modality === modality)?.tokenCount)
}
