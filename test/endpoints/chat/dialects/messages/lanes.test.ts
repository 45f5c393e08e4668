/** The two ways of a request of the Messages API, side by side: to the vendor as it came, and translated. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventually } from '../../../../_wait.ts'
import { createTestGateway, type TestGateway } from '../../../../_setup.ts'
import { recordingsOf } from '../../../../fixtures.ts'
import { sse, startUpstream, type FakeUpstream } from '../../../../upstream.ts'
import { streamed } from './_events.ts'

const transcripts = join(import.meta.dirname, '../../../../providers/transcripts/anthropic')
/** Streams by hand, and those that were recorded. */
const streams: readonly (readonly [name: string, body: string])[] = [
  ...readdirSync(transcripts)
    .filter((name) => name.endsWith('.http'))
    .map((name) => [name, readFileSync(join(transcripts, name), 'utf8')] as const)
    .map(([name, text]) => [name, text.slice(text.search(/\r?\n\r?\n/)).trimStart()] as const),
  ...recordingsOf(['anthropic'], /\/messages(\?|$)/).map(
    ({ name, body }) => [name, body.toString()] as const,
  ),
].filter(([, body]) => body.includes('event: message_start'))

const ask = {
  model: 'acme/claude',
  max_tokens: 1000,
  stream: true,
  messages: [{ role: 'user', content: 'Weather in Oslo?' }],
  tools: [{ name: 'weather', input_schema: { type: 'object' } }],
}
/** Nothing of it is in the answers; that answers are read has the requests translated. */
const reading = { version: 1 as const, bannedPatterns: ['swordfish'] }

let upstream: FakeUpstream
let gateway: TestGateway
beforeAll(async () => {
  upstream = await startUpstream()
  gateway = await open({})
})
afterAll(async () => {
  await gateway.close()
  await upstream.close()
})

function open(server: object): Promise<TestGateway> {
  const options = { apiKey: 'k', baseURL: upstream.url }
  return createTestGateway({
    server,
    routing: { cooldown: 0 },
    providers: { vendor: { use: 'anthropic', options } },
    models: {
      'acme/claude': {
        pricing: { prompt: '0.000003', completion: '0.000015' },
        deployments: [{ provider: 'vendor', model: 'claude-sonnet-5-up' }],
      },
    },
  })
}

const post = (key: string, body: object = {}, on = gateway) =>
  on.ask('POST', '/v1/messages', { key, body: { ...ask, ...body } })

