/**
 * Tools in the form that a vendor takes. Where it has functions only, a tool of type `custom` is offered as a function with
 * one text; names that the vendor refuses are replaced. In the answer the client finds its own tools again.
 */
import { hash } from 'node:crypto'
import type {
  ChatChunk,
  ChatCompletion,
  ChatInput,
  ChatMessage,
  Flow,
  Provider,
  Step,
  ToolCallDelta,
} from '../../src/plugin.ts'

type Chat = NonNullable<Provider['chat']>

/**
 * Wraps the chat of a vendor that has functions only.
 * @param names what the vendor takes as a name of a tool; it has to take 64 letters, digits and underscores
 */
export function withFunctionsOnly(chat: Chat, names: RegExp): Chat {
  return withClientTools(chat, names, false)
}

/**
 * Wraps the chat of a vendor that may have tools of type `custom`.
 * @param names what the vendor takes as a name of a tool; it has to take 64 letters, digits and underscores
 * @param hasCustom the vendor has tools of type `custom`, so that names alone may have to change
 */
export function withClientTools(chat: Chat, names: RegExp, hasCustom: boolean): Chat {
  return (request) => {
    if (!hasTools(request.input)) return chat(request)
    const tools = new ClientTools(names, hasCustom)
    const input = tools.toFunctions(request.input)
    return input === request.input ? chat(request) : chat({ ...request, input }).then(answered)

    function answered(answer: ChatCompletion | AsyncIterable<ChatChunk>) {
      if (!(Symbol.asyncIterator in answer)) return toCompletion(answer, tools)
      const step = new ClientCalls(tools)
      return 'through' in answer
        ? (answer as Flow<ChatChunk>).through(step)
        : converted(answer, step)
    }
  }
}

/** Whether a request has tools, or calls of them. */
function hasTools({ tools, tool_choice, messages }: ChatInput): boolean {
  const isCall = ({ role, tool_calls, function_call }: ChatMessage) =>
    role === 'function' || Boolean(tool_calls ?? function_call)
  return tools !== undefined || tool_choice !== undefined || messages.some(isCall)
}

/** A request as {@link withFunctionsOnly} hands it on, where there is no answer to convert. */
export function toFunctionsOnly(input: ChatInput, names: RegExp): ChatInput {
  return new ClientTools(names, false).toFunctions(input)
}

/** The client's tools, and how the vendor knows them. */
class ClientTools {
  readonly #names: RegExp
  readonly #hasCustom: boolean
  /** The client's name of a tool, by the vendor's, where they differ. */
  readonly #clientNames = new Map<string, string>()
  /** The vendor's names of the tools that are custom. */
  readonly #custom = new Set<string>()

  constructor(names: RegExp, hasCustom: boolean) {
    this.#names = names
    this.#hasCustom = hasCustom
  }

  /** The request with functions only; the same object where nothing has to change. */
  toFunctions(input: ChatInput): ChatInput {
    const { tools, tool_choice: choice } = input
    const messages = mapped(input.messages, (message) => this.#toMessage(message))
    const functions = tools && mapped(tools, (tool) => this.#toFunction(tool))
    const chosen = this.#toChoice(choice)
    if (messages === input.messages && functions === tools && chosen === choice) return input
    return {
      ...input,
      messages,
      ...(functions && { tools: functions }),
      ...(chosen !== undefined && { tool_choice: chosen }),
    }
  }

  isCustom(vendorName: string): boolean {
    return this.#custom.has(vendorName)
  }

  toClientName(vendorName: string): string {
    return this.#clientNames.get(vendorName) ?? vendorName
  }

  #toVendorName(name: string): string {
    if (this.#names.test(name)) return name
    const plain = name.replace(/[^\w-]/g, '_').replace(/^[^a-z_]/i, '_')
    const vendorName = `${plain.slice(0, 55)}_${hash('sha256', name, 'hex').slice(0, 8)}`
    this.#clientNames.set(vendorName, name)
    return vendorName
  }

  #toFunction(tool: any): any {
    const { type } = tool
    if (type !== 'custom' || this.#hasCustom) {
      const named = tool[type] && this.#renamed(tool[type], tool[type].name)
      return named === tool[type] ? tool : { ...tool, [type]: named }
    }
    const { custom, ...others } = tool
    const name = this.#toVendorName(custom.name)
    this.#custom.add(name)
    const description = [custom.description, toWords(custom.format)].filter(Boolean).join('\n\n')
    const called = { name, ...(description && { description }), parameters: INPUT }
    return { ...others, type: 'function', function: called }
  }

  #toChoice(choice: any): any {
    const { type } = Object(choice)
    if (type === 'allowed_tools') {
      const { tools } = choice.allowed_tools
      const functions = mapped(tools as readonly any[], (tool) => this.#toNamed(tool))
      if (functions === tools) return choice
      return { ...choice, allowed_tools: { ...choice.allowed_tools, tools: functions } }
    }
    return type === 'function' || type === 'custom' ? this.#toNamed(choice) : choice
  }

  #toNamed(named: any): any {
    const clientName: string = (named.function ?? named.custom ?? named).name
    const name = this.#toVendorName(clientName)
    if (this.#hasCustom && named.type === 'custom') return { type: 'custom', custom: { name } }
    if (named.type !== 'custom' && name === clientName) return named
    return { type: 'function', function: { name } }
  }

  #toMessage(message: ChatMessage): ChatMessage {
    const { role, name, tool_calls: calls, function_call: called } = message
    if (role === 'function') return this.#renamed(message, name)
    if (role !== 'assistant') return message
    const functions = calls && mapped(calls as readonly any[], (call) => this.#toCall(call))
    const single = called && this.#renamed(called, called.name)
    if (functions === calls && single === called) return message
    return {
      ...message,
      ...(functions && { tool_calls: functions }),
      ...(single && { function_call: single }),
    }
  }

  #toCall(call: any): any {
    const { custom, ...others } = call
    if (!custom || this.#hasCustom) {
      const member = custom ? 'custom' : 'function'
      const called = this.#renamed(call[member], call[member].name)
      return called === call[member] ? call : { ...call, [member]: called }
    }
    const name = this.#toVendorName(custom.name)
    const text = JSON.stringify({ input: custom.input })
    return { ...others, type: 'function', function: { name, arguments: text } }
  }

