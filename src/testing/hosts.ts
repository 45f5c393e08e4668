/** The hosts of plugins under test. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { createConsola, type ConsolaInstance } from 'consola'
import { UpstreamFailure } from '../errors/errors.ts'
import { compilePatterns } from '../patterns/patterns.ts'
import { yieldIfDue } from '../patterns/time-slice.ts'
import type {
  ChatCompletion,
  ChatInput,
  GuardHost,
  Host,
  UpstreamRequest,
  UpstreamResponse,
} from '../plugin.ts'
import { createHost } from '../upstream/host.ts'
import { FILES_AT } from './conversations/media.ts'

/** Replaces a model: answers with a text, or a whole completion. */
export type FakeModel = (request: ChatInput, model: string) => string | ChatCompletion

const TIMEOUT_MS = 60_000
const SETTINGS = {
  timeoutMs: TIMEOUT_MS,
  firstPartTimeoutMs: TIMEOUT_MS,
  idleTimeoutMs: TIMEOUT_MS,
  connections: 16,
}

const hostCalls = new AsyncLocalStorage<true>()

/** Whether the running code was called by a method of a host, and not by the plugin itself. */
export function inHostCall(): boolean {
  return hostCalls.getStore() === true
}

/** The function, whose connections are then those of the host. */
function ofHost<F extends (...args: any[]) => any>(call: F): F {
  return new Proxy(call, {
    apply: (target, self, args) => hostCalls.run(true, () => Reflect.apply(target, self, args)),
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name)
      return typeof member === 'function' && (name === 'raw' || name === 'native')
        ? ofHost(member as F)
        : member
    },
  })
}

abstract class WatchedHosts {
  /** It is called with each response of `request`, before the plugin has it. */
  onResponse: ((response: UpstreamResponse) => void) | undefined
  readonly #closed = new AbortController()
  readonly #closing: (() => Promise<void>)[] = []

  get signal(): AbortSignal {
    return this.#closed.signal
  }

  async close(): Promise<void> {
    this.#closed.abort(new Error('the test is over'))
    for (const close of this.#closing) await close()
  }

  /** @param look called with each request; refuses it by throwing */
  protected create(
    name: string,
    log: ConsolaInstance,
    look: (url: string, request: UpstreamRequest) => void,
  ): Host {
    const { host, close } = createHost(name, SETTINGS, log)
    this.#closing.push(close)
    return {
      ...host,
      request: ofHost(async (request) => {
        look(request.url, request)
        // A request without the signal of its call still has to end with the test.
        const signal = AbortSignal.any([request.signal ?? [], this.signal].flat())
        const response = await host.request({ ...request, signal })
        this.onResponse?.(response)
        return response
      }),
      download: ofHost(host.download),
      http: ofHost(
        host.http.create({
          onRequest: ({ request, options }) => {
            const url = typeof request === 'string' ? request : request.url
            const { method = 'GET', headers, body, signal } = options
            const sent = { url, method, headers: Object.fromEntries(headers), body, signal }
            look(url, sent as UpstreamRequest)
            options.signal = AbortSignal.any([signal ?? [], this.signal].flat())
          },
        }),
      ),
    }
  }
}

/**
 * A host that allows requests to one origin only, and records requests and log lines. Downloads are those of the difficult
 * conversations. Its creator closes it.
 */
export class IsolatedHost extends WatchedHosts {
  /** The number of requests of `request` and `http`. */
  requestCount = 0
  /** It is called with the signal of each request. */
  onRequest: ((signal: AbortSignal | undefined) => void) | undefined
  readonly refusedOrigins = new Set<string>()
  readonly logLines: string[] = []
  readonly log: ConsolaInstance
  readonly #origin: string | undefined

  /** @param url an address of the allowed origin; without it every origin is allowed */
  constructor(url: string | undefined) {
    super()
    this.#origin = url === undefined ? undefined : new URL(url).origin
    const log = ({ args }: { args: unknown[] }) =>
      void this.logLines.push(args.map(textOf).join(' '))
    this.log = createConsola({ level: 5, reporters: [{ log }], throttle: 0 })
  }

  hostOf(name: string): Host {
    const host = this.create(name, this.log, (url, request) => {
      const { origin } = new URL(url)
      if (this.#origin !== undefined && origin !== this.#origin) {
        this.refusedOrigins.add(origin)
        throw new Error('a provider under test can send requests to its test vendor only')
      }
      this.requestCount++
      this.onRequest?.(request.signal)
    })
    return {
      ...host,
      async download(url, signal, options) {
        const file = FILES_AT[url]
        if (!file) return host.download(url, signal, options)
        const [contentType, base64] = file
        return { contentType, bytes: Buffer.from(base64, 'base64') }
      },
    }
  }
}

/** Hosts for a guard under test. Counts requests, and can fail them. Its creator closes it. */
export class TestHost extends WatchedHosts {
  requestCount = 0
  model: string | undefined
  readonly #origin: string | undefined
  readonly #fakeModel: FakeModel | undefined
  #unreachable = false

  /** @param url an address of the only allowed origin; without it every origin is allowed */
  constructor(url: string | undefined, fakeModel: FakeModel | undefined) {
    super()
    this.#origin = url === undefined ? undefined : new URL(url).origin
    this.#fakeModel = fakeModel
  }

  async whileUnreachable<T>(run: () => Promise<T>): Promise<T> {
    this.#unreachable = true
    try {
      return await run()
    } finally {
      this.#unreachable = false
    }
  }

  hostOf(name: string): GuardHost {
    const cached = new Map<string, unknown>()
    const reach = () => {
      this.requestCount++
      if (!this.#unreachable) return
      throw new UpstreamFailure('upstream_error', 'The service cannot be reached.')
    }
    return {
      ...this.create(name, createConsola({ level: -999 }), (url) => {
        reach()
        if (!this.#origin || new URL(url).origin === this.#origin) return
        throw new Error(`a guard under test can ask its test service only, not ${url}`)
      }),
      askModel: async (model, request) => {
        reach()
        const answer = this.#fakeModel?.(request, model) ?? this.model
        if (answer === undefined) {
          throw new Error(
            `it asked ${model}, but neither the case has a "model" nor the test an option "ask"`,
          )
        }
        return typeof answer === 'string' ? completionOf(answer) : answer
      },
      compilePatterns: (patterns) => compilePatterns(patterns),
      yieldIfDue: ({ signal }) => yieldIfDue(() => signal.throwIfAborted()),
      cache: {
        get: ({ accountId }, key) => cached.get(`${accountId}\n${key}`),
        set: ({ accountId }, key, value) => void cached.set(`${accountId}\n${key}`, value),
      },
    }
  }
}

function textOf(value: unknown): string {
  if (value instanceof Error) return value.stack ?? value.message
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value))
}

function completionOf(content: string): ChatCompletion {
  return { choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }] }
}
