/**
 * Answers, from the dialects of the vendors into the gateway's: text in `content`, thoughts in `reasoning`, usage that
 * counts as everyone else's. Order, roles, indexes and ids are the gateway's work.
 */
import type {
  ChatChunk,
  ChatChunkChoice,
  ChatCompletion,
  ChatDelta,
  Host,
  OpenAIUsage,
  Step,
} from '../../src/plugin.ts'
import { ChoiceState } from './choice.ts'
import { notAnAnswer } from '../shared/http.ts'
import { inbandFailure, type Failed } from './errors.ts'
import { toCitations } from './parts.ts'
import { toUsage } from './usage.ts'
import type { VendorProfile } from './vendor-profile.ts'

/**
 * The chunks of a stream.
 * @throws the failure an error inside the stream stands for, after the usage that came with it. A filter that stops an
 *   answer midway is none: it is a reason to finish.
 */
export function readChunks(profile: VendorProfile): Step<any, ChatChunk> {
  const answer = new AnswerState(profile)
  let begun = false
  let ended = false
  return {
    push(payload, emit) {
      const failed = failureIn(payload, profile.fail)
      if (failed) {
        // What was produced is charged; before that, another deployment may still be asked.
        const usage = begun ? toUsage(payload?.usage, profile.quirks) : undefined
        if (usage) emit({ choices: [], usage })
        if (!begun || failed.failure !== 'content_blocked') throw failed.error
        emit(answer.filtered())
        return
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
      if (ended) emit({ choices: [], endOfStream: true })
    },
  }
}

/**
 * A whole answer.
 * @throws the failure that an error in it stands for; `upstream_error` when it is no answer
 */
export function readCompletion(payload: any, profile: VendorProfile): ChatCompletion {
  const failed = failureIn(payload, profile.fail)
  if (failed) throw failed.error
  if (!Array.isArray(payload.choices) || payload.choices.length === 0)
    throw notAnAnswer(profile.fail)
  const answer = new AnswerState(profile)
  const choices = payload.choices.map((choice: any) => ({ ...choice, delta: choice?.message }))
  const chunks = [answer.push({ ...payload, choices }), ...answer.rest(true)]
  const messages: ChatCompletion['choices'] = payload.choices.map(
    (choice: any, position: number) => ({
      index: choice?.index ?? position,
      message: { role: 'assistant', content: null },
      finish_reason: choice?.finish_reason ?? null,
      logprobs: choice?.logprobs ?? null,
    }),
  )
  const completion: ChatCompletion = { choices: messages }
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

/** An error in place of an answer, or a payload that cannot be one. */
function failureIn(payload: any, fail: Host['fail']): Failed | undefined {
  if (typeof payload !== 'object' || payload === null) {
    return { failure: 'upstream_error', error: notAnAnswer(fail) }
  }
  const failed = inbandFailure(fail, payload)
  if (failed || !hasFailed(payload.choices)) return failed
  const error = fail('upstream_error', 'The model provider gave up on this answer.')
  return { failure: 'upstream_error', error }
}

function hasFailed(choices: unknown): boolean {
  if (!Array.isArray(choices)) return false
  for (let i = 0; i < choices.length; i++) {
    const reason = choices[i]?.finish_reason
    if (reason && FAILED.has(reason)) return true
  }
  return false
}

/** Finish reasons that say that there is no answer. */
const FAILED: ReadonlySet<unknown> = new Set(['error', 'insufficient_system_resource', 'abort'])

/** What is remembered of an answer while it arrives. */
class AnswerState {
  readonly #profile: VendorProfile
  readonly #choices = new Map<number, ChoiceState>()
  #first: ChoiceState | undefined
  /** Reported when there may still be a later word. */
  #usage: OpenAIUsage | undefined
  #begun = false
  #finished = false
  #sources: readonly any[] = []
  /** Text of the first choice since sources are known, for their places in it. */
  #text = ''
  /** Characters of reasoning, and of everything; kept where they stand for tokens. */
  #reasoningCharacters = 0
  #characters = 0

  constructor(profile: VendorProfile) {
    this.#profile = profile
  }

  /** One payload; nothing when there is nothing in it for anybody. */
  push(payload: any): ChatChunk | undefined {
    const given: any[] = Array.isArray(payload.choices) ? payload.choices : []
    let choices: ChatChunkChoice[] | undefined
    let hasContent = false
    for (let i = 0; i < given.length; i++) {
      const { index = i, delta, finish_reason, logprobs } = given[i] ?? {}
      const content = delta ? this.#choice(index).read(delta) : undefined
      if (content) {
        hasContent = true
        if (this.#profile.quirks.reasoningByShare) this.#count(content)
      }
      if (finish_reason) this.#finished = true
      if (!content && !finish_reason && !logprobs) continue
      const choice: ChatChunkChoice = {
        index,
        delta: content ?? {},
        finish_reason: finish_reason || null,
      }
      if (logprobs) choice.logprobs = logprobs
      if (choices) choices.push(choice)
      else choices = [choice]
    }
    choices ??= []
    this.#cite(payload, choices)
    const chunk: ChatChunk = { choices }
    const usage = this.#latestUsage(payload, given, hasContent)
    if (usage) chunk.usage = usage
    this.#begun ||= hasContent
    if (payload.system_fingerprint) chunk.system_fingerprint = payload.system_fingerprint
    if (payload.service_tier) chunk.service_tier = payload.service_tier
    // Perplexity's word for the end.
    if (payload.object === 'chat.completion.done') chunk.endOfStream = true
    return choices.length > 0 || usage || chunk.endOfStream ? chunk : undefined
  }

  /** What a filter makes of an answer that has begun. */
  filtered(): ChatChunk {
    this.#finished = true
    const indexes = [...this.#choices.keys()]
    return { choices: indexes.map((index) => ({ index, finish_reason: 'content_filter' })) }
  }

  /** What is left to say at the end. @param ended whether the vendor said that this is the end */
  *rest(ended: boolean): Generator<ChatChunk, void, undefined> {
    const choices: ChatChunkChoice[] = []
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

  #choice(index: number): ChoiceState {
    // Mostly the only one.
    if (index === 0 && this.#first) return this.#first
    let choice = this.#choices.get(index)
    if (!choice) this.#choices.set(index, (choice = new ChoiceState(this.#profile.tags)))
    if (index === 0) this.#first = choice
    return choice
  }

  /**
   * Some report on every chunk, counting up. Usage before or beside output is kept until something better comes: passed
   * on, it would make a stream that was cut look complete.
   */
  #latestUsage(payload: any, given: readonly any[], hasContent: boolean): OpenAIUsage | undefined {
    let reported = payload.usage ?? payload.x_groq?.usage
    if (reported === undefined || reported === null) {
      for (let i = 0; i < given.length && !reported; i++) reported = given[i]?.usage
    }
    if (!reported) return undefined
    const share = this.#characters > 0 ? this.#reasoningCharacters / this.#characters : 0
    const usage = toUsage(reported, this.#profile.quirks, share)
    if (!usage) return undefined
    const last = this.#finished || (this.#begun && !hasContent)
    this.#usage = last ? undefined : usage
    return last ? usage : undefined
  }

  #count({ content, reasoning, tool_calls }: ChatDelta): void {
    const thought = reasoning?.length ?? 0
    this.#reasoningCharacters += thought
    this.#characters += thought + (content?.length ?? 0)
    for (const call of tool_calls ?? []) this.#characters += call.function?.arguments?.length ?? 0
  }

  /** Perplexity, xAI: the sources stand beside the answer, again and again. */
  #cite(payload: any, choices: readonly ChatChunkChoice[]): void {
    const sources = payload.search_results ?? payload.citations
    if (Array.isArray(sources) && sources.length > 0) this.#sources = sources
    if (this.#sources.length === 0) return
    for (const { index, delta } of choices) if (index === 0) this.#text += delta?.content ?? ''
  }
}

/** Adds a later part of a message to what is there. */
function append(message: any, delta: ChatDelta): void {
  for (const [name, value] of Object.entries(delta)) {
    const old = message[name]
    if (Array.isArray(value)) message[name] = [...(old ?? []), ...value]
    else message[name] = typeof old === 'string' ? old + String(value) : value
  }
}
