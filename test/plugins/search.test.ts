/** The built-in search engines: their requests, and how they read answers. */
import * as fc from 'fast-check'
import * as v from 'valibot'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import exa from '../../plugins/search/exa.ts'
import parallel from '../../plugins/search/parallel.ts'
import perplexity from '../../plugins/search/perplexity.ts'
import searxng from '../../plugins/search/searxng.ts'
import type { SearchResponse, SearchQuery, SearchPlugin } from '../../src/plugin.ts'
import { createHost } from '../../src/upstream/host.ts'
import { describeRecorded, whole } from '../fixtures.ts'
import { silent } from '../providers/_chat.ts'
import { cutAt, json, startUpstream, type FakeUpstream } from '../upstream.ts'
import { runs } from '../_runs.ts'

const SECRET = 'engine-secret'
const settings = { timeoutMs: 5000, firstPartTimeoutMs: 5000, idleTimeoutMs: 5000, connections: 4 }

let web: FakeUpstream
const { host, close } = createHost('engine', settings, silent)
beforeAll(async () => {
  web = await startUpstream()
})
beforeEach(() => web.answer(json({ results: [] })))
afterAll(async () => {
  await close()
  await web.close()
})

const QUERY: SearchQuery = {
  text: (limit) => 'When was it opened?'.slice(0, limit),
  maxResults: 5,
  maxCharacters: 1500,
  includeDomains: [],
  excludeDomains: [],
}

async function search(
  plugin: SearchPlugin,
  query: Partial<SearchQuery> = {},
  options: object = {},
): Promise<SearchResponse> {
  const needsKey = plugin.name !== 'searxng'
  const given = { baseURL: `${web.url}/`, ...(needsKey && { apiKey: SECRET }), ...options }
  const result = await plugin.options['~standard'].validate(given)
  if (result.issues) throw new Error(result.issues[0]!.message)
  const engine = await plugin.setup(result.value, host)
  return engine.search({ ...QUERY, ...query }, new AbortController().signal)
}

const asked = () => web.requests.at(-1)!

describe('parallel', () => {
  it('is asked for excerpts, with the query as objective and as keywords', async () => {
    await search(parallel)
    expect(asked()).toMatchObject({ method: 'POST', path: '/v1/search' })
    expect(asked().headers).toMatchObject({
      'x-api-key': SECRET,
      'content-type': 'application/json',
    })
    expect(asked().json).toEqual({
      objective: 'When was it opened?',
      search_queries: ['When was it opened?'],
      mode: 'basic',
      max_chars_total: 7500,
      advanced_settings: { max_results: 5, excerpt_settings: { max_chars_per_result: 1500 } },
    })
    await search(parallel, { text: (limit) => 'x'.repeat(limit) }, { mode: 'turbo' })
    const { mode, objective, search_queries } = asked().json
    expect([mode, objective.length, search_queries[0].length]).toEqual(['turbo', 5000, 200])
  })

  it('receives hosts without paths', async () => {
    await search(parallel, {
      includeDomains: [{ host: 'a.com' }, { host: 'b.com', path: '/x' }, { host: 'b.com' }],
      excludeDomains: [{ host: 'c.com' }, { host: 'd.com', path: '/y' }],
    })
    expect(asked().json.advanced_settings.source_policy).toEqual({
      include_domains: ['a.com', 'b.com'],
      exclude_domains: ['c.com'],
    })
    const many = Array.from({ length: 150 }, (_, i) => ({ host: `${i}.com` }))
    await search(parallel, { includeDomains: many, excludeDomains: many })
    const { source_policy: policy } = asked().json.advanced_settings
    expect([policy.include_domains.length, policy.exclude_domains.length]).toEqual([150, 50])
  })
})

describe('exa', () => {
  it('is asked for highlights, and receives hosts with paths', async () => {
    await search(exa)
    expect(asked()).toMatchObject({ method: 'POST', path: '/search' })
    expect(asked().headers).toMatchObject({ 'x-api-key': SECRET })
    expect(asked().json).toEqual({
      query: 'When was it opened?',
      type: 'auto',
      numResults: 5,
      contents: { highlights: { maxCharacters: 1500 } },
    })
    await search(exa, {
      includeDomains: [{ host: 'a.com', path: '/x' }],
      excludeDomains: [{ host: 'b.com' }],
    })
    expect(asked().json).toMatchObject({ includeDomains: ['a.com/x'], excludeDomains: ['b.com'] })
  })
})

