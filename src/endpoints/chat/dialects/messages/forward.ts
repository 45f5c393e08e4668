/** Events of a vendor with this API, as the client gets them: the gateway's id, the name that was asked for, the cost. */
import { costJson } from '../../../../money/money.ts'
import type { Receipt } from '../../../../pipeline/pipeline.ts'
import type { BilledChunk } from '../../billing.ts'
import { endEvents, type MessageEvent } from './events.ts'

/** Events that clients of every version know. */
const KNOWN = new Set(['content_block_start', 'content_block_delta', 'content_block_stop'])

/** What an answer has of the gateway. */
interface Envelope {
  readonly id: string
  /** As the client wrote it. */
  readonly model: string
  /** The client knows betas: it gets events of unknown types. */
  readonly knowsBetas: boolean
}

/** Forwards the events of one answer. */
export class ForwardedEvents {
  readonly #envelope: Envelope
  /** The message has begun. */
  #begun: boolean
  /** Index of the block that is open. */
  #open: number | undefined
  /** Retained until the answer is charged. */
  #deltas: MessageEvent[] = []

  /** @param begun the beginning of the message went out before the vendor answered */
  constructor(envelope: Envelope, begun: boolean) {
    this.#envelope = envelope
    this.#begun = begun
  }

  /** The events of a chunk. One without an event says only what those of others say, or ends the answer. */
  push({ native, receipt }: BilledChunk): MessageEvent[] {
    const events = native ? eventsOf(native.data) : []
    const passed = events.flatMap((event) => this.#pass(event))
    return receipt ? [...passed, ...this.#finish(receipt)] : passed
  }

  #pass(event: MessageEvent): MessageEvent[] {
    const { type } = event
    switch (type) {
      case 'message_start':
        return this.#begin(event)
      case 'message_delta':
        this.#deltas.push(event)
        return []
      // It goes out when the answer is charged, and the gateway has pings of its own.
      case 'message_stop':
      case 'ping':
        return []
      case 'content_block_start':
        this.#open = event.index
        break
      case 'content_block_stop':
        this.#open = undefined
    }
    return KNOWN.has(type) || this.#envelope.knowsBetas ? [event] : []
  }

  #begin(event: MessageEvent): MessageEvent[] {
    if (this.#begun) return []
    this.#begun = true
    const { id, model } = this.#envelope
    return [{ ...event, message: { ...event.message, id, model } }, { type: 'ping' }]
  }

  /** The end: the vendor's own with the cost, or the gateway's where it cut the answer. */
  #finish(receipt: Receipt): MessageEvent[] {
    const last = this.#deltas.pop()
    const open = this.#open
    const closing = open === undefined ? [] : [{ type: 'content_block_stop', index: open }]
    if (!last) return [...closing, ...endEvents('max_tokens', receipt)]
    const { guard, bill } = receipt
    const usage = { ...last.usage, ...costJson(bill) }
    const end = { ...last, usage, ...(guard && { guard }) }
    return [...closing, ...this.#deltas, end, { type: 'message_stop' }]
  }
}

/** An event of a stream, or a whole message as the events that make it up. */
function eventsOf(data: any): MessageEvent[] {
  if (data.type !== 'message') return [data]
  const { content, stop_reason, stop_sequence, usage } = data
  const message = { ...data, content: [], stop_reason: null, stop_sequence: null }
  const blocks: MessageEvent[] = (content ?? []).flatMap((block: any, index: number) =>
    blockEvents(block, index),
  )
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

/** A block as it begins, and its deltas. */
function partsOf(block: any): any[] {
  const { type, text, thinking, signature, input } = block
  switch (type) {
    case 'text':
      return [
        { ...block, text: '' },
        { type: 'text_delta', text },
      ]
    case 'thinking':
      return [
        { ...block, thinking: '', signature: '' },
        ...(thinking ? [{ type: 'thinking_delta', thinking }] : []),
        { type: 'signature_delta', signature },
      ]
    case 'tool_use':
    case 'server_tool_use': {
      const partial_json = JSON.stringify(input)
      return [
        { ...block, input: {} },
        { type: 'input_json_delta', partial_json },
      ]
    }
    default:
      return [block]
  }
}
