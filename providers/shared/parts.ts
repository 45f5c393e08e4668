/** Parts of messages that a vendor does not take. */
import type { ChatMessage, Host } from '../../src/plugin.ts'

/**
 * Refuses images, files and sound in a message that may have only texts.
 * @param path of the message, for the error
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
