/** Plugins that are right, with their cases. A fault changes one thing in one of them. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const EXAMPLES = join(import.meta.dirname, '../../../docs/examples')

/** A plugin's text and its cases, by the names of their files. */
export interface Base {
  readonly source: string
  readonly cases: Readonly<Record<string, string>>
}

/** A plugin with one fault, or a right one that is unusual. */
export interface Variant {
  readonly name: string
  readonly base: keyof typeof BASES
  /** The checks of which at least one has to find the fault; none for a plugin that is right. */
  readonly checks: readonly string[]
  /** Replaced texts; each has to occur. */
  readonly edits?: readonly (readonly [from: string, to: string])[]
  /** A change of the text that is more than a replacement. */
  readonly change?: (source: string) => string
  /** Cases beside those of the base; null takes one away. */
  readonly cases?: Readonly<Record<string, string | null>>
  /** Whether it may not end, so that it runs in a process of its own. */
  readonly endless?: true
  /** No cases but those of `cases`. */
  readonly noCases?: boolean
}

/** @returns a plugin of the base `base` with the fault that the checks of the names should find */
export function fault(
  base: keyof typeof BASES,
  checks: string | readonly string[],
  name: string,
  edits: Variant['edits'],
  more: Partial<Variant> = {},
): Variant {
  return { name, base, checks: [checks].flat(), edits, ...more }
}

/** @returns the text and the cases of a variant */
export function filesOf(variant: Variant): Base {
  const base = BASES[variant.base]
  let source = variant.change?.(base.source) ?? base.source
  for (const [from, to] of variant.edits ?? []) {
    if (!source.includes(from)) throw new Error(`${variant.name}: "${from}" is not in the plugin`)
    source = source.replaceAll(from, () => to)
  }
  const cases: Record<string, string> = variant.noCases ? {} : { ...base.cases }
  for (const [file, text] of Object.entries(variant.cases ?? {}))
    if (text === null) delete cases[file]
    else cases[file] = text
  return { source, cases }
}

function example(folder: string, kind: string): Base {
  const cases = join(EXAMPLES, folder, `my-${kind}.cases`)
  const read = (file: string) => [file, readFileSync(join(cases, file), 'utf8')] as const
  return {
    source: readFileSync(join(EXAMPLES, folder, `my-${kind}.ts`), 'utf8'),
    cases: Object.fromEntries(readdirSync(cases).map(read)),
  }
}

/** @returns the text of an `.http` file */
export function answer(body: string, type = 'application/json', head = '200 OK'): string {
  return `HTTP/1.1 ${head}\ncontent-type: ${type}\n\n${body}`
}

/** @returns the text of a stream with one event for each value */
export function events(...values: unknown[]): string {
  return answer(
    values.map((value) => `data: ${JSON.stringify(value)}\n\n`).join(''),
    'text/event-stream',
  )
}

const HELLO = { messages: [{ role: 'user', content: 'Say hello.' }], stream: true }
const CALLS = { messages: [{ role: 'user', content: 'How warm is it?' }], stream: true }

/** Cases of the vendor of `provider-tools`, with the ids of calls and with its other ends. */
const TOOLS_CASES = {
  'ids.json': JSON.stringify({
    request: {
      ...CALLS,
      tools: [{ type: 'function', function: { name: 'weather' } }],
      tool_choice: 'auto',
      parallel_tool_calls: true,
    },
    expect: {
      tool_calls: [
        { id: 'call_7', name: 'weather', arguments: '{"at":12345678901234567890}' },
        { id: 'call_8', name: 'weather', arguments: '{"at":"Oslo"}' },
      ],
      usage: { prompt_tokens: 40, completion_tokens: 20 },
    },
  }),
  'ids.http': events(
    { call: 0, id: 'call_7', name: 'weather' },
    { call: 0, arguments: '{"at":123456' },
    { call: 0, arguments: '78901234567890}' },
    { call: 1, id: 'call_8', name: 'weather' },
    { call: 1, arguments: '{"at":"Oslo"}' },
    { end: 'done', tokens: { in: 40, out: 20 } },
  ),
  'full.json': JSON.stringify({
    request: HELLO,
    expect: {
      text: 'One, two, three and',
      finish_reason: 'length',
      usage: { prompt_tokens: 9, completion_tokens: 5 },
    },
  }),
  'full.http': events(
    { text: 'One, ' },
    { text: 'two, ' },
    { text: 'three' },
    { text: ' and' },
    { end: 'full', tokens: { in: 9, out: 5 } },
  ),
  'refused.json': JSON.stringify({
    request: HELLO,
    expect: { failure: 'upstream_rate', retry_after_ms: 2000 },
  }),
  'refused.http': answer(
    '{"error":"slow down, acme-4711"}',
    'application/json\nretry-after: 2',
    '429 Too Many Requests',
  ),
}

