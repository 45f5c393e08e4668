/** Messages whose source text is copied upstream, and answers whose text is written by us. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { json, startUpstream, type FakeUpstream } from '../../upstream.ts'
import { createTestGateway, eventsOf, type TestGateway } from '../../_setup.ts'

const LONG = 'Straße "12"\\3\n'.repeat(60)
/** The JSON of a vendor that sends ASCII only. */
const LONG_JSON = JSON.stringify(LONG).replaceAll('ß', '\\u00df')

let upstream: FakeUpstream
let t: TestGateway

beforeAll(async () => {
  upstream = await startUpstream()
  t = await createTestGateway({
    providers: {
      vendor: { use: 'openai-compatible', options: { baseURL: upstream.url, apiKey: 'none' } },
    },
    models: {
      'acme/swift': {
        pricing: { prompt: '0.000001', completion: '0.000002' },
        capabilities: ['STREAMING', 'TOOLS', 'VISION'],
        deployments: [{ provider: 'vendor', model: 'swift' }],
      },
    },
  })
})
afterAll(async () => {
  await t.close()
  await upstream.close()
})
beforeEach(() => upstream.answer(saying(LONG_JSON)))

function saying(content: string) {
  const usage = '{"prompt_tokens":10,"completion_tokens":20,"total_tokens":30}'
  const message = `{"role":"assistant", "content" : ${content}, "refusal":null}`
  const text = `{"choices":[{"index":0,"message":${message},"finish_reason":"stop"}],"usage":${usage}}`
  return { ...json({}), pieces: [text] }
}

const bodySent = () => upstream.requests.at(-1)!.body.toString()
const ask = (messages: string, more = '', key?: string) =>
  t.chat(`{"model":"acme/swift", "messages" : ${messages}${more}}`, key ? { key } : {})

describe('the messages', () => {
  it('go upstream with their source text', async () => {
    const messages = '[ {"role":"user","content":"\\u0061 \\/ ä 🚀", "n": 12345678901234567890} ]'
    const answer = await ask(messages, ',"temperature":1.0,"max_tokens":5')
    expect(answer.status).toBe(200)
    expect(bodySent()).toContain(messages)
    expect(upstream.requests.at(-1)!.json).toEqual({
      model: 'swift',
      messages: JSON.parse(messages),
      temperature: 1,
      max_completion_tokens: 5,
    })
  })

  it.each([
    ['a name is there twice', '[{"role":"user","content":"one","content":"two"}]', 'two'],
    ['something is left out', '[{"role":"user","content":"two","name":null}]', 'two'],
  ])('are written anew where %s', async (_what, messages, content) => {
    await ask(messages)
    expect(bodySent()).toContain(`"messages":[{"role":"user","content":"${content}"}]`)
  })

  it('are those that were looked at when there are two lists', async () => {
    const second = '[{"role":"user","content":"two"}]'
    await ask('[{"role":"user","content":"one"}]', `,"messages":${second}`)
    expect(bodySent()).toContain(second)
    expect(bodySent()).not.toContain('one')
  })

  it('have the rules of the key before them', async () => {
    const { secret } = await t.newKey({ policy: { version: 1, systemPrompt: 'Be kind.' } })
    await ask('[{"role":"user","content":"\\u0061"}]', '', secret)
    expect(upstream.requests.at(-1)!.json.messages).toEqual([
      { role: 'system', content: 'Be kind.' },
      { role: 'user', content: 'a' },
    ])
  })

  it('are sent again when the vendor failed', async () => {
    let calls = 0
    upstream.answer(() => (++calls === 1 ? json({ error: {} }, 500) : saying(LONG_JSON)))
    const messages = '[{"role":"user","content":"\\u0061gain"}]'
    expect((await ask(messages)).status).toBe(200)
    expect(calls).toBe(2)
    expect(upstream.requests.slice(-2).map(({ body }) => body.toString())).toEqual([
      expect.stringContaining(messages),
      expect.stringContaining(messages),
    ])
  })
})

describe('a long answer', () => {
  it('has the text that the vendor wrote', async () => {
    const answer = await ask('[{"role":"user","content":"Hi"}]')
    expect(answer.json).toMatchObject({
      object: 'chat.completion',
      model: 'acme/swift',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: LONG, refusal: null },
          finish_reason: 'stop',
          logprobs: null,
        },
      ],
      usage: { prompt_tokens: 10, completion_tokens: 20, cost: 0.00005 },
    })
    expect(answer.headers['content-length']).toBe(String(Buffer.byteLength(answer.text)))
  })

  it('says the same as a stream', async () => {
    const answer = await ask('[{"role":"user","content":"Hi"}]', ',"stream":true')
    const said = eventsOf(answer.text).flatMap(({ choices }) => choices ?? [])
    expect(said.map(({ delta }) => delta.content ?? '').join('')).toBe(LONG)
  })

  it('is cut by a policy', async () => {
    const { secret } = await t.newKey({ policy: { version: 1, bannedPatterns: ['"12"'] } })
    const answer = await ask('[{"role":"user","content":"Hi"}]', '', secret)
    expect(answer.status).toBe(200)
    expect(answer.json.choices[0].message.content).not.toContain('"12"')
  })

  it('is not mended: half a character at its end', async () => {
    upstream.answer(saying(`"${'x'.repeat(600)}\\ud83d"`))
    const answer = await ask('[{"role":"user","content":"Hi"}]')
    expect(answer.json.choices[0].message.content).toBe(`${'x'.repeat(600)}\ufffd`)
  })
})
