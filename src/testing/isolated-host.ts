/** What a provider under test gets to see of the gateway, watched. */
import { createConsola, type ConsolaInstance } from 'consola'
import type { Host, UpstreamRequest } from '../plugin.ts'
import { createHost, type ClosableHost } from '../upstream/host.ts'

const LIMIT_MS = 60_000

/** A host that lets nobody be asked but one vendor. Whoever makes one closes it. */
export class IsolatedHost {
  readonly requests: UpstreamRequest[] = []
  readonly elsewhere = new Set<string>()
  readonly logged: string[] = []
  readonly log: ConsolaInstance
  readonly #origin: string
  readonly #owned: ClosableHost[] = []
  readonly #over = new AbortController()

  constructor(url: string) {
    this.#origin = new URL(url).origin
    const log = ({ args }: { args: unknown[] }) => void this.logged.push(args.map(textOf).join(' '))
    this.log = createConsola({ level: 5, reporters: [{ log }], throttle: 0 })
  }

  hostOf(name: string): Host {
    const owned = createHost(
      name,
      {
        timeoutMs: LIMIT_MS,
        firstPartTimeoutMs: LIMIT_MS,
        idleTimeoutMs: LIMIT_MS,
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
        // A provider that keeps no signal, or another one, must not outlive its test.
        const signal = AbortSignal.any([request.signal ?? [], this.#over.signal].flat())
        return owned.host.request({ ...request, signal })
      },
      http: owned.host.http.create({
        onRequest: ({ request }) =>
          this.#check(typeof request === 'string' ? request : request.url),
      }),
    }
  }

  async close(): Promise<void> {
    this.#over.abort(new Error('the test is over'))
    for (const { close } of this.#owned) await close()
  }

  #check(url: string): void {
    const { origin } = new URL(url)
    if (origin === this.#origin) return
    this.elsewhere.add(origin)
    throw new Error('a test asks nobody but the vendor it was given')
  }
}

function textOf(value: unknown): string {
  if (value instanceof Error) return value.stack ?? value.message
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value))
}
