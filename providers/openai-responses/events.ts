/**
 * Reads answers of the Responses API, streamed and whole, into chat chunks. Items are told apart by `output_index`:
 * some servers change ids between the events of one item.
 */
import type {
  ChatChunk,
  Host,
  Step,
  FailureClass,
  OpenAIUsage,
  ChatDelta,
} from '../../src/plugin.ts'
import { notAnAnswer, partOf, tokenCount } from '../shared/http.ts'
import { type Format, SEPARATOR } from './replay.ts'
import { problemOf, toFailure, type Failed, type Problem } from '../openai-compatible/errors.ts'
import { vendorCost, toAnnotations } from '../openai-compatible/members.ts'

/** How an answer is read. */
export interface AnswerProfile {
  /** Marks reasoning of this vendor. */
  readonly format: Format
  readonly fail: Host['fail']
  /** Learns of an error that came before any output, before its failure is thrown. */
  readonly onRefusal: (refusal: Refusal) => void
}

/**
 * The chunks of a stream. A stream without a terminal event has no finish reason and no usage, which means that it was cut.
 * @throws the failure of an error in the stream, after its usage was emitted. A content filter that stops a started
 *   answer is not a failure but a finish reason.
 */
export function readEvents(profile: AnswerProfile): Step<any, ChatChunk> {
  const answer = new AnswerReader(profile)
  return {
    get done() {
      return answer.ended
    },
    push: (event, emit) => answer.push(event, emit),
    end: (emit) => answer.end(emit),
    fail: (error) => answer.failure ?? error,
  }
}

/** The chunks of a whole answer. @throws the failure of an answer that failed; `upstream_error` for no answer */
export function readResponse(payload: any, profile: AnswerProfile): ChatChunk[] {
  const chunks: ChatChunk[] = []
  const emit = (chunk: ChatChunk) => void chunks.push(chunk)
  const answer = new AnswerReader(profile)
  const { status = 'completed', output, error } = Object(payload)
  if (!Array.isArray(output)) answer.push(error ? payload : undefined, emit)
  else answer.push({ type: `response.${status}`, response: payload }, emit)
  if (!answer.ended) throw notAnAnswer(profile.fail)
  return chunks
}

/** An event about a part of an item. */
interface PartEvent {
  /** Type of the item. */
  readonly item: string
  readonly kind: PartKind
  /** Member with the text. All but `delta` hold the whole text of the part. */
  readonly text: string
  /** Member with the number of the part; absent where an item has one. */
  readonly at?: string
}

const PART_EVENTS: ReadonlyMap<string, PartEvent> = new Map(
  (
    [
      ['output_text', { item: 'message', kind: 'text', text: 'text', at: 'content_index' }],
      ['refusal', { item: 'message', kind: 'refusal', text: 'refusal', at: 'content_index' }],
      [
        'reasoning_summary_text',
        { item: 'reasoning', kind: 'summary', text: 'text', at: 'summary_index' },
      ],
      [
        'reasoning_text',
        { item: 'reasoning', kind: 'reasoning', text: 'text', at: 'content_index' },
      ],
      ['function_call_arguments', { item: 'function_call', kind: 'arguments', text: 'arguments' }],
      ['custom_tool_call_input', { item: 'custom_tool_call', kind: 'input', text: 'input' }],
    ] as const
  ).flatMap(([name, event]): [string, PartEvent][] => [
    [`response.${name}.delta`, { ...event, text: 'delta' }],
    [`response.${name}.done`, event],
  ]),
)

/** State of one answer while it arrives. */
class AnswerReader {
  /** The terminal event has come. */
  ended = false
  /** The failure that waits for its usage. */
  failure: Error | undefined = undefined
  readonly #profile: AnswerProfile
  readonly #writer: AnswerWriter
  readonly #items = new Map<number, OutputItem>()
  #begun = false
  #refusal: Refusal | undefined
  /** The phase of the last message. */
  #phase: unknown
  /** Searches of the web that the vendor ran. */
  #searches = 0

  constructor(profile: AnswerProfile) {
    this.#profile = profile
    this.#writer = new AnswerWriter(profile.format)
  }

