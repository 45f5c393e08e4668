/** The texts of a chat that are masked for vendors, and the texts of its answer in which values are put back. */
import { isUtf8 } from 'node:buffer'
import type { ChangeTexts, Masking } from '../../masking/masking.ts'
import type { Restorer } from '../../masking/restore.ts'
import type { Call, MaskedTexts } from '../../pipeline/pipeline.ts'
import type { ChatChunkChoice, ChatDelta, ChatMessage, ReasoningDetail } from '../../plugin.ts'
import type { ChainStep } from '../../stream/chain.ts'
import { mapStrings } from '../shared/texts.ts'
import type { AnswerChunk } from './billing.ts'
import { wantsJson } from './guard.ts'
import type { ChatRequest } from './request.ts'

/** What a completion has beside a chat. */
interface Completion {
  readonly completion: { readonly suffix?: string; readonly n: number; readonly logprobs?: number }
}

const DATA_URL = /^data:([^;,]*)(?:;[^;,]*)*?,/i
const BASE64_ENDS = /;base64,$/i

type Change = (value: any) => unknown
/** How members are changed, by name; `null` for one that is left as it is. */
type Members = Readonly<Record<string, Change | null>>

/** A copy with changed members; the object itself where none changes. @param other changes members without an entry */
function mapMembers<Whole extends object>(whole: Whole, members: Members, other: Change): Whole {
  let changed: Record<string, unknown> | undefined
  for (const [name, value] of Object.entries(whole)) {
    const change = Object.hasOwn(members, name) ? members[name] : other
    const made = change && value !== undefined && value !== null ? change(value) : value
    if (made !== value) (changed ??= {})[name] = made
  }
  return changed ? { ...whole, ...changed } : whole
}

function mapList<Item>(list: readonly Item[], change: (item: Item) => unknown): readonly Item[] {
  const made = list.map((item) => change(item) as Item)
  return made.every((item, index) => item === list[index]) ? list : made
}

const GATEWAYS =
  'model messages policy stream stream_options provider models route transforms labels web_search_tool'
const OF_GATEWAY = Object.fromEntries(GATEWAYS.split(' ').map((name) => [name, null]))
const ASIDE = {
  ...OF_GATEWAY,
  tool_choice: null,
  function_call: null,
  logit_bias: null,
  completion: null,
}

/** @param change gets texts that a model reads as one, in the order of the request */
function mapChat(input: ChatRequest, change: ChangeTexts): ChatRequest {
  const one = (text: string) => change([text], 'plain')[0]!
  const all: Change = (value) => mapStrings(value, one)
  const schema: Change = (value) => mapStrings(value, one, isNameList)
  const named: Change = (value) =>
    typeof value === 'object' ? mapMembers(value, { name: null, type: null }, schema) : value
  const tool: Change = (value) =>
    mapMembers(value, { name: null, type: null, function: named, custom: named }, schema)
  const mapped = mapMembers(
    input,
    {
      ...ASIDE,
      tools: (tools) => mapList(tools, tool),
      functions: (functions) => mapList(functions, named),
      response_format: (format) => mapMembers(format, { type: null, json_schema: named }, schema),
    },
    all,
  )
  const messages = mapList(input.messages, (message) => mapMessage(message, change))
  // Texts of the client's own form go nowhere.
  return { ...mapped, messages, ...(input.labels && { labels: undefined }) } as ChatRequest
}

/** Names of members stay, and so do references to them. */
function isNameList(name: string, value: unknown): boolean {
  return (
    (name === '$ref' && typeof value === 'string') || (name === 'required' && Array.isArray(value))
  )
}

function mapMessage(message: ChatMessage, change: ChangeTexts): ChatMessage {
  const one = (text: string) => change([text], 'plain')[0]!
  const all: Change = (value) => mapStrings(value, one)
  const isResult = message.role === 'tool' || message.role === 'function'
  const call: Change = (value) => mapCall(value, change)
  return mapMembers(
    message,
    {
      role: null,
      tool_call_id: null,
      // Names of people are words without brackets.
      name: message.role === 'function' ? null : (name) => one(name).replaceAll(/[[\]]/g, ''),
      content: (content) =>
        typeof content === 'string'
          ? change([content], isResult ? 'json' : 'plain')[0]
          : mapParts(content, change, isResult),
      tool_calls: (calls) => mapList(calls, call),
      function_call: (fn) => mapMembers(fn, ofFunction(change), all),
      reasoning_details: (details) =>
        mapList(details, (detail: any) =>
          mapMembers(
            detail,
            { type: null, id: null, format: null, signature: null, data: null },
            all,
          ),
        ),
    },
    all,
  )
}

