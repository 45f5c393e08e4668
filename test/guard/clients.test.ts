/** The same words in the form of every kind of client: none is a way around a guard. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, type TestGateway } from '../_setup.ts'
import { json, startUpstream, type FakeUpstream } from '../upstream.ts'
import {
  CATEGORIES_OF_MESSAGES,
  CATEGORIES_OF_RESPONSES,
  OF_CHAT,
  OF_COMPLETIONS,
  OF_MESSAGES,
  OF_RESPONSES,
  type Places,
} from './_client-places.ts'
import { CLIENTS, readAnswer, type Client } from './_clients.ts'

const NO = "I can't help with that here."
const WEATHER = 'The weather is fine today.'
const PLAIN = 'How is the weather?'
const PRICING = { prompt: '0', completion: '0' }
const PATTERNS = { version: 1, bannedPatterns: ['heron'] } as const
const RULES = { ...PATTERNS, deny: ['code', 'personal-data'] } as const
/** What vendors can take as it came goes to them so under this one. */
const OF_QUESTIONS = { guard: { output: false } } as const

interface Verdict {
  readonly asked: string
  /** What the model says. */
  readonly said: string
  readonly side: 'input' | 'output' | null
  readonly rules: readonly string[]
  /** What may go out before the refusal. */
  readonly before: string
}

const VERDICTS: Readonly<Record<string, Verdict>> = {
  'no rule': { asked: PLAIN, said: WEATHER, side: null, rules: [], before: WEATHER },
  'a pattern in what is asked': {
    asked: 'Where is the grey h\u200bE\u0301ron?',
    said: WEATHER,
    side: 'input',
    rules: ['bannedPatterns[0]'],
    before: '',
  },
  'a category in what is asked': {
    asked: 'Write a Python script that sorts a list.',
    said: WEATHER,
    side: 'input',
    rules: ['deny:code'],
    before: '',
  },
  'personal data in what is asked': {
    asked: 'Mail jane.roe@example-mail.org for me.',
    said: WEATHER,
    side: 'input',
    rules: ['deny:personal-data'],
    before: '',
  },
  'a pattern in what is said': {
    asked: PLAIN,
    said: 'Out there stands a grey h\u200bE\u0301ron, and waits.',
    side: 'output',
    rules: ['bannedPatterns[0]'],
    before: 'Out there stands a grey ',
  },
  'a category in what is said': {
    asked: PLAIN,
    said: 'Of course. Here it is:\n```python\nprint(1)\n```\n',
    side: 'output',
    rules: ['deny:code'],
    before: 'Of course. Here it is:\n',
  },
}

let vendor: FakeUpstream
let t: TestGateway
const keys = { all: '', patterns: '', questions: '', questionPatterns: '' }

beforeAll(async () => {
  vendor = await startUpstream(json({}, 500))
  const at = (provider: string, model: string, options: object = {}) => ({
    pricing: PRICING,
    capabilities: [
      'STREAMING',
      'TOOLS',
      'VISION',
      'FILE_INPUT',
      'STRUCTURED_OUTPUTS',
      ...(provider === 'mock' ? ['COMPLETIONS'] : []),
    ] as any,
    deployments: [{ provider, model, options: { ...options } }],
  })
  const options = { baseURL: `${vendor.url}/v1`, apiKey: 'k' }
  const says = Object.entries(VERDICTS).map(([name, { said }]) => [
    modelOf(name),
    at('mock', 'echo', { reply: said }),
  ])
  t = await createTestGateway({
    providers: {
      mock: { use: 'mock' },
      claude: { use: 'anthropic', options },
      gpt: { use: 'openai', options },
    },
    models: {
      ...Object.fromEntries(says),
      'acme/claude': at('claude', 'claude-sonnet-5'),
      'acme/gpt': at('gpt', 'gpt-5.4'),
    },
    guards: { use: [{ use: 'pii' }, { use: 'categories' }] },
  })
  const keyOf = async (policy: object) =>
    (await t.newKey({ policy: { version: 1, ...policy } })).secret
  keys.all = await keyOf(RULES)
  keys.patterns = await keyOf(PATTERNS)
  keys.questions = await keyOf({ ...RULES, ...OF_QUESTIONS })
  keys.questionPatterns = await keyOf({ ...PATTERNS, ...OF_QUESTIONS })
})
afterAll(async () => {
  await t.close()
  await vendor.close()
})

