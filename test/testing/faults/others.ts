/** Search engines and sinks with one fault each. */
import { answer, fault } from './bases.ts'

const READ = 'const { found = [] } = await host.readJson(response)'
const WORDS = 'const words = encodeURIComponent(query.text(200))'
const GET = "host.request({ url, method: 'GET', signal })"
const MAP = 'results: found.map('
const ONE = 'title: name,\n            content: excerpt,'
const ADDRESS = 'const url = `${address}/find?words=${words}&limit=${query.maxResults}`'
const ENGINE = '    return {\n      async search'
const NAME = "name: 'my-search',"

const HTML = {
  'html.json': JSON.stringify({
    query: { text: 'Markup' },
    expect: {
      results: [
        { url: 'https://a.example/1', title: 'A', content: 'Very <b>bold</b> &amp; loud.' },
      ],
    },
  }),
  'html.http': answer(
    '{"found":[{"link":"https://a.example/1","name":"A","excerpt":"Very <b>bold</b> &amp; loud."}]}',
  ),
}

export const SEARCHES = [
  fault(
    'search',
    'errors',
    'a refusal is an empty list',
    [[READ, 'const { found = [] } = JSON.parse(await response.text())']],
    { cases: { 'slow.json': null, 'slow.http': null } },
  ),
  fault('search', 'errors', 'a server error is an empty list', [
    [READ, `if (response.status >= 500) return { results: [] }\n        ${READ}`],
  ]),
  fault(
    'search',
    'errors',
    'garbage is an empty list',
    [[READ, 'const { found } = await host.readJson(response).catch(() => ({ found: [] }))']],
    { cases: { 'slow.json': null, 'slow.http': null } },
  ),
  fault(
    'search',
    'errors',
    'each refusal is bad_request',
    [
      [
        READ,
        `if (response.status > 299) { await response.text(); throw host.fail('bad_request') }\n        ${READ}`,
      ],
    ],
    { cases: { 'slow.json': null, 'slow.http': null } },
  ),
  fault('search', 'errors', 'asks again', [
    [
      'const response = await ' + GET,
      `let response = await ${GET}\n        if (response.status >= 500) { await response.text(); response = await ${GET} }`,
    ],
  ]),
  fault('search', 'results', 'the wait of a refusal is lost', [
    [
      READ,
      `if (response.status === 429) { await response.text(); throw host.fail('upstream_rate') }\n        ${READ}`,
    ],
  ]),
  fault('search', 'results', 'another wait than the service says', [
    [
      READ,
      `if (response.status === 429) { await response.text(); throw host.fail('upstream_rate', undefined, { retryAfterMs: 1000 }) }\n        ${READ}`,
    ],
  ]),
  fault('search', 'results', 'an empty list is an error', [
    [READ, `${READ}\n        if (found.length === 0) throw host.fail('upstream_error')`],
  ]),
  fault('search', 'results', 'an empty list has a result', [
    [
      READ,
      `${READ}\n        if (found.length === 0) return { results: [{ url: 'https://none.example/', title: '', content: 'No results.' }] }`,
    ],
  ]),
  fault('search', 'results', 'an empty list is not a list', [
    [READ, `${READ}\n        if (found.length === 0) return { results: undefined as any }`],
  ]),
  fault('search', 'results', 'results in reverse', [[MAP, 'results: found.toReversed().map(']]),
  fault('search', 'results', 'the last result is lost', [[MAP, 'results: found.slice(0, 1).map(']]),
  fault('search', 'results', 'title and content are swapped', [
    [ONE, 'title: excerpt,\n            content: name,'],
  ]),
  fault('search', 'results', 'no title', [['title: name', "title: ''"]]),
  fault('search', 'results', 'a date that the service has not said', [
    ['content: excerpt,', 'content: excerpt,\n            publishedAt: new Date().toISOString(),'],
  ]),
  fault('search', 'fields', 'HTML is left', [], { cases: HTML }),
  fault('search', 'fields', 'relative addresses', [['url: link', 'url: new URL(link).pathname']]),
  fault('search', 'fields', 'addresses of its own', [
    ['url: link', "url: 'https://search.example/r?to=' + encodeURIComponent(link)"],
  ]),
  fault('search', ['fields', 'results'], 'the cost is a number', [
    [MAP, 'vendorCost: 0.01 as any,\n          results: found.map('],
  ]),
  fault('search', ['fields', 'results'], 'the cost has a sign of money', [
    [MAP, "vendorCost: '$0.01',\n          results: found.map("],
  ]),
  fault('search', 'query', 'words are not encoded', [[WORDS, 'const words = query.text(200)']]),
  fault('search', 'query', 'a question of 10,000 characters is sent whole', [
    [WORDS, WORDS.replace('200', '100_000')],
  ]),
  fault('search', ['query', 'results'], 'words in lower case', [
    [WORDS, WORDS.replace('query.text(200)', 'query.text(200).toLowerCase()')],
  ]),
  fault('search', ['query', 'results'], 'the first word alone', [
    [WORDS, WORDS.replace('query.text(200)', "query.text(200).split(' ')[0]!")],
  ]),
  fault('search', 'results', 'the number of results is a constant', [
    ['${query.maxResults}', '10'],
  ]),
  fault('search', 'results', 'asks twice', [
    ['const response =', `await (await ${GET}).text()\n        const response =`],
  ]),
  fault('search', 'domains', 'says hosts, and sends none', [
    [NAME, `${NAME}\n  narrows: { include: 'hosts' },`],
  ]),
  fault('search', 'domains', 'the first host alone', [
    [NAME, `${NAME}\n  narrows: { include: 'hosts' },`],
    [
      ADDRESS,
      "const [only] = query.includeDomains\n        const url = `${address}/find?words=${words}&limit=${query.maxResults}${only ? `&site=${only.host}` : ''}`",
    ],
  ]),
  fault('search', 'domains', 'narrows without saying so', [
    [
      ADDRESS,
      "const [only] = query.includeDomains\n        const url = `${address}/find?words=${words}&limit=${query.maxResults}${only ? `&site=${only.host}` : ''}`",
    ],
  ]),
  fault('search', 'domains', 'a host is left out in place of a path', [
    [NAME, `${NAME}\n  narrows: { exclude: 'hosts' },`],
    [
      ADDRESS,
      "const url = `${address}/find?words=${words}&limit=${query.maxResults}${query.excludeDomains.map(({ host }) => `&not=${host}`).join('')}`",
    ],
  ]),
  fault('search', ['hang', 'cancel', 'signal'], 'asks without the signal', [
    [GET, "host.request({ url, method: 'GET', signal: new AbortController().signal })"],
  ]),
  fault('search', 'own connections', 'fetch in place of the host', [
    [READ, `await (await fetch(url, { signal })).text()\n        ${READ}`],
  ]),
  fault(
    'search',
    'secrets',
    'the answer is the message',
    [
      [
        READ,
        `if (response.status > 299) throw host.fail('upstream_auth', await response.text())\n        ${READ}`,
      ],
    ],
    { cases: { 'slow.json': null, 'slow.http': null } },
  ),
  fault('search', 'repeat', 'answers are kept', [
    [ENGINE, '    const kept = new Map<string, any>()\n' + ENGINE],
    [
      READ,
      `const { found } = kept.get(url) ?? (await host.readJson(response))\n        kept.set(url, { found })`,
    ],
    [
      'const response = await ' + GET,
      'const response = kept.has(url) ? undefined as never : await ' + GET,
    ],
  ]),
  fault('search', 'memory', 'one hundred bytes of each search are kept', [
    [ENGINE, '    const kept: string[] = []\n' + ENGINE],
    [READ, "kept.push(`${kept.length}`.padEnd(100, 'k').split('').join(''))\n        " + READ],
  ]),
  fault('search', 'uncaught', 'a timer that throws later', [
    [READ, "setTimeout(() => { throw new Error('late') }, 60)\n        " + READ],
  ]),
  fault('search', 'console', 'writes to the console', [
    [READ, "console.log('asked')\n        " + READ],
  ]),
  fault('search', 'handles', 'a timer that goes on', [
    [ENGINE, '    setInterval(() => {}, 1000)\n' + ENGINE],
  ]),
  fault('search', 'close', 'close throws', [
    ['      async search', "      close() { throw new Error('busy') },\n      async search"],
  ]),
  fault('search', 'results', 'a promise that never settles', [
    [READ, 'await new Promise(() => {})\n        ' + READ],
  ]),
  fault('search', ['cases', 'results'], 'no cases', [], { noCases: true }),
  fault('search', 'set up', 'no method', [['async search(', 'async find(']]),
]

