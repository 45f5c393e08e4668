/** How vendors speak: what a model says, in the format of each of them, whole or streamed as the request wants it. */
import { EventStreamCodec } from '@smithy/eventstream-codec'
import { eventsOf, response } from '../providers/openai-responses/_responses.ts'
import { events, json, sse, type FakeResponse, type ReceivedRequest } from '../upstream.ts'

/** What a model says in one turn. */
export interface Line {
  readonly thoughts?: string
  /** Closes the thoughts, of vendors that sign them. */
  readonly signature?: string
  readonly text?: string
  readonly calls?: readonly { readonly name: string; readonly input: object }[]
}

export type Voice = (line: Line, request: ReceivedRequest) => FakeResponse

/** What every turn consumes. Each vendor counts it in its own way. */
export const CONSUMED = { prompt: 42, cached: 12, completion: 17, reasoning: 5 }
const { prompt, cached, completion, reasoning } = CONSUMED

/** What sets speakers of OpenAI's language apart. */
interface Accent {
  /** Where thoughts are: a member of the delta, tags in the text, parts of the content; hidden when absent. */
  readonly thoughts?: 'reasoning' | 'reasoning_content' | 'details' | 'tags' | 'parts'
  /** Calls come in one piece, each with all its arguments. */
  readonly wholeCalls?: boolean
  readonly usage?: (thinks: boolean) => object
  /** Usage stands on the chunk with the finish reason. */
  readonly usageOnFinish?: boolean
}

const openAIUsage = (thinks: boolean) => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  total_tokens: prompt + completion,
  prompt_tokens_details: { cached_tokens: cached },
  completion_tokens_details: { reasoning_tokens: thinks ? reasoning : 0 },
})

/** Tokens of thoughts stand beside those of the answer. */
export const besideUsage = (thinks: boolean) => ({
  ...openAIUsage(thinks),
  completion_tokens: completion - (thinks ? reasoning : 0),
})

/** A cache has two counts of its own. */
export const hitAndMissUsage = (thinks: boolean) => ({
  ...openAIUsage(thinks),
  prompt_tokens_details: undefined,
  prompt_cache_hit_tokens: cached,
  prompt_cache_miss_tokens: prompt - cached,
})

/** A client of OpenAI's chat completions. */
export function openAI(accent: Accent = {}): Voice {
  const usageOf = accent.usage ?? openAIUsage
  return (line, request) => {
    const { thoughts, text = '', calls = [] } = line
    const usage = usageOf(thoughts !== undefined)
    const head = { id: 'chatcmpl-vendor', created: 1_790_000_000, model: 'theirs' }
    const finish_reason = calls.length > 0 ? 'tool_calls' : 'stop'
    const toolCalls = calls.map(({ name, input }, index) => ({
      index,
      id: `call_${index}`,
      type: 'function',
      function: { name, arguments: JSON.stringify(input) },
    }))
    if (!request.json.stream) {
      const message = {
        role: 'assistant',
        content: text || null,
        ...thinking(line, accent, text),
        ...(calls.length > 0 && { tool_calls: toolCalls }),
      }
      const choices = [{ index: 0, message, finish_reason }]
      return json({ ...head, object: 'chat.completion', choices, usage })
    }
    const chunk = (delta: object, finish: string | null = null) => ({
      ...head,
      object: 'chat.completion.chunk',
      choices: [{ index: 0, delta, finish_reason: finish }],
    })
    const fragments = toolCalls.flatMap(({ index, id, type, function: called }) =>
      accent.wholeCalls
        ? [{ tool_calls: [{ index, id, type, function: called }] }]
        : [
            { tool_calls: [{ index, id, type, function: { name: called.name, arguments: '' } }] },
            ...pieces(called.arguments).map((piece) => ({
              tool_calls: [{ index, function: { arguments: piece } }],
            })),
          ],
    )
    return events(
      chunk({ role: 'assistant', content: '' }),
      ...thinkingAloud(line, accent).map((delta) => chunk(delta)),
      ...pieces(text).map((content) => chunk({ content })),
      ...fragments.map((delta) => chunk(delta)),
      { ...chunk({}, finish_reason), ...(accent.usageOnFinish && { usage }) },
      ...(accent.usageOnFinish ? [] : [{ ...chunk({}), choices: [], usage }]),
      '[DONE]',
    )
  }
}