function modelOf(verdict: string): string {
  return `acme/${verdict.replaceAll(' ', '-')}`
}

describe.each(CLIENTS.map((client) => [client.name, client] as const))(
  'in the form of %s',
  (_, client) => {
    const key = () => (client.patternsOnly ? keys.patterns : keys.all)
    const verdicts = Object.entries(VERDICTS).filter(
      ([, { rules }]) => !client.patternsOnly || !rules.some((rule) => rule.startsWith('deny')),
    )
    it.each(verdicts)('%s has the same verdict', async (name, verdict) => {
      const { asked, side, rules, before } = verdict
      const ask = async (stream: boolean) => {
        const body = { model: modelOf(name), stream, ...client.body(asked) }
        return readAnswer(client, await t.ask('POST', client.path, { key: key(), body }))
      }
      const [whole, streamed] = [await ask(false), await ask(true)]
      const expected =
        side === null
          ? { outcome: 'passed', rules: [] }
          : { outcome: 'blocked', side, rules: [...rules] }
      expect(whole.guard).toMatchObject(expected)
      expect(streamed.guard).toEqual(whole.guard)
      expect(whole.text).toBe(side === null ? before : NO)
      // How much goes out before it depends on what arrives together.
      expect(side === null ? [before] : [NO, `${before}\n\n${NO}`]).toContain(streamed.text)
    })
  },
)

const PLACES: readonly (readonly [name: string, places: Places, vendor: string])[] = [
  ['chat', OF_CHAT, 'acme/gpt'],
  ['completions', OF_COMPLETIONS, modelOf('no rule')],
  ['messages', OF_MESSAGES, 'acme/claude'],
  ['responses', OF_RESPONSES, 'acme/gpt'],
]

describe.each(PLACES)('a banned word in a member of %s', (name, places, model) => {
  const client = CLIENTS.find((one) => one.name === name) as Client

  it('is found before anything goes to a vendor, in its form of the request or in another', async () => {
    const passed: string[] = []
    for (const [place, members] of Object.entries(places)) {
      for (const [secret, asked] of [
        [client.patternsOnly ? keys.questionPatterns : keys.questions, model],
        [client.patternsOnly ? keys.patterns : keys.all, modelOf('no rule')],
      ] as const) {
        const body = { model: asked, ...client.body('Hi'), ...members }
        const {
          status,
          text,
          json: answer,
        } = await t.ask('POST', client.path, { key: secret, body })
        const { outcome, side } = status === 200 ? (answer.guard ?? {}) : ({} as any)
        if (outcome !== 'blocked' || side !== 'input')
          passed.push(`${place}: ${status} ${text.slice(0, 200)}`)
      }
    }
    expect(passed).toEqual([])
    expect(vendor.requests).toEqual([])
  })
})

it.each([
  ['messages', CATEGORIES_OF_MESSAGES, 'acme/claude'],
  ['responses', CATEGORIES_OF_RESPONSES, 'acme/gpt'],
])(
  'words of a category do not reach a vendor in %s that guards do not judge',
  async (name, places, model) => {
    const client = CLIENTS.find((one) => one.name === name) as Client
    const before = vendor.requests.length
    for (const members of Object.values(places)) {
      const body = { model, ...client.body('Hi'), ...members }
      await t.ask('POST', client.path, { key: keys.questions, body })
    }
    const sent = vendor.requests.slice(before).map((request) => request.body.toString())
    expect(sent.filter((body) => body.includes('Python'))).toEqual([])
  },
)
