/**
 * Chat answers, whole and in pieces: `unfold` makes a chunk of a completion, `fold` a completion of chunks. Pure.
 */
import type { Chunk, Completion } from '../plugin.ts'

/** A whole completion as one chunk that says everything at once; `conform` cuts it as a stream needs it. */
export function unfold(completion: Completion): Chunk {
  const { choices, ...rest } = completion
  return {
    ...rest,
    choices: choices.map(({ message, ...choice }, position) => ({
      ...choice,
      index: choice.index ?? position,
      delta: Array.isArray(message?.tool_calls)
        ? { ...message, tool_calls: message.tool_calls.map(indexed) }
        : (message ?? {}),
    })),
    done: true,
  }
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

/** Collects the chunks of one answer into a whole completion. The inverse of `unfold`. */
export class Fold {
  readonly #choices: { index: number; message: any; logprobs: any; finish_reason: any }[] = []
  #envelope: Record<string, unknown> = {}
  #usage: unknown = undefined

  add(chunk: Chunk): void {
    const { choices, usage, object: _object, done: _done, ...envelope } = chunk
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

  completion(): Completion {
    const { id, created, model, ...extras } = this.#envelope
    const choices = this.#choices.filter(Boolean).map(({ message, ...choice }) => {
      // The role chunk says content "": that means nothing unless it stays the only word.
      const silent = message.tool_calls || message.function_call || message.refusal
      if (message.content === '' && silent) message.content = null
      if (message.tool_calls) message.tool_calls = message.tool_calls.map(unindexed)
      return {
        index: choice.index,
        message,
        logprobs: choice.logprobs,
        finish_reason: choice.finish_reason,
      }
    })
    const object = 'chat.completion'
    return {
      id,
      object,
      created,
      model,
      ...extras,
      choices,
      usage: this.#usage as Completion['usage'],
    }
  }
}

/** `fold(unfold(c))` is `c`, for any completion in normal form. */
export function fold(chunks: Iterable<Chunk>): Completion {
  const whole = new Fold()
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
