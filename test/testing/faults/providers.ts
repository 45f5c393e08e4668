/** Providers with one fault each. */
import { answer, events, fault } from './bases.ts'

const TEXT = 'if (text) give({ content: text })'
const SSE_TEXT = 'if (text) emit({ choices: [{ index: 0, delta: { content: text } }] })'
const FLOW = 'return host.sse(response.body).through(chunks(host))'
const SSE_FLOW = 'return host.sse(response.body).through(chunks)'
const LINES_FLOW = 'return host.lines(response.body).through(chunks())'
const STATUS = 'if (response.status !== 200) throw await host.failure(response)'
const TOOLS_STATUS =
  'if (response.status !== 200) throw await host.failure(response, { classify: classOf })'
const PUSH = 'push({ thought, text, call, id, name, arguments: piece, end, tokens, error }, emit) {'
const REQUEST = 'host.request({ url, headers, body, signal, stream: true })'
const LIMIT = 'max_completion_tokens: limit'
const CALL = "give({ tool_calls: [{ index: call, id, type: 'function', function: { name } }] })"
const PIECE = 'give({ tool_calls: [{ index: call, function: { arguments: piece } }] })'
const MEMBERS =
  'const { messages, temperature, top_p, stop, seed, max_completion_tokens: limit } = input'
const CHUNKS = 'const chunks: Step<any, ChatChunk> = {'
const TURNS = 'turns: messages'

/** @returns the end of `chat` that passes the parts on in a generator, with `body` around them */
const generator = (flow: string, body: string) =>
  `const flow = ${flow.replace('return ', '')}
        return (async function* (): AsyncGenerator<any> { ${body} })()`

const END = "yield { choices: [{ index: 0, finish_reason: 'stop' }] }"
const message = (change: string) =>
  `turns: messages.map((message: any) => { const { role, content, tool_call_id } = message; ${change} })`

/** Ends: an answer that was cut may not pass for a whole one. */
const ENDS = [
  fault('tools', 'cut off', 'usage with the first text', [
    [
      TEXT,
      `if (text) { give({ content: text }); emit({ choices: [], usage: { prompt_tokens: 1, completion_tokens: 1 } }) }`,
    ],
  ]),
  fault('tools', 'cut off', 'a finish in end()', [
    [PUSH, `end(emit) { emit({ choices: [{ index: 0, finish_reason: 'stop' }] }) },\n    ${PUSH}`],
  ]),
  fault('sse', 'cut off', 'a finish in end() of a constant step', [
    [
      CHUNKS,
      `${CHUNKS}\n  end(emit) { emit({ choices: [{ index: 0, finish_reason: 'stop' }] }) },`,
    ],
  ]),
  fault('sse', 'cut off', 'a broken connection ends the answer well', [
    [
      SSE_FLOW,
      generator(SSE_FLOW, `try { for await (const chunk of flow) yield chunk } catch { ${END} }`),
    ],
  ]),
  fault('lines', 'cut off', 'a broken connection ends the lines well', [
    [
      LINES_FLOW,
      generator(LINES_FLOW, `try { for await (const chunk of flow) yield chunk } catch { ${END} }`),
    ],
  ]),
  fault('tools', 'cut off', 'a finish behind the last part, if it had none', [
    [
      FLOW,
      generator(
        FLOW,
        `let ended = false; for await (const chunk of flow) { ended ||= chunk.choices.some((one) => one.finish_reason); yield chunk } if (!ended) ${END}`,
      ),
    ],
  ]),
  fault('lines', 'cut off', 'tokens counted here at the end', [
    [
      'function chunks(): Step<any, ChatChunk> {\n  return {',
      `function chunks(): Step<any, ChatChunk> {\n  return {\n    end(emit) { emit({ choices: [], usage: { prompt_tokens: 0, completion_tokens: 9 } }) },`,
    ],
  ]),
  fault('sse', 'cut off', 'each part is the end of the stream', [
    ['delta: { content: text } }] })', 'delta: { content: text } }], endOfStream: true })'],
  ]),
  fault('whole', 'cut off', 'a whole answer read by an expression', [
    [
      'const { text, tokens } = await host.readJson(response)',
      `if (response.status !== 200) throw await host.failure(response)
        const raw = await response.text().catch(() => '{"text":"')
        const text = JSON.parse(\`"\${/"text":"([^"]*)/.exec(raw)?.[1] ?? ''}"\`)
        const tokens = { in: Number(/"in":(\\d+)/.exec(raw)?.[1] ?? 0), out: Number(/"out":(\\d+)/.exec(raw)?.[1] ?? 0) }`,
    ],
  ]),
  fault('tools', ['cut off', 'left out'], 'calls of tools end with their first piece', [
    [PIECE, `${PIECE}\n        emit({ choices: [{ index: 0, finish_reason: 'tool_calls' }] })`],
  ]),
  fault('lines', ['cut off', 'left out'], 'the finish reason is known from the start', [
    [
      SSE_TEXT,
      "if (text) emit({ choices: [{ index: 0, delta: { content: text }, finish_reason: 'stop' }] })",
    ],
    [
      "if (done) emit({ choices: [{ index: 0, finish_reason: done === 'full' ? 'length' : 'stop' }] })",
      '',
    ],
  ]),
]