  push(event: any, emitTo: Emit): void {
    if (this.ended) return
    if (typeof event !== 'object' || event === null) throw notAnAnswer(this.#profile.fail)
    const emit = (chunk: ChatChunk) => {
      this.#begun = true
      emitTo(chunk)
    }
    const type: string = event.type ?? (event.error ? 'error' : '')
    const aboutPart = PART_EVENTS.get(type)
    if (aboutPart) return this.#readPart(aboutPart, event, emit)
    switch (type) {
      case 'response.output_item.added':
        return this.#open(event.output_index, event.item ?? {}, emit)
      case 'response.output_item.done':
        return this.#done(event.output_index, event.item ?? {}, emit)
      case 'response.output_text.annotation.added': {
        const { output_index, item_id, content_index = 0, annotation, annotation_index } = event
        const item = this.#item(output_index, 'message', item_id)
        return this.#writer.annotate(item, content_index, [annotation], emit, annotation_index)
      }
      case 'response.completed':
      case 'response.incomplete':
        return this.#finish(event.response ?? {}, type, emit)
      case 'response.failed':
        return this.#refuse({ error: event.response?.error ?? {} }, event.response ?? {}, emit)
      case 'error':
        return this.#refuse(event, undefined, emit)
    }
  }

  /** @throws the failure whose usage did not come */
  end(emit: Emit): void {
    if (!this.ended && this.#refusal) this.#conclude(this.#refusal, {}, emit)
  }

  #open(index: number, vendorItem: any, emit: Emit): void {
    // Reasoning may be silent for minutes. From here on the answer counts as begun.
    if (!this.#begun) emit(toChunk({ role: 'assistant' }))
    const item = new OutputItem(vendorItem.type ?? '', vendorItem.id ?? null)
    this.#items.set(index, item)
    this.#phase = vendorItem.phase ?? this.#phase
    item.callId = vendorItem.call_id
    if (item.isCall && vendorItem.name) this.#writer.call(item, vendorItem, emit)
    if (isSearch(vendorItem)) this.#search(item, emit)
  }

  /** The item of an event. An event about an item that was not announced announces it. */
  #item(index: number, type: string, id: string | undefined): OutputItem {
    let item = this.#items.get(index)
    if (item?.type !== type) this.#items.set(index, (item = new OutputItem(type, id ?? null)))
    return item
  }

  #readPart({ item: type, kind, text: member, at: number }: PartEvent, event: any, emit: Emit) {
    const item = this.#item(event.output_index, type, event.item_id)
    // A call whose name is not known waits for its item.
    if (item.isCall && item.call === undefined) return
    const text: unknown = event[member]
    const at: number = number === undefined ? 0 : (event[number] ?? 0)
    if (member !== 'delta') this.#writer.complete(item, kind, at, text, emit)
    else if (typeof text === 'string') {
      this.#writer.write(item, kind, at, text, emit, event.logprobs)
    }
  }

