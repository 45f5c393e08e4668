/**
 * The answer to a chat: brings what a provider gives into normal form and counts it, in one pass. Vendors differ in roles, tool
 * indexes and finish reasons; the normal form is what every client library can read. No clock, no socket, no money.
 */
import { brokenAnswer } from '../../errors/errors.ts'
import {
  isObject,
  anything,
  integer,
  list,
  object,
  passing,
  problem,
  text,
  variant,
  type Check,
} from '../../errors/checks.ts'
import type { UpstreamFailure } from '../../errors/errors.ts'
import { type UsageReport, readCount } from '../../money/plausible.ts'
import type { ProviderAnswer } from '../../pipeline/pipeline.ts'
import type {
  ChatChunk,
  ChatChunkChoice,
  ChatCompletion,
  ChatDelta,
  OpenAIUsage,
  ReasoningDetail,
  ToolCallDelta,
  Usage,
} from '../../plugin.ts'
import type { ChainStep } from '../../stream/chain.ts'
import { Received } from '../shared/billing.ts'
import {
  CHARACTERS_PER_TOKEN,
  ChatUsage,
  type AnswerChunk,
  type AnswerHead,
  type AskedChat,
} from './billing.ts'
import { joined, toChunk } from './chunks.ts'
import { lastSignature } from './conversation.ts'

// What a provider may put into a delta; members of another type would break the libraries of clients.

const called = object({ name: text })
/** A call is found by its index, which some vendors write as a text. */
const index: Check = (value) =>
  typeof value === 'object' ? problem('invalid_type', 'a number', 'an object') : undefined
const call = object({
  index,
  id: text,
  type: text,
  function: called,
  custom: called,
})

const delta = object({
  content: text,
  refusal: text,
  reasoning: text,
  reasoning_content: text,
  reasoning_details: list(object({})),
  tool_calls: list(call),
  function_call: called,
  annotations: anything,
})

const place = { id: text, format: text, index: integer(0, Number.MAX_SAFE_INTEGER) }
const detail = variant('type', {
  'reasoning.text': object({ ...place, text, signature: text }),
  'reasoning.summary': object({ ...place, summary: text }, ['summary']),
  'reasoning.encrypted': object({ ...place, data: text }, ['data']),
})

/** Clients make links of these URLs: `javascript:` must not be one. */
const page: Check = (value) =>
  typeof value === 'string' && /^https?:$/.test(URL.parse(value)?.protocol ?? '')
    ? undefined
    : problem('invalid_value', 'the http(s) address of a page', 'another value')
const offset = integer(0, Number.MAX_SAFE_INTEGER)
const citation = object(
  { url: page, title: text, start_index: offset, end_index: offset, content: text },
  ['url', 'title', 'start_index', 'end_index'],
)
const annotation = variant('type', {
  url_citation: object({ url_citation: citation }, ['url_citation']),
})

function wellFormed(message: ChatDelta): ChatDelta {
  const mistake = delta(message)
  if (mistake) {
    const at = mistake.path === '' ? '' : ` (${mistake.path})`
    throw brokenAnswer(`The model provider sent a malformed part of an answer${at}.`)
  }
  const { reasoning_details: details, annotations } = message
  const readable = Array.isArray(details) ? passing(details, detail) : details
  const cited = Array.isArray(annotations)
    ? passing(annotations, annotation).map(withoutNull)
    : undefined
  if (readable === details && cited === annotations) return message
  return { ...message, reasoning_details: readable, annotations: cited }
}

/** An excerpt is text or absent. */
function withoutNull(citation: any): unknown {
  const { content, ...rest } = citation.url_citation
  return content === null ? { ...citation, url_citation: rest } : citation
}

/** What all chunks of an answer share, and options of the request. */
export interface Envelope extends AnswerHead {
  /** The vendor is asked in the client's own form: what it sends goes out as it is. */
  readonly native: boolean
  /** Whether the client gets chunks: those of an answer that came whole are then as of a stream. */
  readonly stream: boolean
  readonly logprobs: boolean
  /** The client sent `functions`: its answer has `function_call`. */
  readonly legacyFunctions: boolean
  /** If it is false, reasoning is left out. */
  readonly reasoning: boolean
  readonly newCallId: () => string
  /** It is called with the tokens written so far, by estimate. Absent where no hold grows. */
  readonly grow?: ((tokens: number) => void) | undefined
}

