/** Answers that are none: the vendor has failed, and another deployment is asked. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, type TestGateway } from '../../_setup.ts'
import {
  events,
  json,
  sse,
  startUpstream,
  type FakeResponse,
  type FakeUpstream,
} from '../../upstream.ts'

const usage = { prompt_tokens: 3, completion_tokens: 2 }
const BROKEN: readonly (readonly [name: string, stream: boolean, answer: FakeResponse])[] = [
  ['no choices', false, json({ choices: [], usage })],
  ['choices that are absent', false, json({ usage })],
  ['choices that are null', false, json({ choices: null, usage })],
  ['choices that are a text', false, json({ choices: 'none', usage })],
  ['a choice that is null', false, json({ choices: [null], usage })],
  [
    'a choice whose index is a text',
    false,
    json({
      choices: [{ index: '__proto__', message: { content: 'No.' }, finish_reason: 'stop' }],
      usage,
    }),
  ],
  [
    'a choice of a stream whose index is a text',
    true,
    events(
      { choices: [{ index: '__proto__', delta: {}, finish_reason: 'stop' }] },
      { choices: [], usage },
      '[DONE]',
    ),
  ],
  ['a list', false, json([])],
  ['nothing', false, { ...json({}), pieces: [''] }],
  ['half of an answer', false, { ...json({}), pieces: ['{"choices":[{"index":0,"mess'] }],
  ['a stream of nothing', true, sse('')],
  ['a stream that only ends', true, events('[DONE]')],
  ['a stream of usage alone', true, events({ choices: [], usage }, '[DONE]')],
  ['a stream that is cut before its head', true, { ...sse(''), ending: 'cut' }],
  ['a stream of other events', true, events({ ping: 1 }, { choices: null }, '[DONE]')],
]

let broken: FakeUpstream
let fine: FakeUpstream
let t: TestGateway
beforeAll(async () => {
  broken = await startUpstream()
  fine = await startUpstream()
  fine.answer(({ json: { stream } }) => {
    const choice = { index: 0, finish_reason: 'stop' }
    if (stream)
      return events({ choices: [{ ...choice, delta: { content: 'Fine.' } }], usage }, '[DONE]')
    return json({
      choices: [{ ...choice, message: { role: 'assistant', content: 'Fine.' } }],
      usage,
    })
  })
  const provider = ({ url }: FakeUpstream) => ({
    use: 'openai-compatible',
    options: { baseURL: `${url}/v1` },
  })
  const model = (...providers: string[]) => ({
    pricing: { prompt: '0.000001', completion: '0.000002' },
    capabilities: ['STREAMING' as const],
    deployments: providers.map((provider, priority) => ({ provider, model: 'm', priority })),
  })
  t = await createTestGateway({
    routing: { cooldown: 0 },
    providers: { broken: provider(broken), fine: provider(fine) },
    models: { 'acme/alone': model('broken'), 'acme/pair': model('broken', 'fine') },
  })
})
afterAll(async () => {
  await t.close()
  await broken.close()
  await fine.close()
})

describe.each(BROKEN)('%s', (_name, stream, answer) => {
  const messages = [{ role: 'user', content: 'Hi' }]

  it('is a failure of the vendor, and costs nothing', async () => {
    broken.answer(answer)
    const before = await t.balance()
    const { status, json: body } = await t.chat({ model: 'acme/alone', messages, stream })
    expect([status, body.error.code]).toEqual([502, 'upstream_error'])
    expect(await t.balance()).toBe(before)
    expect(t.logged.join('\n')).not.toContain('internal error')
  })

  it('leaves the call to another deployment', async () => {
    broken.answer(answer)
    const { status, text } = await t.chat({ model: 'acme/pair', messages, stream })
    expect([status, text.includes('Fine.')]).toEqual([200, true])
  })
})
