/** Shows an author the calls, requests and answers of a plugin: a wrapper of the plugin. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { UpstreamFailure } from '../errors/errors.ts'
import type { AnyPlugin } from '../gateway/plugin-code.ts'
import type {
  CheckProgress,
  Flow,
  GuardHost,
  OutputCheck,
  TextItem,
  UpstreamRequest,
} from '../plugin.ts'
import { toFlow } from '../stream/flow.ts'
import { placeIn } from './code-frame.ts'
import { describeError } from './report.ts'
import { redactSecrets } from './secrets.ts'

export interface TracedCall {
  readonly title: string
  readonly lines: readonly string[]
  readonly end: string
}

export interface TraceOptions {
  readonly instance: string
  readonly folder: string
  readonly secrets: readonly string[]
  readonly stack: boolean
  readonly show: (call: TracedCall) => void
  readonly withHost?: (host: any) => any
}

const MAX_CHARACTERS = 500
const MAX_LINES = 40
/** Members that answer no question. */
const UNTRACED = new Set(['close', 'takes', 'asks', 'questions', 'logIn'])

const current = new AsyncLocalStorage<Trace>()

export function traced<P extends AnyPlugin>(plugin: P, options: TraceOptions): P {
  return {
    ...plugin,
    async setup(valid: any, host: any) {
      const made = await plugin.setup(valid, tracedHost(options.withHost?.(host) ?? host) as never)
      return tracedMethods(made, (name) => new Trace(name, options))
    },
  }
}

class Trace {
  readonly #method: string
  readonly #options: TraceOptions
  readonly #lines: string[] = []
  readonly #begun = performance.now()
  #omitted = 0
  #ended = false
  #works = ''
  #asked = ''
  #events = 0

  constructor(method: string, options: TraceOptions) {
    this.#method = method
    this.#options = options
  }

  /** The meaning of an answer without a value. */
  get nothing(): string {
    return this.#method === 'send' ? 'nothing: all has arrived' : 'nothing: it passes'
  }

  note(what: string, value: unknown): void {
    if (this.#lines.length < MAX_LINES) this.#lines.push(`${what.padEnd(5)} ${this.#shown(value)}`)
    else this.#omitted++
  }

  sent({ method = 'POST', url, body }: UpstreamRequest): void {
    const { pathname } = new URL(url)
    this.#asked = `${method} ${pathname}`
    const text = typeof body === 'string' ? body : body ? 'bytes' : ''
    this.note('sent', `${method} ${url} ${text}`)
  }

  came(status: number, type = 'no content-type'): void {
    this.#asked += ` ${status}`
    this.note('came', `${status} ${type}`)
  }

  event(value: unknown): void {
    this.#events++
    this.#works = `event ${this.#events}: ${this.#shown(value)}`
    this.note('event', value)
  }

  ended(): void {
    this.#end('ended')
  }

  givenUp(): void {
    this.#end('given up')
  }

  failed(error: unknown): void {
    if (UpstreamFailure.is(error)) {
      const { retryAfterMs: wait } = error
      const again = wait === undefined ? '' : `, to be asked again in ${wait / 1000} s`
      return this.#end(`failed: ${describeError(error)}${again}`)
    }
    const { folder, stack, instance } = this.#options
    const where = [this.#asked, this.#works].filter(Boolean)
    const lines = [
      `plugin ${instance}, ${this.#method}: ${describeError(error)}`,
      ...placeIn(error, folder, stack),
      ...where.map((text) => `    ${text}`),
    ]
    this.#end(lines.join('\n'))
  }

  #end(how: string): void {
    if (this.#ended) return
    this.#ended = true
    const omitted = this.#omitted > 0 ? [`      ${this.#omitted} more`] : []
    const took = `${Math.round(performance.now() - this.#begun)} ms`
    const { instance, secrets, show } = this.#options
    show({
      title: `${instance}, ${this.#method}`,
      lines: [...this.#lines, ...omitted],
      end: redactSecrets(how.includes('\n') ? how : `${how}, ${took}`, secrets),
    })
  }

  #shown(value: unknown): string {
    const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value))
    const hidden = redactSecrets(text.slice(0, 2 * MAX_CHARACTERS), this.#options.secrets)
    return hidden.length > MAX_CHARACTERS ? `${hidden.slice(0, MAX_CHARACTERS)}…` : hidden
  }
}

function tracedMethods<T extends object>(made: T, begin: (name: string) => Trace): T {
  return new Proxy(made, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name)
      if (typeof member !== 'function') return member
      if (typeof name !== 'string' || UNTRACED.has(name)) return member.bind(target)
      return (...args: unknown[]) =>
        tracedCall(begin(name), () => Reflect.apply(member, target, args), args)
    },
  })
}

