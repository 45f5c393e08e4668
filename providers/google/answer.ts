/** Turns Google's answers into chunks. */
import { randomUUID, hash } from 'node:crypto'
import type {
  ChatChunk,
  ChatChunkChoice,
  ChatCompletion,
  Host,
  OpenAIUsage,
  Step,
  ChatDelta,
  ReasoningDetail,
  ToolCallDelta,
} from '../../src/plugin.ts'
import { notAnAnswer, textOf } from '../shared/http.ts'
import { blocked, inbandFailure } from './errors.ts'
import { toUsage } from './usage.ts'
import { FORMAT } from './contents.ts'

/** What the request says about how to read its answer. */
interface AnswerContext {
  /** Name of the function whose arguments are the answer. */
  readonly answerTool: string | undefined
  readonly fail: Host['fail']
}

/**
 * The chunks of a stream. Each chunk has the usage so far, so that a broken stream can be charged.
 * @throws the failure of an error in the stream; `upstream_error` for a truncated stream
 */
export function readChunks(context: AnswerContext): Step<any, ChatChunk> {
  const { fail } = context
  const answer = new AnswerState(context)
  return {
    push(payload, emit) {
      const chunk = answer.push(payload, emit)
      if (chunk) emit(chunk)
    },
    end(emit) {
      if (!answer.finished) {
        throw fail('upstream_error', 'The model provider closed the stream early.')
      }
      const rest = answer.rest()
      if (rest) emit(rest)
    },
  }
}

/**
 * A whole answer.
 * @throws the failure of an error in place of an answer; `upstream_error` when the payload is not an answer
 */
export function readCompletion(payload: any, context: AnswerContext): ChatCompletion {
  const { fail } = context
  const answer = new AnswerState(context)
  const chunk = answer.push(payload)
  if (!chunk || chunk.choices.length === 0) throw notAnAnswer(fail)
  const rest = answer.rest()
  const choices = chunk.choices.map(({ index, delta, finish_reason, logprobs }) => {
    const late = rest?.choices.find((choice) => choice.index === index)?.delta
    const message = { role: 'assistant', content: null, ...delta, ...late }
    return { index: index!, message, finish_reason: finish_reason ?? null, logprobs }
  })
  return { choices, usage: rest?.usage ?? chunk.usage ?? null }
}

/** Google's finish reasons in OpenAI's form. All others become `stop`. */
const FINISH_REASONS: Readonly<Record<string, string>> = {
  MAX_TOKENS: 'length',
  SAFETY: 'content_filter',
  RECITATION: 'content_filter',
  BLOCKLIST: 'content_filter',
  PROHIBITED_CONTENT: 'content_filter',
  SPII: 'content_filter',
  LANGUAGE: 'content_filter',
  MODEL_ARMOR: 'content_filter',
  IMAGE_SAFETY: 'content_filter',
  IMAGE_PROHIBITED_CONTENT: 'content_filter',
  IMAGE_RECITATION: 'content_filter',
}
/** Finish reasons that mean that the answer failed. */
const FAILED: ReadonlySet<unknown> = new Set([
  'MALFORMED_FUNCTION_CALL',
  'UNEXPECTED_TOOL_CALL',
  'TOO_MANY_TOOL_CALLS',
  'MISSING_THOUGHT_SIGNATURE',
  'MALFORMED_RESPONSE',
  'NO_IMAGE',
  'IMAGE_OTHER',
  'OTHER',
])

/** State of one answer while it arrives. */
class AnswerState {
  readonly #fail: Host['fail']
  readonly #answerTool: string | undefined
  readonly #candidates = new Map<number, Candidate>()
  #usage: OpenAIUsage | undefined

  constructor({ answerTool, fail }: AnswerContext) {
    this.#fail = fail
    this.#answerTool = answerTool
  }

