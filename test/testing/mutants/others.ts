/** Guards and search engines of other shapes than those beside this file, and faults that are meant to get past the kits. */
import { mutant, type Family } from './play.ts'

const answered = (value: object) =>
  `HTTP/1.1 200 OK\ncontent-type: application/json\n\n${JSON.stringify(value)}`

const guard = `import { defineGuard } from 'sluicegate'
import * as v from 'valibot'

export default defineGuard({
  name: 'acme',
  options: v.object({}),
  setup(_options: any, host: any) {
    const words = ['purple door', 'blue gate']
    const longest = Math.max(...words.map(({ length }) => length))
    const placeIn = (text: string) => {
      const found = words.map((word) => ({ start: text.indexOf(word), length: word.length })).filter(({ start }) => start >= 0)
      const [first] = found.toSorted((a, b) => a.start - b.start)
      return first && { start: first.start, end: first.start + first.length }
    }
    const block = (span: any) => ({ action: 'block', rule: 'x:acme/word', spans: [span] })
    return {
      enforces: ['x:acme/word'],
      execution: 'local',
      checkInput: (items: any) => items.map(({ text }: any) => {
        const span = placeIn(text)
        return span ? block(span) : { action: 'pass' }
      }),
      streamOutput() {
        let text = ''
        return {
          push(piece: string) {
            text += piece
            const span = placeIn(text)
            const safe = Math.max(0, text.length - longest)
            return span ? { safeOffset: Math.min(safe, span.start), verdict: block(span) } : { safeOffset: safe }
          },
          end() {
            return { safeOffset: text.length }
          },
        }
      },
    }
  },
})
`

export const LOCAL_GUARDS: Family = {
  original: {
    code: guard,
    cases: {
      'words.json': JSON.stringify({
        texts: [
          { text: 'The purple gate and the blue door.', expect: 'pass' },
          { text: 'Open the purple door.', expect: 'x:acme/word', spans: [{ start: 9, end: 20 }] },
          { text: 'A blue gate', expect: 'x:acme/word', spans: [{ start: 2, end: 11 }] },
        ],
      }),
    },
  },
  mutants: [
    mutant(
      'looks at pieces alone',
      'cuts | output | hold-back',
      'const span = placeIn(text)\n            const safe',
      'const span = placeIn(piece)\n            const safe',
    ),
    mutant(
      'lets go of one too many',
      'cuts | hold-back',
      'text.length - longest',
      'text.length - longest + 2',
    ),
    mutant('lets go of all', 'cuts | hold-back', 'text.length - longest)', 'text.length)'),
    mutant(
      'holds all back',
      'release',
      'const safe = Math.max(0, text.length - longest)',
      'const safe = 0',
    ),
    mutant(
      'agrees to less at its end',
      'output | cuts',
      'return { safeOffset: text.length }',
      'return { safeOffset: Math.max(0, text.length - 1) }',
    ),
    mutant(
      'agrees to more than there is',
      'output | cuts',
      'return { safeOffset: text.length }',
      'return { safeOffset: text.length + 1 }',
    ),
    mutant(
      'shares its text',
      'interleaved | repeat | output | cuts',
      "let text = ''\n        return {",
      "shared = ''\n        return {",
      'text += piece',
      'shared += piece; const text = shared',
      'safeOffset: text.length }',
      'safeOffset: shared.length }',
      'return {\n      enforces',
      "let shared = ''\n    return {\n      enforces",
    ),
    mutant(
      'gives the verdict of the first text to all',
      'input',
      'items.map(({ text }: any) => {',
      'items.map(() => { const [{ text }] = items',
    ),
    mutant(
      'forgets empty texts',
      'input',
      'items.map(({ text }: any) => {',
      'items.filter(({ text }: any) => text).map(({ text }: any) => {',
    ),
    mutant(
      'looks at lower case on one side only',
      'output | input | cuts',
      'const span = placeIn(text)\n            const safe',
      'const span = placeIn(text.toUpperCase())\n            const safe',
    ),
    mutant(
      'counts code points',
      'pads | input',
      'start: text.indexOf(word)',
      'start: text.includes(word) ? [...text.slice(0, text.indexOf(word))].length : -1',
    ),
    mutant(
      'forgets what is far back',
      'hold-back | cuts | output | pads',
      'text += piece',
      'text = (text + piece).slice(-400)',
    ),
    mutant(
      'finds the last place',
      'input',
      'text.indexOf(word), length',
      'text.lastIndexOf(word) + 1 || -1, length',
    ),
    mutant(
      'uses the file system',
      'local',
      'const placeIn = (text: string) => {',
      "const placeIn = (text: string) => {\n      readFile('/etc/hostname', () => {})",
      'import * as v',
      "import { readFile } from 'node:fs'\nimport * as v",
    ),
  ],
}