/** Answers that do not end as they should. */
const ENDLESS = [
  fault('sse', 'cancel', 'return() hangs', [
    [
      SSE_FLOW,
      generator(
        SSE_FLOW,
        'try { for await (const chunk of flow) yield chunk } finally { await new Promise(() => {}) }',
      ),
    ],
  ]),
  fault('sse', ['cancel', 'uncaught'], 'return() throws', [
    [
      SSE_FLOW,
      generator(
        SSE_FLOW,
        "let ended = false; try { for await (const chunk of flow) yield chunk; ended = true } finally { if (!ended) throw new Error('left early') }",
      ),
    ],
  ]),
  fault('sse', 'answer', 'an answer that trickles', [
    [
      SSE_FLOW,
      generator(
        SSE_FLOW,
        "for await (const chunk of flow) yield chunk; for (;;) { await new Promise((resolve) => setTimeout(resolve, 100)); yield { choices: [{ index: 0, delta: { content: '' } }] } }",
      ),
    ],
  ]),
  fault('sse', 'answer', 'an answer that never ends', [
    [
      SSE_FLOW,
      generator(
        SSE_FLOW,
        "for await (const chunk of flow) yield chunk; for (;;) { await new Promise(setImmediate); yield { choices: [{ index: 0, delta: { content: 'more' } }] } }",
      ),
    ],
  ]),
  fault('sse', 'answer', 'an answer that never ends, without a pause', [
    [
      SSE_FLOW,
      generator(
        SSE_FLOW,
        "for await (const chunk of flow) yield chunk; for (;;) yield { choices: [{ index: 0, delta: { content: 'more' } }] }",
      ),
    ],
  ]),
  fault('sse', 'answer', 'a loop in push', [
    [SSE_TEXT, `if (text?.includes('👋')) for (;;);\n    ${SSE_TEXT}`],
  ]),
  fault('sse', 'answer', 'a promise that never settles', [
    [SSE_FLOW, 'return new Promise<any>(() => {})'],
  ]),
  fault('tools', ['answer', 'cuts'], 'stalls before the end of each answer', [
    [
      FLOW,
      generator(
        FLOW,
        'for await (const chunk of flow) yield chunk; await new Promise((resolve) => setTimeout(resolve, 60_000).unref())',
      ),
    ],
  ]),
  fault('sse', ['answer', 'set up'], 'ends the process', [[SSE_FLOW, 'process.exit(3)']]),
]

