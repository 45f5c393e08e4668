/** The trace of a client: https://www.w3.org/TR/trace-context/ */
import type { TraceLink } from '../observe/record.ts'
import type { Incoming } from './http.ts'

/** Version 00; neither id may be all zero. */
const TRACEPARENT = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/
const ENTRY =
  /^[a-z0-9][a-z0-9_*/-]{0,240}(?:@[a-z][a-z0-9_*/-]{0,13})?=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/
const MOST_ENTRIES = 32
/** The limit of the state. Longer ones lose their last entries, which are the oldest. */
const MOST_CHARACTERS = 200

/** The trace of a client; undefined without one, or where its header is malformed. */
export function traceOf(incoming: Incoming): Omit<TraceLink, 'span'> | undefined {
  const parent = incoming.header('traceparent')
  if (parent === undefined || !TRACEPARENT.test(parent)) return undefined
  const state = stateOf(incoming.header('tracestate'))
  return state === undefined ? { parent } : { parent, state }
}

/** The `traceparent` of the trace, from our span where it has one. */
export function parentOf({ parent, span }: Omit<TraceLink, 'span'> & { span?: string }): string {
  return span === undefined ? parent : `${parent.slice(0, 36)}${span}${parent.slice(52)}`
}

export function traceHeaders(
  trace: Parameters<typeof parentOf>[0],
): Readonly<Record<string, string>> {
  const { state } = trace
  return { traceparent: parentOf(trace), ...(state !== undefined && { tracestate: state }) }
}

/** The valid state; a malformed one counts as none. */
function stateOf(text: string | undefined): string | undefined {
  if (text === undefined) return undefined
  const entries = text.split(',', MOST_ENTRIES + 1).map((entry) => entry.trim())
  const members = entries.filter((entry) => entry !== '')
  if (members.length > MOST_ENTRIES || !members.every((entry) => ENTRY.test(entry)))
    return undefined
  while (members.join(',').length > MOST_CHARACTERS) members.pop()
  return members.length > 0 ? members.join(',') : undefined
}