const MAX_CHOICES = 128
const MAX_TOOL_CALLS = 128

/**
 * The state of one answer. Its chunks come out in order: first role chunks, then text, reasoning and tool calls, not
 * interleaved, and at the very end one finish chunk per choice.
 */
export class ChatAnswer implements ProviderAnswer<AnswerChunk>, ChainStep<ChatChunk, AnswerChunk> {
  readonly steps = [this]
  /** Quantities of the prompt that the vendor reports before the answer ends. */
  promptUsage: Usage | undefined = undefined
  /** Indexes of blocks of reasoning that the vendor has left without a signature. */
  readonly unsigned = new Set<number>()
  stopSequence: string | undefined = undefined
  readonly #envelope: Envelope
  readonly #usage: ChatUsage
  readonly #wanted: number
  readonly #choices: ChoiceState[] = []
  readonly #received = new Received()
  readonly #finished = new Set<number>()
  #head: AnswerHead
  #signature: string | undefined = undefined
  /** All choices have finished, and a usage that counts came with the last of them or later. */
  #complete = false
  /** The vendor has marked the end: no later report counts. */
  #marked = false
  /** The answer is whole: the end was marked, or its usage has come. */
  #ended = false
  #nativeEnd = false
  #nativeCalls = false
  #emitTo: (chunk: AnswerChunk) => void = () => {}

  constructor(envelope: Envelope, request: AskedChat = UNKNOWN) {
    const { id, created, model } = envelope
    this.#envelope = envelope
    this.#head = { id, created, model }
    this.#usage = new ChatUsage(request)
    this.#wanted = request.choices
  }

  usage(): UsageReport {
    return this.#usage.report()
  }

  received(): number {
    return this.#received.amount
  }

  complete(): boolean {
    return this.#complete
  }

  affinityToken(): string | undefined {
    return this.#signature
  }

