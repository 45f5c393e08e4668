/** The host of a provider under test. */
import { createConsola, type ConsolaInstance } from 'consola'
import type { Host, UpstreamRequest } from '../plugin.ts'
import { createHost, type ClosableHost } from '../upstream/host.ts'

const TIMEOUT_MS = 60_000

/** A host that allows requests to one origin only, and records requests and log lines. Its creator closes it. */
export class IsolatedHost {
  /** Requests made with `host.request`. */
  readonly requests: UpstreamRequest[] = []
  /** Other origins to which the provider tried to send requests. */
  readonly refusedOrigins = new Set<string>()
  readonly logLines: string[] = []
  readonly log: ConsolaInstance
  readonly #origin: string
  readonly #owned: ClosableHost[] = []
  readonly #closed = new AbortController()

  /** @param url an address of the allowed origin */
  constructor(url: string) {
    this.#origin = new URL(url).origin
    const log = ({ args }: { args: unknown[] }) =>
      void this.logLines.push(args.map(textOf).join(' '))
    this.log = createConsola({ level: 5, reporters: [{ log }], throttle: 0 })
  }

  /** The host for a provider of this name. */
  hostOf(name: string): Host {
    const owned = createHost(
      name,
      {
        timeoutMs: TIMEOUT_MS,
        firstPartTimeoutMs: TIMEOUT_MS,
        idleTimeoutMs: TIMEOUT_MS,
        connections: 16,
      },
      this.log,
    )
    this.#owned.push(owned)
    return {
      ...owned.host,
      request: async (request) => {
        this.#check(request.url)
        this.requests.push(request)
        // A request without the signal of its call still has to end with the test.
        const signal = AbortSignal.any([request.signal ?? [], this.#closed.signal].flat())
        return owned.host.request({ ...request, signal })
      },
      http: owned.host.http.create({
        onRequest: ({ request }) =>
          this.#check(typeof request === 'string' ? request : request.url),
      }),
    }
  }

  /** Aborts all requests and closes all connections. */
  async close(): Promise<void> {
    this.#closed.abort(new Error('the test is over'))
    for (const { close } of this.#owned) await close()
  }

  #check(url: string): void {
    const { origin } = new URL(url)
    if (origin === this.#origin) return
    this.refusedOrigins.add(origin)
    throw new Error('a provider under test can send requests to its test vendor only')
  }
}

function textOf(value: unknown): string {
  if (value instanceof Error) return value.stack ?? value.message
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value))
}