function ofFunction(change: ChangeTexts): Members {
  return { name: null, arguments: (json) => change([json], 'json')[0] }
}

function mapCall(call: any, change: ChangeTexts): any {
  const one = (text: string) => change([text], 'plain')[0]!
  const all: Change = (value) => mapStrings(value, one)
  return mapMembers(
    call,
    {
      id: null,
      type: null,
      function: (fn) => mapMembers(fn, ofFunction(change), all),
      custom: (tool) => mapMembers(tool, { name: null }, all),
    },
    all,
  )
}

/** Text parts that stand side by side are one text for a model. */
function mapParts(parts: readonly any[], change: ChangeTexts, isResult: boolean): readonly any[] {
  const isText = ({ type }: any) => type === 'text' || type === 'refusal'
  const texts = parts.filter(isText).map((part) => part[part.type] as string)
  const changed = texts.length === 0 ? [] : change(texts, isResult ? 'json' : 'plain')
  const one = (text: string) => change([text], 'plain')[0]!
  const all: Change = (value) => mapStrings(value, one)
  let next = 0
  return mapList(parts, (part) => {
    const { type } = part
    if (isText(part)) return mapMembers(part, { type: null, [type]: () => changed[next++] }, all)
    if (type === 'file' && typeof part.file === 'object') return mapFile(part, change)
    return type === 'image_url' || type === 'input_audio'
      ? part
      : mapMembers(part, { type: null }, all)
  })
}

/** Files of text are masked and encoded again; of others the name. */
function mapFile(part: any, change: ChangeTexts): any {
  const encode = (data: string) => {
    const file = textOfFile(data)
    const masked = file && change([file.text], 'json')[0]!
    return file && masked !== file.text ? file.head + Buffer.from(masked!).toString('base64') : data
  }
  const members = { filename: (name: string) => change([name], 'plain')[0], file_data: encode }
  return { ...part, file: mapMembers(part.file, members, (value) => value) }
}