const LINES: Base = {
  source: `import * as v from 'valibot'
import { defineProvider, type ChatChunk, type Step } from 'sluicegate'

export default defineProvider({
  name: 'my-provider',
  options: v.strictObject({ url: v.pipe(v.string(), v.url()), apiKey: v.string() }),
  ignores: ['presence_penalty', 'frequency_penalty', 'response_format', 'reasoning', 'tools', 'n'],
  setup({ url, apiKey }, host) {
    const headers = { authorization: \`Bearer \${apiKey}\`, 'content-type': 'application/json' }
    return {
      async chat({ input, model, signal }) {
        const { messages, temperature, top_p, stop, seed, max_completion_tokens: limit } = input
        const body = host.json({ model, turns: messages, temperature, top_p, stop, seed, limit })
        const response = await host.request({ url, headers, body, signal, stream: true })
        if (response.status !== 200) throw await host.failure(response)
        return host.lines(response.body).through(chunks())
      },
    }
  },
})

function chunks(): Step<any, ChatChunk> {
  return {
    push({ text, done, tokens }, emit) {
      if (text) emit({ choices: [{ index: 0, delta: { content: text } }] })
      if (done) emit({ choices: [{ index: 0, finish_reason: done === 'full' ? 'length' : 'stop' }] })
      if (tokens) emit({ choices: [], usage: { prompt_tokens: tokens.in, completion_tokens: tokens.out } })
    },
  }
}
`,
  cases: {
    'lines.json': JSON.stringify({
      request: { ...HELLO, model: 'small-1' },
      expect: {
        text: 'Grüße, lieber 👋!',
        usage: { prompt_tokens: 11, completion_tokens: 3 },
        sent: { model: 'small-1', turns: HELLO.messages },
      },
    }),
    'lines.http': answer(
      [
        { text: 'Grüße, ' },
        { text: 'lieber ' },
        { text: '👋!' },
        { done: 'end' },
        { tokens: { in: 11, out: 3 } },
      ]
        .map((line) => `${JSON.stringify(line)}\n`)
        .join(''),
      'application/x-ndjson',
    ),
  },
}

/** Card numbers in two forms: sixteen digits in a row, or in four groups. */
const CARDS: Base = {
  source: `import * as v from 'valibot'
import { defineGuard, type CheckProgress } from 'sluicegate'

const RULE = 'x:my-guard/card'
const CARD = /(?<!\\d)(?:\\d{16}|\\d{4}(?: \\d{4}){3})(?!\\d)/g
const LONGEST = 20

export default defineGuard({
  name: 'my-guard',
  options: v.strictObject({}),
  setup() {
    return {
      enforces: [RULE],
      execution: 'local',
      checkInput: (items) => items.map(({ text }) => verdictOn(spanIn(text))),
      streamOutput() {
        let seen = 0
        let tail = ''
        const look = (piece: string, held: number): CheckProgress => {
          const text = tail + piece
          const offset = seen - tail.length
          const found = spanIn(text, tail.length)
          seen += piece.length
          tail = text.slice(-2 * LONGEST)
          if (!found) return { safeOffset: Math.max(0, seen - held) }
          const span = { start: found.start + offset, end: found.end + offset }
          const safeOffset = Math.max(0, Math.min(span.start, seen - held))
          // A number at the end may go on.
          if (held > 0 && span.end === seen) return { safeOffset }
          return { safeOffset, verdict: verdictOn(span) }
        }
        return { push: (piece) => look(piece, LONGEST), end: () => look('', 0) }
      },
    }
  },
})

function spanIn(text: string, from = 0) {
  for (const match of text.matchAll(CARD)) {
    const end = match.index + match[0].length
    if (end >= from) return { start: match.index, end }
  }
}

function verdictOn(span: { start: number; end: number } | undefined) {
  if (!span) return { action: 'pass' } as const
  return { action: 'block', rule: RULE, spans: [span] } as const
}
`,
  cases: {
    'cards.json': JSON.stringify({
      texts: [
        { text: 'Order 12345678901234567 is no card.', expect: 'pass' },
        {
          text: 'My card 4111111111111111.',
          expect: 'x:my-guard/card',
          spans: [{ start: 8, end: 24 }],
        },
        {
          text: 'Or 4111 1111 1111 1111, please.',
          expect: 'x:my-guard/card',
          spans: [{ start: 3, end: 22 }],
        },
      ],
    }),
  },
}

