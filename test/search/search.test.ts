import { createConsola } from 'consola'
import { describe, expect, it } from 'vitest'
import { UpstreamFailure } from '../../src/errors/errors.ts'
import { Faults } from '../../src/observe/faults.ts'
import { Metrics } from '../../src/observe/metrics.ts'
import { compilePrices } from '../../src/money/prices.ts'
import type { SearchResponse, SearchQuery, SearchEngine } from '../../src/plugin.ts'
import { Search, searchPrice, type SearchRequest } from '../../src/search/search.ts'

const FOUND: SearchResponse = {
  results: [{ url: 'https://a.example/', title: 'A', content: 'text' }],
}
const WISH: SearchRequest = {
  question: 'What?',
  engine: undefined,
  maxResults: 5,
  includeDomains: [],
  excludeDomains: [],
}

interface Scene {
  readonly search: Search
  /** Queries that the engine `first` received. */
  readonly queries: SearchQuery[]
  readonly logged: string[]
  readonly metrics: Metrics
  ask(wish?: Partial<SearchRequest>, branch?: AbortController): ReturnType<Search['find']>
}

/** Two engines; the first one gives the answers in turn and repeats the last one. */
function scene(
  answers: readonly (() => Promise<SearchResponse> | SearchResponse)[],
  timeoutMs = 5000,
): Scene {
  const queries: SearchQuery[] = []
  const engine: SearchEngine = {
    async search(query) {
      queries.push(query)
      return answers[Math.min(queries.length, answers.length) - 1]!()
    },
  }
  const other: SearchEngine = { search: async () => ({ results: [] }) }
  const logged: string[] = []
  const reporters = [{ log: ({ args }: { args: unknown[] }) => void logged.push(args.join(' ')) }]
  const log = createConsola({ level: 4, reporters, throttle: 0 })
  const metrics = new Metrics()
  const [free, paid] = ['0', '0.005'].map((price) => compilePrices({ web_search: price }))
  const engines = [
    { name: 'other', use: 'test', engine: other, prices: free!, timeoutMs },
    { name: 'first', use: 'test', engine, prices: paid!, timeoutMs },
  ]
  const faults = new Faults({ log, metrics, clean: (text) => text })
  const search = new Search(engines, 'first', { metrics, log, faults })
  const ask = (wish: Partial<SearchRequest> = {}, branch = new AbortController()) =>
    search.find({ ...WISH, ...wish }, branch)
  return { search, queries, logged, metrics, ask }
}

const failing =
  (...args: ConstructorParameters<typeof UpstreamFailure>) =>
  () => {
    throw new UpstreamFailure(...args)
  }
const hangs = () => new Promise<SearchResponse>(() => {})

describe('an engine', () => {
  it('is the named one, else the default', () => {
    const { search } = scene([() => FOUND])
    const nameFor = (engine: unknown) => search.engineFor({ ...WISH, engine }).name
    expect(nameFor('other')).toBe('other')
    for (const engine of [undefined, null, 'native', '__proto__', 'constructor', 5, { a: 1 }]) {
      expect(nameFor(engine)).toBe('first')
    }
    const [metrics, log] = [new Metrics(), createConsola()]
    const context = { metrics, log, faults: new Faults({ log, metrics, clean: String }) }
    const alone = new Search([search.engineFor({ ...WISH, engine: 'other' })], undefined, context)
    expect(alone.engineFor(WISH).name).toBe('other')
  })

  it('costs its price', () => {
    expect(searchPrice(scene([]).search.engineFor(WISH).prices)).toBe(5_000_000_000n)
  })
})

describe('a query', () => {
  it('is the question on one line, as short as an engine needs it', async () => {
    const { queries, ask } = scene([() => FOUND])
    await ask({ question: ` How\n\n old\tis\u0000 ${'the bridge '.repeat(2000)}` })
    const [query] = queries
    expect(query!.text(30)).toBe('How old is the bridge the')
    const long = query!.text(5000)
    expect(long.length).toBeGreaterThan(4900)
    expect(/ (?:the|bridge)$/.test(long)).toBe(true)
    expect(query).toMatchObject({ maxResults: 5, includeDomains: [], excludeDomains: [] })
  })

  it('asks for more results where some may be filtered', async () => {
    const { queries, ask } = scene([() => FOUND])
    await ask({ maxResults: 3, includeDomains: ['a.example'] })
    expect(queries[0]).toMatchObject({ maxResults: 10, includeDomains: [{ host: 'a.example' }] })
  })

  it('is not made without text', async () => {
    const { queries, ask, metrics } = scene([() => FOUND])
    expect(await ask({ question: ' \n\u200b ' })).toBeUndefined()
    expect(queries).toEqual([])
    expect(metrics.text()).not.toContain('engine="first"')
  })
})

