/** Every vendor behind one gateway, each on a path of the same socket, and what client libraries should hear of them. */
import { describe, expect, it, afterAll, beforeAll } from 'vitest'
import { createTestGateway, MOCK_CONFIG, type TestGateway } from '../_setup.ts'
import { describeRecorded, whole, type Recording } from '../fixtures.ts'
import { NO_CHAT, readBack } from '../providers/_openai.ts'
import { json, startUpstream, type FakeUpstream, type ReceivedRequest } from '../upstream.ts'
import {
  anthropic,
  bedrock,
  besideUsage,
  CONSUMED,
  google,
  hitAndMissUsage,
  openAI,
  type Line,
  type Voice,
} from './_voices.ts'

export interface Vendor {
  readonly name: string
  readonly use: string
  /** Besides the address and the key. */
  readonly options?: Readonly<Record<string, unknown>>
  /** Options of the deployment. */
  readonly deployment?: Readonly<Record<string, unknown>>
  /** A name that the vendor has. */
  readonly model: string
  readonly voice: Voice
  /** Thoughts are never shown, or not even counted. */
  readonly hides?: 'thoughts' | 'counts'
  /** Thoughts are signed, and have to come back so. */
  readonly signs?: true
  readonly withoutTools?: true
}

const row = (quirks: string, model: string, voice: Voice, more: Partial<Vendor> = {}): Vendor => ({
  name: quirks,
  use: 'openai-compatible',
  options: { quirks },
  model,
  voice,
  ...more,
})

/** One vendor for each way of telling thoughts, calls and usage; the others' profiles have tests of their own. */
export const VENDORS: readonly Vendor[] = [
  { name: 'openai', use: 'openai', model: 'gpt-5-mini', voice: openAI(), hides: 'thoughts' },
  {
    name: 'anthropic',
    use: 'anthropic',
    model: 'claude-sonnet-4-5',
    voice: anthropic,
    signs: true,
  },
  { name: 'google', use: 'google', model: 'gemini-3.5-flash', voice: google, signs: true },
  {
    name: 'mistral',
    use: 'mistral',
    model: 'magistral-medium-latest',
    voice: openAI({ thoughts: 'parts', wholeCalls: true, usageOnFinish: true }),
  },
  {
    name: 'bedrock',
    use: 'bedrock',
    options: { region: 'us-east-1' },
    model: 'anthropic.claude-sonnet-4-5-20250929-v1:0',
    voice: bedrock,
    signs: true,
  },
  row('groq', 'openai/gpt-oss-120b', openAI({ thoughts: 'reasoning', wholeCalls: true })),
  row(
    'deepseek',
    'deepseek-reasoner',
    openAI({ thoughts: 'reasoning_content', usage: hitAndMissUsage, usageOnFinish: true }),
  ),
  row('openrouter', 'anthropic/claude-sonnet-4.5', openAI({ thoughts: 'details' }), {
    signs: true,
  }),
  row(
    'xai',
    'grok-4',
    openAI({ thoughts: 'reasoning_content', wholeCalls: true, usage: besideUsage }),
  ),
  row('perplexity', 'sonar-reasoning-pro', openAI({ thoughts: 'tags', usageOnFinish: true }), {
    deployment: { reasoning: 'tags' },
    withoutTools: true,
  }),
]

/** What a library tells of an answer. */
export interface Heard {
  readonly text: string
  readonly calls?: readonly { readonly name: string; readonly input: unknown }[]
  /** Undefined or empty where there was none, or where the library does not show it. */
  readonly thoughts?: string | undefined
  readonly promptTokens?: number | undefined
  readonly cachedTokens?: number | undefined
  readonly completionTokens?: number | undefined
  readonly reasoningTokens?: number | undefined
}

export interface How {
  readonly model: string
  readonly stream: boolean
}

/** A client library. Nothing is tried twice. */
export interface Library {
  readonly name: string
  /** Whether thoughts reach its user. */
  readonly showsThoughts: boolean
  /** Whether signed thoughts go back with the results of tools. */
  readonly returnsThoughts: (stream: boolean) => boolean
  /**
   * Asks {@link QUESTION}, with reasoning of high effort where that is wanted.
   * @param how `tools` are names of functions that the model may call; they are not run
   */
  ask(
    how: How & { readonly reasoning: boolean; readonly tools?: readonly string[] },
  ): Promise<Heard>
  /** Runs the tool `get_weather` of {@link weather} until the model has no more calls. Usage is that of all turns. */
  work(how: How, weather: (city: string) => string): Promise<Heard>
  /** Asks for an object after {@link SCHEMA}. */
  parse(how: How): Promise<unknown>
}

