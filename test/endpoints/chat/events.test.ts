import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ChatEvents } from '../../../src/endpoints/chat/dialects/chat/write.ts'
import { NO_COST } from '../../../src/money/money.ts'
import type { ChatChunkChoice } from '../../../src/plugin.ts'
import { runs } from '../../_runs.ts'

const texts = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.string({ maxLength: 40 }),
  fc.constantFrom(
    '',
    ' token',
    '"',
    '\\',
    '\n',
    '\ud83d',
    '\ude00',
    '\u2028',
    '\x7f',
    '日本',
    '"content":""',
  ),
)
const deltas = fc.oneof(
  { weight: 6, arbitrary: texts.map((content) => ({ content })) },
  texts.map((content) => ({ content, reasoning: content })),
  texts.map((content) => ({ role: 'assistant', content, refusal: null })),
  fc.constant({}),
)
const choices = fc
  .tuple(
    fc.constantFrom(0, 0, 0, 1),
    deltas,
    fc.constantFrom(null, null, null, { content: [] }),
    fc.constantFrom(null, null, null, 'stop'),
  )
  .map(([index, delta, logprobs, finish_reason]) => ({ index, delta, logprobs, finish_reason }))
/** What all chunks of an answer share: one object for all of them. */
const heads = fc
  .tuple(
    fc.constantFrom('1', '2', '"content":""'),
    fc.constantFrom<object>({}, { system_fingerprint: 'fp "1"' }, { service_tier: 'default' }),
  )
  .map(([id, extras]) => ({ id, created: 1, model: 'm', ...extras }))
const answers = fc.array(fc.tuple(heads, fc.array(choices, { maxLength: 4 })))

function jsonOf({
  id,
  ...chunk
}: {
  readonly id: string
  readonly [member: string]: unknown
}): string {
  return `data: ${JSON.stringify({ id, object: 'chat.completion.chunk', ...chunk })}\n\n`
}

describe('events of a chat', () => {
  it('are the bytes of JSON.stringify, whatever came before', () => {
    fc.assert(
      fc.property(fc.boolean(), answers, (usageChunk, given) => {
        const events = new ChatEvents(usageChunk, () => ({}))
        const usage = usageChunk && { usage: null }
        for (const [head, parts] of given) {
          for (const choice of parts) {
            const list: ChatChunkChoice[] = [choice]
            const event = events.encode({ head, choices: list })
            expect(event).toBe(jsonOf({ ...head, choices: list, ...usage }))
          }
        }
      }),
      { numRuns: runs(700) },
    )
  })

  const head = { id: '1', created: 1, model: 'm' }
  const finished = [{ index: 0, delta: {}, logprobs: null, finish_reason: 'stop' }]
  const receipt = { bill: NO_COST, meter: [] }
  const usageJson = () => ({ prompt_tokens: 1 })

  it('have the usage on the last chunk', () => {
    const events = new ChatEvents(false, usageJson)
    expect(events.encode({ head, choices: finished, receipt })).toBe(
      jsonOf({ ...head, choices: finished, usage: usageJson() }),
    )
  })

  it('have the usage in a chunk of its own where the client wants one', () => {
    const events = new ChatEvents(true, usageJson)
    expect(events.encode({ head, choices: finished, receipt })).toBe(
      jsonOf({ ...head, choices: finished, usage: null }) +
        jsonOf({ ...head, choices: [], usage: usageJson() }),
    )
  })
})