  #renamed<T extends object>(named: T, clientName: string): T {
    const name = this.#toVendorName(clientName)
    return name === clientName ? named : { ...named, name }
  }
}

/** Parameters of a function that stands for a custom tool. */
const INPUT = {
  type: 'object',
  properties: { input: { type: 'string' } },
  required: ['input'],
  additionalProperties: false,
}

/** What the format of a custom tool says, for the model to read. */
function toWords(format: any): string {
  if (format?.type !== 'grammar') return format?.type === 'text' ? 'The input is any text.' : ''
  const { syntax, definition } = format.grammar ?? format
  return `The input has to follow this grammar (${syntax}):\n${definition}`
}

interface OpenCall {
  readonly choice: number
  readonly index: number
  readonly id: unknown
  readonly input: CustomInput
}

/** Turns calls in a stream back into the client's. */
class ClientCalls implements Step<ChatChunk, ChatChunk> {
  readonly #tools: ClientTools
  /** Custom calls by the positions of choice and call. */
  readonly #open = new Map<string, OpenCall>()

  constructor(tools: ClientTools) {
    this.#tools = tools
  }

  push(chunk: ChatChunk, emit: (chunk: ChatChunk) => void): void {
    const choices = mapped(chunk.choices, (choice) => {
      const { index: position = chunk.choices.indexOf(choice), delta, finish_reason } = choice
      const calls = delta?.tool_calls?.map((call, at) => this.#convert(position, call, at)) ?? []
      if (finish_reason) calls.push(...this.#rest(position))
      return calls.length > 0 ? { ...choice, delta: { ...delta, tool_calls: calls } } : choice
    })
    emit(choices === chunk.choices ? chunk : { ...chunk, choices: [...choices] })
  }

  end(emit: (chunk: ChatChunk) => void): void {
    for (const { choice: index } of this.#open.values()) {
      const tool_calls = this.#rest(index)
      if (tool_calls.length > 0) emit({ choices: [{ index, delta: { tool_calls } }] })
    }
  }

  #convert(choice: number, call: ToolCallDelta, at: number): ToolCallDelta {
    const { index = at, id, function: called } = call
    const key = `${choice}:${index}`
    const name = called?.name
    const existing = this.#open.get(key)
    const begins = name && (!existing || (id && existing.id && id !== existing.id))
    if (begins) {
      this.#open.delete(key)
      if (this.#tools.isCustom(name)) {
        this.#open.set(key, { choice, index, id, input: new CustomInput() })
      }
    }
    const shown = name && { name: this.#tools.toClientName(name) }
    const open = this.#open.get(key)
    if (!open) return shown ? { ...call, function: { ...called, ...shown } } : call
    const { function: _function, ...others } = call
    const read = open.input.push(called?.arguments ?? '')
    const input = call.done ? read + open.input.end() : read
    if (call.done) this.#open.delete(key)
    return { ...others, ...(call.type && { type: 'custom' }), custom: { ...shown, input } }
  }

  /** What the calls of a choice have held back. */
  #rest(choice: number): ToolCallDelta[] {
    const rest: ToolCallDelta[] = []
    for (const [key, open] of this.#open) {
      if (open.choice !== choice) continue
      this.#open.delete(key)
      const input = open.input.end()
      if (input) rest.push({ index: open.index, custom: { input } })
    }
    return rest
  }
}

async function* converted(
  answer: AsyncIterable<ChatChunk>,
  step: ClientCalls,
): AsyncGenerator<ChatChunk, void, undefined> {
  const out: ChatChunk[] = []
  const emit = (chunk: ChatChunk) => void out.push(chunk)
  for await (const chunk of answer) {
    step.push(chunk, emit)
    yield* out.splice(0)
  }
  step.end(emit)
  yield* out
}

function toCompletion(answer: ChatCompletion, tools: ClientTools): ChatCompletion {
  const choices = answer.choices.map((choice) => {
    const calls: readonly any[] | undefined = choice.message?.tool_calls
    if (!calls) return choice
    return { ...choice, message: { ...choice.message, tool_calls: calls.map(toClientCall) } }
  })
  return { ...answer, choices }

  function toClientCall(call: any): any {
    const { function: called, ...others } = call
    if (!called) return call
    const name = tools.toClientName(called.name)
    if (!tools.isCustom(called.name)) return { ...call, function: { ...called, name } }
    const reader = new CustomInput()
    const input = reader.push(called.arguments ?? '') + reader.end()
    return { ...others, type: 'custom', custom: { name, input } }
  }
}

/** The same list unless an item changes. */
function mapped<T>(items: readonly T[], change: (item: T) => T): readonly T[] {
  const next = items.map(change)
  return next.every((item, at) => item === items[at]) ? items : next
}

/** Characters within which the beginning of the arguments is recognised while they stream. */
const MAX_HEAD_CHARACTERS = 256
const HEAD = /^\s*\{\s*"input"\s*:\s*"/
const HIGH_SURROGATE = /[\ud800-\udbff]$/
const ESCAPES: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }

/**
 * Reads the string member `input` of a call's arguments, which arrive in pieces of any size. Arguments that are not an
 * object with such a member come out as they are.
 */
export class CustomInput {
  #state: 'head' | 'text' | 'rest' | 'raw' = 'head'
  /** Text that is not read yet: the beginning, or part of an escape. */
  #held = ''
  /** A high surrogate whose other half has not arrived. */
  #half = ''

