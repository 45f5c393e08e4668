/** A provider under test: set up against a vendor of this machine, asked as the gateway asks it, watched while it answers. */
import { CompletionBuilder, toChunk } from '../endpoints/chat/chunks.ts'
import { normalizeChunks } from '../endpoints/chat/normalize.ts'
import { flowOf, toFlow } from '../stream/flow.ts'
import type { LoadedProvider } from '../gateway/loader.ts'
import type {
  ChatChunk,
  ChatCompletion,
  Flow,
  OpenAIUsage,
  Provider,
  ProviderPlugin,
} from '../plugin.ts'
import type { TestRequest } from './requests.ts'
import type { IsolatedHost } from './isolated-host.ts'

/** Options that a provider was set up with. */
export interface Attempt {
  /** The one that holds the vendor's address, if one does. */
  readonly addressOption: string | undefined
  readonly options: Readonly<Record<string, unknown>>
}

/** What one question came to. */
export interface Outcome {
  /** As the provider handed them over. */
  readonly raw: readonly ChatChunk[]
  /** In order, as clients get them, before they are charged. */
  readonly chunks: readonly ChatChunk[]
  readonly completion: ChatCompletion
  readonly usage: OpenAIUsage | undefined
  /** What was thrown, if anything was. */
  readonly error: unknown
}

/** An answer on its way. */
export interface Answering {
  readonly parts: Flow<ChatChunk>
  /** What was handed over so far. */
  readonly raw: readonly ChatChunk[]
  /** Whether the provider gives parts, not the whole. */
  readonly streamed: boolean
}

/** Nothing came for as long as the kit is ready to wait. */
export class StalledError extends Error {
  constructor(what: string, ms: number) {
    super(`${what} within ${ms / 1000} s`)
    this.name = 'Stuck'
  }
}

/** A provider that is set up. Whoever makes one closes it. */
export class ProviderUnderTest {
  readonly plugin: ProviderPlugin
  /** The options it was set up with. */
  readonly options: Readonly<Record<string, unknown>>
  /** The option that holds the vendor's address, if one does. */
  readonly addressOption: string | undefined
  readonly surroundings: IsolatedHost
  /** Everything it threw. */
  readonly thrown: unknown[] = []
  readonly #provider: Provider
  readonly #patienceMs: number

  constructor(
    { plugin, provider }: LoadedProvider,
    { addressOption, options }: Attempt,
    surroundings: IsolatedHost,
    patienceMs: number,
  ) {
    this.plugin = plugin
    this.options = options
    this.addressOption = addressOption
    this.surroundings = surroundings
    this.#provider = provider
    this.#patienceMs = patienceMs
  }

  /** Whether it can chat at all. */
  get chats(): boolean {
    return typeof this.#provider.chat === 'function'
  }

  /** Asks; the answer is read by whoever asks. */
  async ask(question: TestRequest, signal: AbortSignal): Promise<Answering> {
    const raw: ChatChunk[] = []
    const { input, model, options } = question
    const envelope = { ...question.envelope, newCallId: counted('call_') }
    const { log } = this.surroundings
    const requestId = 'req_test'
    const answer = await this.#provider.chat!({ input, model, options, requestId, signal, log })
    const streamed = Symbol.asyncIterator in answer
    const given = streamed ? toFlow(answer) : flowOf(toChunk(answer))
    const parts = given.through(normalizeChunks(envelope, (chunk) => void raw.push(chunk)))
    return { parts, raw, streamed }
  }

  /** Asks, and reads to the end. Never throws: what was thrown is part of the outcome. */
  async outcome(question: TestRequest): Promise<Outcome> {
    const chunks: ChatChunk[] = []
    const whole = new CompletionBuilder()
    const gone = new AbortController()
    let raw: readonly ChatChunk[] = []
    let error: unknown
    try {
      const answering = await within(this.ask(question, gone.signal), 'no answer', this.#patienceMs)
      raw = answering.raw
      for (let last = false; !last;) {
        const batch = await within(answering.parts.next(), 'no further part', this.#patienceMs)
        for (const chunk of batch.parts) {
          chunks.push(chunk)
          whole.add(chunk)
        }
        last = batch.last
      }
    } catch (thrown) {
      error = thrown ?? new Error(`${String(thrown)} was thrown`)
      this.thrown.push(error)
    } finally {
      gone.abort()
    }
    const usage = raw.findLast((chunk) => chunk.usage)?.usage ?? undefined
    return { raw, chunks, completion: whole.completion(), usage, error }
  }

  /** Ends the provider, and whatever it has left open. @throws what the provider throws, or Stuck */
  async close(): Promise<void> {
    try {
      const closing = (async () => this.#provider.close?.())()
      await within(closing, 'it did not close', this.#patienceMs)
    } finally {
      await this.surroundings.close()
    }
  }
}

/** Waits for something that may never come. @throws Stuck */
export async function within<T>(promise: Promise<T>, what: string, ms: number): Promise<T> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new StalledError(what, ms)), ms)
  try {
    return await Promise.race([promise, late.promise])
  } finally {
    clearTimeout(timer)
  }
}

function counted(prefix: string): () => string {
  let count = 0
  return () => `${prefix}${count++}`
}