describe('perplexity', () => {
  it('receives one query, and hosts of one kind', async () => {
    await search(perplexity)
    expect(asked()).toMatchObject({ method: 'POST', path: '/search' })
    expect(asked().headers).toMatchObject({ authorization: `Bearer ${SECRET}` })
    expect(asked().json).toEqual({
      query: 'When was it opened?',
      max_results: 5,
      max_tokens_per_page: 375,
    })
    const excludeDomains = [{ host: 'b.com' }, { host: 'c.com', path: '/x' }]
    await search(perplexity, { excludeDomains })
    expect(asked().json.search_domain_filter).toEqual(['-b.com'])
    await search(perplexity, { includeDomains: [{ host: 'a.com', path: '/x' }], excludeDomains })
    expect(asked().json.search_domain_filter).toEqual(['a.com'])
    const many = Array.from({ length: 30 }, (_, i) => ({ host: `${i}.com` }))
    await search(perplexity, { includeDomains: many })
    expect(asked().json.search_domain_filter).toHaveLength(20)
  })

  it('may answer with lists of lists', async () => {
    web.answer(json({ results: [[{ url: 'https://a.com/', title: 'A', snippet: 's' }]] }))
    expect((await search(perplexity)).results).toMatchObject([
      { url: 'https://a.com/', content: 's' },
    ])
  })
})

describe('searxng', () => {
  const queryOf = (path: string) => Object.fromEntries(new URL(path, web.url).searchParams)

  it('needs no key, and receives common operators', async () => {
    await search(searxng)
    expect(asked().method).toBe('GET')
    expect(asked().headers.authorization).toBeUndefined()
    expect(queryOf(asked().path)).toEqual({ q: 'When was it opened?', format: 'json' })
    const includeDomains = [{ host: 'a.com' }, { host: 'b.com', path: '/x' }]
    const excludeDomains = [{ host: 'c.com' }]
    await search(
      searxng,
      { includeDomains, excludeDomains },
      { language: 'de', categories: 'news' },
    )
    expect(queryOf(asked().path)).toEqual({
      q: 'When was it opened? (site:a.com OR site:b.com) -site:c.com',
      format: 'json',
      language: 'de',
      categories: 'news',
    })
    await search(searxng, { includeDomains: [{ host: 'a.com' }] })
    expect(queryOf(asked().path).q).toBe('When was it opened? site:a.com')
  })

  it('returns its results', async () => {
    const found = { url: 'https://a.com/', title: 'A', content: 'text', engine: 'x', score: 1 }
    const older = {
      url: 'https://b.com/',
      title: 'B',
      content: 't',
      publishedDate: '2026-01-02T00:00:00',
    }
    web.answer(json({ query: 'q', number_of_results: 0, results: [found, older], answers: [] }))
    expect((await search(searxng)).results).toEqual([
      { url: 'https://a.com/', title: 'A', content: 'text' },
      { url: 'https://b.com/', title: 'B', content: 't', publishedAt: '2026-01-02T00:00:00' },
    ])
  })
})

describe.each([parallel, exa, perplexity, searxng] as SearchPlugin[])('$name', (plugin) => {
  it.each([
    [400, 'bad_request'],
    [401, 'upstream_auth'],
    [402, 'upstream_balance'],
    [403, 'upstream_auth'],
    [404, 'not_found'],
    [422, 'bad_request'],
    [429, 'upstream_rate'],
    [500, 'upstream_error'],
    [503, 'overloaded'],
    [302, 'upstream_error'],
  ])('maps status %i, without showing the body', async (status, failure) => {
    web.answer(json({ error: { message: `bad key ${SECRET}` } }, status, { 'retry-after': '7' }))
    const error = await search(plugin).catch((thrown) => thrown)
    expect(error).toMatchObject({ failure, retryAfterMs: 7000 })
    expect(JSON.stringify(error) + error.message).not.toContain(SECRET)
  })

  it.each(['<html>', '', '"text"', 'null', '{'])('fails when it answers %j', async (body) => {
    web.answer({ pieces: [body] })
    await expect(search(plugin)).rejects.toMatchObject({ failure: 'upstream_error' })
  })

  it.each([{}, { results: null }, { results: 'x' }, { results: {} }])(
    'finds nothing in %j',
    async (body) => {
      web.answer(json(body))
      expect((await search(plugin)).results).toEqual([])
    },
  )

  it('tolerates invalid results', async () => {
    web.answer(json({ results: [null, 5, 'x', {}, { url: 7, title: 7 }] }))
    expect((await search(plugin)).results).toHaveLength(5)
  })

  it.each(['cut', 'reset'] as const)('fails when the connection is %s', async (ending) => {
    web.answer({ ...json({ results: [] }), ending })
    await expect(search(plugin)).rejects.toMatchObject({ failure: 'upstream_error' })
  })

  it('validates its options', async () => {
    for (const options of [{}, { baseURL: 'x', apiKey: 'y' }, { apiKey: '' }, { other: 1 }]) {
      expect(v.safeParse(plugin.options as never, options).success).toBe(false)
    }
  })
})

