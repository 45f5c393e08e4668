/** A provider of another shape than that beside this file, and faults that are meant to get past the kit. */
import { mutant, type Family } from './play.ts'

const provider = `import * as v from 'valibot'
import { defineProvider } from 'sluicegate'

export default defineProvider({
  name: 'acme',
  options: v.strictObject({ endpoint: v.string(), apiKey: v.string() }),
  setup({ endpoint, apiKey }: any, host: any) {
    const headers = { 'x-api-key': apiKey, 'content-type': 'application/json' }
    return {
      async chat({ input, model, signal }: any) {
        const { messages, stream, tools, tool_choice, temperature, top_p, stop, seed, presence_penalty, frequency_penalty, max_completion_tokens } = input
        const settings = { temperature, top_p, stop, seed, presence_penalty, frequency_penalty, max_completion_tokens }
        const body = host.json({ model, messages, tools, tool_choice, settings, stream: stream === true })
        const response = await host.request({ url: endpoint + '/run', headers, body, signal, stream: stream === true })
        if (response.status !== 200) throw await host.failure(response)
        if (stream) return host.sse(response.body).through(reader(host))
        const { output, counts } = await host.readJson(response)
        if (typeof output !== 'string') throw host.fail('upstream_error')
        const message = { role: 'assistant', content: output }
        return { choices: [{ index: 0, message, finish_reason: 'stop' }], usage: usageOf(counts) }
      },
    }
  },
})

const usageOf = ({ read, written }: any) => ({ prompt_tokens: read, completion_tokens: written })

function reader(host: any): any {
  const names = new Set()
  const one = (delta: any, emit: any) => emit({ choices: [{ index: 0, delta }] })
  return {
    push({ type, text, index, id, name, part, reason, counts }: any, emit: any) {
      if (type === 'error') throw host.fail('overloaded')
      if (type === 'text') one({ content: text }, emit)
      if (type === 'call') {
        names.add(index)
        one({ tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] }, emit)
      }
      if (type === 'part') one({ tool_calls: [{ index, function: { arguments: part } }] }, emit)
      if (type === 'end') emit({ choices: [{ index: 0, finish_reason: reason }] })
      if (type === 'counts') emit({ choices: [], usage: usageOf(counts) })
    },
  }
}
`
const events = (...values: readonly object[]) =>
  `HTTP/1.1 200 OK\ncontent-type: text/event-stream\n\n${values.map((one) => `data: ${JSON.stringify(one)}\n\n`).join('')}`
const answered = (value: object) =>
  `HTTP/1.1 200 OK\ncontent-type: application/json\n\n${JSON.stringify(value)}`
const messages = [{ role: 'user', content: 'Say hello.' }]
const usage = { prompt_tokens: 11, completion_tokens: 3 }
const counts = { read: 11, written: 3 }
const tools = ['find', 'read'].map((name) => ({ type: 'function', function: { name } }))

