import * as v from 'valibot'
import { describe, expect, it } from 'vitest'
import mySearch from '../../docs/examples/search-json/my-search.ts'
import { testSearch, type SearchCase } from '../../src/testing.ts'
import {
  defineSearch,
  type Host,
  type SearchPlugin,
  type SearchQuery,
  type UpstreamResponse,
} from '../../src/plugin.ts'

const FOUND = [
  { link: 'https://a.example/1', name: 'A', excerpt: 'All about a.', date: '2026-03-04' },
  { link: 'https://b.example/2', name: 'B', excerpt: 'All about b.' },
]
const RESULTS = [
  { url: FOUND[0]!.link, title: 'A', content: 'All about a.', publishedAt: '2026-03-04' },
  { url: FOUND[1]!.link, title: 'B', content: 'All about b.' },
]
const CASE: SearchCase = { name: 'two', answer: { found: FOUND }, expect: { results: RESULTS } }

/** What an engine may do differently. */
interface Flaws {
  parameters?(query: SearchQuery): Record<string, string>
  signal?(signal: AbortSignal): AbortSignal
  read?(response: UpstreamResponse, host: Host, apiKey: string): Promise<any>
  toResult?(found: any): any
  order?(results: any[]): any[]
  ask?(host: Host, url: string, signal: AbortSignal): Promise<UpstreamResponse>
  change?(query: any): void
  close?(): Promise<void>
  cost?: unknown
  log?: boolean
  /** Fails in its own code for an answer without results. */
  needsResults?: boolean
}

function engine(flaws: Flaws = {}): SearchPlugin {
  const plain = ({ link, name, excerpt, date }: any) => ({
    url: link,
    title: name,
    content: excerpt,
    publishedAt: date,
  })
  const { parameters = plainQuery, signal: own = (one) => one, toResult = plain } = flaws
  const { read = (response, host) => host.readJson(response), order = (all) => all } = flaws
  const ask = flaws.ask ?? ((host, url, signal) => host.request({ url, method: 'GET', signal }))
  return defineSearch({
    name: 'flawed',
    options: v.strictObject({ url: v.string(), apiKey: v.string() }),
    setup: ({ url, apiKey }, host) => ({
      async search(query, signal) {
        flaws.change?.(query)
        if (flaws.log) host.log.info(`asking with ${apiKey}`)
        const address = `${url}/find?${new URLSearchParams(parameters(query))}`
        const { found = flaws.needsResults ? undefined : [] } = await read(
          await ask(host, address, own(signal)),
          host,
          apiKey,
        )
        const results = order(found.map(toResult))
        return flaws.cost === undefined
          ? { results }
          : { results, vendorCost: flaws.cost as string }
      },
      ...(flaws.close && { close: flaws.close }),
    }),
  }) as SearchPlugin
}

function plainQuery({ text, maxResults }: SearchQuery): Record<string, string> {
  return { q: text(400), limit: String(maxResults) }
}

async function failedBy(flaws: Flaws): Promise<string[]> {
  const { checks } = await testSearch(engine(flaws), { cases: [CASE], timeoutMs: 2500 })
  return [...new Set(checks.filter(({ result }) => result === 'failed').map(({ name }) => name))]
}

const never = new AbortController().signal