  #done(index: number, vendorItem: any, emit: Emit): void {
    const { id, type = '' } = vendorItem
    const item = this.#item(index, type, id)
    this.#complete(item, vendorItem, emit)
    if (!item.isCall) item.done = true
  }

  /** Emits what was missing of an item that is complete. */
  #complete(item: OutputItem, vendorItem: any, emit: Emit): void {
    const { type, phase, status, content, summary } = vendorItem
    const writer = this.#writer
    switch (type) {
      case 'message':
        this.#phase = phase ?? this.#phase
        return listOf(content).forEach((part, at) => this.#completeContent(item, at, part, emit))
      case 'reasoning':
        listOf(summary).forEach((part, at) =>
          writer.complete(item, 'summary', at, part?.text, emit),
        )
        listOf(content).forEach((part, at) =>
          writer.complete(item, 'reasoning', at, part?.text, emit),
        )
        return writer.encrypted(item, vendorItem.encrypted_content, emit)
      case 'web_search_call':
        if (vendorItem.action?.type === 'search') {
          this.#searches++
          this.#search(item, emit)
        } else if (item.isSearch) {
          item.isSearch = false
          emit({ choices: [], searches: -1 })
        }
        return
      case 'function_call':
      case 'custom_tool_call': {
        if (item.call === undefined) {
          // A call that was cut cannot be run.
          if (status === 'incomplete') return
          writer.call(item, vendorItem, emit)
        }
        if (item.done) return
        const [kind, text] =
          type === 'function_call'
            ? (['arguments', vendorItem.arguments] as const)
            : (['input', vendorItem.input] as const)
        writer.complete(item, kind, 0, text, emit)
        // Without any text it may still stand in the terminal event.
        if (item.part(kind, 0).written !== '' && status !== 'incomplete') writer.done(item, emit)
      }
    }
  }

  /** Tells of a search, once. */
  #search(item: OutputItem, emit: Emit): void {
    if (item.isSearch) return
    item.isSearch = true
    emit({ choices: [], searches: 1 })
  }

  #completeContent(item: OutputItem, at: number, part: any, emit: Emit): void {
    const writer = this.#writer
    if (part?.type === 'refusal') writer.complete(item, 'refusal', at, part.refusal, emit)
    if (part?.type !== 'output_text') return
    writer.complete(item, 'text', at, part.text, emit, part.logprobs)
    const missing = listOf(part.annotations).slice(item.part('text', at).annotations)
    writer.annotate(item, at, missing, emit)
  }

  #finish(response: any, type: string, emit: Emit): void {
    this.#completeAll(listOf(response.output).filter(isObject), emit)
    if (this.#phase) emit(toChunk({ phase: this.#phase }))
    const { status, incomplete_details: cut } = response
    const isCut = type === 'response.incomplete' || status === 'incomplete'
    const reason = cut?.reason === 'content_filter' ? 'content_filter' : 'length'
    this.#end(isCut ? reason : 'stop', response, emit)
  }

  /**
   * Completes the items of the terminal event. A whole answer, and a stream of a server that sends nothing else, have
   * them there only. What follows an item has gone out already: of other items than the last only calls are continued.
   */
  #completeAll(items: readonly any[], emit: Emit): void {
    const all = [...this.#items.values()]
    const last = all.at(-1)
    const partners = this.#partnersOf(items, all)
    items.forEach((vendorItem, i) => {
      const item = partners[i]
      const mayGoOn =
        item?.isCall || (item === last && (!item?.done || vendorItem.type === 'message'))
      if (item && mayGoOn) this.#complete(item, vendorItem, emit)
    })
    items.forEach((vendorItem, i) => {
      if (!partners[i]) this.#done(-1 - i, vendorItem, emit)
    })
  }

  /** The item that each of the terminal event completes. Places do not tell: servers drop some from the list. */
  #partnersOf(items: readonly any[], all: readonly OutputItem[]): (OutputItem | undefined)[] {
    const free = new Set(all)
    const take = (fits: (item: OutputItem) => boolean) => {
      const match = [...free].find(fits)
      if (match) free.delete(match)
      return match
    }
    const same = items.map(({ type, id, call_id }) =>
      take((item) => {
        if (item.type !== type) return false
        return item.callId === undefined || !item.isCall ? item.id === id : item.callId === call_id
      }),
    )
    return same.map((match, i) => {
      const { type, call_id } = items[i]
      return match ?? take((item) => item.type === type && !(item.callId && call_id))
    })
  }

  /** The finish reason, which for calls the gateway derives from them, then usage. */
  #end(reason: string, { service_tier, usage }: any, emit: Emit): void {
    this.ended = true
    const finish: ChatChunk = { choices: [{ index: 0, delta: {}, finish_reason: reason }] }
    if (service_tier) finish.service_tier = service_tier
    emit(finish)
    const counts = toUsage(usage)
    if (counts && this.#searches > 0) counts.searches = this.#searches
    emit(counts ? { choices: [], usage: counts } : { choices: [], endOfStream: true })
  }

  /**
   * Reads an error. An `error` may be followed by `response.failed`, which is the same failure, with its usage.
   * @param response the failed response; undefined where it may still come
   */
  #refuse(reported: unknown, response: any, emit: Emit): void {
    const refusal = (this.#refusal ??= refusalOf(this.#profile.fail, reported))
    // Nothing is charged before the first output: another deployment can still be tried.
    if (!this.#begun) {
      this.#profile.onRefusal(refusal)
      throw refusal.error
    }
    this.failure = refusal.error
    if (response) this.#conclude(refusal, response, emit)
  }

  #conclude({ failure, error }: Refusal, response: any, emit: Emit): void {
    if (failure === 'content_blocked') return this.#end('content_filter', response, emit)
    const usage = toUsage(response.usage)
    if (usage) emit({ choices: [], usage })
    throw error
  }
}

/** Whether an item is a search of the web, as far as it tells: what it does is known when it is done, at the latest. */
function isSearch({ type, action }: any): boolean {
  return type === 'web_search_call' && (action?.type ?? 'search') === 'search'
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null
}

function listOf(value: unknown): readonly any[] {
  return Array.isArray(value) ? value : []
}

// Failures that the Responses API reports inside of an answer.

