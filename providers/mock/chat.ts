/** Scripted or generated answers to chat requests. */
import type { ChatChunk, ChatCompletion, ChatInput } from '../../src/plugin.ts'
import { exampleOf } from './schema-example.ts'

/** What the deployment's options script. */
interface ChatScript {
  readonly reply?: string | undefined
  readonly reasoning?: string | undefined
  readonly toolCalls?: readonly { name: string; arguments: unknown }[] | undefined
  readonly annotations?: readonly unknown[] | undefined
  readonly finishReason?: string | undefined
  /** `none` reports no usage. */
  readonly usage?: 'none' | ChatCompletion['usage']
}

interface ToolCall {
  readonly id: string
  readonly name: string
  readonly arguments: string
}

/** A complete answer, before it is split into chunks. */
interface ScriptedAnswer {
  readonly choices: number
  readonly reasoning: string
  readonly text: string
  readonly calls: readonly ToolCall[]
  readonly annotations: readonly unknown[] | undefined
  readonly finishReason: string
  readonly usage: ChatCompletion['usage']
}

/** The answer to a request: scripted, or made from the request. */
export function answerOf(input: ChatInput, model: string, script: ChatScript): ScriptedAnswer {
  const limit = input.max_completion_tokens ?? Infinity
  const calls = script.toolCalls ? scriptedCalls(input, script.toolCalls) : callsOf(input, model)
  const reasoning = firstTokens(script.reasoning ?? '', limit)
  const wanted = script.reply ?? (calls.length > 0 ? '' : replyOf(input))
  const stopped = untilStop(wanted, input.stop)
  const text = firstTokens(stopped, limit - tokensIn(reasoning))
  const cut = text !== stopped || reasoning !== (script.reasoning ?? '')
  const choices = Number(input.n ?? 1)
  const kept = cut ? [] : calls
  const natural = cut ? 'length' : kept.length > 0 ? 'tool_calls' : 'stop'
  return {
    choices,
    reasoning,
    text,
    calls: kept,
    annotations: script.annotations,
    finishReason: script.finishReason ?? natural,
    usage: usageOf(
      input,
      script,
      choices,
      reasoning,
      text + kept.map((call) => call.arguments).join(''),
    ),
  }
}

/** The reply when none is scripted: JSON if the request asks for it, else the tool results, else the user's message. */
function replyOf(input: ChatInput): string {
  const format: any = input.response_format
  if (format?.type === 'json_schema') return JSON.stringify(exampleOf(format.json_schema?.schema))
  if (format?.type === 'json_object') return '{}'
  const results = resultsOf(input)
  if (results.length > 0) return `The tools answered: ${results.join('; ')}`
  return textOf(input.messages.findLast((message) => message.role === 'user')?.content)
}

/** Texts of the tool messages at the end of the conversation. */
function resultsOf({ messages }: ChatInput): string[] {
  const from = messages.findLastIndex((message) => message.role !== 'tool') + 1
  return messages.slice(from).map((message) => textOf(message.content))
}

/**
 * The calls of the model `tools`: the first tool, or the first two when parallel calls are allowed; of the model `agent`:
 * those that the user has written down. No calls follow tool results.
 */
function callsOf(input: ChatInput, model: string): ToolCall[] {
  const choice: any = input.tool_choice
  if (choice === 'none' || resultsOf(input).length > 0) return []
  const offered = (input.tools ?? []).filter((tool) => tool?.type === 'function')
  if (model === 'agent') return scriptedCalls(input, writtenCalls(input, offered))
  if (model !== 'tools') return []
  const named = offered.filter((tool) => tool.function.name === choice?.function?.name)
  const count = input.parallel_tool_calls === false ? 1 : 2
  const called = named.length > 0 ? named : offered.slice(0, count)
  return scriptedCalls(
    input,
    called.map((tool) => ({
      name: tool.function.name,
      arguments: exampleOf(tool.function.parameters ?? { type: 'object' }),
    })),
  )
}

/** Places of a text that are tried as the end of the arguments. */
const MAX_ENDS = 100

/** Calls in the last message of the user, such as `Read({"path":"a.txt"})`, of tools that are offered. */
function writtenCalls({ messages }: ChatInput, offered: readonly any[]) {
  const text = textOf(messages.findLast(({ role }) => role === 'user')?.content)
  return offered.flatMap(({ function: { name } }) => {
    const begin = text.indexOf(`${name}({`)
    if (begin < 0 || /\w/.test(text[begin - 1] ?? '')) return []
    const from = begin + name.length + 1
    let end = from
    for (let i = 0; i < MAX_ENDS; i++) {
      end = text.indexOf('})', end) + 1
      if (end === 0) return []
      try {
        return [{ name, arguments: JSON.parse(text.slice(from, end)) as unknown }]
      } catch {
        // The object goes on.
      }
    }
    return []
  })
}