  /** @throws UpstreamFailure for an error of the vendor, or what no client could read */
  push(chunk: ChatChunk, emit: (chunk: AnswerChunk) => void): void {
    this.#emitTo = emit
    const { usage, choices } = chunk
    if (usage) this.#note(usage, chunk.usageIsPartial === true)
    if (chunk.usageIsRunning) this.#usage.isRunning = true
    if (chunk.searches) this.#usage.searches += readInteger(chunk.searches)
    if (chunk.searchBytes) this.#usage.resultBytes += readCount(chunk.searchBytes) ?? 0
    if (chunk.endOfStream) this.#marked = this.#ended = true
    if (chunk.error || choices?.[0]?.finish_reason === 'error') {
      throw brokenAnswer('The model provider reported an error in its stream.')
    }
    this.#noteHead(chunk)
    if (!Array.isArray(choices)) return this.#received.add(0)
    const before = this.#usage.characters
    for (let i = 0; i < choices.length; i++) this.#read(choiceOf(choices[i]), i)
    if (usage && usage === this.#usage.reported && !this.#usage.isPartial) {
      this.#complete ||= this.#finished.size >= this.#wanted
    }
    const { characters } = this.#usage
    this.#received.add(characters - before || (hasContent(chunk) ? 1 : 0))
    this.#envelope.grow?.(characters / CHARACTERS_PER_TOKEN)
    if (this.#envelope.native) this.#pass(chunk)
  }

  /** @throws UpstreamFailure when the stream was cut: no finish reason, no usage, no mark of the end */
  end(emit: (chunk: AnswerChunk) => void): void {
    this.#emitTo = emit
    if (this.#envelope.native) {
      if (!this.#nativeEnd) throw closedEarly()
      return
    }
    if (!this.#ended && !(this.#choices.length > 0 && this.#choices.every((c) => c.finishReason))) {
      throw closedEarly()
    }
    if (this.#choices.length === 0) throw brokenAnswer('The model provider sent no answer.')
    for (const choice of this.#choices) choice.flush()
    for (const choice of this.#choices) this.#emit(choice.index, {}, null, choice.reason())
  }

  /** The chunks of a whole answer: for each choice one with its content, then for each one with its finish reason. */
  whole(completion: ChatCompletion): readonly AnswerChunk[] {
    const chunks: AnswerChunk[] = []
    const take = (chunk: AnswerChunk) => void chunks.push(chunk)
    this.push(toChunk(completion), take)
    this.end(take)
    const { native, stream } = this.#envelope
    return native || stream ? chunks : joined(chunks)
  }

  #read(
    {
      index: choiceIndex,
      delta: wireDelta,
      finish_reason,
      stop_sequence,
      logprobs,
    }: ChatChunkChoice,
    i: number,
  ): void {
    const index = choiceIndex ?? i
    const usage = this.#usage
    // Checked before it is counted: what is malformed has no characters.
    const delta: ChatDelta | null | undefined =
      !wireDelta || this.#envelope.native || isText(wireDelta) ? wireDelta : wellFormed(wireDelta)
    if (finish_reason) this.#finished.add(index)
    if (delta) {
      usage.add(delta)
      if (delta.reasoning_details) {
        this.#signature = lastSignature(delta.reasoning_details) ?? this.#signature
      }
    }
    if (this.#envelope.native) return
    const choice = this.#open(index)
    if (finish_reason) choice.finishReason ??= finish_reason
    if (delta) choice.push(delta, logprobs)
    if (typeof stop_sequence === 'string') this.stopSequence = stop_sequence
  }

  #note(usage: OpenAIUsage, isPartial: boolean): void {
    if (!isPartial) this.#ended = true
    if (this.#marked || !this.#usage.note(usage, isPartial)) return
    if (isPartial) this.promptUsage = promptUsageOf(usage)
  }

  #noteHead({ system_fingerprint, service_tier }: ChatChunk): void {
    const head = this.#head
    if (
      typeof system_fingerprint === 'string' &&
      system_fingerprint &&
      system_fingerprint !== head.system_fingerprint
    ) {
      this.#head = { ...this.#head, system_fingerprint }
    }
    if (typeof service_tier === 'string' && service_tier !== head.service_tier) {
      this.#head = { ...this.#head, service_tier }
    }
  }

  /**
   * Passes a chunk of a vendor that speaks the client's own form. Exactly one has a finish reason, the last; an end
   * without a reason is the natural one, as in translated answers.
   */
  #pass(chunk: ChatChunk): void {
    this.#nativeCalls ||= chunk.choices.some(({ delta }) => delta?.tool_calls?.length)
    const [choice] = chunk.choices
    const reasonless = chunk.endOfStream && choice && !choice.finish_reason
    const finish_reason = this.#nativeCalls ? 'tool_calls' : 'stop'
    const passed = reasonless ? { ...chunk, choices: [{ ...choice, finish_reason }] } : chunk
    if (passed.choices[0]?.finish_reason) this.#nativeEnd = true
    if (passed.native || passed.choices.length > 0) this.#emitTo(passed)
  }

  /** Opens choices in ascending order, as OpenAI's clients expect: a first chunk for choice 2 opens 0 and 1 too. */
  #open(index: number): ChoiceState {
    // Checked first: an index such as "__proto__" would find what is no choice.
    if (!Number.isInteger(index) || index < 0 || index >= MAX_CHOICES) {
      throw brokenAnswer('The model provider sent a choice with an impossible index.')
    }
    const existing = this.#choices[index]
    if (existing) return existing
    for (let i = this.#choices.length; i <= index; i++) {
      this.#choices.push(
        new ChoiceState(i, this.#envelope, this.unsigned, (delta, logprobs) =>
          this.#emit(i, delta, logprobs, null),
        ),
      )
      this.#emit(i, { role: 'assistant', content: '', refusal: null }, null, null)
    }
    return this.#choices[index]!
  }

  #emit(index: number, delta: ChatDelta, logprobs: unknown, finish_reason: string | null): void {
    this.#emitTo({ head: this.#head, choices: [{ index, delta, logprobs, finish_reason }] })
  }
}

