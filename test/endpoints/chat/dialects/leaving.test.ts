/** Clients that leave within an answer, in every form of chat and in both lanes: the slot is free, and what was said is paid. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createTestGateway, type TestGateway } from '../../../_setup.ts'
import { eventually } from '../../../_wait.ts'
import { json, sse, startUpstream, type FakeUpstream } from '../../../upstream.ts'

let vendor: FakeUpstream
let t: TestGateway
beforeAll(async () => {
  vendor = await startUpstream()
  const options = { apiKey: 'k', baseURL: `${vendor.url}/v1` }
  const at = (provider: string, model: string, more: object = {}) => ({
    pricing: { prompt: '0.000003', completion: '0.000015' },
    capabilities: ['STREAMING' as const],
    deployments: [{ provider, model }],
    ...more,
  })
  t = await createTestGateway({
    providers: {
      plain: { use: 'openai-compatible', options },
      claude: { use: 'anthropic', options },
      gpt: { use: 'openai', options },
    },
    models: {
      'v/plain': at('plain', 'plain', {
        capabilities: ['STREAMING', 'COMPLETIONS'],
        deployments: [{ provider: 'plain', model: 'plain', options: { completions: true } }],
      }),
      'v/claude': at('claude', 'claude-sonnet-5'),
      'v/gpt': at('gpt', 'gpt-5.4'),
    },
  })
})
afterAll(async () => {
  await t.close()
  await vendor.close()
})

/** 16 characters, 4 tokens, and 40 characters, 10 tokens. */
const ASKED = 'Weather in Oslo?'
const SAID = 'Cold and grey, and a wind from the west.'
const TURN = [{ role: 'user', content: ASKED }]
const FORMS: Readonly<Record<string, object>> = {
  'chat/completions': { messages: TURN },
  messages: { messages: TURN, max_tokens: 500 },
  responses: { input: ASKED },
  completions: { prompt: ASKED, max_tokens: 500 },
}

const named = (...all: readonly { readonly type: string }[]) =>
  all.map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`).join('')
const bare = (choice: object) => `data: ${JSON.stringify({ choices: [choice] })}\n\n`
const place = { item_id: 'msg_1', output_index: 0, content_index: 0 }
const part = { type: 'output_text', text: '', annotations: [] }
const item = { id: 'msg_1', type: 'message', role: 'assistant', status: 'in_progress', content: [] }
const response = { id: 'resp_1', object: 'response', status: 'in_progress', output: [] }

/** What each vendor says of an answer that does not end. */
function begun(path: string): string {
  if (path.endsWith('/messages')) {
    // It counts no tokens yet, so that all vendors are estimated alike.
    const message = { id: 'm', type: 'message', role: 'assistant', model: 'x', content: [] }
    return named(
      { type: 'message_start', message } as any,
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } } as any,
      {
        type: 'content_block_delta',
        index: 0,
        delta: { type: 'text_delta', text: SAID },
      } as any,
    )
  }
  if (path.endsWith('/responses')) {
    return named(
      { type: 'response.created', response } as any,
      { type: 'response.output_item.added', output_index: 0, item } as any,
      { type: 'response.content_part.added', ...place, part } as any,
      { type: 'response.output_text.delta', ...place, delta: SAID } as any,
    )
  }
  const said = path.endsWith('/chat/completions') ? { delta: { content: SAID } } : { text: SAID }
  return bare({ index: 0, ...said, finish_reason: null })
}

const CASES = [
  ['chat/completions', 'plain'],
  ['completions', 'plain'],
  ...['messages', 'responses'].flatMap((form) =>
    ['plain', 'claude', 'gpt'].map((model) => [form, model] as const),
  ),
] as const
const LANES = [undefined, { version: 1 as const, bannedPatterns: ['swordfish'] }]

it.each(CASES)('of %s, from the vendor %s', async (form, model) => {
  for (const policy of LANES) {
    const { secret } = await t.newKey({ concurrency: 1, ...(policy && { policy }) })
    const body = JSON.stringify({ model: `v/${model}`, ...FORMS[form], stream: true })
    const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' }
    const before = await t.balance()
    vendor.answer(({ path }) => ({ ...sse(begun(path)), ending: 'hang' }))
    const leaving = new AbortController()
    const { signal } = leaving
    const answer = await fetch(`${t.baseURL}/${form}`, { method: 'POST', signal, headers, body })
    let text = ''
    const reader = answer.body!.getReader()
    while (!text.includes('Cold')) {
      text += new TextDecoder().decode((await reader.read()).value)
    }
    leaving.abort()
    expect(await vendor.requests.at(-1)!.aborted).toBe(true)
    await eventually(() => expect(t.gateway.running.size).toBe(0))
    expect(before - (await t.balance())).toBe(4n * 3_000_000n + 10n * 15_000_000n)
    // Its only slot is free: a refusal of the vendor is told, and not one of the gateway.
    vendor.answer(json({ error: { message: 'no', type: 'invalid_request_error' } }, 400))
    expect((await t.ask('POST', `/v1/${form}`, { key: secret, body })).status).toBe(400)
  }
  expect(await t.gateway.runtime.ledger.verify()).toEqual([])
})
