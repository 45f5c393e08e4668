/** Streams of the Messages API, as a client reads them. */
import { expect } from 'vitest'
import { expectMessageEvent, type Writer } from '../_event-schemas.ts'

export interface Streamed {
  readonly events: readonly any[]
  /** The message that the events make up. */
  readonly message: any
  /** The error that ended the stream. */
  readonly error: any
}

/** The events of a stream, after its rules were checked. */
export function streamed(text: string, writer: Writer = 'gateway'): Streamed {
  const events = text
    .split('\n\n')
    .filter(Boolean)
    .map((event) => {
      const [name, data, ...rest] = event.split('\n')
      expect(rest).toEqual([])
      const value = JSON.parse(data!.replace(/^data: /, ''))
      expect(name).toBe(`event: ${value.type}`)
      return value
    })
  return { events, ...checked(events, writer) }
}

/** Checks events, and their order: one block is open at a time, and indexes have no gaps. */
export function checked(
  events: readonly any[],
  writer: Writer = 'gateway',
): Pick<Streamed, 'message' | 'error'> {
  if (writer === 'gateway') for (const event of events) expectMessageEvent(event)
  const [first, second] = events
  expect([first.type, second.type]).toEqual(['message_start', 'ping'])
  expect(first.message.content).toEqual([])
  expect(first.message.usage.input_tokens).toBeGreaterThan(0)
  const message = structuredClone(first.message)
  let open: any
  let json = ''
  let ended = false
  for (const event of events.slice(1)) {
    if (event.type === 'ping') continue
    expect(message.stopped).toBeUndefined()
    switch (event.type) {
      case 'content_block_start':
        expect(open).toBeUndefined()
        expect(ended).toBe(false)
        expect(event.index).toBe(message.content.length)
        open = structuredClone(event.content_block)
        json = ''
        break
      case 'content_block_delta':
        expect(event.index).toBe(message.content.length)
        add(open, event.delta)
        json += event.delta.partial_json ?? ''
        break
      case 'content_block_stop':
        expect(event.index).toBe(message.content.length)
        if (open.type === 'tool_use') open.input = JSON.parse(json || '{}')
        if (open.type === 'thinking') expect(open.signature).not.toBe('')
        if (open.type === 'text') expect(open.text).not.toBe('')
        message.content.push(open)
        open = undefined
        break
      case 'message_delta':
        expect(open).toBeUndefined()
        expect(ended).toBe(false)
        ended = true
        Object.assign(message, event.delta, { usage: event.usage, guard: event.guard })
        break
      case 'message_stop':
        expect(ended).toBe(true)
        message.stopped = true
        break
      case 'error':
        expect(event).toBe(events.at(-1))
        return { message, error: event.error }
      default:
        throw new Error(`an unknown event: ${event.type}`)
    }
  }
  expect(message.stopped).toBe(true)
  delete message.stopped
  return { message, error: undefined }
}

function add(block: any, delta: any): void {
  switch (delta.type) {
    case 'text_delta':
      block.text += delta.text
      break
    case 'thinking_delta':
      block.thinking += delta.thinking
      break
    case 'signature_delta':
      expect(block.signature).toBe('')
      block.signature = delta.signature
      break
    case 'compaction_delta': {
      const { type: _type, ...said } = delta
      Object.assign(block, said)
      break
    }
    case 'citations_delta':
      block.citations = [...(block.citations ?? []), delta.citation]
  }
}
