/** Plugins that are right, and unusual. The kit has nothing to say about them. */
import { answer, events, fault, type Variant } from './bases.ts'

const right = (
  base: Variant['base'],
  name: string,
  edits: Variant['edits'],
  more: Partial<Variant> = {},
) => fault(base, [], name, edits, more)

const REQUEST = 'host.request({ url, headers, body, signal, stream: true })'
const SSE_FLOW = 'return host.sse(response.body).through(chunks)'
const LINES_FLOW = 'return host.lines(response.body).through(chunks())'
const FLOW = 'return host.sse(response.body).through(chunks(host))'
const STATUS = 'if (response.status !== 200) throw await host.failure(response)'
const TURNS = 'turns: messages'
const SSE_TEXT = 'if (text) emit({ choices: [{ index: 0, delta: { content: text } }] })'
const END = "emit({ choices: [{ index: 0, finish_reason: 'stop' }], usage })"
const CHUNKS = 'const chunks: Step<any, ChatChunk> = {'

const generator = (flow: string, body: string) =>
  `const flow = ${flow.replace('return ', '')}
        return (async function* (): AsyncGenerator<any> { ${body} })()`

const PROVIDERS = [
  right('sse', 'a time limit beside the signal of the call', [
    [
      REQUEST,
      REQUEST.replace('signal', 'signal: AbortSignal.any([signal, AbortSignal.timeout(30_000)])'),
    ],
  ]),
  right('tools', 'a time limit beside the signal of the call, with tools', [
    [
      REQUEST,
      REQUEST.replace('signal', 'signal: AbortSignal.any([AbortSignal.timeout(25_000), signal])'),
    ],
  ]),
  right('lines', 'a controller of its own that follows the signal', [
    [
      'const body = host.json',
      "const leaving = new AbortController()\n        const leave = () => leaving.abort(signal.reason)\n        if (signal.aborted) leave()\n        signal.addEventListener('abort', leave, { once: true })\n        const body = host.json",
    ],
    [REQUEST, REQUEST.replace('signal', 'signal: leaving.signal')],
  ]),
  right('sse', 'a generator', [
    [SSE_FLOW, generator(SSE_FLOW, 'for await (const chunk of flow) yield chunk')],
  ]),
  right('lines', 'a generator that waits when it ends', [
    [
      LINES_FLOW,
      generator(
        LINES_FLOW,
        'try { yield* flow } finally { await new Promise((resolve) => setTimeout(resolve, 5)) }',
      ),
    ],
  ]),
  right('whole', 'a whole answer, whatever is asked for', [
    ['return { choices', 'return { object: "chat.completion", choices'],
  ]),
  right('sse', 'the end in three chunks', [
    [
      END,
      "emit({ choices: [{ index: 0, finish_reason: 'stop' }] })\n    emit({ choices: [], usage })\n    emit({ choices: [], endOfStream: true })",
    ],
  ]),
  right('sse', 'the end is marked, and no finish reason is given', [
    [END, 'emit({ choices: [], usage, endOfStream: true })'],
  ]),
  right(
    'lines',
    'usage so far with each line',
    [
      [
        'function chunks(): Step<any, ChatChunk> {\n  return {',
        'function chunks(): Step<any, ChatChunk> {\n  let said = 0\n  return {',
      ],
      [
        SSE_TEXT,
        'if (text) emit({ choices: [{ index: 0, delta: { content: text } }], usage: { completion_tokens: ++said }, usageIsPartial: true })',
      ],
    ],
    {
      cases: {
        'lines.json': JSON.stringify({
          request: { messages: [{ role: 'user', content: 'Say hello.' }], stream: true },
          expect: { text: 'Grüße, lieber 👋!', usage: { prompt_tokens: 11, completion_tokens: 3 } },
        }),
      },
    },
  ),
  right('sse', 'letter by letter', [
    [
      SSE_TEXT,
      "for (const one of text ?? '') emit({ choices: [{ index: 0, delta: { content: one } }] })",
    ],
  ]),
  right('tools', 'calls are given whole, when the vendor has said all', [
    [
      'const called = new Set<number>()',
      'const called = new Map<number, { id: string; name: string; all: string }>()',
    ],
    ['called.add(call)\n', "called.set(call, { id, name, all: '' })\n"],
    [
      "        give({ tool_calls: [{ index: call, id, type: 'function', function: { name } }] })\n",
      '',
    ],
    [
      "if (!called.has(call)) throw host.fail('upstream_error')",
      "const made = called.get(call)\n        if (!made) throw host.fail('upstream_error')\n        made.all += piece",
    ],
    ['        give({ tool_calls: [{ index: call, function: { arguments: piece } }] })\n', ''],
    [
      'if (!end) return',
      "if (!end) return\n      for (const [index, made] of called) give({ tool_calls: [{ index, id: made.id, type: 'function', function: { name: made.name, arguments: made.all } }] })",
    ],
  ]),
  // The gateway numbers calls by their ids, and knows that an answer with calls ends with them.
  right('tools', 'careless indexes of calls', [['index: call', 'index: 0']]),
  right('tools', 'a careless finish reason of calls', [
    ["(called.size > 0 ? 'tool_calls' : 'stop')", "'stop'"],
  ]),
  right('tools', 'a vendor without ids of calls', [["id, type: 'function'", "type: 'function'"]], {
    noCases: true,
    cases: {
      'hello.json': JSON.stringify({
        request: { messages: [{ role: 'user', content: 'Hello' }], stream: true },
        expect: {
          text: 'Hello!',
          usage: {
            prompt_tokens: 4,
            completion_tokens: 2,
            prompt_tokens_details: { cached_tokens: 0 },
            completion_tokens_details: { reasoning_tokens: 0 },
          },
        },
      }),
      'hello.http': events(
        { text: 'Hel' },
        { text: 'lo!' },
        { end: 'done', tokens: { in: 4, out: 2 } },
      ),
      'call.json': JSON.stringify({
        request: {
          messages: [{ role: 'user', content: 'Rome?' }],
          tools: [{ type: 'function', function: { name: 'weather' } }],
          stream: true,
        },
        expect: {
          tool_calls: [{ name: 'weather', arguments: '{"at":"Rome"}' }],
          usage: {
            prompt_tokens: 4,
            completion_tokens: 2,
            prompt_tokens_details: { cached_tokens: 0 },
            completion_tokens_details: { reasoning_tokens: 0 },
          },
        },
      }),
      'call.http': events(
        { call: 0, name: 'weather' },
        { call: 0, arguments: '{"at":"Rome"}' },
        { end: 'done', tokens: { in: 4, out: 2 } },
      ),
    },
  }),
  right('sse', 'a vendor without the role developer', [
    [
      TURNS,
      "turns: messages.map((message) => (message.role === 'developer' ? { ...message, role: 'system' } : message))",
    ],
  ]),
  right(
    'sse',
    'a vendor with other names of roles',
    [
      [
        TURNS,
        'turns: messages.map(({ role, ...message }) => ({ ...message, speaker: role.toUpperCase() }))',
      ],
    ],
    {
      cases: {
        'hello.json': JSON.stringify({
          request: { messages: [{ role: 'user', content: 'Say hello.' }], stream: true },
          expect: {
            text: 'Grüße, 👋!',
            usage: { prompt_tokens: 11, completion_tokens: 3 },
            sent: { turns: [{ content: 'Say hello.', speaker: 'USER' }] },
          },
        }),
      },
    },
  ),
  right('lines', 'lines that it does not know are errors', [
    ['chunks()', 'chunks(host)'],
    ['function chunks(host)', 'function chunks(host: any)'],
    [
      'push({ text, done, tokens }, emit) {',
      "push({ text, done, tokens }, emit) {\n      if (text === undefined && !done && !tokens) throw host.fail('upstream_error')",
    ],
  ]),
  right('lines', 'a line that is no JSON is an error of its own', [
    [
      LINES_FLOW,
      `return (async function* (): AsyncGenerator<any> {
          for await (const line of host.lines(response.body, { as: 'text' })) {
            let value: any
            try { value = JSON.parse(line) } catch { throw host.fail('upstream_error', 'The vendor sent a line that is no JSON.') }
            const { text, done, tokens } = value
            if (text) yield { choices: [{ index: 0, delta: { content: text } }] }
            if (done) yield { choices: [{ index: 0, finish_reason: 'stop' }] }
            if (tokens) yield { choices: [], usage: { prompt_tokens: tokens.in, completion_tokens: tokens.out } }
          }
        })()`,
    ],
  ]),
  right('whole', 'images are refused', [
    [
      'const body = host.json',
      "for (const [at, { content }] of messages.entries())\n          if (Array.isArray(content))\n            for (const [part, { type }] of content.entries())\n              if (type !== 'text') throw host.fail('bad_request', 'This model reads text alone.', { code: 'unsupported_value', param: `messages[${at}].content[${part}]` })\n        const body = host.json",
    ],
  ]),
  right('sse', 'other classes for some statuses', [
    [
      STATUS,
      "if (response.status !== 200) throw await host.failure(response, { classes: { 503: 'overloaded' } })",
    ],
  ]),
  right('sse', 'a failure with members that are not there', [
    [
      STATUS,
      "if (response.status === 418) throw host.fail('upstream_error', undefined, { retryAfterMs: undefined, code: undefined })\n        " +
        STATUS,
    ],
  ]),
  right('sse', 'the ids of the last ten calls are kept', [
    [CHUNKS, 'const last: string[] = []\n\n' + CHUNKS],
    ['chat({ input, model, signal })', 'chat({ input, model, signal, requestId })'],
    [SSE_FLOW, 'if (last.push(requestId) > 10) last.shift()\n        ' + SSE_FLOW],
  ]),
  right('sse', 'a timer that close ends', [
    [
      '    return {\n      async chat',
      '    const timer = setInterval(() => {}, 1000)\n    return {\n      close() { clearInterval(timer) },\n      async chat',
    ],
  ]),
  right('sse', 'setup and close take a moment', [
    [
      '  setup({ url, apiKey }, host) {',
      '  async setup({ url, apiKey }, host) {\n    await new Promise((resolve) => setTimeout(resolve, 20))',
    ],
    [
      '      async chat',
      '      close: () => new Promise<void>((resolve) => setTimeout(resolve, 20)),\n      async chat',
    ],
  ]),
  right('sse', 'a plain object', [
    [
      "import { defineProvider, type ChatChunk, type Step } from 'sluicegate'",
      "import type { ChatChunk, Step } from 'sluicegate'",
    ],
    ['export default defineProvider({', "export default {\n  kind: 'provider',\n  api: 1,"],
    ['    }\n  },\n})', '    }\n  },\n}'],
    ['setup({ url, apiKey }, host) {', 'setup({ url, apiKey }: any, host: any) {'],
    ['async chat({ input, model, signal }) {', 'async chat({ input, model, signal }: any) {'],
  ]),
  right(
    'lines',
    'arguments from objects, with every digit',
    [
      ['host.lines(response.body)', "host.lines(response.body, { as: 'exact' })"],
      [
        'push({ text, done, tokens }, emit) {',
        "push({ text, done, tokens, call }, emit) {\n      if (call) emit({ choices: [{ index: 0, delta: { tool_calls: [{ index: 0, id: call.id, type: 'function', function: { name: call.name, arguments: HOST.json(call.input) } }] } }] })",
      ],
      ["done === 'full' ? 'length' : 'stop'", "done === 'call' ? 'tool_calls' : 'stop'"],
      [
        'prompt_tokens: tokens.in, completion_tokens: tokens.out',
        'prompt_tokens: Number(tokens.in), completion_tokens: Number(tokens.out)',
      ],
      ["'tools', ", ''],
      [
        'seed, limit }',
        'seed, limit, tools: input.tools, choice: input.tool_choice, many: input.parallel_tool_calls }',
      ],
      ['chunks()', 'chunks(host)'],
      ['function chunks(host)', 'function chunks(HOST: any)'],
    ],
    {
      cases: {
        'call.json': JSON.stringify({
          request: {
            messages: [{ role: 'user', content: 'Rome?' }],
            tools: [{ type: 'function', function: { name: 'weather' } }],
            stream: true,
          },
          expect: {
            tool_calls: [{ id: 'c9', name: 'weather', arguments: '{"at":12345678901234567890}' }],
            usage: { prompt_tokens: 4, completion_tokens: 2 },
          },
        }),
        'call.http': answer(
          '{"call":{"id":"c9","name":"weather","input":{"at":12345678901234567890}}}\n{"done":"call"}\n{"tokens":{"in":4,"out":2}}\n',
          'application/x-ndjson',
        ),
      },
    },
  ),
  right('tools', 'answers pass through one more step', [
    [
      FLOW,
      'return host.sse(response.body).through({ push: (one: any, emit: any) => emit(one) }).through(chunks(host))',
    ],
  ]),
]

