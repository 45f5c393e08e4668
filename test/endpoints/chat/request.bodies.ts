/** Chat bodies for property tests: good ones, and good ones with one change. */
import * as fc from 'fast-check'

export const PNG = 'data:image/png;base64,iVBORw0KGgo='

type Arbitraries = Record<string, fc.Arbitrary<any>>

/** Good bodies; what the fields say about each other holds. */
export function bodies(): fc.Arbitrary<Record<string, any>> {
  const text = fc.string({ maxLength: 8 })
  const name = fc.stringMatching(/^[A-Za-z0-9_-]{1,64}$/)
  const bool = fc.boolean()
  const open = fc.dictionary(text, fc.jsonValue({ maxDepth: 2 }), { maxKeys: 2 })
  const url = fc.constantFrom(PNG, 'https://example.org/a', 'Data:;Base64,AA', 'http://a')
  const part = fc.oneof(
    record({ type: fc.constant('text'), text }, { cache_control: open }),
    record({
      type: fc.constant('image_url'),
      image_url: fc.oneof(
        url,
        record({ url }, { detail: fc.constantFrom('auto', 'low', 'high', 'original') }),
      ),
    }),
    record({
      type: fc.constant('input_audio'),
      input_audio: record({
        data: fc.constantFrom('AAAA', 'data:audio/wav;base64,AA'),
        format: fc.constantFrom('wav', 'mp3'),
      }),
    }),
    record({
      type: fc.constant('file'),
      file: record(
        { file_data: fc.oneof(url, fc.constant('JVBERi0')) },
        { filename: text, file_id: fc.constant(null) },
      ),
    }),
    record({ type: fc.constant('refusal'), refusal: text }),
  )
  const content = fc.oneof(text, few(part, 1))
  const called = record({ name: text, arguments: text })
  const call = fc.oneof(
    record({ id: text, function: called }, { type: fc.constant('function') }),
    record({
      id: text,
      type: fc.constant('custom'),
      custom: record({ name: text, input: text }),
    }),
  )
  const history = {
    name: text,
    reasoning: text,
    reasoning_content: text,
    reasoning_details: few(open),
    annotations: few(open),
  }
  const message = fc.oneof(
    record({ role: fc.constantFrom('system', 'developer', 'user'), content }, { name: text }),
    record(
      { role: fc.constant('assistant'), content },
      { ...history, tool_calls: few(call), refusal: text },
    ),
    record(
      { role: fc.constant('assistant'), tool_calls: few(call, 1) },
      { ...history, content, function_call: called },
    ),
    record({ role: fc.constant('assistant'), function_call: called }, { refusal: text }),
    record({ role: fc.constant('tool'), tool_call_id: text, content }, { is_error: bool }),
    record({ role: fc.constant('function'), name: text, content }),
  )
  const definition = { name }
  const about = { description: text, parameters: open }
  const tool = fc.oneof(
    record({
      type: fc.constant('function'),
      function: record(definition, { ...about, strict: bool }),
    }),
    record({
      type: fc.constant('custom'),
      custom: record(definition, { description: text, format: open }),
    }),
    record({ type: fc.constantFrom('web_search', 'mcp', '') }),
  )
  const named = record({ name })
  const choice = fc.oneof(
    fc.constantFrom('none', 'auto', 'required'),
    record({ type: fc.constant('function'), function: named }),
    record({ type: fc.constant('custom'), custom: named }),
    record({
      type: fc.constant('allowed_tools'),
      allowed_tools: record({ mode: fc.constantFrom('auto', 'required'), tools: few(open) }),
    }),
  )
  const format = fc.oneof(
    record({ type: fc.constantFrom('text', 'json_object') }),
    record({
      type: fc.constant('json_schema'),
      json_schema: record({ name, schema: open }, { strict: bool, description: text }),
    }),
  )
  const plugin = fc.oneof(
    record({ id: fc.constantFrom('file-parser', 'x') }),
    record(
      { id: fc.constant('web') },
      {
        enabled: bool,
        engine: fc.jsonValue(),
        max_results: fc.integer(),
        search_prompt: text,
        include_domains: few(text),
        exclude_domains: few(text),
      },
    ),
  )
  const limit = fc.integer({ min: 1, max: 100_000 })
  return record(
    { model: fc.string({ minLength: 1 }), messages: few(message, 1) },
    {
      stream: bool,
      stream_options: record({}, { include_usage: bool }),
      max_completion_tokens: limit,
      max_tokens: limit,
      temperature: number(0, 2),
      top_p: number(0, 1),
      frequency_penalty: number(-2, 2),
      top_k: number(-1e9, 1e9),
      n: fc.integer({ min: 1, max: 128 }),
      stop: fc.oneof(text, few(text)),
      seed: fc.maxSafeInteger(),
      logit_bias: fc.dictionary(text, number(-100, 100), { maxKeys: 3 }),
      response_format: format,
      tools: few(tool),
      tool_choice: choice,
      parallel_tool_calls: bool,
      functions: few(record(definition, about), 1),
      function_call: fc.oneof(fc.constantFrom('none', 'auto'), named),
      include_reasoning: bool,
      verbosity: fc.constantFrom('low', 'medium', 'high'),
      cache_control: open,
      session_id: text,
      plugins: few(plugin),
      user: text,
      metadata: fc.dictionary(text, text, { maxKeys: 3 }),
      prediction: open,
      modalities: few(fc.constant('text')),
    },
  ).chain((body) => {
    const effort = fc.constantFrom('max', 'xhigh', 'high', 'medium', 'low', 'minimal', 'none')
    const rest = { max_tokens: limit, exclude: bool, enabled: bool, summary: fc.constant('auto') }
    return fc
      .oneof(
        fc.constant({}),
        effort.map((value) => ({ reasoning_effort: value })),
        record({}, { effort, ...rest }).map((reasoning) => ({ reasoning })),
        fc.tuple(effort, record({}, rest)).map(([value, reasoning]) => ({
          reasoning: { ...reasoning, effort: value },
          reasoning_effort: value,
        })),
        fc.integer({ min: 0, max: 20 }).map((top_logprobs) => ({ logprobs: true, top_logprobs })),
      )
      .map((more) => ({ ...body, ...more }))
  })
}

