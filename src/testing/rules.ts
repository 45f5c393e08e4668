/**
 * What a chat stream has to look like (wire contract, 5.4.5, S1 to S9 and S11), as a check of its own: it knows nothing of
 * the code that makes streams. Pure.
 */
import * as v from 'valibot'
import type { OpenAIUsage } from '../plugin.ts'
import { chunkSchema, count, inWords, type WellFormed } from './shapes.ts'

/** Which stream it is. */
export interface StreamForm {
  /**
   * Where usage stands: on the `last` finish chunk, in a chunk `apart` because the client asked for one, or nowhere as
   * `none` has been charged yet.
   */
  readonly usage: 'last' | 'apart' | 'none'
  /** The client asked for log probabilities. */
  readonly logprobs?: boolean
}

/** Where a stream's payloads break the rules, each with its number from 1; `[DONE]` and errors are not among the payloads. */
export function streamViolations(payloads: readonly unknown[], form: StreamForm): string[] {
  const found: string[] = []
  const stream = new Rules(form)
  payloads.forEach((payload, at) => {
    const say = (problem: string) => void found.push(`chunk ${at + 1}: ${problem}`)
    const result = v.safeParse(chunkSchema, payload)
    if (result.success) stream.push(result.output, say)
    else for (const issue of result.issues.slice(0, 3)) say(inWords(issue))
  })
  if (found.length === 0) stream.end((problem) => void found.push(problem))
  return found
}

/** Counts of a usage that cannot be: parts above their whole, or none at all. */
export function usageViolations(reported: OpenAIUsage): string[] {
  const { prompt_tokens_details: input, completion_tokens_details: output } = reported
  const found: string[] = []
  const named = {
    ...input,
    ...output,
    prompt: reported.prompt_tokens,
    completion: reported.completion_tokens,
  }
  for (const [name, value] of Object.entries(named)) {
    if (value !== null && value !== undefined && !v.is(count, value)) {
      found.push(`${name} is ${JSON.stringify(value)}, expected a whole number from 0`)
    }
  }
  const atMost = (name: string, part: number, whole: string, total: number) => {
    if (part > total)
      found.push(`${name} ${part} is more than ${whole} ${total}, which includes it`)
  }
  const prompt = reported.prompt_tokens ?? 0
  const completion = reported.completion_tokens ?? 0
  const cached = (input?.cached_tokens ?? 0) + (input?.cache_write_tokens ?? 0)
  atMost('cached_tokens + cache_write_tokens', cached, 'prompt_tokens', prompt)
  atMost('input audio_tokens', input?.audio_tokens ?? 0, 'prompt_tokens', prompt)
  atMost('input image_tokens', input?.image_tokens ?? 0, 'prompt_tokens', prompt)
  atMost('reasoning_tokens', output?.reasoning_tokens ?? 0, 'completion_tokens', completion)
  atMost('output audio_tokens', output?.audio_tokens ?? 0, 'completion_tokens', completion)
  atMost('output image_tokens', output?.image_tokens ?? 0, 'completion_tokens', completion)
  return found
}

type Say = (problem: string) => void

interface ChoiceState {
  /** Of the last tool call that was opened. */
  call: number
  annotated: boolean
  finished: boolean
  /** Reasoning blocks by index: whether their signature has come. */
  readonly blocks: Map<number, boolean>
}

/** What the chunks of one stream say about each other. */
class Rules {
  readonly #form: StreamForm
  readonly #choices: ChoiceState[] = []
  #first: WellFormed | undefined
  #usage = false

  constructor(form: StreamForm) {
    this.#form = form
  }