const INPUT = 'checkInput: (items) => items.map(({ text }) => verdictOn(spanIn(text))),'

const GUARDS = [
  right('check', 'gives all that it finds', [
    [
      'const start = text.search(number)',
      "const all = [...text.matchAll(new RegExp(number, 'g'))]",
    ],
    [
      'return start < 0 ? undefined : { start, end: start + prefix.length + 7 }',
      'return all.map(({ index }) => ({ start: index, end: index + prefix.length + 7 }))',
    ],
  ]),
  right('check', 'names its rule and a score', [
    [
      '? undefined : { start,',
      "? undefined : { rule: 'x:my-guard/ticket' as const, score: 1, reason: 'A ticket.', start,",
    ],
  ]),
  right('check', 'judges by segments', [['reach: prefix.length + 8, ', '']], {
    cases: {
      'tickets.json': JSON.stringify({
        texts: [
          { text: 'TICKET-1234567 is no ticket.', expect: 'pass' },
          { text: 'See TICKET-123456.', expect: 'x:my-guard/ticket' },
        ],
      }),
    },
  }),
  right(
    'check',
    'says it is remote, and judges at once',
    [
      ['reach: prefix.length + 8, ', ''],
      ["'local'", "'remote'"],
    ],
    {
      cases: {
        'tickets.json': JSON.stringify({
          texts: [
            { text: 'TICKET-1234567 is no ticket.', expect: 'pass' },
            { text: 'See TICKET-123456.', expect: 'x:my-guard/ticket' },
          ],
        }),
      },
    },
  ),
  right('cards', 'holds back 900 characters', [['const LONGEST = 20', 'const LONGEST = 900']]),
  right('cards', 'a verdict alone for what does not concern it', [
    [
      INPUT,
      "checkInput: (items) => items.map(({ text, channel }) => (channel === 'tool_schema' ? ({ action: 'abstain', why: 'not-applicable' } as const) : verdictOn(spanIn(text)))),",
    ],
  ]),
  right('cards', 'judges answers when they are complete', [], {
    change: (source) =>
      source.replace(
        /      streamOutput\(\) \{[^]*?\n      \},\n/,
        '      needsFullText: true,\n      checkOutput: ({ text }) => verdictOn(spanIn(text)),\n',
      ),
    cases: {
      'cards.json': JSON.stringify({
        texts: [
          { text: 'Order 12345678901234567 is no card.', expect: 'pass' },
          {
            text: 'My card 4111111111111111.',
            expect: 'x:my-guard/card',
            spans: [{ start: 8, end: 24 }],
          },
        ],
      }),
    },
  }),
  right(
    'cards',
    'a category, where it is denied',
    [
      ['x:my-guard/card', 'deny:code'],
      [
        'items.map(({ text }) => verdictOn(spanIn(text)))',
        "items.map(({ text }) => verdictOn(context.rules.deny.includes('code') ? spanIn(text) : undefined))",
      ],
      ['checkInput: (items)', 'checkInput: (items, context)'],
      ['streamOutput() {', 'streamOutput(_stream, context) {'],
      [
        'const found = spanIn(text, tail.length)',
        "const found = context.rules.deny.includes('code') ? spanIn(text, tail.length) : undefined",
      ],
    ],
    {
      cases: {
        'cards.json': JSON.stringify({
          texts: [
            { text: 'Order 12345678901234567 is no card.', expect: 'pass' },
            {
              text: 'My card 4111111111111111.',
              expect: 'deny:code',
              rules: { deny: ['code'] },
              spans: [{ start: 8, end: 24 }],
            },
          ],
        }),
      },
    },
  ),
  right('stream', 'the verdicts on the last hundred texts are kept', [
    [
      '      checkInput: (items) =>',
      '      close: () => known.clear(),\n      checkInput: (items) =>',
    ],
    [
      'const match = matcher.find(text)',
      'const match = known.has(text) ? known.get(text) : matcher.find(text)\n          known.set(text, match)\n          if (known.size > 100) known.clear()',
    ],
    ['    const matcher =', '    const known = new Map<string, any>()\n    const matcher ='],
  ]),
  right('remote', 'asks with host.http', [
    [
      'const response = await host.request({ url, headers, body, signal })\n        const { score } = await host.readJson(response)',
      "const { score } = await host.http(url, { method: 'POST', headers, body, signal, retry: 0, responseType: 'json' })",
    ],
  ]),
  right('remote', 'has a time limit of its own', [
    ['body, signal })', 'body, signal: AbortSignal.any([signal, AbortSignal.timeout(20_000)]) })'],
  ]),
]