const service = `import { defineGuard } from 'sluicegate'
import * as v from 'valibot'

export default defineGuard({
  name: 'acme',
  options: v.strictObject({ url: v.string(), apiKey: v.string() }),
  setup({ url, apiKey }: any, host: any) {
    return {
      enforces: ['deny:medical', 'deny:legal'],
      execution: 'remote',
      async check(text: string, { rules, signal }: any) {
        const headers = { authorization: apiKey, 'content-type': 'application/json' }
        const response = await host.request({ url, headers, body: host.json({ input: [text] }), signal })
        const { results } = await host.readJson(response)
        const scores = results?.[0]?.scores
        const known = ['medical', 'legal'].map((name) => scores?.[name])
        if (!known.every((score) => typeof score === 'number')) throw host.fail('upstream_error')
        for (const name of rules.deny) if (scores[name] > 0.5) return { rule: 'deny:' + name, score: scores[name] }
      },
    }
  },
})
`
const scored = (medical: number) => answered({ results: [{ scores: { medical, legal: 0.01 } }] })

export const SCORING_GUARDS: Family = {
  original: {
    code: service,
    cases: {
      'good.json': JSON.stringify({ texts: [{ text: 'Good morning.', expect: 'pass' }] }),
      'good.http': scored(0.02),
      'bad.json': JSON.stringify({ texts: [{ text: 'Hit them.', expect: 'deny:medical' }] }),
      'bad.http': scored(0.97),
    },
  },
  mutants: [
    mutant(
      'takes no score for 0',
      'verdicts | down',
      "if (!known.every((score) => typeof score === 'number')) throw host.fail('upstream_error')",
      '',
      'scores[name] > 0.5',
      '(scores?.[name] ?? 0) > 0.5',
    ),
    mutant('takes one score for all', 'verdicts', 'known.every(', 'known.some('),
    mutant(
      'takes no results for a pass',
      'verdicts | down',
      'const scores = results?.[0]?.scores',
      'if (!results?.length) return undefined\n        const scores = results?.[0]?.scores',
    ),
    mutant(
      'passes when it fails',
      'down',
      'const { results } = await host.readJson(response)',
      'if (response.status !== 200) return undefined\n        const { results } = await host.readJson(response)',
    ),
    mutant(
      'passes when no service is there',
      'down',
      'const response = await host.request({ url, headers, body: host.json({ input: [text] }), signal })',
      'const response = await host.request({ url, headers, body: host.json({ input: [text] }), signal }).catch(() => undefined)\n        if (!response) return undefined',
    ),
    mutant(
      'passes when it is limited',
      'down',
      'const { results } = await host.readJson(response)',
      'if (response.status === 429) return undefined\n        const { results } = await host.readJson(response)',
    ),
    mutant(
      'passes what is no JSON',
      'down',
      'await host.readJson(response)',
      'JSON.parse(await response.text().then((t: string) => t.startsWith("{") ? t : \'{"results":[{"scores":{"medical":0,"legal":0}}]}\'))',
    ),
    mutant(
      'blocks for what no policy denies',
      'in force',
      'of rules.deny)',
      "of ['medical', 'legal'])",
    ),
    mutant('gives no signal', 'cancel', ', signal })', ', signal: new AbortController().signal })'),
    mutant(
      'asks twice',
      'once',
      'const { results } = await',
      'await (await host.request({ url, headers, body: host.json({ input: [text] }), signal })).text()\n        const { results } = await',
    ),
    mutant(
      'remembers verdicts by length',
      'repeat | input | output | pads',
      'const headers =',
      'if (seen.has(text.length)) return seen.get(text.length)\n        const headers =',
      'return { rule:',
      'return seen.set(text.length, { rule:',
      'score: scores[name] }',
      'score: scores[name] }).get(text.length)',
      'scores[name] })',
      'scores[name] })',
      'return {\n      enforces',
      'const seen = new Map()\n    return {\n      enforces',
    ),
    mutant('has the bound too high', 'input', '> 0.5', '> 0.99'),
  ],
}

