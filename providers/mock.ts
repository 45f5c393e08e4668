/**
 * A provider that is free of charge and answers the same every time: for the first start, tests, demos and benchmarks.
 * It repeats the last user message; a deployment's options may script any other answer. The model name `tools` calls
 * the tools that the request offers.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import * as v from 'valibot'
import {
  defineProvider,
  type ChatInput,
  type ChatChunk,
  type ChatCompletion,
  type ImageEditInput,
  type ImageInput,
  type ProviderRequest,
} from '../src/plugin.ts'
import { transcribe, transcriptionEvents, synthesize } from './mock/audio.ts'
import { makeImages, imageEvents } from './mock/images.ts'
import { exampleOf } from './mock/schema-example.ts'
import { readDocument } from './mock/ocr.ts'

const FAILURES = [
  'bad_request',
  'context_length',
  'content_blocked',
  'payload_too_large',
  'not_found',
  'upstream_auth',
  'upstream_balance',
  'upstream_rate',
  'overloaded',
  'upstream_error',
  'timeout',
] as const

const ms = v.pipe(v.number(), v.integer(), v.minValue(0))

const options = v.strictObject({
  /** Milliseconds before each chunk, or before a complete answer. */
  paceMs: v.optional(ms, 0),
})

const deploymentOptions = v.strictObject({
  /** Replaces the repeated message. */
  reply: v.optional(v.string()),
  /** Reasoning before the reply. */
  reasoning: v.optional(v.string()),
  /** Tool calls after the reply. */
  toolCalls: v.optional(
    v.array(v.strictObject({ name: v.string(), arguments: v.optional(v.unknown(), {}) })),
  ),
  /** Citations, in the form of `annotations`. */
  annotations: v.optional(v.array(v.looseObject({}))),
  finishReason: v.optional(v.string()),
  /** OpenAI's usage object, or `none` to report no usage. By default the mock counts. */
  usage: v.optional(v.union([v.literal('none'), v.looseObject({})])),
  /** Fails; in a stream after this many chunks. */
  error: v.optional(
    v.strictObject({
      class: v.picklist(FAILURES),
      message: v.optional(v.string(), 'The mock was told to fail.'),
      after: v.optional(ms, 0),
      retryAfterMs: v.optional(ms),
    }),
  ),
  paceMs: v.optional(ms),
})

type Script = v.InferOutput<typeof deploymentOptions>

export default defineProvider({
  name: 'mock',
  options,
  deploymentOptions,
  setup({ paceMs }, { fail }) {
    const failureOf = ({ class: name, message, retryAfterMs }: NonNullable<Script['error']>) =>
      fail(name, message, retryAfterMs ? { retryAfterMs } : {})
    /** Waits before each part of an answer, and fails where the script says so. */
    const paceOf = ({ options, signal }: ProviderRequest<unknown>) => {
      const { error, paceMs: own = paceMs } = options as Script
      return async (sent: number) => {
        await pause(own, signal)
        if (error && sent >= error.after) throw failureOf(error)
      }
    }
    const images = async (request: ProviderRequest<ImageInput | ImageEditInput>) => {
      const { input, options } = request
      const { reply, usage } = options as Script
      const script = { reply, uncounted: usage === 'none' }
      const pace = paceOf(request)
      if (input.stream) return imageEvents(input, script, pace)
      await pace(Infinity)
      return makeImages(input, script)
    }
    return {
      generateImage: images,
      editImage: images,

      async ocr(request) {
        const { reply, usage } = request.options as Script
        await paceOf(request)(Infinity)
        return readDocument(request.input, { reply, uncounted: usage === 'none' })
      },

      async speech(request) {
        const sound = synthesize(request.input, paceOf(request))
        if (sound) return sound
        throw fail('bad_request', 'The mock speaks mp3, wav and pcm only.', {
          code: 'unsupported_value',
          param: 'response_format',
        })
      },

      async transcribe(request) {
        const { reply } = request.options as Script
        const pace = paceOf(request)
        if (request.input.stream) return transcriptionEvents(request.input, reply, pace)
        await pace(Infinity)
        return transcribe(request.input, reply)
      },

      async chat({ input, model, options, signal }) {
        const script = options as Script
        const failure = script.error
        const pace = () => pause(script.paceMs ?? paceMs, signal)
        if (failure && !(input.stream && failure.after > 0)) {
          await pace()
          throw failureOf(failure)
        }
        const answer = answerOf(input, model, script)
        if (!input.stream) {
          await pace()
          return toCompletion(answer)
        }
        return (async function* () {
          let sent = 0
          for (const chunk of toChunks(answer)) {
            await pace()
            if (failure && sent++ >= failure.after) throw failureOf(failure)
            yield chunk
          }
          // The script may ask for a failure after more chunks than the answer has.
          if (failure) throw failureOf(failure)
        })()
      },
    }
  },
})

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

function answerOf(input: ChatInput, model: string, script: Script): ScriptedAnswer {
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

/** Calls the first tool, or the first two when parallel calls are allowed. No calls follow tool results. */
function callsOf(input: ChatInput, model: string): ToolCall[] {
  const choice: any = input.tool_choice
  if (model !== 'tools' || choice === 'none' || resultsOf(input).length > 0) return []
  const offered = (input.tools ?? []).filter((tool) => tool?.type === 'function')
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

function toCompletion({ choices, usage, finishReason, ...answer }: ScriptedAnswer): ChatCompletion {
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
  { usage }: Script,
  choices: number,
  reasoning: string,
  output: string,
): ChatCompletion['usage'] {
  if (usage === 'none') return undefined
  if (usage) return usage
  const prompt = messages.map((message) => textOf(message.content)).join('')
  return {
    prompt_tokens: tokensIn(prompt),
    completion_tokens: choices * tokensIn(reasoning + output),
    completion_tokens_details: { reasoning_tokens: choices * tokensIn(reasoning) },
  }
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

/** Waits. @throws the signal's reason */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  if (ms === 0) return
  try {
    await sleep(ms, undefined, { signal })
  } catch (error) {
    signal.throwIfAborted()
    throw error
  }
}
