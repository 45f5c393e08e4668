/**
 * Reads answers of all vendors into one form: text in `content`, reasoning in `reasoning`, usage in OpenAI's counts.
 * The gateway itself sets order, roles, indexes and ids.
 */
import type {
  ChatChunk,
  ChatChunkChoice,
  ChatCompletion,
  ChatDelta,
  Host,
  OpenAIUsage,
  Step,
  ReasoningDetail,
  ToolCallDelta,
} from '../../src/plugin.ts'
import { notAnAnswer } from '../shared/http.ts'
import { inbandFailure, type Failed } from './errors.ts'
import { isError, toAnnotations, toUsage } from './members.ts'
import type { VendorProfile } from './quirks.ts'
import { Signatures, hasSignature, markOf, textMember } from './as-given.ts'
import { ThinkSplitter } from '../shared/think-tags.ts'

/**
 * The chunks of a stream.
 * @throws the failure of an error in the stream, after its usage was emitted. A content filter that stops a started
 *   answer is not a failure but a finish reason.
 */
export function readChunks(profile: VendorProfile): Step<any, ChatChunk> {
  const answer = new AnswerState(profile)
  let begun = false
  let ended = false
  return {
    push(payload, emit) {
      const failed = failureIn(payload, profile.fail)
      if (failed) {
        // Output that was produced is charged. Before the first output another deployment can still be tried.
        const usage = begun ? toUsage(payload?.usage, profile.quirks) : undefined
        if (usage) emit({ choices: [], usage })
        if (!begun || failed.failure !== 'content_blocked') throw failed.error
        emit(answer.filtered())
        return
      }
      if (payload.endOfStream === true) {
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
 * @throws the failure of an error in place of an answer; `upstream_error` when the payload is not an answer
 */
export function readCompletion(payload: any, profile: VendorProfile): ChatCompletion {
  const failed = failureIn(payload, profile.fail)
  if (failed) throw failed.error
  const choices = payload.choices
  if (!Array.isArray(choices) || choices.length === 0 || choices.some((choice) => !choice))
    throw notAnAnswer(profile.fail)
  const answer = new AnswerState(profile)
  const chunks = [answer.push(payload, 'message'), ...answer.rest(true)]
  const messages: ChatCompletion['choices'] = choices.map((choice, position) => ({
    index: choice.index ?? position,
    message: { role: 'assistant', content: null },
    finish_reason: choice.finish_reason ?? null,
    ...stopSequenceOf(choice),
    logprobs: choice.logprobs ?? null,
  }))
  const completion: ChatCompletion = { choices: messages }
  for (const chunk of chunks) {
    if (!chunk) continue
    // Nothing follows a whole answer.
    const { usageIsPartial: _partial, ...members } = chunk
    Object.assign(completion, members, { choices: messages })
    for (const { index, delta } of chunk.choices) {
      const target = messages.find((one) => one.index === index)?.message
      if (target && delta) append(target, delta)
    }
  }
  return completion
}

/** vLLM names the stop sequence that ended an answer, or the number of a token. */
function stopSequenceOf(choice: any): { stop_sequence?: string } {
  const { stop_reason: reason } = choice ?? {}
  return typeof reason === 'string' && reason !== '' ? { stop_sequence: reason } : {}
}

/** The failure of an error payload, or of one that cannot be an answer. */
function failureIn(payload: any, fail: Host['fail']): Failed | undefined {
  if (typeof payload !== 'object' || payload === null) {
    return { failure: 'upstream_error', error: notAnAnswer(fail) }
  }
  if (isError(payload)) return inbandFailure(fail, payload)
  if (!hasFailed(payload.choices)) return undefined
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

/** Finish reasons of failed answers. */
const FAILED: ReadonlySet<unknown> = new Set(['error', 'insufficient_system_resource', 'abort'])

/** State of one answer while it arrives. */
class AnswerState {
  readonly #profile: VendorProfile
  readonly #choices = new Map<number, ChoiceState>()
  #first: ChoiceState | undefined
  /** The latest usage, while a later report may follow. */
  #usage: OpenAIUsage | undefined
  #begun = false
  #finished = false
  #sources: readonly any[] = []
  /** Text of the first choice since sources are known, for the positions of citations. */
  #text = ''

  constructor(profile: VendorProfile) {
    this.#profile = profile
  }

  /**
   * Reads one payload; undefined when it has no content.
   * @param member the member of a choice that has its content
   */
  push(payload: any, member: 'delta' | 'message' = 'delta'): ChatChunk | undefined {
    const items: any[] = Array.isArray(payload.choices) ? payload.choices : []
    let choices: ChatChunkChoice[] | undefined
    let hasContent = false
    for (let i = 0; i < items.length; i++) {
      const { index = i, [member]: delta, finish_reason, stop_reason, logprobs } = items[i] ?? {}
      const content = delta ? this.#choice(index).read(delta) : undefined
      if (content) hasContent = true
      if (finish_reason) this.#finished = true
      if (!content && !finish_reason && !logprobs) continue
      const choice: ChatChunkChoice = {
        index,
        delta: content ?? {},
        finish_reason: finish_reason || null,
        ...stopSequenceOf({ stop_reason }),
      }
      if (logprobs) choice.logprobs = logprobs
      if (choices) choices.push(choice)
      else choices = [choice]
    }
    choices ??= []
    this.#cite(payload, choices)
    const chunk: ChatChunk = { choices }
    const usage = this.#latestUsage(payload, items, hasContent)
    if (usage) chunk.usage = usage
    if (usage && usage === this.#usage) chunk.usageIsPartial = true
    this.#begun ||= hasContent
    if (payload.system_fingerprint) chunk.system_fingerprint = payload.system_fingerprint
    if (payload.service_tier) chunk.service_tier = payload.service_tier
    // Perplexity's mark of the end.
    if (payload.object === 'chat.completion.done') chunk.endOfStream = true
    return choices.length > 0 || usage || chunk.endOfStream ? chunk : undefined
  }

  /** Ends all choices because a content filter stopped the answer. */
  filtered(): ChatChunk {
    this.#finished = true
    const indexes = [...this.#choices.keys()]
    return { choices: indexes.map((index) => ({ index, finish_reason: 'content_filter' })) }
  }

  /** The chunks that are only known at the end. @param ended whether the vendor marked the end of the answer */
  rest(ended: boolean): ChatChunk[] {
    const choices: ChatChunkChoice[] = []
    for (const [index, choice] of this.#choices) {
      const delta = choice.end()
      if (delta) choices.push({ index, delta })
      if (index === 0 && delta?.content) this.#text += delta.content
    }
    const annotations = toCitations(this.#sources, this.#text)
    if (annotations.length > 0) choices.push({ index: 0, delta: { annotations } })
    const chunks: ChatChunk[] = choices.length > 0 ? [{ choices }] : []
    if (this.#usage && (ended || this.#finished)) chunks.push({ choices: [], usage: this.#usage })
    return chunks
  }

  #choice(index: number): ChoiceState {
    // Most answers have one choice, which needs no map lookup.
    if (index === 0 && this.#first) return this.#first
    let choice = this.#choices.get(index)
    if (!choice) this.#choices.set(index, (choice = new ChoiceState(this.#profile)))
    if (index === 0) this.#first = choice
    return choice
  }

  /**
   * Some vendors report running totals on every chunk. Usage beside output is partial: it counts where the client leaves
   * or the stream breaks off, and does not make a truncated stream look complete. Usage before output is held back: what
   * fails then is left to another deployment.
   */
  #latestUsage(payload: any, items: readonly any[], hasContent: boolean): OpenAIUsage | undefined {
    let reported = payload.usage ?? payload.x_groq?.usage
    if (reported === undefined || reported === null) {
      for (let i = 0; i < items.length && !reported; i++) reported = items[i]?.usage
    }
    if (!reported) return undefined
    const usage = toUsage(reported, this.#profile.quirks)
    if (!usage) return undefined
    const last = this.#finished || (this.#begun && !hasContent)
    this.#usage = last ? undefined : usage
    return last || hasContent ? usage : undefined
  }

  /** Perplexity and xAI repeat their sources in every payload. */
  #cite(payload: any, choices: readonly ChatChunkChoice[]): void {
    const sources = payload.search_results ?? payload.citations
    if (Array.isArray(sources) && sources.length > 0) this.#sources = sources
    if (this.#sources.length === 0) return
    for (const { index, delta } of choices) if (index === 0) this.#text += delta?.content ?? ''
  }
}

/** Appends a delta to a message. */
function append(message: any, delta: ChatDelta): void {
  for (const name in delta) {
    const [old, value] = [message[name], delta[name]]
    if (Array.isArray(value)) message[name] = [...(old ?? []), ...value]
    else message[name] = typeof old === 'string' ? old + String(value) : value
  }
}

/** State of one choice while it arrives. */
class ChoiceState {
  readonly #splitter: ThinkSplitter | undefined
  /** Index of the current reasoning block. */
  #block = 0
  #hasReasoning = false
  /** Other content followed the last reasoning, so the next reasoning starts a new block. */
  #interrupted = false
  #summary: number | undefined

  /** Whether reasoning is marked with the member that it came in, because it goes back there. */
  readonly #marks: boolean
  #signatures: Signatures | undefined
  #noteMember: ((member: string) => void) | undefined

  constructor({ tags, quirks, noteMember }: VendorProfile) {
    this.#marks = quirks.replay === 'as-given'
    this.#noteMember = noteMember
    this.#splitter = tags && new ThinkSplitter(tags)
  }

  /** The content of a delta; undefined for none. */
  read(delta: any): ChatDelta | undefined {
    if (!this.#splitter && isText(delta) && !(this.#marks && hasSignature(delta))) {
      if (!delta.content) return undefined
      this.#interrupted = this.#hasReasoning
      return { content: delta.content }
    }
    const out: ChatDelta = {}
    let { content, reasoning } = textOf(delta)
    if (this.#splitter) {
      const thought = this.#splitter.push(content)
      content = thought.content
      reasoning ||= thought.reasoning
    }
    const mark = this.#marks ? this.#markOfText(delta) : undefined
    this.#addReasoning(out, reasoning, this.#detailsOf(delta), mark)
    if (content) out.content = content
    if (delta.refusal && typeof delta.refusal === 'string') out.refusal = delta.refusal
    if (Array.isArray(delta.tool_calls) && delta.tool_calls.length > 0) {
      out.tool_calls = delta.tool_calls.map(toToolCall)
    }
    if (Array.isArray(delta.annotations)) {
      const annotations = toAnnotations(delta.annotations)
      if (annotations.length > 0) out.annotations = annotations
    }
    if (content || out.tool_calls) this.#interrupted = this.#hasReasoning
    return Object.keys(out).length > 0 ? out : undefined
  }

  /** What was held back at the end. */
  end(): ChatDelta | undefined {
    const held = this.#splitter?.end()
    const out: ChatDelta = {}
    if (held?.reasoning) this.#addReasoning(out, held.reasoning, [])
    if (held?.content) out.content = held.content
    return held?.reasoning || held?.content ? out : undefined
  }

  #markOfText(delta: any): string | undefined {
    const member = textMember(delta)
    if (member === undefined) return undefined
    this.#noteMember?.(member)
    this.#noteMember = undefined
    return markOf({ member })
  }

  #detailsOf(delta: any): readonly ReasoningDetail[] {
    if (!this.#marks) return [...detailsOf(delta), ...signaturesOf(delta)]
    const own = Array.isArray(delta.reasoning_details)
    const details = detailsOf(delta).map((one) =>
      own ? { ...one, id: markOf({ member: 'reasoning_details', own: one.id }) } : one,
    )
    this.#signatures ??= new Signatures()
    return [...details, ...this.#signatures.read(delta)]
  }

  #addReasoning(
    out: ChatDelta,
    text: string,
    entries: readonly ReasoningDetail[],
    id?: string,
  ): void {
    const visible = entries.some((detail) => detail.text || detail.summary)
    if (!text && entries.length === 0) return
    if (this.#interrupted) {
      this.#block++
      this.#interrupted = false
    }
    const details: ReasoningDetail[] = []
    if (text && !visible) {
      const entry = { type: 'reasoning.text', text, format: 'unknown', index: this.#block } as const
      details.push(id === undefined ? entry : { ...entry, id })
      this.#hasReasoning = true
    }
    for (const detail of entries) details.push(this.#withIndex(detail))
    out.reasoning_details = details
    const reasoning = visible ? details.map((one) => one.text ?? one.summary ?? '').join('') : text
    if (reasoning) out.reasoning = reasoning
  }

  /** Adds an index, and a blank line between the parts of a summary. */
  #withIndex(detail: ReasoningDetail): ReasoningDetail {
    const encrypted = detail.index === undefined && detail.type === 'reasoning.encrypted'
    // Encrypted reasoning is a block of its own.
    if (encrypted && this.#hasReasoning) this.#block++
    const index = detail.index ?? this.#block
    this.#hasReasoning = true
    this.#interrupted ||= encrypted
    if (!detail.summary) return { ...detail, index }
    const next = this.#summary !== undefined && this.#summary !== index
    this.#summary = index
    return { ...detail, index, summary: next ? `\n\n${detail.summary}` : detail.summary }
  }
}

/** Whether a delta contains text only, as nearly all do, so that the rest need not be looked for. */
function isText(delta: any): delta is { content: string } {
  return (
    typeof delta.content === 'string' &&
    isAbsent(delta.reasoning_content) &&
    isAbsent(delta.reasoning) &&
    isAbsent(delta.reasoning_details) &&
    isAbsent(delta.refusal) &&
    isAbsent(delta.tool_calls) &&
    isAbsent(delta.annotations) &&
    isAbsent(delta.extra_content)
  )
}

function isAbsent(value: unknown): boolean {
  return value === undefined || value === null || (Array.isArray(value) && value.length === 0)
}

/** Text and reasoning. Servers that send reasoning under two names send it twice; it counts once. */
function textOf(delta: any): { content: string; reasoning: string } {
  let content = ''
  let reasoning = ''
  if (typeof delta.content === 'string') content = delta.content
  // Mistral sends reasoning and text as parts.
  else if (Array.isArray(delta.content)) {
    for (const part of delta.content) {
      if (part?.type === 'text') content += part.text ?? ''
      else if (part?.type !== 'thinking' || !Array.isArray(part.thinking)) continue
      else for (const thought of part.thinking) reasoning += thought?.text ?? ''
    }
  }
  for (const name of ['reasoning_content', 'reasoning']) {
    if (!reasoning && typeof delta[name] === 'string') reasoning = delta[name]
  }
  return { content, reasoning }
}

const TYPES: ReadonlySet<unknown> = new Set([
  'reasoning.text',
  'reasoning.summary',
  'reasoning.encrypted',
])

/** Formats that clients know. */
const FORMATS: ReadonlySet<unknown> = new Set([
  'openai-responses-v1',
  'azure-openai-responses-v1',
  'xai-responses-v1',
  'anthropic-claude-v1',
  'google-gemini-v1',
])

/** Valid entries of `reasoning_details`, and signatures of Mistral as such entries. */
function detailsOf(delta: any): ReasoningDetail[] {
  const details: ReasoningDetail[] = []
  if (Array.isArray(delta.reasoning_details)) {
    for (const detail of delta.reasoning_details) {
      const { type, text, signature, summary, data, id, format, index } = detail ?? {}
      if (!TYPES.has(type) || !(text || signature || summary || data)) continue
      details.push({
        type,
        ...(text ? { text } : {}),
        ...(signature ? { signature } : {}),
        ...(summary ? { summary } : {}),
        ...(data ? { data } : {}),
        ...(id ? { id } : {}),
        format: FORMATS.has(format) ? format : 'unknown',
        ...(Number.isInteger(index) ? { index } : {}),
      })
    }
  }
  if (Array.isArray(delta.content)) {
    for (const part of delta.content) {
      if (part?.type !== 'thinking' || typeof part.signature !== 'string') continue
      details.push({ type: 'reasoning.text', signature: part.signature, format: 'unknown' })
    }
  }
  return details
}

/** Google's signatures of a message and of its calls. */
function signaturesOf(delta: any): ReasoningDetail[] {
  const bearers = [delta, ...(Array.isArray(delta.tool_calls) ? delta.tool_calls : [])]
  return bearers.flatMap((bearer, i): ReasoningDetail[] => {
    const data = bearer?.extra_content?.google?.thought_signature
    if (typeof data !== 'string') return []
    const id = i > 0 && typeof bearer.id === 'string' && bearer.id !== '' ? bearer.id : undefined
    const entry = { type: 'reasoning.encrypted', data, format: 'google-gemini-v1' } as const
    return [id === undefined ? entry : { ...entry, id }]
  })
}

/** A fragment of a tool call, without empty members and vendor extensions. */
function toToolCall(fragment: any): ToolCallDelta {
  const { index, id, type, function: called, custom } = fragment ?? {}
  const call: ToolCallDelta = {}
  if (index !== undefined && index !== null) call.index = index
  if (id) call.id = id
  if (type === 'function' || type === 'custom') call.type = type
  if (called) {
    call.function = {}
    if (called.name) call.function.name = called.name
    const text = called.arguments
    // Some servers send an object.
    if (text) call.function.arguments = typeof text === 'string' ? text : JSON.stringify(text)
  }
  if (custom) call.custom = { name: custom.name, input: custom.input }
  return call
}

/**
 * Sources beside a text as citations, each at the first `[n]` in the text. Positions are code points; the end is
 * exclusive.
 */
function toCitations(sources: readonly any[], text: string): object[] {
  const citations = sources.map((source, position) => {
    const marker = `[${position + 1}]`
    const at = text.indexOf(marker)
    const start_index = at < 0 ? 0 : Array.from(text.slice(0, at)).length
    const end_index = at < 0 ? 0 : start_index + marker.length
    const page = typeof source === 'string' ? { url: source } : source
    return { ...page, content: page?.snippet, start_index, end_index }
  })
  return toAnnotations(citations)
}