/** Stands where the request is not known, so that the usage is not compared. */
const UNKNOWN: AskedChat = {
  prompt: { tokens: 1, imageTokens: 0, soundTokens: 0, media: 0 },
  promptBytes: 0,
  maySearch: true,
  ceiling: undefined,
  choices: 1,
  capped: false,
  hidden: undefined,
  model: { contextLength: undefined, maxOutputTokens: undefined },
}

/** The failure of a call between whose parts something went out: half a call must not pass for a whole one. */
export function interruptedCall(): UpstreamFailure {
  return brokenAnswer('The model provider continued a tool call after its end.')
}

function closedEarly(): UpstreamFailure {
  return brokenAnswer('The model provider closed the stream early.')
}

/** A whole number of a plugin; 0 for anything else. */
function readInteger(value: unknown): number {
  return Number.isSafeInteger(value) ? (value as number) : 0
}

/** Whether a chunk without text is more than a keep-alive. */
function hasContent({ choices, usage, endOfStream }: ChatChunk): boolean {
  if (usage || endOfStream) return true
  return choices.some(({ delta, finish_reason }) => {
    for (const name in delta) if (name !== 'role' && delta[name]) return true
    return Boolean(finish_reason)
  })
}

interface ToolCall {
  /** It is counted when its first part goes out. */
  index: number | undefined
  readonly id: string
  readonly type: 'function' | 'custom'
  name: string
  readonly text: SurrogateJoiner
  pending: string
  /** All arguments so far, where the vendor gave no id: then they tell where the next call begins. */
  args: string | undefined
  bare: boolean
  /** All its parts have come. */
  done: boolean
}

/** What waits until a call is complete. */
interface Waiting {
  readonly delta: ChatDelta
  readonly logprobs: unknown
}

const KNOWN = new Set([
  'role',
  'content',
  'refusal',
  'reasoning',
  'reasoning_content',
  'reasoning_details',
  'tool_calls',
  'function_call',
  'annotations',
])

/** Finish reasons of vendors; unknown ones mean `stop`. */
const FINISH_REASONS: ReadonlyMap<string, string> = new Map([
  ['length', 'length'],
  ['max_tokens', 'length'],
  ['model_length', 'length'],
  ['content_filter', 'content_filter'],
])

type Emit = (delta: ChatDelta, logprobs: unknown) => void

class ChoiceState {
  readonly index: number
  finishReason: string | undefined = undefined
  readonly #envelope: Envelope
  readonly #unsignedBlocks: Set<number>
  readonly #emit: Emit
  readonly #content = new SurrogateJoiner()
  readonly #refusal = new SurrogateJoiner()
  /** Text of each reasoning block, by its index; most answers have none. */
  #blocks: Map<number, SurrogateJoiner> | undefined = undefined
  readonly #calls: ToolCall[] = []
  #sent = 0
  /**
   * Calls that are not complete, and what came after the first of them, in order. Nothing goes out between the parts
   * of a call: clients take what interrupts it for its end.
   */
  readonly #queue: (ToolCall | Waiting)[] = []
  #callsByKey: Map<string, ToolCall> | undefined = undefined
  readonly #annotations: unknown[] = []
  #annotated = false
  #unsigned: number | undefined = undefined

  /** @param unsigned gets the index of a block of reasoning when the vendor goes on after it without a signature */
  constructor(index: number, envelope: Envelope, unsigned: Set<number>, emit: Emit) {
    this.index = index
    this.#envelope = envelope
    this.#unsignedBlocks = unsigned
    this.#emit = emit
  }

