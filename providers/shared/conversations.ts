/** Texts that stand for what is missing in a conversation, where a vendor requires it. */

import type { ChatMessage, Host, ReasoningDetail } from '../../src/plugin.ts'

/** The result of a call that was never answered. */
export const NO_RESULT = '(no result)'
/** The user's turn of a conversation that does not begin with one. */
export const OPENING = '(The conversation begins.)'
/** A message of the user, or a result, without text. */
export const EMPTY = '(empty)'
/** The first line of a result that a tool could not give, where a vendor has no member for it. */
export const FAILED = '(the tool failed)'
/** What the assistant says between the results of its calls and the next message. */
export const RESULTS_ARE_IN = '(The results are in.)'

// Parts of messages that a vendor does not take.

/**
 * Refuses images, files and sound in a message that may have only texts.
 * @param path the path of the message, for the error
 * @throws the failure class `bad_request`
 */
export function requireTexts(
  { role, content }: ChatMessage,
  path: string,
  fail: Host['fail'],
): void {
  if (!Array.isArray(content)) return
  const other = content.findIndex(({ type }) => type !== 'text' && type !== 'refusal')
  if (other < 0) return
  const param = `${path}.content[${other}]`
  const message = `Expected text at ${param}: this model takes only text in messages of the ${role}.`
  throw fail('bad_request', message, { code: 'unsupported_value', param })
}

/**
 * Reasoning of earlier turns that vendors know by its format. A server that takes its own back where it stood has marked its
 * entries, whatever format it claims.
 */
export function thoughtsOf({ reasoning_details }: ChatMessage): readonly ReasoningDetail[] {
  const details: readonly ReasoningDetail[] = reasoning_details ?? []
  return details.some(isMarked) ? details.filter((one) => !isMarked(one)) : details
}

function isMarked({ id }: ReasoningDetail): boolean {
  return typeof id === 'string' && id.startsWith('up:')
}