export type Change = { readonly name?: string; readonly value: unknown }

/** What to put in a place: nothing (undefined), or a value that may or may not belong there. */
export function mutations(): fc.Arbitrary<Change> {
  const value = fc.oneof(
    fc.constantFrom<unknown>(undefined, null, true, false, 0, 1, -1, 129, 1.5, 3, 1e300),
    fc.constantFrom<unknown>('', 'x', 'auto', 'none', 'low', 'text', 'user', 'web', 'function'),
    fc.constantFrom<unknown>([], {}, ['x'], [1], [{}], { type: 'x' }, { name: 'f' }, ['audio']),
    fc.constantFrom<unknown>('data:x', 'ftp://x', PNG, 'x'.repeat(300), 'ö'.repeat(65), 'a b'),
    fc.jsonValue({ maxDepth: 2 }),
  )
  const names = ['role', 'content', 'type', 'name', 'file_id', 'reasoning_effort', 'top_logprobs']
  return fc.oneof(
    { weight: 4, arbitrary: fc.record({ value }) },
    { weight: 1, arbitrary: fc.record({ name: fc.constantFrom(...names, 'n'), value }) },
  )
}

/** A copy with one member, at whatever depth, removed or replaced, or one more member. */
export function mutate(body: object, place: number, { name, value }: Change): Record<string, any> {
  const copy = structuredClone(body)
  const places: [any, string][] = []
  const walk = (node: any) => {
    for (const member of Object.keys(node)) {
      places.push([node, member])
      if (typeof node[member] === 'object' && node[member] !== null) walk(node[member])
    }
  }
  walk(copy)
  const [node, member] = places[place % places.length]!
  if (name !== undefined && !Array.isArray(node)) node[name] = value
  else if (value !== undefined) node[member] = value
  else if (Array.isArray(node)) node.splice(Number(member), 1)
  else delete node[member]
  return copy
}

function some<T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | null> {
  return fc.option(value, { freq: 6 })
}

function few<T>(value: fc.Arbitrary<T>, minLength = 0): fc.Arbitrary<T[]> {
  return fc.array(value, { minLength, maxLength: 3 })
}

function number(min: number, max: number): fc.Arbitrary<number> {
  return fc.double({ min, max, noNaN: true })
}

/** Optional members may be absent or null, and there may be an unknown one. */
function record(required: Arbitraries, optional: Arbitraries = {}): fc.Arbitrary<any> {
  const others = Object.entries(optional).map(([key, each]) => [key, some(each)] as const)
  return fc.record(
    { ...required, ...Object.fromEntries(others), extra: fc.jsonValue({ maxDepth: 1 }) },
    { requiredKeys: Object.keys(required) as never[] },
  )
}
