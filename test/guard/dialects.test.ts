/** The same words through every kind of vendor: guards read what the gateway makes of it, so none is a way around. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, type Answer as Got, type TestGateway } from '../_setup.ts'
import { startUpstream, type FakeResponse, type FakeUpstream } from '../upstream.ts'
import { DIALECTS, type Dialect, type Said } from './_dialects.ts'
import { readStream } from './_setup.ts'

const NO = "I can't help with that here."
const RULES = { version: 1, bannedPatterns: ['heron'] } as const
const BLOCKED: Said = { text: 'Out there stands a grey heron, and it waits.' }
/** What violates here is left out, and the answer goes on. */
const THOUGHT: Said = { thought: 'They want to hear about a heron.', text: 'A bird stands there.' }
/** Not visible to a reader of one piece, one form or one letter at a time. */
const HIDDEN: Said = { text: 'It is a h\u200be\u0301R\uff4fn, look.' }

let vendor: FakeUpstream
let t: TestGateway
const keys = { scan: '', buffer: '' }

beforeAll(async () => {
  vendor = await startUpstream()
  const settings = DIALECTS.map(({ use, options }, index) => [
    `vendor${index}`,
    { use, options: options(vendor.url) },
  ])
  const models = DIALECTS.map(({ deployment: options = {} }, index) => [
    `acme/${index}`,
    {
      pricing: { prompt: '0', completion: '0' },
      capabilities: ['STREAMING'],
      deployments: [{ provider: `vendor${index}`, model: 'swift', options }],
    },
  ])
  t = await createTestGateway({
    providers: Object.fromEntries(settings),
    models: Object.fromEntries(models),
    guards: { use: [] },
  })
  for (const stream of ['scan', 'buffer'] as const) {
    keys[stream] = (await t.newKey({ policy: { ...RULES, guard: { stream } } })).secret
  }
})
afterAll(async () => {
  await t.close()
  await vendor.close()
})

function ask(dialect: Dialect, answer: FakeResponse, key: string, stream: boolean): Promise<Got> {
  vendor.answer(answer)
  const model = `acme/${DIALECTS.indexOf(dialect)}`
  const messages = [{ role: 'user', content: 'Hi' }]
  return t.chat({ model, max_tokens: 100, messages, stream }, { key })
}

/** What a client gets of the same reply: as it comes, at the end, and whole. */
async function everyWay(dialect: Dialect, said: Said) {
  const { json } = await ask(dialect, dialect.whole(said), keys.scan, false)
  const { message, finish_reason: finish } = json.choices[0]
  return {
    scanned: readStream(await ask(dialect, dialect.stream(said), keys.scan, true)),
    buffered: readStream(await ask(dialect, dialect.stream(said), keys.buffer, true)),
    whole: {
      content: message.content as string,
      reasoning: (message.reasoning ?? '') as string,
      finish,
      guard: json.guard,
    },
  }
}

describe.each(DIALECTS.map((dialect) => [dialect.name, dialect] as const))(
  'by way of %s',
  (_, dialect) => {
    it.each([
      ['as it is written', BLOCKED, 'Out there stands a grey '],
      ['however it is written', HIDDEN, 'It is a '],
    ])('a violation is the same, %s', async (_how, said, before) => {
      const { scanned, buffered, whole } = await everyWay(dialect, said)
      expect(scanned.content).toBe(`${before}\n\n${NO}`)
      expect([buffered.content, whole.content]).toEqual([NO, NO])
      for (const { finish, guard } of [scanned, buffered, whole]) {
        expect(finish).toBe('content_filter')
        expect(guard).toEqual({
          outcome: 'blocked',
          side: 'output',
          rules: ['bannedPatterns[0]'],
          choices: [0],
          unscanned: [],
          degraded: [],
        })
      }
    })

    if (!dialect.thinks) return

    it('thoughts that violate are left out, and the answer goes on', async () => {
      const { scanned, buffered, whole } = await everyWay(dialect, THOUGHT)
      expect(scanned.reasoning).toBe('They want to hear about a ')
      expect([buffered.reasoning, whole.reasoning]).toEqual(['', ''])
      for (const { content, finish, guard } of [scanned, buffered, whole]) {
        expect([content, finish, guard.outcome]).toEqual([THOUGHT.text, 'stop', 'passed'])
      }
    })

    it('thoughts that keep to the rules arrive, and the answer too', async () => {
      const said = { thought: 'They want to hear about a bird.', text: 'A bird stands there.' }
      const { scanned, buffered, whole } = await everyWay(dialect, said)
      for (const { content, reasoning } of [scanned, buffered, whole]) {
        expect({ thought: reasoning, text: content }).toEqual(said)
      }
    })
  },
)