  push(delta: ChatDelta, logprobs: any): void {
    const tokens = this.#envelope.logprobs && logprobs ? tokensOf(logprobs) : null
    if (isText(delta) && !tokens) {
      if (delta.content) this.#leaveReasoning()
      const text = this.#content.take(delta.content)
      if (text) this.#out({ content: text }, null)
      return
    }
    const reasoning = delta.reasoning || delta.reasoning_content
    if (this.#envelope.reasoning && (reasoning || delta.reasoning_details?.length)) {
      this.#reason(reasoning as string | undefined, delta.reasoning_details ?? [])
    }
    if (delta.content || delta.tool_calls?.length) this.#leaveReasoning()
    const text = delta.content ? this.#content.take(delta.content) : ''
    const extras = extrasOf(delta)
    if (text || tokens) this.#out({ content: text, ...extras }, tokens)
    else if (extras) this.#out(extras, null)
    if (delta.refusal) this.#say({ refusal: this.#refusal.take(delta.refusal) })
    if (delta.tool_calls) for (const call of delta.tool_calls) this.#call(call)
    const legacy = delta.function_call as ToolCallDelta['function'] | null
    if (legacy) this.#call({ index: 0, function: legacy })
    if (Array.isArray(delta.annotations)) {
      this.#annotated = true
      this.#annotations.push(...delta.annotations)
    }
  }

  flush(): void {
    this.#say({ content: this.#content.rest() })
    this.#say({ refusal: this.#refusal.rest() })
    const isCut = this.#isCut
    for (const call of this.#calls) {
      // A call that was cut cannot be run: it is dropped where nothing of it has gone out.
      const isLost = isCut && !call.done && call.index === undefined && !this.#isWhole(call)
      if (isLost) this.#queue.splice(this.#queue.indexOf(call), 1)
      call.done = true
    }
    this.#advance()
    // Vendors send an empty list out of habit; it does not mean a search without results.
    if (this.#annotated && this.#annotations.length > 0) {
      this.#emit({ content: '', annotations: this.#annotations }, null)
    }
  }

  reason(): string {
    const mapped = FINISH_REASONS.get(this.finishReason ?? '') ?? 'stop'
    if (mapped !== 'stop' || this.#calls.length === 0) return mapped
    return this.#envelope.legacyFunctions ? 'function_call' : 'tool_calls'
  }

  #say(delta: { content: string } | { refusal: string }): void {
    if (Object.values(delta)[0]) this.#out(delta, null)
  }