  /** The next characters of the input. */
  push(piece: string): string {
    if (this.#state === 'raw') return piece
    if (this.#state === 'rest') return ''
    this.#held += piece
    if (this.#state === 'head') {
      const start = this.#held.trimStart()
      if (start !== '' && !start.startsWith('{')) return this.#giveUp()
      const head = this.#held.length - piece.length < MAX_HEAD_CHARACTERS && HEAD.exec(this.#held)
      if (!head) return ''
      this.#state = 'text'
      this.#held = this.#held.slice(head[0].length)
    }
    return this.#whole(this.#decode())
  }

  /** What was held back. */
  end(): string {
    if (this.#state === 'text') return this.#half
    if (this.#state !== 'head') return ''
    const text = this.#giveUp()
    try {
      const { input } = JSON.parse(text) as { input?: unknown }
      return typeof input === 'string' ? input : text
    } catch {
      return text
    }
  }

  #giveUp(): string {
    const text = this.#held
    this.#held = ''
    this.#state = 'raw'
    return text
  }

  #decode(): string {
    const text = this.#held
    this.#held = ''
    const special = /["\\]/g
    let decoded = ''
    for (let at = 0; ;) {
      special.lastIndex = at
      const match = special.exec(text)
      if (!match) return decoded + text.slice(at)
      decoded += text.slice(at, match.index)
      if (match[0] === '"') {
        this.#state = 'rest'
        return decoded
      }
      const escape = text.slice(match.index, match.index + (text[match.index + 1] === 'u' ? 6 : 2))
      if (escape.length < 2 || (escape[1] === 'u' && escape.length < 6)) {
        this.#held = escape
        return decoded
      }
      decoded += unescaped(escape)
      at = match.index + escape.length
    }
  }

  /** Characters that are complete: a client would not join two halves of one. */
  #whole(decoded: string): string {
    const text = this.#half + decoded
    this.#half = this.#state === 'text' ? (HIGH_SURROGATE.exec(text)?.[0] ?? '') : ''
    return this.#half ? text.slice(0, -1) : text
  }
}

/** The text of an escape. Models also write invalid ones; these stand for themselves. */
function unescaped(escape: string): string {
  const letter = escape[1]!
  if (letter !== 'u') return ESCAPES[letter] ?? letter
  const hex = escape.slice(2)
  return /^[\da-f]{4}$/i.test(hex) ? String.fromCharCode(Number.parseInt(hex, 16)) : escape
}
