/**
 * The rules of chat streams, as an independent check: it shares no code with the gateway that makes streams. What clients
 * may rely on is described in `docs/streaming.md`.
 */
import * as v from 'valibot'
import type { OpenAIUsage } from '../plugin.ts'

export interface StreamForm {
  /**
   * Where usage is expected: in the `last` chunk with a finish_reason, in a chunk `apart` that the client has asked for, or
   * in `none`, because nothing has been charged yet.
   */
  readonly usage: 'last' | 'apart' | 'none'
  readonly logprobs?: boolean
}

/** Violations of the rules by the payloads of a stream, numbered from 1. Leave out `[DONE]` and error events. */
export function streamViolations(payloads: readonly unknown[], form: StreamForm): string[] {
  const problems: string[] = []
  const stream = new StreamRules(form)
  payloads.forEach((payload, at) => {
    const add = (problem: string) => void problems.push(`chunk ${at + 1}: ${problem}`)
    const result = v.safeParse(chunkSchema, payload)
    if (result.success) stream.push(result.output, add)
    else for (const issue of result.issues.slice(0, 3)) add(describeIssue(issue))
  })
  if (problems.length === 0) stream.end((problem) => void problems.push(problem))
  return problems
}

/** Impossible counts in a usage: not whole numbers, or parts above their total. */
export function usageViolations(reported: OpenAIUsage): string[] {
  const { prompt_tokens_details: input, completion_tokens_details: output } = reported
  const problems: string[] = []
  const counts = {
    ...input,
    ...output,
    prompt: reported.prompt_tokens,
    completion: reported.completion_tokens,
  }
  for (const [name, value] of Object.entries(counts)) {
    if (value !== null && value !== undefined && !v.is(count, value)) {
      problems.push(`${name} is ${JSON.stringify(value)}, expected a whole number from 0`)
    }
  }
  const atMost = (name: string, part: number, whole: string, total: number) => {
    if (part > total)
      problems.push(`${name} ${part} is more than ${whole} ${total}, which includes it`)
  }
  const prompt = reported.prompt_tokens ?? 0
  const completion = reported.completion_tokens ?? 0
  const cached = (input?.cached_tokens ?? 0) + (input?.cache_write_tokens ?? 0)
  atMost('cached_tokens + cache_write_tokens', cached, 'prompt_tokens', prompt)
  const cachedParts = (input?.cached_audio_tokens ?? 0) + (input?.cached_image_tokens ?? 0)
  atMost('cached audio and image tokens', cachedParts, 'cached_tokens', input?.cached_tokens ?? 0)
  const written = input?.cache_write_tokens ?? 0
  atMost('cache_write_1h_tokens', input?.cache_write_1h_tokens ?? 0, 'cache_write_tokens', written)
  atMost('input audio_tokens', input?.audio_tokens ?? 0, 'prompt_tokens', prompt)
  atMost('input image_tokens', input?.image_tokens ?? 0, 'prompt_tokens', prompt)
  atMost('reasoning_tokens', output?.reasoning_tokens ?? 0, 'completion_tokens', completion)
  atMost('output audio_tokens', output?.audio_tokens ?? 0, 'completion_tokens', completion)
  atMost('output image_tokens', output?.image_tokens ?? 0, 'completion_tokens', completion)
  return problems
}

type AddProblem = (problem: string) => void

interface ChoiceState {
  call: number
  annotated: boolean
  finished: boolean
  /** Reasoning blocks by index; true once the block has a signature. */
  readonly blocks: Map<number, boolean>
}

class StreamRules {
  readonly #form: StreamForm
  readonly #choices: ChoiceState[] = []
  #first: WellFormed | undefined
  #usage = false

  constructor(form: StreamForm) {
    this.#form = form
  }

