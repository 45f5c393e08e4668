/** Chat answers as one completion and as chunks, and the way from each to the other. */
import type { ChatChunk, ChatChunkChoice, ChatCompletion, ChatDelta } from '../../plugin.ts'
import type { AnswerChunk, AnswerHead } from './billing.ts'

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
  message: any
  logprobs: any
  finish_reason: any
  isShared: boolean
}

/** The chunks of one answer as one completion: `collect([toChunk(c)])` equals `c`, in normal form. */
export function collect(chunks: readonly AnswerChunk[]): ChatCompletion {
  const choices: Choice[] = []
  let head: AnswerHead | undefined
  for (const chunk of chunks) {
    head = chunk.head ?? head
    for (const choice of chunk.choices) add(choices, choice, true)
  }
  return {
    ...head,
    choices: choices.filter(Boolean).map(({ index, message, logprobs, finish_reason }) => {
      return { index, message: messageOf(message), logprobs, finish_reason }
    }),
  }
}

/** The chunks of a whole answer in as few as possible: the content of each choice in one, then its finish. */
export function joined(chunks: readonly AnswerChunk[]): readonly AnswerChunk[] {
  const choices: Choice[] = []
  for (const { choices: added } of chunks) for (const choice of added) add(choices, choice, false)
  const { head } = chunks.at(-1)!
  const part = (index: number, delta: any, logprobs: unknown, finish_reason: string | null) => {
    return { head, choices: [{ index, delta, logprobs, finish_reason }] }
  }
  return [
    ...choices.map(({ index, message, logprobs }) => part(index, message, logprobs, null)),
    ...choices.map(({ index, finish_reason }) => part(index, {}, null, finish_reason)),
  ]
}

/** @param isShared whether the deltas belong to others, and are not changed */
function add(
  choices: Choice[],
  { index = 0, delta, logprobs, finish_reason }: ChatChunkChoice,
  isShared: boolean,
): void {
  const choice = choices[index]
  if (!choice) {
    const message = delta ?? {}
    choices[index] = { index, message, logprobs: logprobs ?? null, finish_reason, isShared }
    return
  }
  if (delta) for (const _name in delta) return extend(choice, delta, logprobs, finish_reason)
  if (finish_reason) choice.finish_reason = finish_reason
}

function extend(choice: Choice, delta: ChatDelta, logprobs: any, finish_reason: any): void {
  if (choice.isShared) {
    choice.message = copy(choice.message)
    choice.isShared = false
  }
  merge(choice.message, delta)
  if (logprobs) choice.logprobs = concatenate(choice.logprobs, logprobs)
  if (finish_reason) choice.finish_reason = finish_reason
}

/** A message as a completion has it: calls have no index, and the content of an answer without text is null. */
function messageOf(message: any): any {
  const { role = 'assistant', content = null, refusal = null, tool_calls, ...rest } = message
  const isSilent = tool_calls || message.function_call || refusal
  return {
    role,
    // The empty content of the role chunk counts only in an answer without anything else.
    content: content === '' && isSilent ? null : content,
    refusal,
    ...rest,
    ...(tool_calls && { tool_calls: tool_calls.map(unindexed) }),
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

function merge(target: any, source: any): void {
  // V8 discards the compiled code of a `for … in` here again and again: 4 % of a request.
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

/** Defines an own property, even one with the name `__proto__`. */
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