/** Codes that mean something else inside of an answer than with an error status, or are only known here. */
const BY_CODE: ReadonlyMap<string, FailureClass> = new Map([
  ['slow_down', 'upstream_rate'],
  ['invalid_encrypted_content', 'bad_request'],
  ['server_error', 'upstream_error'],
  ['vector_store_timeout', 'upstream_error'],
  // The client's image cannot be used: every deployment would say so.
  ['empty_image_file', 'bad_request'],
  ['failed_to_download_image', 'bad_request'],
  ['image_file_too_large', 'bad_request'],
  ['image_parse_error', 'bad_request'],
  ['image_too_large', 'bad_request'],
  ['image_too_small', 'bad_request'],
  ['invalid_base64_image', 'bad_request'],
  ['invalid_image', 'bad_request'],
  ['invalid_image_format', 'bad_request'],
  ['invalid_image_mode', 'bad_request'],
  ['invalid_image_url', 'bad_request'],
  ['unsupported_image_media_type', 'bad_request'],
])

/** An error that was read, and the failure for it. */
interface Refusal extends Failed {
  readonly problem: Problem
}

/**
 * The failure for an error inside of an answer.
 * @param reported the event `error` in either of its forms, or the `error` of a failed response, which may be missing
 */
function refusalOf(fail: Host['fail'], reported: unknown): Refusal {
  const problem = problemOf(reported ?? {})
  return { problem, ...toFailure(fail, problem, problem.status, {}, BY_CODE) }
}

// Usage of the Responses API in OpenAI's chat form.

/** The counts of an answer; undefined for no usage, or for zero tokens, which servers report that do not count. */
function toUsage(reported: any): OpenAIUsage | undefined {
  if (typeof reported !== 'object' || reported === null) return undefined
  const prompt = tokenCount(reported.input_tokens)
  const completion = tokenCount(reported.output_tokens)
  if (prompt === 0 && completion === 0) return undefined
  const read = reported.input_tokens_details ?? {}
  const written = reported.output_tokens_details ?? {}
  const cost = vendorCost(reported)
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    prompt_tokens_details: {
      cached_tokens: partOf(read.cached_tokens, prompt),
      cache_write_tokens: partOf(read.cache_write_tokens),
    },
    completion_tokens_details: {
      reasoning_tokens: partOf(written.reasoning_tokens, completion),
    },
    ...(cost !== undefined && { vendor_cost: cost }),
  }
}

// Writes the parts of an answer as chat chunks: counts calls and blocks of reasoning, separates messages, moves citations.

/** Receives a chunk. */
type Emit = (chunk: ChatChunk) => void

/** What a part of an item is. */
type PartKind = 'text' | 'refusal' | 'summary' | 'reasoning' | 'arguments' | 'input'

/** A part of an item while it arrives. */
interface Part {
  /** What was emitted, without a separator. */
  written: string
  /** Annotations that were emitted. */
  annotations: number
  /** Where its text begins in the whole text, in code points. */
  start: number
  /** Index of its entry in `reasoning_details`. */
  block: number
}

/** An item of the output while it arrives. */
class OutputItem {
  readonly type: string
  readonly id: string | null
  /** Index of the call; undefined until it was emitted. */
  call: number | undefined = undefined
  /** The vendor's id of the call. */
  callId: string | undefined = undefined
  /** The vendor has ended it. */
  done = false
  /** It was sent as a search. */
  isSearch = false
  readonly #parts = new Map<string, Part>()

  constructor(type: string, id: string | null) {
    this.type = type
    this.id = id
  }

  get isCall(): boolean {
    return this.type === 'function_call' || this.type === 'custom_tool_call'
  }

  /** @param at number of the part among its kind */
  part(kind: PartKind, at: number): Part {
    const key = `${kind} ${at}`
    let part = this.#parts.get(key)
    if (!part) this.#parts.set(key, (part = { written: '', annotations: 0, start: 0, block: 0 }))
    return part
  }
}

/** Writes one answer. */
class AnswerWriter {
  readonly #format: Format
  /** The message whose text was emitted last. */
  #speaking: OutputItem | undefined
  #points = 0
  #calls = 0
  #blocks = 0
  #hasReasoning = false

  /** @param format marks reasoning of this vendor */
  constructor(format: Format) {
    this.#format = format
  }

  /** Writes a piece of a part. Its call, if it is one of a call, has been opened. */
  write(
    item: OutputItem,
    kind: PartKind,
    at: number,
    text: string,
    emit: Emit,
    logprobs?: unknown,
  ) {
    if (text === '') return
    const part = item.part(kind, at)
    const isFirst = part.written === ''
    part.written += text
    switch (kind) {
      case 'text':
        return this.#say(item, part, isFirst, text, logprobs, emit)
      case 'refusal':
        return emit(toChunk({ refusal: text }))
      case 'summary':
      case 'reasoning':
        return this.#think(item, part, isFirst, kind, text, emit)
      case 'arguments':
        return emit(toChunk({ tool_calls: [{ index: item.call!, function: { arguments: text } }] }))
      case 'input':
        return emit(toChunk({ tool_calls: [{ index: item.call!, custom: { input: text } }] }))
    }
  }

