import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { SteadyEvents } from '../../../../../src/endpoints/chat/dialects/responses/steady.ts'

const folder = join(import.meta.dirname, '../../../../providers/transcripts/openai')
/** Streams that no server of this API's vendor gives. */
const MADE = /rotating|done-only|error|failed|whole|refused|blocked/

const streams = readdirSync(folder).filter(
  (name) => /^responses.*\.http$/.test(name) && !MADE.test(name),
)

describe('steady events', () => {
  it.each(streams)('are the events of %s as they are, with those that it leaves out', (name) => {
    const text = readFileSync(join(folder, name), 'utf8')
    const events = [...text.matchAll(/^data: (\{.*\})\r?$/gm)].map(([, data]) => JSON.parse(data!))
    expect(events.length).toBeGreaterThan(3)
    const steady = new SteadyEvents()
    for (const event of events) {
      if (!event.response) expect(steady.push(event)).toContainEqual(event)
      else if (/completed|incomplete/.test(event.type)) {
        steady.complete(event.response.output)
        for (const item of event.response.output ?? []) {
          expect(steady.output).toContainEqual(expect.objectContaining(item))
        }
      }
    }
  })

  it('are nothing but the events of a stream that leaves out none', () => {
    const place = { item_id: 'msg_1', output_index: 0, content_index: 0 }
    const part = { type: 'output_text', text: '', annotations: [], logprobs: [] }
    const message = { id: 'msg_1', type: 'message', status: 'in_progress', role: 'assistant' }
    const call = { id: 'fc_1', type: 'function_call', name: 'f', call_id: 'call_1' }
    const inCall = { item_id: 'fc_1', output_index: 1 }
    const said = { ...message, status: 'completed', content: [{ ...part, text: 'Hi.' }] }
    const called = { ...call, status: 'completed', arguments: '{}' }
    const events = [
      { type: 'response.output_item.added', output_index: 0, item: { ...message, content: [] } },
      { type: 'response.content_part.added', ...place, part },
      { type: 'response.output_text.delta', ...place, delta: 'Hi.', logprobs: [] },
      { type: 'response.output_text.done', ...place, text: 'Hi.', logprobs: [] },
      { type: 'response.content_part.done', ...place, part: { ...part, text: 'Hi.' } },
      { type: 'response.output_item.done', output_index: 0, item: said },
      { type: 'response.output_item.added', output_index: 1, item: { ...call, arguments: '' } },
      { type: 'response.function_call_arguments.delta', ...inCall, delta: '{}' },
      { type: 'response.function_call_arguments.done', ...inCall, arguments: '{}' },
      { type: 'response.output_item.done', output_index: 1, item: called },
    ]
    const steady = new SteadyEvents()
    for (const event of events) expect(steady.push(event)).toEqual([event])
    expect(steady.complete([said, called])).toEqual([])
    expect(steady.output).toEqual([said, called])
  })
})
