/** Writers that fail within an answer: a client is told of an error and of what it costs, and that is what is booked. */
import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest'
import { chatCompletions } from '../../../src/endpoints/chat/dialects/chat/write.ts'
import { textCompletions } from '../../../src/endpoints/chat/dialects/completions/write.ts'
import { messages } from '../../../src/endpoints/chat/dialects/messages/write.ts'
import { ResponseEvents } from '../../../src/endpoints/chat/dialects/responses/events.ts'
import { responses } from '../../../src/endpoints/chat/dialects/responses/write.ts'
import { parsePico } from '../../../src/money/money.ts'
import type { WireFormat } from '../../../src/pipeline/pipeline.ts'
import { createTestGateway, MOCK_CONFIG, type TestGateway } from '../../_setup.ts'
import { runs } from '../../_runs.ts'

let t: TestGateway
beforeAll(async () => {
  const { 'mock/echo': echo } = MOCK_CONFIG.models
  const capabilities = [...echo.capabilities, 'COMPLETIONS' as const]
  t = await createTestGateway({
    ...MOCK_CONFIG,
    models: { 'mock/echo': { ...echo, capabilities } },
    // The long run of the law asks more often than a key may by default.
    defaults: { limits: { rpm: 1_000_000 } },
  })
})
afterAll(() => t.close())
afterEach(() => void vi.restoreAllMocks())

const TEXT = 'Some words that come back one after the other, and each of them in a part.'
const turns = [{ role: 'user', content: TEXT }]
const FORMS: Readonly<Record<string, readonly [WireFormat<any, any>, object]>> = {
  '/v1/chat/completions': [chatCompletions, { messages: turns }],
  '/v1/completions': [textCompletions, { prompt: TEXT, max_tokens: 100 }],
  '/v1/messages': [messages, { messages: turns, max_tokens: 100 }],
  '/v1/responses': [responses, { input: TEXT }],
}

/** Has the writer of a form fail at one of its parts. */
function failAt(format: WireFormat<any, any>, part: number): void {
  const write = format.write.bind(format)
  vi.spyOn(format, 'write').mockImplementation((call, out, done) => {
    const writer = write(call, out, done)
    const push = writer.push.bind(writer)
    let count = 0
    writer.push = (one) => {
      if (++count === part) throw new Error('a fault of the writer')
      return push(one)
    }
    return writer
  })
}

/** What the last cost of an answer says. */
function toldCost(text: string): bigint {
  const told = [...text.matchAll(/"cost":([\d.e-]+)/g)].at(-1)?.[1]
  return told === undefined ? 0n : parsePico(told)
}

async function expectTold(path: string, body: object, stream: boolean): Promise<string> {
  const before = await t.balance()
  const sent = { model: 'mock/echo', stream, ...body }
  const { status, text, headers } = await t.ask('POST', path, { body: sent })
  const cost = before - (await t.balance())
  const told = parsePico(String(headers['x-service-cost'] ?? '0'))
  expect(status === 200 ? toldCost(text) : told).toBe(cost)
  if (status >= 500) expect(cost).toBe(0n)
  expect(t.gateway.running.size).toBe(0)
  return text
}

it('at any part, in any form: the error tells what is booked', async () => {
  const cases = fc.record({
    path: fc.constantFrom(...Object.keys(FORMS)),
    part: fc.integer({ min: 1, max: 12 }),
    stream: fc.boolean(),
  })
  await fc.assert(
    fc.asyncProperty(cases, async ({ path, part, stream }) => {
      const [format, body] = FORMS[path]!
      failAt(format, part)
      try {
        const text = await expectTold(path, body, stream)
        if (stream && text.startsWith('event: response')) expect(text).toContain('response.failed')
      } finally {
        vi.restoreAllMocks()
      }
    }),
    { numRuns: runs(50) },
  )
  expect(await t.gateway.runtime.ledger.verify()).toEqual([])
})

it('a response whose state is broken still ends with response.failed', async () => {
  const { push } = ResponseEvents.prototype
  let count = 0
  vi.spyOn(ResponseEvents.prototype, 'push').mockImplementation(function (
    this: ResponseEvents,
    chunk,
  ) {
    if (++count === 4) throw new Error('a fault of the writer')
    push.call(this, chunk)
  })
  vi.spyOn(ResponseEvents.prototype, 'fail').mockImplementation(() => {
    throw new Error('no state to be ended')
  })
  const text = await expectTold('/v1/responses', { input: TEXT }, true)
  const last = text.slice(text.indexOf('event: response.failed'))
  expect(last).toContain('"status":"failed"')
  expect(last).toContain('"cost":')
  const numbers = [...text.matchAll(/"sequence_number":(\d+)/g)].map(([, number]) => Number(number))
  expect(numbers).toEqual(numbers.map((_, i) => i))
})
