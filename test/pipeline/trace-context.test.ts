import { afterAll, expect, it } from 'vitest'
import { createTestGateway, hello, MOCK_CONFIG } from '../_setup.ts'
import { json, startUpstream } from '../upstream.ts'

const PARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
const ANSWER = json({
  id: 'x',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
})

const vendor = await startUpstream(ANSWER)
afterAll(() => vendor[Symbol.asyncDispose]())
const provider = (more: object) => ({
  use: 'openai-compatible',
  options: { baseURL: `${vendor.url}/v1`, apiKey: 'key-of-the-vendor' },
  ...more,
})
const model = (provider: string) => ({
  pricing: { prompt: '0', completion: '0' },
  deployments: [{ provider, model: 'm' }],
})
const t = await createTestGateway({
  ...MOCK_CONFIG,
  providers: { told: provider({ forwardTrace: true }), other: provider({}) },
  models: { 'v/told': model('told'), 'v/other': model('other') },
})

/** The headers of a trace that the vendor gets. */
async function forwarded(model: string, headers: Record<string, string>) {
  const { status } = await t.chat({ ...hello, model: `v/${model}` }, { headers })
  expect(status).toBe(200)
  const { traceparent, tracestate } = vendor.requests.at(-1)!.headers
  return { traceparent, tracestate }
}

it('goes to a vendor whose provider forwards it, and to no other', async () => {
  const headers = { traceparent: PARENT, tracestate: 'a=1,\tb=2' }
  expect(await forwarded('told', headers)).toEqual({ traceparent: PARENT, tracestate: 'a=1,b=2' })
  expect(await forwarded('other', headers)).toEqual({})
  expect(await forwarded('told', {})).toEqual({})
})

it.each([
  ['a malformed parent', { traceparent: 'nonsense', tracestate: 'a=1' }, {}],
  ['a malformed state', { traceparent: PARENT, tracestate: 'a=1,B' }, { traceparent: PARENT }],
  [
    'too many entries',
    { traceparent: PARENT, tracestate: Array.from({ length: 33 }, (_, i) => `a${i}=1`).join() },
    { traceparent: PARENT },
  ],
  [
    'a long state',
    { traceparent: PARENT, tracestate: `a=1,b=${'x'.repeat(150)},c=${'y'.repeat(150)}` },
    { traceparent: PARENT, tracestate: `a=1,b=${'x'.repeat(150)}` },
  ],
])('is as if absent, or shortened: %s', async (_, headers, expected) => {
  expect(await forwarded('told', headers as Record<string, string>)).toEqual(expected)
})