/** OpenAI's newer API. */
export const openAIResponses: Voice = ({ thoughts, signature, text, calls = [] }, request) => {
  const status = 'completed'
  const output = [
    ...(thoughts === undefined
      ? []
      : [
          {
            id: 'rs_1',
            type: 'reasoning',
            summary: [{ type: 'summary_text', text: thoughts }],
            encrypted_content: signature,
          },
        ]),
    ...(text === undefined
      ? []
      : [
          {
            id: 'msg_1',
            type: 'message',
            role: 'assistant',
            status,
            content: [{ type: 'output_text', text, annotations: [], logprobs: [] }],
          },
        ]),
    ...calls.map(({ name, input }, index) => ({
      id: `fc_${index}`,
      type: 'function_call',
      status,
      call_id: `call_${index}`,
      name,
      arguments: JSON.stringify(input),
    })),
  ]
  const usage = {
    input_tokens: prompt,
    input_tokens_details: { cached_tokens: cached, cache_write_tokens: 0 },
    output_tokens: completion,
    output_tokens_details: { reasoning_tokens: thoughts === undefined ? 0 : reasoning },
    total_tokens: prompt + completion,
  }
  const model = { model: 'theirs', created_at: 1_790_000_000 }
  if (!request.json.stream) return json(response(output, usage, model))
  const all = eventsOf(output, usage).map((event: any) =>
    event.response ? { ...event, response: { ...event.response, ...model } } : event,
  )
  return sse(all.map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`).join(''))
}

function thinking({ thoughts, signature }: Line, accent: Accent, text: string): object {
  if (thoughts === undefined) return {}
  switch (accent.thoughts) {
    case 'reasoning':
    case 'reasoning_content':
      return { [accent.thoughts]: thoughts }
    case 'details': {
      const type = 'reasoning.text'
      const detail = { type, text: thoughts, signature, format: 'anthropic-claude-v1', index: 0 }
      return { reasoning: thoughts, reasoning_details: [detail] }
    }
    case 'tags':
      return { content: `<think>${thoughts}</think>\n\n${text}` }
    case 'parts': {
      const thought = { type: 'thinking', thinking: [{ type: 'text', text: thoughts }] }
      return { content: [thought, ...(text ? [{ type: 'text', text }] : [])] }
    }
    default:
      return {}
  }
}

function thinkingAloud({ thoughts, signature }: Line, accent: Accent): object[] {
  if (thoughts === undefined) return []
  switch (accent.thoughts) {
    case 'reasoning':
    case 'reasoning_content':
      return pieces(thoughts).map((piece) => ({ [accent.thoughts as string]: piece }))
    case 'details': {
      const detail = { type: 'reasoning.text', format: 'anthropic-claude-v1', index: 0 }
      return [
        ...pieces(thoughts).map((text) => ({
          reasoning: text,
          reasoning_details: [{ ...detail, text }],
        })),
        { reasoning_details: [{ ...detail, signature }] },
      ]
    }
    case 'tags':
      return ['<thi', 'nk>', ...pieces(thoughts), '</think', '>\n\n'].map((content) => ({
        content,
      }))
    case 'parts':
      return pieces(thoughts).map((text) => ({
        content: [{ type: 'thinking', thinking: [{ type: 'text', text }] }],
      }))
    default:
      return []
  }
}

/** Anthropic's Messages API. */
export const anthropic: Voice = (line, request) => {
  const { thoughts, signature, text, calls = [] } = line
  const counted = {
    input_tokens: prompt - cached,
    cache_read_input_tokens: cached,
    cache_creation_input_tokens: 0,
  }
  const stop_reason = calls.length > 0 ? 'tool_use' : 'end_turn'
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'theirs' }
  const blocks: any[] = [
    ...(thoughts === undefined ? [] : [{ type: 'thinking', thinking: thoughts, signature }]),
    ...(text === undefined ? [] : [{ type: 'text', text }]),
    ...calls.map(({ name, input }, i) => ({ type: 'tool_use', id: `toolu_${i}`, name, input })),
  ]
  if (!request.json.stream) {
    const usage = { ...counted, output_tokens: completion }
    return json({ ...message, content: blocks, stop_reason, stop_sequence: null, usage })
  }
  const delta = (index: number, one: object) => ({
    type: 'content_block_delta',
    index,
    delta: one,
  })
  const all: any[] = [
    {
      type: 'message_start',
      message: { ...message, content: [], usage: { ...counted, output_tokens: 1 } },
    },
    { type: 'ping' },
  ]
  for (const [index, block] of blocks.entries()) {
    const empty = { thinking: '', signature: '', text: '', input: {} }
    const content_block = Object.fromEntries(
      Object.entries(block).map(([name, value]) => [
        name,
        name in empty ? (empty as any)[name] : value,
      ]),
    )
    all.push({ type: 'content_block_start', index, content_block })
    for (const thinking of pieces(block.thinking)) {
      all.push(delta(index, { type: 'thinking_delta', thinking }))
    }
    if (block.signature) {
      all.push(delta(index, { type: 'signature_delta', signature: block.signature }))
    }
    for (const text of pieces(block.text)) all.push(delta(index, { type: 'text_delta', text }))
    for (const partial_json of pieces(block.input && JSON.stringify(block.input))) {
      all.push(delta(index, { type: 'input_json_delta', partial_json }))
    }
    all.push({ type: 'content_block_stop', index })
  }
  all.push(
    { type: 'message_delta', delta: { stop_reason }, usage: { output_tokens: completion } },
    { type: 'message_stop' },
  )
  return sse(all.map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`).join(''))
}

