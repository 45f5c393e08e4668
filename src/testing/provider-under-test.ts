/** A provider under test, called as the gateway calls it. */
import { collect, toChunk } from '../endpoints/chat/chunks.ts'
import { ChatAnswer } from '../endpoints/chat/answer.ts'
import type { AnswerChunk } from '../endpoints/chat/billing.ts'
import { deepFrozen } from '../lifetime/scope.ts'
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
import type { IsolatedHost } from './hosts.ts'
import { StalledError, type Patience } from './report.ts'

export interface Attempt {
  /** Name of the option with the vendor's address; undefined if there is none. */
  readonly addressOption: string | undefined
  readonly options: Readonly<Record<string, unknown>>
}

export interface Outcome {
  readonly raw: readonly ChatChunk[]
  readonly chunks: readonly ChatChunk[]
  readonly completion: ChatCompletion
  readonly usage: OpenAIUsage | undefined
  readonly error: unknown
}

interface Answering {
  readonly parts: Flow<ChatChunk>
  readonly raw: readonly ChatChunk[]
  readonly streamed: boolean
}

/** Parts of an answer whose vendor says little. */
const MOST_PARTS = 100_000

const METHODS = [
  'chat',
  'complete',
  'generateImage',
  'editImage',
  'ocr',
  'speech',
  'transcribe',
  'embed',
  'rerank',
  'moderate',
] as const

export class ProviderUnderTest {
  readonly plugin: ProviderPlugin
  readonly options: Readonly<Record<string, unknown>>
  /** Name of the option with the vendor's address; undefined if there is none. */
  readonly addressOption: string | undefined
  readonly host: IsolatedHost
  readonly thrown: unknown[] = []
  readonly #provider: Provider
  readonly #patience: Patience

  constructor(
    { plugin, provider }: LoadedProvider,
    { addressOption, options }: Attempt,
    host: IsolatedHost,
    patience: Patience,
  ) {
    this.plugin = plugin
    this.options = options
    this.addressOption = addressOption
    this.host = host
    this.#provider = provider
    this.#patience = patience
  }

  get chats(): boolean {
    return typeof this.#provider.chat === 'function'
  }

  get namesModels(): boolean {
    return typeof this.#provider.models === 'function'
  }

  get methods(): string[] {
    return METHODS.filter((name) => typeof this.#provider[name] === 'function')
  }

  /** Sends a request. The caller reads the answer. */
  async ask(request: TestRequest, signal: AbortSignal): Promise<Answering> {
    const raw: ChatChunk[] = []
    const { model, options } = request
    // The request is frozen as in the gateway: a provider that changes its input is a failure.
    const input = deepFrozen(request.input)
    const envelope = { ...request.envelope, newCallId: counted('call_') }
    const { log } = this.host
    const requestId = 'req_test'
    const answer = await this.#provider.chat!({ input, model, options, requestId, signal, log })
    const streamed = Symbol.asyncIterator in answer
    const flow = streamed ? toFlow(answer) : flowOf(toChunk(answer))
    const seen = {
      push(chunk: ChatChunk, emit: (chunk: ChatChunk) => void) {
        raw.push(chunk)
        emit(chunk)
      },
    }
    const normal = new ChatAnswer(envelope)
    const parts = flow.through(seen).through<AnswerChunk>({
      push: (chunk: ChatChunk, emit) => normal.push(chunk, emit),
      end: (emit) => normal.end(emit),
    })
    return { parts, raw, streamed }
  }

  /**
   * Sends a request and reads the whole answer. Never throws: errors are part of the outcome.
   * @param most the most parts that the answer may have
   */
  async outcome(request: TestRequest, most = MOST_PARTS): Promise<Outcome> {
    const chunks: AnswerChunk[] = []
    const client = new AbortController()
    let raw: readonly ChatChunk[] = []
    let error: unknown
    try {
      this.#patience.throwIfOver()
      await this.#patience.wait(
        (async () => {
          const answering = await this.ask(request, client.signal)
          raw = answering.raw
          for (let last = false; !last;) {
            const batch = await answering.parts.next()
            chunks.push(...batch.parts)
            if (raw.length > most) throw new StalledError('no end of the answer', this.#patience.ms)
            last = batch.last || client.signal.aborted
          }
        })(),
        'no end of the answer',
      )
    } catch (thrown) {
      error = thrown ?? new Error(`${String(thrown)} was thrown`)
      this.thrown.push(error)
    } finally {
      client.abort()
    }
    const usage = raw.findLast((chunk) => chunk.usage)?.usage ?? undefined
    return { raw, chunks, completion: collect(chunks), usage, error }
  }

  /** Asks a method that answers at once. @param read reads the answer as the gateway does */
  async whole(
    name: 'embed' | 'rerank' | 'moderate',
    { input, model, options }: Pick<TestRequest, 'model' | 'options'> & { readonly input: object },
    read: (answer: unknown) => unknown,
  ): Promise<Pick<Outcome, 'error'> & { readonly answer?: unknown }> {
    const client = new AbortController()
    const { signal } = client
    const { log } = this.host
    const request = { input: deepFrozen(input), model, options, requestId: 'req_test', signal, log }
    let answer: unknown
    try {
      // The sample has the form of the method, which its type does not say.
      const method = this.#provider[name] as (input: typeof request) => Promise<unknown>
      const asking = (async () => method.call(this.#provider, request))()
      answer = await this.#patience.wait<unknown>(asking, 'no answer')
      read(answer)
      return { error: undefined }
    } catch (thrown) {
      const error = thrown ?? new Error(`${String(thrown)} was thrown`)
      this.thrown.push(error)
      return { error, answer }
    } finally {
      client.abort()
    }
  }

  /** Asks for the models. @throws what the provider throws */
  async models(signal: AbortSignal): Promise<unknown> {
    return this.#provider.models!(signal)
  }

  /** The same, with an error as part of the outcome, as `outcome` has it. */
  async askedForModels(): Promise<Pick<Outcome, 'error'> & { readonly models?: unknown }> {
    const client = new AbortController()
    try {
      const asking = this.models(client.signal)
      const models = await this.#patience.wait(asking, 'no list of models')
      return { error: undefined, models }
    } catch (thrown) {
      const error = thrown ?? new Error(`${String(thrown)} was thrown`)
      this.thrown.push(error)
      return { error }
    } finally {
      client.abort()
    }
  }

  /** Closes the provider and its connections. @throws StalledError, or what the provider throws */
  async close(): Promise<void> {
    try {
      const closing = (async () => this.#provider.close?.())()
      await this.#patience.waitOnce(closing, 'it did not close')
    } finally {
      await this.host.close()
    }
  }
}

function counted(prefix: string): () => string {
  let count = 0
  return () => `${prefix}${count++}`
}