/** The text of a file, and what stands before it as base64; undefined for a file of another kind, and for an address. */
function textOfFile(data: string): { readonly head: string; readonly text: string } | undefined {
  if (/^https?:/i.test(data.slice(0, 6))) return undefined
  const [head = '', type = ''] = DATA_URL.exec(data.slice(0, 256)) ?? []
  const body = data.slice(head.length)
  const isBase64 = head === '' || BASE64_ENDS.test(head)
  const bytes = isBase64 ? Buffer.from(body, 'base64') : Buffer.from(unescaped(body))
  const isPlain = isUtf8(bytes) && !bytes.includes(0) && !bytes.subarray(0, 5).equals(PDF)
  if (!isPlain && !/^text\//i.test(type)) return undefined
  return { head: isBase64 ? head : head.replace(/,$/, ';base64,'), text: bytes.toString() }
}

const PDF = Buffer.from('%PDF-')

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

export const chatMask: MaskedTexts<ChatRequest, AnswerChunk> = {
  map: mapChat,
  restoring(call, masking, input) {
    // They spell out the names, and say nothing about the values.
    const { completion } = input as Partial<Completion>
    masking.removesLogprobs = input.logprobs === true || completion?.logprobs !== undefined
    return new RestoreChat(call, masking, wantsJson(input))
  },
}

/** The texts of a completion, whose suffix is one of them. */
export const completionsMask: MaskedTexts<ChatRequest & Completion, AnswerChunk> = {
  ...chatMask,
  map(input, change) {
    const { suffix } = input.completion
    const mapped = mapChat(input, change) as typeof input
    if (!suffix) return mapped
    const completion = { ...input.completion, suffix: change([suffix], 'plain')[0]! }
    return { ...mapped, completion }
  },
}

/** A text of an answer, with the delta that releases more of it. */
interface Growing {
  readonly restorer: Restorer
  delta(text: string): ChatDelta
}

/** Puts values back into the chunks of an answer. Only texts change; what is held is at most the longest name. */
class RestoreChat implements ChainStep<AnswerChunk, AnswerChunk> {
  readonly #call: Call
  readonly #masking: Masking
  readonly #isJson: boolean
  /** The texts of each choice that may hold something back. */
  readonly #choices = new Map<number, Map<string, Growing>>()
  #head: AnswerChunk['head']

  constructor(call: Call, masking: Masking, isJson: boolean) {
    this.#call = call
    this.#masking = masking
    this.#isJson = isJson
  }

  push(chunk: AnswerChunk, emit: (chunk: AnswerChunk) => void): void {
    this.#head = chunk.head
    const choices = chunk.choices.map((choice) => this.#choice(choice, emit))
    emit({ ...chunk, choices })
  }

  end(emit: (chunk: AnswerChunk) => void): void {
    for (const index of this.#choices.keys()) this.#flush(index, [], emit)
  }

  #choice(choice: ChatChunkChoice, emit: (chunk: AnswerChunk) => void): ChatChunkChoice {
    const { index = 0, delta, finish_reason, logprobs } = choice
    const grown = delta ? this.#delta(index, delta, emit) : delta
    if (finish_reason) {
      this.#restoreStop()
      // A whole answer has its end in the part that has its text.
      const rest = this.#take(index, [])
      const last = rest.reduce<ChatDelta | undefined>(joined, grown ?? undefined)
      return { ...choice, ...(last && { delta: last }), ...(logprobs && { logprobs: null }) }
    }
    return { ...choice, ...(delta && { delta: grown! }), ...(logprobs && { logprobs: null }) }
  }

  #delta(index: number, delta: ChatDelta, emit: (chunk: AnswerChunk) => void): ChatDelta {
    const changed: Record<string, unknown> = {}
    const going = new Set<string>()
    const grow = (
      name: string,
      form: 'plain' | 'json' | 'exact',
      text: string,
      more: Growing['delta'],
    ) => {
      going.add(name)
      return this.#growing(index, name, form, more).restorer.push(text)
    }
    const {
      content,
      refusal,
      reasoning,
      reasoning_details,
      tool_calls,
      function_call,
      annotations,
    } = delta
    const form = this.#isJson ? 'json' : 'plain'
    if (content) changed.content = grow('content', form, content, (text) => ({ content: text }))
    if (refusal) changed.refusal = grow('refusal', 'plain', refusal, (text) => ({ refusal: text }))
    if (reasoning) {
      changed.reasoning = grow('reasoning', 'exact', reasoning, (text) => ({ reasoning: text }))
    }
    if (reasoning_details) {
      changed.reasoning_details = reasoning_details.map((detail) =>
        this.#detail(index, detail, grow),
      )
    }
    if (tool_calls) {
      for (const { index: call = 0 } of tool_calls) going.add(`call ${call}`).add(`custom ${call}`)
      changed.tool_calls = tool_calls.map((call) => this.#toolCall(call, grow))
    }
    if (function_call) {
      going.add('function_call')
      const { arguments: args } = function_call as { arguments?: string }
      const written =
        args &&
        grow('function_call', 'json', args, (text) => ({ function_call: { arguments: text } }))
      changed.function_call = { ...function_call, ...(args && { arguments: written }) }
    }
    if (annotations) changed.annotations = annotations.map((one: any) => this.#annotation(one))
    // What another text held back comes before this one.
    if (going.size > 0) this.#flush(index, [...going], emit)
    return { ...delta, ...changed }
  }

  #detail(index: number, detail: ReasoningDetail, grow: Grow): ReasoningDetail {
    const { index: block = 0, type } = detail
    for (const name of ['text', 'summary'] as const) {
      const text = detail[name]
      if (!text) continue
      const key = `detail ${block} ${name}`
      const more = (rest: string) =>
        ({ reasoning_details: [{ type, index: block, [name]: rest }] }) as ChatDelta
      const written = grow(key, 'exact', text, more)
      // The signature of a block follows all of its text.
      const rest = detail.signature ? this.#choices.get(index)!.get(key)!.restorer.end() : ''
      return { ...detail, [name]: written + rest }
    }
    if (!detail.signature) return detail
    const rest = this.#choices.get(index)?.get(`detail ${block} text`)?.restorer.end()
    return rest ? { ...detail, text: rest } : detail
  }

  #toolCall(call: any, grow: Grow): any {
    const { index = 0 } = call
    const args = call.function?.arguments
    const input = call.custom?.input
    const deltaWith = (member: object) =>
      ({ tool_calls: [{ index, ...member }] }) as unknown as ChatDelta
    if (args) {
      const more = (text: string) => deltaWith({ function: { arguments: text } })
      return {
        ...call,
        function: { ...call.function, arguments: grow(`call ${index}`, 'json', args, more) },
      }
    }
    if (!input) return call
    const more = (text: string) => deltaWith({ custom: { input: text } })
    return {
      ...call,
      custom: { ...call.custom, input: grow(`custom ${index}`, 'plain', input, more) },
    }
  }

  #annotation(annotation: any): any {
    const restored = mapStrings(annotation, (text) => this.#masking.restore(text)) as any
    const cited = restored?.url_citation
    if (typeof cited !== 'object' || this.#masking.restoredCount === 0) return restored
    // Its indexes count characters of the text before values were put back.
    const indexes = {
      ...('start_index' in cited && { start_index: 0 }),
      ...('end_index' in cited && { end_index: 0 }),
    }
    return { ...restored, url_citation: { ...cited, ...indexes } }
  }

  #growing(
    index: number,
    name: string,
    form: 'plain' | 'json' | 'exact',
    delta: Growing['delta'],
  ): Growing {
    let texts = this.#choices.get(index)
    if (!texts) this.#choices.set(index, (texts = new Map()))
    let growing = texts.get(name)
    if (!growing) texts.set(name, (growing = { restorer: this.#masking.restorer(form), delta }))
    return growing
  }

  /** Ends the texts of a choice, but for some. */
  #take(index: number, but: readonly string[]): ChatDelta[] {
    const texts = this.#choices.get(index)
    if (!texts) return []
    const deltas: ChatDelta[] = []
    for (const [name, { restorer, delta }] of texts) {
      if (but.includes(name)) continue
      const rest = restorer.end()
      if (rest) deltas.push(delta(rest))
      texts.delete(name)
    }
    return deltas
  }

  #flush(index: number, but: readonly string[], emit: (chunk: AnswerChunk) => void): void {
    for (const delta of this.#take(index, but)) {
      const choices = [{ index, delta, logprobs: null, finish_reason: null }]
      emit(this.#head ? { head: this.#head, choices } : { choices })
    }
  }

  #restoreStop(): void {
    const answer = this.#call.answer.state as { stopSequence?: string | undefined } | undefined
    if (answer?.stopSequence) answer.stopSequence = this.#masking.restore(answer.stopSequence)
  }
}

type Grow = (
  name: string,
  form: 'plain' | 'json' | 'exact',
  text: string,
  more: Growing['delta'],
) => string

/** A delta with the rest of a text at its end. */
function joined(delta: ChatDelta | undefined, rest: ChatDelta): ChatDelta {
  if (!delta) return rest
  const { tool_calls, function_call, reasoning_details, ...texts } = rest as Record<string, any>
  const whole: Record<string, any> = { ...delta }
  for (const [name, text] of Object.entries(texts)) whole[name] = (whole[name] ?? '') + text
  if (reasoning_details)
    whole.reasoning_details = [...(whole.reasoning_details ?? []), ...reasoning_details]
  if (function_call) {
    const args = (whole.function_call?.arguments ?? '') + function_call.arguments
    whole.function_call = { ...whole.function_call, arguments: args }
  }
  for (const call of tool_calls ?? []) {
    const calls: any[] = whole.tool_calls ?? []
    const existing = calls.find((one) => one.index === call.index)
    const [member] = Object.keys(call).filter((name) => name !== 'index') as [string]
    const [text] = Object.keys(call[member]) as [string]
    const grown = existing && {
      ...existing,
      [member]: {
        ...existing[member],
        [text]: (existing[member]?.[text] ?? '') + call[member][text],
      },
    }
    whole.tool_calls = existing
      ? calls.map((one) => (one === existing ? grown : one))
      : [...calls, call]
  }
  return whole as ChatDelta
}