  /** Writes the rest of a part whose whole text is known. */
  complete(
    item: OutputItem,
    kind: PartKind,
    at: number,
    whole: unknown,
    emit: Emit,
    logprobs?: unknown,
  ) {
    if (typeof whole !== 'string') return
    const { written } = item.part(kind, at)
    // A text that differs from what was emitted cannot be continued.
    if (whole.startsWith(written)) {
      this.write(item, kind, at, whole.slice(written.length), emit, logprobs)
    }
  }

  /** Opens a call. */
  call(item: OutputItem, { call_id, id, name }: any, emit: Emit): void {
    const index = this.#calls++
    item.call = index
    const call = { index, id: call_id ?? id }
    emit(
      toChunk({
        tool_calls: [
          item.type === 'custom_tool_call'
            ? { ...call, type: 'custom', custom: { name, input: '' } }
            : { ...call, type: 'function', function: { name, arguments: '' } },
        ],
      }),
    )
  }

  /** Ends a call that was opened. */
  done(item: OutputItem, emit: Emit): void {
    item.done = true
    emit(toChunk({ tool_calls: [{ index: item.call!, done: true }] }))
  }

  /** Writes the encrypted content of reasoning as an entry of its own. */
  encrypted({ id }: OutputItem, data: unknown, emit: Emit): void {
    if (typeof data !== 'string' || data === '') return
    const entry = { id, format: this.#format, index: this.#blocks++ }
    emit(toChunk({ reasoning_details: [{ type: 'reasoning.encrypted', data, ...entry }] }))
  }

  /**
   * Writes citations, with their places in the whole text.
   * @param first number of the first one in its part; by default the next
   */
  annotate(item: OutputItem, at: number, list: readonly any[], emit: Emit, first?: number): void {
    const part = item.part('text', at)
    part.annotations = Math.max(part.annotations, (first ?? part.annotations) + list.length)
    const annotations = toAnnotations(list).map((one: any) => ({
      ...one,
      url_citation: {
        ...one.url_citation,
        start_index: one.url_citation.start_index + part.start,
        end_index: one.url_citation.end_index + part.start,
      },
    }))
    if (annotations.length > 0) emit(toChunk({ annotations }))
  }

  #say(
    item: OutputItem,
    part: Part,
    isFirst: boolean,
    text: string,
    logprobs: unknown,
    emit: Emit,
  ): void {
    const separator = this.#speaking && this.#speaking !== item ? SEPARATOR : ''
    this.#speaking = item
    if (isFirst) part.start = this.#points + separator.length
    this.#points += separator.length + codePointsIn(text)
    const chunk = toChunk({ content: separator + text })
    const tokens = toLogprobs(logprobs)
    if (tokens) chunk.choices[0]!.logprobs = tokens
    emit(chunk)
  }

  #think(
    { id }: OutputItem,
    part: Part,
    isFirst: boolean,
    kind: 'summary' | 'reasoning',
    text: string,
    emit: Emit,
  ): void {
    if (isFirst) part.block = this.#blocks++
    const shown = isFirst && this.#hasReasoning ? SEPARATOR + text : text
    this.#hasReasoning = true
    const entry = { id, format: this.#format, index: part.block }
    const detail =
      kind === 'summary'
        ? ({ type: 'reasoning.summary', summary: shown, ...entry } as const)
        : ({ type: 'reasoning.text', text: shown, ...entry } as const)
    emit(toChunk({ reasoning: shown, reasoning_details: [detail] }))
  }
}

/** A chunk of the only choice. */
function toChunk(delta: ChatDelta): ChatChunk {
  return { choices: [{ index: 0, delta }] }
}

/** Log probabilities in the form of chat completions. */
function toLogprobs(tokens: unknown): { content: object[] } | undefined {
  if (!Array.isArray(tokens) || tokens.length === 0) return undefined
  const toToken = ({ token = '', logprob = 0, bytes = null }: any) => ({ token, logprob, bytes })
  const listOf = (value: unknown) => (Array.isArray(value) ? value.map(Object) : [])
  const content = listOf(tokens).map((one: any) => ({
    ...toToken(one),
    top_logprobs: listOf(one.top_logprobs).map(toToken),
  }))
  return { content }
}

/** Second halves of pairs are not counted, so a pair may be cut between two pieces. */
function codePointsIn(text: string): number {
  let points = 0
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit < 0xdc00 || unit > 0xdfff) points++
  }
  return points
}
