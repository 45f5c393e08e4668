/** The two ways of a request of the Responses API, side by side: to the vendor as it came, and translated. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, type TestGateway } from '../../../../_setup.ts'
import { recordingsOf } from '../../../../fixtures.ts'
import { sse, startUpstream, type FakeUpstream } from '../../../../upstream.ts'
import { streamed } from './_events.ts'

const transcripts = join(import.meta.dirname, '../../../../providers/transcripts')
const bodyOf = (text: string) => text.slice(text.search(/\r?\n\r?\n/)).trimStart()
const byHand = (vendor: string, pattern: RegExp) =>
  readdirSync(join(transcripts, vendor))
    .filter((name) => name.endsWith('.http') && pattern.test(name))
    .map((name) => [name, bodyOf(readFileSync(join(transcripts, vendor, name), 'utf8'))] as const)

/** Streams of vendors with this API, by hand and recorded. `done-only` has a call without an end, which passes as it came. */
const own = [
  ...byHand('openai', /^responses-(?!done-only)/),
  ...recordingsOf(['openai'], /\/responses(\?|$)/).map(
    ({ name, body }) => [name, body.toString()] as const,
  ),
].filter(([, body]) => body.includes('event: response.created'))
const foreign = byHand('anthropic', /./).filter(([, body]) => body.includes('event: message_start'))

const ask = {
  stream: true,
  input: 'Weather in Oslo?',
  include: ['reasoning.encrypted_content'],
  tools: [{ type: 'function', name: 'weather', parameters: { type: 'object' } }],
  moderation: {},
}
/** Nothing of it is in the answers; that answers are read has the requests translated. */
const reading = { version: 1 as const, bannedPatterns: ['swordfish'] }

let upstream: FakeUpstream
let gateway: TestGateway
beforeAll(async () => {
  upstream = await startUpstream()
  const options = { apiKey: 'k', baseURL: upstream.url }
  const pricing = { prompt: '0.000003', completion: '0.000015' }
  gateway = await createTestGateway({
    routing: { cooldown: 0 },
    providers: {
      openai: { use: 'openai', options },
      anthropic: { use: 'anthropic', options },
    },
    models: {
      'acme/gpt': { pricing, deployments: [{ provider: 'openai', model: 'gpt-5.6' }] },
      'acme/claude': {
        pricing,
        deployments: [{ provider: 'anthropic', model: 'claude-sonnet-5' }],
      },
    },
  })
})
afterAll(async () => {
  await gateway.close()
  await upstream.close()
})

/** The answer of the last event. Servers differ in the order of events; those of the gateway have that of the API. */
function lastOf(text: string): any {
  const events = text.split('\n\n').filter((event) => event.includes('\ndata: {'))
  return JSON.parse(events.at(-1)!.split('\ndata: ')[1]!).response
}

async function answered(model: string, key: string, body: string, isNative = false) {
  upstream.answer(sse(body))
  const before = await gateway.balance()
  const { status, text } = await gateway.ask('POST', '/v1/responses', {
    key,
    body: { ...ask, model },
  })
  const response = status === 200 ? (isNative ? lastOf(text) : streamed(text).response) : undefined
  return {
    status,
    charged: before - (await gateway.balance()),
    ended: response?.status,
    // What is not complete, a guard may retain and a server may not have announced.
    said: response?.status === 'completed' ? textsOf(response.output) : {},
  }
}

describe('a recorded answer', () => {
  it.each(own)('says the same and costs the same in both: %s', async (_name, body) => {
    const { secret: reader } = await gateway.newKey({ policy: reading })
    const before = upstream.requests.length
    const native = await answered('acme/gpt', gateway.key.secret, body, true)
    const translated = await answered('acme/gpt', reader, body)
    expect(translated).toEqual(native)
    const [first, second] = [upstream.requests[before], upstream.requests.at(-1)]
    expect(first!.json).toHaveProperty('moderation')
    expect(second!.json).not.toHaveProperty('moderation')
  })

  it.each(foreign)('of another vendor is in the order of the API: %s', async (_name, body) => {
    const { secret: reader } = await gateway.newKey({ policy: reading })
    const plain = await answered('acme/claude', gateway.key.secret, body)
    expect(await answered('acme/claude', reader, body)).toEqual(plain)
  })
})

/** Texts and calls, each kind joined: the normal form has one message for those of an answer. */
function textsOf(output: readonly any[]): object {
  const parts = output.filter(({ type }) => type === 'message').flatMap(({ content }) => content)
  const calls = output.filter(({ call_id }) => call_id)
  return {
    text: parts.map(({ text, refusal }) => text ?? refusal).join('\n\n'),
    calls: calls.map(({ name, arguments: given, input }) => [name, given ?? input]),
  }
}
