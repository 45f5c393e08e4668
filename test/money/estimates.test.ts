/** What is charged where a vendor counts nothing, or counts a part with zero: nothing that was consumed is free. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { UserConfig } from '../../src/config/config.ts'
import { everyEndpointConfig, MODELS, REQUESTS, type Script } from '../_every-endpoint.ts'
import { definePlugin } from '../_plugin.ts'
import { createTestGateway, eventsOf, type Answer, type TestGateway } from '../_setup.ts'

const script: Script = { ending: 'normal', usage: undefined, gate: Promise.resolve() }
let t: TestGateway
beforeAll(async () => {
  const config = everyEndpointConfig(script)
  const models: UserConfig['models'] = {
    ...MODELS,
    'acme/eyes': {
      ...MODELS['acme/chat'],
      pricing: { prompt: '0.000001', audio: '0.00001', completion: '0.000002' },
      capabilities: ['STREAMING', 'VISION', 'FILE_INPUT', 'AUDIO_INPUT', 'TOOLS'],
    },
  }
  t = await createTestGateway({ ...config, models })
})
afterAll(() => t.close())

const data = (bytes: number, type: string) =>
  `data:${type};base64,${Buffer.alloc(bytes, 7).toString('base64')}`
const image = (detail?: string) => ({
  type: 'image_url',
  image_url: { url: 'https://images.example/one.png', ...(detail && { detail }) },
})
const file = (bytes: number) => ({
  type: 'file',
  file: { filename: 'one.pdf', file_data: data(bytes, 'application/pdf') },
})
const sound = (bytes: number) => ({
  type: 'input_audio',
  input_audio: { data: Buffer.alloc(bytes, 7).toString('base64'), format: 'wav' },
})

async function rowOf(answer: Answer) {
  for await (const row of t.gateway.runtime.ledger.usage('acme')) {
    if (row.request === answer.headers['x-request-id']) return row
  }
  throw new Error('the call has no row')
}

describe('a chat whose vendor reports no usage', () => {
  const ask = async (content: unknown, more: object = {}) => {
    script.usage = undefined
    const answer = await t.chat({
      model: 'acme/eyes',
      messages: [{ role: 'user', content }],
      ...more,
    })
    expect(answer.status, answer.text).toBe(200)
    const usage = more && 'stream' in more ? eventsOf(answer.text).at(-2).usage : answer.json.usage
    const row = await rowOf(answer)
    expect(row.cost).toBe(BigInt(Math.round(usage.cost * 1e12)))
    expect(row.usage!.flags).toEqual(['estimated'])
    return usage
  }

  it.each([false, true])('is charged for the images that were sent (streamed: %s)', async (on) => {
    const more = on ? { stream: true } : {}
    const { prompt_tokens: plain } = await ask('What is this?', more)
    const content = [{ type: 'text', text: 'What is this?' }, image(), image(), image('low')]
    const usage = await ask(content, more)
    expect(usage.prompt_tokens).toBe(plain + 1500 + 1500 + 100)
    expect(usage.prompt_tokens_details.image_tokens ?? 3100).toBe(3100)
  })

  it('is charged for files by their size', async () => {
    const { prompt_tokens: tokens } = await ask([file(1_000_000)])
    expect(tokens).toBeGreaterThanOrEqual(20_001)
    expect(tokens).toBeLessThanOrEqual(20_003)
    expect((await ask([file(10)])).prompt_tokens).toBe(1 + 1500)
  })

  it('is charged for sound, at its own price', async () => {
    const { prompt_tokens, prompt_tokens_details, cost } = await ask([sound(500_000)])
    expect(prompt_tokens).toBeGreaterThanOrEqual(1001)
    expect(prompt_tokens).toBeLessThanOrEqual(1002)
    expect(prompt_tokens_details.audio_tokens).toBe(prompt_tokens - 1)
    expect(cost).toBeGreaterThan(0.01)
  })

  it('is charged for tools, calls and schemas', async () => {
    const { prompt_tokens: plain } = await ask('Hi.')
    const description = 'word '.repeat(400)
    const tools = [{ type: 'function', function: { name: 'f', description } }]
    const { prompt_tokens } = await ask('Hi.', { tools })
    expect(prompt_tokens - plain).toBeGreaterThanOrEqual(500)
    expect(prompt_tokens - plain).toBeLessThan(550)
  })
})

describe('a count of zero for something that was consumed', () => {
  const ask = async (name: string, usage: unknown) => {
    script.usage = usage
    const answer = await REQUESTS.find((one) => one.name === name)!.ask(t)
    expect(answer.status, answer.text).toBe(200)
    return rowOf(answer)
  }

  it.each([
    ['images', { images: 0, promptTokens: 9, completionTokens: 9 }],
    ['images, streamed', { images: 0, promptTokens: 9, completionTokens: 9 }],
    ['edits', { images: 0, promptTokens: 9, completionTokens: 9 }],
    ['ocr', { pages: 0, promptTokens: 9 }],
    ['transcription', { seconds: 0, promptTokens: 9, completionTokens: 9 }],
    ['transcription, streamed', { seconds: 0, promptTokens: 9, completionTokens: 9 }],
    ['chat', { prompt_tokens: 0, completion_tokens: 9 }],
    ['chat', { prompt_tokens: 9, completion_tokens: 0 }],
  ])('is an estimate: %s, %j', async (name, usage) => {
    const { cost, usage: { flags, lines } = {} } = await ask(name, usage)
    expect(flags).toEqual(['estimated'])
    const [{ usage: charged }] = lines as any
    for (const [member, count] of Object.entries(charged)) {
      if (typeof count === 'number') expect(count, member).toBeGreaterThan(0)
    }
    expect(cost).toBeGreaterThan(0n)
  })
})

describe('images, pages and seconds above their bounds', () => {
  const asked = (name: string) => REQUESTS.find((one) => one.name === name)!
  const absurd = () => {
    const text = t.gateway.runtime.metrics.text()
    return Number(/sluicegate_usage_absurd_total\{provider="every"\} (\d+)/.exec(text)?.[1] ?? 0)
  }
  const tokens = { promptTokens: 9, completionTokens: 9 }

  it.each([
    ['images', 'images', 1, 2, 8, 9],
    ['edits', 'images', 1, 2, 8, 9],
    ['ocr', 'pages', 3, 4, 1008, 1009],
    ['transcription', 'seconds', 61, 62, 3608, 3609],
    ['transcription, streamed', 'seconds', 61, 62, 3608, 3609],
  ])('%s: %s', async (name, member, fine, more, most, tooMany) => {
    for (const count of [fine, more, most]) {
      script.usage = { ...tokens, [member]: count }
      const answer = await asked(name).ask(t)
      expect(answer.status, answer.text).toBe(200)
      const { usage } = await rowOf(answer)
      expect((usage!.lines as any)[0].usage[member]).toBe(count)
      expect(usage!.flags ?? []).toEqual(count === fine ? [] : ['suspicious'])
      if (count === fine) continue
      expect(usage!.reported).toMatchObject({ 'every/m': { [member]: { reported: count } } })
    }
    const before = absurd()
    script.usage = { ...tokens, [member]: tooMany }
    const answer = await asked(name).ask(t)
    const isFailed = answer.status === 502 || answer.text.includes('upstream_error')
    expect(isFailed, answer.text).toBe(true)
    const { cost, usage } = await rowOf(answer)
    // Some of a stream went out: it is paid by estimate.
    expect([usage!.outcome, cost > 0n]).toEqual(['failed', name.endsWith('streamed')])
    expect(usage!.reported).toMatchObject({ 'every/m': { [member]: { reported: tooMany } } })
    // Repeated once where nothing had gone out, each time with its trace.
    expect(absurd()).toBeGreaterThan(before)
    expect(t.logged.join('\n')).toContain('every/m reported absurd usage')
  })
})

describe('several reports of one stream', () => {
  const FINE = { prompt_tokens: 20, completion_tokens: 30 }
  const reports: unknown[] = []
  const several = definePlugin('several', {
    async *chat() {
      yield { choices: [{ index: 0, delta: { content: 'Hello there.' } }] }
      for (const usage of reports) yield { choices: [], usage: usage as typeof FINE }
      yield { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }
    },
  })

  it.each([
    ['texts', { prompt_tokens: '9', completion_tokens: '9' }],
    ['zeros', { prompt_tokens: 0, completion_tokens: 0 }],
    ['one count and a text', { prompt_tokens: 9, completion_tokens: 'nine' }],
    ['negative counts', { prompt_tokens: -1, completion_tokens: -1 }],
    ['nothing', {}],
  ])('charges the last one that can be read, not a later one of %s', async (_, later) => {
    await using own = await createTestGateway({
      providers: { every: { use: several } },
      models: { 'acme/chat': MODELS['acme/chat'] },
    })
    reports.splice(0, Infinity, { prompt_tokens: 9, completion_tokens: 9 }, FINE, later)
    const messages = [{ role: 'user', content: 'Hi.' }]
    const answer = await own.chat({ model: 'acme/chat', messages, stream: true })
    expect(eventsOf(answer.text).at(-2).usage).toMatchObject(FINE)
  })
})
