/** What guards read of chat, how chunks are split into texts, and the form of a refusal. */
import { randomId } from '../../state/ids.ts'
import type {
  FragmentPiece,
  GuardAdapter,
  OutputCodec,
  OutputPiece,
  TextPiece,
  AtomicPiece,
  RefusedTurn,
} from '../../guard/adapter.ts'
import type { ChatChunkChoice, ChatDelta, ReasoningDetail, ChatInput } from '../../plugin.ts'
import type { AnswerChunk, AnswerHead } from './billing.ts'
import type { ChatRequest } from './request.ts'
import { isOpaque, stringsIn, stringsInJson } from '../shared/texts.ts'
import { chatTexts } from './guard-input.ts'

const WITHHELD = '[withheld]'

/** A copy of the outbound request without the text of refused turns: only roles and call ids are left of them. */
export function withhold(outbound: ChatInput, turns: readonly RefusedTurn[]): ChatInput {
  if (turns.length === 0) return outbound
  const messages = [...outbound.messages]
  for (const turn of turns) {
    for (const place of turn.messages) {
      const index = messages.length + place
      const { role, tool_call_id, name } = messages[index]!
      messages[index] = {
        role,
        ...(role === 'tool' ? { tool_call_id } : {}),
        // An answer to a legacy function call has to name it.
        ...(role === 'function' ? { name } : {}),
        content: WITHHELD,
      }
    }
  }
  return { ...outbound, messages }
}

export const guardAdapter: GuardAdapter<ChatRequest, AnswerChunk> = {
  inputTexts: chatTexts,
  withhold,
  choices: (input) => input.n ?? 1,
  outputCodec: () => new ChatCodec(),

  refusalParts({ text, choice, sample: like, opened, hasText }, input, model) {
    const head = like ? like.head && withoutNotes(like.head) : newHead(model)
    const part = (delta: ChatDelta, finish: string | null = null) =>
      only(head, choice, delta, finish)
    const parts = opened ? [] : [part({ role: 'assistant', content: '', refusal: null })]
    if (wantsJson(input)) parts.push(part({ refusal: text }))
    else if (input.stream) parts.push(part({ content: hasText ? `\n\n${text}` : text }))
    else parts.push(part({ content: text, refusal: text }))
    parts.push(part({}, 'content_filter'))
    return parts
  },
}

const KNOWN = new Set([
  'role',
  'content',
  'refusal',
  'reasoning',
  'reasoning_details',
  'tool_calls',
  'function_call',
  'annotations',
])

type Removed = (field: string) => void

/** The form of vendors' ids and names of formats. Anything else may be text, which no guard reads there. */
const HANDLE = /^[\w.:=+/-]{1,256}$/

/** Members of a vendor about itself in the head of an answer: words that no guard reads. */
const NOTES = ['system_fingerprint', 'service_tier'] as const

function withoutNotes(head: AnswerHead): AnswerHead {
  const { system_fingerprint: _fingerprint, service_tier: _tier, ...shown } = head
  return shown
}

class ChatCodec implements OutputCodec<AnswerChunk> {
  readonly #blocks = new Map<number, number>()
  #head: AnswerHead | undefined
  #shownHead: AnswerHead | undefined

  split(
    chunk: AnswerChunk,
    take: (piece: OutputPiece<AnswerChunk>) => void,
    removed: Removed,
  ): void {
    const head = chunk.head && this.#shown(chunk.head, removed)
    for (const choice of chunk.choices) {
      for (const piece of this.#piecesOf(head, choice, removed)) take(piece)
    }
  }

  #shown(head: AnswerHead, removed: Removed): AnswerHead {
    for (const name of NOTES) if (typeof head[name] === 'string') removed(name)
    if (head !== this.#head) {
      this.#head = head
      this.#shownHead = withoutNotes(head)
    }
    return this.#shownHead!
  }

  cut(
    { part, channel, text, choice }: TextPiece<AnswerChunk>,
    start: number,
    end: number,
  ): AnswerChunk {
    const stretch = text.slice(start, end)
    if (channel !== 'reasoning') return only(part.head, choice, { [channel]: stretch })
    const [detail] = part.choices[0]!.delta!.reasoning_details!
    const { id, format, signature, ...rest } = detail!
    const entry = {
      ...rest,
      ...(detail!.text ? { text: stretch } : { summary: stretch }),
      // Id and format are sent at the beginning of a block, the signature at its end.
      ...(start === 0 && id !== undefined ? { id } : {}),
      ...(start === 0 && format !== undefined ? { format } : {}),
      ...(end === text.length && signature !== undefined ? { signature } : {}),
    }
    return only(part.head, choice, { content: '', reasoning: stretch, reasoning_details: [entry] })
  }