const textOf = (some: readonly object[]) =>
  some.map((one: any) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`).join('')

describe('a recorded answer', () => {
  it.each(streams)('says the same and costs the same in both: %s', async (_name, body) => {
    const { secret: reader } = await gateway.newKey({ policy: reading })
    const answers = []
    for (const key of [gateway.key.secret, reader]) {
      upstream.answer(sse(body))
      const before = await gateway.balance()
      const { status, text } = await post(key)
      const read =
        status === 200 ? streamed(text, key === reader ? 'gateway' : 'vendor') : undefined
      answers.push({
        status,
        charged: before - (await gateway.balance()),
        cost: (read?.error ?? read?.message)?.usage?.cost,
        error: read?.error?.code,
        stop: STOPS[read?.message.stop_reason] ?? read?.message.stop_reason,
        // What the vendor says of a refusal is a text only in the normal form.
        said: read?.message.stop_reason === 'refusal' ? [] : textsOf(read?.message.content ?? []),
      })
    }
    const [native, translated] = answers
    expect(translated).toEqual(native)
    // The first request went out as it came, the second one not.
    const [first, second] = upstream.requests
    expect(first!.json.tools).toEqual(ask.tools)
    expect(second!.json.tools).not.toEqual(ask.tools)
  })
})

/** A translated answer names a sequence only where the request has it. */
const STOPS: Readonly<Record<string, string>> = { stop_sequence: 'end_turn' }

/** Texts, thinking and calls. Blocks of tools that the vendor runs have no counterpart in the normal form. */
function textsOf(content: readonly any[]): object[] {
  const said = content.filter(({ type }) =>
    ['text', 'thinking', 'tool_use', 'redacted_thinking'].includes(type),
  )
  return joined(said.map(({ citations: _citations, caller: _caller, ...block }) => block))
}

/** Neighbouring texts as one, as in the normal form; empty ones are none. */
function joined(blocks: readonly any[]): object[] {
  const result: any[] = []
  for (const block of blocks) {
    const last = result.at(-1)
    if (block.type === 'text' && last?.type === 'text') last.text += block.text
    else if (block.type !== 'text' || block.text) result.push({ ...block })
  }
  return result
}

describe('a client that leaves', () => {
  const START = {
    type: 'message_start',
    message: {
      id: 'msg_vendor',
      type: 'message',
      role: 'assistant',
      model: 'm',
      content: [],
      usage: { input_tokens: 1000, output_tokens: 1 },
    },
  }
  const events = [
    START,
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'x'.repeat(400) } },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 120 } },
  ]

  it.each(events.map((_event, index) => index + 1))(
    'after %i events pays for what was produced, and leaves nothing behind',
    async (count) => {
      const { secret } = await gateway.newKey({ concurrency: 1 })
      upstream.answer({ ...sse(textOf(events.slice(0, count))), ending: 'hang' })
      const before = await gateway.balance()
      const leaving = new AbortController()
      const response = await fetch(`${gateway.baseURL}/messages`, {
        method: 'POST',
        signal: leaving.signal,
        headers: { 'x-api-key': secret, 'content-type': 'application/json' },
        body: JSON.stringify(ask),
      })
      const reader = response.body!.getReader()
      let text = ''
      // The last event waits for the charge.
      const shown = Math.min(count, events.length - 1)
      while (!text.includes(`"type":"${events[shown - 1]!.type}"`)) {
        text += new TextDecoder().decode((await reader.read()).value)
      }
      leaving.abort()
      expect(await upstream.requests.at(-1)!.aborted).toBe(true)
      await eventually(() => expect(gateway.gateway.running.size).toBe(0))
      const charged = before - (await gateway.balance())
      const prompt = 1000n * 3_000_000n
      const output = count < 3 ? 1n : count < 5 ? 100n : 120n
      expect(charged).toBe(prompt + output * 15_000_000n)
      // Its slot is free again.
      upstream.answer(sse(textOf([...events, { type: 'message_stop' }])))
      expect((await post(secret)).status).toBe(200)
    },
  )
})

describe('a slow vendor', () => {
  const bodyOf = (key: string, on: TestGateway, events: readonly object[] = []) => {
    upstream.answer({
      ...sse('x'),
      pieces: events.length > 0 ? [textOf(events)] : [],
      ending: 'hang',
    })
    return fetch(`${on.baseURL}/messages`, {
      method: 'POST',
      headers: { 'x-api-key': key, 'content-type': 'application/json' },
      body: JSON.stringify(ask),
    })
  }
  const readUntil = async (response: Response, words: RegExp) => {
    const reader = response.body!.getReader()
    let text = ''
    while (!words.test(text)) text += new TextDecoder().decode((await reader.read()).value)
    await reader.cancel()
    return text
  }
  const pings = /(event: ping\ndata: \{"type":"ping"\}\n\n){2}/

  it('has the message begin early, and pings follow', async () => {
    await using slow = await open({ headTimeout: 0.1, keepAlive: 0.1 })
    const { secret } = await slow.newKey({ policy: reading })
    const text = await readUntil(await bodyOf(secret, slow), pings)
    expect(text).toMatch(/^event: message_start\n/)
    expect(text).toMatch(/"input_tokens":[1-9]/)
  })

  it('has its text go out before the end, although it has not signed its thinking', async () => {
    const { secret } = await gateway.newKey({ policy: reading })
    const begun = [
      { type: 'message_start', message: { usage: { input_tokens: 5, output_tokens: 1 } } },
      { type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '' } },
      {
        type: 'content_block_delta',
        index: 0,
        delta: { type: 'thinking_delta', thinking: 'Where is Oslo? Far in the north.' },
      },
      { type: 'content_block_stop', index: 0 },
      { type: 'content_block_start', index: 1, content_block: { type: 'text', text: '' } },
      {
        type: 'content_block_delta',
        index: 1,
        delta: { type: 'text_delta', text: 'It rains in Oslo, and the wind comes from the west.' },
      },
    ]
    const response = await bodyOf(secret, gateway, begun)
    const text = await readUntil(response, /It rains in/)
    expect(text).toMatch(/thinking_delta[^]*signature_delta[^]*text_delta/)
  })

  it('that gets the request as it came leaves the beginning to the vendor', async () => {
    await using slow = await open({ headTimeout: 0.1, keepAlive: 0.1 })
    const text = await readUntil(await bodyOf(slow.key.secret, slow), pings)
    expect(text).not.toContain('message_start')
  })
})