const SEND = 'async send(events, signal) {'
const REQUEST = 'await host.request({ url, headers, body, signal })'
const STATUS = 'if (response.status > 299) throw await host.failure(response)'
const NO_REFUSAL = { cases: { 'slow.json': null, 'slow.http': null } }
const SINK = '    return {\n      takes'
const ROWS = 'const body = JSON.stringify(rows)'

export const SINKS = [
  ...[1, 50, 100, 500].map((count) =>
    fault(
      'calls',
      'events',
      `the first ${count} events alone`,
      [[ROWS, `const body = JSON.stringify(rows.slice(0, ${count}))`]],
      count === 1
        ? {
            cases: {
              'calls.json': null,
              'one.json': JSON.stringify({
                events: [{ event: 'call.ended', id: 'ev_1' }],
                expect: { requests: 1 },
              }),
            },
          }
        : {},
    ),
  ),
  fault('calls', 'events', 'the last event is lost', [
    [ROWS, 'const body = JSON.stringify(rows.length > 2 ? rows.slice(0, -1) : rows)'],
  ]),
  fault('calls', 'events', 'each event twice', [
    [ROWS, 'const body = JSON.stringify(rows.length > 2 ? [...rows, ...rows] : rows)'],
  ]),
  fault('calls', 'events', 'one row in a hundred is lost', [
    [ROWS, 'const body = JSON.stringify(rows.filter((_, index) => index % 100 !== 99))'],
  ]),
  fault('calls', 'events', 'no id', [['[{ id, at,', '[{ at,']]),
  fault('calls', 'events', 'its own time', [
    ['[{ id, at,', '[{ id, at: new Date().toISOString(),'],
  ]),
  fault('calls', 'events', 'costs are numbers', [
    ['cost: data.cost_usd }', 'cost: Number(data.cost_usd) }'],
  ]),
  fault('calls', 'events', 'models without their vendor', [
    ['model: data.model', "model: data.model.split('/')[1]"],
  ]),
  fault('calls', 'events', 'an object in place of a list', [
    [ROWS, 'const body = JSON.stringify({ ...rows })'],
  ]),
  fault('alerts', 'events', 'the first alert alone', [["lines.join('\\n')", 'lines[0]']]),
  fault('alerts', 'events', 'the state is lost', [
    ['`${data.state}: ${data.message}`', 'data.message'],
  ]),
  fault(
    'calls',
    'events',
    'resolves before the answer',
    [
      ['const response = ' + REQUEST, 'const sent = ' + REQUEST.replace('await ', '')],
      [STATUS, ''],
      ['await response.text()', 'sent.then((response) => response.text()).catch(() => {})'],
    ],
    NO_REFUSAL,
  ),
  fault('calls', 'events', 'only the first of two requests is waited for', [
    [ROWS, ROWS.replace('rows)', 'rows.splice(0, 100))')],
    [
      'await response.text()',
      'await response.text()\n        if (rows.length > 0) host.request({ url, headers, body: JSON.stringify(rows.slice(0, 100)), signal }).then((other) => other.text()).catch(() => {})',
    ],
  ]),
  fault('calls', 'errors', 'no look at the status', [[STATUS, '']], NO_REFUSAL),
  fault(
    'calls',
    'errors',
    'each refusal is final',
    [
      [
        STATUS,
        "if (response.status > 299) { await response.text(); throw host.fail('bad_request') }",
      ],
    ],
    NO_REFUSAL,
  ),
  fault(
    'calls',
    'errors',
    'no refusal is final',
    [
      [
        STATUS,
        "if (response.status > 299) { await response.text(); throw host.fail('overloaded') }",
      ],
    ],
    NO_REFUSAL,
  ),
  fault('calls', 'errors', 'refused, where the receiver was down', [
    [
      STATUS,
      'if (response.status >= 500) { await response.text(); return { refused: events.length } }\n        ' +
        STATUS,
    ],
  ]),
  fault('calls', 'errors', 'asks again', [
    [
      'const response = ' + REQUEST,
      `let response = ${REQUEST}\n        if (response.status >= 500) { await response.text(); response = ${REQUEST} }`,
    ],
  ]),
  fault('calls', ['events', 'errors'], 'the wait of a refusal is lost', [
    [
      STATUS,
      "if (response.status === 429) { await response.text(); throw host.fail('upstream_rate') }\n        " +
        STATUS,
    ],
  ]),
  fault('calls', 'events', 'an unknown name is an error', [
    [
      SEND,
      `${SEND}\n        for (const { event } of events) if (event !== 'call.ended') throw new Error(event)`,
    ],
  ]),
  fault('calls', 'events', 'only 200 is an answer', [
    [STATUS, 'if (response.status !== 200) throw await host.failure(response)'],
  ]),
  fault('calls', 'repeat', 'ids that were tried are left out', [
    [SINK, '    const tried = new Set<string>()\n' + SINK],
    [
      'if (rows.length === 0) return',
      'const fresh = rows.filter(({ id }) => tried.size > 5_000 || !tried.has(id))\n        for (const { id } of rows) tried.add(id)\n        if (fresh.length === 0) return',
    ],
    [ROWS, 'const body = JSON.stringify(fresh)'],
  ]),
  fault('calls', ['hang', 'cancel', 'signal'], 'asks without the signal', [
    [REQUEST, REQUEST.replace('signal', 'signal: new AbortController().signal')],
  ]),
  fault('calls', 'secrets', 'headers are logged', [
    [
      STATUS,
      `if (response.status > 299) host.log.warn(JSON.stringify(headers))\n        ${STATUS}`,
    ],
  ]),
  fault('calls', 'own connections', 'fetch in place of the host', [
    [
      STATUS,
      `await (await fetch(url, { method: 'POST', headers, body, signal })).text()\n        ${STATUS}`,
    ],
  ]),
  fault('calls', 'memory', 'the id of each event is kept', [
    [SINK, '    const seen = new Map<string, string>()\n' + SINK],
    [
      ROWS,
      `for (const { id } of rows) seen.set(\`\${id}/\${seen.size}\`, 'sent'.repeat(20))\n        ${ROWS}`,
    ],
  ]),
  fault('calls', 'uncaught', 'a timer that throws later', [
    [ROWS, `setTimeout(() => { throw new Error('late') }, 60)\n        ${ROWS}`],
  ]),
  fault('calls', 'console', 'writes to the console', [
    [ROWS, `console.log('sent')\n        ${ROWS}`],
  ]),
  fault('calls', 'events', 'a promise that never settles', [
    [ROWS, `await new Promise(() => {})\n        ${ROWS}`],
  ]),
  fault('calls', 'time', 'looks for each event among all', [
    [
      ROWS,
      `for (const row of rows) for (const other of rows) if (JSON.stringify(row) === JSON.stringify(other) && row !== other) throw host.fail('bad_request')\n        ${ROWS}`,
    ],
  ]),
  fault('calls', ['cases', 'events'], 'no cases', [], { noCases: true }),
  fault('calls', 'close', 'close does not end', [
    ['      takes', '      close: () => new Promise<void>(() => {}),\n      takes'],
  ]),
  fault('calls', 'set up', 'takes nothing', [["takes: ['call.ended']", 'takes: []']]),
]
