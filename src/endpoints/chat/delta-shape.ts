/** What a provider may say in a delta: members of another type would break the libraries of clients. */
import {
  anything,
  integer,
  list,
  object,
  passing,
  problem,
  text,
  variant,
  type Check,
} from '../../errors/checks.ts'
import { brokenAnswer } from '../../errors/errors.ts'
import type { ChatDelta } from '../../plugin.ts'

const called = object({ name: text })
const call = object({
  id: text,
  type: text,
  function: called,
  custom: called,
})

const delta = object({
  content: text,
  refusal: text,
  reasoning: text,
  reasoning_content: text,
  reasoning_details: list(object({})),
  tool_calls: list(call),
  function_call: called,
  annotations: anything,
})

const place = { id: text, format: text, index: integer(0, Number.MAX_SAFE_INTEGER) }
const detail = variant('type', {
  'reasoning.text': object({ ...place, text, signature: text }),
  'reasoning.summary': object({ ...place, summary: text }, ['summary']),
  'reasoning.encrypted': object({ ...place, data: text }, ['data']),
})

/** Clients make links of these: `javascript:` must not be one. */
const page: Check = (value) =>
  typeof value === 'string' && /^https?:$/.test(URL.parse(value)?.protocol ?? '')
    ? undefined
    : problem('invalid_value', 'the http(s) address of a page', 'another value')
const offset = integer(0, Number.MAX_SAFE_INTEGER)
const citation = object(
  { url: page, title: text, start_index: offset, end_index: offset, content: text },
  ['url', 'title', 'start_index', 'end_index'],
)
const annotation = variant('type', {
  url_citation: object({ url_citation: citation }, ['url_citation']),
})

/**
 * Checks a delta. Reasoning details and citations that clients could not read are left out.
 * @throws UpstreamFailure for members of a wrong type
 */
export function wellFormed(given: ChatDelta): ChatDelta {
  const found = delta(given)
  if (found) {
    const at = found.path === '' ? '' : ` (${found.path})`
    throw brokenAnswer(`The model provider sent a malformed part of an answer${at}.`)
  }
  const { reasoning_details: details, annotations } = given
  const readable = Array.isArray(details) ? passing(details, detail) : details
  const cited = Array.isArray(annotations)
    ? passing(annotations, annotation).map(withoutNull)
    : undefined
  if (readable === details && cited === annotations) return given
  return { ...given, reasoning_details: readable, annotations: cited }
}

/** An excerpt is text or absent. */
function withoutNull(citation: any): unknown {
  const { content, ...rest } = citation.url_citation
  return content === null ? { ...citation, url_citation: rest } : citation
}
