/** What clients read of the vendor's "no": sentences of our own, and the vendor's about a bad request, made fit to be shown. */
import type { FailureClass } from '../../src/plugin.ts'

/** One sentence for each class of failure, for when the vendor's own is not shown. */
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

const MOST_CHARACTERS = 500
/** Addresses, ids of requests and accounts, keys, and whatever else is long and random. */
const PRIVATE = [
  /https?:\/\/\S+/gi,
  /\S+@\S+\.\w+/g,
  /\b(?:sk|req|org|wrkspc|msgbatch|file)[-_][\w*-]+/g,
  /\b[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}\b/gi,
  /(?=[\w+/=-]*\d)[\w+/=-]{32,}/g,
]

/** The vendor's sentence without what is nobody's business, at most 500 characters. */
export function fitToShow(sentence: string): string {
  let text = sentence.slice(0, MOST_CHARACTERS * 4)
  for (const pattern of PRIVATE) text = text.replace(pattern, '[…]')
  const characters = [...text.replace(/\s+/g, ' ').trim()]
  if (characters.length <= MOST_CHARACTERS) return characters.join('')
  return `${characters.slice(0, MOST_CHARACTERS - 1).join('')}…`
}