/** Calls of tools, ids, and roles. */
const CALLS = [
  fault('tools', 'answer', 'the id of a call is lost', [[CALL, CALL.replace('id, ', '')]]),
  fault(
    'tools',
    'answer',
    'the id of a call is lost, and no case names it',
    [[CALL, CALL.replace('id, ', '')]],
    {
      cases: { 'ids.json': null, 'ids.http': null },
    },
  ),
  fault('tools', 'answer', 'each call has an id of ours', [
    [CALL, CALL.replace('id, ', "id: 'call_' + call, ")],
  ]),
  fault('tools', 'answer', 'names are changed', [
    [CALL, CALL.replace('{ name }', "{ name: name + '_tool' }")],
  ]),
  fault('tools', 'answer', 'digits of arguments are lost', [
    ['const called = new Set<number>()', "const called = new Set<number>()\n  let all = ''"],
    [
      PIECE,
      'all += piece\n        try { piece = JSON.stringify(JSON.parse(all)); all = "" } catch { return }\n        ' +
        PIECE,
    ],
  ]),
  fault('tools', 'answer', 'the last piece of arguments is lost', [
    [`if (piece) {`, "if (piece && !piece.endsWith('}')) {"],
  ]),
  fault('tools', 'forwarded', 'tool_call_id is lost', [
    [TURNS, 'turns: messages.map(({ tool_call_id, ...message }: any) => message)'],
  ]),
  fault('tools', 'forwarded', 'tool is sent as system', [
    [
      TURNS,
      message("return role === 'tool' ? { role: 'system', content, tool_call_id } : message"),
    ],
  ]),
  fault('sse', 'forwarded', 'developer is sent as user', [
    [TURNS, message("return role === 'developer' ? { role: 'user', content } : message")],
  ]),
  fault('sse', 'forwarded', 'system is sent as user', [
    [TURNS, message("return role === 'system' ? { role: 'user', content } : message")],
  ]),
  fault('sse', 'forwarded', 'assistant is sent as user', [
    [TURNS, message("return role === 'assistant' ? { ...message, role: 'user' } : message")],
  ]),
  fault('tools', 'forwarded', 'tool is sent as assistant', [
    [
      TURNS,
      message("return role === 'tool' ? { role: 'assistant', content, tool_call_id } : message"),
    ],
  ]),
  fault('tools', 'forwarded', 'tool is sent as user', [
    [TURNS, message("return role === 'tool' ? { role: 'user', content, tool_call_id } : message")],
  ]),
  fault('sse', 'forwarded', 'no roles', [[TURNS, message('return { content, tool_call_id }')]]),
  fault('lines', 'forwarded', 'no roles, in lines', [
    [TURNS, message('return { content, tool_call_id }')],
  ]),
]

/** What does not reach the vendor. */
const FORWARDED = [
  ...['temperature', 'top_p', 'stop', 'seed'].map((member) =>
    fault(
      'sse',
      'forwarded',
      `${member} is lost`,
      [
        [MEMBERS, MEMBERS],
        [`${member}, `, ''],
      ].slice(1) as [string, string][],
      {
        cases: {
          'hello.json': JSON.stringify({
            request: {
              model: 'small-1',
              messages: [{ role: 'user', content: 'Say hello.' }],
              stream: true,
            },
            expect: { text: 'Grüße, 👋!', usage: { prompt_tokens: 11, completion_tokens: 3 } },
          }),
        },
      },
    ),
  ),
  fault('sse', 'forwarded', 'the limit is lost', [
    [`, ${LIMIT}`, ''],
    [', limit }', ' }'],
  ]),
  fault('lines', 'forwarded', 'temperature is ignored, and sent', [
    ['ignores: [', "ignores: ['temperature', "],
  ]),
  fault('sse', 'forwarded', 'only the last turn', [[TURNS, 'turns: messages.slice(-1)']]),
  fault('lines', 'forwarded', 'only the first part of a content', [
    [
      TURNS,
      message(
        'return { ...message, content: Array.isArray(content) ? content.slice(0, 1) : content }',
      ),
    ],
  ]),
  fault('sse', 'forwarded', 'turns in reverse', [[TURNS, 'turns: messages.toReversed()']]),
  fault('whole', 'forwarded', 'images are left out', [
    [
      TURNS,
      message(
        "return { ...message, content: Array.isArray(content) ? content.filter((part: any) => part.type === 'text') : content }",
      ),
    ],
  ]),
  fault('tools', 'forwarded', 'results of tools are empty', [
    [TURNS, message("return role === 'tool' ? { ...message, content: '' } : message")],
  ]),
  fault('tools', 'forwarded', 'arguments of earlier calls are lost', [
    [TURNS, 'turns: messages.map(({ tool_calls, ...message }: any) => message)'],
  ]),
  fault('tools', 'forwarded', 'tool_choice is lost', [['use: tool_choice,', '']]),
  fault('tools', 'forwarded', 'parallel_tool_calls is lost', [
    ['parallel: parallel_tool_calls,', ''],
  ]),
  fault('tools', 'forwarded', 'seed is a constant', [['stop, seed }', 'stop, seed: 7 }']]),
]

