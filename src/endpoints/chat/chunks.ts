/** Chat answers as one completion and as chunks, and the way from each to the other. */
import type { ChatChunk, ChatCompletion } from '../../plugin.ts'

/** A whole completion as one chunk; normalization makes several of it. */
export function toChunk(completion: ChatCompletion): ChatChunk {
  const choices = completion.choices.map(
    ({ index, message, finish_reason, stop_sequence, logprobs }, position) => ({
      index: index ?? position,
      delta: Array.isArray(message?.tool_calls)
        ? { ...message, tool_calls: message.tool_calls.map(indexed) }
        : (message ?? {}),
      finish_reason,
      stop_sequence,
      logprobs,
    }),
  )
  return { ...completion, choices, endOfStream: true }
}

/** Text members that chunks continue. Of all other members the last value counts. */
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

/** Builds a completion of the chunks of one answer: of `toChunk(c)` again `c`, for any completion in normal form. */
export class CompletionBuilder {
  readonly #choices: Choice[] = []
  #envelope: Record<string, unknown> = {}
  #usage: ChatCompletion['usage']

  add({ choices, usage, endOfStream: _end, receipt: _receipt, ...envelope }: ChatChunk): void {
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

  completion(): ChatCompletion {
    const choices = this.#choices.filter(Boolean)
    for (const { message } of choices) {
      if (message.tool_calls) message.tool_calls = message.tool_calls.map(unindexed)
      const isSilent = message.tool_calls || message.function_call || message.refusal
      // The empty content of the role chunk counts only in an answer without anything else.
      if (message.content === '' && isSilent) message.content = null
    }
    return { ...this.#envelope, choices, usage: this.#usage }
  }
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

/** Merges objects by member, lists by `index`. */
function merge(target: any, source: any): void {
  // Of a `for … in` here V8 discards the compiled code again and again: 4 % of a request.
  for (const [name, value] of Object.entries<any>(source)) {
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

/** A deep copy: later chunks change what is merged, and must not change the chunks themselves. */
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
