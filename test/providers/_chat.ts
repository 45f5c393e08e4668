/** Sets up a provider on a real host, calls it as the gateway does, and reads its answer as the client gets it. */
import { createConsola } from 'consola'
import { ChatAnswer } from '../../src/endpoints/chat/answer.ts'
import type { AnswerChunk } from '../../src/endpoints/chat/billing.ts'
import { toChunk } from '../../src/endpoints/chat/chunks.ts'
import { envelope, normalized, toCompletion } from '../endpoints/chat/_completion.ts'
import { UpstreamFailure } from '../../src/errors/errors.ts'
import type {
  ChatInput,
  ChatChunk,
  ChatCompletion,
  OpenAIUsage,
  Provider,
  ProviderPlugin,
} from '../../src/plugin.ts'
import type { Downloader } from '../../src/upstream/download.ts'
import { createHost } from '../../src/upstream/host.ts'

export const silent = createConsola({ level: -999 })

/** A plugin, set up. The test has to close it. */
export interface Setup extends AsyncDisposable {
  readonly provider: Provider
  /** The chunks that the provider returns. */
  ask(input: Partial<ChatInput>, how?: RequestOptions): Promise<ChatChunk[]>
  /** The whole pipeline: the merged answer, usage, and the failure if there was one. */
  outcome(input: Partial<ChatInput>, how?: RequestOptions): Promise<Outcome>
}

export interface RequestOptions {
  readonly model?: string
  /** Options of the deployment. */
  readonly options?: Record<string, unknown>
  readonly signal?: AbortSignal
}

export interface Outcome {
  /** The chunks as the client gets them, without the one that carries usage. */
  readonly chunks: AnswerChunk[]
  readonly completion: ChatCompletion
  readonly usage: OpenAIUsage | undefined
  readonly failure: UpstreamFailure | undefined
}

const QUESTION = [{ role: 'user', content: 'Hello?' }] as const

/** Sets a plugin up. @param download serves the plugin's downloads; by default they are refused */
export async function setUp(
  plugin: ProviderPlugin,
  options: unknown,
  download?: Downloader,
): Promise<Setup> {
  const settings = {
    timeoutMs: 10_000,
    firstPartTimeoutMs: 10_000,
    idleTimeoutMs: 10_000,
    connections: 8,
  }
  const { host, close } = createHost('test', settings, silent, { ...(download && { download }) })
  const provider = await plugin.setup(await valid(plugin.options, options), host)

  async function* ask(
    input: Partial<ChatInput>,
    how: RequestOptions = {},
  ): AsyncGenerator<ChatChunk> {
    const answer = await provider.chat!({
      input: { messages: QUESTION, ...input },
      model: how.model ?? 'm',
      options: (await valid(plugin.deploymentOptions!, how.options ?? {})) as Record<
        string,
        unknown
      >,
      requestId: 'req_test',
      signal: how.signal ?? new AbortController().signal,
      log: silent,
    })
    if (Symbol.asyncIterator in answer) yield* answer
    else yield toChunk(answer)
  }

  return {
    provider,
    async ask(input, how) {
      const chunks: ChatChunk[] = []
      for await (const chunk of ask(input, how)) chunks.push(chunk)
      return chunks
    },
    async outcome(input, how) {
      const chunks: AnswerChunk[] = []
      let usage: OpenAIUsage | undefined
      let failure: UpstreamFailure | undefined
      async function* tapped(): AsyncGenerator<ChatChunk> {
        for await (const chunk of ask(input, how)) {
          usage = chunk.usage ?? usage
          yield chunk
        }
      }
      try {
        await normalized(tapped(), new ChatAnswer(shared()), (chunk) => chunks.push(chunk))
      } catch (error) {
        if (!UpstreamFailure.is(error)) throw error
        failure = error
      }
      return { chunks, completion: toCompletion(chunks), usage, failure }
    },
    [Symbol.asyncDispose]: close,
  }
}

function shared() {
  let calls = 0
  return envelope({
    id: 'chatcmpl-test',
    model: 'vendor/model',
    logprobs: true,
    newCallId: () => `call_made_${calls++}`,
  })
}

async function valid(schema: ProviderPlugin['options'], value: unknown): Promise<unknown> {
  const result = await schema['~standard'].validate(value)
  if (result.issues) throw new Error(result.issues.map((issue) => issue.message).join('; '))
  return result.value
}
