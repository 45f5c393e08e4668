/** Usage of the models that guards ask, as vendors may report it: the same rules as for the answer itself. */
import * as v from 'valibot'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { defineGuard } from '../../src/plugin.ts'
import type { Answer } from '../_setup.ts'
import { json } from '../upstream.ts'
import { guarded, type Guarded } from './_setup.ts'

const judge = defineGuard({
  name: 'judge',
  options: v.strictObject({}),
  setup: (_, host) => ({
    enforces: ['deny:code'],
    execution: 'remote',
    async checkInput(items, context) {
      const messages = [{ role: 'user' as const, content: 'Is this code?' }]
      await host.askModel('acme/judge', { messages }, context)
      return items.map(() => ({ action: 'pass' }))
    },
  }),
})
const FINE = { prompt_tokens: 10, completion_tokens: 10 }
const POLICY = { deny: ['code' as const], guard: { onError: 'allow' as const } }

let g: Guarded
beforeAll(async () => {
  g = await guarded([judge], {}, { routing: { cooldown: 0 } })
})
afterAll(() => g[Symbol.asyncDispose]())

/** The answer and its row, where the vendor reports this for the judge. */
async function askWith(usage: unknown) {
  g.vendor.answer(({ json: { model } }) => {
    const message = { role: 'assistant', content: 'This is fine.' }
    const choices = [{ index: 0, message, finish_reason: 'stop' }]
    return json({ choices, usage: model === 'judge' ? usage : FINE })
  })
  const answer: Answer = await g.ask(POLICY)
  expect(answer.status, answer.text).toBe(200)
  for await (const { request, cost, usage: row } of g.t.gateway.runtime.ledger.usage('acme')) {
    if (request !== answer.headers['x-request-id']) continue
    expect(cost).toBe(BigInt(Math.round(answer.json.usage.cost * 1e12)))
    return { details: answer.json.usage.cost_details, guard: answer.json.guard, row: row! }
  }
  throw new Error('the call has no row')
}

it.each([
  ['nothing', undefined],
  ['texts', { prompt_tokens: '10', completion_tokens: '10' }],
  ['zeros', { prompt_tokens: 0, completion_tokens: 0 }],
  ['negative counts', { prompt_tokens: -10, completion_tokens: -10 }],
])('a judge whose vendor reports %s is charged by estimate', async (_, usage) => {
  const { details, row } = await askWith(usage)
  // 4 tokens each, at the prices of the judge.
  expect(details.guard_cost).toBe(4 * 0.000001 + 4 * 0.000002)
  expect(row.flags).toEqual(['estimated'])
})

it('a judge whose vendor reports too much is charged so, and the operator can see it', async () => {
  const { details, row } = await askWith({ prompt_tokens: 10, completion_tokens: 150_000 })
  expect(details.guard_cost).toBe(0.30001)
  expect(row.flags).toEqual(['suspicious'])
  expect(row.reported).toMatchObject({
    'vendor/judge': { completionTokens: { reported: 150_000 } },
  })
})

it('a judge whose vendor reports the impossible has failed, costs nothing, and leaves the figures', async () => {
  const { details, guard, row } = await askWith({ prompt_tokens: 10, completion_tokens: 1e12 })
  expect(details).not.toHaveProperty('guard_cost')
  expect(guard.degraded).toEqual(['judge'])
  expect(row.reported).toMatchObject({ 'vendor/judge': { completionTokens: { reported: 1e12 } } })
  expect(g.t.gateway.runtime.metrics.text()).toMatch(
    /sluicegate_usage_absurd_total\{provider="vendor"\} [12]\n/,
  )
  expect(g.t.logged.join('\n')).toMatch(/vendor\/judge reported absurd usage: completionTokens/)
})
