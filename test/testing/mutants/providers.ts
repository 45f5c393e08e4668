/** A provider with text, reasoning and calls of tools, and faults in it. */
import { alone, mutant, type Family } from './play.ts'

const code = `import * as v from 'valibot'
import { defineProvider } from 'sluicegate'

export default defineProvider({
  name: 'acme',
  options: v.strictObject({ baseURL: v.pipe(v.string(), v.url()), apiKey: v.string() }),
  ignores: ['presence_penalty', 'frequency_penalty'],
  setup({ baseURL, apiKey }: any, host: any) {
    const headers = { authorization: \`Bearer \${apiKey}\`, 'content-type': 'application/json' }
    return {
      async chat({ input, model, signal }: any) {
        const { messages, temperature, top_p, stop, seed, tools, max_completion_tokens: limit } = input
        const more = { reasoning: input.reasoning, response_format: input.response_format, n: input.n }
        const asked = { ...more, model, tool_choice: input.tool_choice, turns: messages, temperature, top_p, stop, seed, tools, limit }
        const body = host.json(asked)
        const url = baseURL + '/generate'
        const response = await host.request({ url, headers, body, signal, stream: true })
        if (response.status !== 200) throw await host.failure(response)
        return host.lines(response.body).through(chunks())
      },
      close() {},
    }
  },
})

function chunks(): any {
  let calls = 0
  const one = (delta: any, emit: any) => emit({ choices: [{ index: 0, delta }] })
  return {
    push({ text, thought, call, tokens }: any, emit: any) {
      if (thought) one({ reasoning: thought }, emit)
      if (text) one({ content: text }, emit)
      if (call) {
        const body = { name: call.name, arguments: call.arguments }
        one({ tool_calls: [{ index: calls, id: call.id, type: 'function', function: body }] }, emit)
        calls++
      }
      if (!tokens) return
      const cached = { cached_tokens: tokens.cached }
      const usage = { prompt_tokens: tokens.in, completion_tokens: tokens.out, prompt_tokens_details: cached }
      emit({ choices: [{ index: 0, finish_reason: calls > 0 ? 'tool_calls' : 'stop' }], usage })
    },
  }
}
`

const HEAD = 'HTTP/1.1 200 OK\ncontent-type: application/x-ndjson\n\n'
const lines = (...values: readonly object[]) =>
  HEAD + values.map((value) => `${JSON.stringify(value)}\n`).join('')
const request = { messages: [{ role: 'user', content: 'Say hello.' }], stream: true }
const usage = {
  prompt_tokens: 11,
  completion_tokens: 3,
  prompt_tokens_details: { cached_tokens: 4 },
}
const tokens = { in: 11, out: 3, cached: 4 }
const calls = [
  { id: 'a', name: 'find', arguments: '{"n":12345678901234567890}' },
  { id: 'b', name: 'read', arguments: '{"path":"/"}' },
]
const tools = ['find', 'read'].map((name) => ({
  type: 'function',
  function: { name, parameters: { type: 'object', properties: {} } },
}))