/** Answers that are not what the vendor said. */
const ANSWERS = [
  fault('tools', 'answer', 'reasoning is lost', [
    ['if (thought) give({ reasoning: thought })', ''],
  ]),
  fault('tools', 'answer', 'reasoning is text', [
    ['give({ reasoning: thought })', 'give({ content: thought })'],
  ]),
  fault('tools', 'answer', 'an unknown end is length', [
    ['REASONS[end] ?? (', "REASONS[end] ?? (called.size === 0 ? 'length' : "],
  ]),
  fault('tools', 'answer', 'full is stop', [["full: 'length', ", '']]),
  fault('sse', 'answer', 'texts are trimmed', [['content: text }', 'content: text.trim() }']]),
  fault('sse', 'answer', 'text in another member', [
    ['delta: { content: text }', 'delta: { text } as any'],
  ]),
  fault('sse', 'answer', 'letters outside of ASCII are lost', [
    ['content: text }', "content: text.replaceAll(/[^\\x20-\\x7e]/g, '') }"],
  ]),
  fault('sse', ['answer', 'stream rules'], 'no end', [
    ["emit({ choices: [{ index: 0, finish_reason: 'stop' }], usage })", ''],
  ]),
  fault('sse', 'answer', 'text behind the end', [
    [
      "finish_reason: 'stop' }], usage })",
      "finish_reason: 'stop' }], usage })\n    emit({ choices: [{ index: 0, delta: { content: '.' } }] })",
    ],
  ]),
  fault('tools', 'answer', 'an error of the stream is missed', [
    ['if (error) throw', 'if (false) throw'],
  ]),
  fault('tools', 'answer', 'an error of the stream is a text', [
    [
      "if (error) throw host.fail(classOf({ error }) ?? 'upstream_error')",
      "if (error) { give({ content: 'error' }); emit({ choices: [{ index: 0, finish_reason: 'stop' }] }); return }",
    ],
  ]),
  fault('tools', 'answer', 'an error of the stream has another class', [
    ["classOf({ error }) ?? 'upstream_error'", "'bad_request'"],
  ]),
  fault('tools', 'answer', 'the wait of a refusal is lost', [
    [
      TOOLS_STATUS,
      "if (response.status === 429) { await response.text(); throw host.fail('upstream_rate') }\n        " +
        TOOLS_STATUS,
    ],
  ]),
  fault('sse', 'usage', 'no usage', [
    [', usage })', ' })'],
    ['const usage = { prompt_tokens: tokens.in, completion_tokens: tokens.out }', ''],
  ]),
  fault('tools', 'usage', 'cached tokens are taken off', [
    ['prompt_tokens: tokens.in', 'prompt_tokens: tokens.in - (tokens.cached ?? 0)'],
  ]),
  fault('tools', 'usage', 'reasoning is taken off', [
    ['completion_tokens: tokens.out', 'completion_tokens: tokens.out - (tokens.thought ?? 0)'],
  ]),
  fault('sse', 'usage', 'sides are swapped', [
    [
      'prompt_tokens: tokens.in, completion_tokens: tokens.out',
      'prompt_tokens: tokens.out, completion_tokens: tokens.in',
    ],
  ]),
  fault('sse', 'usage', 'counts are texts', [
    ['prompt_tokens: tokens.in', 'prompt_tokens: String(tokens.in) as any'],
  ]),
  fault('whole', 'answer', 'the text has a line end', [
    ['content: text }', "content: text + '\\n' }"],
  ]),
  fault('sse', 'stream off', 'a whole answer lacks its last letter', [
    [
      SSE_FLOW,
      `if (!input.stream) return { choices: [{ message: { role: 'assistant', content: (await response.text()).slice(0, 9) }, finish_reason: 'stop' }] }\n        ${SSE_FLOW}`,
    ],
  ]),
]

/** Bytes: what depends on where the network cuts, and what vanishes. */
const OWN_READER = (
  body: string,
) => `${body}\n        return (async function* (): AsyncGenerator<any> {
          let rest = ''
          for await (const bytes of response.body) {
            rest += decode(bytes)
            const lines = rest.split('\\n')
            rest = KEEP ? lines.pop()! : ''
            for (const line of lines) {
              if (!line.startsWith('data: ')) continue
              const { text, tokens } = parse(line.slice(6))
              if (text) yield { choices: [{ index: 0, delta: { content: text } }] }
              if (tokens) yield { choices: [{ index: 0, finish_reason: 'stop' }], usage: { prompt_tokens: tokens.in, completion_tokens: tokens.out } }
            }
          }
        })()`
const DECODER =
  'const decoder = new TextDecoder(); const decode = (bytes: Uint8Array) => decoder.decode(bytes, { stream: true })'