/** Calls, and shows the result: at once, later, or part by part. */
function tracedCall(trace: Trace, run: () => unknown, args: readonly unknown[]): unknown {
  const [first] = args as [{ input?: unknown; signal?: AbortSignal }]
  const item = (args[1] as { item?: TextItem } | undefined)?.item
  if (item) trace.note('of', `the ${item.side}, ${item.id}`)
  trace.note('got', questionIn(first))
  const second = args[1] as AbortSignal | { signal?: AbortSignal } | undefined
  const signal = first?.signal ?? (second instanceof AbortSignal ? second : second?.signal)
  try {
    const answer = current.run(trace, run)
    if (answer instanceof Promise || isCheck(answer)) {
      signal?.addEventListener('abort', () => trace.givenUp(), { once: true })
    }
    if (!(answer instanceof Promise)) return given(trace, answer)
    return answer.then(
      (value) => given(trace, value),
      (error: unknown) => {
        trace.failed(error)
        throw error
      },
    )
  } catch (error) {
    trace.failed(error)
    throw error
  }
}

/** The input of a request, the text of items or of a question, or the name of its kind. */
function questionIn(first: any): unknown {
  if (first?.input) return first.input
  if (typeof first?.text === 'function') return first.text(MAX_CHARACTERS)
  return Array.isArray(first) ? first.map((one) => one?.text ?? one) : first
}

function given(trace: Trace, answer: unknown): unknown {
  if (isSequence(answer)) {
    return toFlow(answer).through({
      push(part, emit) {
        trace.note('gave', part)
        emit(part)
      },
      end: () => trace.ended(),
      fail(error) {
        trace.failed(error)
        return error
      },
    })
  }
  if (isCheck(answer)) return tracedCheck(trace, answer)
  trace.note('gave', answer ?? trace.nothing)
  trace.ended()
  return answer
}

/** The check of a text that grows: its pieces are shown together. */
function tracedCheck(trace: Trace, check: OutputCheck): OutputCheck {
  const ask = (what: string, text: string, run: () => ReturnType<OutputCheck['end']>) => {
    trace.note(what, text)
    const seen = (progress: CheckProgress) => {
      trace.note('gave', progress)
      if (what === 'end' || progress?.verdict) trace.ended()
      return progress
    }
    try {
      const answer = current.run(trace, run)
      if (!(answer instanceof Promise)) return seen(answer as CheckProgress)
      return answer.then(seen, (error: unknown) => {
        trace.failed(error)
        throw error
      })
    } catch (error) {
      trace.failed(error)
      throw error
    }
  }
  return {
    push: (text) => ask('push', text, () => check.push(text)),
    end: () => ask('end', '', () => check.end()),
  }
}

function isCheck(answer: unknown): answer is OutputCheck {
  const { push, end } = (answer ?? {}) as Partial<OutputCheck>
  return typeof push === 'function' && typeof end === 'function'
}

/** The host, whose requests and answers are part of the call that makes them. */
function tracedHost(host: GuardHost): GuardHost {
  const observed = (flow: Flow<any>): Flow<any> => {
    const trace = current.getStore()
    if (!trace) return flow
    return flow.through({
      push(part, emit) {
        trace.event(part)
        emit(part)
      },
    })
  }
  return {
    ...host,
    async request(request) {
      const trace = current.getStore()
      trace?.sent(request)
      const response = await host.request(request)
      trace?.came(response.status, response.headers['content-type'])
      return response
    },
    async readJson(response, options) {
      const value: unknown = await host.readJson(response, options)
      current.getStore()?.event(value)
      return value
    },
    sse: (body) => observed(host.sse(body)),
    lines: (body: AsyncIterable<Uint8Array>, options?: any) => observed(host.lines(body, options)),
    async askModel(model, request, context) {
      const trace = current.getStore()
      trace?.note('asks', { model, ...request })
      const answer = await host.askModel(model, request, context)
      trace?.event(answer)
      return answer
    },
  }
}

function isSequence(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value
}