  get #isCut(): boolean {
    return FINISH_REASONS.has(this.finishReason ?? '')
  }

  /** Emits a delta, or keeps it while a call is open. */
  #out(delta: ChatDelta, logprobs: unknown): void {
    const queue = this.#queue
    const [first] = queue
    if (!first || (queue.length === 1 && 'id' in first && first.index === undefined)) {
      return this.#emit(delta, logprobs)
    }
    const last = queue.at(-1)!
    if ('delta' in last && isText(last.delta) && isText(delta) && !last.logprobs && !logprobs) {
      const content = last.delta.content + delta.content
      queue[queue.length - 1] = { delta: { content }, logprobs: null }
    } else queue.push({ delta, logprobs })
  }

  /** Emits what need not wait any more. */
  #advance(): void {
    for (let first = this.#queue[0]; first; first = this.#queue[0]) {
      if ('delta' in first) {
        const { delta, logprobs } = first
        const isBlank = isText(delta) && !logprobs && delta.content.trim() === ''
        if (!isBlank) this.#emit(delta, logprobs)
      } else {
        if (!first.bare) this.#begin(first)
        if (!first.done) return
        this.#complete(first)
      }
      this.#queue.shift()
    }
  }

  /** Sends what has come of a call. Of one that arrives with the cut it is not known whether it is whole. */
  #begin(call: ToolCall): void {
    if (call.name && !(this.#isCut && call.index === undefined && !call.done)) this.#send(call)
  }

  #complete(call: ToolCall): void {
    call.pending += call.text.rest()
    if (!call.name) throw brokenAnswer('The model provider sent a tool call without a name.')
    // Clients parse arguments as JSON; vendors send nothing for an empty object.
    if (call.bare && call.type === 'function' && !this.#isCut) call.pending = '{}'
    this.#send(call)
  }

  /** Whether all of a call has come, as far as its text tells, of which nothing has gone out. */
  #isWhole(call: ToolCall): boolean {
    return call.type === 'custom' ? call !== this.#calls.at(-1) : isWhole(call.pending)
  }

  #leaveReasoning(): void {
    if (this.#unsigned === undefined) return
    this.#unsignedBlocks.add(this.#unsigned)
    this.#unsigned = undefined
  }

  /** `reasoning` and `reasoning_details` have the same text; the missing one is made from the other. */
  #reason(text: string | undefined, details: readonly ReasoningDetail[]): void {
    const all = details.length > 0 ? details : [{ type: 'reasoning.text', text, index: 0 } as const]
    const entries: ReasoningDetail[] = []
    let visible = ''
    all.forEach((detail, position) => {
      const { id, format, index: place, ...rest } = detail
      const index = place ?? position
      const blocks = (this.#blocks ??= new Map())
      const existing = blocks.get(index)
      const block = existing ?? new SurrogateJoiner()
      if (!existing) blocks.set(index, block)
      const entry: Record<string, unknown> = { ...rest }
      if (typeof detail.text === 'string') visible += entry.text = block.take(detail.text)
      else if (typeof detail.summary === 'string')
        visible += entry.summary = block.take(detail.summary)
      // Once per block: client libraries concatenate repeated strings.
      if (!existing) Object.assign(entry, { id: id ?? null, format: format ?? 'unknown' })
      entries.push({ ...entry, index } as ReasoningDetail)
      if (index !== this.#unsigned) this.#leaveReasoning()
      this.#unsigned = detail.signature ? undefined : index
    })
    const delta: ChatDelta = { content: '' }
    if (visible) delta.reasoning = visible
    delta.reasoning_details = entries
    this.#out(delta, null)
  }

  #call(fragment: ToolCallDelta): void {
    const part: { name?: string | null; arguments?: unknown; input?: unknown } | undefined =
      fragment.function ?? fragment.custom
    const [first] = this.#queue
    const before = first && 'id' in first ? first.name : undefined
    const text = part?.arguments ?? part?.input
    const call = this.#callOf(fragment, part?.name ?? '', text)
    // A name may go on in the next fragment.
    if (first && 'id' in first && first.name === before) this.#begin(first)
    if (text) {
      if (call.done) throw interruptedCall()
      const rest = call.text.take(typeof text === 'string' ? text : JSON.stringify(text))
      call.pending += rest
      if (call.args !== undefined) call.args += rest
      call.bare = false
    }
    if (fragment.done === true) call.done = true
    this.#advance()
  }

  /** Finds or makes the call of a fragment. Vendors omit indexes, start them above 0, or use one twice. */
  #callOf(fragment: ToolCallDelta, name: string, text: unknown): ToolCall {
    const id = fragment.id || undefined
    const slot =
      fragment.index === undefined || fragment.index === null ? undefined : `#${fragment.index}`
    const byKey = (this.#callsByKey ??= new Map())
    const existing =
      (id && byKey.get(id)) ?? (slot ? byKey.get(slot) : id ? undefined : this.#calls.at(-1))
    if (existing && slot && goesOn(existing, id)) {
      // Some vendors send a name in pieces, others repeat what they have sent of it.
      existing.name = name.startsWith(existing.name) ? name : existing.name + name
      return existing
    }
    if (existing && !isAnother(existing, id, name) && !isRepeated(existing, name, text)) {
      existing.name ||= name
      return existing
    }
    if (this.#calls.length >= MAX_TOOL_CALLS) {
      throw brokenAnswer('The model provider sent too many tool calls.')
    }
    const call: ToolCall = {
      index: undefined,
      id: id ?? this.#envelope.newCallId(),
      type: fragment.custom || fragment.type === 'custom' ? 'custom' : 'function',
      name,
      text: new SurrogateJoiner(),
      pending: '',
      args: id === undefined ? '' : undefined,
      bare: true,
      done: false,
    }
    this.#calls.push(call)
    this.#queue.push(call)
    if (id) byKey.set(id, call)
    if (slot) byKey.set(slot, call)
    return call
  }

  #send(call: ToolCall): void {
    const opened = call.index !== undefined
    if (opened && !call.pending) return
    const index = (call.index ??= this.#sent++)
    const { id, type, name, pending } = call
    call.pending = ''
    if (this.#envelope.legacyFunctions) {
      const part = opened ? { arguments: pending } : { name, arguments: pending }
      if (index === 0) this.#emit({ function_call: part }, null)
      return
    }
    const body = type === 'custom' ? { input: pending } : { arguments: pending }
    const part = { [type]: opened ? body : { name, ...body } }
    this.#emit({ tool_calls: [opened ? { index, ...part } : { index, id, type, ...part }] }, null)
  }
}