export const QUESTION = 'How warm is it in Oslo and in Rome?'
export const SCHEMA = {
  type: 'object',
  properties: { city: { type: 'string' }, degrees: { type: 'number' } },
  required: ['city', 'degrees'],
  additionalProperties: false,
} as const

/** What models say. */
export const TEXT = 'Grüße aus Oslo: 12°, und aus Rom 👩🏽‍🚀: 24°.'
const THOUGHTS = 'Two cities, so two questions — 𝛑 is not one of them.'
export const SIGNATURE = 'c2lnbmVkIGJ5IHRoZSB2ZW5kb3I='
export const CALLS = ['Oslo', 'Rome'].map((city) => ({ name: 'get_weather', input: { city } }))
export const OBJECT = { city: 'Reykjavík', degrees: -3.5 }

/** A gateway in front of vendors that say what a test has them say. */
export interface Stage extends AsyncDisposable {
  readonly t: TestGateway
  readonly upstream: FakeUpstream
  /** What the model will say, turn by turn. */
  plays(vendor: Vendor, ...lines: readonly Line[]): void
}

/** All vendors behind one gateway. @param vendors the vendors, those of every form by default */
export async function setUp(vendors: readonly Vendor[] = VENDORS): Promise<Stage> {
  const upstream = await startUpstream()
  const t = await createTestGateway({
    providers: Object.fromEntries(
      vendors.map(({ name, use, options }) => [
        name,
        { use, options: { baseURL: `${upstream.url}/${name}`, apiKey: 'vendor-key', ...options } },
      ]),
    ),
    models: Object.fromEntries(
      vendors.map(({ name, model, deployment = {} }) => [
        `vendor/${name}`,
        {
          pricing: { prompt: '0.000001', completion: '0.000002' },
          capabilities: MOCK_CONFIG.models['mock/echo'].capabilities,
          deployments: [{ provider: name, model, options: { ...deployment } }],
        },
      ]),
    ),
    defaults: { limits: { rpm: 100_000 } },
  })
  return {
    t,
    upstream,
    plays(vendor, ...lines) {
      const left = [...lines]
      upstream.answer((request) => {
        const line = left.shift()
        const known = line && request.path.startsWith(`/${vendor.name}/`)
        return known
          ? vendor.voice(line, request)
          : json({ error: { message: 'unasked for' } }, 400)
      })
    },
    async [Symbol.asyncDispose]() {
      await t.close()
      await upstream.close()
    },
  }
}

/** Describes what a library has to hear of every vendor. @param connect makes it, given the gateway's address and a key */
export function describeVendors(connect: (baseURL: string, apiKey: string) => Library): void {
  let stage: Stage
  let library: Library
  beforeAll(async () => {
    stage = await setUp()
    library = connect(stage.t.baseURL, stage.t.key.secret)
  })
  afterAll(() => stage[Symbol.asyncDispose]())

  const { name } = connect('http://127.0.0.1:9/v1', 'none')
  describe.each(VENDORS)(`${name} and $name`, (vendor) => {
    const how = { model: `vendor/${vendor.name}` }
    describe.each([
      { form: 'whole', stream: false },
      { form: 'streamed', stream: true },
    ])('$form', ({ stream }) => {
      it('text', async () => {
        stage.plays(vendor, { text: TEXT })
        expect(await library.ask({ ...how, stream, reasoning: false })).toEqual(
          heard(library, { text: TEXT, thoughts: '', turns: 1, reasoningTokens: 0 }),
        )
      })

      it('reasoning', async () => {
        stage.plays(vendor, thinking(vendor, { text: TEXT }))
        const thoughts = library.showsThoughts && !vendor.hides ? THOUGHTS : ''
        const answer = await library.ask({ ...how, stream, reasoning: true })
        expect(answer).toEqual(
          heard(library, {
            text: TEXT,
            thoughts,
            turns: 1,
            // Anthropic and Amazon do not count thoughts apart, Mistral's are estimated.
            reasoningTokens: countsThoughts(vendor) ? CONSUMED.reasoning : answer.reasoningTokens,
          }),
        )
      })

      it('an object', async () => {
        stage.plays(vendor, { text: JSON.stringify(OBJECT) })
        expect(await library.parse({ ...how, stream })).toEqual(OBJECT)
      })

      it.skipIf(vendor.withoutTools)('a loop of tools', async () => {
        const first = thinking(vendor, { calls: CALLS })
        const more = { calls: [{ name: 'get_weather', input: { city: 'Tromsø' } }] }
        stage.plays(vendor, first, more, { text: TEXT })
        const asked: string[] = []
        const before = stage.upstream.requests.length
        const answer = await library.work({ ...how, stream }, (city) => {
          asked.push(city)
          return `${city}: nice and warm`
        })
        expect(asked).toEqual(['Oslo', 'Rome', 'Tromsø'])
        expect(answer.text).toBe(TEXT)
        expect(answer.promptTokens).toBe(3 * CONSUMED.prompt)
        expect(answer.completionTokens).toBe(3 * CONSUMED.completion)
        const requests = stage.upstream.requests.slice(before)
        expect(resultsIn(requests)).toEqual([0, 2, 3])
        if (vendor.signs && library.returnsThoughts(stream)) {
          expect(requests[1]!.body.toString()).toContain(SIGNATURE)
        }
      })
    })
  })
}

