/** Masking of what coding assistants send, and of recorded answers of vendors. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { describeRecorded, whole } from '../fixtures.ts'
import { anthropic, openAI, openAIResponses } from '../sdk/_voices.ts'
import { createTestGateway, type TestGateway } from '../_setup.ts'
import { startUpstream, type FakeUpstream } from '../upstream.ts'

const DOMAIN = 'kestrelmail.net'
/** Members whose texts are a client's words, whatever they are in. */
const WORDS = new Set(['text', 'content', 'output', 'description', 'instructions', 'thinking'])

let vendor: FakeUpstream
let t: TestGateway
let key = ''
beforeAll(async () => {
  vendor = await startUpstream()
  const options = { baseURL: `${vendor.url}/v1`, apiKey: 'k' }
  const at = (provider: string, more = {}) => ({
    pricing: { prompt: '0.000001', completion: '0.000001' },
    capabilities: ['STREAMING' as const, 'TOOLS' as const, 'VISION' as const, 'REASONING' as const],
    deployments: [{ provider, model: 'theirs', options: more }],
  })
  t = await createTestGateway({
    guards: { use: [{ use: 'pii', mask: 'keys' }] },
    providers: {
      anthropic: { use: 'anthropic', options },
      openai: { use: 'openai', options },
      server: { use: 'openai-compatible', options },
    },
    models: {
      'anthropic/claude-sonnet-5': at('anthropic'),
      'openai/gpt-5.6': at('openai', { api: 'responses' }),
      'mock/echo': at('server'),
    },
  })
  key = (await t.newKey({ mask: true })).secret
})
afterAll(async () => {
  await t.close()
  await vendor.close()
})

/** A body with an address of its own in each of its texts. @param isText whether a value is words, whatever is in it */
function planted(value: unknown, add: () => string, isText = false): unknown {
  if (typeof value === 'string') return isText && value !== '' ? `${value} ${add()}` : value
  if (Array.isArray(value)) return value.map((one) => planted(one, add, isText))
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).map(([name, inner]) => {
    // All of the input of a tool is words; that of a request is a list of items.
    const isInput = name === 'input' && !Array.isArray(inner)
    const isWords = isInput || (typeof inner === 'string' && WORDS.has(name))
    return [name, planted(inner, add, isText || isWords)]
  })
  return Object.fromEntries(entries)
}

describe.each([
  ['claude-code', anthropic],
  ['codex', openAIResponses],
  ['opencode', openAI()],
] as const)('requests of %s', (client, voice) => {
  it('leave without a value in any of their texts, and come back with all that were said', async () => {
    const file = join(import.meta.dirname, `../wire/clients/${client}.json`)
    const { requests } = JSON.parse(readFileSync(file, 'utf8'))
    for (const { url, headers, body } of requests.filter((one: any) => one.body)) {
      const values: string[] = []
      const add = () => {
        values.push(`person${values.length}@${DOMAIN}`)
        return values.at(-1)!
      }
      const sent = planted(body, add)
      expect(values.length).toBeGreaterThan(1)
      let echoed = ''
      vendor.answer((request) => {
        echoed = [...request.body.toString().matchAll(/\[EMAIL_\d{4}\]/g)].join(' ')
        return voice({ text: echoed }, request)
      })
      const { authorization: _, ...others } = headers
      const answer = await t.ask('POST', url, { key, headers: others, body: sent })
      expect(answer.status, answer.text).toBe(200)
      expect(vendor.requests.at(-1)!.body.toString()).not.toContain(DOMAIN)
      expect(new Set(echoed.split(' ')).size).toBe(values.length)
      const text = [...answer.text.matchAll(/^data: (\{.*)$/gm)]
        .map(([, data]) => JSON.parse(data!))
        .map(
          (one) =>
            one.delta?.text ??
            one.choices?.[0]?.delta?.content ??
            (one.type === 'response.output_text.delta' ? one.delta : ''),
        )
        .join('')
      for (const value of values) expect(text).toContain(value)
    }
  })
})

describeRecorded(
  'recorded answers',
  ['openai', 'openrouter', 'together', 'groq'],
  /chat\/completions/,
  (all) => {
    it.each(
      all
        .filter(({ status, request }) => status === 200 && request)
        .map((one) => [one.name, one] as const),
    )('%s is the same for a key that masks', async (_, recording) => {
      vendor.answer(() => whole(recording))
      const { stream } = recording
      const messages = [{ role: 'user', content: `Write to someone@${DOMAIN}.` }]
      const body = { model: 'mock/echo', messages, stream }
      const said = async (secret: string) => {
        const { status, text } = await t.ask('POST', '/v1/chat/completions', { key: secret, body })
        const events = stream
          ? [...text.matchAll(/^data: (\{.*)$/gm)].map(([, one]) => one!)
          : [text]
        const deltas = events
          .map((one) => JSON.parse(one).choices?.[0])
          .map((one) => one?.delta ?? one?.message ?? {})
        const join = (of: (delta: any) => unknown) => deltas.map((one) => of(one) ?? '').join('')
        return {
          status,
          content: join((one) => one.content),
          reasoning: join((one) => one.reasoning),
          calls: join((one) =>
            one.tool_calls?.map(
              ({ function: called }: any) => `${called.name ?? ''}${called.arguments ?? ''}`,
            ),
          ),
          annotations: deltas.flatMap((one) => one.annotations ?? []),
        }
      }
      expect(await said(key)).toEqual(await said(t.key.secret))
    })
  },
)