/** Google's generateContent. */
export const google: Voice = ({ thoughts, signature, text, calls = [] }, request) => {
  const thinks = thoughts !== undefined
  const usageMetadata = {
    promptTokenCount: prompt,
    cachedContentTokenCount: cached,
    candidatesTokenCount: completion - (thinks ? reasoning : 0),
    ...(thinks && { thoughtsTokenCount: reasoning }),
    totalTokenCount: prompt + completion,
  }
  const signed = signature === undefined ? {} : { thoughtSignature: signature }
  const called = calls.map(({ name, input }, index) => ({
    functionCall: { name, args: input },
    ...(index === 0 && signed),
  }))
  const streams = request.path.includes(':stream')
  const cut = (whole: string | undefined) => (streams ? pieces(whole) : whole ? [whole] : [])
  const parts = [
    ...cut(thoughts).map((one) => ({ text: one, thought: true })),
    ...cut(text).map((one, i) => ({ text: one, ...(i === 0 && calls.length === 0 && signed) })),
    ...called,
  ]
  const answer = (some: object[], finishReason?: string) => ({
    candidates: [{ index: 0, content: { role: 'model', parts: some }, finishReason }],
    usageMetadata,
    modelVersion: 'theirs',
  })
  return streams
    ? events(...parts.map((part) => answer([part])), answer([], 'STOP'))
    : json(answer(parts, 'STOP'))
}

/** Amazon's Converse. A schema that is put as a tool is answered as one. */
export const bedrock: Voice = (line, request) => {
  const forced = request.json.toolConfig?.toolChoice?.tool?.name
  const { thoughts, signature } = line
  const asTool = forced !== undefined && line.calls === undefined
  const text = asTool ? undefined : line.text
  const calls = asTool ? [{ name: forced, input: JSON.parse(line.text!) }] : (line.calls ?? [])
  const usage = {
    inputTokens: prompt - cached,
    cacheReadInputTokens: cached,
    outputTokens: completion,
    totalTokens: prompt + completion,
  }
  const stopReason = calls.length > 0 ? 'tool_use' : 'end_turn'
  const content: any[] = [
    ...(thoughts === undefined
      ? []
      : [{ reasoningContent: { reasoningText: { text: thoughts, signature } } }]),
    ...(text === undefined ? [] : [{ text }]),
    ...calls.map((call, i) => ({ toolUse: { toolUseId: `tooluse_${i}`, ...call } })),
  ]
  if (!request.path.endsWith('converse-stream')) {
    return json({ output: { message: { role: 'assistant', content } }, stopReason, usage })
  }
  const frames: Uint8Array[] = [frame('messageStart', { role: 'assistant' })]
  for (const [contentBlockIndex, { reasoningContent, text: said, toolUse }] of content.entries()) {
    const says = (delta: object) =>
      frames.push(frame('contentBlockDelta', { contentBlockIndex, delta }))
    if (toolUse) {
      const { name, toolUseId } = toolUse
      const start = { toolUse: { name, toolUseId } }
      frames.push(frame('contentBlockStart', { contentBlockIndex, start }))
      for (const input of pieces(JSON.stringify(toolUse.input))) says({ toolUse: { input } })
    }
    for (const piece of pieces(reasoningContent?.reasoningText.text)) {
      says({ reasoningContent: { text: piece } })
    }
    if (reasoningContent && signature) says({ reasoningContent: { signature } })
    for (const piece of pieces(said)) says({ text: piece })
    frames.push(frame('contentBlockStop', { contentBlockIndex }))
  }
  frames.push(frame('messageStop', { stopReason }), frame('metadata', { usage }))
  return {
    headers: { 'content-type': 'application/vnd.amazon.eventstream' },
    pieces: [Buffer.concat(frames)],
  }
}

const codec = new EventStreamCodec(
  (bytes) => Buffer.from(bytes as Uint8Array).toString(),
  (text) => Buffer.from(text),
)

function frame(type: string, payload: object): Uint8Array {
  const header = (value: string) => ({ type: 'string', value }) as const
  return codec.encode({
    headers: {
      ':message-type': header('event'),
      ':event-type': header(type),
      ':content-type': header('application/json'),
    },
    body: Buffer.from(JSON.stringify(payload)),
  })
}

/** Three of them, or as many as there are letters. */
function pieces(text: string | undefined): string[] {
  if (!text) return []
  const letters = [...text]
  const third = Math.ceil(letters.length / 3)
  return [0, third, 2 * third]
    .map((from) => letters.slice(from, from + third).join(''))
    .filter((piece) => piece.length > 0)
}
