/**
 * A provider that is free of charge and answers the same every time: for the first start, tests, demos and benchmarks.
 * It repeats the last user message; a deployment's options may script any other answer. The model name `tools` calls
 * the tools that the request offers, the model name `agent` those that the user names.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import * as v from 'valibot'
import {
  defineProvider,
  type ChatInput,
  type CompletionInput,
  type Host,
  type ImageEditInput,
  type ImageInput,
  type ProviderRequest,
} from '../src/plugin.ts'
import { transcribe, transcriptionEvents, synthesize } from './mock/audio.ts'
import { answerOf, chatChunks, promptTokens, toCompletion } from './mock/chat.ts'
import { completionChunks, textAnswers, toTexts } from './mock/completions.ts'
import { embed } from './mock/embeddings.ts'
import { moderate } from './mock/moderations.ts'
import { makeImages, imageEvents } from './mock/images.ts'
import { readDocument } from './mock/ocr.ts'
import { rerank } from './mock/rerank.ts'

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
    const { paceOf, whole, begun } = playing(paceMs, fail)
    const images = async (request: ProviderRequest<ImageInput | ImageEditInput>) => {
      const { input, options } = request
      const { reply, usage } = options as Script
      const script = { reply, uncounted: usage === 'none' }
      const pace = paceOf(request)
      if (input.stream) return imageEvents(input, script, pace)
      await pace(Infinity)
      return makeImages(input, script)
    }
    const unsupported = (param: string, message: string) =>
      fail('bad_request', message, { code: 'unsupported_value', param })
    return {
      generateImage: images,
      editImage: images,
      ocr: whole((input, { reply, usage }) =>
        readDocument(input, { reply, uncounted: usage === 'none' }),
      ),
      rerank: whole((input, { usage }) => rerank(input, usage === 'none')),
      moderate: whole((input, { reply = 'flag' }) => moderate(input, reply)),
      countTokens: whole(({ messages }) => promptTokens(messages)),
      embed: whole((input, { usage }) => {
        const vectors = embed(input, usage === 'none')
        if (vectors) return vectors
        throw unsupported('dimensions', 'The mock has vectors of at most 4096 numbers.')
      }),

      async speech(request) {
        const sound = synthesize(request.input, paceOf(request))
        if (sound) return sound
        throw unsupported('response_format', 'The mock speaks mp3, wav and pcm only.')
      },

      async transcribe(request) {
        const { reply } = request.options as Script
        const pace = paceOf(request)
        if (request.input.stream) return transcriptionEvents(request.input, reply, pace)
        await pace(Infinity)
        return transcribe(request.input, reply)
      },

      async complete(request) {
        const script = request.options as Script
        const pace = await begun(request)
        const answers = textAnswers(request.input, script)
        if (!request.input.stream) return toTexts(answers)
        return completionChunks(answers, pace, script.error !== undefined)
      },

      async chat(request) {
        const script = request.options as Script
        const pace = await begun(request)
        const answer = answerOf(request.input, request.model, script)
        if (!request.input.stream) return toCompletion(answer)
        return chatChunks(answer, pace, script.error !== undefined)
      },
    }
  },
})

/** How requests are answered as their scripts say. @param paceMs where a script has no pace of its own */
function playing(paceMs: number, fail: Host['fail']) {
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
  /** An answer that is never streamed. */
  const whole =
    <In, Out>(make: (input: In, script: Script) => Out) =>
    async (request: ProviderRequest<In>) => {
      await paceOf(request)(Infinity)
      return make(request.input, request.options as Script)
    }
  /** The pace of an answer of texts. A failure before its first chunk rejects the call itself. */
  const begun = async (request: ProviderRequest<ChatInput | CompletionInput>) => {
    const pace = paceOf(request)
    const { error } = request.options as Script
    if (!request.input.stream || error?.after === 0) await pace(Infinity)
    return pace
  }
  return { paceOf, whole, begun }
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
