/** Answers whose calls, texts and thoughts arrive between each other: no client form ever sees half a call. */
import * as fc from 'fast-check'
import { expect, it } from 'vitest'
import { ChatAnswer } from '../../../src/endpoints/chat/answer.ts'
import type { AnswerChunk } from '../../../src/endpoints/chat/billing.ts'
import { MessageEvents } from '../../../src/endpoints/chat/dialects/messages/events.ts'
import { ResponseEvents } from '../../../src/endpoints/chat/dialects/responses/events.ts'
import { readResponsesRequest } from '../../../src/endpoints/chat/dialects/responses/read.ts'
import { resourceOf } from '../../../src/endpoints/chat/dialects/responses/write.ts'
import { NO_COST } from '../../../src/money/money.ts'
import type { ChatDelta } from '../../../src/plugin.ts'
import { RawJson } from '../../../src/stream/raw-json.ts'
import { runs } from '../../_runs.ts'
import { envelope, toCompletion } from './_completion.ts'
import { checked as checkedMessage } from './dialects/messages/_events.ts'
import { checked as checkedResponse } from './dialects/responses/_events.ts'

const receipt = { bill: NO_COST, meter: [] }
const text = JSON.stringify({ model: 'a/b', input: 'x' })
const options = readResponsesRequest(new RawJson(text, JSON.parse(text))).answerOptions as any
const state = { id: 'resp_1', createdAt: 1, model: 'a/b', maxOutputTokens: null }
const resource = resourceOf(state, options.echo)

const said = fc.oneof(
  fc
    .constantFrom(' ', '\n', 'Well. ', 'So 😀', '\ud83d')
    .map((content): ChatDelta => ({ content })),
  fc.constantFrom('Hm. ', 'Or').map((reasoning): ChatDelta => ({ reasoning })),
  fc.constant<ChatDelta>({ refusal: 'No.' }),
)
const call = fc.record({
  input: fc.dictionary(fc.string({ maxLength: 3 }), fc.oneof(fc.string(), fc.integer()), {
    maxKeys: 3,
  }),
  cuts: fc.array(fc.nat(40), { maxLength: 4 }),
  isTold: fc.boolean(),
})
const answers = fc.record({
  calls: fc.array(call, { minLength: 1, maxLength: 3 }),
  others: fc.array(said, { maxLength: 6 }),
  order: fc.array(fc.nat(9), { maxLength: 30 }),
})

/** The parts of each call, and everything else, in a random order that keeps that of the parts of each. */
function deltasOf({ calls, others, order }: any): ChatDelta[] {
  const lists: ChatDelta[][] = calls.map(({ input, cuts, isTold }: any, index: number) => {
    const json = JSON.stringify(input)
    const places = [
      0,
      ...cuts.map((cut: number) => cut % json.length).toSorted((a: number, b: number) => a - b),
    ]
    const pieces = places.map((at, i) => json.slice(at, places[i + 1]))
    const part = (one: object): ChatDelta => ({ tool_calls: [{ index, ...one }] })
    return [
      part({ id: `call_${index}`, function: { name: `f${index}`, arguments: '' } }),
      ...pieces.map((piece) => part({ function: { arguments: piece } })),
      ...(isTold ? [part({ done: true })] : []),
    ]
  })
  lists.push([...others])
  const deltas: ChatDelta[] = []
  const picks = [...order]
  while (lists.some((list) => list.length > 0)) {
    const left = lists.filter((list) => list.length > 0)
    deltas.push(left[(picks.shift() ?? 0) % left.length]!.shift()!)
  }
  return deltas
}

const dense = (value: string) => value.replace(/\s/g, '').replace(/\ufffd|[\ud800-\udfff]/g, '')

it('are whole calls, blocks that never overlap, and the whole text in all client forms', () => {
  fc.assert(
    fc.property(answers, (answer) => {
      const deltas = deltasOf(answer)
      const chunks: AnswerChunk[] = []
      const take = (chunk: AnswerChunk) => void chunks.push(chunk)
      const normal = new ChatAnswer(envelope())
      for (const delta of deltas) normal.push({ choices: [{ index: 0, delta }] }, take)
      normal.push({ choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] }, take)
      normal.end(take)

      const wanted = answer.calls.map(({ input }, index) => [
        `call_${index}`,
        JSON.stringify(input),
      ])
      const sorted = (list: any[]) => list.toSorted(([a], [b]) => (a < b ? -1 : 1))
      const words = dense(deltas.map(({ content, refusal }) => content ?? refusal ?? '').join(''))

      const { message } = toCompletion(chunks).choices[0]!
      const calls = message.tool_calls.map(({ id, function: one }: any) => [id, one.arguments])
      expect(sorted(calls)).toEqual(wanted)
      let last: number | undefined
      for (const { delta } of chunks.flatMap(({ choices }) => choices)) {
        const [part] = delta!.tool_calls ?? []
        if (part && !part.id) expect(part.index).toBe(last)
        if (Object.keys(delta!).length > 0) last = part?.index
      }

      const start = { type: 'message_start', message: { content: [], usage: { input_tokens: 1 } } }
      const events: any[] = [start, { type: 'ping' }]
      const messages = new MessageEvents(
        { hidesThinking: false, hidesRefusals: false },
        () => false,
        (event) => events.push(JSON.parse(JSON.stringify(event))),
      )
      const items: any[] = ['created', 'in_progress'].map((type) => {
        return { type: `response.${type}`, response: resource }
      })
      const responses = new ResponseEvents(
        resource,
        options,
        () => false,
        (event) => items.push(JSON.parse(JSON.stringify(event))),
      )
      chunks.forEach((chunk, i) => {
        const whole = i === chunks.length - 1 ? { ...chunk, receipt } : chunk
        messages.push(whole)
        responses.push(whole)
      })
      const { content } = checkedMessage(events, 'vendor').message
      const uses = content.filter(({ type }: any) => type === 'tool_use')
      expect(sorted(uses.map((one: any) => [one.id, JSON.stringify(one.input)]))).toEqual(
        wanted.map(([id, json]) => [id, JSON.stringify(JSON.parse(json!))]),
      )
      expect(dense(content.map((one: any) => one.text ?? '').join('')).length).toBe(words.length)
      const { output } = checkedResponse(items, 'vendor')
      const made = output.filter(({ type }: any) => type === 'function_call')
      expect(sorted(made.map((one: any) => [one.call_id, one.arguments]))).toEqual(wanted)
      for (const one of output) expect(one.status).toBe('completed')
    }),
    { numRuns: runs(100) },
  )
})