/** Whether the recorded answer has the vendor's own counts. */
export const countsTokens = ({ body }: Recording): boolean =>
  /"usage(Metadata)?":\s*\{/.test(String(body))

/**
 * Describes that a library tells the same of every recorded answer as the gateway's answer says. What that has to say is
 * tested with the providers.
 */
export function describeRecordings(connect: (baseURL: string, apiKey: string) => Library): void {
  const { name } = connect('http://127.0.0.1:9/v1', 'none')
  const vendors = VENDORS.map((vendor) => vendor.name).filter((one) => one !== 'bedrock-nova')
  describeRecorded(`${name} and recorded answers`, vendors, CHATS, (recordings) => {
    let stage: Stage
    beforeAll(async () => {
      stage = await setUp()
    })
    afterAll(() => stage[Symbol.asyncDispose]())

    it.each(recordings.filter(isAnswer))('$name', async (recording) => {
      const { vendor, stream } = recording
      const { t, upstream } = stage
      upstream.answer(whole(recording))
      const model = `vendor/${vendor}`
      const messages = [{ role: 'user', content: QUESTION }]
      const plain = await t.chat({
        model,
        messages,
        stream,
        stream_options: stream ? USAGE : undefined,
      })
      expect(plain.status).toBe(200)
      const said = readBack({ ...recording, body: Buffer.from(plain.text) })

      const library = connect(t.baseURL, t.key.secret)
      const tools = [...new Set(said.calls.map((call) => call.name))]
      const answer = await library.ask({ model, stream, reasoning: false, tools })
      expect(answer.text).toBe(said.content)
      expect(answer.calls).toEqual(
        said.calls.map((call) => ({ name: call.name, input: JSON.parse(call.arguments) })),
      )
      if (library.showsThoughts) expect(answer.thoughts).toBe(said.reasoning)
      // LangChain leaves out a count of 0.
      const { promptTokens = 0, completionTokens = 0 } = answer
      const total = promptTokens + completionTokens
      // The tools that the library sent count where the vendor counts nothing.
      if (tools.length === 0 || countsTokens(recording)) expect(total).toBe(said.totalTokens)
      else expect(total).toBeGreaterThan(said.totalTokens!)
    })
  })
}

const USAGE = { include_usage: true }
export const CHATS = /chat\/completions|\/messages$|[gG]enerateContent|\/converse/

export function isAnswer({ name, status }: Recording): boolean {
  const isNone = /error|-cut|exception|malformed|prompt-block|speech|think-tags/
  return status === 200 && !isNone.test(name) && !NO_CHAT.test(name)
}

export function thinking({ signs }: Vendor, line: Line): Line {
  return { thoughts: THOUGHTS, ...(signs && { signature: SIGNATURE }), ...line }
}

function countsThoughts({ use, hides }: Vendor): boolean {
  return hides !== 'counts' && !['anthropic', 'bedrock', 'mistral'].includes(use)
}

/** What is heard of so many turns. */
function heard(
  library: Library,
  said: { text: string; thoughts: string; turns: number; reasoningTokens: number | undefined },
): Heard {
  return {
    text: said.text,
    calls: [],
    ...(library.showsThoughts && { thoughts: said.thoughts }),
    promptTokens: said.turns * CONSUMED.prompt,
    cachedTokens: said.turns * CONSUMED.cached,
    completionTokens: said.turns * CONSUMED.completion,
    reasoningTokens: said.reasoningTokens,
  }
}

/** How many results of tools each request holds. */
export function resultsIn(requests: readonly ReceivedRequest[]): number[] {
  return requests.map(({ body }) => body.toString().split('nice and warm').length - 1)
}
