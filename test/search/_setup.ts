/** A gateway with web search: a vendor and two search engines, all on real sockets. */
import { expect } from 'vitest'
import type { UserConfig } from '../../src/config/config.ts'
import { createTestGateway, type TestGateway } from '../_setup.ts'
import { PRICING, user } from '../sdk/_setup.ts'
import { json, startUpstream, type FakeResponse, type FakeUpstream } from '../upstream.ts'

export interface Grounded extends AsyncDisposable {
  readonly t: TestGateway
  /** Vendor of `acme/swift-1`. */
  readonly vendor: FakeUpstream
  /** Server of the engine `first`, the default, at 0.005 USD per search. */
  readonly web: FakeUpstream
  /** Server of the engine `exact`, at 0.00700000007 USD per search; it reports costs. */
  readonly other: FakeUpstream
  /** The system text with the results in the last request to the model. */
  told(): string
  /** Sums of the ledger once all calls have ended. */
  quiet(): Promise<void>
}

const SEARCH_PRICE = '0.005'
const EXACT_PRICE = '0.00700000007'

/** Starts everything. The caller disposes of it. */
export async function setUp(config: Partial<UserConfig> = {}): Promise<Grounded> {
  const [vendor, web, other] = [await startUpstream(), await startUpstream(), await startUpstream()]
  const capabilities = ['STREAMING', 'TOOLS', 'VISION', 'STRUCTURED_OUTPUTS', 'CHOICES'] as const
  const options = (upstream: FakeUpstream) => ({ baseURL: upstream.url, apiKey: 'engine-secret' })
  const deployment = { provider: 'plain', model: 'swift' }
  const model = { pricing: PRICING, capabilities: [...capabilities], deployments: [deployment] }
  const { search, ...others } = config
  const t = await createTestGateway({
    providers: {
      plain: { use: 'openai-compatible', options: { baseURL: `${vendor.url}/v1`, apiKey: 'k' } },
      dead: { use: 'openai-compatible', options: { baseURL: 'http://127.0.0.1:9/v1' } },
    },
    models: {
      'acme/swift-1': model,
      'acme/free': { ...model, pricing: { prompt: '0', completion: '0' }, free_tier: true },
      'acme/lucky': {
        ...model,
        deployments: [
          { provider: 'dead', model: 'swift' },
          { ...deployment, priority: 1 },
        ],
      },
    },
    routing: { cooldown: 0 },
    ...others,
    search: {
      default: 'first',
      engines: {
        exact: { use: 'exa', options: options(other), price: EXACT_PRICE },
        first: { use: 'parallel', options: options(web), price: SEARCH_PRICE },
      },
      ...search,
    },
  })
  web.answer(pages(BRIDGE))
  other.answer(exa(BRIDGE))
  return {
    t,
    vendor,
    web,
    other,
    told() {
      const { messages } = vendor.requests.at(-1)!.json
      const text = messages.find(({ content }: any) => String(content).includes('=== result'))
      return text?.content ?? ''
    },
    async quiet() {
      await expect.poll(() => t.gateway.running.size).toBe(0)
      expect(await t.gateway.runtime.ledger.verify()).toEqual([])
    },
    async [Symbol.asyncDispose]() {
      await t.close()
      await Promise.all([vendor.close(), web.close(), other.close()])
    },
  }
}

export interface Page {
  readonly url: string
  readonly title?: string | null
  readonly text: string
  readonly date?: string
}

export const BRIDGE: readonly Page[] = [
  {
    url: 'https://example.org/bridge',
    title: 'Bridge history',
    text: 'Opened on 19 March 1932.',
    date: '2024-03-19',
  },
  { url: 'https://museum.example/arch_(steel)', title: 'The arch', text: 'Built of steel.' },
]

/** A response in the format of the engine `first`. */
export function pages(found: readonly Page[]): FakeResponse {
  const results = found.map(({ url, title = null, text, date = null }) => ({
    url,
    title,
    publish_date: date,
    excerpts: [text],
  }))
  return json({ search_id: 'search_1', results, usage: [{ name: 'sku_search', count: 1 }] })
}

/** A response in the format of the engine `exact`. */
export function exa(found: readonly Page[], total = 0.007): FakeResponse {
  const results = found.map(({ url, title, text }) => ({ id: url, url, title, highlights: [text] }))
  return json({ requestId: 'r', results, costDollars: { total } })
}

export const QUESTION = 'When did the bridge open?'
export const ASK = { model: 'acme/swift-1:online', messages: [user(QUESTION)] }