export const PROVIDERS: Family = {
  original: {
    code,
    cases: {
      'hello.json': JSON.stringify({
        request,
        expect: { reasoning: 'Politely.', text: 'Grüße, 👋!', usage },
      }),
      'hello.http': lines(
        { thought: 'Politely.' },
        { text: 'Grüße, ' },
        { text: '👋!' },
        { tokens },
      ),
      'form.json': JSON.stringify({
        request: {
          ...request,
          n: 1,
          reasoning: { effort: 'low' },
          response_format: { type: 'json_object' },
        },
        expect: { text: '{}', usage },
      }),
      'form.http': lines({ text: '{}' }, { tokens }),
      'tools.json': JSON.stringify({
        request: { ...request, tools },
        expect: {
          tool_calls: calls.map(({ name, arguments: given }) => ({ name, arguments: given })),
          usage,
          sent: { tools },
        },
      }),
      'tools.http': lines(...calls.map((call) => ({ call })), { tokens }),
      'refused.json': JSON.stringify({
        request,
        expect: { failure: 'upstream_rate', retry_after_ms: 2000 },
      }),
      'refused.http':
        'HTTP/1.1 429 Too Many Requests\ncontent-type: application/json\nretry-after: 2\n\n{"error":"slow down"}',
    },
  },
  mutants: [
    mutant('loses reasoning', 'answer', 'if (thought) one({ reasoning: thought }, emit)', ''),
    mutant('gives reasoning as text', 'answer', '{ reasoning: thought }', '{ content: thought }'),
    mutant(
      'loses the first text',
      'answer',
      'if (text) one(',
      'if (text && text !== "Grüße, ") one(',
    ),
    mutant('trims texts', 'answer', '{ content: text }', '{ content: text.trim() }'),
    mutant(
      'swaps the counts',
      'usage',
      'prompt_tokens: tokens.in, completion_tokens: tokens.out',
      'prompt_tokens: tokens.out, completion_tokens: tokens.in',
    ),
    mutant('leaves cached tokens out', 'usage', 'cached_tokens: tokens.cached', 'cached_tokens: 0'),
    mutant(
      'takes cached tokens off the prompt',
      'usage',
      'prompt_tokens: tokens.in',
      'prompt_tokens: tokens.in - tokens.cached',
    ),
    mutant(
      'counts in texts',
      'usage | stream rules',
      'completion_tokens: tokens.out',
      'completion_tokens: String(tokens.out)',
    ),
    mutant('reports no usage', 'usage', '], usage })', '] })'),
    mutant(
      'parses arguments',
      'answer | stream rules',
      'arguments: call.arguments }',
      'arguments: JSON.stringify(JSON.parse(call.arguments)) }',
    ),
    mutant(
      'makes up an end',
      'cut off',
      'calls++\n      }',
      "calls++\n      }\n      if (text) emit({ choices: [{ index: 0, finish_reason: 'stop' }] })",
    ),
    mutant(
      'ends in end()',
      'cut off',
      '  return {\n    push(',
      "  return {\n    end(emit: any) { emit({ choices: [{ index: 0, finish_reason: 'stop' }] }) },\n    push(",
    ),
    mutant(
      'makes each read an event',
      'cuts | answer | cut off',
      'host.lines(response.body)',
      'reads(response.body)',
      'function chunks(',
      'async function* perRead(body: any) { for await (const bytes of body) for (const line of Buffer.from(bytes).toString().split("\\n")) if (line) yield JSON.parse(line) }\nfunction reads(body: any) { return { through: (step: any) => each(perRead(body), step) } }\nasync function* each(parts: any, step: any) { for await (const part of parts) { const out: any[] = []; step.push(part, (one: any) => out.push(one)); yield* out } }\nfunction chunks(',
    ),
    mutant(
      'reads all before the first part',
      'cancel | back-pressure | hang',
      'return host.lines(response.body).through(chunks())',
      'const all = await response.text(); const step = chunks(); const out: any[] = []; for (const line of all.split("\\n")) if (line) step.push(JSON.parse(line), (c: any) => out.push(c)); return (async function* () { yield* out })()',
    ),
    mutant(
      'reads ahead',
      'back-pressure',
      'return host.lines(response.body).through(chunks())',
      'const flow = host.lines(response.body).through(chunks()); const queue: any[] = []; let wake = () => {}; let ended: any; void (async () => { try { for await (const c of flow) { queue.push(c); wake() } ended = { } } catch (error) { ended = { error } } wake() })(); return (async function* () { for (;;) { while (queue.length > 0) yield queue.shift(); if (ended) { if ("error" in ended) throw ended.error; return } await new Promise<void>((r) => { wake = r }) } })()',
    ),
    mutant(
      'gives no signal',
      'signal | cancel | hang',
      'body, signal, stream',
      'body, signal: new AbortController().signal, stream',
    ),
    mutant(
      'gives a signal of its own time',
      'cancel | hang | signal',
      'body, signal, stream',
      'body, signal: AbortSignal.timeout(60000), stream',
    ),
    mutant(
      'takes any status for an answer',
      'errors | answer',
      'if (response.status !== 200) throw await host.failure(response)',
      '',
    ),
    mutant(
      'knows one class only',
      'errors | answer',
      'throw await host.failure(response)',
      "throw host.fail('upstream_error')",
    ),
    mutant(
      'forgets the wait',
      'errors | answer',
      'throw await host.failure(response)',
      "throw host.fail(response.status === 429 ? 'upstream_rate' : 'upstream_error')",
    ),
    mutant(
      'waits in ms what is seconds',
      'errors | answer',
      'throw await host.failure(response)',
      '{ const error: any = await host.failure(response); if (error.retryAfterMs) error.retryAfterMs /= 1000; throw error }',
    ),
    mutant(
      'takes the key for a rate',
      'errors',
      'throw await host.failure(response)',
      "throw await host.failure(response, { classes: { 401: 'upstream_rate' } })",
    ),
    mutant(
      'takes 503 for an error',
      'errors',
      'throw await host.failure(response)',
      "throw await host.failure(response, { classes: { 503: 'bad_request' } })",
    ),
    mutant(
      'throws an error of its own',
      'errors | answer',
      'throw await host.failure(response)',
      "throw new Error('status ' + response.status)",
    ),
    mutant(
      'quotes the vendor',
      'secrets',
      'throw await host.failure(response)',
      'throw await host.failure(response, { message: await response.text() })',
    ),
    mutant(
      'tries again',
      'errors',
      'if (response.status !== 200) throw',
      'if (response.status === 500) await (await host.request({ url, headers, body, signal })).text()\n        if (response.status !== 200) throw',
    ),
    mutant(
      'logs the key',
      'secrets',
      "const url = baseURL + '/generate'",
      "host.log.info(headers.authorization); const url = baseURL + '/generate'",
    ),
    mutant(
      'quotes the address',
      'secrets',
      'throw await host.failure(response)',
      "throw host.fail(response.status === 429 ? 'upstream_rate' : 'upstream_error', 'failed at ' + url)",
    ),
    mutant(
      'answers with the error as text',
      'errors | answer',
      'throw await host.failure(response)',
      "return { choices: [{ message: { content: 'An error.' }, finish_reason: 'stop' }] }",
    ),
    mutant(
      'takes what cannot be read for the end',
      'errors | cut off',
      'host.lines(response.body).through(chunks())',
      'quietly(host.lines(response.body).through(chunks()))',
      'function chunks(',
      "async function* quietly(flow: any) { try { yield* flow } catch { yield { choices: [{ index: 0, finish_reason: 'stop' }] } } }\nfunction chunks(",
    ),
    mutant(
      'drops the temperature',
      'forwarded',
      'turns: messages, temperature,',
      'turns: messages,',
    ),
    mutant(
      'has a temperature of its own',
      'forwarded',
      'turns: messages, temperature,',
      'turns: messages, temperature: 0.7,',
    ),
    mutant(
      'drops stop',
      'forwarded',
      'top_p, stop, seed, tools, limit }',
      'top_p, seed, tools, limit }',
    ),
    mutant(
      'limits the output',
      'forwarded',
      'tools, limit }',
      'tools, limit: Math.min(limit ?? 1000, 1000) }',
    ),
    mutant('drops tools', 'answer', 'seed, tools, limit }', 'seed, limit }'),
    mutant(
      'sends the last message only',
      'forwarded',
      'turns: messages',
      'turns: messages.slice(-1)',
    ),
    mutant(
      'sends texts of parts joined to one, but the last',
      'forwarded',
      'turns: messages',
      'turns: messages.map((m: any) => ({ ...m, content: Array.isArray(m.content) ? m.content[0].text : m.content }))',
    ),
    mutant(
      'drops the form of the answer',
      'forwarded',
      'response_format: input.response_format, ',
      '',
    ),
    mutant('drops reasoning', 'forwarded', 'reasoning: input.reasoning, ', ''),
    mutant('drops n', 'forwarded', ', n: input.n', ''),
    mutant(
      'knows reasoning as a switch',
      'forwarded',
      'reasoning: input.reasoning,',
      'reasoning: input.reasoning && true,',
    ),
    mutant(
      'leaves images out',
      'forwarded',
      'turns: messages',
      "turns: messages.map((m: any) => (Array.isArray(m.content) ? { ...m, content: m.content.filter(({ type }: any) => type !== 'image_url') } : m))",
    ),
    mutant(
      'leaves out what is no text',
      'forwarded',
      'turns: messages',
      "turns: messages.map((m: any) => (Array.isArray(m.content) ? { ...m, content: m.content.filter(({ type }: any) => type === 'text') } : m))",
    ),
    mutant(
      'loses reasoning where nothing is streamed',
      'stream off',
      'return host.lines(response.body).through(chunks())',
      'const flow = host.lines(response.body).through(chunks()); if (input.stream) return flow; return (async function* () { for await (const c of flow) if (!c.choices[0].delta?.reasoning) yield c })()',
    ),
    mutant(
      'asks for a form that no case shows',
      'stream off',
      'const asked = {',
      'const asked = { stream: input.stream, ',
    ),
    mutant('turns messages round', 'forwarded', 'turns: messages', 'turns: messages.toReversed()'),
    mutant(
      'ignores what it sends',
      'forwarded',
      "ignores: ['presence",
      "ignores: ['seed', 'presence",
    ),
    mutant(
      'changes the request',
      'set up | answer',
      'const body = host.json(asked)',
      'input.seen = true; const body = host.json(asked)',
    ),
    mutant(
      'asks another host',
      'set up',
      "baseURL + '/generate'",
      "'http://vendor.example/generate'",
    ),
    mutant('has no methods', 'set up', 'async chat(', 'async chats('),
    mutant('throws in close', 'close', 'close() {}', "close() { throw new Error('closed') }"),
    mutant('does not close', 'close', 'close() {}', 'close() { return new Promise(() => {}) }'),
    mutant(
      'never answers a refusal',
      'answer | errors',
      'throw await host.failure(response)',
      'await new Promise(() => {})',
    ),
    mutant(
      'leaves out a text that another answer had',
      'repeat',
      'if (text) one(',
      'if (text && text !== last) one(',
      'if (!tokens)',
      'last = text ?? last\n      if (!tokens)',
      'function chunks(',
      'let last: any\nfunction chunks(',
    ),
    mutant('gives one name to all calls', 'answer', 'name: call.name', "name: 'find'"),
    alone(
      'leaves a timer',
      'handles',
      'const headers = {',
      'setInterval(() => {}, 1000)\n    const headers = {',
    ),
    alone(
      'uses fetch',
      'own connections',
      'const body = host.json(asked)',
      'const body = host.json(asked); await fetch(baseURL).catch(() => {})',
    ),
    alone(
      'prints',
      'console',
      'const body = host.json(asked)',
      'const body = host.json(asked); console.log(body.length)',
    ),
    alone(
      'loops',
      'answer | set up',
      'if (text) one(',
      'if (text) for (;;);\n      if (text) one(',
    ),
    alone(
      'throws in a callback',
      'uncaught',
      'const body = host.json(asked)',
      'const body = host.json(asked); setImmediate(() => { throw new Error("late") })',
    ),
    alone(
      'keeps all answers',
      'memory',
      'const body = host.json(asked)',
      'const body = host.json(asked); kept.push(Array.from({ length: 4000 }, (_, i) => i + 0.5))',
      'function chunks(',
      'const kept: any[] = []\nfunction chunks(',
    ),
    alone(
      'joins the text again and again',
      'time',
      'if (text) one(',
      'seen.push(text); if (text && JSON.stringify(seen).length > 1) one(',
      'let calls = 0',
      'let calls = 0\n  const seen: any[] = []',
    ),
    alone(
      'leaves a server',
      'handles',
      'const headers = {',
      'createServer().listen(0)\n    const headers = {',
      'import * as v',
      "import { createServer } from 'node:http'\nimport * as v",
    ),
  ],
}
