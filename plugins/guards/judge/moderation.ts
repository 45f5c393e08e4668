/**
 * OpenAI's moderation endpoint, and services with the same API. Free of charge. None of its categories is a category of
 * policies.
 */
import type { GuardHost } from '../../../src/plugin.ts'
import {
  InvalidAnswer,
  joined,
  type JudgeModel,
  type RuleMatch,
  type JudgeInput,
} from './judge-model.ts'

const CATEGORIES = [
  'harassment',
  'harassment/threatening',
  'hate',
  'hate/threatening',
  'illicit',
  'illicit/violent',
  'self-harm',
  'self-harm/intent',
  'self-harm/instructions',
  'sexual',
  'sexual/minors',
  'violence',
  'violence/graphic',
]

/** Options of the endpoint. */
interface ModerationOptions {
  readonly baseURL: string
  readonly apiKey: string
  readonly model: string
}

/** The moderation endpoint. */
export function moderationJudge(
  { baseURL, apiKey, model }: ModerationOptions,
  host: GuardHost,
): JudgeModel {
  const url = `${baseURL.replace(/\/$/, '')}/moderations`
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
  return {
    id: 'moderation/1',
    enforces: CATEGORIES.map((category) => `x:moderation/${category}` as const),
    readsImages: true,
    appliesTo: () => true,
    async judge(input, _rules, { signal }) {
      const inputs = inputsOf(input)
      const answers = inputs.map(async (input) => {
        const body = JSON.stringify({ model, input })
        const init = { method: 'POST', headers, body, signal, responseType: 'text' } as const
        const text = await host.http(url, init).catch((error: { cause?: { status?: number } }) => {
          if (error.cause?.status === undefined) throw error
          const { cause } = error
          throw host.fail('upstream_error', 'The moderation service refused the request.', {
            cause,
          })
        })
        return matchesIn(text)
      })
      const matches = (await Promise.all(answers)).flat()
      return matches.sort((a, b) => b.score - a.score)
    },
  }
}

/** A text, or a text with one image: the endpoint takes one image per request. */
function inputsOf({ texts, images }: JudgeInput): unknown[] {
  const text = joined(texts)
  if (images.length === 0) return [text]
  return images.map((url, i) => [
    ...(i === 0 && text ? [{ type: 'text', text }] : []),
    { type: 'image_url', image_url: { url } },
  ])
}

/** Categories that were flagged. @throws InvalidAnswer */
function matchesIn(body: string): RuleMatch[] {
  const [result] = resultsIn(body)
  const { categories, category_scores: scores } = (result ?? {}) as Record<string, any>
  if (typeof categories !== 'object' || categories === null) {
    throw new InvalidAnswer('the moderation service gave no categories')
  }
  return Object.entries(categories).flatMap(([category, flagged]): RuleMatch[] => {
    if (flagged !== true) return []
    const label = CATEGORIES.includes(category) ? category : category.split('/')[0]!
    if (!CATEGORIES.includes(label)) return [{ rule: 'x:moderation/illicit', score: 1 }]
    const score = scores?.[category]
    return [{ rule: `x:moderation/${label}`, score: isShare(score) ? score : 1 }]
  })
}

function resultsIn(body: string): unknown[] {
  try {
    const { results } = JSON.parse(body)
    return Array.isArray(results) ? results : []
  } catch {
    throw new InvalidAnswer('the moderation service did not answer in JSON')
  }
}

function isShare(score: unknown): score is number {
  return typeof score === 'number' && score >= 0 && score <= 1
}