const MAP = 'results: found.map('
const ADDRESS = 'const url = `${address}/find?words=${words}&limit=${query.maxResults}`'
const NAME = "name: 'my-search',"
const GET = "host.request({ url, method: 'GET', signal })"

const SEARCHES = [
  right('search', 'asks with a body', [
    ['const words = encodeURIComponent(query.text(200))\n', ''],
    [
      ADDRESS,
      "const url = `${address}/find`\n        const headers = { 'content-type': 'application/json' }\n        const body = host.json({ words: query.text(200), limit: String(query.maxResults) })",
    ],
    [GET, 'host.request({ url, headers, body, signal })'],
  ]),
  right('search', 'narrows by hosts', [
    [NAME, `${NAME}\n  narrows: { include: 'hosts' },`],
    [
      ADDRESS,
      ADDRESS.replace(
        '`${address}',
        "query.includeDomains.map(({ host }) => `&site=${host}`).join('') === '' ? `${address}",
      ).replace(
        /`$/,
        "` : `${address}/find?words=${words}&limit=${query.maxResults}${query.includeDomains.map(({ host }) => `&site=${host}`).join('')}`",
      ),
    ],
  ]),
  right('search', 'leaves out hosts, and no host for a path', [
    [NAME, `${NAME}\n  narrows: { exclude: 'hosts' },`],
    [
      ADDRESS,
      "const url = `${address}/find?words=${words}&limit=${query.maxResults}${query.excludeDomains.flatMap(({ host, path }) => (path ? [] : [`&not=${host}`])).join('')}`",
    ],
  ]),
  right(
    'search',
    'tells its cost',
    [[MAP, "vendorCost: '0.001',\n          results: found.map("]],
    {
      noCases: true,
      cases: {
        'two.json': JSON.stringify({
          query: { text: 'Two' },
          expect: {
            results: [
              { url: 'https://a.example/1', title: 'A', content: 'All about a.' },
              { url: 'https://b.example/2', title: 'B', content: 'All about b.' },
            ],
            vendorCost: '0.001',
          },
        }),
        'two.http': answer(
          '{"found":[{"link":"https://a.example/1","name":"A","excerpt":"All about a."},{"link":"https://b.example/2","name":"B","excerpt":"All about b."}]}',
        ),
      },
    },
  ),
  right('search', 'a time limit beside the signal', [
    [
      GET,
      "host.request({ url, method: 'GET', signal: AbortSignal.any([signal, AbortSignal.timeout(20_000)]) })",
    ],
  ]),
  right(
    'search',
    'dates',
    [
      ['content: excerpt,', 'content: excerpt,\n            ...(date && { publishedAt: date }),'],
      ['{ link, name, excerpt }', '{ link, name, excerpt, date }'],
    ],
    {
      cases: {
        'dated.json': JSON.stringify({
          query: { text: 'When' },
          expect: {
            results: [
              {
                url: 'https://a.example/1',
                title: 'A',
                content: 'All about a.',
                publishedAt: '2025-03-01',
              },
            ],
          },
        }),
        'dated.http': answer(
          '{"found":[{"link":"https://a.example/1","name":"A","excerpt":"All about a.","date":"2025-03-01"}]}',
        ),
      },
    },
  ),
]

