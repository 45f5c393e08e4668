/** Reads the answer of a judge model. Only a complete answer to this question is accepted. */
import type { ChatCompletion } from '../../../src/plugin.ts'
import { InvalidAnswer } from './judge-model.ts'

/** What a valid answer contains. */
interface Expected {
  readonly nonce: string
  /** Ids of the passages. */
  readonly ids: readonly string[]
  /** Keys of the rules. */
  readonly keys: readonly string[]
}

/** Score per rule, from 0 to 1. */
type Scores = Readonly<Record<string, number>>

/**
 * The scores of every passage.
 * @throws InvalidAnswer unless the nonce is repeated and every pair of passage and rule occurs exactly once, with
 *   nothing else
 */
export function readAnswer(
  completion: ChatCompletion,
  { nonce, ids, keys }: Expected,
): ReadonlyMap<string, Scores> {
  const answer = jsonOf(completion)
  assertMembers(answer, ['nonce', 'verdicts'])
  if (answer.nonce !== nonce) throw new InvalidAnswer('the number is not that of the question')
  if (!Array.isArray(answer.verdicts) || answer.verdicts.length !== ids.length) {
    throw new InvalidAnswer('there is not one verdict for each passage')
  }
  const scoresById = new Map<string, Scores>()
  for (const verdict of answer.verdicts) {
    assertMembers(verdict, ['passage', ...keys])
    const { passage, ...scores } = verdict
    if (typeof passage !== 'string' || !ids.includes(passage) || scoresById.has(passage)) {
      throw new InvalidAnswer('a passage is unknown, or there twice')
    }
    if (!Object.values(scores).every(isScore)) throw new InvalidAnswer('a score is not from 0 to 1')
    scoresById.set(passage, scores as Scores)
  }
  return scoresById
}

/**
 * The JSON object of an answer: the arguments of a tool call, the whole text, or the last object in the text.
 * @throws InvalidAnswer when there is none
 */
export function jsonOf({ choices }: ChatCompletion): Record<string, unknown> {
  const { message } = choices[0] ?? {}
  const call = message?.tool_calls?.[0]?.function?.arguments
  const text: unknown = call ?? message?.content
  if (typeof text !== 'string') throw new InvalidAnswer('the model said nothing')
  const value = parsed(text) ?? parsed(lastObjectIn(text) ?? '')
  if (!value) throw new InvalidAnswer('there is no JSON object')
  return value
}

/** The last complete object in a text, with balanced braces. */
function lastObjectIn(text: string): string | undefined {
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

function assertMembers(
  value: unknown,
  members: readonly string[],
): asserts value is Record<string, unknown> {
  const names = isObject(value) ? Object.keys(value) : []
  const complete = members.every((name) => names.includes(name))
  if (!complete || names.length !== members.length) {
    throw new InvalidAnswer('members are missing, or there are others')
  }
}

function isScore(value: unknown): boolean {
  return typeof value === 'number' && value >= 0 && value <= 1
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