describe('a search', () => {
  it('returns clean results, and counts once', async () => {
    const { ask, metrics } = scene([() => FOUND])
    expect(await ask()).toEqual({ results: FOUND.results, usage: { searches: 1 } })
    expect(metrics.text()).toMatch(
      /sluicegate_search_duration_seconds_count\{engine="first",outcome="ok"\} 1\n/,
    )
  })

  it.each([
    ['upstream_error', {}],
    ['overloaded', {}],
    ['upstream_rate', { retryAfterMs: 1 }],
  ] as const)('is tried once more after %s', async (failure, options) => {
    const { ask, queries } = scene([failing(failure, 'm', options), () => FOUND])
    expect(await ask()).toMatchObject({ results: FOUND.results })
    expect(queries).toHaveLength(2)
  })

  it('is tried twice at most', async () => {
    const { ask, queries, logged, metrics } = scene([
      failing('overloaded', 'The search engine failed with status 503.'),
    ])
    await expect(ask()).rejects.toMatchObject({ status: 502, message: 'The web search failed.' })
    expect(queries).toHaveLength(2)
    expect(logged).toEqual([
      'search engine first failed: overloaded (The search engine failed with status 503.)',
    ])
    expect(metrics.text()).toMatch(/_count\{engine="first",outcome="overloaded"\} 1\n/)
  })

  it.each(['bad_request', 'upstream_auth', 'upstream_balance', 'not_found'] as const)(
    'is not tried again after %s',
    async (failure) => {
      const { ask, queries } = scene([failing(failure, 'm'), () => FOUND])
      await expect(ask()).rejects.toMatchObject({ status: 502, code: 'upstream_error' })
      expect(queries).toHaveLength(1)
    },
  )

  it('is not tried again if the wait that the engine asks for exceeds the deadline', async () => {
    const { ask, queries } = scene([
      failing('upstream_rate', 'm', { retryAfterMs: 60_000 }),
      () => FOUND,
    ])
    await expect(ask()).rejects.toMatchObject({ status: 502 })
    expect(queries).toHaveLength(1)
  })

  it.each([
    ['at once', [hangs]],
    ['after a failure', [failing('upstream_error', 'm'), hangs]],
  ])('that hangs %s ends in time, whatever the plugin does', async (_when, answers) => {
    const { ask, metrics } = scene(answers, 300)
    await expect(ask()).rejects.toMatchObject({ status: 504, code: 'upstream_timeout' })
    expect(metrics.text()).toMatch(/_count\{engine="first",outcome="timeout"\} 1\n/)
  })

  it('ends with the call, without a log entry', async () => {
    const { ask, logged, metrics } = scene([hangs])
    const branch = new AbortController()
    const reason = new Error('the client left')
    const asked = ask({}, branch)
    branch.abort(reason)
    await expect(asked).rejects.toBe(reason)
    expect(logged).toEqual([])
    expect(metrics.text()).not.toContain('engine="first"')
  })

  it.each([
    ['throws', () => Promise.reject(new TypeError('secret text'))],
    ['answers with nothing', () => undefined as unknown as SearchResponse],
    ['answers with no list', () => ({ results: 'x' }) as unknown as SearchResponse],
  ])('with a plugin that %s is a failure, and no text of it is told', async (_what, answer) => {
    const { ask, logged } = scene([answer])
    await expect(ask()).rejects.toMatchObject({ status: 502, message: 'The web search failed.' })
    expect(logged).toHaveLength(1)
    expect(logged[0]).not.toContain('secret text')
  })

  it('logs once that the engine charges another price', async () => {
    const costs = ['0.005', '0.0050', '0.007', '0.0070', '0.009', 'free', 7]
    let asked = 0
    const { ask, logged } = scene([() => ({ ...FOUND, vendorCost: costs[asked++] as string })])
    const kept = []
    for (const _cost of costs) kept.push((await ask())!.usage.vendorCost)
    expect(kept).toEqual(['0.005', '0.005', '0.007', '0.007', '0.009', undefined, undefined])
    expect(logged).toEqual([
      'search engine first reports a cost of 0.007 USD per search, but is configured with 0.005 USD: correct its price',
      'search engine first reports a cost of 0.009 USD per search, but is configured with 0.005 USD: correct its price',
    ])
  })
})