export const STREAMING_PROVIDERS: Family = {
  original: {
    code: provider,
    cases: {
      'hello.json': JSON.stringify({
        request: { messages, stream: true },
        expect: { text: 'Grüße,\n 👋!', usage },
      }),
      'hello.http': events(
        { type: 'text', text: 'Grüße,\n' },
        { type: 'ping' },
        { type: 'text', text: ' 👋!' },
        { type: 'end', reason: 'stop' },
        { type: 'counts', counts },
      ),
      'whole.json': JSON.stringify({ request: { messages }, expect: { text: ' Hello. ', usage } }),
      'whole.http': answered({ output: ' Hello. ', counts }),
      'calls.json': JSON.stringify({
        request: { messages, stream: true, tools },
        expect: {
          tool_calls: [
            { name: 'find', arguments: '{"n":1.50}' },
            { name: 'read', arguments: '{}' },
          ],
          usage,
        },
      }),
      'calls.http': events(
        { type: 'call', index: 0, id: 'a', name: 'find' },
        { type: 'part', index: 0, part: '{"n"' },
        { type: 'part', index: 0, part: ':1.50}' },
        { type: 'call', index: 1, id: 'b', name: 'read' },
        { type: 'part', index: 1, part: '{}' },
        { type: 'end', reason: 'tool_calls' },
        { type: 'counts', counts },
      ),
      'broken.json': JSON.stringify({
        request: { messages, stream: true },
        expect: { text: 'Hel', failure: 'overloaded' },
      }),
      'broken.http': events({ type: 'text', text: 'Hel' }, { type: 'error' }),
    },
  },
  mutants: [
    mutant(
      'ends where an error comes',
      'answer',
      "throw host.fail('overloaded')",
      "return emit({ choices: [{ index: 0, finish_reason: 'stop' }] })",
    ),
    mutant(
      'says the error to the client',
      'answer',
      "throw host.fail('overloaded')",
      "return one({ content: 'An error occurred.' }, emit)",
    ),
    mutant(
      'puts all arguments into the first call',
      'answer | stream rules',
      '{ index, function: { arguments: part } }',
      '{ index: 0, function: { arguments: part } }',
    ),
    mutant(
      'drops tools of conversations',
      'forwarded',
      'model, messages, tools',
      "model, messages: messages.filter(({ role }: any) => role !== 'tool'), tools",
    ),
    mutant(
      'drops the choice of tools',
      'forwarded',
      'tools, tool_choice, settings',
      'tools, settings',
    ),
    mutant('trims whole answers', 'answer', 'content: output }', 'content: output.trim() }'),
    mutant('has no usage in whole answers', 'usage', ', usage: usageOf(counts) }\n', ' }\n'),
    mutant(
      'takes a whole answer without text for an empty one',
      'errors',
      "if (typeof output !== 'string') throw host.fail('upstream_error')",
      '',
      'content: output }',
      "content: output ?? '' }",
      'usageOf(counts) }',
      'counts && usageOf(counts) }',
    ),
    mutant(
      'counts what comes on the way',
      'usage | stream rules',
      "if (type === 'text') one({ content: text }, emit)",
      "if (type === 'text') emit({ choices: [{ index: 0, delta: { content: text } }], usage: { prompt_tokens: 11, completion_tokens: 9 } })",
      "if (type === 'counts') emit({ choices: [], usage: usageOf(counts) })",
      '',
    ),
    mutant(
      'says that each answer was too long',
      'answer',
      'finish_reason: reason',
      "finish_reason: 'length'",
    ),
    mutant(
      'keeps the signal of its first call',
      'signal | cancel | hang',
      'const body = host.json',
      'first ??= signal; const body = host.json',
      'body, signal, stream',
      'body, signal: first, stream',
      'const usageOf',
      'let first: any\nconst usageOf',
    ),
    mutant(
      'remembers answers',
      'repeat | cuts | answer | cut off | errors',
      'const body = host.json',
      'const key = JSON.stringify(messages); if (!stream && known.has(key)) return known.get(key)\n        const body = host.json',
      'return { choices: [{ index: 0, message,',
      'const made = { choices: [{ index: 0, message,',
      'usageOf(counts) }\n      },',
      'usageOf(counts) }\n        known.set(key, made)\n        return made\n      },',
      'const usageOf',
      'const known = new Map()\nconst usageOf',
    ),
    mutant(
      'follows redirects',
      'errors',
      'if (response.status !== 200)',
      'if (response.status === 302) await (await host.request({ url: new URL(response.headers.location, endpoint).href, headers, body, signal })).text()\n        if (response.status !== 200)',
    ),
    mutant(
      'makes up a reason',
      'left out',
      "if (type === 'end') emit",
      "if (type === 'end') ended = true; if (type === 'end') emit",
      "if (type === 'counts') emit({ choices: []",
      "if (type === 'counts') emit({ choices: ended ? [] : [{ index: 0, finish_reason: 'stop' }]",
      'const names =',
      'let ended = false; const names =',
    ),
    mutant(
      'appends arguments to the call before',
      'left out',
      '{ index, function: { arguments: part } }',
      '{ index: names.size - 1, function: { arguments: part } }',
    ),
    mutant(
      'fails in its own code without the beginning of a call',
      'left out',
      "if (type === 'part') one",
      "if (type === 'part' && !names.has(index)) (undefined as any).name; if (type === 'part') one",
    ),
    mutant(
      'knows errors in the beginning only',
      'errors',
      "if (type === 'error') throw",
      "if (type === 'text') said++; if (type === 'error' && said < 2) throw",
      'const names =',
      'let said = 0; const names =',
    ),
    mutant(
      'takes an error among calls for one of the client',
      'errors',
      "host.fail('overloaded')",
      "host.fail(names.size > 0 ? 'bad_request' : 'overloaded')",
    ),
    mutant(
      'leaves line ends out',
      'answer',
      'one({ content: text }',
      "one({ content: text.replace('\\n', ' ') }",
    ),
  ],
}
