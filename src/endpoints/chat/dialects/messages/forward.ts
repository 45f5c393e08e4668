/** Events of a vendor with this API, as the client gets them: the gateway's id, the name that was asked for, the cost. */
import { isObject } from '../../../../errors/checks.ts'
import type { Receipt } from '../../../../pipeline/pipeline.ts'
import type { AnswerChunk } from '../../billing.ts'
import { endEvents, STOP_REASONS, type MessageEvent } from './events.ts'
import { usageJson, vendorUsage } from './usage.ts'
import { countsIn, membersIn } from '../shared/known.ts'

/** Blocks that a part without a beginning tells. A call is not among them: its name is not known. */
const BEGINNINGS: Readonly<Record<string, object>> = {
  text_delta: { type: 'text', text: '' },
  thinking_delta: { type: 'thinking', thinking: '', signature: '' },
}

interface Envelope {
  /** The gateway's own beginning: its id and model replace the vendor's. */
  readonly opening: () => readonly MessageEvent[]
  readonly knowsBetas: boolean
  readonly isConfidential: boolean
}

export class ForwardedEvents {
  readonly #envelope: Envelope
  #hasEvents = false
  #begun: boolean
  /** The client's index of each open block, by the vendor's: they count from 0 without gaps. */
  readonly #open = new Map<unknown, number>()
  #blocks = 0
  /** The end of the message, retained until the answer is charged. */
  #end: MessageEvent | undefined

  /** @param begun whether the beginning of the message went out before the vendor answered */
  constructor(envelope: Envelope, begun: boolean) {
    this.#envelope = envelope
    this.#begun = begun
  }

  /** The events of a chunk. One without an event only repeats those of others, or ends the answer. */
  push({ native, choices, receipt }: AnswerChunk): MessageEvent[] {
    const events = isObject(native?.data) ? this.#eventsOf(native.data) : []
    const { isConfidential } = this.#envelope
    const known = isConfidential ? events.map(knownEvent) : events
    const passed = known.flatMap((event) => this.#pass(event))
    return receipt ? [...passed, ...this.#finish(choices[0]?.finish_reason, receipt)] : passed
  }

  /** An event of a stream; or a whole message, which comes first, as the events that make it up. */
  #eventsOf(data: any): readonly MessageEvent[] {
    const isFirst = !this.#hasEvents
    this.#hasEvents = true
    return isFirst && data.type === 'message' ? messageEvents(data) : [data]
  }

  #pass(event: MessageEvent): MessageEvent[] {
    const { type } = event
    switch (type) {
      case 'message_start':
        return this.#begin(event)
      case 'message_delta':
        this.#end = this.#end ? joined(this.#end, event) : event
        return []
      // It goes out when the answer is charged, and the gateway has pings of its own.
      case 'message_stop':
      case 'ping':
        return []
      // Without a block there is nothing that a client could add to.
      case 'content_block_start':
        return isObject(event.content_block) ? this.#announce(event) : []
      case 'content_block_delta':
        return isObject(event.delta) ? this.#add(event) : []
      case 'content_block_stop': {
        const index = this.#open.get(event.index)
        this.#open.delete(event.index)
        return index === undefined ? [] : [placed(event, index)]
      }
    }
    const { knowsBetas, isConfidential } = this.#envelope
    return knowsBetas && !isConfidential ? [event] : []
  }

  /** The beginning of a block, and the end of one that the vendor has left open at the same index. */
  #announce(event: MessageEvent): MessageEvent[] {
    const left = this.#open.get(event.index)
    const index = this.#blocks++
    this.#open.set(event.index, index)
    const ended = left === undefined ? [] : [{ type: 'content_block_stop', index: left }]
    return [...this.#begin(), ...ended, placed(event, index)]
  }