  assemble(fragments: readonly FragmentPiece<AnswerChunk>[]): AtomicPiece<AnswerChunk> {
    const { part, choice, channel, index } = fragments[0]!
    const deltas = fragments.map((fragment) => fragment.part.choices[0]!.delta!)
    const { delta, name, text, id } = deltas[0]!.function_call
      ? wholeFunction(deltas)
      : wholeCall(deltas)
    return {
      kind: 'whole',
      choice,
      channel,
      index,
      part: only(part.head, choice, delta),
      texts: [{ text: name }, { text }, { text: id, duplicate: true }, ...stringsInJson(text)],
    }
  }

  #piecesOf(
    head: AnswerHead | undefined,
    { index: choice = 0, delta, logprobs, finish_reason }: ChatChunkChoice,
    removed: Removed,
  ): OutputPiece<AnswerChunk>[] {
    const pieces: OutputPiece<AnswerChunk>[] = []
    const part = (fields: ChatDelta) => only(head, choice, fields)
    if (logprobs) removed('logprobs')
    for (const name in delta) if (!KNOWN.has(name) && delta[name] !== undefined) removed(name)
    if (delta?.role) {
      const opening = { role: delta.role, content: '', refusal: null }
      pieces.push({ kind: 'mark', choice, opens: true, part: part(opening) })
    }
    for (const detail of delta?.reasoning_details ?? []) {
      for (const entry of entriesOf(detail, removed)) {
        const piece = this.#reasoning(choice, entry, part)
        if (piece) pieces.push(piece)
        else removed('reasoning_details')
      }
    }
    for (const channel of ['content', 'refusal'] as const) {
      const text = delta?.[channel]
      if (!text) continue
      const textPart = part({ [channel]: text })
      pieces.push({ kind: 'text', choice, channel, text, textOnly: true, part: textPart })
    }
    const tool = { kind: 'fragment', choice, channel: 'tool_call' } as const
    for (const fragment of delta?.tool_calls ?? []) {
      const call = withHandle(fragment, removed)
      const size = lengthOf({ ...call.function, ...call.custom })
      pieces.push({ ...tool, index: call.index ?? 0, size, part: part({ tool_calls: [call] }) })
    }
    const legacy = delta?.function_call
    if (legacy) {
      const callPart = part({ function_call: legacy })
      pieces.push({ ...tool, index: 0, size: lengthOf(legacy), part: callPart })
    }
    if (delta?.annotations) pieces.push(annotationsPiece(choice, delta.annotations, part))
    if (finish_reason) {
      pieces.push({ kind: 'finish', choice, part: only(head, choice, {}, finish_reason) })
    }
    return pieces
  }

  /** It is undefined for text that returns to an earlier block: guards would read it in another order than it is shown. */
  #reasoning(
    choice: number,
    entry: ReasoningDetail,
    part: (fields: ChatDelta) => AnswerChunk,
  ): OutputPiece<AnswerChunk> | undefined {
    const { type, summary, index = 0 } = entry
    const text = entry.text || summary
    const emptyDelta: ChatDelta = { content: '', reasoning_details: [entry] }
    const base = { choice, channel: 'reasoning' } as const
    if (!text) {
      const lasting = type === 'reasoning.encrypted'
      return { ...base, kind: 'mark', keptWhenDropped: lasting, part: part(emptyDelta) }
    }
    if (index < (this.#blocks.get(choice) ?? 0)) return undefined
    this.#blocks.set(choice, index)
    const shown = part({ ...emptyDelta, reasoning: text })
    return { ...base, kind: 'text', droppable: true, text, part: shown }
  }
}

/** Replaces an id that no vendor makes by one of the gateway. A call begins with its id. */
function withHandle<Call extends { readonly id?: string | null }>(
  call: Call,
  removed: Removed,
): Call {
  if (typeof call.id !== 'string' || HANDLE.test(call.id)) return call
  removed('tool_calls[].id')
  return { ...call, id: randomId('call_') }
}

function lengthOf({ name, arguments: args, input }: any): number {
  return (name?.length ?? 0) + (args?.length ?? 0) + (input?.length ?? 0)
}

const CONTENT_TYPES = {
  text: 'reasoning.text',
  summary: 'reasoning.summary',
  data: 'reasoning.encrypted',
} as const
const TYPES: ReadonlySet<unknown> = new Set(Object.values(CONTENT_TYPES))
const WORDS = ['text', 'summary', 'data'] as const

/**
 * Splits a reasoning entry into entries with one content each. Unknown members, and opaque data where text belongs,
 * are left out and named to `removed`.
 */
function entriesOf(
  detail: ReasoningDetail,
  removed: (field: string) => void,
): readonly ReasoningDetail[] {
  const members: Record<string, any> = {}
  for (const [name, value] of Object.entries(detail)) {
    if (isOfDetail(name, value, detail.type)) members[name] = value
    else if (value !== null && value !== undefined) removed('reasoning_details')
  }
  const names = WORDS.filter((name) => members[name])
  if (names.length < 2 && members.type) return [members as ReasoningDetail]
  const { type: _type, text: _text, summary: _summary, data: _data, ...handles } = members
  const { index } = handles
  return names.map((name, i) => {
    // Handles are sent once: client libraries concatenate repeated strings.
    return { type: CONTENT_TYPES[name], [name]: members[name], ...(i === 0 ? handles : { index }) }
  })
}

function isOfDetail(name: string, value: unknown, type: unknown): boolean {
  switch (name) {
    case 'type':
      return TYPES.has(value)
    case 'index':
      return Number.isInteger(value)
    case 'data':
      return type === CONTENT_TYPES.data && typeof value === 'string' && isOpaque(value)
    case 'signature':
      return value === null || (typeof value === 'string' && isOpaque(value))
    case 'id':
    case 'format':
      return value === null || (typeof value === 'string' && HANDLE.test(value))
    case 'text':
    case 'summary':
      return typeof value === 'string' || value === null
    default:
      return false
  }
}

function only(
  head: AnswerHead | undefined,
  index: number,
  delta: ChatDelta,
  finish: string | null = null,
): AnswerChunk {
  const choices = [{ index, delta, logprobs: null, finish_reason: finish }]
  return head ? { head, choices } : { choices }
}

function wholeCall(deltas: readonly ChatDelta[]) {
  const calls = deltas.map((delta) => delta.tool_calls![0]!)
  const first = calls[0]!
  const name = first.function?.name ?? first.custom?.name ?? ''
  const text = calls.map((call) => call.function?.arguments ?? call.custom?.input ?? '').join('')
  const whole = first.custom
    ? { ...first, custom: { ...first.custom, input: text } }
    : { ...first, function: { ...first.function, arguments: text } }
  return { delta: { tool_calls: [whole] }, name, text, id: first.id ?? '' }
}

function wholeFunction(deltas: readonly ChatDelta[]) {
  const calls = deltas.map((delta) => delta.function_call as { name?: string; arguments?: string })
  const text = calls.map((call) => call.arguments ?? '').join('')
  const { name = '' } = calls[0]!
  return { delta: { function_call: { name, arguments: text } }, name, text, id: '' }
}

function annotationsPiece(
  choice: number,
  annotations: readonly any[],
  part: (content: ChatDelta) => AnswerChunk,
): AtomicPiece<AnswerChunk> {
  const say = (some: readonly any[]) => part({ content: '', annotations: some })
  return {
    kind: 'whole',
    choice,
    channel: 'annotation',
    index: 0,
    part: say(annotations),
    texts: annotations.flatMap((one, item) => stringsIn(one).map((text) => ({ text, item }))),
    // An empty list still says that the web was searched.
    withoutItems: (items) => say(annotations.filter((_, index) => !items.has(index))),
  }
}

function newHead(model: string): AnswerHead {
  return { id: randomId('chatcmpl-'), created: Math.floor(Date.now() / 1000), model }
}

export function wantsJson({ response_format }: ChatRequest): boolean {
  const type = (response_format as { type?: string } | null | undefined)?.type
  return type !== undefined && type !== 'text'
}