const CALLS_SINK: Base = {
  source: `import * as v from 'valibot'
import { defineSink } from 'sluicegate'

export default defineSink({
  name: 'my-sink',
  options: v.strictObject({ url: v.pipe(v.string(), v.url()), apiKey: v.string() }),
  setup({ url, apiKey }, host) {
    return {
      takes: ['call.ended'],
      async send(events, signal) {
        const rows = events.flatMap(({ id, event, at, data }) =>
          event === 'call.ended' ? [{ id, at, model: data.model, cost: data.cost_usd }] : [],
        )
        if (rows.length === 0) return
        const headers = { authorization: \`Bearer \${apiKey}\`, 'content-type': 'application/json' }
        const body = JSON.stringify(rows)
        const response = await host.request({ url, headers, body, signal })
        if (response.status > 299) throw await host.failure(response)
        await response.text()
      },
    }
  },
})
`,
  cases: {
    'calls.json': JSON.stringify({
      events: [
        {
          event: 'call.ended',
          id: 'ev_1',
          at: '2026-01-02T03:04:05.678Z',
          data: { model: 'acme/small', cost_usd: '0.000123' },
        },
        {
          event: 'call.ended',
          id: 'ev_2',
          at: '2026-01-02T03:04:06.000Z',
          data: { model: 'acme/large', cost_usd: '0.5' },
        },
      ],
      expect: {
        sent: [
          { id: 'ev_1', at: '2026-01-02T03:04:05.678Z', model: 'acme/small', cost: '0.000123' },
          { id: 'ev_2', at: '2026-01-02T03:04:06.000Z', model: 'acme/large', cost: '0.5' },
        ],
        requests: 1,
      },
    }),
    'slow.json': JSON.stringify({
      events: [{ event: 'call.ended' }],
      expect: { failure: 'upstream_rate', retry_after_ms: 3000 },
    }),
    'slow.http': answer('{}', 'application/json\nretry-after: 3', '429 Too Many Requests'),
  },
}

const SEARCH_CASES = {
  'none.json': JSON.stringify({ query: { text: 'Nothing at all' }, expect: { results: [] } }),
  'none.http': answer('{"found":[]}'),
  'slow.json': JSON.stringify({
    query: { text: 'Too often' },
    expect: { failure: 'upstream_rate', retry_after_ms: 7000 },
  }),
  'slow.http': answer('{}', 'application/json\nretry-after: 7', '429 Too Many Requests'),
}

function also(base: Base, cases: Readonly<Record<string, string>>): Base {
  return { ...base, cases: { ...base.cases, ...cases } }
}

export const BASES = {
  sse: example('provider-sse', 'provider'),
  whole: example('provider-whole', 'provider'),
  tools: also(example('provider-tools', 'provider'), TOOLS_CASES),
  lines: LINES,
  check: example('guard-check', 'guard'),
  stream: example('guard-stream', 'guard'),
  remote: example('guard-remote', 'guard'),
  cards: CARDS,
  search: also(example('search-json', 'search'), SEARCH_CASES),
  alerts: example('sink-alerts', 'sink'),
  calls: CALLS_SINK,
} satisfies Record<string, Base>
