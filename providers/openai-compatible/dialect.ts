/**
 * Answers, from the dialects of the vendors into the gateway's: text in `content`, thoughts in `reasoning`, usage that
 * counts as everyone else's. Order, roles, indexes and ids are the gateway's work.
 */
import type {
  Chunk,
  ChunkChoice,
  Completion,
  Delta,
  Host,
  OpenAIUsage,
  ReasoningDetail,
  Step,
} from '../../src/plugin.ts'
import { inbandFailure } from './errors.ts'
import { detailsOf, textOf, toAnnotations, toCitations, toToolCall } from './parts.ts'
import type { Quirks } from './quirks.ts'
import { ThinkSplitter, type ThinkTags } from './think.ts'
import { toUsage } from './usage.ts'

/** What is known of the answers of a deployment. */
export interface Dialect {
  readonly quirks: Quirks
  /** The model thinks inside its answer. */
  readonly tags: ThinkTags | undefined
  readonly fail: Host['fail']
}

/**
 * The chunks of a stream.
 * @throws the failure an error inside the stream stands for, after the usage that came with it
 */
export function readChunks(dialect: Dialect): Step<any, Chunk> {
  const answer = new Answer(dialect)
  let begun = false
  let ended = false
  return {
    push(payload, emit) {
      const failure = failureIn(payload, dialect.fail)
      if (failure) {
        // What was produced is charged; before that, another deployment may still be asked.
        const usage = begun ? toUsage(payload?.usage, dialect.quirks) : undefined
        if (usage) emit({ choices: [], usage })
        throw failure
      }
      if (payload.done === true) {
        ended = true
        return
      }
      const chunk = answer.push(payload)
      if (!chunk) return
      begun = true
      emit(chunk)
    },
    end(emit) {
      for (const chunk of answer.rest(ended)) emit(chunk)
      if (ended) emit({ choices: [], done: true })
    },
  }
}

/**
 * A whole answer.
 * @throws the failure that an error in it stands for; `upstream_error` when it is no answer
 */
export function readCompletion(payload: any, dialect: Dialect): Completion {
  const failure = failureIn(payload, dialect.fail)
  if (failure) throw failure
  if (!Array.isArray(payload.choices) || payload.choices.length === 0)
    throw notAnAnswer(dialect.fail)
  const answer = new Answer(dialect)
  const choices = payload.choices.map((choice: any) => ({ ...choice, delta: choice?.message }))
  const chunks = [answer.push({ ...payload, choices }), ...answer.rest(true)]
  const messages: Completion['choices'] = payload.choices.map((choice: any, position: number) => ({
    index: choice?.index ?? position,
    message: { role: 'assistant', content: null },
    finish_reason: choice?.finish_reason ?? null,
    logprobs: choice?.logprobs ?? null,
  }))
  const completion: Completion = { choices: messages }
  for (const chunk of chunks) {
    const { choices: parts = [], ...rest } = chunk ?? {}
    Object.assign(completion, rest)
    for (const { index, delta } of parts) {
      const target = messages.find((one) => one.index === index)?.message
      if (target && delta) append(target, delta)
    }
  }
  return completion
}

/** The failure for an answer that is none. */
export function notAnAnswer(fail: Host['fail']): Error {
  return fail('upstream_error', 'The model provider sent something that is not an answer.')
}

/** An error in place of an answer, or a payload that cannot be one. */
function failureIn(payload: any, fail: Host['fail']): Error | undefined {
  if (typeof payload !== 'object' || payload === null) return notAnAnswer(fail)
  const failure = inbandFailure(fail, payload)
  if (failure) return failure
  const failed = payload.choices?.some?.((choice: any) => FAILED.has(choice?.finish_reason))
  return failed ? fail('upstream_error', 'The model provider gave up on this answer.') : undefined
}

/** Finish reasons that say that there is no answer. */
const FAILED: ReadonlySet<unknown> = new Set(['error', 'insufficient_system_resource', 'abort'])

/** What is remembered of an answer while it arrives. */
class Answer {
  readonly #dialect: Dialect
  readonly #choices = new Map<number, Choice>()
  /** Reported when there may still be a later word. */
  #usage: OpenAIUsage | undefined
  #begun = false
  #finished = false
  #sources: readonly any[] = []
  /** Text of the first choice since sources are known, for their places in it. */
  #text = ''

  constructor(dialect: Dialect) {
    this.#dialect = dialect
  }

  /** One payload; nothing when there is nothing in it for anybody. */
  push(payload: any): Chunk | undefined {
    const given: any[] = Array.isArray(payload.choices) ? payload.choices : []
    const choices: ChunkChoice[] = []
    let spoke = false
    for (let i = 0; i < given.length; i++) {
      const { index = i, delta, finish_reason, logprobs } = given[i] ?? {}
      const said = delta ? this.#choice(index).read(delta) : undefined
      if (said) spoke = true
      if (finish_reason) this.#finished = true
      if (!said && !finish_reason && !logprobs) continue
      const choice: ChunkChoice = { index, delta: said ?? {}, finish_reason: finish_reason || null }
      if (logprobs) choice.logprobs = logprobs
      choices.push(choice)
    }
    this.#cite(payload, choices)
    const chunk: Chunk = { choices }
    const usage = this.#latestUsage(payload, given, spoke)
    if (usage) chunk.usage = usage
    this.#begun ||= spoke
    if (payload.system_fingerprint) chunk.system_fingerprint = payload.system_fingerprint
    if (payload.service_tier) chunk.service_tier = payload.service_tier
    // Perplexity's word for the end.
    if (payload.object === 'chat.completion.done') chunk.done = true
    return choices.length > 0 || usage || chunk.done ? chunk : undefined
  }

