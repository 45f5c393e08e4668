/** The part of a vendor's events that this API describes. */
import { isObject } from '../../../../errors/checks.ts'
import { countsIn, membersIn } from '../shared/known.ts'
import type { MessageEvent } from './events.ts'

const END = 'stop_reason stop_sequence stop_details container'
const OF_END = new Set(END.split(' '))
const OF_MESSAGE = new Set(`id type role model content usage context_management ${END}`.split(' '))
const OF_EVENT = new Set(
  'type index message content_block delta usage context_management'.split(' '),
)

/** The event without members that are not of the API. */
export function knownEvent(event: MessageEvent): MessageEvent {
  const { type, message, delta, usage, ...others } = membersIn(event, OF_EVENT)
  return {
    type,
    ...others,
    ...(isObject(message) && { message: knownMessage(message) }),
    ...(delta !== undefined && { delta: type === 'message_delta' ? ended(delta) : delta }),
    ...(usage !== undefined && { usage: countsIn(usage) }),
  }
}

function knownMessage(message: object): object {
  const { usage, ...others } = membersIn(message, OF_MESSAGE)
  return { ...others, ...(usage !== undefined && { usage: countsIn(usage) }) }
}

function ended(delta: unknown): unknown {
  return isObject(delta) ? membersIn(delta, OF_END) : delta
}