/** Ids contain the position in the conversation, so none occurs twice. */
function scriptedCalls(
  { messages }: ChatInput,
  calls: readonly { name: string; arguments?: unknown }[],
): ToolCall[] {
  return calls.map(({ name, arguments: given }, i) => ({
    id: `call_mock_${messages.length}_${i}`,
    name,
    arguments: typeof given === 'string' ? given : JSON.stringify(given),
  }))
}

/** A whole answer. */
export function toCompletion({
  choices,
  usage,
  finishReason,
  ...answer
}: ScriptedAnswer): ChatCompletion {
  const message: Record<string, unknown> = {
    role: 'assistant',
    content: answer.calls.length > 0 && !answer.text ? null : answer.text,
    refusal: null,
  }
  if (answer.reasoning) message.reasoning = answer.reasoning
  if (answer.calls.length > 0) {
    message.tool_calls = answer.calls.map(({ id, ...called }) => ({
      id,
      type: 'function',
      function: called,
    }))
  }
  if (answer.annotations) message.annotations = answer.annotations
  return {
    choices: Array.from({ length: choices }, (_, index) => ({
      index,
      message: { ...message },
      finish_reason: finishReason,
      logprobs: null,
    })),
    ...(usage ? { usage } : {}),
  }
}

/**
 * A streamed answer.
 * @param pace is awaited before each chunk
 * @param fails whether the script asks for a failure, which may come after the last chunk
 */
export async function* chatChunks(
  answer: ScriptedAnswer,
  pace: (sent: number) => Promise<void>,
  fails: boolean,
): AsyncGenerator<ChatChunk, void, undefined> {
  let sent = 0
  for (const chunk of toChunks(answer)) {
    await pace(sent++)
    yield chunk
  }
  if (fails) await pace(Infinity)
}

function* toChunks({
  choices,
  usage,
  finishReason,
  ...answer
}: ScriptedAnswer): Generator<ChatChunk> {
  for (const delta of toDeltas(answer)) {
    for (let index = 0; index < choices; index++) yield { choices: [{ index, delta }] }
  }
  for (let index = 0; index < choices; index++) {
    yield { choices: [{ index, delta: {}, finish_reason: finishReason }] }
  }
  if (usage) yield { choices: [], usage }
  yield { choices: [], endOfStream: true }
}

function* toDeltas(answer: Pick<ScriptedAnswer, 'reasoning' | 'text' | 'calls' | 'annotations'>) {
  for (const reasoning of wordsOf(answer.reasoning)) yield { reasoning }
  for (const content of wordsOf(answer.text)) yield { content }
  for (const [index, { id, name, arguments: text }] of answer.calls.entries()) {
    yield { tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] }
    for (const piece of wordsOf(text))
      yield { tool_calls: [{ index, function: { arguments: piece } }] }
  }
  if (answer.annotations) yield { annotations: answer.annotations }
}

function usageOf(
  { messages }: ChatInput,
  { usage }: ChatScript,
  choices: number,
  reasoning: string,
  output: string,
): ChatCompletion['usage'] {
  if (usage === 'none') return undefined
  if (usage) return usage
  return {
    prompt_tokens: promptTokens(messages),
    completion_tokens: choices * tokensIn(reasoning + output),
    completion_tokens_details: { reasoning_tokens: choices * tokensIn(reasoning) },
  }
}

/** The tokens of a prompt. */
export function promptTokens(messages: ChatInput['messages']): number {
  return tokensIn(messages.map((message) => textOf(message.content)).join(''))
}

/** Four characters count as one token. */
function tokensIn(text: string): number {
  return Math.ceil(text.length / 4)
}

function firstTokens(text: string, limit: number): string {
  if (text.length <= limit * 4) return text
  const end = Math.max(0, limit * 4)
  // Surrogate pairs are not split.
  return text.slice(0, /[\ud800-\udbff]/.test(text[end - 1] ?? '') ? end - 1 : end)
}

function untilStop(text: string, stop: unknown): string {
  const ends = [stop]
    .flat()
    .map((word) => (typeof word === 'string' && word ? text.indexOf(word) : -1))
    .filter((end) => end >= 0)
  return ends.length > 0 ? text.slice(0, Math.min(...ends)) : text
}

/** Words with the white space after them. Joined, they are the text. */
function wordsOf(text: string): string[] {
  return text.match(/\s*\S+\s?|\s+$/g) ?? []
}

function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content.map((part) => (part?.type === 'text' ? part.text : '')).join('')
}
