/** The connections of one plugin instance: one dispatcher for each origin. */
import { Dispatcher } from 'undici'
import { inTime } from '../lifetime/scope.ts'
import type { EgressRoute, OpenedWay } from './egress.ts'

interface Target extends OpenedWay {
  readonly url: string
  readonly origin: string
  readonly path: string
}

const CLOSE_MS = 5_000
/** How long destroyed connections have to end. */
const DESTROY_MS = 1_000

/** Opens the connections to each origin on first use. Its owner closes it. */
export class Pools {
  readonly #route: EgressRoute
  readonly #options: Parameters<EgressRoute['open']>[1]
  readonly #opened = new Map<string, OpenedWay>()
  /** The last target: most plugins send all their requests to one address. */
  #last: Target | undefined

  /** @param onError receives errors that belong to no request */
  constructor(route: EgressRoute, connections: number, onError: (error: unknown) => void) {
    this.#route = route
    this.#options = { connections, onError }
  }

  /** @throws an error of undici when the origin is not a valid URL */
  targetOf(url: string): Target {
    if (this.#last?.url === url) return this.#last
    const end = url.slice(url.indexOf('://') + 3).search(/[/?]/)
    const at = end < 0 ? url.length : url.indexOf('://') + 3 + end
    const [origin, rest] = [url.slice(0, at), url.slice(at)]
    const path = rest.startsWith('/') ? rest : `/${rest}`
    return (this.#last = { url, origin, path, ...this.openedTo(origin) })
  }

  openedTo(origin: string): OpenedWay {
    let opened = this.#opened.get(origin)
    if (!opened) {
      opened = this.#route.open(origin, this.#options)
      this.#opened.set(origin, opened)
    }
    return opened
  }

  /** Requests that were abandoned, and their connections, end after {@link CLOSE_MS}. @throws the error that `late` makes */
  async close(late: () => Error): Promise<void> {
    const open = [...this.#opened.values()].map(({ dispatcher }) => dispatcher)
    const closing = Promise.all(open.map((one) => one.close()))
    try {
      await inTime(closing, CLOSE_MS, () => new Error('requests are still running'))
    } catch {
      await inTime(Promise.all(open.map((one) => one.destroy())), DESTROY_MS, late)
    }
  }
}

/** The pools as what undici's `fetch` sends with. */
export class PoolsDispatcher extends Dispatcher {
  readonly #pools: Pools

  constructor(pools: Pools) {
    super()
    this.#pools = pools
  }

  override dispatch(
    options: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
  ): boolean {
    const { dispatcher } = this.#pools.openedTo(String(options.origin))
    return dispatcher.dispatch(options, handler)
  }
}