/** What each recorded exchange contains, checked by hand. */
const RECORDED: Readonly<Record<string, object>> = {
  'parallel/search': {
    results: [
      {
        url: 'https://nodejs.org/en/about/previous-releases',
        title: 'Node.js Releases',
        content:
          'Major Node.js versions enter Current release status for six months.\n\n' +
          'Even-numbered releases move to Active LTS.',
        publishedAt: '2026-05-01',
      },
      {
        url: 'https://nodejs.org/en/blog/release/v24.11.0',
        title: '',
        content: 'This release marks the transition into Long Term Support.',
      },
    ],
  },
  'exa/search': {
    results: [
      {
        url: 'https://example.org/protocol/schema',
        title: '',
        content: 'Schema definitions for the protocol.',
      },
      {
        url: 'https://example.org/protocol',
        title: 'Protocol overview',
        content: 'How the protocol works.',
        publishedAt: '2026-01-05T00:00:00.000Z',
      },
    ],
    vendorCost: '0.007000000000',
  },
  'perplexity-search/search': {
    results: [
      {
        url: 'https://nodejs.org/en/about/previous-releases',
        title: 'Node.js Releases',
        content: 'Major Node.js versions enter Current release status for six months.',
        publishedAt: '2026-05-01',
      },
      {
        url: 'https://nodejs.org/en/download',
        title: 'Download',
        content: 'Latest LTS version.',
      },
    ],
  },
}
const FAILURES: Readonly<Record<string, object>> = {
  'parallel/error-422': { failure: 'bad_request' },
  'exa/error-401': { failure: 'upstream_auth' },
  'perplexity-search/error-429': { failure: 'upstream_rate', retryAfterMs: 1000 },
}
const PLUGINS: Readonly<Record<string, SearchPlugin>> = {
  parallel,
  exa,
  'perplexity-search': perplexity,
}

describeRecorded('recorded searches', Object.keys(PLUGINS), /search$/, (recordings) => {
  it.each(recordings.map((one) => [one.name, one] as const))('%s', async (name, recording) => {
    web.answer(whole(recording))
    const searched = search(PLUGINS[recording.vendor]!)
    if (recording.status !== 200) return expect(searched).rejects.toMatchObject(FAILURES[name]!)
    const found = await searched
    expect(asked().path).toBe(recording.path)
    // Every member that the plugin sends was part of the recorded request.
    const known = Object.keys(recording.request.body)
    if (name in RECORDED) expect(found).toEqual(RECORDED[name])
    expect(Object.keys(asked().json).filter((member) => !known.includes(member))).toEqual([])
    const { body } = recording
    const position = fc.noBias(fc.integer({ min: 1, max: body.length - 1 }))
    const cuts = fc.uniqueArray(position, { minLength: 1, maxLength: 8, size: 'max' })
    await fc.assert(
      fc.asyncProperty(cuts, async (positions) => {
        web.answer({ ...whole(recording), pieces: cutAt(body, positions) })
        expect(await search(PLUGINS[recording.vendor]!)).toEqual(found)
      }),
      { numRuns: runs(17) },
    )
  })

  it('finds all of many results, and text where there are no highlights', async () => {
    const named = (name: string) => whole(recordings.find((one) => one.name === name)!)
    web.answer(named('parallel/search-additional-results'))
    expect((await search(parallel)).results).toHaveLength(12)
    web.answer(named('exa/search-text-cost-breakdown'))
    const { results, vendorCost } = await search(exa)
    expect(results[0]!.content).toMatch(/^Full page text/)
    expect(vendorCost).toBe('0.012000000000')
  })
})