const search = `import { defineSearch } from 'sluicegate'
import * as v from 'valibot'

export default defineSearch({
  name: 'acme',
  options: v.strictObject({ url: v.string(), apiKey: v.string() }),
  setup: ({ url, apiKey }: any, host: any) => ({
    async search(query: any, signal: AbortSignal) {
      const asked = new URLSearchParams({ q: query.text(300), n: String(query.maxResults) })
      const response = await host.request({ url: url + '?' + asked, method: 'GET', headers: { 'x-key': apiKey }, signal })
      const { items } = await host.readJson(response)
      if (!Array.isArray(items)) throw host.fail('upstream_error')
      return { results: items.map(({ href, heading, text }: any) => ({ url: href, title: heading, content: text })) }
    },
  }),
})
`
const items = ['a', 'b', 'c'].map((one) => ({
  href: `https://${one}.example/?x=1&y=2`,
  heading: `Page ${one}`,
  text: `All about ${one}.`,
}))

export const SEARCHES_BY_ADDRESS: Family = {
  original: {
    code: search,
    cases: {
      'three.json': JSON.stringify({
        expect: {
          results: items.map(({ href, heading, text }) => ({
            url: href,
            title: heading,
            content: text,
          })),
        },
      }),
      'three.http': answered({ items }),
    },
  },
  mutants: [
    mutant(
      'does not encode',
      'query | results',
      "url + '?' + asked",
      "url + '?q=' + query.text(300) + '&n=' + query.maxResults",
    ),
    mutant('asks in lower case', 'query', 'query.text(300)', 'query.text(300).toLowerCase()'),
    mutant('asks for all of a long question', 'query', 'query.text(300)', 'query.text(1e6)'),
    mutant('drops the first result', 'results', 'items.map(', 'items.slice(1).map('),
    mutant('cuts addresses', 'results | fields', 'url: href', "url: href.split('?')[0]"),
    mutant(
      'finds nothing where it fails',
      'errors',
      'const { items } = await',
      'if (response.status >= 500) return { results: [] }\n      const { items } = await',
    ),
    mutant(
      'finds nothing where it cannot read',
      'errors',
      'await host.readJson(response)',
      'await host.readJson(response).catch(() => ({ items: [] }))',
    ),
    mutant(
      'takes the path of a filter for the question',
      'domains',
      'query.text(300)',
      "query.text(300) + query.includeDomains.slice(0, 1).map((one: any) => ' site:' + one.host).join('')",
    ),
    mutant(
      'leaves whole hosts out',
      'domains',
      'query.text(300)',
      "query.text(300) + query.excludeDomains.map((one: any) => ' -site:' + one.host).join('')",
    ),
    mutant(
      'goes on after an abort',
      'cancel',
      'signal })',
      'signal: new AbortController().signal })',
    ),
    mutant(
      'quotes the address with the key',
      'secrets',
      'const { items } = await',
      "if (response.status > 299) throw host.fail('upstream_error', 'refused ' + apiKey)\n      const { items } = await",
    ),
    mutant(
      'sorts by title',
      'results',
      'items.map(',
      'items.toSorted((a: any, b: any) => b.heading.localeCompare(a.heading)).map(',
    ),
    mutant(
      'tells the time of the search as that of the page',
      'results',
      'content: text }',
      'content: text, publishedAt: new Date().toISOString() }',
    ),
  ],
}