const READ_TEXT = 'host.lines(response.body, { as: "text" })'
const parseLine = (otherwise: string) =>
  `return (async function* (): AsyncGenerator<any> {
          for await (const line of ${READ_TEXT}) {
            let value: any
            try { value = JSON.parse(line) } catch { ${otherwise} }
            const { text, done, tokens } = value
            if (text) yield { choices: [{ index: 0, delta: { content: text } }] }
            if (done) yield { choices: [{ index: 0, finish_reason: 'stop' }] }
            if (tokens) yield { choices: [], usage: { prompt_tokens: tokens.in, completion_tokens: tokens.out } }
          }
        })()`
const BYTES = [
  fault('sse', 'cuts', 'each piece is decoded alone', [
    [
      SSE_FLOW,
      OWN_READER(
        'const KEEP = true; const parse = JSON.parse; const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes)',
      ),
    ],
  ]),
  fault('sse', 'cuts', 'a line that is cut is lost', [
    [
      SSE_FLOW,
      OWN_READER(
        `const KEEP = false; ${DECODER}; const parse = (text: string) => { try { return JSON.parse(text) } catch { return {} } }`,
      ),
    ],
  ]),
  fault('sse', 'cuts', 'a line that is cut is an error', [
    [SSE_FLOW, OWN_READER(`const KEEP = false; const parse = JSON.parse; ${DECODER}`)],
  ]),
  fault('sse', 'unreadable', 'events that are no JSON are left out', [
    [
      SSE_FLOW,
      OWN_READER(
        `const KEEP = true; ${DECODER}; const parse = (text: string) => { try { return JSON.parse(text) } catch { return {} } }`,
      ),
    ],
  ]),
  fault('lines', 'unreadable', 'lines that are no JSON are left out', [
    [LINES_FLOW, parseLine('continue')],
  ]),
  fault('lines', ['unreadable', 'cut off'], 'a line that is no JSON ends the answer', [
    [LINES_FLOW, parseLine("yield { choices: [{ index: 0, finish_reason: 'stop' }] }; return")],
  ]),
  fault('lines', 'unreadable', 'an unknown line swallows the next one', [
    [
      '  return {\n    push({ text, done, tokens }, emit) {',
      '  let skip = false\n  return {\n    push({ text, done, tokens }, emit) {\n      if (skip) { skip = false; return }\n      if (text === undefined && !done && !tokens) { skip = true; return }',
    ],
  ]),
  fault('tools', 'unreadable', 'an unknown event ends the answer', [
    [
      PUSH,
      `${PUSH}\n      if (!thought && !text && !name && !piece && !end && !error) end = 'done'`,
    ],
  ]),
  fault('tools', 'unreadable', 'texts behind an unknown event are lost', [
    ['const called = new Set<number>()', 'const called = new Set<number>()\n  let lost = false'],
    [PUSH, `${PUSH}\n      lost ||= !thought && !text && !name && !piece && !end && !error`],
    ['if (text) give', 'if (text && !lost) give'],
  ]),
]

/** A refusal whose class has no sentence of the gateway's own, and that names an account. */
const DENIED = {
  cases: {
    'denied.json': JSON.stringify({
      request: { messages: [{ role: 'user', content: 'Say hello.' }] },
      expect: { failure: 'upstream_auth' },
    }),
    'denied.http': answer(
      '{"error":"acme-4711 may not use this model"}',
      'application/json',
      '403 Forbidden',
    ),
  },
}

/** Where a set of calls is emptied, and no case has an answer without calls. */
const CLEARED = [
  ['beginning', 'const response = await', 'called.clear()\n        const response = await'],
  [
    'end',
    'emit({ choices: [{ index: 0, finish_reason }],',
    'called.clear()\n      emit({ choices: [{ index: 0, finish_reason }],',
  ],
] as const
const ONLY_CALLS = Object.fromEntries(
  ['hello', 'long', 'full', 'ids', 'broken'].flatMap((name) => [
    [`${name}.json`, null],
    [`${name}.http`, null],
  ]),
)