  push(chunk: WellFormed, say: Say): void {
    const first = (this.#first ??= chunk)
    for (const name of ['id', 'created', 'model'] as const) {
      if (chunk[name] !== first[name]) say(`${name} differs from that of the first chunk (S1)`)
    }
    if (this.#usage) say('something follows the usage (S9)')
    this.#seeUsage(chunk, say)
    for (const choice of chunk.choices) this.#choice(choice, say)
  }

  end(say: Say): void {
    if (this.#choices.length === 0) say('no choice was opened (S3)')
    this.#choices.forEach((choice, i) => {
      if (!choice.finished) say(`choice ${i} has no finish_reason (S9)`)
    })
    if (this.#form.usage !== 'none' && !this.#usage) say('no usage came (S9)')
  }

  #seeUsage(chunk: WellFormed, say: Say): void {
    const apart = this.#form.usage === 'apart'
    if (chunk.usage) {
      this.#usage = true
      if (this.#form.usage === 'none') say('usage stands where none was charged (S9)')
      else if (apart && chunk.choices.length > 0) say('usage stands beside choices (S9)')
      else if (!apart && !chunk.choices[0]?.finish_reason)
        say('usage is not on a finish chunk (S9)')
    } else if (apart !== 'usage' in chunk) {
      say(apart ? 'there is no "usage": null (S9)' : 'there is "usage": null (S9)')
    }
    if (chunk.choices.length === 0 && !(apart && chunk.usage)) say('choices is empty (S2)')
  }

  #choice(
    { index, delta, finish_reason, logprobs }: WellFormed['choices'][number],
    say: Say,
  ): void {
    const choice = this.#choices[index]
    if (logprobs && !this.#form.logprobs) say('logprobs were not asked for (S11)')
    if (!choice) {
      const opens = { role: 'assistant', content: '', refusal: null }
      if (index !== this.#choices.length) say(`choice ${index} opens out of order (S3)`)
      if (JSON.stringify(delta) !== JSON.stringify(opens)) {
        say('a choice opens with something other than its role (S3)')
      }
      this.#choices[index] = { call: -1, annotated: false, finished: false, blocks: new Map() }
      return
    }
    if (choice.finished) return say(`something follows the finish of choice ${index} (S9)`)
    if (finish_reason) {
      if (Object.keys(delta).length > 0) say('a finish chunk says something else (S9)')
      choice.finished = true
      return
    }
    if ('role' in delta) say('the role is repeated (S3)')
    const others = Object.keys(delta).filter((name) => name !== 'content')
    if (!delta.content && !logprobs && others.length === 0) say('a chunk says nothing (S4)')
    for (const said of [delta.content, delta.refusal, delta.reasoning]) {
      if (said && !said.isWellFormed()) say('half a character (S4)')
    }
    if (choice.annotated && (delta.content || delta.annotations)) {
      say('annotations come before the end, or twice (S8)')
    }
    if (delta.annotations) choice.annotated = true
    if (delta.tool_calls) for (const call of delta.tool_calls) seeCall(choice, call, say)
    seeReasoning(choice, delta, say)
  }
}

type Delta = WellFormed['choices'][number]['delta']

function seeCall(choice: ChoiceState, call: NonNullable<Delta['tool_calls']>[number], say: Say) {
  const body = call.function ?? call.custom
  if (!body) return say('a tool call has neither "function" nor "custom" (S5)')
  if (call.index === choice.call + 1) {
    choice.call = call.index
    if (!call.id || !call.type || !body.name) say('a tool call opens without id, type or name (S5)')
  } else if (call.index !== choice.call) {
    say(
      call.index < choice.call ? 'tool calls are interleaved (S6)' : 'a tool index is skipped (S5)',
    )
  } else if (call.id || call.type || body.name) {
    say('a later fragment of a tool call repeats id, type or name (S5)')
  }
}

function seeReasoning({ blocks }: ChoiceState, delta: Delta, say: Say): void {
  if (delta.reasoning && !delta.reasoning_details) say('reasoning comes without its details (S7)')
  for (const detail of delta.reasoning_details ?? []) {
    const signed = blocks.get(detail.index)
    if (signed !== undefined && (detail.id || detail.format)) {
      say('a later fragment of a reasoning block repeats id or format (S7)')
    }
    if (signed) say('something follows the signature of a reasoning block (S7)')
    blocks.set(detail.index, 'signature' in detail && Boolean(detail.signature))
  }
}