  /** A part of a block. Compatible servers leave out the beginning of a block of text. */
  #add(event: MessageEvent): MessageEvent[] {
    const { index, delta } = event
    const open = this.#open.get(index)
    if (open !== undefined) return [placed(event, open)]
    const content_block = Object.hasOwn(BEGINNINGS, delta.type) && BEGINNINGS[delta.type]
    if (!content_block) return []
    const begun = this.#announce({ type: 'content_block_start', index, content_block })
    return [...begun, placed(event, this.#open.get(index)!)]
  }

  /** @param event the vendor's; without one that has a message, the answer begins with the gateway's own */
  #begin(event?: MessageEvent): MessageEvent[] {
    if (this.#begun) return []
    this.#begun = true
    const [own, ...rest] = this.#envelope.opening()
    if (!isObject(event?.message)) return [own!, ...rest]
    const { id, model, usage: estimate } = own!.message
    const counts: unknown = event.message.usage
    const usage = isCounted(counts) ? counts : { ...(isObject(counts) && counts), ...estimate }
    return [{ ...event, message: { ...event.message, id, model, usage } }, ...rest]
  }

  /** Ends the message with the vendor's end and the cost, or the gateway's where it cut the answer or got none. */
  #finish(reason: string | null | undefined, receipt: Receipt): MessageEvent[] {
    const last = this.#end
    const closing = [
      ...this.#begin(),
      ...[...this.#open.values()].map((index) => ({ type: 'content_block_stop', index })),
    ]
    if (!last) return [...closing, ...endEvents(STOP_REASONS[reason ?? ''] ?? 'end_turn', receipt)]
    const { guard } = receipt
    const usage = isObject(last.usage) ? vendorUsage(last.usage, receipt) : usageJson(receipt)
    const end = { ...last, usage, ...(guard && { guard }) }
    return [...closing, end, { type: 'message_stop' }]
  }
}

/** Whether a vendor has counted the prompt, of which all may have been in its cache. */
function isCounted(usage: unknown): boolean {
  if (!isObject(usage)) return false
  const { input_tokens, cache_read_input_tokens, cache_creation_input_tokens } = usage
  return [input_tokens, cache_read_input_tokens, cache_creation_input_tokens].some(
    (count) => Number(count) > 0,
  )
}

/** The event at the client's index: the same object where the vendor's is that. */
function placed(event: MessageEvent, index: number): MessageEvent {
  return event.index === index ? event : { ...event, index }
}

/** Joins two events of the end: of each member the last value counts. */
function joined(before: MessageEvent, event: MessageEvent): MessageEvent {
  const member = (name: 'delta' | 'usage') =>
    isObject(event[name]) ? { ...before[name], ...event[name] } : before[name]
  return { ...before, ...event, delta: member('delta'), usage: member('usage') }
}

function messageEvents(data: any): MessageEvent[] {
  const { content, stop_reason, stop_sequence, usage } = data
  const message = { ...data, content: [], stop_reason: null, stop_sequence: null }
  const items: unknown[] = Array.isArray(content) ? content : []
  const blocks = items.filter(isObject).flatMap(blockEvents)
  const delta = { stop_reason, stop_sequence, ...('stop_details' in data && stopDetails(data)) }
  return [
    { type: 'message_start', message },
    ...blocks,
    { type: 'message_delta', delta, usage },
    { type: 'message_stop' },
  ]
}

function stopDetails({ stop_details }: any): object {
  return { stop_details }
}

function blockEvents(block: any, index: number): MessageEvent[] {
  const [empty, ...deltas] = partsOf(block)
  return [
    { type: 'content_block_start', index, content_block: empty },
    ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
    { type: 'content_block_stop', index },
  ]
}

function partsOf(block: any): any[] {
  const { type, text, thinking, signature, input } = block
  switch (type) {
    case 'text':
      return [{ ...block, text: '' }, ...(text ? [{ type: 'text_delta', text }] : [])]
    case 'thinking':
      return [
        { ...block, thinking: '', signature: '' },
        ...(thinking ? [{ type: 'thinking_delta', thinking }] : []),
        ...(signature ? [{ type: 'signature_delta', signature }] : []),
      ]
    case 'compaction': {
      const { content, encrypted_content } = block
      return [
        { ...block, content: null },
        { type: 'compaction_delta', content, encrypted_content },
      ]
    }
    case 'tool_use':
    case 'server_tool_use': {
      const partial_json = JSON.stringify(input ?? {})
      return [
        { ...block, input: {} },
        { type: 'input_json_delta', partial_json },
      ]
    }
    default:
      return [block]
  }
}

// The part of a vendor's events that this API describes.

const END = 'stop_reason stop_sequence stop_details container'
const OF_END = new Set(END.split(' '))
const OF_MESSAGE = new Set(`id type role model content usage context_management ${END}`.split(' '))
const OF_EVENT = new Set(
  'type index message content_block delta usage context_management'.split(' '),
)

/** The event without members that are not of the API. */
function knownEvent(event: MessageEvent): MessageEvent {
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