describe('the kit for search engines', () => {
  it('finds nothing wrong with an engine that is right', async () => {
    expect(await failedBy({})).toEqual([])
    const sites = ({ includeDomains, ...query }: SearchQuery) => ({
      ...plainQuery(query as SearchQuery),
      site: includeDomains.map(({ host }) => host).join(),
    })
    expect(await failedBy({ parameters: sites })).toEqual([])
  })

  it.each<[check: string, what: string, Flaws]>([
    [
      'results',
      'swaps title and content',
      {
        toResult: (f) => ({ url: f.link, title: f.excerpt, content: f.name, publishedAt: f.date }),
      },
    ],
    [
      'results',
      'loses the date',
      { toResult: (f) => ({ url: f.link, title: f.name, content: f.excerpt }) },
    ],
    [
      'results',
      'shortens addresses',
      {
        toResult: (f) => ({
          url: new URL(f.link).origin,
          title: f.name,
          content: f.excerpt,
          publishedAt: f.date,
        }),
      },
    ],
    ['errors', 'does not expect an answer without results', { needsResults: true }],
    ['results', 'has another order', { order: (all) => all.toReversed() }],
    ['results', 'leaves the last out', { order: (all) => all.slice(0, -1) }],
    ['results', 'invents a cost', { cost: '0.01' }],
    ['results', 'changes the query', { change: (query) => (query.maxResults = 1) }],
    [
      'query',
      'sends no special characters',
      {
        parameters: ({ text, maxResults }) => ({
          q: text(400).replaceAll('&', ''),
          limit: String(maxResults),
        }),
      },
    ],
    [
      'query',
      'sends half of the words',
      { parameters: ({ text, maxResults }) => ({ q: text(10), limit: String(maxResults) }) },
    ],
    [
      'domains',
      'takes one domain only',
      {
        parameters: (query) => ({
          ...plainQuery(query),
          site: query.includeDomains[0]?.host ?? '',
        }),
      },
    ],
    [
      'domains',
      'excludes whole hosts',
      {
        parameters: (query) => ({
          ...plainQuery(query),
          not: query.excludeDomains.map(({ host }) => host).join(),
        }),
      },
    ],
    [
      'errors',
      'does not look at the status',
      { read: async (response) => JSON.parse(await response.text()) },
    ],
    [
      'errors',
      'gives nothing for what is no JSON',
      {
        read: async (response, host) =>
          response.status === 200
            ? JSON.parse((await response.text().catch(() => '')) || '{"found":[]}')
            : Promise.reject(await host.failure(response)),
      },
    ],
    [
      'errors',
      'has one class for all',
      {
        read: async (response, host) =>
          response.status === 200
            ? host.readJson(response)
            : Promise.reject(host.fail('upstream_error')),
      },
    ],
    [
      'errors',
      'tries again',
      {
        ask: async (host, url, signal) => {
          const request = { url, method: 'GET', signal }
          const response = await host.request(request)
          return response.status === 503 ? host.request(request) : response
        },
      },
    ],
    ['cancel', 'ignores the signal', { signal: () => never }],
    [
      'secrets',
      'shows the key',
      {
        read: async (response, host, key) =>
          response.status === 200
            ? host.readJson(response)
            : Promise.reject(await host.failure(response, { message: `refused ${key}` })),
      },
    ],
    ['secrets', 'logs the key', { log: true }],
    ['close', 'does not close', { close: () => new Promise(() => {}) }],
  ])('%s fails for an engine that %s', async (check, _what, flaws) => {
    expect(await failedBy(flaws)).toContain(check)
  })

  it.each<[what: string, cost: unknown, expected: string | undefined, note: string]>([
    ['another cost', '0.003', '0.004', 'vendorCost: expected "0.004", found "0.003"'],
    ['a cost that is a number', 0.003, '0.003', 'vendorCost: expected "0.003", found 0.003'],
    [
      'a cost that no case names',
      '0.003',
      undefined,
      'vendorCost: expected nothing, found "0.003"',
    ],
  ])('%s is a problem of the results, and of no repetition', async (_what, cost, wanted, note) => {
    const costs = wanted === undefined ? {} : { vendorCost: wanted }
    const cases = [{ ...CASE, expect: { results: RESULTS, ...costs } }]
    const { failed } = await testSearch(engine({ cost }), { cases })
    expect(failed.find(({ name }) => name === 'results')!.notes).toEqual([note])
    expect(failed.map(({ name }) => name)).not.toContain('repeat')
  })

  it('passes the engine of the guide', async () => {
    const plain = RESULTS.map(({ url, title, content }) => ({ url, title, content }))
    const cases = [{ ...CASE, expect: { results: plain } }]
    const { checks } = await testSearch(mySearch as SearchPlugin, { cases })
    expect(checks.filter(({ result }) => result === 'failed')).toEqual([])
  })
})
