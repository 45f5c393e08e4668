/** Streams of the Responses API, as a client reads them. */
import { expect } from 'vitest'
import { expectResponseEvent, type Writer } from '../_event-schemas.ts'

export interface Streamed {
  readonly events: readonly any[]
  /** The answer of the last event. */
  readonly response: any
}

/** The members that every resource has. */
export const MEMBERS = [
  'id',
  'object',
  'created_at',
  'completed_at',
  'status',
  'incomplete_details',
  'error',
  'model',
  'instructions',
  'output',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'text',
  'reasoning',
  'temperature',
  'top_p',
  'presence_penalty',
  'frequency_penalty',
  'top_logprobs',
  'max_output_tokens',
  'max_tool_calls',
  'user',
  'safety_identifier',
  'prompt_cache_key',
  'metadata',
  'truncation',
  'service_tier',
  'store',
  'background',
  'previous_response_id',
  'usage',
]

/** The events of a stream, after its rules were checked. */
export function streamed(text: string, writer: Writer = 'gateway'): Streamed {
  const blocks = text.split('\n\n').filter((block) => block && !block.startsWith(':'))
  expect(blocks.pop()).toBe('data: [DONE]')
  const events = blocks.map((block, number) => {
    const [name, data, ...rest] = block.split('\n')
    expect(rest).toEqual([])
    const value = JSON.parse(data!.replace(/^data: /, ''))
    expect(name).toBe(`event: ${value.type}`)
    expect(value.sequence_number).toBe(number)
    return value
  })
  return { events, response: checked(events, writer) }
}

/** Checks events, their order, and that they tell one story. @returns the answer of the last event */
export function checked(events: readonly any[], writer: Writer = 'gateway'): any {
  if (writer === 'gateway') for (const event of events) expectResponseEvent(event)
  const [first, second] = events
  expect([first.type, second.type]).toEqual(['response.created', 'response.in_progress'])
  const resources = events.filter(({ response }) => response).map(({ response }) => response)
  for (const resource of resources) {
    expect(Object.keys(resource)).toEqual(expect.arrayContaining(MEMBERS))
    for (const name of ['id', 'created_at', 'model']) {
      expect(resource[name]).toBe(first.response[name])
    }
  }
  expect(first.response).toMatchObject({ status: 'in_progress', output: [], usage: null })
  const last = events.at(-1)
  expect(last.type).toBe(`response.${last.response.status}`)
  const items: any[] = []
  let open: OpenItem | undefined
  for (const event of events.slice(2, -1)) {
    if (event.type === 'response.in_progress') continue
    expect(event.output_index).toBe(items.length)
    if (event.type === 'response.output_item.added') {
      expect(open).toBeUndefined()
      expect(event.item.status).toBe('in_progress')
      open = new OpenItem(event.item)
    } else if (event.type === 'response.output_item.done') {
      open!.compare(event.item)
      items.push(event.item)
      open = undefined
    } else {
      expect(event.item_id).toBe(open!.id)
      open!.add(event)
    }
  }
  expect(open).toBeUndefined()
  expect(last.response.output).toEqual(items)
  return last.response
}

/** What the events of one item make up. */
class OpenItem {
  readonly id: string
  readonly #item: any
  readonly #parts: any[] = []
  /** The part that is open. */
  #part: any
  #text = ''
  #isDone = false

  constructor(item: any) {
    this.id = item.id
    this.#item = item
    expect(item.content ?? item.summary ?? item.arguments ?? item.input).toHaveLength(0)
    expect(item.encrypted_content ?? null).toBeNull()
  }

  add(event: any): void {
    const [, what, step] = /^response\.([\w.]+)\.(\w+)$/.exec(event.type)!
    switch (`${what}.${step}`) {
      case 'content_part.added':
      case 'reasoning_summary_part.added':
        expect(this.#part).toBeUndefined()
        expect(event.content_index ?? event.summary_index).toBe(this.#parts.length)
        this.#part = structuredClone(event.part)
        expect(event.part.text ?? event.part.refusal).toBe('')
        this.#text = ''
        this.#isDone = false
        return
      case 'content_part.done':
      case 'reasoning_summary_part.done': {
        expect(this.#isDone).toBe(true)
        const { part } = event
        expect(part.text ?? part.refusal).toBe(this.#text)
        expect(part.type).toBe(this.#part.type)
        if (part.annotations) expect(part.annotations).toEqual(this.#part.annotations)
        if (part.logprobs) expect(part.logprobs).toEqual(this.#part.logprobs)
        this.#parts.push(part)
        this.#part = undefined
        return
      }
    }
    if (step === 'delta') {
      expect(event.delta).not.toBe('')
      expect(this.#isDone).toBe(false)
      this.#text += event.delta
      if (event.logprobs) this.#part.logprobs.push(...event.logprobs)
    } else if (step === 'done') {
      const { text, refusal, input, arguments: given } = event
      expect(text ?? refusal ?? input ?? given).toBe(this.#text)
      this.#isDone = true
    } else {
      expect(event.type).toBe('response.output_text.annotation.added')
      expect(event.annotation_index).toBe(this.#part.annotations.length)
      this.#part.annotations.push(event.annotation)
    }
  }

  compare(item: any): void {
    expect(this.#part).toBeUndefined()
    expect(item.id).toBe(this.id)
    expect(item.type).toBe(this.#item.type)
    switch (item.type) {
      case 'message':
        return expect(item.content).toEqual(this.#parts)
      case 'reasoning':
        return expect(item.summary).toEqual(this.#parts)
      default:
        expect(this.#isDone).toBe(true)
        expect(item.call_id).toBe(this.#item.call_id)
        expect(item.name).toBe(this.#item.name)
        return expect(item.input ?? item.arguments).toBe(this.#text)
    }
  }
}