/** Calls that touch each other, leave something behind, or are not let go. */
const CONDUCT = [
  fault('tools', 'repeat', 'one set of calls for all answers', [
    ['  const called = new Set<number>()\n', ''],
    [
      'function chunks(host: Host)',
      'const called = new Set<number>()\n\nfunction chunks(host: Host)',
    ],
  ]),
  fault(
    'sse',
    'repeat',
    'usage in one place for all answers',
    [
      [CHUNKS, `let seen: any\n\n${CHUNKS}`],
      ['push({ text, tokens }, emit) {', 'push({ text, tokens, end }, emit) {'],
      [
        'if (!tokens) return\n',
        'if (tokens) seen = { prompt_tokens: tokens.in, completion_tokens: tokens.out }\n    if (!end) return\n',
      ],
      [
        '    const usage = { prompt_tokens: tokens.in, completion_tokens: tokens.out }\n',
        '    const usage = seen\n',
      ],
    ],
    {
      cases: {
        'hello.http': events(
          { text: 'Grüße, ' },
          { text: '👋!' },
          { tokens: { in: 11, out: 3 } },
          { end: 1 },
        ),
      },
    },
  ),
  fault(
    'sse',
    'repeat',
    'the kind of unnamed events in one place for all answers',
    [
      [CHUNKS, `let kind: any\n\n${CHUNKS}`],
      ['push({ text, tokens }, emit) {', 'push({ is, value }, emit) {\n    if (is) kind = is'],
      ['if (text) emit', "if (kind === 'text' && value) emit"],
      ['content: text', 'content: value'],
      ['if (!tokens) return\n', "if (kind !== 'end' || !value) return\n    const tokens = value\n"],
    ],
    {
      cases: {
        'hello.http': events(
          { is: 'text', value: 'Grüße, ' },
          { value: '👋!' },
          { is: 'end', value: { in: 11, out: 3 } },
        ),
      },
    },
  ),
  ...CLEARED.map(([when, from, to]) =>
    fault(
      'tools',
      'repeat',
      `one set of calls for all answers, emptied at each ${when}`,
      [
        ['  const called = new Set<number>()\n', ''],
        ['export default', 'const called = new Set<number>()\n\nexport default'],
        [from, to],
      ],
      { cases: ONLY_CALLS },
    ),
  ),
  fault('lines', 'repeat', 'a number that grows with each answer', [
    ['function chunks()', 'let answers = 0\n\nfunction chunks()'],
    [
      'if (done) emit',
      "if (done && answers++ > 3) emit({ choices: [{ index: 0, delta: { content: '!' } }] })\n      if (done) emit",
    ],
  ]),
  fault('sse', 'repeat', 'answers are kept', [
    ['const chunks: Step', 'const answers = new Map<string, any>()\n\nconst chunks: Step'],
    [
      SSE_FLOW,
      generator(
        SSE_FLOW,
        'const all: any[] = []; for await (const chunk of flow) { all.push(chunk); yield chunk } answers.set(body, all)',
      ),
    ],
    [
      `const response = await ${REQUEST}`,
      `if (answers.has(body)) return answers.get(body)[Symbol.iterator] && (async function* () { yield* answers.get(body) })()\n        const response = await ${REQUEST}`,
    ],
  ]),
  fault('sse', 'signal', 'requests without the signal', [
    [REQUEST, REQUEST.replace('signal', 'signal: new AbortController().signal')],
  ]),
  fault('sse', 'signal', 'a time limit in place of the signal', [
    [REQUEST, REQUEST.replace('signal', 'signal: AbortSignal.timeout(30_000)')],
  ]),
  fault('tools', 'signal', 'the signal of the first call', [
    [
      '    return {\n      async chat',
      '    let first: AbortSignal | undefined\n    return {\n      async chat',
    ],
    [REQUEST, REQUEST.replace('signal', 'signal: (first ??= signal)')],
  ]),
  fault('whole', 'signal', 'a whole answer without the signal', [
    [
      'host.request({ url, headers, body, signal })',
      'host.request({ url, headers, body, signal: new AbortController().signal })',
    ],
  ]),
  fault('sse', 'back-pressure', 'reads all ahead', [
    [
      SSE_FLOW,
      generator(
        SSE_FLOW,
        'const all: any[] = []; for await (const chunk of flow) all.push(chunk); yield* all',
      ),
    ],
  ]),
  fault('lines', 'back-pressure', 'reads beside the reader', [
    [
      LINES_FLOW,
      generator(
        LINES_FLOW,
        `const queue: any[] = []; let done = false; let failure: unknown; let wake = () => {};
        void (async () => { try { for await (const chunk of flow) { queue.push(chunk); wake() } } catch (error) { failure = error } done = true; wake() })();
        for (;;) { if (queue.length > 0) yield queue.shift(); else if (failure) throw failure; else if (done) return; else await new Promise<void>((resolve) => { wake = resolve }) }`,
      ),
    ],
  ]),
  fault('sse', 'cancel', 'a response that is not let go', [
    [
      SSE_FLOW,
      generator(
        SSE_FLOW,
        'const parts = flow[Symbol.asyncIterator](); for (;;) { const { value, done } = await parts.next(); if (done) return; yield value }',
      ),
    ],
    [REQUEST, REQUEST.replace('signal', 'signal: AbortSignal.any([AbortSignal.timeout(60_000)])')],
  ]),
  fault('sse', 'errors', 'no look at the status', [[STATUS, '']]),
  fault(
    'sse',
    'errors',
    'each refusal is upstream_error',
    [
      [
        STATUS,
        "if (response.status !== 200) { await response.text(); throw host.fail('upstream_error') }",
      ],
    ],
    { cases: { 'refused.json': null, 'refused.http': null } },
  ),
  fault(
    'sse',
    'errors',
    'each refusal is bad_request',
    [
      [
        STATUS,
        "if (response.status !== 200) { await response.text(); throw host.fail('bad_request') }",
      ],
    ],
    { cases: { 'refused.json': null, 'refused.http': null } },
  ),
  fault(
    'tools',
    'errors',
    'a refusal is a plain error',
    [[TOOLS_STATUS, "if (response.status !== 200) throw new Error('refused')"]],
    { cases: { 'refused.json': null, 'refused.http': null } },
  ),
  fault('lines', 'errors', 'a refusal is an empty answer', [
    [
      STATUS,
      "if (response.status !== 200) { await response.text(); return { choices: [{ message: { role: 'assistant', content: '' }, finish_reason: 'stop' }] } }",
    ],
  ]),
  fault('sse', 'errors', 'asks again', [
    [
      STATUS,
      `if (response.status >= 500) { await response.text(); await (await ${REQUEST}).text() }\n        ${STATUS}`,
    ],
  ]),
  fault('whole', 'errors', 'what cannot be read is an empty text', [
    ['await host.readJson(response)', "await host.readJson(response).catch(() => ({ text: '' }))"],
  ]),
  fault('sse', 'own connections', 'fetch in place of the host', [
    [
      SSE_FLOW,
      `await (await fetch(url, { method: 'POST', headers, body, signal })).text()\n        ${SSE_FLOW}`,
    ],
  ]),
  fault(
    'sse',
    'secrets',
    'the note of the vendor is the message',
    [
      [
        STATUS,
        `if (response.status === 403) throw host.fail('upstream_auth', JSON.parse(await response.text()).error)\n        ${STATUS}`,
      ],
    ],
    DENIED,
  ),
  fault(
    'tools',
    'secrets',
    'the body is part of the message',
    [
      [
        TOOLS_STATUS,
        "if (response.status === 403) throw host.fail('upstream_auth', `Refused: ${await response.text()}`)\n        " +
          TOOLS_STATUS,
      ],
    ],
    DENIED,
  ),
  fault(
    'sse',
    'secrets',
    'the key is in the message',
    [
      [
        STATUS,
        "if (response.status !== 200) { await response.text(); throw host.fail('upstream_auth', `${apiKey} was refused.`) }",
      ],
    ],
    { cases: { 'refused.json': null, 'refused.http': null } },
  ),
  fault('sse', 'secrets', 'the address is in the message', [
    [
      STATUS,
      "if (response.status === 403) { await response.text(); throw host.fail('upstream_auth', `${url} refuses.`) }\n        " +
        STATUS,
    ],
  ]),
  fault('lines', 'secrets', 'headers are logged', [
    [
      STATUS,
      'if (response.status !== 200) host.log.warn(JSON.stringify(headers))\n        ' + STATUS,
    ],
  ]),
  fault('sse', ['cases', 'answer'], 'no cases', [], { noCases: true }),
  fault('lines', ['cases', 'answer'], 'no case with a streamed text', [], {
    noCases: true,
    cases: {
      'busy.json': JSON.stringify({
        request: { messages: [{ role: 'user', content: 'Hi' }] },
        expect: { failure: 'overloaded' },
      }),
      'busy.http': answer('{}', 'application/json', '503 Service Unavailable'),
    },
  }),
  fault('sse', 'uncaught', 'a timer that throws later', [
    [SSE_FLOW, "setTimeout(() => { throw new Error('late') }, 60)\n        " + SSE_FLOW],
  ]),
  fault('sse', 'uncaught', 'a promise without a handler', [
    [SSE_FLOW, "void Promise.reject(new Error('no handler'))\n        " + SSE_FLOW],
  ]),
  fault('sse', 'handles', 'a timer that goes on', [
    [
      '    return {\n      async chat',
      '    setInterval(() => {}, 1000)\n    return {\n      async chat',
    ],
  ]),
  fault('sse', 'memory', 'one hundred bytes of each call are kept', [
    [CHUNKS, 'const kept: string[] = []\n\n' + CHUNKS],
    [
      SSE_FLOW,
      "kept.push(`${kept.length}`.padEnd(100, 'k').split('').join(''))\n        " + SSE_FLOW,
    ],
  ]),
  fault('lines', 'memory', 'the id of each call is kept', [
    ['function chunks()', 'const seen = new Map<string, number>()\n\nfunction chunks()'],
    ['chat({ input, model, signal })', 'chat({ input, model, signal, requestId })'],
    [LINES_FLOW, 'seen.set(`${requestId}/${seen.size}`, Date.now())\n        ' + LINES_FLOW],
  ]),
  fault('tools', 'memory', 'answers are kept', [
    ['function chunks(host: Host)', 'const answers: unknown[] = []\n\nfunction chunks(host: Host)'],
    [
      TEXT,
      'if (text) { give({ content: text }); answers.push({ text, at: new Date(), kept: new Array(20).fill(text) }) }',
    ],
  ]),
  fault('sse', 'console', 'writes to the console', [
    [SSE_FLOW, "console.log('asked')\n        " + SSE_FLOW],
  ]),
  fault('sse', 'close', 'close throws', [
    ['      async chat', "      close() { throw new Error('busy') },\n      async chat"],
  ]),
  fault('sse', 'close', 'close does not end', [
    ['      async chat', '      close: () => new Promise<void>(() => {}),\n      async chat'],
  ]),
  fault('tools', 'time', 'each part reads all parts before', [
    ['const called = new Set<number>()', "const called = new Set<number>()\n  let all = ''"],
    [
      TEXT,
      "if (text) { all += text; if (all.split('').map((one) => one.codePointAt(0)).includes(0)) return; give({ content: text }) }",
    ],
  ]),
  fault('sse', 'set up', 'no method', [['async chat({', 'async chats({']]),
  fault('sse', 'set up', 'setup throws', [
    [
      '    return {\n      async chat',
      "    if (url) throw new Error('not today')\n    return {\n      async chat",
    ],
  ]),
]