/** Joins text, and retains half a surrogate pair until the other half arrives. */
class SurrogateJoiner {
  #held = ''

  take(text: string): string {
    const whole = this.#held + text
    if (!endsInHalf(whole)) {
      this.#held = ''
      return whole
    }
    this.#held = whole.slice(-1)
    return whole.slice(0, -1)
  }

  rest(): string {
    const held = this.#held
    this.#held = ''
    return held && '\ufffd'
  }
}

function endsInHalf(text: string): boolean {
  const last = text.charCodeAt(text.length - 1)
  return last >= 0xd800 && last <= 0xdbff
}

/** Whether the name of a call may continue in a fragment under its index: nothing but the name has come. */
function goesOn(call: ToolCall, id: string | undefined): boolean {
  return call.bare && call.index === undefined && (!id || id === call.id)
}

/** Whether a fragment begins a new call. A new name under a known index does; a repeated one does not. */
function isAnother(call: ToolCall, id: string | undefined, name: string): boolean {
  if (!name || !call.name) return false
  return id ? id !== call.id : name !== call.name
}

/** Whether a fragment calls the same tool once more: without an id, only complete arguments before others tell. */
function isRepeated({ name: begun, args }: ToolCall, name: string, text: unknown): boolean {
  if (name === '' || name !== begun || args === undefined) return false
  const begins = typeof text === 'string' ? /^\s*\{/.test(text) : isObject(text)
  return begins && isWhole(args)
}

function isWhole(text: string): boolean {
  try {
    return isObject(JSON.parse(text))
  } catch {
    return false
  }
}

function isText(delta: ChatDelta): delta is { content: string } {
  for (const name in delta) if (name !== 'content') return false
  return typeof delta.content === 'string'
}

/** @throws UpstreamFailure for what is no choice */
function choiceOf(choice: unknown): ChatChunk['choices'][number] {
  if (isObject(choice)) return choice as unknown as ChatChunk['choices'][number]
  throw brokenAnswer('The model provider sent a malformed choice.')
}

function extrasOf(delta: ChatDelta): ChatDelta | undefined {
  let extras: ChatDelta | undefined
  for (const name in delta) {
    if (KNOWN.has(name) || delta[name] === null || delta[name] === undefined) continue
    extras ??= {}
    extras[name] = delta[name]
  }
  return extras
}

function tokensOf(logprobs: any): object {
  return { content: tokenList(logprobs.content), refusal: tokenList(logprobs.refusal) }
}

/** The tokens of a list that clients can read; null for no list. */
function tokenList(value: unknown): object[] | null {
  if (!Array.isArray(value)) return null
  return value.filter(isToken).map((token) => {
    const { top_logprobs: others } = token
    if (others === undefined || (Array.isArray(others) && others.every(isToken))) return token
    return { ...token, top_logprobs: Array.isArray(others) ? others.filter(isToken) : [] }
  })
}

function isToken(value: unknown): value is Record<string, unknown> {
  return isObject(value) && typeof value.token === 'string'
}

function promptUsageOf({ prompt_tokens, prompt_tokens_details: details }: OpenAIUsage): Usage {
  return {
    promptTokens: readCount(prompt_tokens) ?? 0,
    cachedTokens: readCount(details?.cached_tokens) ?? 0,
    cacheWriteTokens: readCount(details?.cache_write_tokens) ?? 0,
    cacheWrite1hTokens: readCount(details?.cache_write_1h_tokens) ?? 0,
  }
}
