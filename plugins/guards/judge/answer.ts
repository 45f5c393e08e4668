/** Reads what a judge says. Anything but a complete answer to this very question is none. */
import type { ChatCompletion } from '../../../src/plugin.ts'
import { InvalidAnswer } from './brain.ts'

export interface Expected {
  readonly nonce: string
  /** Passages. */
  readonly ids: readonly string[]
  /** Rules. */
  readonly keys: readonly string[]
}

/** By rule, 0 to 1. */
export type Marks = Readonly<Record<string, number>>

/**
 * The marks of every passage.
 * @throws InvalidAnswer unless the number is repeated and every pair of a passage and a rule is there, once, and nothing else
 */
export function readAnswer(
  completion: ChatCompletion,
  { nonce, ids, keys }: Expected,
): ReadonlyMap<string, Marks> {
  const answer = jsonOf(completion)
  hasExactly(answer, ['nonce', 'verdicts'])
  if (answer.nonce !== nonce) throw new InvalidAnswer('the number is not that of the question')
  if (!Array.isArray(answer.verdicts) || answer.verdicts.length !== ids.length) {
    throw new InvalidAnswer('there is not one verdict for each passage')
  }
  const found = new Map<string, Marks>()
  for (const verdict of answer.verdicts) {
    hasExactly(verdict, ['passage', ...keys])
    const { passage, ...marks } = verdict
    if (typeof passage !== 'string' || !ids.includes(passage) || found.has(passage)) {
      throw new InvalidAnswer('a passage is unknown, or there twice')
    }
    if (!Object.values(marks).every(isMark)) throw new InvalidAnswer('a mark is not from 0 to 1')
    found.set(passage, marks as Marks)
  }
  return found
}

/**
 * The JSON object of an answer: the arguments of a tool call, or all of its text, or the last object in that.
 * @throws InvalidAnswer when there is none
 */
export function jsonOf({ choices }: ChatCompletion): Record<string, unknown> {
  const { message } = choices[0] ?? {}
  const call = message?.tool_calls?.[0]?.function?.arguments
  const text: unknown = call ?? message?.content
  if (typeof text !== 'string') throw new InvalidAnswer('the model said nothing')
  const found = parsed(text) ?? parsed(lastObjectIn(text) ?? '')
  if (!found) throw new InvalidAnswer('there is no JSON object')
  return found
}

/** The last stretch of a text that is a complete object, braces balanced. */
export function lastObjectIn(text: string): string | undefined {
  let last: string | undefined
  let depth = 0
  let start = 0
  let quoted = false
  for (let i = 0; i < text.length; i++) {
    const sign = text[i]
    if (quoted) {
      if (sign === '\\') i++
      else if (sign === '"') quoted = false
    } else if (sign === '"') quoted = depth > 0
    else if (sign === '{') {
      if (depth++ === 0) start = i
    } else if (sign === '}' && depth > 0 && --depth === 0) last = text.slice(start, i + 1)
  }
  return last
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

function hasExactly(
  value: unknown,
  members: readonly string[],
): asserts value is Record<string, unknown> {
  const names = isObject(value) ? Object.keys(value) : []
  const complete = members.every((name) => names.includes(name))
  if (!complete || names.length !== members.length) {
    throw new InvalidAnswer('members are missing, or there are others')
  }
}

function isMark(value: unknown): boolean {
  return typeof value === 'number' && value >= 0 && value <= 1
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
