/** The host of a guard under test. */
import { createConsola } from 'consola'
import { UpstreamFailure } from '../errors/errors.ts'
import { compilePatterns } from '../patterns/patterns.ts'
import { yieldIfDue } from '../patterns/time-slice.ts'
import type { ChatInput, ChatCompletion, GuardHost } from '../plugin.ts'
import { createHost } from '../upstream/host.ts'

/** Answers in place of a model: with a text, or a whole completion. */
export type FakeModel = (request: ChatInput, model: string) => string | ChatCompletion

const TIMEOUTS = {
  timeoutMs: 60_000,
  firstPartTimeoutMs: 60_000,
  idleTimeoutMs: 60_000,
  connections: 16,
}

/** Hosts for a guard under test. Counts requests, and can fail them. Its creator closes it. */
export class TestHost {
  /** Number of requests to models and services. */
  requestCount = 0
  readonly #fakeModel: FakeModel | undefined
  readonly #closed = new AbortController()
  readonly #closing: (() => Promise<void>)[] = []
  #unreachable = false

  constructor(fakeModel: FakeModel | undefined) {
    this.#fakeModel = fakeModel
  }

  /** Aborted when the test is over. */
  get signal(): AbortSignal {
    return this.#closed.signal
  }

  /** Fails all requests while `run` runs. */
  async whileUnreachable<T>(run: () => Promise<T>): Promise<T> {
    this.#unreachable = true
    try {
      return await run()
    } finally {
      this.#unreachable = false
    }
  }

  /** The host for a guard of this name. */
  host(name: string): GuardHost {
    const log = createConsola({ level: -999 })
    const owned = createHost(name, TIMEOUTS, log)
    this.#closing.push(owned.close)
    const cached = new Map<string, unknown>()
    const reach = () => {
      this.requestCount++
      if (this.#unreachable)
        throw new UpstreamFailure('upstream_error', 'The service cannot be reached.')
    }
    return {
      ...owned.host,
      request: async (request) => {
        reach()
        return owned.host.request(request)
      },
      http: owned.host.http.create({ onRequest: reach }),
      askModel: async (model, request) => {
        reach()
        const said = this.#fakeModel?.(request, model)
        if (said === undefined)
          throw new Error(
            `it asked ${model}, but the test has no option "ask" that answers for models`,
          )
        return typeof said === 'string' ? completionOf(said) : said
      },
      compilePatterns: (patterns) => compilePatterns(patterns),
      yieldIfDue: ({ signal }) => yieldIfDue(() => signal.throwIfAborted()),
      cache: {
        get: ({ accountId }, key) => cached.get(`${accountId}\n${key}`),
        set: ({ accountId }, key, value) => void cached.set(`${accountId}\n${key}`, value),
      },
    }
  }

  /** Aborts all requests and closes all connections. */
  async close(): Promise<void> {
    this.#closed.abort(new Error('the test is over'))
    for (const close of this.#closing) await close()
  }
}

function completionOf(content: string): ChatCompletion {
  return { choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }] }
}