  push(chunk: WellFormed, add: AddProblem): void {
    const first = (this.#first ??= chunk)
    for (const name of ['id', 'created', 'model'] as const) {
      if (chunk[name] !== first[name]) add(`${name} differs from that of the first chunk`)
    }
    if (this.#usage) add('a chunk follows the usage')
    this.#checkUsage(chunk, add)
    for (const choice of chunk.choices) this.#checkChoice(choice, add)
  }

  end(add: AddProblem): void {
    if (this.#choices.length === 0) add('there is no choice')
    this.#choices.forEach((choice, i) => {
      if (!choice.finished) add(`choice ${i} has no finish_reason`)
    })
    if (this.#form.usage !== 'none' && !this.#usage) add('there is no usage')
  }

  #checkUsage(chunk: WellFormed, add: AddProblem): void {
    const apart = this.#form.usage === 'apart'
    if (chunk.usage) {
      this.#usage = true
      if (this.#form.usage === 'none') add('usage is present, but nothing is charged')
      else if (apart && chunk.choices.length > 0) add('usage is in a chunk with choices')
      else if (!apart && !chunk.choices[0]?.finish_reason)
        add('usage is not in a chunk with a finish_reason')
    } else if (apart !== 'usage' in chunk) {
      add(
        apart ? '"usage": null is absent' : '"usage": null is present, but usage was not requested',
      )
    }
    if (chunk.choices.length === 0 && !(apart && chunk.usage)) add('choices is empty')
  }

  #checkChoice(
    { index, delta, finish_reason, logprobs }: WellFormed['choices'][number],
    add: AddProblem,
  ): void {
    const choice = this.#choices[index]
    if (logprobs && !this.#form.logprobs) add('logprobs were not requested')
    if (!choice) {
      const opens = { role: 'assistant', content: '', refusal: null }
      if (index !== this.#choices.length) add(`choice ${index} opens out of order`)
      if (JSON.stringify(delta) !== JSON.stringify(opens)) {
        add('the first chunk of a choice has something other than its role')
      }
      this.#choices[index] = { call: -1, annotated: false, finished: false, blocks: new Map() }
      return
    }
    if (choice.finished) return add(`a chunk follows the finish_reason of choice ${index}`)
    if (finish_reason) {
      if (Object.keys(delta).length > 0) add('a chunk with a finish_reason has content')
      choice.finished = true
      return
    }
    if ('role' in delta) add('the role is repeated')
    const others = Object.keys(delta).filter((name) => name !== 'content')
    if (!delta.content && !logprobs && others.length === 0) add('a chunk has no content')
    for (const text of [delta.content, delta.refusal, delta.reasoning]) {
      if (text && !text.isWellFormed()) add('a text has half of a surrogate pair')
    }
    if (choice.annotated && (delta.content || delta.annotations)) {
      add('annotations are repeated, or content follows them')
    }
    if (delta.annotations) choice.annotated = true
    if (delta.tool_calls) for (const call of delta.tool_calls) checkToolCall(choice, call, add)
    checkReasoning(choice, delta, add)
  }
}

type Delta = WellFormed['choices'][number]['delta']

function checkToolCall(
  choice: ChoiceState,
  call: NonNullable<Delta['tool_calls']>[number],
  add: AddProblem,
) {
  const body = call.function ?? call.custom
  if (!body) return add('a tool call has neither "function" nor "custom"')
  if (call.index === choice.call + 1) {
    choice.call = call.index
    if (!call.id || !call.type || !body.name)
      add('the first fragment of a tool call has no id, type or name')
  } else if (call.index !== choice.call) {
    add(
      call.index < choice.call
        ? 'tool calls are interleaved'
        : 'the index of a tool call is skipped',
    )
  } else if (call.id || call.type || body.name) {
    add('a later fragment of a tool call repeats id, type or name')
  }
}

function checkReasoning({ blocks }: ChoiceState, delta: Delta, add: AddProblem): void {
  if (delta.reasoning && !delta.reasoning_details) add('reasoning has no reasoning_details')
  for (const detail of delta.reasoning_details ?? []) {
    const signed = blocks.get(detail.index)
    if (signed !== undefined && (detail.id || detail.format)) {
      add('a later fragment of a reasoning block repeats id or format')
    }
    if (signed) add('a fragment follows the signature of its reasoning block')
    blocks.set(detail.index, 'signature' in detail && Boolean(detail.signature))
  }
}

// Schemas of single chunks: those that clients receive, and those that providers return.

const count = v.pipe(v.number(), v.integer(), v.minValue(0))
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

const chunkSchema = v.looseObject({
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

type WellFormed = v.InferOutput<typeof chunkSchema>

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
  usageIsRunning: v.optional(v.literal(true)),
  searches: v.optional(v.pipe(v.number(), v.integer())),
  searchBytes: v.optional(v.pipe(v.number(), v.integer(), v.minValue(0))),
  endOfStream: v.optional(v.boolean()),
})

export function schemaViolations(chunks: readonly unknown[]): string[] {
  return chunks.flatMap((chunk, at) => {
    const { issues = [] } = v.safeParse(providerChunk, chunk)
    return issues.map((issue) => `part ${at + 1} of the provider: ${describeIssue(issue)}`)
  })
}

function describeIssue(issue: v.BaseIssue<unknown>): string {
  const path = issue.path?.map((item) => String(item.key)).join('.') ?? ''
  return `${path || 'the payload'} is ${issue.received}, expected ${issue.expected ?? issue.message}`
}
