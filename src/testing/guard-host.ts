/** What a guard under test gets to see of a gateway. */
import { createConsola } from 'consola'
import { UpstreamFailure } from '../errors/errors.ts'
import { compilePatterns } from '../patterns/patterns.ts'
import { inTurns } from '../patterns/time-slice.ts'
import type { ChatInput, ChatCompletion, GuardHost } from '../plugin.ts'
import { createHost } from '../upstream/host.ts'

/** Speaks for every model that a guard asks: a text, or a whole answer. */
export type FakeModel = (request: ChatInput, model: string) => string | ChatCompletion

const LIMITS = {
  timeoutMs: 60_000,
  firstPartTimeoutMs: 60_000,
  idleTimeoutMs: 60_000,
  connections: 16,
}

/** Whoever makes one closes it. */
export class TestHost {
  /** Questions to models, and requests. */
  asked = 0
  readonly #script: FakeModel | undefined
  readonly #over = new AbortController()
  readonly #closing: (() => Promise<void>)[] = []
  #down = false

  constructor(script: FakeModel | undefined) {
    this.#script = script
  }

  get signal(): AbortSignal {
    return this.#over.signal
  }

  /** Whoever is asked meanwhile cannot be reached. */
  async whileDown<T>(run: () => Promise<T>): Promise<T> {
    this.#down = true
    try {
      return await run()
    } finally {
      this.#down = false
    }
  }

  host(name: string): GuardHost {
    const log = createConsola({ level: -999 })
    const owned = createHost(name, LIMITS, log)
    this.#closing.push(owned.close)
    const cached = new Map<string, unknown>()
    const reach = () => {
      this.asked++
      if (this.#down) throw new UpstreamFailure('upstream_error', 'Nobody is there.')
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
        const said = this.#script?.(request, model)
        if (said === undefined) throw new Error(`it asked ${model}, and nobody was to speak for it`)
        return typeof said === 'string' ? completionOf(said) : said
      },
      compilePatterns: (patterns) => compilePatterns(patterns),
      inTurns: (steps, { signal }) => inTurns(steps, () => signal.throwIfAborted()),
      cache: {
        get: ({ accountId }, key) => cached.get(`${accountId}\n${key}`),
        set: ({ accountId }, key, value) => void cached.set(`${accountId}\n${key}`, value),
      },
    }
  }

  async close(): Promise<void> {
    this.#over.abort(new Error('the test is over'))
    for (const close of this.#closing) await close()
  }
}

function completionOf(content: string): ChatCompletion {
  return { choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }] }
}