  /** Whether all candidates have finished. */
  get finished(): boolean {
    const candidates = [...this.#candidates.values()]
    return candidates.length > 0 && candidates.every(({ finished }) => finished)
  }

  /** Reads one payload. @param emit receives the usage so far before a failure is thrown */
  push(payload: any, emit: (chunk: ChatChunk) => void = () => {}): ChatChunk | undefined {
    if (typeof payload !== 'object' || payload === null) throw notAnAnswer(this.#fail)
    this.#usage = toUsage(payload.usageMetadata) ?? this.#usage
    const failure = this.#failureIn(payload)
    if (failure) {
      if (this.#usage) emit({ choices: [], usage: this.#usage })
      throw failure
    }
    const candidates: readonly any[] = payload.candidates ?? []
    const choices =
      candidates.length === 0 && payload.promptFeedback?.blockReason
        ? this.#filtered()
        : candidates.flatMap((one, position) => this.#read(one ?? {}, position, payload.responseId))
    const chunk: ChatChunk = { choices }
    if (this.#usage) {
      chunk.usage = this.#usage
      chunk.usageIsRunning = true
    }
    return choices.length > 0 || chunk.usage ? chunk : undefined
  }

  /** What is only known at the end: citations and the number of searches. */
  rest(): ChatChunk | undefined {
    const choices: ChatChunkChoice[] = []
    let searches: number | undefined
    for (const [index, candidate] of this.#candidates) {
      const delta = candidate.end()
      if (delta) choices.push({ index, delta })
      if (candidate.searches) searches = (searches ?? 0) + candidate.searches
    }
    const usage = searches && this.#usage ? { ...this.#usage, searches } : undefined
    if (choices.length === 0 && !usage) return undefined
    return usage ? { choices, usage } : { choices }
  }

  #failureIn(payload: any): Error | undefined {
    const failure = inbandFailure(this.#fail, payload)
    if (failure) return failure
    const { candidates, promptFeedback } = payload
    if (candidates !== undefined && !Array.isArray(candidates)) return notAnAnswer(this.#fail)
    if (candidates?.some((candidate: any) => FAILED.has(candidate?.finishReason))) {
      return this.#fail('upstream_error', 'The model provider gave up on this answer.')
    }
    const isStart = this.#candidates.size === 0 && !candidates?.length
    return isStart && promptFeedback?.blockReason ? blocked(this.#fail) : undefined
  }

  /** It is empty for a candidate without content, so that another deployment can still be tried. */
  #read(raw: any, position: number, responseId: string | undefined): ChatChunkChoice[] {
    const index: number = raw.index ?? position
    let candidate = this.#candidates.get(index)
    if (!candidate) {
      const seed = `${responseId ?? randomUUID()}:${index}`
      candidate = new Candidate(seed, this.#answerTool, this.#fail)
      this.#candidates.set(index, candidate)
    }
    const delta = candidate.read(raw)
    const finish_reason = finishReasonOf(raw)
    if (finish_reason) candidate.finished = true
    if (!delta && !finish_reason && !raw.logprobsResult) return []
    const choice: ChatChunkChoice = { index, delta: delta ?? {}, finish_reason }
    if (raw.logprobsResult) choice.logprobs = toLogprobs(raw.logprobsResult)
    return [choice]
  }

  /** A filter stopped the answer midway. */
  #filtered(): ChatChunkChoice[] {
    return [...this.#candidates].map(([index, candidate]) => {
      candidate.finished = true
      return { index, delta: {}, finish_reason: 'content_filter' }
    })
  }
}

function finishReasonOf({ finishReason: reason }: any): string | null {
  if (typeof reason !== 'string' || reason === 'FINISH_REASON_UNSPECIFIED') return null
  return FINISH_REASONS[reason] ?? 'stop'
}

function toLogprobs({ chosenCandidates, topCandidates }: any): object {
  const chosen: readonly any[] = chosenCandidates ?? []
  const content = chosen.map((one, position) => ({
    ...toToken(one),
    top_logprobs: (topCandidates?.[position]?.candidates ?? []).map(toToken),
  }))
  return { content, refusal: null }
}

function toToken({ token = '', logProbability = 0 }: any): object {
  return { token, logprob: logProbability, bytes: [...Buffer.from(token)] }
}

// Reads one candidate of an answer, part by part.

/** A call whose arguments are still arriving. */
interface OpenCall {
  readonly call: any
  readonly signature: string | undefined
  readonly values: PartialArguments
}

/** State of one candidate while it arrives. */
class Candidate {
  finished = false
  /** Makes ids of calls unique to this candidate. */
  readonly #seed: string
  readonly #fail: Host['fail']
  /** Name of the function whose arguments are the answer. */
  readonly #answerTool: string | undefined
  /** Index of the current reasoning block. */
  #block = -1
  #thinking = false
  #calls = 0
  #images = 0
  #open: OpenCall | undefined
  /** The text so far, for the positions of citations. */
  #text = ''
  #grounding: any = undefined

  constructor(seed: string, answerTool: string | undefined, fail: Host['fail']) {
    this.#seed = seed
    this.#answerTool = answerTool
    this.#fail = fail
  }

  /** Number of searches that Google ran; undefined for none. */
  get searches(): number | undefined {
    return this.#grounding && searchesIn(this.#grounding)
  }

  /**
   * The content that an event adds; undefined for none.
   * @throws the failure class `upstream_error` for arguments that cannot be assembled
   */
  read({ content, finishReason, groundingMetadata }: any): ChatDelta | undefined {
    const delta: ChatDelta = {}
    const parts: unknown = content?.parts
    if (Array.isArray(parts)) for (const part of parts) if (part) this.#addPart(part, delta)
    if (finishReason) this.#endCall(delta)
    if (delta.content) this.#text += delta.content
    if (groundingMetadata) this.#grounding = groundingMetadata
    return Object.keys(delta).length > 0 ? delta : undefined
  }

  /** Citations, which need the whole text. */
  end(): ChatDelta | undefined {
    if (!this.#grounding) return undefined
    const annotations = toAnnotations(this.#grounding, this.#text)
    return annotations.length > 0 ? { annotations } : undefined
  }

  #addPart(part: any, delta: ChatDelta): void {
    const { thought, functionCall, inlineData, thoughtSignature: signature } = part
    const text = part.text ?? codeIn(part)
    if (functionCall) return this.#addCall(functionCall, signature, delta)
    if (thought) this.#addThought(text, delta)
    else if (text) {
      delta.content = (delta.content ?? '') + text
      this.#thinking = false
    } else if (inlineData?.mimeType?.startsWith('image/')) this.#addImage(inlineData, delta)
    if (signature) this.#addSignature(signature, null, delta)
  }

  #addThought(text: unknown, delta: ChatDelta): void {
    if (typeof text !== 'string' || !text) return
    if (!this.#thinking) this.#block++
    this.#thinking = true
    delta.reasoning = (delta.reasoning ?? '') + text
    this.#addDetail({ type: 'reasoning.text', text, format: FORMAT, index: this.#block }, delta)
  }

  /** Adds a signature, as a block of its own. It belongs to the call with this id, or else to the text. */
  #addSignature(data: string, id: string | null, delta: ChatDelta): void {
    this.#thinking = false
    const index = ++this.#block
    this.#addDetail({ type: 'reasoning.encrypted', data, id, format: FORMAT, index }, delta)
  }

  #addDetail(detail: ReasoningDetail, delta: ChatDelta): void {
    delta.reasoning_details = [...(delta.reasoning_details ?? []), detail]
  }

  #addImage({ mimeType, data }: any, delta: ChatDelta): void {
    const url = `data:${mimeType};base64,${data}`
    const image = { type: 'image_url', image_url: { url }, index: this.#images++ }
    delta.images = [...((delta.images as object[]) ?? []), image]
  }

  #addCall(call: any, signature: string | undefined, delta: ChatDelta): void {
    if (call.name) {
      this.#endCall(delta)
      if (!call.willContinue)
        return this.#emitCall(call, JSON.stringify(call.args ?? {}), signature, delta)
      this.#open = { call, signature, values: new PartialArguments() }
    }
    const open = this.#open
    if (!open) return
    if (call.partialArgs && !open.values.add(call.partialArgs)) {
      throw notAnAnswer(this.#fail)
    }
    if (!call.willContinue) this.#endCall(delta)
  }

  #endCall(delta: ChatDelta): void {
    const open = this.#open
    this.#open = undefined
    if (open) this.#emitCall(open.call, String(open.values), open.signature, delta)
  }

  #emitCall(
    { id, name }: any,
    text: string,
    signature: string | undefined,
    delta: ChatDelta,
  ): void {
    this.#thinking = false
    if (name === this.#answerTool) {
      delta.content = (delta.content ?? '') + text
      return
    }
    const index = this.#calls++
    const called = { name, arguments: text }
    const call: ToolCallDelta = { index, type: 'function', function: called, done: true }
    // The id links a signature to its call when the client sends both back.
    if (id || signature) call.id = id || this.#newId(index)
    if (signature) this.#addSignature(signature, call.id!, delta)
    delta.tool_calls = [...(delta.tool_calls ?? []), call]
  }

  /** It is derived from the answer, so that the same answer has the same ids. */
  #newId(index: number): string {
    return `call_${hash('sha256', `${this.#seed}:${index}`, 'hex').slice(0, 24)}`
  }
}

/** Code that the model ran and what it wrote, as blocks of Markdown. */
function codeIn({ executableCode: code, codeExecutionResult: result }: any): string | undefined {
  if (code) return fenced(textOf(code.language).toLowerCase(), code.code)
  return result ? fenced('', result.output) : undefined
}

function fenced(language: string, text: unknown): string {
  return `\n\`\`\`${language}\n${typeof text === 'string' ? text.trimEnd() : ''}\n\`\`\`\n`
}

/**
 * Grounding metadata as annotations: one per source and passage, and one without a position per source that no passage
 * cites.
 * @param text the whole answer; Google's offsets count its UTF-8 bytes, annotations count code points
 */
function toAnnotations(metadata: any, text: string): object[] {
  const sources: any[] = list(metadata.groundingChunks).map(
    (chunk) => chunk?.web ?? chunk?.retrievedContext ?? chunk?.maps,
  )
  const bytes = Buffer.from(text)
  const placed = list(metadata.groundingSupports).flatMap(({ segment, groundingChunkIndices }) => {
    const start = pointsIn(bytes, segment?.startIndex)
    const end = pointsIn(bytes, segment?.endIndex)
    return list(groundingChunkIndices).map((index) => ({ source: sources[index], start, end }))
  })
  const named = new Set(placed.map(({ source }) => source))
  const others = sources.filter((source) => !named.has(source))
  return [...placed, ...others.map((source) => ({ source, start: 0, end: 0 }))]
    .filter(({ source }) => typeof source?.uri === 'string')
    .map(({ source, start, end }) => ({
      type: 'url_citation',
      url_citation: {
        url: source.uri,
        title: source.title ?? '',
        start_index: start,
        end_index: end,
      },
    }))
}

/** Number of searches that Google ran; undefined for none. */
function searchesIn(metadata: any): number | undefined {
  return list(metadata.webSearchQueries).length || undefined
}

function pointsIn(bytes: Buffer, end: unknown): number {
  return typeof end === 'number' ? Array.from(bytes.toString('utf8', 0, end)).length : 0
}

function list(value: unknown): readonly any[] {
  return Array.isArray(value) ? value : []
}

/** An object or a list under construction. Without a prototype, so that every member name is safe. */
type Node = Record<string, unknown> | unknown[]

const MAX_DEPTH = 64
const STEP = /\.([^.[\]]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]/gy

/**
 * Arguments of a call that arrive value by value: `[{ jsonPath: '$.a[0].b', stringValue: 'x', willContinue: true }]`.
 * Some endpoints stream them without being asked to.
 */
class PartialArguments {
  readonly #root = Object.create(null) as Node

