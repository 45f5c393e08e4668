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
import { Choice } from './choice.ts'
import { inbandFailure, notAnAnswer, type Failed } from './errors.ts'
import { isText, toCitations } from './parts.ts'
import type { Quirks } from './quirks.ts'
import type { ThinkTags } from '../shared/think-tags.ts'
import { toUsage } from './usage.ts'

/** What is known of the answers of a deployment. */
export interface VendorProfile {
  readonly quirks: Quirks
  /** The model thinks inside its answer. */
  readonly tags: ThinkTags | undefined
  readonly fail: Host['fail']
}

/**
 * The chunks of a stream.
 * @throws the failure an error inside the stream stands for, after the usage that came with it. A filter that stops an
 *   answer midway is none: it is a reason to finish.
 */
export function readChunks(dialect: VendorProfile): Step<any, ChatChunk> {
  const answer = new Answer(dialect)
  let begun = false
  let ended = false
  return {
    push(payload, emit) {
      const failed = failureIn(payload, dialect.fail)
      if (failed) {
        // What was produced is charged; before that, another deployment may still be asked.
        const usage = begun ? toUsage(payload?.usage, dialect.quirks) : undefined
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
export function readCompletion(payload: any, dialect: VendorProfile): ChatCompletion {
  const failed = failureIn(payload, dialect.fail)
  if (failed) throw failed.error
  if (!Array.isArray(payload.choices) || payload.choices.length === 0)
    throw notAnAnswer(dialect.fail)
  const plain = readPlain(payload, dialect)
  if (plain) return plain
  const answer = new Answer(dialect)
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

/** An answer that is one text and nothing else, as most are. */
function readPlain(payload: any, { quirks, tags }: VendorProfile): ChatCompletion | undefined {
  const { choices, search_results, citations, system_fingerprint, service_tier } = payload
  const { index = 0, message, finish_reason, logprobs, usage: own } = choices[0] ?? {}
  if (choices.length > 1 || index !== 0 || !message || !isText(message)) return undefined
  if (tags || search_results || citations || !message.content) return undefined
  const { content } = message
  const completion: ChatCompletion = {
    choices: [
      {
        index,
        message: { role: 'assistant', content },
        finish_reason: finish_reason ?? null,
        logprobs: logprobs ?? null,
      },
    ],
  }
  const reported = payload.usage ?? payload.x_groq?.usage ?? own
  const usage = reported ? toUsage(reported, quirks) : undefined
  if (usage) completion.usage = usage
  if (system_fingerprint) completion.system_fingerprint = system_fingerprint
  if (service_tier) completion.service_tier = service_tier
  if (payload.object === 'chat.completion.done') completion.endOfStream = true
  return completion
}

/** An error in place of an answer, or a payload that cannot be one. */
function failureIn(payload: any, fail: Host['fail']): Failed | undefined {
  if (typeof payload !== 'object' || payload === null) {
    return { failure: 'upstream_error', error: notAnAnswer(fail) }
  }
  const failed = inbandFailure(fail, payload)
  if (failed || !gaveUp(payload.choices)) return failed
  const error = fail('upstream_error', 'The model provider gave up on this answer.')
  return { failure: 'upstream_error', error }
}

function gaveUp(choices: unknown): boolean {
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
class Answer {
  readonly #dialect: VendorProfile
  readonly #choices = new Map<number, Choice>()
  #first: Choice | undefined
  /** Reported when there may still be a later word. */
  #usage: OpenAIUsage | undefined
  #begun = false
  #finished = false
  #sources: readonly any[] = []
  /** Text of the first choice since sources are known, for their places in it. */
  #text = ''
  /** Characters of reasoning, and of everything; kept where they stand for tokens. */
  #thought = 0
  #said = 0

  constructor(dialect: VendorProfile) {
    this.#dialect = dialect
  }

  /** One payload; nothing when there is nothing in it for anybody. */
  push(payload: any): ChatChunk | undefined {
    const given: any[] = Array.isArray(payload.choices) ? payload.choices : []
    let choices: ChatChunkChoice[] | undefined
    let spoke = false
    for (let i = 0; i < given.length; i++) {
      const { index = i, delta, finish_reason, logprobs } = given[i] ?? {}
      const said = delta ? this.#choice(index).read(delta) : undefined
      if (said) {
        spoke = true
        if (this.#dialect.quirks.reasoningByShare) this.#count(said)
      }
      if (finish_reason) this.#finished = true
      if (!said && !finish_reason && !logprobs) continue
      const choice: ChatChunkChoice = {
        index,
        delta: said ?? {},
        finish_reason: finish_reason || null,
      }
      if (logprobs) choice.logprobs = logprobs
      if (choices) choices.push(choice)
      else choices = [choice]
    }
    choices ??= []
    this.#cite(payload, choices)
    const chunk: ChatChunk = { choices }
    const usage = this.#latestUsage(payload, given, spoke)
    if (usage) chunk.usage = usage
    this.#begun ||= spoke
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

  #choice(index: number): Choice {
    // Mostly the only one.
    if (index === 0 && this.#first) return this.#first
    let choice = this.#choices.get(index)
    if (!choice) this.#choices.set(index, (choice = new Choice(this.#dialect.tags)))
    if (index === 0) this.#first = choice
    return choice
  }

  /**
   * Some report on every chunk, counting up. Usage before or beside output is kept until something better comes: passed
   * on, it would make a stream that was cut look complete.
   */
  #latestUsage(payload: any, given: readonly any[], spoke: boolean): OpenAIUsage | undefined {
    let reported = payload.usage ?? payload.x_groq?.usage
    if (reported === undefined || reported === null) {
      for (let i = 0; i < given.length && !reported; i++) reported = given[i]?.usage
    }
    if (!reported) return undefined
    const share = this.#said > 0 ? this.#thought / this.#said : 0
    const usage = toUsage(reported, this.#dialect.quirks, share)
    if (!usage) return undefined
    const last = this.#finished || (this.#begun && !spoke)
    this.#usage = last ? undefined : usage
    return last ? usage : undefined
  }

  #count({ content, reasoning, tool_calls }: ChatDelta): void {
    const thought = reasoning?.length ?? 0
    this.#thought += thought
    this.#said += thought + (content?.length ?? 0)
    for (const call of tool_calls ?? []) this.#said += call.function?.arguments?.length ?? 0
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
