/** The part of a vendor's events that this API describes. */
import { isObject } from '../../../../errors/checks.ts'
import { countsIn, membersIn } from '../shared/known.ts'
import type { ResponseEvent } from './items.ts'

const TYPES =
  /^response\.(created|queued|in_progress|completed|incomplete|failed|output_|content_part|reasoning|refusal|function_call_|custom_tool_call_|web_search_call)/
const OF_EVENT = new Set(
  (
    'type response item item_id part delta text refusal annotation arguments input name logprobs ' +
    'output_index content_index summary_index annotation_index sequence_number'
  ).split(' '),
)

/** @param resource the gateway's own, with all members. @returns undefined for an event of another type */
export function knownEvent(event: ResponseEvent, resource: object): ResponseEvent | undefined {
  if (!TYPES.test(event.type)) return undefined
  const { response, ...others } = membersIn(event, OF_EVENT)
  const type = event.type
  if (!isObject(response)) return { ...others, type }
  const { usage, ...known } = membersIn(response, new Set(Object.keys(resource)))
  const counted = usage === undefined ? {} : { usage: isObject(usage) ? countsIn(usage) : null }
  return { ...others, type, response: { ...known, ...counted } }
}