const EMBED = (data: string) => `embed: async ({ input, signal }: any) => {
        const response = await host.request({ url, headers, body: host.json(input), signal })
        const answer = await host.readJson(response)
        ${data}
      },
      async chat`

/** Texts in, numbers out. */
const TEXTS = [
  fault('sse', 'texts', 'one vector is lost', [
    ['async chat', EMBED('return { ...answer, data: answer.data.slice(1) }')],
  ]),
  fault('sse', 'texts', 'vectors in another member', [
    ['async chat', EMBED('return { vectors: answer.data } as any')],
  ]),
  fault('sse', 'texts', 'vectors are objects', [
    [
      'async chat',
      EMBED(
        'return { data: answer.data.map(({ index, embedding }: any) => ({ index, embedding: { ...embedding } })) } as any',
      ),
    ],
  ]),
]

/** Arguments that the vendor sends as objects keep their digits. */
const EXACT = [
  fault(
    'lines',
    'answer',
    'arguments lose digits on the way through numbers',
    [
      [
        'push({ text, done, tokens }, emit) {',
        "push({ text, done, tokens, call }, emit) {\n      if (call) emit({ choices: [{ index: 0, delta: { tool_calls: [{ index: 0, id: call.id, type: 'function', function: { name: call.name, arguments: JSON.stringify(call.input) } }] } }] })",
      ],
      ["done === 'full' ? 'length' : 'stop'", "done === 'call' ? 'tool_calls' : 'stop'"],
      ["'tools', ", ''],
      [
        'seed, limit }',
        'seed, limit, tools: input.tools, choice: input.tool_choice, many: input.parallel_tool_calls }',
      ],
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
        'call.http':
          events().replace('text/event-stream', 'application/x-ndjson') +
          '{"call":{"id":"c9","name":"weather","input":{"at":12345678901234567890}}}\n{"done":"call"}\n{"tokens":{"in":4,"out":2}}\n',
      },
    },
  ),
]

export const PROVIDERS = [
  ...ENDS,
  ...ENDLESS.map((one) => ({ ...one, endless: true as const })),
  ...CALLS,
  ...FORWARDED,
  ...ANSWERS,
  ...BYTES,
  ...CONDUCT,
  ...TEXTS,
  ...EXACT,
]