  /** Adds values. @returns false when a path is invalid */
  add(values: unknown): boolean {
    if (!Array.isArray(values)) return false
    return values.every((value) => {
      const path = pathOf(value?.jsonPath)
      return path !== undefined && this.#set(path, value)
    })
  }

  /** The arguments so far as JSON. */
  toString(): string {
    return JSON.stringify(this.#root)
  }

  #set(path: readonly (string | number)[], value: any): boolean {
    let node: any = this.#root
    for (let i = 0; i < path.length - 1; i++) {
      const key = path[i]!
      if (!fits(node, key)) return false
      node[key] ??= typeof path[i + 1] === 'number' ? [] : Object.create(null)
      node = node[key]
    }
    const key = path.at(-1)!
    if (!fits(node, key)) return false
    const old = node[key]
    const { stringValue, numberValue, boolValue } = value
    // Texts arrive in pieces. A value that is not a text, number or boolean is null.
    if (typeof stringValue === 'string') {
      node[key] = typeof old === 'string' ? old + stringValue : stringValue
    } else node[key] = numberValue ?? boolValue ?? null
    return true
  }
}

/** Whether a container can have this member. Lists have no gaps. */
function fits(node: unknown, key: string | number): boolean {
  if (typeof node !== 'object' || node === null) return false
  return Array.isArray(node)
    ? typeof key === 'number' && key <= node.length
    : typeof key === 'string'
}

function pathOf(text: unknown): (string | number)[] | undefined {
  if (typeof text !== 'string' || !text.startsWith('$')) return undefined
  const path: (string | number)[] = []
  let read = 1
  STEP.lastIndex = read
  for (let match = STEP.exec(text); match; match = STEP.exec(text)) {
    const [, name, index, single, double] = match
    path.push(index === undefined ? (name ?? unescaped(single ?? double!)) : Number(index))
    read = STEP.lastIndex
  }
  return read === text.length && path.length > 0 && path.length <= MAX_DEPTH ? path : undefined
}

function unescaped(text: string): string {
  return text.replace(/\\(.)/g, '$1')
}
