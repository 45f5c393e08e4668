/** A search engine, and faults in it. */
import { alone, mutant, type Family } from './play.ts'

const code = `import * as v from 'valibot'
import { defineSearch } from 'sluicegate'

export default defineSearch({
  name: 'acme',
  narrows: { include: 'hosts', exclude: 'hosts' },
  options: v.strictObject({ baseURL: v.string(), apiKey: v.string() }),
  setup: ({ baseURL, apiKey }: any, host: any) => ({
    async search(query: any, signal: AbortSignal) {
      const include = query.includeDomains.map(({ host: name }: any) => name)
      const exclude = query.excludeDomains.filter(({ path }: any) => !path).map(({ host: name }: any) => name)
      const body = host.json({ q: query.text(300), limit: query.maxResults, include, exclude })
      const headers = { 'x-key': apiKey, 'content-type': 'application/json' }
      const response = await host.request({ url: baseURL + '/find', headers, body, signal })
      const { found = [], cost } = await host.readJson(response)
      const results = found.map(({ link, name, excerpt, date }: any) => ({ url: link, title: name, content: excerpt, publishedAt: date }))
      return { results, vendorCost: cost }
    },
  }),
})
`
const found = [
  { link: 'https://a.example/1', name: 'A', excerpt: 'All about a.', date: '2026-03-04' },
  { link: 'https://b.example/2', name: 'B', excerpt: 'All about b.' },
]
const results = found.map(({ link, name, excerpt, date }) => ({
  url: link,
  title: name,
  content: excerpt,
  ...(date && { publishedAt: date }),
}))

export const SEARCHES: Family = {
  original: {
    code,
    cases: {
      'two.json': JSON.stringify({ expect: { results, vendorCost: '0.005' } }),
      'two.http': `HTTP/1.1 200 OK\ncontent-type: application/json\n\n${JSON.stringify({ found, cost: '0.005' })}`,
    },
  },
  mutants: [
    mutant(
      'swaps title and content',
      'results',
      'title: name, content: excerpt',
      'title: excerpt, content: name',
    ),
    mutant('loses the date', 'results', ', publishedAt: date', ''),
    mutant(
      'turns the order round',
      'results',
      'const results = found.map',
      'const results = found.toReversed().map',
    ),
    mutant(
      'gives relative addresses',
      'fields | results',
      'url: link,',
      "url: link.replace('https://a.example', ''),",
    ),
    mutant(
      'gives a cost as a number',
      'results | fields',
      'vendorCost: cost',
      'vendorCost: Number(cost)',
    ),
    mutant(
      'does not encode',
      'query',
      'q: query.text(300)',
      "q: query.text(300).replace('&', '').replace('#', '')",
    ),
    mutant('sends all of a long query', 'query', 'query.text(300)', 'query.text(100000)'),
    mutant(
      'includes one host',
      'domains',
      'const include = query.includeDomains.map',
      'const include = query.includeDomains.slice(0, 1).map',
    ),
    mutant('does not narrow', 'domains', 'include, exclude })', 'exclude })'),
    mutant('leaves whole hosts out', 'domains', '.filter(({ path }: any) => !path)', ''),
    mutant(
      'narrows without saying so',
      'domains',
      "narrows: { include: 'hosts', exclude: 'hosts' }",
      "narrows: { include: 'hosts' }",
    ),
    mutant(
      'takes any status',
      'errors',
      'await host.readJson(response)',
      'JSON.parse(await response.text())',
    ),
    mutant(
      'finds nothing when it fails',
      'errors',
      'await host.readJson(response)',
      'await host.readJson(response).catch(() => ({ found: [] }))',
    ),
    mutant(
      'tries again',
      'errors',
      'const { found',
      "if (response.status === 503) await (await host.request({ url: baseURL + '/find', headers, body, signal })).text()\n      const { found",
    ),
    mutant(
      'follows redirects',
      'errors | results',
      "await host.request({ url: baseURL + '/find', headers, body, signal })",
      "await host.request({ url: baseURL + '/find', headers, body, signal }).then((r: any) => (r.status === 302 ? host.request({ url: baseURL + r.headers.location, headers, body, signal }) : r))",
    ),
    mutant(
      'gives no signal',
      'cancel',
      'body, signal })',
      'body, signal: new AbortController().signal })',
    ),
    mutant('logs the key', 'secrets', 'const response', 'host.log.info(apiKey); const response'),
    mutant(
      'quotes the key',
      'secrets',
      'await host.readJson(response)',
      'await host.readJson(response).catch((error: any) => { throw host.fail(error.failure, apiKey, { retryAfterMs: error.retryAfterMs }) })',
    ),
    mutant(
      'remembers the first search',
      'repeat | query',
      'const response',
      'if (kept && query.maxResults !== 1) return kept; const response',
      'return { results,',
      'kept = { results: results.slice(0, query.maxResults - 1), vendorCost: cost }\n      return { results,',
      'export default',
      'let kept: any\nexport default',
    ),
    mutant('changes the query', 'results', 'const include', 'query.maxResults = 3; const include'),
    mutant(
      'does not close',
      'close',
      '  setup: ({ baseURL, apiKey }: any, host: any) => ({',
      '  setup: ({ baseURL, apiKey }: any, host: any) => ({\n    close: () => new Promise(() => {}),',
    ),
    alone(
      'uses fetch',
      'own connections',
      'const response',
      'await fetch(baseURL).catch(() => {}); const response',
    ),
    alone(
      'leaves a timer',
      'handles',
      'const include',
      'setInterval(() => {}, 500); const include',
    ),
  ],
}