const ROWS = 'const body = JSON.stringify(rows)'
const SINKS = [
  right('calls', 'one hundred rows in a request', [
    [
      ROWS,
      'for (let at = 0; at < rows.length; at += 100) {\n        const body = JSON.stringify(rows.slice(at, at + 100))',
    ],
    ['await response.text()', 'await response.text()\n        }'],
  ]),
  right(
    'calls',
    'one event in a batch',
    [["takes: ['call.ended'],", "takes: ['call.ended'],\n      batch: 1,"]],
    {
      cases: {
        'calls.json': null,
        'one.json': JSON.stringify({
          events: [
            {
              event: 'call.ended',
              id: 'ev_1',
              at: '2026-01-02T03:04:05.678Z',
              data: { model: 'acme/small', cost_usd: '0.000123' },
            },
          ],
          expect: {
            sent: [
              { id: 'ev_1', at: '2026-01-02T03:04:05.678Z', model: 'acme/small', cost: '0.000123' },
            ],
            requests: 1,
          },
        }),
      },
    },
  ),
  right(
    'calls',
    'lines of JSON',
    [
      [ROWS, "const body = rows.map((row) => JSON.stringify(row) + '\\n').join('')"],
      ['application/json', 'application/x-ndjson'],
    ],
    {
      cases: {
        'calls.json': JSON.stringify({
          events: [{ event: 'call.ended' }],
          expect: { requests: 1 },
        }),
      },
    },
  ),
  right('alerts', 'alerts and blocks', [
    ["takes: ['alert']", "takes: ['alert', 'guard.blocked']"],
    [
      "event === 'alert' ? [`${data.state}: ${data.message}`] : [],",
      "event === 'alert' ? [`${data.state}: ${data.message}`] : event === 'guard.blocked' ? [`blocked: ${data.model}`] : [],",
    ],
  ]),
  right('calls', 'a time limit beside the signal', [
    ['body, signal })', 'body, signal: AbortSignal.any([signal, AbortSignal.timeout(20_000)]) })'],
  ]),
]

export const UNUSUAL = [...PROVIDERS, ...GUARDS, ...SEARCHES, ...SINKS]