  /** What is left to say at the end. @param ended whether the vendor said that this is the end */
  *rest(ended: boolean): Generator<Chunk, void, undefined> {
    const choices: ChunkChoice[] = []
    for (const [index, choice] of this.#choices) {
      const delta = choice.end()
      if (delta) choices.push({ index, delta })
      if (index === 0 && delta?.content) this.#text += delta.content
    }
    const annotations = toCitations(this.#sources, this.#text)
    if (annotations.length > 0) choices.push({ index: 0, delta: { annotations } })
    if (choices.length > 0) yield { choices }
    if (this.#usage && (ended || this.#finished)) yield { choices: [], usage: this.#usage }
  }

  #choice(index: number): Choice {
    let choice = this.#choices.get(index)
    if (!choice) this.#choices.set(index, (choice = new Choice(this.#dialect.tags)))
    return choice
  }

  /**
   * Some report on every chunk, counting up. Usage before or beside output is kept until something better comes: passed
   * on, it would make a stream that was cut look complete.
   */
  #latestUsage(payload: any, given: readonly any[], spoke: boolean): OpenAIUsage | undefined {
    const reported =
      payload.usage ?? payload.x_groq?.usage ?? given.find((choice) => choice?.usage)?.usage
    const usage = reported ? toUsage(reported, this.#dialect.quirks) : undefined
    if (!usage) return undefined
    const last = this.#finished || (this.#begun && !spoke)
    this.#usage = last ? undefined : usage
    return last ? usage : undefined
  }

  /** Perplexity, xAI: the sources stand beside the answer, again and again. */
  #cite(payload: any, choices: readonly ChunkChoice[]): void {
    const sources = payload.search_results ?? payload.citations
    if (Array.isArray(sources) && sources.length > 0) this.#sources = sources
    if (this.#sources.length === 0) return
    for (const { index, delta } of choices) if (index === 0) this.#text += delta?.content ?? ''
  }
}

/** What is remembered of one choice. */
class Choice {
  readonly #splitter: ThinkSplitter | undefined
  /** Index of the reasoning block that is being written. */
  #block = 0
  #thought = false
  /** Something else was said since. */
  #moved = false
  #summary: number | undefined

  constructor(tags: ThinkTags | undefined) {
    this.#splitter = tags && new ThinkSplitter(tags)
  }

  /** Undefined when the delta says nothing. */
  read(delta: any): Delta | undefined {
    const said: Delta = {}
    let { content, reasoning } = textOf(delta)
    if (this.#splitter) {
      const thought = this.#splitter.push(content)
      content = thought.content
      reasoning ||= thought.reasoning
    }
    this.#reason(said, reasoning, detailsOf(delta))
    if (content) said.content = content
    if (delta.refusal) said.refusal = String(delta.refusal)
    if (Array.isArray(delta.tool_calls) && delta.tool_calls.length > 0) {
      said.tool_calls = delta.tool_calls.map(toToolCall)
    }
    if (Array.isArray(delta.annotations)) {
      const annotations = toAnnotations(delta.annotations)
      if (annotations.length > 0) said.annotations = annotations
    }
    if (content || said.tool_calls) this.#moved = this.#thought
    return Object.keys(said).length > 0 ? said : undefined
  }

  end(): Delta | undefined {
    const held = this.#splitter?.end()
    const said: Delta = {}
    if (held?.reasoning) this.#reason(said, held.reasoning, [])
    if (held?.content) said.content = held.content
    return held?.reasoning || held?.content ? said : undefined
  }

  #reason(said: Delta, text: string, given: readonly ReasoningDetail[]): void {
    const visible = given.some((detail) => detail.text || detail.summary)
    if (!text && given.length === 0) return
    if (this.#moved) {
      this.#block++
      this.#moved = false
    }
    const details: ReasoningDetail[] = []
    if (text && !visible) {
      details.push({ type: 'reasoning.text', text, format: 'unknown', index: this.#block })
      this.#thought = true
    }
    for (const detail of given) details.push(this.#placed(detail))
    said.reasoning_details = details
    const reasoning = visible ? details.map((one) => one.text ?? one.summary ?? '').join('') : text
    if (reasoning) said.reasoning = reasoning
  }

  /** With an index, and a blank line between the parts of a summary. */
  #placed(detail: ReasoningDetail): ReasoningDetail {
    const sealed = detail.index === undefined && detail.type === 'reasoning.encrypted'
    // A seal is a block of its own.
    if (sealed && this.#thought) this.#block++
    const index = detail.index ?? this.#block
    this.#thought = true
    this.#moved ||= sealed
    if (!detail.summary) return { ...detail, index }
    const next = this.#summary !== undefined && this.#summary !== index
    this.#summary = index
    return { ...detail, index, summary: next ? `\n\n${detail.summary}` : detail.summary }
  }
}

/** Adds a later part of a message to what is there. */
function append(message: any, delta: Delta): void {
  for (const [name, value] of Object.entries(delta)) {
    const old = message[name]
    if (Array.isArray(value)) message[name] = [...(old ?? []), ...value]
    else message[name] = typeof old === 'string' ? old + String(value) : value
  }
}
