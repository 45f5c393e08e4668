/**
 * Error messages for clients: one of the gateway's own per failure class, or the vendor's message with private parts
 * removed.
 */
import type { FailureClass } from '../../src/plugin.ts'

/** One message per failure class, used when the vendor's own message is not shown. */
export const SENTENCES: Readonly<Record<FailureClass, string>> = {
  bad_request: 'The model provider refused the request.',
  context_length: 'The messages are too long for the context window of this model.',
  content_blocked: 'The content filter of the model provider blocked this request.',
  payload_too_large: 'The request is too large for the model provider.',
  not_found: 'The model provider does not have this model at the moment.',
  upstream_auth: 'The model provider did not accept the credentials of the gateway.',
  upstream_balance: 'The model provider does not serve the gateway at the moment.',
  upstream_rate: 'The model provider is limiting requests at the moment.',
  overloaded: 'The model provider is overloaded at the moment.',
  upstream_error: 'The model provider failed to answer.',
  timeout: 'The model provider did not answer in time.',
}

const MAX_MESSAGE_CHARACTERS = 500
/** Patterns of the operator's identifiers, addresses and secrets. */
const PRIVATE = [
  /https?:\/\/\S+/gi,
  /\barn:\S+/gi,
  /\S+@\S+\.\w+/g,
  /\b(?:org|proj|user|acct|team|req|gen|chatcmpl)[-_](?=[\w-]*[\dA-Z])[\w-]+/g,
  /\b(?:sk|pk|gsk|xai|pplx|csk|nvapi|hf)[-_][\w*-]+/g,
  /\S*\*{3,}\S*/g,
  /\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b/g,
  /(?=[\w+/=-]*\d)[\w+/=-]{32,}/g,
]

/**
 * A vendor's message without private parts, shortened to 500 characters.
 * @param own further private patterns of this vendor, with the flag `g`
 */
export function clean(message: string, own: readonly RegExp[] = []): string {
  let text = message.slice(0, MAX_MESSAGE_CHARACTERS * 4)
  for (const pattern of [...own, ...PRIVATE]) text = text.replace(pattern, '[…]')
  const characters = [...text.replace(/\s+/g, ' ').trim()]
  if (characters.length <= MAX_MESSAGE_CHARACTERS) return characters.join('')
  return `${characters.slice(0, MAX_MESSAGE_CHARACTERS - 1).join('')}…`
}
