/**
 * Chat answers, whole and in pieces: `unfold` makes a chunk of a completion, `fold` a completion of chunks. Pure.
 */
import type { ChatChunk, ChatCompletion, ChatDelta } from '../../plugin.ts'

/** A whole completion as one chunk that says everything at once; `conform` cuts it as a stream needs it. */
export function toChunk(completion: ChatCompletion): ChatChunk {
  const choices = completion.choices.map(
    ({ index, message, finish_reason, logprobs }, position) => ({
      index: index ?? position,
      delta: Array.isArray(message?.tool_calls)
        ? { ...message, tool_calls: message.tool_calls.map(indexed) }
        : (message ?? {}),
      finish_reason,
      logprobs,
    }),
  )
  return { ...completion, choices, endOfStream: true }
}

/** Text fields of which each chunk says a further piece. In everything else the last word counts. */
const APPENDED = new Set([
  'content',
  'refusal',
  'reasoning',
  'arguments',
  'input',
  'text',
  'summary',
])

interface Choice {
  readonly index: number
  readonly message: any
  logprobs: any
  finish_reason: any
}

/** Collects the chunks of one answer into a whole completion. The inverse of `unfold`. */
export class CompletionBuilder {
  readonly #choices: Choice[] = []
  #envelope: Record<string, unknown> = {}
  #usage: unknown = undefined
  /** The first chunk, until there is another one: mostly it is the last one too, and says everything. */
  #first: ChatChunk | undefined = undefined
  #begun = false

  add(chunk: ChatChunk): void {
    if (!this.#begun) {
      this.#begun = true
      this.#first = chunk
      return
    }
    this.#settle()
    this.#merge(chunk)
  }

  completion(): ChatCompletion {
    const said = this.#first && refold(this.#first)
    if (said) return said
    this.#settle()
    const { id, created, model, ...extras } = this.#envelope
    const choices = this.#choices.filter(Boolean)
    for (const { message } of choices) {
      if (message.tool_calls) message.tool_calls = message.tool_calls.map(unindexed)
      quieten(message)
    }
    const object = 'chat.completion'
    return {
      id,
      object,
      created,
      model,
      ...extras,
      choices,
      usage: this.#usage as ChatCompletion['usage'],
    }
  }

  #settle(): void {
    if (!this.#first) return
    this.#merge(this.#first)
    this.#first = undefined
  }

  #merge(chunk: ChatChunk): void {
    const { choices, usage, object: _object, endOfStream: _done, ...envelope } = chunk
    this.#envelope = { ...this.#envelope, ...envelope }
    if (usage) this.#usage = usage
    for (const { index = 0, delta, logprobs, finish_reason } of choices) {
      const choice = (this.#choices[index] ??= {
        index,
        message: { role: 'assistant', content: null, refusal: null },
        logprobs: null,
        finish_reason: null,
      })
      if (delta) merge(choice.message, delta)
      if (logprobs) choice.logprobs = concatenate(choice.logprobs, logprobs)
      if (finish_reason) choice.finish_reason = finish_reason
    }
  }
}

/** The completion that one chunk says, unless something in it has to be merged with something else in it. */
function refold(chunk: ChatChunk): ChatCompletion | undefined {
  if ('endOfStream' in chunk) return undefined
  const choices: Choice[] = []
  for (let i = 0; i < chunk.choices.length; i++) {
    const { index = 0, delta, logprobs, finish_reason } = chunk.choices[i]!
    const message = index === i ? messageOf(delta ?? {}) : undefined
    if (!message) return undefined
    choices.push({
      index,
      message,
      logprobs: logprobs ? concatenate(null, logprobs) : null,
      finish_reason: finish_reason || null,
    })
  }
  return { ...chunk, object: 'chat.completion', choices, usage: chunk.usage || undefined }
}

function messageOf(delta: ChatDelta): any {
  const { role, content, refusal } = delta
  const message: Record<string, unknown> = {
    role: role ?? 'assistant',
    content: content ?? null,
    refusal: refusal ?? null,
  }
  for (const name in delta) {
    const value = delta[name]
    if (name === 'tool_calls' && isRow(value)) message.tool_calls = value.map(unindexed)
    else if (hasList(value)) return undefined
    else if (!Object.hasOwn(message, name)) define(message, name, value)
  }
  quieten(message)
  return message
}

/** The role chunk says content "": that means nothing unless it stays the only word. */
function quieten(message: any): void {
  const silent = message.tool_calls || message.function_call || message.refusal
  if (message.content === '' && silent) message.content = null
}

/** Items that are in their places, none of which has lists in it. */
function isRow(value: unknown): value is any[] {
  return Array.isArray(value) && value.every((item, i) => item?.index === i && !hasList(item))
}

/** Only lists are more than what they are made of: items of the same index are one. */
function hasList(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  return Array.isArray(value) || Object.values(value).some(hasList)
}

/** `fold(unfold(c))` is `c`, for any completion in normal form. */
export function toCompletion(chunks: Iterable<ChatChunk>): ChatCompletion {
  const whole = new CompletionBuilder()
  for (const chunk of chunks) whole.add(chunk)
  return whole.completion()
}

function indexed(call: any, index: number): any {
  return { ...call, index }
}

function unindexed({ index: _index, ...call }: any): any {
  return call
}

function concatenate(left: any, right: any): any {
  if (!left) return { ...right }
  const join = (a: any[] | null, b: any[] | null) => (a && b ? [...a, ...b] : (a ?? b))
  return { content: join(left.content, right.content), refusal: join(left.refusal, right.refusal) }
}

/** Objects and indexed lists merge by shape. */
function merge(target: any, source: any): void {
  for (const [name, value] of Object.entries(source) as [string, any][]) {
    const old = Object.hasOwn(target, name) ? target[name] : undefined
    if (value === null || value === undefined) {
      if (old === undefined) define(target, name, value)
    } else if (typeof value === 'string' && typeof old === 'string' && APPENDED.has(name)) {
      target[name] = old + value
    } else if (Array.isArray(value)) {
      define(target, name, mergeList(Array.isArray(old) ? old : [], value))
    } else if (typeof value === 'object' && old && typeof old === 'object') {
      merge(old, value)
    } else {
      define(target, name, copy(value))
    }
  }
}

function mergeList(target: any[], source: readonly any[]): any[] {
  for (const item of source) {
    const same = Number.isInteger(item?.index) && target.find((one) => one.index === item.index)
    if (same) merge(same, item)
    else target.push(copy(item))
  }
  return target
}

/** What was folded is changed by later chunks; what was handed in is not ours to change. */
function copy(value: any): any {
  if (Array.isArray(value)) return mergeList([], value)
  if (value === null || typeof value !== 'object') return value
  const fresh = {}
  merge(fresh, value)
  return fresh
}

/** An own property even when it is called `__proto__`. */
function define(target: any, name: string, value: unknown): void {
  if (name !== '__proto__') target[name] = value
  else
    Object.defineProperty(target, name, {
      value,
      writable: true,
      enumerable: true,
      configurable: true,
    })
}
