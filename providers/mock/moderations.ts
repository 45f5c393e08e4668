/** Moderation without a model: a word decides. */
import type { ModerationInput, ModerationResult } from '../../src/plugin.ts'

/** @param word what is flagged, in any case */
export function moderate({ input }: ModerationInput, word: string): ModerationResult {
  const isParts = typeof input[0] === 'object'
  const texts = isParts ? [JSON.stringify(input)] : (input as readonly string[])
  return {
    results: texts.map((text) => {
      const flagged = text.toLowerCase().includes(word.toLowerCase())
      const score = flagged ? 1 : 0
      return { flagged, categories: { word: flagged }, category_scores: { word: score } }
    }),
  }
}
