/**
 * A model that costs nothing and says the same thing every time: for the first start, for tests, demos and benches.
 * It echoes the last user message; a deployment may script anything else. Behind the model name `tools`, offered tools
 * are called.
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
import { hear, hearSlowly, speak } from './mock/audio.ts'
import { draw, drawSlowly } from './mock/images.ts'
import { instanceOf } from './mock/instance.ts'
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
  /** ms before each chunk, or before a whole answer. */
  paceMs: v.optional(ms, 0),
})

const deploymentOptions = v.strictObject({
  /** Said instead of the echo. */
  reply: v.optional(v.string()),
  /** Thought before the reply. */
  reasoning: v.optional(v.string()),
  /** Called after the reply. */
  toolCalls: v.optional(
    v.array(v.strictObject({ name: v.string(), arguments: v.optional(v.unknown(), {}) })),
  ),
  /** Citations, as `annotations` has them. */
  annotations: v.optional(v.array(v.looseObject({}))),
  finishReason: v.optional(v.string()),
  /** OpenAI's usage object, or `none` to report nothing; counted otherwise. */
  usage: v.optional(v.union([v.literal('none'), v.looseObject({})])),
  /** Fails, in a stream after so many chunks. */
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
    /** Waits before each piece of an answer, and fails where the script says so. */
    const paceOf = ({ options, signal }: ProviderRequest<unknown>) => {
      const { error, paceMs: own = paceMs } = options as Script
      return async (sent: number) => {
        await pause(own, signal)
        if (error && sent >= error.after) throw failureOf(error)
      }
    }
    const images = async (job: ProviderRequest<ImageInput | ImageEditInput>) => {
      const { input, options } = job
      const { reply, usage } = options as Script
      const script = { reply, uncounted: usage === 'none' }
      const pace = paceOf(job)
      if (input.stream) return drawSlowly(input, script, pace)
      await pace(Infinity)
      return draw(input, script)
    }
    return {
      generateImage: images,
      editImage: images,

      async ocr(job) {
        const { reply, usage } = job.options as Script
        await paceOf(job)(Infinity)
        return readDocument(job.input, { reply, uncounted: usage === 'none' })
      },

      async speech(job) {
        const sound = speak(job.input, paceOf(job))
        if (sound) return sound
        throw fail('bad_request', 'The mock speaks mp3, wav and pcm only.', {
          code: 'unsupported_value',
          param: 'response_format',
        })
      },

      async transcribe(job) {
        const { reply } = job.options as Script
        const pace = paceOf(job)
        if (job.input.stream) return hearSlowly(job.input, reply, pace)
        await pace(Infinity)
        return hear(job.input, reply)
      },

      async chat({ input, model, options, signal }) {
        const script = options as Script
        const failing = script.error
        const pace = () => pause(script.paceMs ?? paceMs, signal)
        if (failing && !(input.stream && failing.after > 0)) {
          await pace()
          throw failureOf(failing)
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
            if (failing && sent++ >= failing.after) throw failureOf(failing)
            yield chunk
          }
          // A script may fail after more chunks than there are.
          if (failing) throw failureOf(failing)
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

/** What will be said, before it is cut into pieces. */
interface Answer {
  readonly choices: number
  readonly reasoning: string
  readonly text: string
  readonly calls: readonly ToolCall[]
  readonly annotations: readonly unknown[] | undefined
  readonly finishReason: string
  readonly usage: ChatCompletion['usage']
}

function answerOf(input: ChatInput, model: string, script: Script): Answer {
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

/** What is said when nothing is scripted: JSON if asked for, else tool results quoted, else the echo. */
function replyOf(input: ChatInput): string {
  const format: any = input.response_format
  if (format?.type === 'json_schema') return JSON.stringify(instanceOf(format.json_schema?.schema))
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

/** The first tool, or the first two where calls may be parallel; never right after results. */
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
      arguments: instanceOf(tool.function.parameters ?? { type: 'object' }),
    })),
  )
}

/** Ids tell the turn, so that they are not used twice in a conversation. */
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

function toCompletion({ choices, usage, finishReason, ...answer }: Answer): ChatCompletion {
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

function* toChunks({ choices, usage, finishReason, ...answer }: Answer): Generator<ChatChunk> {
  for (const delta of toDeltas(answer)) {
    for (let index = 0; index < choices; index++) yield { choices: [{ index, delta }] }
  }
  for (let index = 0; index < choices; index++) {
    yield { choices: [{ index, delta: {}, finish_reason: finishReason }] }
  }
  if (usage) yield { choices: [], usage }
  yield { choices: [], endOfStream: true }
}

function* toDeltas(answer: Pick<Answer, 'reasoning' | 'text' | 'calls' | 'annotations'>) {
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
  said: string,
): ChatCompletion['usage'] {
  if (usage === 'none') return undefined
  if (usage) return usage
  const asked = messages.map((message) => textOf(message.content)).join('')
  return {
    prompt_tokens: tokensIn(asked),
    completion_tokens: choices * tokensIn(reasoning + said),
    completion_tokens_details: { reasoning_tokens: choices * tokensIn(reasoning) },
  }
}

/** Four characters make a token. */
function tokensIn(text: string): number {
  return Math.ceil(text.length / 4)
}

function firstTokens(text: string, limit: number): string {
  if (text.length <= limit * 4) return text
  const end = Math.max(0, limit * 4)
  // Not between the halves of a surrogate pair.
  return text.slice(0, /[\ud800-\udbff]/.test(text[end - 1] ?? '') ? end - 1 : end)
}

function untilStop(text: string, stop: unknown): string {
  const ends = [stop]
    .flat()
    .map((word) => (typeof word === 'string' && word ? text.indexOf(word) : -1))
    .filter((end) => end >= 0)
  return ends.length > 0 ? text.slice(0, Math.min(...ends)) : text
}

/** Words with the blanks after them; together they are the text. */
function wordsOf(text: string): string[] {
  return text.match(/\s*\S+\s?|\s+$/g) ?? []
}

function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content.map((part) => (part?.type === 'text' ? part.text : '')).join('')
}

/** @throws the reason of the abort */
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
