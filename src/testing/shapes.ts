/** Schemas of single chunks: those that clients receive, and those that providers return. */
import * as v from 'valibot'

export const count = v.pipe(v.number(), v.integer(), v.minValue(0))
const filled = v.pipe(v.string(), v.minLength(1))
const index = v.pipe(count, v.maxValue(127))
const details = { id: v.nullish(v.string()), format: v.nullish(v.string()), index: count }
const token = { token: v.string(), logprob: v.number(), bytes: v.nullable(v.array(count)) }
const tokens = v.nullable(
  v.array(v.looseObject({ ...token, top_logprobs: v.array(v.looseObject(token)) })),
)

const delta = v.looseObject({
  role: v.optional(v.literal('assistant')),
  content: v.nullish(v.string()),
  refusal: v.nullish(v.string()),
  reasoning: v.nullish(v.string()),
  reasoning_details: v.optional(
    v.array(
      v.variant('type', [
        v.looseObject({
          ...details,
          type: v.literal('reasoning.text'),
          text: v.nullish(v.string()),
          signature: v.nullish(v.string()),
        }),
        v.looseObject({ ...details, type: v.literal('reasoning.summary'), summary: v.string() }),
        v.looseObject({ ...details, type: v.literal('reasoning.encrypted'), data: v.string() }),
      ]),
    ),
  ),
  annotations: v.optional(
    v.array(
      v.looseObject({
        type: v.literal('url_citation'),
        url_citation: v.looseObject({
          url: filled,
          title: v.string(),
          start_index: count,
          end_index: count,
          content: v.optional(v.string()),
        }),
      }),
    ),
  ),
  tool_calls: v.optional(
    v.pipe(
      v.array(
        v.looseObject({
          index,
          id: v.optional(filled),
          type: v.optional(v.picklist(['function', 'custom'])),
          function: v.optional(
            v.looseObject({ name: v.optional(filled), arguments: v.optional(v.string()) }),
          ),
          custom: v.optional(
            v.looseObject({ name: v.optional(filled), input: v.optional(v.string()) }),
          ),
        }),
      ),
      v.minLength(1),
    ),
  ),
  function_call: v.optional(
    v.looseObject({ name: v.optional(v.string()), arguments: v.optional(v.string()) }),
  ),
})

const usage = v.looseObject({
  prompt_tokens: count,
  completion_tokens: count,
  total_tokens: count,
  prompt_tokens_details: v.looseObject({ cached_tokens: count }),
  completion_tokens_details: v.looseObject({ reasoning_tokens: count }),
  cost: v.pipe(v.number(), v.minValue(0)),
  cost_details: v.record(v.string(), v.number()),
})

const FINISH = ['stop', 'length', 'tool_calls', 'content_filter', 'function_call'] as const

export const chunkSchema = v.looseObject({
  id: v.pipe(v.string(), v.regex(/^chatcmpl-.+/)),
  object: v.literal('chat.completion.chunk'),
  created: count,
  model: filled,
  system_fingerprint: v.optional(v.string()),
  service_tier: v.nullish(v.string()),
  choices: v.pipe(
    v.array(
      v.looseObject({
        index: count,
        delta,
        finish_reason: v.nullable(v.picklist(FINISH)),
        logprobs: v.optional(v.nullable(v.looseObject({ content: tokens, refusal: tokens }))),
      }),
    ),
    v.maxLength(128),
  ),
  usage: v.nullish(usage),
  error: v.optional(v.never('no error: an error is an event without choices')),
})

export type WellFormed = v.InferOutput<typeof chunkSchema>

const text = v.nullish(v.string())

/** A citation that a client can read; annotations of other types pass. */
const providerAnnotation = v.looseObject({
  url_citation: v.optional(v.looseObject({ url: v.string(), title: v.string() })),
})

const providerChunk = v.looseObject({
  choices: v.optional(
    v.array(
      v.looseObject({
        index: v.optional(count),
        delta: v.nullish(
          v.looseObject({
            content: text,
            refusal: text,
            reasoning: text,
            reasoning_details: v.nullish(v.array(v.looseObject({}))),
            tool_calls: v.nullish(v.array(v.looseObject({}))),
            annotations: v.nullish(v.array(providerAnnotation)),
          }),
        ),
        finish_reason: text,
      }),
    ),
  ),
  usage: v.nullish(v.looseObject({})),
  usageIsPartial: v.optional(v.boolean()),
  endOfStream: v.optional(v.boolean()),
})

export function schemaViolations(chunks: readonly unknown[]): string[] {
  return chunks.flatMap((chunk, at) => {
    const { issues = [] } = v.safeParse(providerChunk, chunk)
    return issues.map((issue) => `part ${at + 1} of the provider: ${describeIssue(issue)}`)
  })
}

export function describeIssue(issue: v.BaseIssue<unknown>): string {
  const path = issue.path?.map((item) => String(item.key)).join('.') ?? ''
  return `${path || 'the payload'} is ${issue.received}, expected ${issue.expected ?? issue.message}`
}
